"""Sequence-to-sequence tasks by name.

Every module of `translation` is imported when a task is asked for, so that a new one needs no other
mention.
"""

import importlib
import pkgutil
from functools import cache

from ..validate import check_choice, check_integer
from . import translation
from .sequences.task import DRAWERS, MAKERS, Task, call_with


@cache
def task_names() -> tuple[str, ...]:
    """The names of all registered tasks."""
    for module in pkgutil.iter_modules(translation.__path__, f"{translation.__name__}."):
        importlib.import_module(module.name)
    return tuple(MAKERS)


def make_task(
    name: str, *, train: int, valid: int = 1000, test: int = 1000, seed: int = 0, **options
) -> Task:
    """A task of ``train``, ``valid`` and ``test`` pairs; no two of them have the same source.

    The vocabularies of the generated tasks hold all tokens that can come up; those of corpora hold
    the tokens of the training pairs, the rest is <unk>.

    Args:
        name: one of :func:`task_names`.
        train, valid, test: how many pairs.
        seed: of the pairs.
        options: those of the task, listed in its module: ``length=(3, 10)`` for "copy".

    Raises:
        ValueError: the name or an option is unknown, a split has fewer than 0 pairs (train: 1), or
            the task has too few different sources.
    """
    check_choice("name", name, task_names())
    for split, size, least in (("train", train, 1), ("valid", valid, 0), ("test", test, 0)):
        check_integer(split, size, least)
    if name in DRAWERS:
        call_with(name, DRAWERS[name], options)  # names a wrong option
    sizes = {"train": train, "valid": valid, "test": test, "seed": seed}
    return call_with(name, MAKERS[name], {**sizes, **options})
