"""Local attention in blocks against an oracle with a whole matrix, and with a cache against the
whole text.
"""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from refusing import assert_refused
from watching import LargestTensor

from attnbook import AdditiveScore, LocalAttention, MultiHeadAttention, causal_mask, padding_mask

from ..agreement import EXACT, assert_agree, randomised

B, N, D, H = 2, 7, 12, 3


def layer(length=3, seed=0, **options):
    torch.manual_seed(seed)
    return randomised(LocalAttention(D, H, block_length=length, **options))


def same_block(m, n, length):
    """Whether the query at n − m + t and the key j stand in one block, pair by pair."""
    return torch.tensor(
        [[(n - m + t) // length == j // length for j in range(n)] for t in range(m)]
    )


def oracle(made, x, mask, inside):
    """All pairs, −∞ outside of the block, from the formula alone."""
    q, k, v = (
        layer(x).view(len(x), N, H, -1).transpose(1, 2)
        for layer in (made.query_projection, made.key_projection, made.value_projection)
    )
    allowed = (inside & mask).expand(len(x), N, N)[:, None]
    weights = (
        (q @ k.mT / math.sqrt(D / H)).masked_fill(~allowed, -math.inf).softmax(-1).nan_to_num()
    )
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
    everything = torch.ones(1, 1, dtype=torch.bool)
    assert_agree(
        lambda x: made(x, mask=mask, need_weights=need_weights),
        lambda x: oracle(made, x, everything if mask is None else mask, same_block(N, N, length)),
        (B, N, D),
        [*made.parameters()],
        need_weights,
    )


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 12), st.integers(1, 12), st.integers(1, 6), st.integers(0, 99), st.booleans())
def test_queries_with_a_cache_are_the_last_positions(m, n, length, seed, need_weights):
    n = max(m, n)
    made, x = layer(length, seed), torch.randn(1, n, D, dtype=torch.float64)
    full = made(x, mask=causal_mask(n))
    last = made(
        x[:, n - m :], projected=made.project(x), mask=causal_mask(m, n), need_weights=need_weights
    )
    torch.testing.assert_close(last.context, full.context[:, n - m :], **EXACT)
    if need_weights:
        torch.testing.assert_close(last.weights, full.weights[:, :, n - m :], **EXACT)
    cache = (
        made.project(x[:, : n - m]).extend(made.project(x[:, n - m :]))
        if n > m
        else made.project(x)
    )
    torch.testing.assert_close(
        made(x[:, -1:], projected=cache).context, full.context[:, -1:], **EXACT
    )


def test_one_block_is_plain_attention_and_other_scores_fit():
    made, x = layer(N), torch.randn(B, N, D).double()
    plain = MultiHeadAttention(D, H).double()
    plain.load_state_dict(made.state_dict())
    torch.testing.assert_close(
        made(x, mask=causal_mask(N)).context, plain(x, mask=causal_mask(N)).context, **EXACT
    )
    torch.manual_seed(0)
    score = AdditiveScore(D // H, D // H, 5)
    additive = LocalAttention(D, H, block_length=3, score=score).double()
    masked = MultiHeadAttention(D, H, score=score).double()
    masked.load_state_dict(additive.state_dict())
    torch.testing.assert_close(additive(x), masked(x, mask=same_block(N, N, 3)), **EXACT)


def test_other_blocks_have_no_influence_and_no_gradient():
    made, x = layer(3), torch.randn(1, N, D, dtype=torch.float64, requires_grad=True)
    (grad,) = torch.autograd.grad(made(x).context[0, 4].sum(), x)
    assert (
        (grad[0, :3] == 0).all() and (grad[0, 6:] == 0).all() and (grad[0, 3:6] != 0).any(-1).all()
    )


def test_no_matrix_of_all_pairs_is_made():
    made, n = LocalAttention(D, H, block_length=8), 400
    x = torch.randn(1, n, D, requires_grad=True)
    with LargestTensor() as largest:
        made(x, need_weights=False).context.sum().backward()
    assert 0 < largest.numel <= 3 * H * n * 8 < n * n


def test_dropout_and_bfloat16():
    made, x = LocalAttention(D, H, block_length=3, dropout=0.5), torch.randn(B, N, D)
    assert not torch.equal(made(x).context, made(x).context)
    made.eval()
    with torch.autocast("cpu", torch.bfloat16):
        low = made(x, mask=causal_mask(N)).context
    torch.testing.assert_close(
        low.float(), made(x, mask=causal_mask(N)).context, atol=0.05, rtol=0.05
    )


def test_errors_name_the_argument():
    assert_refused("block_length", LocalAttention, D, H, block_length=0)
    made = LocalAttention(D, H, block_length=3)
    assert_refused("key", made, torch.randn(1, 4, D), torch.randn(1, 3, D))
    assert_refused("mask", made, torch.randn(1, 4, D), mask=torch.ones(3, 4, dtype=torch.bool))


# Known wrong versions: (query, key) pairs that a slip would let through


def _window(m, n, length):
    return torch.tensor([[abs(n - m + t - j) < length for j in range(n)] for t in range(m)])


def _counted_from_one(m, n, length):
    return torch.tensor(
        [[(t + 1) // length == (j + 1) // length for j in range(n)] for t in range(m)]
    )


def _counted_from_the_end(m, n, length):
    return torch.tensor(
        [[(n - 1 - t) // length == (n - 1 - j) // length for j in range(n)] for t in range(m)]
    )


@pytest.mark.parametrize(
    "wrong",
    [_window, _counted_from_one, _counted_from_the_end],
    ids=lambda f: f.__name__.strip("_"),
)
def test_known_wrong_blocks_are_told_apart(wrong):
    made, x = layer(3), torch.randn(B, N, D).double()
    right = made(x, mask=causal_mask(N)).context
    torch.testing.assert_close(
        right, oracle(made, x, causal_mask(N), same_block(N, N, 3))[0], **EXACT
    )
    assert (right - oracle(made, x, causal_mask(N), wrong(N, N, 3))[0]).abs().max() > 1e-3
