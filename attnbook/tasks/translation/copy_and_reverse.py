"""Copy and reverse: the smallest tasks that need every token of the source."""

import random

from ...validate import check_integer, check_range
from ..sequences.pairs import Pair, span
from ..sequences.task import generated_task

SYMBOLS = "abcdefghijklmnopqrstuvwxyz"


def tokens(symbols: int = 26) -> tuple[str, ...]:
    """The first `symbols` letters."""
    return tuple(SYMBOLS[: check_integer("symbols", symbols, 1, len(SYMBOLS))])


def _both_sides(symbols: int = 26, **options) -> tuple:
    return tokens(symbols), tokens(symbols)


@generated_task("copy", _both_sides, reverse=False)
@generated_task("reverse", _both_sides, reverse=True)
def drawer(reverse: bool, *, length: tuple[int, int] | int = (3, 10), symbols: int = 26):
    """Random letters, and the same letters again or backwards.

    Args:
        length: (least, most) letters, both included; or one number
        symbols: how many different letters, 1 to 26
    """
    letters = tokens(symbols)
    low, high = check_range("length", length)

    def draw(generator: random.Random) -> Pair:
        n = generator.randint(low, high)
        source = tuple(generator.choices(letters, k=n))
        order = range(n - 1, -1, -1) if reverse else range(n)
        target = source[::-1] if reverse else source
        return Pair(source, target, tuple([span(i, i + 1) for i in order]), (True,) * n)

    return draw
