"""Numbers in English or French words, to digits, with the true alignment.

French counts 70 to 99 on sixty and on four twenties, so that one digit may come from three words,
and one word may give two digits: quatre vingt dix sept → 97, with 9 from (quatre, vingt, dix) and 7
from (sept).

The rule of the alignment: a digit comes from the words that say it. A word that names a number
below twenty in one piece gives both digits (twelve → 1, 2). In "cent" and "mille" without a
multiplier the word itself says the 1. A zero that no word says, as in "three hundred two" → 302,
comes from nothing."""

import random
from collections.abc import Callable

from ...validate import check_choice, check_integer, check_range, require
from ..sequences.pairs import NOTHING, Pair, take
from ..sequences.task import generated_task

LARGEST = 999_999_999

_EN_SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen"
).split()
_EN_TENS = "- - twenty thirty forty fifty sixty seventy eighty ninety".split()
_FR_SMALL = (
    "zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize"
).split()
_FR_TENS = "- - vingt trente quarante cinquante soixante".split()

# Words with the place (0 units, 1 tens, 2 hundreds) of the digits that each says.
Parts = list[tuple[str, tuple[int, ...]]]


def _english_below_hundred(value: int) -> Parts:
    if value < 10:
        return [(_EN_SMALL[value], (0,))] if value else []
    if value < 20:
        return [(_EN_SMALL[value], (1, 0))]
    return [(_EN_TENS[value // 10], (1,))] + _english_below_hundred(value % 10)


def _english_block(value: int, british: bool) -> Parts:
    hundreds, rest = divmod(value, 100)
    parts: Parts = [(_EN_SMALL[hundreds], (2,)), ("hundred", ())] if hundreds else []
    if british and hundreds and rest:
        parts.append(("and", ()))
    return parts + _english_below_hundred(rest)


def _english(value: int, british: bool) -> list[Parts]:
    """The words of the three blocks of three digits: millions, thousands, units."""
    millions, thousands, units = _blocks(value)
    parts = [_english_block(block, british) for block in (millions, thousands, units)]
    if millions:
        parts[0].append(("million", ()))
    if thousands:
        parts[1].append(("thousand", ()))
    if british and units and units < 100 and (millions or thousands):
        parts[2].insert(0, ("and", ()))
    return parts


def _french_below_hundred(value: int, final: bool) -> Parts:
    """`final`: nothing follows but a noun (million), so that quatre-vingts keeps its s."""
    if value < 10:
        return [(_FR_SMALL[value], (0,))] if value else []
    tens, unit = divmod(value, 10)
    if tens == 1:
        return _french_teen(unit)
    if tens < 8:
        joined: Parts = [("et", ())] if unit == 1 else []
        rest = _french_teen(unit) if tens == 7 else _french_below_hundred(unit, final)
        return [(_FR_TENS[min(tens, 6)], (1,)), *joined, *rest]
    if tens == 8:
        twenty = "vingts" if unit == 0 and final else "vingt"
        return [("quatre", (1,)), (twenty, (1,))] + _french_below_hundred(unit, final)
    return [("quatre", (1,)), ("vingt", (1,))] + _french_teen(unit)


def _french_teen(unit: int) -> Parts:
    """10–19, also within 70–79 and 90–99: dix, onze, …, dix neuf; it says the tens digit too."""
    if unit < 7:
        return [(_FR_SMALL[10 + unit], (1, 0))]
    return [("dix", (1,)), (_FR_SMALL[unit], (0,))]


def _french_block(value: int, final: bool) -> Parts:
    hundreds, rest = divmod(value, 100)
    parts: Parts = []
    if hundreds == 1:
        parts.append(("cent", (2,)))
    elif hundreds:
        parts += [(_FR_SMALL[hundreds], (2,)), ("cents" if rest == 0 and final else "cent", ())]
    return parts + _french_below_hundred(rest, final)


def _french(value: int, british: bool) -> list[Parts]:
    millions, thousands, units = _blocks(value)
    parts = [_french_block(millions, True), [], _french_block(units, True)]
    if millions:
        # "million" is a noun: it takes an s, and leaves that of quatre-vingts and cents in place.
        parts[0].append(("millions" if millions > 1 else "million", ()))
    if thousands == 1:
        parts[1] = [("mille", (0,))]
    elif thousands:
        # "mille" is a numeral: it takes no s, and the word before it loses its own.
        parts[1] = _french_block(thousands, False) + [("mille", ())]
    return parts


def _blocks(value: int) -> tuple[int, int, int]:
    return value // 1_000_000, value // 1000 % 1000, value % 1000


_SPEAKERS: dict[str, tuple[Callable[[int, bool], list[Parts]], str]] = {
    "en": (_english, "zero"),
    "fr": (_french, "zéro"),
}


def pair(value: int, language: str = "en", *, british: bool = False) -> Pair:
    """The words of `value`, hyphens taken apart, its digits, and the words that say each digit.

    Args:
        value: 0 to 999 999 999
        british: English only: "three hundred and two", not "three hundred two"
    """
    speak, zero = _SPEAKERS[check_choice("language", language, _SPEAKERS)]
    value = check_integer("value", value, 0, LARGEST)
    digits = str(value)
    if value == 0:
        return Pair((zero,), ("0",), (frozenset((0,)),), (True,))
    words: list[str] = []
    sources, size = [NOTHING] * len(digits), len(digits)
    for block, parts in enumerate(speak(value, british)):
        last = size - 1 - 3 * (2 - block)  # where the units digit of this block stands
        for word, places in parts:
            for place in places:
                sources[last - place] |= {len(words)}
            words.append(word)
    return Pair(tuple(words), tuple(digits), tuple(sources), tuple(map(bool, sources)))


def source_tokens(language: str = "en", *, british: bool = False) -> tuple[str, ...]:
    """Every word that numbers up to 999 999 999 use."""
    if check_choice("language", language, _SPEAKERS) == "en":
        extra = ["and"] if british else []
        return tuple(_EN_SMALL + _EN_TENS[2:] + ["hundred", "thousand", "million"] + extra)
    return tuple(
        _FR_SMALL + _FR_TENS[2:] + ["vingts", "cent", "cents", "mille", "million", "millions", "et"]
    )


def target_tokens() -> tuple[str, ...]:
    """The ten digits."""
    return tuple("0123456789")


def _tokens(language: str):
    return lambda **options: (source_tokens(language, british=language == "en"), target_tokens())


@generated_task("numbers-en", _tokens("en"), language="en")
@generated_task("numbers-fr", _tokens("fr"), language="fr")
def drawer(language: str = "en", *, digits: tuple[int, int] | int = (1, 6), british: bool = False):
    """Random numbers in words with their digits.

    Args:
        language: "en" or "fr"
        digits: (least, most) digits, both included, each number of digits as likely as the others;
            at most 9
        british: English only: say "and" after the hundreds
    """
    check_choice("language", language, _SPEAKERS)
    low, high = check_range("digits", digits)
    require(high <= 9, f"digits must not exceed 9 (numbers go to {LARGEST}), got {digits!r}")

    def draw(generator: random.Random) -> Pair:
        size = generator.randint(low, high)
        least = 10 ** (size - 1) if size > 1 else 0
        return pair(generator.randrange(least, 10**size), language, british=british)

    return draw


def generate(count: int, *, seed: int, **options) -> list[Pair]:
    """Random numbers in words with their digits; options as in :func:`drawer`."""
    return take(drawer(**options), count, seed)
