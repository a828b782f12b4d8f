"""The registry of the known wrong answers, filled by `edits` and by the decorator `wrong`."""

import re
from collections import defaultdict
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

from attnbook.checks import find
from attnbook_grader.course.exercises import sections
from bookbuild.source import SOLUTION


class WrongAnswer(NamedTuple):
    """A wrong answer to an exercise.

    Attributes:
        name: of the function, or the edit: "dim=-1 → dim=0".
        function: the answer.
        words: a part of the message that the check must give.
        code: the cell of an edited solution; None for a function of a module.
    """

    name: str
    function: Callable
    words: str
    code: str | None = None


WRONG: dict[str, list[WrongAnswer]] = defaultdict(list)
"""{id of the exercise: its wrong answers}."""


def edits(id):
    """Return `edit(words, old, new, …)`, which registers a wrong answer to exercise `id`: its
    solution with a piece of code replaced.

    Args of `edit`:
        words: a part of the message that the check must give.
        old, new: the code that is replaced, wherever it occurs in the solution, and its
            replacement. A … at the end of `old` stands for the rest of its line. Further pairs are
            replaced in turn.

    Raises:
        ValueError: there is no such exercise, its solution has no such code, or the edit is
            registered already.
    """
    find(id)
    task = _tasks()[id]
    before, solution, after = re.split("|".join(SOLUTION), task.solution.source)

    def edit(words, *code):
        pairs = list(zip(code[::2], code[1::2], strict=True))
        name = ", ".join(f"{old} → {new}" for old, new in pairs)
        source = solution
        for old, new in pairs:
            pattern = re.escape(old).replace("…", ".*")
            if not re.search(pattern, source):
                raise ValueError(f"{id}: the solution has no {old!r} to be replaced by {new!r}")
            source = re.sub(pattern, lambda _: new, source)
        if any(other.name == name for other in WRONG[id]):
            raise ValueError(f"{id}: edits must be unique, got {name!r} twice")
        cell, scope = before + source + after, {}
        exec(compile(cell, "<edited solution>", "exec"), scope)
        WRONG[id].append(WrongAnswer(name, scope[task.function], words, cell))

    return edit


@cache
def _tasks():
    book = Path(__file__).parents[3]
    return {task.id: task for section in sections(book) for task in section.tasks}


def wrong(id, words):
    """Register the decorated function as a wrong answer to exercise `id`.

    Args:
        words: a part of the message that the check must give.

    Raises:
        ValueError: there is no such exercise, the module is not that of its section, or it defines
            another wrong answer of this name (the grader takes answers out of a module by name).
    """
    section = find(id).function.__module__.split(".")[-2:]

    def add(function):
        module, name = function.__module__, function.__name__
        if module.split(".")[-2:] != section:
            raise ValueError(
                f"wrong answers to {id!r} must be in {'/'.join(section)}.py, got {name} in {module}"
            )
        if any(
            other.name == name and other.function.__module__ == module
            for answers in WRONG.values()
            for other in answers
        ):
            raise ValueError(f"names of wrong answers must be unique in {module}, got {name} twice")
        WRONG[id].append(WrongAnswer(name, function, words))
        return function

    return add
