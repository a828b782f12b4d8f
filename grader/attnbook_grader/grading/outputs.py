"""The folder of a course's grades: tables and pages, each complete before it gets its name."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path

from ..notebooks.hand_ins import safe_names
from .class_page import write_class_page
from .feedback import write_csv, write_feedback
from .wide import write_wide

__all__ = ["MARKER", "locked", "usable", "write_outputs"]

MARKER = "attnbook-grades"
"""The file that marks a folder as written by a round of grading, in which the next round goes
on.
"""


def usable(out: Path):
    if out.exists() and not out.is_dir():
        raise ValueError(f"out: {out} is a file, expected a folder")
    if out.is_dir() and any(out.iterdir()) and not (out / MARKER).is_file():
        raise ValueError(
            f"out: {out} holds files that no round of grading wrote; choose another folder"
        )


@contextlib.contextmanager
def locked(out: Path):
    """One round at a time in a folder. The lock goes with the process, however it ends."""
    import fcntl  # not on Windows: launch.require_unix

    with open(out / ".lock", "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ValueError(f"out: another round of grading is at work in {out}") from None
        for left in out.glob(".new-*"):  # of a round that was killed
            shutil.rmtree(left, ignore_errors=True)
        yield


def write_outputs(out, course, assignments, students, done, roster=None):
    """Marks and pages, each complete before it gets its name."""
    ids = safe_names(students)
    work = Path(tempfile.mkdtemp(prefix=".new-", dir=out)).resolve()
    try:
        write_csv(work / "marks.csv", done.marks)
        done.remarks.extend(
            write_wide(work / "wide.csv", students, assignments, done.marks, roster)
        )
        known = {one.label for one in roster.people} if roster else {*students}
        strangers = len({*students} - known)
        write_class_page(work / "class.html", course, assignments, done, ids, strangers)
        by_student = {student: [] for student in students}
        for mark in done.marks:
            by_student[mark.student].append(mark)
        for student, id in ids.items():
            write_feedback(
                work / "feedback" / id / "index.html", student, by_student[student], assignments
            )
        for name in ("marks.csv", "wide.csv", "class.html", "feedback"):
            if (work / name).exists():
                _put(work / name, out / name)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _put(new, old):
    """Put a finished file or folder in the place of the old one."""
    if old.is_dir():
        aside = new.with_name(new.name + "-old")
        os.replace(old, aside)
        os.replace(new, old)
        shutil.rmtree(aside, ignore_errors=True)
    else:
        os.replace(new, old)
