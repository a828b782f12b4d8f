"""Finding what was handed in: which files, of whom, for which assignment, when."""

from __future__ import annotations

import csv
import errno
import hashlib
import io
import os
import re
import stat
from collections import Counter
from dataclasses import dataclass
from datetime import MAXYEAR, MINYEAR, UTC, datetime
from pathlib import Path

from .submissions import LARGEST, Unreadable, grade_id, parse_submission

__all__ = ["HandIn", "find_hand_ins", "safe_names", "shown"]

TIMES = "times.csv"
# Controls, marks of direction, and bytes of a file name that are no UTF-8.
_ODD = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)

_HASHED = re.compile(r"_[0-9a-f]{10}$", re.IGNORECASE)


@dataclass(frozen=True)
class HandIn:
    """One file of one student for one assignment.

    student: the name, as it is shown
    sha: of its content; files with more than LARGEST bytes are told apart by name, size and
    time
    time: when it was handed in, with a zone
    shared: it holds cells of several assignments, and its name is that of none: it may have been
    handed in for another one
    file: the path in the folder of all hand-ins, as it is shown
    """

    student: str
    assignment: str
    path: Path
    sha: str
    time: datetime
    shared: bool = False
    file: str = ""

    @property
    def name(self) -> str:
        """The name of the file, as it is shown."""
        return shown(self.path.name)

    def content(self) -> bytes:
        """The bytes, but never more than one above LARGEST. OSError when they are no longer those
        that were found: it was not this student who handed in what stands there now, or not at this
        time."""
        content, sha, _ = _read(self.path)
        if sha != self.sha:
            raise OSError(errno.ESTALE, "it has changed since the round began")
        return content


def find_hand_ins(folder: str | Path, assignments) -> tuple[list[HandIn], list[str], list[str]]:
    """The notebooks in `folder`: STUDENT/….ipynb at any depth and under any name, or STUDENT.ipynb.

    A notebook belongs to the assignments whose cells it holds; one that cannot be read, to the one
    in its name. The time is that of the file, or of the line for it in times.csv (columns: file,
    time). Returns (hand-ins, all students, remarks on files that were left out and on lines of
    times.csv without a file). Raises ValueError when the folder is missing or nobody is in it, and
    for a times.csv that cannot be read."""
    folder = Path(folder)
    if not folder.is_dir():
        raise ValueError(
            f"submissions: {folder} is {'a file' if folder.exists() else 'not there'}, expected "
            f"a folder"
        )
    times, found, remarks, students, looked = _times(folder), [], [], set(), set()

    def add(student, path):
        looked.add(shown(str(path.relative_to(folder))))
        try:
            _add(found, remarks, student, path, folder, assignments, times)
        except OSError as error:
            remarks.append(
                f"{path.relative_to(folder)}: cannot be read ({error.strerror}), left out"
            )

    for entry in sorted(folder.iterdir()):
        # what macOS puts beside the files of an archive
        if entry.name.startswith(".") or entry.name in (TIMES, "__MACOSX"):
            continue
        if entry.is_symlink():
            remarks.append(f"{entry.name}: a link, left out")
        elif entry.is_dir():
            student = shown(entry.name)
            students.add(student)
            for path in _files(entry, remarks, folder):
                add(student, path)
        elif entry.suffix.lower() != ".ipynb":
            remarks.append(f"{entry.name}: no notebook (.ipynb), left out")
        elif _is_file(entry, remarks, folder):
            student = shown(_student(entry.stem, assignments))
            students.add(student)
            add(student, entry)
    remarks = [shown(remark) for remark in remarks]
    remarks += [
        f"{TIMES}: {name}: there is no notebook of this name, expected its path in {folder}, as "
        f"STUDENT/NOTEBOOK.ipynb"
        for name in times
        if name not in looked
    ]
    if not students:
        raise ValueError(
            f"submissions: {folder} holds no student: expected a folder for each, "
            f"STUDENT/NOTEBOOK.ipynb"
        )
    return found, sorted(students), remarks


def shown(name: str) -> str:
    """The name of a student or file without what a terminal, a page or a data base could not
    take as it is; that is written out, as \\xeb.
    """

    def written(one):
        code = ord(one[0])
        return (
            f"\\x{code - 0xDC00:02x}"
            if 0xDC80 <= code <= 0xDCFF
            else one[0].encode("unicode_escape").decode()
        )

    return _ODD.sub(written, name)


def safe_names(students) -> dict[str, str]:
    """Names that nbgrader and every file system take, one for each student.

    Whose a name is depends on no other student: a folder of feedback must never become another's.
    So a name that had to be changed ends with a part of its hash, as does one that looks as if it
    did, and those that differ in capitals alone."""
    plain = {
        student: re.sub(r"[^A-Za-z0-9_-]+", "_", student).strip("_")[:80] or "student"
        for student in students
    }
    same = Counter(student.lower() for student, name in plain.items() if name == student)
    return {
        student: name
        if name == student and same[name.lower()] == 1 and not _HASHED.search(name)
        else f"{name}_{hashlib.sha256(student.encode()).hexdigest()[:10]}"
        for student, name in plain.items()
    }


