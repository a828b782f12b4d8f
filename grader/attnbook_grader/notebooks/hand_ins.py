"""Finding what was handed in: which files, of whom, for which assignment, when."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
from collections import Counter
from dataclasses import dataclass
from datetime import MAXYEAR, MINYEAR, UTC, datetime
from pathlib import Path

from .layouts import named, owned_files
from .names import first_of, shown
from .reading import LARGEST, Unreadable, read_notebook
from .roster import Roster, read_table

__all__ = ["HandIn", "find_hand_ins", "safe_names"]

TIMES = "times.csv"
_HASHED = re.compile(r"_[0-9a-f]{10}$", re.IGNORECASE)


@dataclass(frozen=True)
class HandIn:
    """One file of one student for one assignment.

    student: the name, as it is shown
    sha: of the file
    time: when it was handed in, with a zone
    shared: it may have been handed in for another assignment: it holds cells of several, and its
    name is that of none, or lies in the folder of this one and holds none of its cells
    file: the path in the folder of all hand-ins, as it is shown
    late: what the learning platform says, whose files have the time of their download, of this
    assignment; None where the time says it
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

    @property
    def order(self) -> tuple:
        """By time; of one time, as after unpacking, "a.ipynb", "a (2).ipynb", "a (10).ipynb"."""
        parts = re.split(r"(\d+)", self.file.removesuffix(".ipynb"))
        return self.time, [int(one) if one.isdecimal() else one for one in parts]


def find_hand_ins(
    folder: str | Path,
    assignments,
    roster: Roster | None = None,
    notebooks: dict[str, bytes | str] | None = None,
) -> tuple[list[HandIn], list[str], list[str]]:
    """The notebooks in `folder`, in the layouts that `layouts.owned_files` knows.

    notebooks: by the hash of its file, each notebook as `reading.read_notebook` makes it, or why
    there is none. What is in it is not read again, and what is found is added.

    A notebook belongs to the assignment in whose folder its student lies; else to those whose cells
    it holds; one that cannot be read, to the one in its name. The time is that of the file, or of
    the line for it in times.csv (columns: file, time). Returns (hand-ins, all students, those of
    the roster among them, remarks on files that were left out and on lines of times.csv without a
    file). Raises ValueError when the folder is missing or nobody is in it, and for a times.csv that
    cannot be read."""
    folder = Path(folder)
    if not folder.is_dir():
        raise ValueError(
            f"submissions: {folder} is {'a file' if folder.exists() else 'not there'}, expected "
            f"a folder"
        )
    notebooks = {} if notebooks is None else notebooks
    times, found, remarks, looked, unsure = _times(folder), [], [], set(), []
    students = {one.label for one in roster.people} if roster else set()
    for owner, path in owned_files(folder, assignments, roster, remarks):
        students.add(owner.student)
        if path is None:
            continue
        looked.add(shown(str(path.relative_to(folder))))
        try:
            _add(found, remarks, owner, path, folder, assignments, times, notebooks, unsure)
        except OSError as error:
            remarks.append(
                f"{path.relative_to(folder)}: cannot be read ({error.strerror}), left out"
            )
    if unsure:
        remarks.append(
            f"{first_of(unsure)}: Canvas's names say whether they are late, but not for which "
            f"assignment, so the times of the files count. Put each download into a folder named "
            f"as its assignment, as {assignments[0].name}/"
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


def _add(found, remarks, owner, path, folder, assignments, times, notebooks, unsure):
    name = str(path.relative_to(folder))
    sha, changed = _read(path, notebooks)
    when = times.get(shown(name)) or _date(changed)
    if when is None:
        remarks.append(
            f"{name}: its time is no date ({changed:g} seconds since 1970), left out; give it in "
            f"{TIMES}"
        )
        return
    by_name = named(owner.hint, assignments)
    names = _belongs(notebooks[sha], by_name, assignments)
    shared = len(names) > 1 and not set(names) & set(by_name)
    if owner.assignment and (names or isinstance(notebooks[sha], str)):
        shared = bool(names) and owner.assignment not in names
        if shared:
            remarks.append(
                f"{name}: lies in the folder of {owner.assignment} and holds exercises of "
                f"{' and '.join(names)}; it is looked at for {owner.assignment} alone"
            )
        names = [owner.assignment]
    if not names:
        remarks.append(
            f"{name}: belongs to no assignment ({', '.join(one.name for one in assignments)}), "
            f"left out"
        )
    late = None if shown(name) in times else owner.late
    if late is not None and not owner.assignment and len(assignments) > 1:
        late = None
        unsure += [name] * any(one.due for one in assignments if one.name in names)
    found += [
        HandIn(owner.student, one, path, sha, when, shared, shown(name), late) for one in names
    ]


def _read(path, notebooks):
    """(hash, time of change) of a file, whose notebook is in `notebooks` from here on. OSError for
    whatever is no file.

    Between two looks anything may have come into its place: a link is not followed, it may lead to
    the work of another student, and a pipe is not waited for."""
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "it is no file")
        hash, left = hashlib.sha256(), LARGEST + 1
        while part := os.read(file, min(2**20, left)):
            hash.update(part)
            left -= len(part)
        if status.st_size > LARGEST:  # told apart from others that begin alike
            hash.update(f"{status.st_size} {status.st_mtime_ns}".encode())
        sha = hash.hexdigest()
        if sha not in notebooks:
            try:
                notebooks[sha] = read_notebook(file)
            except Unreadable as error:
                notebooks[sha] = str(error)
    finally:
        os.close(file)
    return sha, status.st_mtime


def _date(seconds):
    """The time of a file with its zone; None for one that is none, as an archive may give it.

    The last years are none in other zones.
    """
    try:
        when = datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None
    return when if MINYEAR < when.year < MAXYEAR else None


def _belongs(notebook, by_name, assignments):
    """The names of the assignments of which the notebook holds an answer, by cell names, else by
    functions, else by its own name.
    """
    cells = json.loads(notebook)["cells"] if isinstance(notebook, bytes) else []
    keys = {cell["metadata"].get("nbgrader", {}).get("grade_id") for cell in cells}
    code = "\n".join(cell["source"] for cell in cells if cell["cell_type"] == "code")
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
    return [assignments[0].name] if len(assignments) == 1 and isinstance(notebook, str) else []


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
