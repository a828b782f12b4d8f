"""The registry of the known wrong answers, filled by the decorator `wrong`."""

from collections import defaultdict
from collections.abc import Callable
from typing import NamedTuple

from attnbook.checks import find


class WrongAnswer(NamedTuple):
    """A wrong answer to an exercise.

    Attributes:
        name: of the function.
        function: the answer.
        words: a part of the message that the check must give.
    """

    name: str
    function: Callable
    words: str


WRONG: dict[str, list[WrongAnswer]] = defaultdict(list)
"""{id of the exercise: its wrong answers}."""


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
