"""The context of parts, merged, against a softmax in NumPy that sees all keys at once."""

import math

import numpy as np
import pytest
import torch
from assertions import assert_exact, assert_refused
from hypothesis import given, settings
from hypothesis import strategies as st

from attnbook import ScaledDotScore, attend
from attnbook.kernels.streaming import PartialContext, merge_contexts, partial_context

M, N, D_V = 4, 9, 3


def oracle(scores, value, mask):
    """Query by query, from the formula: the largest of all scores first."""
    context, log_sums = np.zeros((*scores.shape[:-1], D_V)), np.full(scores.shape[:-1], -np.inf)
    for at in np.ndindex(*scores.shape[:-1]):
        seen = np.flatnonzero(mask[at])
        if len(seen):
            e = scores[at][seen]
            shares = [math.exp(x - max(e)) for x in e]
            rows = value[at[:-1]][seen]
            context[at] = sum(s * row for s, row in zip(shares, rows)) / sum(shares)
            log_sums[at] = max(e) + math.log(sum(shares))
    return torch.tensor(context), torch.tensor(log_sums)


def problem(seed=0, spread=30.0, dtype=torch.float64):
    """Scores that grow to the right in one batch and fall in the other, a query that sees nothing,
    and one that sees nothing in the first keys, or the last."""
    g = torch.Generator().manual_seed(seed)
    scores = torch.randn(2, M, N, generator=g, dtype=torch.float64) * spread
    scores = torch.stack([scores[0].sort(-1).values, scores[1].sort(-1, descending=True).values])
    value = torch.randn(2, N, D_V, generator=g, dtype=torch.float64)
    mask = torch.rand(2, M, N, generator=g) < 0.7
    mask[:, 0], mask[:, 1, :4], mask[:, 2, 5:] = False, False, False
    return scores.to(dtype), value.to(dtype), mask


def in_parts(scores, value, mask, cuts, partial=partial_context, merge=merge_contexts, order=1):
    """Cut the keys, attend to each part, and merge one after another."""
    ends = [0, *sorted({c for c in cuts if 0 < c < N}), N]
    merged = None
    for j, k in list(zip(ends, ends[1:]))[::order]:
        part = partial(scores[..., j:k], value[..., j:k, :], mask=mask[..., j:k])
        merged = part if merged is None else merge(merged, part)
    return merged


def agrees(partial=partial_context, merge=merge_contexts, spread=30.0):
    """Whether parts of 4, 1 and 4 keys, in either order, give what the oracle gives."""
    scores, value, mask = problem(spread=spread)
    expected, _ = oracle(scores.numpy(), value.numpy(), mask.numpy())
    got = [in_parts(scores, value, mask, (4, 5), partial, merge, o).context for o in (1, -1)]
    return all(torch.allclose(context, expected, atol=1e-10, rtol=0) for context in got)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.integers(1, N - 1), max_size=5),
    st.integers(0, 99),
    st.sampled_from([0.0, 1.0, 700.0]),
    st.sampled_from([1, -1]),
)
def test_parts_however_cut_and_in_either_order_are_the_whole(cuts, seed, spread, order):
    scores, value, mask = problem(seed, spread)
    expected, log_sums = oracle(scores.numpy(), value.numpy(), mask.numpy())
    got = in_parts(scores, value, mask, cuts, order=order)
    assert_exact(got.context, expected)
    assert_exact(got.log_sum_exp.squeeze(-1), log_sums)
    torch.testing.assert_close(got.context[:, 0], torch.zeros(2, D_V).double(), atol=0, rtol=0)


def test_many_parts_at_once_and_tops_of_minus_infinity():
    scores, value, mask = problem()
    expected, _ = oracle(scores.numpy(), value.numpy(), mask.numpy())
    parts = [
        partial_context(scores[..., j : j + 3], value[..., j : j + 3, :], mask=mask[..., j : j + 3])
        for j in range(0, N, 3)
    ]
    # as another library may write it
    nothing = [p._replace(top=p.top.masked_fill(p.total == 0, -math.inf)) for p in parts]
    for given_parts in (parts, nothing):
        assert_exact(merge_contexts(*given_parts).context, expected)


