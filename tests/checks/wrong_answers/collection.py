"""The registry of the known wrong answers, filled by the decorator `wrong` and by `edits`."""

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


def edits(id, *rows):
    """Register wrong answers to exercise `id` that differ from its solution in a piece of code.

    Args:
        rows: (words, old, new, …): a part of the message that the check must give, and the code
            that is replaced, wherever it stands in the solution. Further pairs are replaced in
            turn.

    Raises:
        ValueError: there is no such exercise, its solution has no such code, or two rows are equal.
    """
    find(id)
    task = _tasks()[id]
    for words, *code in rows:
        pairs = list(zip(code[::2], code[1::2], strict=True))
        name = ", ".join(f"{old} → {new}" for old, new in pairs)
        before, source, after = re.split("|".join(SOLUTION), task.solution.source)
        for old, new in pairs:
            if old not in source:
                raise ValueError(f"{id}: the solution has no {old!r} to be replaced by {new!r}")
            source = source.replace(old, new)
        if any(other.name == name for other in WRONG[id]):
            raise ValueError(f"{id}: edits must be unique, got {name!r} twice")
        cell, scope = before + source + after, {}
        exec(compile(cell, "<edited solution>", "exec"), scope)
        WRONG[id].append(WrongAnswer(name, scope[task.function], words, cell))


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
