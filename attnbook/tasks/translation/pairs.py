"""A source, its target and, where it is known, which source tokens each target token comes from."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

NOTHING: frozenset[int] = frozenset()


class Pair(NamedTuple):
    """One example of a sequence-to-sequence task.

    source     n tokens
    target     m tokens
    alignment  m sets: ``alignment[t]`` holds the source positions that target token t comes from;
               an empty set when it comes from none (a separator, a zero that no word says). None:
               unknown.
    content    m flags: True where the target token carries meaning of its own (a digit, a noun, an
               adjective, a quantity), False for articles, conjunctions and separators. None:
               unknown.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    alignment: tuple[frozenset[int], ...] | None = None
    content: tuple[bool, ...] | None = None


@lru_cache(maxsize=65536)
def span(start: int, stop: int) -> frozenset[int]:
    """The positions start, …, stop − 1 as a set (shared: thousands of pairs use the same few)."""
    return frozenset(range(start, stop))


def check_count(count: int) -> int:
    """`count` itself, or a ValueError when it is not a whole number ≥ 0."""
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise ValueError(f"count must be an integer >= 0, got {count!r}")
    return count


def check_step(step: int) -> int:
    """`step` itself, or a ValueError when it is not a whole number ≥ 0."""
    if isinstance(step, bool) or not isinstance(step, int) or step < 0:
        raise ValueError(f"step must be an integer >= 0, got {step!r}")
    return step


def check_range(name: str, value: tuple[int, int] | int, least: int) -> tuple[int, int]:
    """A (low, high) range with both ends included; a single number k stands for (k, k)."""
    pair = isinstance(value, tuple | list) and len(value) == 2
    low, high = (value, value) if isinstance(value, int) else value if pair else (None, None)
    if not (isinstance(low, int) and isinstance(high, int) and least <= low <= high):
        raise ValueError(f"{name} must be (low, high) with {least} <= low <= high, got {value!r}")
    return low, high


def take(draw: Callable[[random.Random], Pair], count: int, seed: int) -> list[Pair]:
    """`count` draws from one generator of random numbers; sources may repeat."""
    generator = random.Random(seed)
    return [draw(generator) for _ in range(check_count(count))]


def stream(draw: Callable[[random.Random], Pair], seed: int) -> Iterator[Pair]:
    """Draws without end."""
    generator = random.Random(seed)
    while True:
        yield draw(generator)


def distinct(
    pairs: Iterable[Pair], count: int, seen: set[tuple[str, ...]], patience: int = 2000
) -> list[Pair]:
    """The next `count` pairs whose source is not in `seen`; their sources are added to it.

    Raises ValueError when `patience` draws in a row (beyond those asked for) bring nothing new: the
    task has too few different sources."""
    found: list[Pair] = []
    if check_count(count) == 0:
        return found
    failures = 0
    for pair in pairs:
        if pair.source in seen:
            failures += 1
            if failures > patience:
                raise ValueError(
                    f"count asks for {count} pairs with new sources, but only {len(found)} were "
                    f"found: "
                    "the task has too few different sources; ask for fewer or widen its options"
                )
            continue
        failures = 0
        seen.add(pair.source)
        found.append(pair)
        if len(found) == count:
            return found
    raise ValueError(
        f"count asks for {count} pairs with new sources, but there are only {len(found)}"
    )
