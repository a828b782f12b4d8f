"""Byte pairs against their definition, counted anew for each merge, and against `tokenizers`."""

from collections import Counter

import pytest
import tokenizers
from assertions import refusals
from hypothesis import example, given
from hypothesis import strategies as st

from attnbook.tasks.text.byte_pairs import BytePairs, split_words

TEXT = (
    "It's the lower tower's lowest row; we'll tow 1234 yellow rowers, don't we?\n\n  The naïve "
    "東京 tower — ²³ aaaaaaa aaaaa aa 🎈🎈 l'homme  nor'wester\tthe\u00a0end\x85\u2009 \u3000... "
    "'tis Ⅷ\x1c\n"
)
CORPORA = [TEXT, "ab ab ba ba aba" * 3, "aaaa aaa aaaaa", "the then there " * 5 + "other tether"]
# the package may know characters that are newer than those of Python
CHARACTERS = st.characters(exclude_categories=["Cs", "Cn"])


def merged(ids, pair, new):
    k = 0
    while k < len(ids) - 1:
        if (ids[k], ids[k + 1]) == pair:
            ids = ids[:k] + [new] + ids[k + 2 :]
        k += 1
    return ids


def trained_by_hand(text, number, *, first_of=min, cut=split_words):
    """From the definition: count all pairs, merge the most frequent, count all pairs again."""
    start = BytePairs([])
    words = [[start.encode(byte)[0] for byte in word] for word in cut(text)]
    found = []
    for new in range(260, 260 + number):
        counts = Counter(pair for word in words for pair in zip(word, word[1:]))
        if not counts:
            break
        best = first_of(pair for pair in counts if counts[pair] == max(counts.values()))
        found.append(best)
        words = [merged(word, best, new) for word in words]
    return tuple(found)


@pytest.mark.parametrize("text", [text for text in CORPORA if text.isascii()])
def test_merges_are_those_of_the_definition(text):
    assert BytePairs.train(text, 12).merges == trained_by_hand(text, 12)


def test_wrong_trainings_differ_on_these_texts():
    right = {text: trained_by_hand(text, 12) for text in CORPORA[1:]}
    for wrong in ({"first_of": max}, {"cut": lambda text: [text]}, {"cut": str.split}):
        assert any(trained_by_hand(text, 12, **wrong) != right[text] for text in right), wrong


def longest_match(pairs, word):
    """A wrong encoding: the longest piece that fits, from the left, whatever was learned first."""
    rest, found = word.encode(), []
    while rest:
        best = max((p for p in pairs.pieces[4:] if rest.startswith(p)), key=len)
        found.append(pairs.pieces.index(best))
        rest = rest[len(best) :]
    return found


def test_a_word_is_encoded_by_the_merges_in_their_order():
    for text in CORPORA:
        pairs = BytePairs.train(text, 30)
        for word in split_words(text):
            ids = BytePairs([]).encode(word)
            for new, pair in enumerate(pairs.merges, start=260):
                ids = merged(ids, pair, new)
            assert pairs.encode(word) == ids
    pairs = BytePairs([(70, 71), (69, 70)])  # fg first, then ef
    word = (pairs.pieces[69] + pairs.pieces[70] + pairs.pieces[71]).decode()
    assert pairs.encode(word) == [69, 260] != longest_match(pairs, word)


def the_packages(merges):
    """The byte-level encoding of the package tokenizers with the same merges."""
    printed = {*range(33, 127), *range(161, 173), *range(174, 256)}
    hidden = iter(range(256, 512))
    letters = [chr(b if b in printed else next(hidden)) for b in range(256)]
    spelled = ["".join(letters[b] for b in piece) for piece in BytePairs(merges).pieces]
    numbered = {piece: k for k, piece in enumerate(spelled) if piece}
    joined = [(spelled[a], spelled[b]) for a, b in merges]
    made = tokenizers.Tokenizer(tokenizers.models.BPE(numbered, joined))
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    return made


PAIRS = {number: BytePairs.train(TEXT * 2, number) for number in (0, 40, 150)}
PACKAGES = {number: the_packages(pairs.merges) for number, pairs in PAIRS.items()}
SOME_TEXT = st.one_of(
    st.text(CHARACTERS), st.text(st.sampled_from(TEXT)), st.lists(st.sampled_from(TEXT.split()))
).map(lambda text: text if isinstance(text, str) else " ".join(text))


@example(text=TEXT, number=150)
@given(text=SOME_TEXT, number=st.sampled_from(sorted(PAIRS)))
def test_any_text_is_encoded_as_by_the_package_and_comes_back(text, number):
    ids = PAIRS[number].encode(text)
    assert ids == PACKAGES[number].encode(text).ids
    assert PAIRS[number].decode(ids) == text
    theirs = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str(text)
    assert split_words(text) == [text[a:b] for _, (a, b) in theirs]


@given(text=SOME_TEXT)
def test_training_is_that_of_the_package_ties_included(text):
    theirs = tokenizers.Tokenizer(tokenizers.models.BPE())
    byte_level = tokenizers.pre_tokenizers.ByteLevel
    theirs.pre_tokenizer = byte_level(add_prefix_space=False)
    options = dict(initial_alphabet=byte_level.alphabet(), show_progress=False)
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=256 + 40, **options)
    theirs.train_from_iterator([text], trainer)
    ours = BytePairs.train(text, 40)
    assert [i - 4 for i in ours.encode(text)] == theirs.encode(text).ids
    assert len(ours) == 4 + theirs.get_vocab_size()


def test_words_by_hand():
    assert split_words("We'll go,  it's 12th!\n\nNow ") == [
        "We", "'ll", " go", ",", " ", " it", "'s", " 12", "th", "!", "\n", "\n", "Now", " "
    ]  # fmt: skip


def test_special_ids_have_no_text_and_a_character_may_be_cut():
    pairs = PAIRS[40]
    assert len(pairs) == 300 == len(pairs.pieces)
    assert pairs.decode([1, *pairs.encode("naïve"), 2, 0]) == "naïve"
    assert pairs.decode([BytePairs([]).encode("ï")[0]]) == "\ufffd"
    assert BytePairs.train("", 5).merges == () and pairs.encode("") == []


test_wrong_arguments_are_named = refusals(
    ("merges must be pairs", lambda: BytePairs([(3, 5)])),
    ("merges must be pairs", lambda: BytePairs([(5, 260)])),
    ("merges must be different", lambda: BytePairs([(5, 6), (5, 6)])),
    ("merges must be an", lambda: BytePairs.train("ab", -1)),
    ("text", lambda: BytePairs([]).encode("a\ud800")),
    ("ids", lambda: BytePairs([]).decode([260])),
)
