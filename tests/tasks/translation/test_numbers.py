"""Numbers in words, against parsers that read them back and share no line with the generator."""

from collections import Counter

import pytest
from assertions import refusals
from hypothesis import given
from hypothesis import strategies as st

from attnbook.tasks.translation import numbers

EN = dict(
    zero=0, one=1, two=2, three=3, four=4, five=5, six=6, seven=7, eight=8, nine=9, ten=10,
    eleven=11, twelve=12, thirteen=13, fourteen=14, fifteen=15, sixteen=16, seventeen=17,
    eighteen=18, nineteen=19, twenty=20, thirty=30, forty=40, fifty=50, sixty=60, seventy=70,
    eighty=80, ninety=90,
)  # fmt: skip
FR = dict(
    zéro=0, un=1, deux=2, trois=3, quatre=4, cinq=5, six=6, sept=7, huit=8, neuf=9, dix=10,
    onze=11, douze=12, treize=13, quatorze=14, quinze=15, seize=16, vingt=20, trente=30,
    quarante=40, cinquante=50, soixante=60,
)  # fmt: skip


def read_english(words):
    total = block = 0
    for word in words:
        if word == "and":
            continue
        if word == "hundred":
            block *= 100
        elif word in ("thousand", "million"):
            total, block = total + block * {"thousand": 1000, "million": 10**6}[word], 0
        else:
            block += EN[word]
    return total + block


def read_french(words):
    total = block = 0
    previous = None
    for word in words:
        if word in ("vingt", "vingts") and previous == "quatre":
            block += 80 - 4
        elif word in ("cent", "cents"):
            # What stands before cent in this block is its multiplier; alone it is one hundred.
            block = (block or 1) * 100
        elif word == "mille":
            total, block = total + (block or 1) * 1000, 0
        elif word in ("million", "millions"):
            total, block = total + block * 10**6, 0
        elif word != "et":
            block += FR[word]
        previous = word
    return total + block


VALUES = st.one_of(
    st.integers(0, 1100),
    st.integers(0, numbers.LARGEST),
    st.sampled_from([10**k for k in range(9)]),
    st.sampled_from([70, 71, 80, 81, 91]).flatmap(
        lambda v: st.sampled_from([v, v * 1000, v * 10**6, v * 1001001])
    ),
)


@given(VALUES, st.booleans())
def test_english_reads_back(value, british):
    pair = numbers.pair(value, "en", british=british)
    assert read_english(pair.source) == value
    assert "".join(pair.target) == str(value)
    assert set(pair.source) <= set(numbers.source_tokens("en", british=british))


@given(VALUES)
def test_french_reads_back(value):
    pair = numbers.pair(value, "fr")
    assert read_french(pair.source) == value
    assert "".join(pair.target) == str(value)
    assert set(pair.source) <= set(numbers.source_tokens("fr"))


def test_all_numbers_to_a_few_thousand_read_back_and_differ():
    for language, read in (("en", read_english), ("fr", read_french)):
        seen = [numbers.pair(value, language).source for value in range(3000)]
        assert [read(words) for words in seen] == list(range(3000))
        assert len(set(seen)) == 3000


FRENCH = """0: zéro
17: dix sept
21: vingt et un
70: soixante dix
71: soixante et onze
77: soixante dix sept
80: quatre vingts
81: quatre vingt un
91: quatre vingt onze
100: cent
180: cent quatre vingts
200: deux cents
1000: mille
21000: vingt et un mille
80000: quatre vingt mille
1000000: un million
200000000: deux cents millions
1001080: un million mille quatre vingts"""


def test_french_spelling():
    for line in FRENCH.splitlines():
        value, _, words = line.partition(": ")
        assert " ".join(numbers.pair(int(value), "fr").source) == words


@given(VALUES.filter(bool))
def test_french_spelling_rules(value):
    words = numbers.pair(value, "fr").source
    for i, word in enumerate(words):
        after = words[i + 1] if i + 1 < len(words) else None
        before = words[i - 1] if i else None
        plural_ends = after in (None, "million", "millions")
        if word == "vingts":
            assert before == "quatre" and plural_ends
        if word == "vingt" and before == "quatre":
            assert not plural_ends
        if word == "cents":
            assert before in FR and 2 <= FR[before] <= 9 and plural_ends
        if word == "cent" and before in FR and 2 <= FR[before] <= 9:
            assert not plural_ends
        if word == "mille":
            assert before != "un" or words[i - 2 : i - 1] in (("et",), ("vingt",), ("cent",))
        if word == "et":
            assert before in ("vingt", "trente", "quarante", "cinquante", "soixante")
            assert after == "un" or (before, after) == ("soixante", "onze")
        if word == "million":
            assert words[:i] == ("un",)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (302, "three hundred (and) two"),
        (100, "one hundred"),
        (1005, "one thousand (and) five"),
        (5321, "five thousand three hundred (and) twenty one"),
        (1000042, "one million (and) forty two"),
    ],
)
def test_english_on_both_sides_of_the_atlantic(value, words):
    assert " ".join(numbers.pair(value).source) == words.replace("(and) ", "")
    assert " ".join(numbers.pair(value, british=True).source) == words.replace("(and)", "and")


