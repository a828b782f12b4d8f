"""Finding what was handed in: which files, of whom, for which assignment, when."""
from __future__ import annotations

import csv
import hashlib
import json
import os
import re
import stat
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

from .submissions import LARGEST, decoded

__all__ = ["HandIn", "find_hand_ins", "safe_names"]

TIMES = "times.csv"


@dataclass(frozen=True)
class HandIn:
    """One file of one student for one assignment.

    sha:  of its content; files with more than LARGEST bytes are told apart by name, size and time
    time: when it was handed in, with a zone
    """

    student: str
    assignment: str
    path: Path
    sha: str
    time: datetime

    def content(self) -> bytes:
        """The bytes, but never more than one above LARGEST."""
        with open(self.path, "rb") as file:
            return file.read(LARGEST + 1)


def find_hand_ins(folder: str | Path, assignments) -> tuple[list[HandIn], list[str], list[str]]:
    """The notebooks in `folder`: STUDENT/….ipynb at any depth and under any name, or STUDENT.ipynb.

    A notebook belongs to the assignments whose cells it holds; one that cannot be read, to the one in its name. The time is
    that of the file, or of the line for it in times.csv (columns: file, time).
    Returns (hand-ins, all students, remarks on files that were left out).
    Raises ValueError when the folder is missing or nobody is in it.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ValueError(f"submissions: {folder} is {'a file' if folder.exists() else 'not there'}, expected a folder")
    times, found, remarks, students = _times(folder), [], [], set()
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith(".") or entry.name == TIMES:
            continue
        if entry.is_symlink():
            remarks.append(f"{entry.name}: a link, left out")
        elif entry.is_dir():
            students.add(entry.name)
            for path in _files(entry, remarks, folder):
                _add(found, remarks, entry.name, path, folder, assignments, times)
        elif entry.suffix == ".ipynb":
            student = _student(entry.stem, assignments)
            students.add(student)
            _add(found, remarks, student, entry, folder, assignments, times)
    if not students:
        raise ValueError(f"submissions: {folder} holds no student: expected a folder for each, STUDENT/NOTEBOOK.ipynb")
    return found, sorted(students), remarks


def safe_names(students) -> dict[str, str]:
    """Names that nbgrader and every file system take, one for each student."""
    names, used = {}, set()
    for student in sorted(students):
        plain = re.sub(r"[^A-Za-z0-9_-]+", "_", student).strip("_")[:80] or "student"
        name, count = plain, 2
        while name.lower() in used:
            name, count = f"{plain}_{count}", count + 1
        used.add(name.lower())
        names[student] = name
    return names


def _files(student, remarks, folder):
    """The notebooks in a student's folder. Links are not followed: they may lead to anything."""
    for here, folders, files in os.walk(student, followlinks=False):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            path = Path(here) / name
            if name.startswith(".") or not name.lower().endswith(".ipynb"):
                continue
            if not stat.S_ISREG(path.lstat().st_mode):
                remarks.append(f"{path.relative_to(folder)}: a link or another thing that is no file, left out")
            else:
                yield path


def _add(found, remarks, student, path, folder, assignments, times):
    name = str(path.relative_to(folder))
    status = path.stat()
    if status.st_size > LARGEST:
        content, sha = b"", hashlib.sha256(f"{name} {status.st_size} {status.st_mtime_ns}".encode(errors="replace")).hexdigest()
    else:
        content = path.read_bytes()
        sha = hashlib.sha256(content).hexdigest()
    when = times.get(name) or datetime.fromtimestamp(status.st_mtime, timezone.utc)
    names = _belongs(content, path.stem, assignments)
    if not names:
        remarks.append(f"{name}: belongs to no assignment ({', '.join(one.name for one in assignments)}), left out")
    found += [HandIn(student, one, path, sha, when) for one in names]


def _belongs(content, stem, assignments):
    """The names of the assignments of which the notebook holds an answer, by cell names, else by functions, else by its own name."""
    readable = True
    try:
        cells = json.loads(decoded(content))["cells"]
        keys = {str(cell["metadata"].get("nbgrader", {}).get("grade_id")) for cell in cells}
        code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        keys, code, readable = set(), "", False
    by_name = [one.name for one in assignments if re.search(rf"(?<![a-z0-9]){re.escape(one.name)}(?![a-z])", stem, re.IGNORECASE)]
    holds = [one.name for one in assignments if any(task.key in keys or f"{task.key}-check" in keys for task in one.tasks)]
    if holds:
        return [name for name in holds if name in by_name] or holds
    functions = set(re.findall(r"^def (\w+)", code, re.MULTILINE))
    holds = [one.name for one in assignments if functions & {task.function for task in one.tasks}]
    if holds or by_name:
        return [name for name in holds if name in by_name] or holds or by_name[-1:]
    return [assignments[0].name] if len(assignments) == 1 and not readable else []


def _student(stem, assignments):
    """Whose a file without a folder is: its name, without that of the assignment and a browser's (1)."""
    name = re.sub(r"\s*\(\d+\)$", "", stem)
    for one in assignments:
        name = re.sub(rf"^{re.escape(one.name)}[\s_.-]+|[\s_.-]+{re.escape(one.name)}$", "", name, flags=re.IGNORECASE)
    return name.strip() or stem


def _times(folder):
    path = folder / TIMES
    if not path.is_file():
        return {}
    found = {}
    with path.open(newline="", encoding="utf-8-sig") as file:
        for row in csv.DictReader(file):
            try:
                when = datetime.fromisoformat(row["time"])
                found[row["file"]] = when if when.tzinfo else when.astimezone()
            except (KeyError, TypeError, ValueError):
                raise ValueError(f"{path}: line {len(found) + 2}: expected the columns file and time, a time as 2027-01-31T23:59:00+01:00, "
                                 f"got {dict(row)}") from None
    return found
