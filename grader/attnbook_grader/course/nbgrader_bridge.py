"""What nbgrader does for a course: it cuts the students' notebooks, and keeps a gradebook that its
own tools read.

It does not run students' code here: nbgrader runs it with the rights of the instructor, checks
included, stops when a kernel dies, and takes the word of a value whose `__eq__` says yes. That part
is `judging`."""

from __future__ import annotations

import contextlib
import logging
import os
import sys
from pathlib import Path

import nbformat

from bookbuild import source

COURSE = "attnbook"


class NbgraderFailed(RuntimeError):
    """nbgrader could not do a step; the message says why, in one line."""


def add_assignments(folder: Path, assignments) -> None:
    """Write the instructor's notebooks into `folder`/source and let nbgrader make the students' in
    `folder`/release.

    assignments: with .name and .notebook()
    Fills the gradebook `folder`/gradebook.db with the cells and their points. Raises
    NbgraderFailed."""
    with _inside(folder):
        grader = _api(folder)
        for one in assignments:
            target = folder / "source" / one.name
            target.mkdir(parents=True)
            nbformat.write(one.notebook(), target / f"{one.name}.ipynb")
            result = grader.generate_assignment(one.name, force=True, create=True)
            if not result.get("success"):
                reason = str(result.get("error") or result.get("log") or "no reason given")
                lines = reason.strip().splitlines()
                raise NbgraderFailed(f"making the assignment {one.name}: {lines[-1]}")


def record(folder: Path, assignments, marks) -> None:
    """Write marks into the gradebook in `folder`.

    marks: [(id of the student, Mark)]; the student's own name is the last name there.
    """
    from nbgrader.api import Gradebook

    tests = {
        (one.name, task.id): [test.metadata.nbgrader.grade_id for test in task.tests]
        for one in assignments
        for task in one.tasks
    }
    points = {(one.name, task.id): one.points[task.id] for one in assignments for task in one.tasks}
    words = {(one.name, asked.id): asked.key for one in assignments for asked in one.words}
    with _inside(folder), Gradebook(_database(folder), COURSE) as book:
        for student, name in {student: mark.student for student, mark in marks}.items():
            book.add_student(student, last_name=name)
        rows = {}
        for student, assignment in dict.fromkeys(
            (student, mark.assignment) for student, mark in marks if mark.hand_in is not None
        ):
            submission = book.add_submission(assignment, student)
            rows[student, assignment] = {
                grade.name: grade for notebook in submission.notebooks for grade in notebook.grades
            }
        for student, mark in marks:
            if mark.hand_in is None:
                continue
            if (mark.assignment, mark.exercise) in words:
                grade = rows[student, mark.assignment][words[mark.assignment, mark.exercise]]
                grade.manual_score, grade.needs_manual_grade = mark.points, not mark.by_hand
                continue
            whole = points[mark.assignment, mark.exercise]
            passed = [
                most if right else 0.0
                for most, right in zip(whole, (mark.outcome.visible, mark.outcome.hidden))
            ]
            share = mark.points / sum(passed) if sum(passed) else 0.0
            for name, got in zip(tests[mark.assignment, mark.exercise], passed):
                grade = rows[student, mark.assignment][name]
                grade.auto_score, grade.needs_manual_grade = got * share, False
        book.db.commit()


def _database(folder):
    return f"sqlite:///{Path(folder) / 'gradebook.db'}"


def _api(folder):
    """nbgrader's own interface to the course in `folder`."""
    from nbgrader.apps.api import NbGraderAPI
    from traitlets.config import Config
    from traitlets.log import get_logger

    c = Config()
    c.CourseDirectory.course_id = COURSE
    c.CourseDirectory.root = str(folder)
    c.CourseDirectory.db_url = _database(folder)
    c.ClearSolutions.code_stub = {"python": source.STUB}
    get_logger().setLevel(logging.ERROR)
    return NbGraderAPI(config=c, log_level=logging.ERROR)


@contextlib.contextmanager
def _inside(folder: Path):
    """The variables that nbgrader runs with: nothing of the user's Jupyter settings is read.

    They come back as they were.
    """
    before = dict(os.environ)
    os.environ.update(
        {
            # nbgrader calls the program alembic, which lies beside this Python
            "PATH": os.pathsep.join(
                (str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath))
            ),
            "JUPYTER_CONFIG_DIR": str(folder / "jupyter" / "config"),
            "JUPYTER_RUNTIME_DIR": str(folder / "jupyter" / "runtime"),
            "JUPYTER_DATA_DIR": str(folder / "jupyter" / "data"),
            "IPYTHONDIR": str(folder / "jupyter" / "ipython"),
        }
    )
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
