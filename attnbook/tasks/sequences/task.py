"""A sequence-to-sequence task, split into train, valid and test, and the registry of tasks.

A task is registered where it is defined, by one decorator: :func:`generated_task` for pairs that a
function draws, :func:`corpus_task` for a fixed collection.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature

from ...validate import require
from .pairs import Pair, distinct, stream
from .vocabulary import Vocabulary

Drawer = Callable[[random.Random], Pair]
MAKERS: dict[str, Callable[..., Task]] = {}
"""Every task under its name: a function of ``train``, ``valid``, ``test``, ``seed`` and options."""
DRAWERS: dict[str, Callable[..., Drawer]] = {}
"""Of the generated tasks, by name: a function of the options that gives ``draw(generator)``."""


@dataclass(frozen=True)
class Task:
    """Three lists of pairs that share no source, and the vocabularies of both sides.

    Args:
        name: as in the registry.
        train, valid, test: lists of Pair.
        source_vocab, target_vocab: the vocabularies.
        attribution: whom to credit for the data; empty for data that the book generates.
    """

    name: str
    train: list[Pair]
    valid: list[Pair]
    test: list[Pair]
    source_vocab: Vocabulary
    target_vocab: Vocabulary
    attribution: str = ""

    def unseen(self, count: int, *, seed: int, **options) -> list[Pair]:
        """More pairs of the same task whose sources are in none of the three lists, and differ.

        Args:
            count: how many.
            seed: of the draws.
            options: those of the task's generator; so a test of longer sources than
                those of training is ``task.unseen(500, seed=1, phrases=8)``.
        """
        require(self.name in DRAWERS, f"task {self.name!r} is a fixed collection: nothing to draw")
        seen = {pair.source for part in (self.train, self.valid, self.test) for pair in part}
        draw = call_with(self.name, DRAWERS[self.name], options)
        return distinct(stream(draw, seed), count, seen)


def generated_task(name: str, tokens: Callable[..., tuple], **fixed):
    """Register a function ``drawer(**options)`` that returns ``draw(generator) -> Pair``.

    Args:
        name: of the task.
        tokens: ``tokens(**options)`` gives all source tokens and all target tokens.
        fixed: options of the drawer that this task settles.
    """

    def register(drawer: Callable[..., Drawer]) -> Callable[..., Drawer]:
        def settled(**options) -> Drawer:
            return drawer(**fixed, **options)

        def make(*, train: int, valid: int, test: int, seed: int, **options) -> Task:
            source, target = map(Vocabulary, tokens(**options))
            draw = settled(**options)
            return split_pairs(name, draw, source, target, train, valid, test, seed)

        settled.__signature__ = signature(drawer).replace(  # type: ignore[attr-defined]
            parameters=[p for k, p in signature(drawer).parameters.items() if k not in fixed]
        )
        make.__module__ = drawer.__module__
        corpus_task(name)(make)
        DRAWERS[name] = settled
        return drawer

    return register


def corpus_task(name: str):
    """Register a function ``make(*, train, valid, test, seed, **options)`` that returns a Task."""
    require(name not in MAKERS, f"name must be that of one task, got {name!r} a second time")

    def register(make: Callable[..., Task]) -> Callable[..., Task]:
        MAKERS[name] = make
        return make

    return register


def split_pairs(
    name: str,
    draw: Drawer,
    source_vocab: Vocabulary,
    target_vocab: Vocabulary,
    train: int,
    valid: int,
    test: int,
    seed: int,
) -> Task:
    """Pairs whose sources differ; test and valid are drawn first, whatever ``train`` is."""
    pairs, held = distinct(stream(draw, seed), test + valid + train, set()), test + valid
    return Task(name, pairs[held:], pairs[test:held], pairs[:test], source_vocab, target_vocab)


def call_with(name: str, function: Callable, options: dict):
    """``function(**options)``, or a ValueError that names the task and the unknown option."""
    try:
        signature(function).bind(**options)
    except TypeError as error:
        raise ValueError(f"options of {name!r}: {error}") from None
    return function(**options)
