"""Sequence-to-sequence tasks by name, split into train, valid and test."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ..text.vocabulary import Vocabulary
from . import copy_and_reverse, dates, numbers, phrases
from .pairs import Pair, distinct, stream


@dataclass(frozen=True)
class Task:
    """Three lists of pairs that share no source, and the vocabularies of both sides.

    name                     as given to `make_task`
    train, valid, test       lists of Pair
    source_vocab, target_vocab
    attribution              whom to credit for the data; empty for data that the book makes itself
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

        options  those of `make_task` for this task; so a test of longer sources than those of
                 training is ``task.unseen(500, seed=1, phrases=8)``

        Raises ValueError where the data is a fixed collection, for unknown options, or when too few
        new sources can be found."""
        if self.name not in _MADE:
            raise ValueError(
                f"task {self.name!r} is a fixed collection: there are no more pairs to draw"
            )
        seen = {pair.source for part in (self.train, self.valid, self.test) for pair in part}
        return distinct(stream(_drawer(self.name, options), seed), count, seen)


def _fixed(**fixed):
    """A maker of drawers with some options settled."""

    def settle(module_drawer):
        return lambda options: module_drawer(**fixed, **options)

    return settle


# name: (options -> drawer, options -> source tokens, options -> target tokens)
_MADE: dict[str, tuple[Callable, Callable, Callable]] = {
    "dates": (
        lambda options: dates.drawer(**options),
        lambda options: dates.source_tokens(),
        lambda options: dates.target_tokens(),
    ),
    "numbers-en": (
        _fixed(language="en")(numbers.drawer),
        lambda options: numbers.source_tokens("en", british=True),
        lambda options: numbers.target_tokens(),
    ),
    "numbers-fr": (
        _fixed(language="fr")(numbers.drawer),
        lambda options: numbers.source_tokens("fr"),
        lambda options: numbers.target_tokens(),
    ),
    "phrases": (
        lambda options: phrases.drawer(**options),
        lambda options: phrases.source_tokens(),
        lambda options: phrases.target_tokens(),
    ),
    "copy": (
        lambda options: copy_and_reverse.drawer(False, **options),
        lambda options: copy_and_reverse.tokens(options.get("symbols", 26)),
        lambda options: copy_and_reverse.tokens(options.get("symbols", 26)),
    ),
    "reverse": (
        lambda options: copy_and_reverse.drawer(True, **options),
        lambda options: copy_and_reverse.tokens(options.get("symbols", 26)),
        lambda options: copy_and_reverse.tokens(options.get("symbols", 26)),
    ),
}
NAMES = (*_MADE, "tatoeba")


def make_task(
    name: str, *, train: int, valid: int = 1000, test: int = 1000, seed: int = 0, **options
) -> Task:
    """A task with `train`, `valid` and `test` pairs; all sources differ, so nothing is tested that
    was trained on.

    name     "dates", "numbers-en", "numbers-fr", "phrases", "copy", "reverse" (made by the book) or
             "tatoeba" (real English–French sentences; see
             `attnbook.tasks.translation.corpora.tatoeba`)
    seed     of the pairs; test and valid are drawn first, so they stay the same when `train` grows
    options  of the generator: `formats`, `cases` (dates), `digits`, `british` (numbers), `phrases`,
             `adjectives` (phrases), `length`, `symbols` (copy, reverse), `source`, `target`,
             `max_words`, `min_count` (tatoeba)

    The vocabularies of the made tasks hold all that the generator can say; those of tatoeba what
    the training pairs say, the rest is <unk>.

    Raises ValueError for an unknown name or option, a split of fewer than 0 pairs (train: 1), or
    when the task has too few different sources."""
    if name not in NAMES:
        raise ValueError(f"name must be one of {', '.join(NAMES)}, got {name!r}")
    for split, size, least in (("train", train, 1), ("valid", valid, 0), ("test", test, 0)):
        if isinstance(size, bool) or not isinstance(size, int) or size < least:
            raise ValueError(f"{split} must be an integer >= {least}, got {size!r}")
    if name == "tatoeba":
        from .corpora import tatoeba_task

        try:
            return tatoeba_task(train=train, valid=valid, test=test, seed=seed, **options)
        except TypeError as error:
            if "argument" not in str(error):
                raise
            raise ValueError(f"options of {name!r}: {error}") from None

    _, source_tokens, target_tokens = _MADE[name]
    splits = _splits(stream(_drawer(name, options), seed), test, valid, train)
    return Task(
        name,
        train=splits[2],
        valid=splits[1],
        test=splits[0],
        source_vocab=Vocabulary(source_tokens(options)),
        target_vocab=Vocabulary(target_tokens(options)),
    )


def _drawer(name: str, options: dict) -> Callable[[random.Random], Pair]:
    try:
        return _MADE[name][0](options)
    except TypeError as error:
        raise ValueError(f"options of {name!r}: {error}") from None


def _splits(pairs: Iterable[Pair], *sizes: int) -> list[list[Pair]]:
    found = distinct(pairs, sum(sizes), set())
    splits, start = [], 0
    for size in sizes:
        splits.append(found[start : start + size])
        start += size
    return splits
