"""Sequence-to-sequence tasks by name, split into train, valid and test.

A task is registered where it is defined, by one decorator: :func:`generated_task` for pairs that a
function draws, :func:`corpus_task` for a fixed collection. :func:`make_task` imports every module
of this folder, so that a new module needs no other mention.
"""

from __future__ import annotations

import importlib
import pkgutil
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from inspect import signature

from ...validate import check_choice, check_integer
from .pairs import Pair, distinct, stream
from .vocabulary import Vocabulary

__all__ = ["Task", "corpus_task", "generated_task", "make_task", "split_pairs", "task_names"]

Drawer = Callable[[random.Random], Pair]
_MAKERS: dict[str, Callable[..., Task]] = {}
_DRAWERS: dict[str, Callable[..., Drawer]] = {}


@dataclass(frozen=True)
class Task:
    """Three lists of pairs that share no source, and the vocabularies of both sides.

    Args:
        name: as given to :func:`make_task`.
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
            options: those of :func:`make_task` for this task; so a test of longer sources than
                those of training is ``task.unseen(500, seed=1, phrases=8)``.

        Raises:
            ValueError: the data is a fixed collection, an option is unknown, or there are too few
                new sources.
        """
        if self.name not in _DRAWERS:
            raise ValueError(
                f"task {self.name!r} is a fixed collection: there are no more pairs to draw"
            )
        seen = {pair.source for part in (self.train, self.valid, self.test) for pair in part}
        draw = _call(self.name, _DRAWERS[self.name], options)
        return distinct(stream(draw, seed), count, seen)


def generated_task(name: str, tokens: Callable[..., tuple], **fixed):
    """Register a function ``drawer(**options)`` that returns ``draw(generator) -> Pair``.

    Args:
        name: what :func:`make_task` calls the task.
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
        _register(name, make)
        _DRAWERS[name] = settled
        return drawer

    return register


def corpus_task(name: str):
    """Register a function ``make(*, train, valid, test, seed, **options)`` that returns the
    :class:`Task`, with its attribution.
    """

    def register(make: Callable[..., Task]) -> Callable[..., Task]:
        _register(name, make)
        return make

    return register


def _register(name: str, make: Callable[..., Task]) -> None:
    if name in _MAKERS:
        raise ValueError(f"name must be that of one task, got {name!r} a second time")
    _MAKERS[name] = make


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
    """A task of drawn pairs whose sources all differ; test and valid are drawn first, so they stay
    the same when ``train`` grows.
    """
    pairs = distinct(stream(draw, seed), test + valid + train, set())
    return Task(
        name,
        test=pairs[:test],
        valid=pairs[test : test + valid],
        train=pairs[test + valid :],
        source_vocab=source_vocab,
        target_vocab=target_vocab,
    )


@cache
def task_names() -> tuple[str, ...]:
    """The names of all registered tasks."""
    tasks = importlib.import_module("attnbook.tasks.translation")
    for module in pkgutil.iter_modules(tasks.__path__, f"{tasks.__name__}."):
        importlib.import_module(module.name)
    return tuple(_MAKERS)


def make_task(
    name: str, *, train: int, valid: int = 1000, test: int = 1000, seed: int = 0, **options
) -> Task:
    """A task with ``train``, ``valid`` and ``test`` pairs; all sources differ, so nothing is tested
    that was trained on.

    The vocabularies of the generated tasks hold all tokens that can come up; those of corpora hold
    the tokens of the training pairs, the rest is <unk>.

    Args:
        name: "dates", "numbers-en", "numbers-fr", "phrases", "copy", "reverse" (generated),
            "tatoeba" (real English–French sentences, see
            :func:`attnbook.tasks.translation.corpora.tatoeba`), or another of :func:`task_names`.
        train, valid, test: how many pairs.
        seed: of the pairs.
        options: of the generator: ``formats``, ``cases`` (dates), ``digits``, ``british``
            (numbers), ``phrases``, ``adjectives`` (phrases), ``length``, ``symbols`` (copy,
            reverse), ``source``, ``target``, ``max_words``, ``min_count`` (tatoeba).

    Raises:
        ValueError: the name or an option is unknown, a split has fewer than 0 pairs (train: 1), or
            the task has too few different sources.
    """
    check_choice("name", name, task_names())
    for split, size, least in (("train", train, 1), ("valid", valid, 0), ("test", test, 0)):
        check_integer(split, size, least)
    sizes = {"train": train, "valid": valid, "test": test, "seed": seed}
    if name in _DRAWERS:
        _call(name, _DRAWERS[name], options)  # names a wrong option
    return _call(name, _MAKERS[name], {**sizes, **options})


def _call(name: str, function: Callable, options: dict):
    try:
        signature(function).bind(**options)
    except TypeError as error:
        raise ValueError(f"options of {name!r}: {error}") from None
    return function(**options)
