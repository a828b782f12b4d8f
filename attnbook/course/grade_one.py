"""Grading one notebook: in a folder and with a gradebook of its own, so that nothing it does reaches another."""
from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import nbformat

from . import nbgrader_course as course
from .exercises import Section
from .grader import Grader
from .submissions import Submission, Unreadable, read_submission, restore


@dataclass(frozen=True)
class Limits:
    """Seconds for one cell, for the start of a kernel, and for one notebook in all."""

    cell: int = 30
    startup: int = 120
    notebook: int = 600


@dataclass(frozen=True)
class Result:
    """The marks of one student for one exercise; `note` says in words what was wrong, "" when nothing was.

    scores: name of the graded cell -> points, as nbgrader gave them
    """

    student: str
    section: str
    exercise: str
    title: str
    points: float
    max: float
    note: str
    scores: tuple[tuple[str, float], ...]


def grade_one(grader: Grader, work: Path, one: Submission, id: str, section: Section, limits: Limits) -> list[Result]:
    """Grade one submission against the course in `work`, and leave nbgrader's notebook and feedback page there.

    Never raises for what a student handed in: whatever happens ends in marks with a reason. Touches no gradebook but its own copy.
    """
    if one.path is None:
        return _nothing(one, section, "nothing was handed in")
    try:
        nb, remarks = restore(read_submission(one.path), section)
    except Unreadable as error:
        return _nothing(one, section, str(error))
    place = Path(id) / section.name
    job = work / "jobs" / place
    job.mkdir(parents=True)
    try:
        shutil.copyfile(work / "gradebook.db", job / "gradebook.db")
        for folder in (job, work):
            (folder / "submitted" / place).mkdir(parents=True)
            nbformat.write(nb, folder / "submitted" / place / f"{section.name}.ipynb")
        reason = grader.grade(job, section.name, id, limits.cell, limits.startup, limits.notebook)
        if reason:
            return _nothing(one, section, reason)
        results = _read_marks(job, one, id, section, remarks, limits)
        for kind in ("autograded", "feedback"):
            (work / kind / id).mkdir(parents=True, exist_ok=True)
            shutil.copytree(job / kind / place, work / kind / place)
        return results
    finally:
        shutil.rmtree(job, ignore_errors=True)


def _read_marks(job, one, id, section, remarks, limits):
    nb = nbformat.read(job / "autograded" / id / section.name / f"{section.name}.ipynb", 4)
    cells = {cell.metadata.nbgrader.grade_id: cell for cell in nb.cells if "grade_id" in cell.metadata.get("nbgrader", {})}
    results = []
    with course.gradebook(job) as book:
        for task in section.tasks:
            scores, most, note = [], 0.0, ""
            for test in task.tests:
                name = test.metadata.nbgrader.grade_id
                grade = book.find_grade(name, section.name, section.name, id)
                scores.append((name, float(grade.score)))
                most += float(grade.max_score)
                if not note and grade.score < grade.max_score:
                    note = ("" if name.endswith("-check") else "with other inputs: ") + _why(cells[name], limits.cell)
            points = sum(score for _, score in scores)
            note = remarks.get(task.id) or note
            results.append(Result(one.student, section.name, task.id, _title(task), points, most, note, tuple(scores)))
    return results


def _nothing(one, section, reason):
    """No marks for a notebook that could not be run."""
    results = []
    for task in section.tasks:
        scores = tuple((cell.metadata.nbgrader.grade_id, 0.0) for cell in task.tests)
        most = float(sum(cell.metadata.nbgrader.points for cell in task.tests))
        results.append(Result(one.student, section.name, task.id, _title(task), 0.0, most, reason, scores))
    return results


def _title(task):
    found = re.search(r"^### (?:Exercise [\d.]+: )?(.+)$", task.statement.source, re.MULTILINE)
    return found[1].strip() if found else task.id


def _why(cell, seconds):
    """The sentence of the check, or what else stopped the cell."""
    for output in cell.outputs:
        if output.output_type != "error":
            continue
        if output.ename in ("CellTimeoutError", "KeyboardInterrupt"):
            return f"the cell ran longer than {seconds} s and was stopped: an endless loop?"
        if output.ename == "NotPassed":
            return re.sub(r"^\S+ \S+: ", "", output.evalue)
        return ": ".join([output.ename, *output.evalue.strip().splitlines()[:1]])
    return "the check wrote to standard error"
