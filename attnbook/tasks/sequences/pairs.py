"""A source, its target and, where it is known, which source tokens each target token comes from."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from ...validate import check_integer, check_seed

NOTHING: frozenset[int] = frozenset()


class Pair(NamedTuple):
    """One example of a sequence-to-sequence task.

    Attributes:
        source: n tokens
        target: m tokens
        alignment: m sets: ``alignment[t]`` holds the source positions that target token t comes
            from, none for a separator or a zero that no word names. None: unknown.
        content: m flags: True where the target token is a content word (a digit, a noun, an
            adjective, a quantity), False for articles and separators. None: unknown.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    alignment: tuple[frozenset[int], ...] | None = None
    content: tuple[bool, ...] | None = None


@lru_cache(maxsize=65536)
def span(start: int, stop: int) -> frozenset[int]:
    """The positions start, …, stop − 1 as a set (shared: thousands of pairs use the same few)."""
    return frozenset(range(start, stop))


@lru_cache(maxsize=65536)
def shifted(positions: frozenset[int], by: int) -> frozenset[int]:
    """The positions, each moved on by so many."""
    return frozenset(p + by for p in positions)


def take(draw: Callable[[random.Random], Pair], count: int, seed: int) -> list[Pair]:
    """`count` draws from one generator of random numbers; sources may repeat."""
    generator = random.Random(check_seed(seed))
    return [draw(generator) for _ in range(check_integer("count", count, 0))]


def stream(draw: Callable[[random.Random], Pair], seed: int) -> Iterator[Pair]:
    """Draws without end."""
    generator = random.Random(check_seed(seed))
    while True:
        yield draw(generator)


def distinct(pairs: Iterable[Pair], count: int, seen: set[tuple[str, ...]]) -> list[Pair]:
    """The next `count` pairs whose source is not in `seen`; their sources are added to it. 2,000
    draws in a row that bring nothing new are taken for the end.
    """
    accepted: list[Pair] = []
    if check_integer("count", count, 0) == 0:
        return accepted
    failures = 0
    for pair in pairs:
        failures = failures + 1 if pair.source in seen else 0
        if failures > 2000:
            break
        if not failures:
            seen.add(pair.source)
            accepted.append(pair)
            if len(accepted) == count:
                return accepted
    raise ValueError(
        f"count asks for {count} pairs with new sources, but the task has too few different "
        f"sources, only {len(accepted)}: ask for fewer or widen its options"
    )