def test_gradients_of_merged_parts_to_second_order_also_where_nothing_is_seen():
    g = torch.Generator().manual_seed(0)
    scores = torch.randn(3, 5, generator=g, dtype=torch.float64, requires_grad=True)
    value = torch.randn(5, 2, generator=g, dtype=torch.float64, requires_grad=True)
    mask = torch.tensor([[0, 0, 0, 0, 0], [0, 0, 1, 0, 1], [1, 1, 1, 0, 0]]).bool()

    def merged(scores, value):
        part = merge_contexts(
            partial_context(scores[:, :2], value[:2], mask=mask[:, :2]),
            partial_context(scores[:, 2:], value[2:], mask=mask[:, 2:]),
        )
        return part.context, part.log_sum_exp[1:]

    assert torch.autograd.gradcheck(merged, (scores, value))
    assert torch.autograd.gradgradcheck(merged, (scores, value))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_sums_are_kept_in_float32_at_least(dtype):
    scores, value, mask = problem(spread=1.0, dtype=dtype)
    expected, _ = oracle(scores.double().numpy(), value.double().numpy(), mask.numpy())
    got = in_parts(scores, value, mask, (4, 5)).context
    assert got.dtype == torch.float32
    torch.testing.assert_close(got.double(), expected, atol=1e-5, rtol=0)


def test_a_long_cache_in_parts_is_the_whole_cache():
    g = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(2, 3, n, 8, generator=g).double() for n in (1, 1000, 1000))
    score = ScaledDotScore()
    parts = [
        partial_context(score(query, k), v) for k, v in zip(key.chunk(7, -2), value.chunk(7, -2))
    ]
    whole = attend(score, query, key, value).context
    assert_exact(merge_contexts(*parts).context, whole)


def test_errors_name_the_argument():
    scores, value, mask = problem()
    assert_refused("scores", partial_context, scores[..., 1:], value)
    assert_refused("scores", partial_context, scores[..., :0], value[:, :0])
    assert_refused("mask", lambda: partial_context(scores, value, mask=mask.int()))
    assert_refused("parts", merge_contexts)
    part = partial_context(scores, value)
    assert_refused("parts", lambda: merge_contexts(part, partial_context(scores[:, 1:], value)))


# Known wrong versions


def _merge(top, rescale_total, rescale_summed):
    def merge(a, b):
        common = top(a.top, b.top)
        total = sum(p.total * rescale_total(p.top - common) for p in (a, b))
        summed = sum(p.summed * rescale_summed(p.top - common) for p in (a, b))
        return PartialContext(common, total, summed)

    return merge


def _nan_partial(scores, value, mask):
    scores = scores.masked_fill(~mask, -math.inf)
    top = scores.amax(-1, keepdim=True)  # −∞ where a block is masked as a whole
    weight = (scores - top).exp()
    return PartialContext(top, weight.sum(-1, keepdim=True), weight @ value)


def _uniform_partial(scores, value, mask):
    # weights of 1 where a block is masked as a whole: exp(−1e9 − (−1e9))
    part = scores.masked_fill(~mask, -1e9)
    top = part.amax(-1, keepdim=True)
    weight = (part - top).exp()
    return PartialContext(top, weight.sum(-1, keepdim=True), weight @ value)


def _mean(a, b):
    return a._replace(summed=(a.context + b.context) / 2, total=torch.ones_like(a.total))


def _weighted_by_sums(a, b):
    """The sums of parts, which are relative to different maxima, as if they were to one."""
    total = a.total + b.total
    return PartialContext(a.top, total, a.context * a.total + b.context * b.total)


exp, one = torch.exp, torch.ones_like
WRONG = {
    "the output is not rescaled": {"merge": _merge(torch.maximum, exp, one)},
    "the sum is not rescaled": {"merge": _merge(torch.maximum, one, exp)},
    "the first maximum is kept": {"merge": _merge(lambda a, b: a, one, one)},
    "the maximum is not carried on": {
        "merge": lambda a, b: _merge(torch.maximum, exp, exp)(a, b)._replace(top=b.top)
    },
    "rescaled the wrong way round": {
        "merge": _merge(torch.maximum, lambda x: exp(-x), lambda x: exp(-x))
    },
    "contexts of parts are averaged": {"merge": _mean},
    "contexts of parts are weighted by their sums": {"merge": _weighted_by_sums},
    "a masked block is NaN": {"partial": _nan_partial},
    "a masked block is its mean": {"partial": _uniform_partial},
}


def test_the_right_merge_written_for_the_wrong_versions_agrees():
    assert agrees() and agrees(spread=2.0) and agrees(merge=_merge(torch.maximum, exp, exp))


@pytest.mark.parametrize("wrong", WRONG)
def test_known_wrong_versions_are_told_apart(wrong):
    assert not agrees(**WRONG[wrong], spread=2.0)
