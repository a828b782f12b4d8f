"""Feed-forward attention beside its equations in NumPy, one step at a time."""

import numpy as np
import pytest
import torch
from assertions import assert_exact, refusals
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from attnbook import FeedForwardAttention
from attnbook.models.documents.feed_forward_attention import Regressed

from ..oracles import numbers_of
from ..properties import assert_every_parameter_learns, wrong_versions

LENGTHS = torch.tensor([7, 3, 1, 5])


def build(pooling="attention"):
    torch.manual_seed(3)
    model = FeedForwardAttention(2, 5, pooling=pooling).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():  # biases that are not 0, scores that differ
            parameter.add_(0.3 * torch.randn_like(parameter))
        model.readout.bias.fill_(5.0)  # the steep side of the last ramp
    return model


def inputs():
    x = torch.randn(4, 7, 2, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return x * (torch.arange(7) < LENGTHS[:, None])[..., None]


def ramp(z):
    return np.maximum(z, 0.01 * z)


def oracle(model, x):
    """Output and weights of one sequence (n, 2), from the equations."""
    p = numbers_of(model)
    h = [ramp(p["embed.weight"] @ step + p["embed.bias"]) for step in x.numpy()]
    e = np.array([np.tanh(p["attention.weight"][0] @ each + p["attention.bias"][0]) for each in h])
    if model.pooling == "mean":
        e = np.zeros(len(h))
    alpha = np.exp(e) / np.exp(e).sum()
    c = sum(a * each for a, each in zip(alpha, h))
    s = ramp(p["hidden.weight"] @ c + p["hidden.bias"])
    return float(ramp(p["readout.weight"][0] @ s + p["readout.bias"][0])), alpha


@pytest.mark.parametrize("pooling", ["attention", "mean"])
def test_output_and_weights_equal_the_equations_row_by_row(pooling):
    model, x = build(pooling), inputs()
    out = model(x, LENGTHS)
    for b, n in enumerate(LENGTHS.tolist()):
        output, weights = oracle(model, x[b, :n])
        assert abs(out.output[b].item() - output) < 1e-10
        np.testing.assert_allclose(out.weights[b, :n].detach().numpy(), weights, atol=1e-10, rtol=0)
        assert (out.weights[b, n:] == 0).all()


def test_padding_and_company_change_nothing():
    model, x = build(), inputs()
    together = model(x, LENGTHS)
    dirty = torch.where((torch.arange(7) < LENGTHS[:, None])[..., None], x, torch.full_like(x, 9.0))
    wider = torch.cat([dirty, torch.full((4, 4, 2), -5.0, dtype=torch.float64)], 1)
    assert_exact(model(wider, LENGTHS).output, together.output)
    for b, n in enumerate(LENGTHS.tolist()):
        assert_exact(model(x[b : b + 1, :n], LENGTHS[b : b + 1]).output, together.output[b : b + 1])


@settings(deadline=None, max_examples=30, derandomize=True)
@given(st.permutations(range(7)))
def test_the_order_of_the_steps_leaves_no_trace(order):
    model, x = build(), inputs()[:1]
    before, after = model(x, LENGTHS[:1]), model(x[:, order], LENGTHS[:1])
    assert_exact(after.output, before.output)
    assert_exact(after.weights, before.weights[:, order])


@pytest.mark.parametrize("pooling", ["attention", "mean"])
def test_every_parameter_learns_but_the_score_of_the_mean(pooling):
    model, but = build(pooling), ["attention."] if pooling == "mean" else []
    assert_every_parameter_learns(model, model(inputs(), LENGTHS).output.square().sum(), but)


def test_a_bounded_score_bounds_the_weights():
    """tanh keeps every score in [−1, 1]: of n steps none gets more than e / (e + (n − 1)/e)."""
    model = build()
    with torch.no_grad():
        model.attention.weight.mul_(100)
    n = 2000
    weights = model(torch.randn(1, n, 2, dtype=torch.float64), torch.tensor([n])).weights
    assert weights.max() <= np.e / (np.e + (n - 1) / np.e)
    assert weights.max() / weights.min() <= np.e**2 + 1e-9


def spoil_softmax_over_padding(model):
    forward = model.forward
    model.forward = lambda x, n: forward(x, torch.full_like(n, x.shape[1]))


def _finish(model, x, weights, ramp=F.leaky_relu):
    c = (weights[..., None] * ramp(model.embed(x))).sum(1)
    return Regressed(ramp(model.readout(ramp(model.hidden(c))))[:, 0], weights)


def _scores(model, x):
    return model.attention(F.leaky_relu(model.embed(x)))[..., 0]


def spoil_divided_by_the_padded_length(model):
    share = lambda x, n: (torch.arange(x.shape[1]) < n[:, None]).double() / x.shape[1]  # noqa: E731
    model.forward = lambda x, n: _finish(model, x, share(x, n))


def spoil_softmax_over_the_batch(model):
    model.forward = lambda x, n: _finish(model, x, _scores(model, x).tanh().softmax(0))


def spoil_score_without_tanh(model):
    def spoilt(x, n):
        behind = torch.arange(x.shape[1]) >= n[:, None]
        return _finish(model, x, _scores(model, x).masked_fill(behind, -torch.inf).softmax(-1))

    model.forward = spoilt


def spoil_plain_ramp(model):
    forward = model.forward
    model.forward = lambda x, n: _finish(model, x, forward(x, n).weights, torch.relu)


@pytest.mark.parametrize("spoil", wrong_versions(globals()))
def test_known_wrong_models_are_told_apart_by_the_oracle(spoil):
    model = build("mean" if spoil is spoil_divided_by_the_padded_length else "attention")
    x = inputs()
    expected = [oracle(model, x[b, :n])[0] for b, n in enumerate(LENGTHS.tolist())]
    np.testing.assert_allclose(model(x, LENGTHS).output.detach().numpy(), expected, atol=1e-10)
    spoil(model)
    assert not np.allclose(model.forward(x, LENGTHS).output.detach().numpy(), expected, atol=1e-4)


test_bad_input_is_named = refusals(
    ("inputs", lambda: build()(inputs()[..., :1], LENGTHS)),
    ("inputs must be", lambda: build()(inputs()[0], LENGTHS)),
    ("inputs must be", lambda: build()(inputs()[:0], LENGTHS[:0])),
    ("lengths", lambda: build()(inputs(), LENGTHS[:2])),
    ("lengths", lambda: build()(inputs(), LENGTHS - 1)),
    ("lengths", lambda: build()(inputs(), LENGTHS + 1)),
    ("pooling", lambda: FeedForwardAttention(2, 5, pooling="max")),
    ("hidden_size", lambda: FeedForwardAttention(2, 0)),
)
