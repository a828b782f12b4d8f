"""Dates, read back from their human form by rules of their own and by datetime."""

import calendar
import datetime
import itertools
import re

import pytest
from assertions import refusals
from hypothesis import given
from hypothesis import strategies as st

from attnbook.tasks.sequences.pairs import take
from attnbook.tasks.translation import dates

DAYS = st.dates(dates.FIRST, dates.LAST)
FORMATS = st.sampled_from(sorted(dates.FORMATS))
CASES = st.sampled_from(["plain", "lower", "upper"])
NAMES = {name.lower(): n for n, name in enumerate(calendar.month_name) if name}
SHORT = {name.lower(): n for n, name in enumerate(calendar.month_abbr) if name}
UNITS = "first second third fourth fifth sixth seventh eighth ninth".split()
TEENS = (
    "tenth eleventh twelfth thirteenth fourteenth fifteenth sixteenth seventeenth eighteenth "
    "nineteenth twentieth"
).split()
ORDINALS = {word: n for n, word in enumerate(UNITS + TEENS, 1)}
ORDINALS |= {f"twenty-{word}": 20 + n for n, word in enumerate(UNITS, 1)}
ORDINALS |= {"thirtieth": 30, "thirty-first": 31}


def read(text):
    """The date and, where one is named, the weekday."""
    text = text.lower()
    if match := re.fullmatch(r"(\d{4})[./](\d\d)[./](\d\d)", text):
        return datetime.date(*map(int, match.groups())), None
    if match := re.fullmatch(r"(\d\d?)/(\d\d?)/(\d{4})", text):
        month, day, year = map(int, match.groups())
        return datetime.date(year, month, day), None
    if match := re.fullmatch(r"(\d\d)\.(\d\d)\.(\d{4})", text):
        day, month, year = map(int, match.groups())
        return datetime.date(year, month, day), None
    day = month = year = weekday = None
    for word in re.sub(r"(?<=\d)-|-(?=\d)|,", " ", text).split():
        if word in NAMES or word in SHORT:
            month = NAMES.get(word) or SHORT[word]
        elif word in ORDINALS:
            day = ORDINALS[word]
        elif re.fullmatch(r"\d{4}", word):
            year = int(word)
        elif re.fullmatch(r"'\d\d", word):
            year = (1900 if int(word[1:]) >= 70 else 2000) + int(word[1:])
        elif match := re.fullmatch(r"(\d\d?)(st|nd|rd|th)?", word):
            day = int(match[1])
            if match[2]:
                last = 0 if day in (11, 12, 13) else day % 10
                assert match[2] == {1: "st", 2: "nd", 3: "rd"}.get(last, "th"), word
        elif word[:3] in [name.lower() for name in calendar.day_abbr]:
            weekday = [name.lower() for name in calendar.day_abbr].index(word[:3])
            assert word in (calendar.day_name[weekday].lower(), calendar.day_abbr[weekday].lower())
        else:
            assert word in ("on", "the", "of"), word
    return datetime.date(year, month, day), weekday


@given(DAYS, FORMATS, CASES)
def test_every_format_reads_back(date, format, case):
    pair = dates.pair(date, format, case)
    read_date, weekday = read("".join(pair.source))
    assert read_date == date
    assert weekday in (None, date.weekday())
    assert "".join(pair.target) == date.isoformat()
    assert all(len(character) == 1 for character in pair.source)


def test_every_day_of_a_month_and_every_month_reads_back():
    days = [datetime.date(2024, 1, day) for day in range(1, 32)]
    days += [datetime.date(1997, month, 12) for month in range(1, 13)]
    for date, format in itertools.product(days, dates.FORMATS):
        assert read("".join(dates.pair(date, format).source))[0] == date


@pytest.mark.parametrize(
    ("case", "text"),
    [
        ("plain", "Saturday, May 3, 1997"),
        ("lower", "saturday, may 3, 1997"),
        ("upper", "SATURDAY, MAY 3, 1997"),
    ],
)
def test_cases(case, text):
    pair = dates.pair(datetime.date(1997, 5, 3), "weekday, month day", case)
    assert "".join(pair.source) == text


