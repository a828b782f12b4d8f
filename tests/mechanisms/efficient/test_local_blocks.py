"""Local attention in blocks against a whole matrix, and with a cache against the whole text."""

import math

import pytest
import torch
from assertions import refusals
from hypothesis import given, settings
from hypothesis import strategies as st
from watching import LargestTensor

from attnbook import AdditiveScore, LocalAttention, MultiHeadAttention, causal_mask, padding_mask

from ..agreement import assert_agree, assert_same, drawn, randomised

B, N, D, H = 2, 7, 12, 3


def layer(length=3, seed=0):
    return randomised(LocalAttention(D, H, block_length=length), seed)


def pairs(m, n, allowed):
    """Whether the query at n − m + t may see the key j, pair by pair."""
    return torch.tensor([[allowed(n - m + t, j) for j in range(n)] for t in range(m)])


def same_block(length):
    return pairs(N, N, lambda i, j: i // length == j // length)


def oracle(made, x, mask, inside):
    """All pairs, −∞ outside of the block, from the formula alone."""
    q, k, v = (
        layer(x).view(len(x), N, H, -1).transpose(1, 2)
        for layer in (made.query_projection, made.key_projection, made.value_projection)
    )
    allowed = (inside & mask).expand(len(x), N, N)[:, None]
    scores = (q @ k.mT / math.sqrt(D / H)).masked_fill(~allowed, -math.inf)
    weights = scores.softmax(-1).nan_to_num()
    out = made.output_projection((weights @ v).transpose(1, 2).flatten(2))
    return out * allowed.any(-1)[:, 0, :, None], weights


def masks():
    words = padding_mask(torch.tensor([4, 7]), N)[:, None]
    alone = torch.ones(B, N, N, dtype=torch.bool)
    alone[1, 2], alone[:, 4, 3:6] = False, False  # nothing at all, and nothing in its own block
    return {
        "none": None,
        "padding": words,
        "causal": causal_mask(N),
        "both": words & causal_mask(N),
        "rows": words.mT,
        "nothing in the block": alone,
        "one row": torch.arange(N) > 3,
        "never": torch.zeros(1, 1, dtype=torch.bool),
    }


@pytest.mark.parametrize("kind", masks())
@pytest.mark.parametrize("length", [1, 2, 3, 7, 9])
@pytest.mark.parametrize("need_weights", [True, False])
def test_value_and_gradient_equal_the_whole_matrix_with_the_blocks_cut_out(
    kind, length, need_weights
):
    made, mask = layer(length), masks()[kind]
    seen = torch.ones(1, 1, dtype=torch.bool) if mask is None else mask
    ours = lambda x: made(x, mask=mask, need_weights=need_weights)  # noqa: E731
    theirs = lambda x: oracle(made, x, seen, same_block(length))  # noqa: E731
    assert_agree(ours, theirs, (B, N, D), [*made.parameters()], need_weights)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 6), st.integers(0, 99), st.booleans())
def test_queries_with_a_cache_are_the_last_positions(m, n, length, seed, need_weights):
    n = max(m, n)
    made, x = layer(length, seed), drawn(1, n, D, seed=seed)
    full, last = made(x, mask=causal_mask(n)), slice(n - m, n)
    cache, mask = made.project(x), causal_mask(m, n)
    found = made(x[:, last], projected=cache, mask=mask, need_weights=need_weights)
    assert_same(found.context, full.context[:, last])
    if need_weights:
        assert_same(found.weights, full.weights[:, :, last])
    if n > m:
        cache = made.project(x[:, : n - m]).extend(made.project(x[:, last]))
    assert_same(made(x[:, -1:], projected=cache).context, full.context[:, -1:])


def test_other_scores_fit():
    score = randomised(AdditiveScore(D // H, D // H, 5))
    made = randomised(LocalAttention(D, H, block_length=3, score=score))
    masked, x = MultiHeadAttention(D, H, score=score).double(), drawn(B, N, D)
    masked.load_state_dict(made.state_dict())
    assert_same(made(x), masked(x, mask=same_block(3)))


def test_no_matrix_of_all_pairs_is_made():
    made, n = LocalAttention(D, H, block_length=8), 400
    x = torch.randn(1, n, D, requires_grad=True)
    with LargestTensor() as largest:
        made(x, need_weights=False).context.sum().backward()
    assert 0 < largest.numel <= 3 * H * n * 8 < n * n


test_errors_name_the_argument = refusals(
    ("block_length", lambda: layer(0)),
    ("key", lambda: layer()(drawn(1, 4, D), drawn(1, 3, D))),
    ("mask", lambda: layer()(drawn(1, 4, D), mask=torch.ones(3, 4, dtype=torch.bool))),
)


WRONG = {  # pairs of query and key that a slip would let through
    "a window": lambda i, j: abs(i - j) < 3,
    "counted from one": lambda i, j: (i + 1) // 3 == (j + 1) // 3,
    "counted from the end": lambda i, j: (N - 1 - i) // 3 == (N - 1 - j) // 3,
}


@pytest.mark.parametrize("wrong", WRONG)
def test_known_wrong_blocks_are_told_apart(wrong):
    made, x, mask = layer(3), drawn(B, N, D), causal_mask(N)
    right = made(x, mask=mask).context
    assert_same(right, oracle(made, x, mask, same_block(3))[0])
    assert (right - oracle(made, x, mask, pairs(N, N, WRONG[wrong]))[0]).abs().max() > 1e-3
