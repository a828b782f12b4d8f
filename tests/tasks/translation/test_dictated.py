"""Dictated numbers, read back by a parser written here; the rule of the check digit."""

import random

import pytest
from assertions import assert_refused
from hypothesis import given
from hypothesis import strategies as st

from attnbook.tasks.sequences.pairs import take
from attnbook.tasks.translation.dictated import WORDS, check_digit, drawer, is_valid, speak

ONES = {word: str(k) for k, word in enumerate("zero one two three four five six seven".split())}
ONES |= {"eight": "8", "nine": "9", "oh": "0", "nought": "0"}
TEENS = "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen".split()
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()


def pieces(words):
    """(digits, first word, word after the last) of each piece that stands; what was taken back is
    another piece than what follows.
    """
    found, at, wrong = [], 0, ""
    while at < len(words):
        word, after, start = words[at], words[at + 1 : at + 2], at
        if word in ("no", "sorry"):
            wrong, _, _ = found.pop()
            at += 1
            continue
        if word in TEENS:
            digits, at = f"1{TEENS.index(word)}", at + 1
        elif word in TENS:
            digits, at = f"{TENS.index(word) + 2}{ONES[after[0]]}", at + 2
        elif word in ("double", "triple"):
            digits, at = ONES[after[0]] * (2 if word == "double" else 3), at + 2
        elif after == ("hundred",):
            digits, at = ONES[word] + "00", at + 2
        else:
            digits, at = ONES[word], at + 1
        assert digits != wrong
        wrong = ""
        found.append((digits, start, at))
    return found


@given(
    st.text("0123456789", min_size=1, max_size=14),
    st.integers(0, 10**6),
    st.sampled_from([0.0, 0.3, 1.0]),
)
def test_the_words_are_read_in_one_way(number, seed, corrections):
    source, target, alignment, content = speak(number, random.Random(seed), corrections)
    assert "".join(target) == number and all(content)
    read = pieces(source)
    assert "".join(digits for digits, _, _ in read) == number
    spans = [set(range(a, b)) for digits, a, b in read for _ in digits]
    assert list(map(set, alignment)) == spans
    assert set(source) <= set(WORDS) and set(target) <= set("0123456789")
    assert sum(word in ("no", "sorry") for word in source) == (corrections == 1.0) * len(read) or (
        corrections == 0.3
    )


def test_every_way_to_say_a_digit_comes_up():
    said = {word for pair in take(drawer(), 3000, seed=1) for word in pair.source}
    assert said == set(WORDS)


def test_the_check_digit():
    assert is_valid("4006381333931") and check_digit("400638133393") == "1"
    assert not is_valid("4006381333932") and not is_valid("0") and is_valid("00")
    for number in (pair.target for pair in take(drawer(), 50, seed=2)):
        assert is_valid(number)
        for place in range(len(number)):
            for other in set("0123456789") - {number[place]}:
                assert not is_valid((*number[:place], other, *number[place + 1 :]))


def test_lengths_and_repeats():
    pairs = take(drawer(digits=(3, 5)), 300, seed=3)
    assert {len(pair.target) for pair in pairs} == {3, 4, 5}
    assert {len(pair.target) for pair in take(drawer(digits=20), 5, seed=3)} == {20}
    (same,) = take(drawer(digits=9, repeats=1.0), 1, seed=4)
    assert len(set(same.target[:-1])) == 1

    def neighbours(**options):
        numbers = [pair.target for pair in take(drawer(digits=12, **options), 300, seed=5)]
        return sum(n[i] == n[i + 1] for n in numbers for i in range(10)) / 3000

    assert 0.06 < neighbours(repeats=0.0) < 0.14 and 0.33 < neighbours() < 0.41


def test_wrong_arguments_are_named():
    assert_refused("digits", drawer, digits=1)
    assert_refused("digits", drawer, digits=(5, 3))
    for name in ("corrections", "repeats"):
        assert_refused(name, drawer, **{name: 1.5})
    assert_refused("corrections", speak, "12", random.Random(0), -1)
    for number in ("1a", "", "²"):
        with pytest.raises(ValueError, match="number must be"):
            speak(number, random.Random(0))
