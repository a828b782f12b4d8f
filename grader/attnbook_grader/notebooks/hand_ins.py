"""Finding what was handed in: which files, of whom, for which assignment, when."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from collections import Counter
from dataclasses import dataclass
from datetime import MAXYEAR, MINYEAR, UTC, datetime
from pathlib import Path

from .layouts import named, owned_files, shown
from .roster import Roster, read_table
from .submissions import LARGEST, Unreadable, grade_id, parse_submission

__all__ = ["HandIn", "find_hand_ins", "safe_names", "shown"]

TIMES = "times.csv"
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
    late: what the learning platform says, whose files have the time of their download; None where
    the time says it
    """

    student: str
    assignment: str
    path: Path
    sha: str
    time: datetime
    shared: bool = False
    file: str = ""
    late: bool | None = None

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


def find_hand_ins(
    folder: str | Path, assignments, roster: Roster | None = None
) -> tuple[list[HandIn], list[str], list[str]]:
    """The notebooks in `folder`, in the layouts that `layouts.owned_files` knows.

    A notebook belongs to the assignments whose cells it holds; one that cannot be read, to the one
    in its name. The time is that of the file, or of the line for it in times.csv (columns: file,
    time). Returns (hand-ins, all students, those of the roster among them, remarks on files that
    were left out and on lines of times.csv without a file). Raises ValueError when the folder is
    missing or nobody is in it, and for a times.csv that cannot be read."""
    folder = Path(folder)
    if not folder.is_dir():
        raise ValueError(
            f"submissions: {folder} is {'a file' if folder.exists() else 'not there'}, expected "
            f"a folder"
        )
    times, found, remarks, looked = _times(folder), [], [], set()
    students = {one.label for one in roster.people} if roster else set()
    for owner, path in owned_files(folder, assignments, roster, remarks):
        students.add(owner.student)
        if path is None:
            continue
        looked.add(shown(str(path.relative_to(folder))))
        try:
            _add(found, remarks, owner, path, folder, assignments, times)
        except OSError as error:
            remarks.append(
                f"{path.relative_to(folder)}: cannot be read ({error.strerror}), left out"
            )
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


def _add(found, remarks, owner, path, folder, assignments, times):
    name = str(path.relative_to(folder))
    content, sha, changed = _read(path)
    when = times.get(shown(name)) or _date(changed)
    if when is None:
        remarks.append(
            f"{name}: its time is no date ({changed:g} seconds since 1970), left out; give it in "
            f"{TIMES}"
        )
        return
    by_name = named(owner.hint, assignments)
    names = _belongs(content, by_name, assignments)
    if not names:
        remarks.append(
            f"{name}: belongs to no assignment ({', '.join(one.name for one in assignments)}), "
            f"left out"
        )
    late = None if shown(name) in times else owner.late
    found += [
        HandIn(
            owner.student,
            one,
            path,
            sha,
            when,
            len(names) > 1 and one not in by_name,
            shown(name),
            late,
        )
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


def _times(folder):
    path = folder / TIMES
    if not path.is_file():
        return {}
    found = {}
    for line, row in read_table(path)[1]:
        try:
            when = datetime.fromisoformat(row["time"])
            if when.tzinfo is None:  # it would be another time on another computer
                raise ValueError("no zone")
            found[shown(row["file"])] = when
        except (KeyError, ValueError, OverflowError):
            raise ValueError(
                f"{path}: line {line}: expected the columns file and time, a time "
                f"with its zone as 2027-01-31T23:59:00+01:00, got {row}"
            ) from None
    return found