@given(DAYS, FORMATS, CASES)
def test_the_alignment_points_at_what_says_each_digit(date, format, case):
    pair = dates.pair(date, format, case)
    text = "".join(pair.source).lower()
    assert len(pair.alignment) == len(pair.target) == 10
    assert pair.content == tuple(bool(sources) for sources in pair.alignment)
    pieces = [text[min(s) : max(s) + 1] if s else "" for s in pair.alignment]
    assert all(not s or sorted(s) == list(range(min(s), max(s) + 1)) for s in pair.alignment)
    assert pieces[4] == pieces[7] == ""
    for t, (digit, piece) in enumerate(zip(pair.target, pieces)):
        if len(piece) == 1:
            assert piece == digit
        elif t < 4 and piece:
            assert t < 2 and piece == date.isoformat()[2:4] and "{yy}" in dates.FORMATS[format]
        elif t in (5, 6) and piece:
            assert (NAMES.get(piece) or SHORT[piece]) == date.month
            assert pieces[5] == pieces[6]
    if re.search("[a-z]", pieces[9]):
        words = pieces[9] if pieces[8] == pieces[9] else f"{pieces[8]}-{pieces[9]}"
        assert ORDINALS[words] == date.day
    # Only a zero may come from nothing, and only where a single digit was written.
    assert all(digit in "0-" for digit, piece in zip(pair.target, pieces) if not piece)
    if not pieces[8]:
        at = min(pair.alignment[9])
        assert date.day < 10 and (at == 0 or text[at - 1] != "0")
    # Two digits of the same field never share one written digit.
    for low, high in ((2, 3), (8, 9)):
        if len(pieces[high]) == 1:
            assert pair.alignment[low] != pair.alignment[high]


WRITTEN = """day month year: 3 May 1997
day mon year: 03 May 1997
day-mon-year: 3-May-1997
day th of month: 3rd of May 1997
on the day th: on the 3rd of May, 1997
day in words: the third of May 1997
month day, year: May 3, 1997
mon day, year: May 3, 1997
month day th, year: May 3rd, 1997
month in words, year: May the third, 1997
weekday, month day: Saturday, May 3, 1997
weekday day month: Sat 3 May 1997
short year: 3 May '97
short year, us: May 3, '97
slashes, us: 5/3/1997
slashes, us, zeros: 05/03/1997
dots, day first: 03.05.1997
dots, year first: 1997.05.03
slashes, year first: 1997/05/03
year month day: 1997 May 3"""


def test_each_format_as_a_person_writes_it():
    day = datetime.date(1997, 5, 3)
    lines = [f"{name}: {''.join(dates.pair(day, name).source)}" for name in dates.FORMATS]
    assert lines == WRITTEN.splitlines()


def test_known_alignments():
    def pieces(date, format):
        pair = dates.pair(datetime.date.fromisoformat(date), format)
        return " ".join("".join(pair.source[i] for i in sorted(s)) or "-" for s in pair.alignment)

    assert pieces("1997-05-21", "day in words") == "1 9 9 7 - May May - twenty first"
    assert pieces("1997-05-12", "day in words").endswith("twelfth twelfth")
    assert pieces("1997-05-03", "short year") == "97 97 9 7 - May May - - 3"
    assert pieces("1997-11-03", "slashes, us") == "1 9 9 7 - 1 1 - - 3"


def test_drawn_dates_stay_in_range_and_are_the_same_on_every_platform():
    pairs = take(dates.drawer(), 2000, seed=0)
    assert {int("".join(p.target[:4])) for p in pairs} == {*range(1970, 2070)}
    assert ["".join(p.source) for p in pairs[:4]] == [
        "Feb 15, '39", "16.06.2016", "AUGUST THE TWENTY-EIGHTH, 2042", "2034/03/31"
    ]  # fmt: skip


def test_the_vocabulary_holds_every_character_that_is_used():
    days = [datetime.date(2000, 1, 1) + datetime.timedelta(days=day) for day in range(366)]
    written = itertools.product(days, dates.FORMATS, dates.CASES)
    assert {c for one in written for c in dates.pair(*one).source} == set(dates.source_tokens())


DAY = datetime.date(1997, 5, 3)

test_wrong_arguments_are_named = refusals(
    ("format", lambda: dates.pair(DAY, "iso")),
    ("case", lambda: dates.pair(DAY, case="title")),
    ("date", lambda: dates.pair(datetime.date(1969, 12, 31), "short year")),
    ("date", lambda: dates.pair(datetime.date(997, 5, 3))),
    ("count", lambda: take(dates.drawer(), 2.5, seed=0)),
)