def _files(student, remarks, folder):
    """The notebooks in a student's folder. Links are not followed: they may lead to anything."""

    def closed(error):
        remarks.append(
            f"{Path(error.filename).relative_to(folder)}: cannot be read ({error.strerror}), "
            f"left out"
        )

    others = []
    for here, folders, files in os.walk(student, followlinks=False, onerror=closed):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(name for name in files if not name.startswith(".")):
            path = Path(here) / name
            if path.suffix.lower() != ".ipynb":
                others.append(str(path.relative_to(student)))
            elif _is_file(path, remarks, folder):
                yield path
    if others:
        more = f" and {len(others) - 5} more" if len(others) > 5 else ""
        remarks.append(
            f"{student.name}: {', '.join(others[:5])}{more}: no notebook (.ipynb), left out"
        )


def _is_file(path, remarks, folder):
    """Whether it may be read without waiting and without leading elsewhere; if not, a remark
    says so.
    """
    try:
        if stat.S_ISREG(path.lstat().st_mode):
            return True
    except OSError as error:  # it may go while the folder is looked through
        remarks.append(f"{path.relative_to(folder)}: cannot be read ({error.strerror}), left out")
        return False
    remarks.append(f"{path.relative_to(folder)}: a link or another thing that is no file, left out")
    return False


def _add(found, remarks, student, path, folder, assignments, times):
    name = str(path.relative_to(folder))
    content, sha, changed = _read(path)
    when = times.get(shown(name)) or _date(changed)
    if when is None:
        remarks.append(
            f"{name}: its time is no date ({changed:g} seconds since 1970), left out; give it in "
            f"{TIMES}"
        )
        return
    named = _named(path.stem, assignments)
    names = _belongs(content, named, assignments)
    if not names:
        remarks.append(
            f"{name}: belongs to no assignment ({', '.join(one.name for one in assignments)}), "
            f"left out"
        )
    found += [
        HandIn(student, one, path, sha, when, len(names) > 1 and one not in named, file=shown(name))
        for one in names
    ]


def _read(path):
    """(content, sha, time of change) of a file; of one above LARGEST only the begin. OSError for
    whatever is no file.

    Between two looks anything may have come into its place: a link is not followed, it may lead to
    the work of another student, and a pipe is not waited for."""
    with open(
        path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK)
    ) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is no file")
        content = file.read(LARGEST + 1)
    known = (
        content
        if len(content) <= LARGEST
        else f"{path.name} {status.st_size} {status.st_mtime_ns}".encode(errors="replace")
    )
    return content, hashlib.sha256(known).hexdigest(), status.st_mtime


def _date(seconds):
    """The time of a file with its zone; None for one that is none, as an archive may give it.

    The last years are none in other zones.
    """
    try:
        when = datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return when if MINYEAR < when.year < MAXYEAR else None


def _named(stem, assignments):
    """The names of the assignments that stand in that of a file."""
    spans = {
        one.name: [
            match.span()
            for match in re.finditer(
                rf"(?<![a-z0-9]){re.escape(one.name)}(?![a-z])", stem, re.IGNORECASE
            )
        ]
        for one in assignments
    }

    def inside(name, span):  # "memory" in "documents_and_memory"
        return any(
            low <= span[0] and span[1] <= high and high - low > span[1] - span[0]
            for other in spans
            if other != name
            for low, high in spans[other]
        )

    return [name for name, found in spans.items() if not all(inside(name, span) for span in found)]


def _belongs(content, by_name, assignments):
    """The names of the assignments of which the notebook holds an answer, by cell names, else by
    functions, else by its own name.
    """
    readable = True
    try:
        cells = parse_submission(content).cells
        keys = {grade_id(cell) for cell in cells}
        code = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
    except Unreadable:
        keys, code, readable = set(), "", False
    holds = [
        one.name
        for one in assignments
        if any(task.key in keys or f"{task.key}-check" in keys for task in one.tasks)
    ]
    if holds:
        return [name for name in holds if name in by_name] or holds
    functions = set(re.findall(r"^def (\w+)", code, re.MULTILINE))
    holds = [one.name for one in assignments if functions & {task.function for task in one.tasks}]
    if holds or by_name:
        return [name for name in holds if name in by_name] or holds or by_name[-1:]
    return [assignments[0].name] if len(assignments) == 1 and not readable else []


def _student(stem, assignments):
    """Whose a file without a folder is: its name, without that of the assignment and a browser's
    (1).
    """
    name = re.sub(r"\s*\(\d+\)$", "", stem)
    for one in assignments:
        name = re.sub(
            rf"^{re.escape(one.name)}[\s_.-]+|[\s_.-]+{re.escape(one.name)}$",
            "",
            name,
            flags=re.IGNORECASE,
        )
    return name.strip() or stem


def _times(folder):
    path = folder / TIMES
    if not path.is_file():
        return {}
    found = {}
    try:
        rows = csv.DictReader(io.StringIO(path.read_text(encoding="utf-8-sig"), newline=""))
        for row in rows:
            try:
                when = datetime.fromisoformat(row["time"])
                if when.tzinfo is None:  # it would be another time on another computer
                    raise ValueError("no zone")
                found[shown(row["file"])] = when
            except (KeyError, TypeError, ValueError, OverflowError):
                raise ValueError(
                    f"{path}: line {rows.line_num}: expected the columns file and time, a time "
                    f"with its zone as 2027-01-31T23:59:00+01:00, "
                    f"got {dict(row)}"
                ) from None
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path}: line {error.object.count(10, 0, error.start) + 1}: expected UTF-8, got the "
            f"byte "
            f"0x{error.object[error.start]:02x}; save the table as CSV UTF-8"
        ) from None
    except csv.Error as error:
        raise ValueError(f"{path}: expected a table in CSV, got another thing ({error})") from None
    return found
