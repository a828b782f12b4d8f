"""Denoising: what is left and what was cut out make the text; gaps as many and long as planned."""

import random
from collections import Counter

import torch
from assertions import assert_refused, refusals
from hypothesis import given, settings
from hypothesis import strategies as st

from attnbook.tasks.text.denoising import (
    DenoisingBatches,
    corrupt,
    gaps_in,
    numbered_vocabulary,
    segments,
)

MARKS = list(range(1000, 1040))


def put_back(source, target):
    """The text, from both halves."""
    gaps, mark = {}, None
    for token in target:
        if token in MARKS:
            mark = token
            gaps[mark] = []
        else:
            gaps[mark].append(token)
    return [token for piece in source for token in gaps.get(piece, [piece])]


@settings(max_examples=200, deadline=None)
@given(
    n=st.integers(2, 80), share=st.floats(0.05, 0.9), mean=st.floats(1, 6), seed=st.integers(0, 99)
)
def test_both_halves_make_the_text_again(n, share, mean, seed):
    text = list(range(n))
    source, target = corrupt(text, MARKS, random.Random(seed), share=share, mean=mean)
    gone, number = gaps_in(n, share, mean)
    assert put_back(source, target) == text
    assert [t for t in source if t in MARKS] == [t for t in target if t in MARKS] == MARKS[:number]
    assert len(target) == gone + number and len(source) == n - gone + number
    assert source[0] == text[0] and source[-1] in MARKS
    beside = [pair for row in (source, target) for pair in zip(row, row[1:])]
    assert not any(a in MARKS and b in MARKS for a, b in beside)


def test_how_much_is_cut_out():
    assert gaps_in(64) == (10, 3) and gaps_in(512) == (77, 26)
    assert gaps_in(2) == (1, 1) and gaps_in(4, 0.9) == (3, 1)


def test_all_ways_to_cut_are_alike():
    """Of 6 tokens, 2 go in 2 spans of one token: the 4 that stay are split in 3 ways."""
    cut = [corrupt(range(6), MARKS, random.Random(k), share=1 / 3, mean=1.0) for k in range(6000)]
    counts = Counter(tuple(source) for source, _ in cut)
    assert len(counts) == 3 and all(abs(c / 6000 - 1 / 3) < 0.03 for c in counts.values())


def test_batches_show_every_text_once_an_epoch_with_other_gaps_each_time():
    texts = torch.arange(5 * 20).view(5, 20) + 4
    batches = DenoisingBatches(texts, 2, MARKS, seed=3)
    assert len(batches) == 3
    for epoch in (0, 1):
        seen = []
        for k in range(3):
            batch = batches.batch(3 * epoch + k)
            for row, n, target in zip(
                batch.source.tolist(), batch.lengths.tolist(), batch.target_out.tolist()
            ):
                seen.append(put_back(row[:n], target[: target.index(2)]))
        assert sorted(seen) == texts.tolist()
    assert not torch.equal(batches.batch(0).source, batches.batch(3).source)


def test_vocabulary_and_segments():
    sentences = [("b", "a", "b"), ("c", "a", "b")]
    vocabulary = numbered_vocabulary(sentences, 2, min_count=2)
    assert vocabulary.tokens[4:] == ("<1>", "<2>", "b", "a")
    assert segments(sentences, vocabulary, 4).tolist() == [[6, 7, 6, 3]]
    assert_refused("sentences", segments, sentences, vocabulary, 7)


test_bad_input_is_named = refusals(
    ("length", lambda: gaps_in(1)),
    ("share", lambda: gaps_in(9, 1.0)),
    ("mean", lambda: gaps_in(9, 0.2, 0.5)),
    ("marks", lambda: corrupt(range(20), [1], random.Random(0), share=0.5)),
)
