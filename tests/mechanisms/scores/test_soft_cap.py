"""Scores within bounds, and scaled otherwise, on every route from scores to context."""

import math

import numpy as np
import pytest
import torch
from assertions import refusals

from attnbook import (
    AdditiveScore,
    ALiBi,
    LocationScore,
    MultiHeadAttention,
    ScaledDotScore,
    SoftCappedScore,
    attend,
    causal_mask,
)

from ..agreement import assert_same, drawn


def oracle(query, key, value, mask, scale, cap):
    """Attention in NumPy, by the formula."""
    scores = np.einsum("bmd,bnd->bmn", query, key) * scale
    scores = cap * np.tanh(scores / cap)
    exponentials = np.exp(scores) * mask
    return np.einsum("bmn,bnd->bmd", exponentials / exponentials.sum(-1, keepdims=True), value)


@pytest.mark.parametrize("m", [5, 1, 1100])  # stored, one step, in blocks
@pytest.mark.parametrize("need_weights", [True, False])
def test_the_formula_on_every_route(m, need_weights):
    n = max(m, 6)
    query, key, value = (
        4 * drawn(2, length, 3, seed=seed) for seed, length in enumerate((m, n, n))
    )
    mask = causal_mask(m, n)
    score = SoftCappedScore(ScaledDotScore(0.7), 2.0)
    options = {"mask": mask, "need_weights": need_weights}
    found = attend(score, query, key, value, **options).context
    arrays = (t.numpy() for t in (query, key, value, mask))
    assert_same(found, torch.tensor(oracle(*arrays, 0.7, 2.0)))
    plain = attend(ScaledDotScore(0.7), query, key, value, **options).context
    assert (found - plain).abs().max() > 0.1
    assert score(query, key).abs().max() <= 2.0


def test_a_scale_of_its_own_is_kept_by_the_fused_kernel_too():
    query, key, value = (drawn(2, 6, 4, seed=seed) for seed in range(3))
    for need_weights in (True, False):
        own = attend(ScaledDotScore(0.9), query, key, value, need_weights=need_weights).context
        usual = attend(ScaledDotScore(), 1.8 * query, key, value).context  # √4 · 0.9
        assert_same(own, usual)


def test_any_score_can_be_capped_and_keeps_what_it_is():
    query, key = drawn(2, 5, 4), drawn(2, 6, 4, seed=1)
    torch.manual_seed(0)
    for inner in (AdditiveScore(4, 4), LocationScore(4, 9)):
        inner, capped = inner.double(), SoftCappedScore(inner, 0.3)
        assert_same(capped(query, key), 0.3 * torch.tanh(inner(query, key) / 0.3))
        assert capped.depends_on_position == inner.depends_on_position
        assert capped.query_width == inner.query_width
    heads = MultiHeadAttention(8, 2, score=SoftCappedScore(ALiBi(2), 1.0)).double()
    x = drawn(2, 5, 8)
    whole = heads(x, mask=causal_mask(5)).context
    source = heads.project(x[:, :3])
    for t in (3, 4):
        source = source.extend(heads.project(x[:, t : t + 1]))
        step = heads(x[:, t : t + 1], projected=source).context
        assert_same(step[:, 0], whole[:, t])


def test_gradients_are_those_of_the_formula():
    score = SoftCappedScore(ScaledDotScore(), 0.5)
    query, key, value = (drawn(1, 4, 3, seed=seed).requires_grad_() for seed in range(3))
    for need_weights in (True, False):
        assert torch.autograd.gradcheck(
            lambda q, k, v: attend(score, q, k, v, need_weights=need_weights).context,
            (query, key, value),
        )


CAPPED = SoftCappedScore(ScaledDotScore(), 1.0)
test_wrong_arguments_are_named = refusals(
    ("score", lambda: SoftCappedScore(torch.nn.Linear(2, 2), 1.0)),
    ("cap", lambda: SoftCappedScore(ScaledDotScore(), 0)),
    ("cap", lambda: SoftCappedScore(ScaledDotScore(), math.nan)),
    ("scale", lambda: ScaledDotScore(-1.0)),
    ("ScaledDotScore needs query", lambda: CAPPED(drawn(2, 3), drawn(2, 4))),
)
