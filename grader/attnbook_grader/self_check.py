"""The student's side of the grader: the visible checks of a notebook, in a separate process but
without a sandbox.
"""

from __future__ import annotations

from pathlib import Path

from nbformat import NotebookNode

from attnbook_exercises.checks import find
from attnbook_exercises.checks.verdict import MISTAKE, NOT_WRITTEN, RIGHT, STOPPED, Verdict
from bookbuild import source

from .course.assignments import Assignment, from_sections
from .course.exercises import Task, find_book, sections
from .grading.judging import Job, judge_notebook
from .notebooks.submissions import parse_submission
from .sandbox.launch import Limits, require_unix

__all__ = ["self_check"]

_LIMITS = Limits(seconds=60, notebook=1800, memory=16_384, processes=256, output=1000, disk=4096)


def self_check(path: str | Path, tasks=()) -> list[Verdict]:
    """The verdicts of the check cells in the notebook `path`, in its order.

    tasks: ids of exercises; default all that the notebook holds
    With the book at hand, cells of its chapters run only their definitions, as when grading;
    without it every cell runs. Raises ValueError when the file is missing, no notebook, or holds no
    exercise, and for an id that it does not hold; NoSandbox on Windows."""
    require_unix()
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"notebook: {path} is not there, or no file")
    nb = parse_submission(path.read_bytes())
    called = {
        match["id"]: match["function"]
        for cell in nb.cells
        if cell.cell_type == "code"
        for match in source.CHECK_CALL.finditer(cell.source)
    }
    for id in tasks:
        if id not in called:
            raise ValueError(
                f"exercise: the notebook has no check of {id!r}; it has "
                f"{', '.join(called) or 'none'}"
            )
    wanted = tuple(id for id in called if not tasks or id in tasks)
    if not wanted:
        raise ValueError(
            f'notebook: {path} calls no check: expected a cell with check("00.weighted_sum", '
            f"weighted_sum), for example"
        )
    for id in wanted:
        find(id)
    outcomes = judge_notebook(
        Job(path.read_bytes(), _assignment(called), wanted, {}, _LIMITS, "none")
    )
    return [_verdict(one) for one in outcomes]


def _verdict(outcome):
    if outcome.visible:
        return Verdict(outcome.exercise, RIGHT, "right.")
    status = (
        NOT_WRITTEN
        if outcome.note.startswith("not written yet")
        else STOPPED
        if "stopped" in outcome.note
        else MISTAKE
    )
    return Verdict(outcome.exercise, status, outcome.note)


def _assignment(called):
    """The exercises of the notebook: with their cells where the book is at hand, else by name
    only.
    """
    try:
        parts = from_sections(sections(find_book(), tasks=list(called)))
    except (ValueError, ImportError):
        parts = ()
    if parts:
        tasks = tuple(task for part in parts for task in part.tasks)
        return Assignment(
            "own", "", tasks, {}, parts[0].setup, frozenset().union(*(part.book for part in parts))
        )
    tasks = tuple(_bare(id, function) for id, function in called.items())
    return Assignment("own", "", tasks, {}, _cell(""), frozenset())


def _bare(id, function):
    key = find(id).key
    solution = f"def {function}(*arguments):\n    {source.SOLUTION[0]}\n    {source.SOLUTION[1]}"
    check = _cell(
        f'check("{id}", {function})', {"grade": True, "grade_id": f"{key}-check", "solution": False}
    )
    return Task(
        id,
        key,
        function,
        _cell("", kind="markdown"),
        (_cell(solution, {"grade_id": key, "solution": True, "grade": False}), check),
    )


def _cell(text, nbgrader=None, kind="code"):
    cell = NotebookNode({"cell_type": kind, "metadata": NotebookNode(), "source": text})
    if nbgrader:
        cell.metadata.nbgrader = NotebookNode(nbgrader)
    return cell