def say_where(value, words, language):
    """The alignment by another way: what each word adds, and so which digits it says."""
    table, digits = (EN, str(value)) if language == "en" else (FR, str(value))
    scale = 1
    adds = [None] * len(words)  # (lowest place, highest place) that word i says
    place = {"hundred": 2, "cent": 2, "cents": 2}
    for i in range(len(words) - 1, -1, -1):
        word, after = words[i], words[i + 1] if i + 1 < len(words) else None
        before = words[i - 1] if i else None
        if word in ("thousand", "mille"):
            scale = 3
            if i == 0 or before in ("million", "millions"):
                adds[i] = (3, 3)
        elif word in ("million", "millions"):
            scale = 6
        elif scale == 1 and not any(
            w in ("thousand", "mille", "million", "millions") for w in words[i:]
        ):
            scale = 0
        base = scale if scale != 1 else 0
        if word == "cent" and (before is None or before in ("million", "millions", "mille")):
            adds[i] = (base + 2, base + 2)
        elif word in ("vingt", "vingts") and before == "quatre":
            adds[i] = (base + 1, base + 1)
        elif word in table:
            if after in place:
                adds[i] = (base + 2, base + 2)
            elif word == "quatre" and after in ("vingt", "vingts"):
                adds[i] = (base + 1, base + 1)
            elif table[word] < 10:
                adds[i] = (base, base)
            elif table[word] < 20 and not (word == "dix" and after in ("sept", "huit", "neuf")):
                adds[i] = (base, base + 1)
            else:
                adds[i] = (base + 1, base + 1)
    size = len(digits)
    return tuple(
        frozenset(i for i, span in enumerate(adds) if span and span[0] <= size - 1 - t <= span[1])
        for t in range(size)
    )


@given(VALUES, st.sampled_from(["en", "fr"]))
def test_the_alignment_is_what_each_word_says(value, language):
    pair = numbers.pair(value, language)
    assert pair.alignment == say_where(value, pair.source, language)
    assert pair.content == tuple(bool(sources) for sources in pair.alignment)


def test_known_alignments():
    assert numbers.pair(97, "fr").alignment == (frozenset({0, 1, 2}), frozenset({3}))
    assert numbers.pair(71, "fr").alignment == (frozenset({0, 2}), frozenset({2}))
    assert numbers.pair(312).alignment == (frozenset({0}), frozenset({2}), frozenset({2}))
    assert numbers.pair(302).alignment == (frozenset({0}), frozenset(), frozenset({2}))
    assert numbers.pair(1000, "fr").alignment == (frozenset({0}), *[frozenset()] * 3)


def test_drawn_numbers_cover_the_lengths_and_are_the_same_on_every_platform():
    pairs = numbers.generate(3000, seed=5, language="fr", digits=(2, 7))
    counts = Counter(len(pair.target) for pair in pairs)
    assert set(counts) == set(range(2, 8)) and all(400 < n < 600 for n in counts.values())
    assert {len(p.target) for p in numbers.generate(50, seed=0, digits=9)} == {9}
    drawn = ["".join(p.target) for p in numbers.generate(6, seed=0)]
    assert drawn == "7890 4 73691 5969 6866 38631".split()


def test_every_word_of_the_vocabulary_is_used():
    for language, british in (("en", False), ("en", True), ("fr", False)):
        values = [*range(101), 10**3, 10**6, 2 * 10**6, 200, 105]
        pairs = [numbers.pair(value, language, british=british) for value in values]
        assert {word for pair in pairs for word in pair.source} == set(
            numbers.source_tokens(language, british=british)
        )


test_wrong_arguments_are_named = refusals(
    ("value", lambda: numbers.pair(-1)),
    ("value", lambda: numbers.pair(10**9)),
    ("language", lambda: numbers.generate(1, seed=0, language="de")),
    ("digits", lambda: numbers.generate(1, seed=0, digits=(0, 3))),
    ("digits", lambda: numbers.generate(1, seed=0, digits=10)),
    ("count", lambda: numbers.generate(-1, seed=0)),
)
