"""Dates as people write them, character by character, to ISO 8601 (1997-05-03).

Two readings are possible of some dates; the rules here are: with slashes the month comes first
(05/03/1997, as in the United States), with dots and the year last the day comes first (03.05.1997,
as in Germany), with the year first the month follows it; a year of two digits after an apostrophe
('97) lies in 1970–2069.

The alignment: a digit written in the source comes from that character; both digits of a month or of
an ordinal given by a name come from the letters of that name (twenty-first: 2 from "twenty", 1 from
"first"); the century of '97 comes from its two digits. A zero put before a single digit and the two
hyphens come from nothing."""

import datetime
import random
import re
from itertools import product

from ...validate import check_choice, require
from ..sequences.pairs import NOTHING, Pair, span
from ..sequences.task import generated_task

MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_ORDINALS = (
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth "
    "fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth twentieth"
).split()

# The parts of a format: {d} 3, {dd} 03, {th} 3rd, {word} third, {m} 5, {mm} 05, {mon} May or Sep,
# {month} May or September, {y} 1997, {yy} 97, {dow} Saturday, {dw} Sat. Everything else stands for
# itself.
FORMATS: dict[str, str] = {
    "day month year": "{d} {month} {y}",
    "day mon year": "{dd} {mon} {y}",
    "day-mon-year": "{d}-{mon}-{y}",
    "day th of month": "{th} of {month} {y}",
    "on the day th": "on the {th} of {month}, {y}",
    "day in words": "the {word} of {month} {y}",
    "month day, year": "{month} {d}, {y}",
    "mon day, year": "{mon} {d}, {y}",
    "month day th, year": "{month} {th}, {y}",
    "month in words, year": "{month} the {word}, {y}",
    "weekday, month day": "{dow}, {month} {d}, {y}",
    "weekday day month": "{dw} {d} {mon} {y}",
    "short year": "{d} {month} '{yy}",
    "short year, us": "{mon} {d}, '{yy}",
    "slashes, us": "{m}/{d}/{y}",
    "slashes, us, zeros": "{mm}/{dd}/{y}",
    "dots, day first": "{dd}.{mm}.{y}",
    "dots, year first": "{y}.{mm}.{dd}",
    "slashes, year first": "{y}/{mm}/{dd}",
    "year month day": "{y} {month} {d}",
}
CASES = ("plain", "lower", "upper")
FIRST, LAST = datetime.date(1970, 1, 1), datetime.date(2069, 12, 31)


def _ordinal_words(day: int) -> tuple[str, str]:
    """The part that says the tens and that of the units; one piece below twenty and for tens."""
    if day <= 20:
        return "", _ORDINALS[day - 1]
    if day == 30:
        return "", "thirtieth"
    return ("twenty", "thirty")[day // 10 - 2], _ORDINALS[day % 10 - 1]


def _suffix(day: int) -> str:
    return "th" if 11 <= day <= 13 else {1: "st", 2: "nd", 3: "rd"}.get(day % 10, "th")


# The pieces of a format: (name of a part, "") or ("", literal text).
_PARSED = {name: re.findall(r"{(\w+)}|([^{]+)", pattern) for name, pattern in FORMATS.items()}


def _number(text: str, at: int) -> tuple[frozenset[int], frozenset[int]]:
    """Sources of the two digits of a day or month written as a number."""
    if len(text) == 1:
        return NOTHING, span(at, at + 1)
    return span(at, at + 1), span(at + 1, at + 2)


def _render(pieces, date: datetime.date) -> tuple[str, tuple[frozenset[int], ...]]:
    """The text of a date in a format, and the sources of the ten characters of its ISO form."""
    day, month, weekday = date.day, MONTHS[date.month - 1], WEEKDAYS[date.weekday()]
    tens, units = _ordinal_words(day)
    written = {
        "d": str(day), "dd": f"{day:02d}", "th": f"{day}{_suffix(day)}",
        "word": f"{tens}-{units}" if tens else units,
        "m": str(date.month), "mm": f"{date.month:02d}", "mon": month[:3], "month": month,
        "y": str(date.year), "yy": f"{date.year % 100:02d}",
        "dow": weekday, "dw": weekday[:3], "": "",
    }  # fmt: skip
    text, years, months, days = "", (NOTHING,) * 4, (NOTHING,) * 2, (NOTHING,) * 2
    for part, literal in pieces:
        at, shown = len(text), written[part]
        whole = span(at, at + len(shown))
        if part in ("d", "dd", "th"):
            days = _number(shown if part == "dd" else str(day), at)
        elif part == "word":
            days = whole, whole
            if tens:
                days = span(at, at + len(tens)), span(at + len(tens) + 1, at + len(shown))
        elif part in ("m", "mm"):
            months = _number(shown, at)
        elif part in ("mon", "month"):
            months = whole, whole
        elif part == "y":
            years = tuple(span(at + k, at + k + 1) for k in range(4))
        elif part == "yy":
            years = whole, whole, span(at, at + 1), span(at + 1, at + 2)
        text += shown + literal
    return text, (*years, NOTHING, *months, NOTHING, *days)


def pair(date: datetime.date, format: str = "day month year", case: str = "plain") -> Pair:
    """One date in one format.

    Args:
        format: a key of `FORMATS`
        case: "plain" as in the format, "lower" or "upper"
    """
    check_choice("format", format, FORMATS)
    check_choice("case", case, CASES)
    within, years = FIRST <= date <= LAST, f"{FIRST.year}–{LAST.year}"
    within = within or "{yy}" not in FORMATS[format]
    require(within, f"date must lie in {years} for a year of two digits, got {date}")
    require(date.year >= 1000, f"date must have a year of four digits, got {date}")
    text, alignment = _render(_PARSED[format], date)
    text = text.lower() if case == "lower" else text.upper() if case == "upper" else text
    return Pair(tuple(text), tuple(date.isoformat()), alignment, tuple(map(bool, alignment)))


def source_tokens() -> tuple[str, ...]:
    """Every character that the formats use, in code-point order."""
    longest = [datetime.date(2000, month, day) for month in range(1, 13) for day in range(1, 30)]
    written = product(longest, FORMATS, CASES)
    return tuple(sorted({c for one in written for c in pair(*one).source}))


def target_tokens() -> tuple[str, ...]:
    """The characters of ISO dates."""
    return tuple("-0123456789")


@generated_task("dates", lambda: (source_tokens(), target_tokens()))
def drawer():
    """Random dates of 1970 to 2069 in random formats, each character a token, with ISO dates as
    targets; a quarter of them in lower case and a quarter in capitals.
    """
    names, cases = tuple(FORMATS), ("plain", *CASES)
    low, high = FIRST.toordinal(), LAST.toordinal()

    def draw(generator: random.Random) -> Pair:
        date = datetime.date.fromordinal(generator.randint(low, high))
        return pair(date, generator.choice(names), generator.choice(cases))

    return draw
