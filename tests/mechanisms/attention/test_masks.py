import pytest
import torch
from assertions import refusals
from hypothesis import given, settings
from hypothesis import strategies as st

from attnbook import causal_mask, masked_softmax, padding_mask


def test_padding_mask_marks_the_real_positions():
    assert padding_mask(torch.tensor([2, 0, 3])).tolist() == [[1, 1, 0], [0, 0, 0], [1, 1, 1]]
    assert padding_mask(torch.tensor([1]), 4).tolist() == [[1, 0, 0, 0]]


def test_causal_mask_includes_the_own_position_and_none_after():
    assert causal_mask(3).tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    # the last two of four positions
    assert causal_mask(2, 4).tolist() == [[1, 1, 1, 0], [1, 1, 1, 1]]


@given(st.integers(1, 6), st.integers(1, 8), st.integers(0, 10_000))
@settings(max_examples=60, deadline=None)
def test_weights_sum_to_one_over_allowed_keys_and_are_zero_elsewhere(m, n, seed):
    g = torch.Generator().manual_seed(seed)
    scores = 50 * torch.randn(m, n, generator=g, dtype=torch.float64)
    mask = torch.rand(m, n, generator=g) < 0.5
    weights = masked_softmax(scores, mask=mask)
    assert (weights[~mask] == 0).all() and (weights >= 0).all()
    torch.testing.assert_close(weights.sum(-1), mask.any(-1).double(), atol=1e-12, rtol=0)
    for row, e, allowed in zip(weights, scores, mask):  # softmax over the allowed scores alone
        torch.testing.assert_close(row[allowed], e[allowed].softmax(-1), atol=1e-12, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_a_row_with_nothing_allowed_is_zero_with_zero_finite_gradient(dtype):
    scores = torch.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=dtype, requires_grad=True)
    weights = masked_softmax(scores, mask=torch.tensor([[False, False], [True, False]]))
    assert weights.tolist() == [[0, 0], [1, 0]]
    weights.square().sum().backward()
    assert torch.isfinite(scores.grad).all() and (scores.grad[0] == 0).all()


def test_the_allowed_keys_may_score_far_below_the_masked_ones():
    scores = torch.tensor([[-1e4, 1e9]], dtype=torch.float64)
    assert masked_softmax(scores, mask=torch.tensor([[True, False]])).tolist() == [[1.0, 0.0]]


WRONG = {
    "mask after the softmax": lambda e, k: e.softmax(-1).masked_fill(~k, 0.0),
    "softmax over the queries": lambda e, k: e.masked_fill(~k, -1e30).softmax(-2) * k,
    "fill with 0 instead of the lowest number": lambda e, k: e.masked_fill(~k, 0.0).softmax(-1),
    "fill that leaves empty rows uniform": lambda e, k: e.masked_fill(~k, -1e9).softmax(-1),
    "minus infinity without a guard": lambda e, k: e.masked_fill(~k, float("-inf")).softmax(-1),
    "mask upside down": lambda e, k: masked_softmax(e, mask=~k),
}


@pytest.mark.parametrize("name", WRONG)
def test_known_wrong_masked_softmax_is_told_apart(name):
    g = torch.Generator().manual_seed(0)
    scores = torch.randn(4, 5, generator=g, dtype=torch.float64)
    mask = torch.rand(4, 5, generator=g) < 0.6
    mask[3] = False
    right, wrong = masked_softmax(scores, mask=mask), WRONG[name](scores, mask)
    assert not torch.allclose(right, wrong, atol=1e-6)  # NaN is never close


ALL = torch.ones(2, 3, dtype=torch.bool)
test_bad_input_is_named = refusals(
    ("lengths", lambda: padding_mask([1, 2])),
    ("lengths", lambda: padding_mask(torch.tensor([1.0]))),
    ("lengths", lambda: padding_mask(torch.tensor([-1]))),
    ("lengths", lambda: padding_mask(torch.tensor([5]), 4)),
    ("max_length", lambda: padding_mask(torch.tensor([2]), 2.5)),
    ("max_length", lambda: padding_mask(torch.tensor([2]), "3")),
    ("scores", lambda: masked_softmax(torch.zeros(2, 3).long(), mask=torch.ones(2, 3) > 0)),
    ("scores", lambda: masked_softmax([0.0, 1.0])),
    ("n", lambda: causal_mask(3, 2)),
    ("m", lambda: causal_mask(0)),
    ("mask", lambda: masked_softmax(torch.zeros(2, 3), mask=torch.ones(2, 3))),
    ("mask must be a", lambda: masked_softmax(torch.zeros(2, 3), mask=torch.ones(2, 3).byte())),
    ("mask must be broadcastable", lambda: masked_softmax(torch.zeros(2, 4, 3), mask=ALL)),
)
