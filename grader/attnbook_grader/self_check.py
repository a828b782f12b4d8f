"""The student's side of the grader: runs a notebook, and judges as its check cells do."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

from attnbook_exercises.checks import judge
from attnbook_exercises.checks.registry import SECONDS
from attnbook_exercises.checks.verdict import STOPPED, Verdict
from bookbuild import source

from .course.assignments import from_sections
from .course.exercises import find_book, sections
from .notebooks.submissions import kept, parse_submission
from .protocol.child import MISSING, Cells

__all__ = ["self_check"]


def self_check(path: str | Path, tasks=()) -> list[Verdict]:
    """The verdicts of the check cells in the notebook `path`, which runs in this process.

    tasks: ids of exercises; default all that the notebook holds
    With the book at hand, cells of its chapters run only their definitions, as when grading;
    without it every cell runs. Raises ValueError when the file is missing, no notebook, or holds no
    exercise, and for an id that it does not hold."""
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"notebook: {path} is not there, or no file")
    nb = parse_submission(path.read_bytes())
    code = [cell.source for cell in nb.cells if cell.cell_type == "code"]
    called = [match["id"] for text in code for match in source.CHECK_CALL.finditer(text)]
    for id in tasks:
        if id not in called:
            raise ValueError(
                f"exercise: the notebook has no check of {id!r}; it has "
                f"{', '.join(called) or 'none'}"
            )
    if not called:
        raise ValueError(
            f'notebook: {path} calls no check: expected a cell with check("00.weighted_sum", '
            f"weighted_sum), for example"
        )
    cells, book, found, error = Cells(), _book(called), {}, None
    cells.shell.reset()
    for text in code:
        checks = [*source.CHECK_CALL.finditer(text)]
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            if not checks:
                error = cells.run({"source": kept(text, book)}) or error
            for match in checks:
                if not tasks or match["id"] in tasks:
                    found[match["id"]] = _verdict(match, cells, error)
                error = None
    return [*found.values()]


def _verdict(match, cells, error):
    answer = cells.take({"name": match["function"]})
    if answer is MISSING:
        missing = f"there is no function {match['function']}"
        said = f"your cell stopped with {error}" if error else missing
        return Verdict(match["id"], STOPPED, said)
    return judge(match["id"], answer, seconds=SECONDS)


def _book(called):
    """The code cells of the chapters with these exercises; none where the book is not at hand."""
    try:
        parts = [
            part for part in sections(find_book()) if any(task.id in called for task in part.tasks)
        ]
    except (ValueError, ImportError):
        return frozenset()
    return frozenset().union(*(one.book for one in from_sections(parts)))
