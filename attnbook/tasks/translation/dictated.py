"""Meter numbers as people dictate them, word by word, to their digits.

    nine double seven forty two no forty three oh eight → 9774308

A number is spoken in pieces: a digit (zero is also oh or nought), two or three equal digits
("double seven", "triple oh"), two digits as one number ("forty two", "sixteen"), or a digit and two
zeros ("nine hundred"). Who has misspoken says "no" or "sorry" and then the last piece anew. A piece
never is a bare "forty", so that the words can be read in one way only.

The last digit of a number is a check digit, made as those of articles in shops (GTIN): counted from
the right, the digits have the weights 1, 3, 1, 3, …, and their weighted sum is a multiple of ten.
One wrong digit always breaks that.

The alignment: a digit comes from the words of its piece; a piece that was taken back gives nothing.
"""

import random
from collections.abc import Iterable, Sequence

from ...validate import check_number, check_range, require
from ..sequences.pairs import Pair, span
from ..sequences.task import generated_task

_UNITS = "zero one two three four five six seven eight nine".split()
_TEENS = "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
_TENS = "- - twenty thirty forty fifty sixty seventy eighty ninety".split()
_ZEROS = ("zero", "oh", "nought")
_TIMES = {2: "double", 3: "triple"}
CORRECTIONS = ("no", "sorry")  # take the piece before them back
WORDS = (*_UNITS, *_ZEROS[1:], *_TEENS, *_TENS[2:], "hundred", *_TIMES.values(), *CORRECTIONS)
"""Every word that the numbers use."""


def check_digit(digits: Iterable[str]) -> str:
    """The digit that makes a number of these and itself valid."""
    weighted = sum(int(d) * (3, 1)[k % 2] for k, d in enumerate(reversed([*digits])))
    return str(-weighted % 10)


def is_valid(number: Sequence[str]) -> bool:
    """Whether the last digit of a number, a sequence of digits, is its check digit."""
    return len(number) > 1 and check_digit(number[:-1]) == number[-1]


def _digit(value: str, generator: random.Random) -> str:
    return generator.choice(_ZEROS) if value == "0" else _UNITS[int(value)]


def _readings(digits: str) -> list[int]:
    """How many of the next digits may be one piece; minus so many for equal ones."""
    found = [1]
    if len(digits) > 1 and (digits[0] == "1" or "0" not in digits[:2]):
        found.append(2)
    if digits[0] != "0" and digits[1:3] == "00":
        found.append(3)
    return found + [-k for k in _TIMES if len(digits) >= k and len({*digits[:k]}) == 1]


def _words(digits: str, reading: int, generator: random.Random) -> list[str]:
    if reading == 1:
        return [_digit(digits[0], generator)]
    if reading < 0:
        return [_TIMES[-reading], _digit(digits[0], generator)]
    if reading == 3:
        return [_UNITS[int(digits[0])], "hundred"]
    if digits[0] == "1":
        return [_TEENS[int(digits[1])]]
    return [_TENS[int(digits[0])], _UNITS[int(digits[1])]]


def _misspoken(digits: str, reading: int, generator: random.Random) -> list[str]:
    """The words of another piece of the same kind; for a piece with "hundred", of a digit."""
    wrong = digits
    while wrong == digits:
        if reading < 0:
            wrong = generator.choice("0123456789") * len(digits)
        else:
            wrong = "".join(generator.choices("123456789", k=2 if reading == 2 else 1))
    return _words(wrong, 1 if reading == 3 else reading, generator)


def speak(number: Sequence[str], generator: random.Random, corrections: float = 0.0) -> Pair:
    """A number in words, in pieces and words that the generator chooses.

    Args:
        number: digits.
        generator: of what is chosen.
        corrections: the probability of each piece to be misspoken first.
    """
    digits = "".join(number)
    require(digits.isascii() and digits.isdigit(), f"number must be of digits, got {number!r}")
    check_number("corrections", corrections, least=0, most=1)
    words: list[str] = []
    alignment: list[frozenset[int]] = []
    while len(alignment) < len(digits):
        rest = digits[len(alignment) :]
        reading = generator.choice(_readings(rest))
        size = abs(reading)
        if generator.random() < corrections:
            words += _misspoken(rest[:size], reading, generator)
            words.append(generator.choice(CORRECTIONS))
        piece = _words(rest[:size], reading, generator)
        alignment += [span(len(words), len(words) + len(piece))] * size
        words += piece
    return Pair(tuple(words), tuple(digits), tuple(alignment), (True,) * len(digits))


@generated_task("dictated", lambda **options: (WORDS, tuple("0123456789")))
def drawer(*, digits: tuple | int = (4, 12), corrections: float = 0.1, repeats: float = 0.3):
    """Random meter numbers in words with their digits, the last of which is a check digit.

    Args:
        digits: (least, most) digits, both included, at least 2; or one number
        corrections: the probability of each piece to be misspoken first
        repeats: the probability of each digit to be that before it
    """
    low, high = check_range("digits", digits, least=2)
    for name, share in (("corrections", corrections), ("repeats", repeats)):
        check_number(name, share, least=0, most=1)

    def draw(generator: random.Random) -> Pair:
        number = [generator.choice("0123456789")]
        for _ in range(generator.randint(low, high) - 2):
            again = generator.random() < repeats
            number.append(number[-1] if again else generator.choice("0123456789"))
        return speak([*number, check_digit(number)], generator, corrections)

    return draw
