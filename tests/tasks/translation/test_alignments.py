"""Alignment measures, against counting by hand and by brute force."""

import itertools
import math
import random

import numpy as np
import pytest
import torch
from assertions import refusals
from hypothesis import given
from hypothesis import strategies as st

from attnbook.tasks.translation.alignments import (
    alignment_accuracy,
    alignment_error_rate,
    links_from_weights,
    symmetrise,
    word_weights,
)

LINKS = st.frozensets(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=8)


def brute_aer(predicted, sure, possible):
    """Goes over every cell of every sentence and asks."""
    a_and_s = a_and_p = a_size = s_size = 0
    for a, s, p in zip(predicted, sure, possible):
        for cell in itertools.product(range(4), range(4)):
            in_a, in_s = cell in a, cell in s
            a_and_s += in_a and in_s
            a_and_p += in_a and (cell in p or in_s)
            a_size += in_a
            s_size += in_s
    return 1 - (a_and_s + a_and_p) / (a_size + s_size)


@given(st.lists(st.tuples(LINKS, LINKS, LINKS), min_size=1, max_size=4))
def test_error_rate_against_brute_force(corpus):
    predicted, sure, possible = zip(*corpus)
    if not any(predicted) and not any(sure):
        with pytest.raises(ValueError, match="no link"):
            alignment_error_rate(predicted, sure, possible)
    else:
        rate = alignment_error_rate(predicted, sure, possible)
        assert math.isclose(rate, brute_aer(predicted, sure, possible), abs_tol=1e-12)
        assert 0 <= rate <= 1


def test_links_are_the_largest_weight_of_each_row():
    weights = torch.tensor([[0.1, 0.7, 0.2], [0.5, 0.5, 0.0], [0.0, 0.0, 0.0]])
    assert links_from_weights(weights) == {(1, 0), (0, 1)}
    assert links_from_weights(np.array([[0.2, 0.8]])) == {(1, 0)}


def grown(forward, backward):
    """Grow-diag-final-and over the cells of a table of four by four, as its pseudocode runs."""
    e2f, f2e = np.zeros((4, 4), bool), np.zeros((4, 4), bool)
    for table, links in ((e2f, forward), (f2e, backward)):
        for cell in links:
            table[cell] = True
    a, union, before = e2f & f2e, e2f | f2e, None
    while before is None or (a != before).any():
        before = a.copy()
        for e, f in np.ndindex(4, 4):
            if not a[e, f]:
                continue
            for de, df in ((-1, 0), (0, -1), (1, 0), (0, 1), (-1, -1), (-1, 1), (1, -1), (1, 1)):
                x, y = e + de, f + df
                if not (0 <= x < 4 and 0 <= y < 4 and union[x, y]):
                    continue
                if not a[x].any() or not a[:, y].any():
                    a[x, y] = True
    for table in (e2f, f2e):
        for e, f in np.ndindex(4, 4):
            if table[e, f] and not a[e].any() and not a[:, f].any():
                a[e, f] = True
    return {(int(e), int(f)) for e, f in zip(*a.nonzero())}


@given(LINKS, LINKS)
def test_symmetrised_links_against_tables(forward, backward):
    assert symmetrise(forward, backward, "intersection") == forward & backward
    assert symmetrise(forward, backward, "union") == forward | backward
    assert symmetrise(forward, backward) == grown(forward, backward)


@given(st.integers(0, 10**6))
def test_accuracy_against_brute_force(seed):
    generator = random.Random(seed)
    weights, gold, content, right, counted = [], [], [], 0, 0
    for _ in range(3):
        m, n = generator.randint(1, 5), generator.randint(1, 5)
        rows = [[generator.random() for _ in range(n)] for _ in range(m + 1)]
        sets = [frozenset(i for i in range(n) if generator.random() < 0.4) for _ in range(m)]
        flags = [generator.random() < 0.7 for _ in range(m)]
        weights.append(rows), gold.append(sets), content.append(flags)
        for t in range(m):
            if flags[t] and sets[t]:
                counted += 1
                right += any(all(rows[t][i] >= rows[t][j] for j in range(n)) for i in sets[t])
    if counted:
        assert math.isclose(alignment_accuracy(weights, gold, content), right / counted)
    else:
        with pytest.raises(ValueError, match="no target token"):
            alignment_accuracy(weights, gold, content)


def test_a_row_of_zeros_is_on_none():
    assert alignment_accuracy([torch.zeros(1, 2)], [(frozenset({0}),)]) == 0


GOLD = [(frozenset({0}), frozenset({1}))]
ONE = "predicted, sure and possible must have one entry per sentence, got 1, 2 and 1"

test_what_does_not_fit_is_named = refusals(
    (ONE, lambda: alignment_error_rate([set()], [set(), set()], [set()])),
    ("method", lambda: symmetrise(set(), set(), "grow")),
    ("weights", lambda: links_from_weights(torch.zeros(2, 3, 4))),
    ("weights, gold and content", lambda: alignment_accuracy([], GOLD)),
    ("sentence 0 has 2 target tokens", lambda: alignment_accuracy([[[1.0, 0.0]]], GOLD)),
    ("gold[0] names source 1", lambda: alignment_accuracy([[[1.0], [1.0]]], GOLD)),
    ("sentence 0", lambda: alignment_accuracy([[[1.0, 0.0]] * 2], GOLD, [[True]])),
    ("weights[0]", lambda: alignment_accuracy([[[float("nan"), 0.0]] * 2], GOLD)),
    ("source_words", lambda: word_weights([[0.5, 0.5]] * 2, [0, 1, 2], [0, 0])),
    ("target_words", lambda: word_weights([[0.5, 0.5]] * 2, [0, 1], [])),
    ("source_words", lambda: word_weights([[0.5, 0.5]] * 2, [-1, 0], [0])),
)


@given(st.integers(0, 10**6))
def test_word_weights_against_loops(seed):
    generator = np.random.default_rng(seed)
    source_words = np.sort(generator.integers(0, 4, 6)).tolist()
    target_words = np.sort(generator.integers(0, 3, 5)).tolist()
    weights = generator.dirichlet(np.ones(6), size=7)
    summed = word_weights(torch.tensor(weights), source_words, target_words)
    assert summed.shape == (max(target_words) + 1, max(source_words) + 1)
    for t, s in itertools.product(range(summed.shape[0]), range(summed.shape[1])):
        pieces = [j for j in range(6) if source_words[j] == s]
        rows = [weights[k, pieces].sum() for k in range(5) if target_words[k] == t]
        assert math.isclose(summed[t, s], sum(rows) / len(rows) if rows else 0, abs_tol=1e-10)
    for t in set(target_words):
        assert math.isclose(summed[t].sum(), 1, abs_tol=1e-10)
