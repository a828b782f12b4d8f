"""Feed-forward sublayers and norms against loops in NumPy and PyTorch's own, and against
versions that went wrong.
"""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from refusing import refusals
from torch import nn
from torch.nn import functional as F

from attnbook import FeedForward, GatedFeedForward, LayerNorm, RMSNorm
from attnbook.mechanisms.layers.feed_forward import ACTIVATIONS, GATES

EXACT = {"atol": 1e-10, "rtol": 0}


def erf_gelu(x):
    return x * 0.5 * (1 + math.erf(x / math.sqrt(2)))


SCALAR = {
    "relu": lambda x: max(0.0, x),
    "gelu": erf_gelu,
    "swish": lambda x: x / (1 + math.exp(-x)),
    "elu": lambda x: x if x > 0 else math.exp(x) - 1,
    "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "selu": lambda x: 1.0507009873554805 * (x if x > 0 else 1.6732632423543772 * (math.exp(x) - 1)),
    "softplus": lambda x: math.log(1 + math.exp(x)),
}
GATE_OF = {
    "glu": SCALAR["sigmoid"],
    "geglu": erf_gelu,
    "reglu": SCALAR["relu"],
    "swiglu": SCALAR["swish"],
    "liglu": lambda x: x,
}


def build(kind, *arguments, **options):
    torch.manual_seed(0)
    made = kind(*arguments, **options).double()
    with torch.no_grad():
        for p in made.parameters():
            p.normal_()
    return made


X = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def apply(function, x):
    return np.vectorize(function)(x)


def linear(layer, x):
    out = x @ layer.weight.detach().numpy().T
    return out if layer.bias is None else out + layer.bias.detach().numpy()


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_every_activation_equals_its_formula(name):
    made = build(FeedForward, 4, 7, name)
    expected = linear(made.output, apply(SCALAR[name], linear(made.hidden, X.numpy())))
    torch.testing.assert_close(made(X), torch.tensor(expected), **EXACT)


@pytest.mark.parametrize("name", GATES)
def test_every_gate_equals_its_formula(name):
    made = build(GatedFeedForward, 4, 7, name)
    gated = apply(GATE_OF[name], linear(made.gate_projection, X.numpy())) * linear(
        made.value_projection, X.numpy()
    )
    torch.testing.assert_close(made(X), torch.tensor(linear(made.output, gated)), **EXACT)


def test_glu_is_pytorch_s():
    made = build(GatedFeedForward, 4, 7, "glu")
    # PyTorch gates with the second half
    both = torch.cat([made.value_projection(X), made.gate_projection(X)], -1)
    torch.testing.assert_close(made(X), made.output(F.glu(both)), **EXACT)


def test_feed_forward_is_two_linear_layers_in_value_and_gradient():
    made = build(FeedForward, 4, 7)
    theirs = nn.Sequential(nn.Linear(4, 7), nn.ReLU(), nn.Linear(7, 4)).double()
    theirs.load_state_dict(dict(zip(theirs.state_dict(), made.state_dict().values())))
    torch.testing.assert_close(made(X), theirs(X), **EXACT)
    for a, b in zip(
        torch.autograd.grad(made(X).square().sum(), made.parameters()),
        torch.autograd.grad(theirs(X).square().sum(), theirs.parameters()),
    ):
        torch.testing.assert_close(a, b, **EXACT)


def test_a_function_can_be_the_activation_and_two_thirds_keep_the_parameters():
    made = build(FeedForward, 4, 7, torch.tanh)
    torch.testing.assert_close(made(X), made.output(made.hidden(X).tanh()), **EXACT)

    def count(m):
        return sum(p.numel() for name, p in m.named_parameters() if "weight" in name)

    assert count(FeedForward(8, 96)) == count(GatedFeedForward(8, 64))


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 6), st.integers(0, 99))
def test_positions_do_not_know_of_each_other(n, seed):
    torch.manual_seed(seed)
    x = torch.randn(2, n, 4).double()
    for module in (
        build(FeedForward, 4, 7),
        build(GatedFeedForward, 4, 7),
        build(LayerNorm, 4),
        build(RMSNorm, 4),
    ):
        torch.testing.assert_close(module(x)[1, n - 1], module(x[1, n - 1 :])[0], **EXACT)


WRONG_FEED_FORWARD = {
    "no activation": lambda m, x: m.output(m.hidden(x)),
    "activation after both": lambda m, x: m.output(m.hidden(x)).relu(),
    "activation before both": lambda m, x: m.output(m.hidden(x.relu())),
    "relu for gelu": lambda m, x: m.output(m.hidden(x).relu()),
    "gelu by tanh": lambda m, x: m.output(F.gelu(m.hidden(x), approximate="tanh")),
}
WRONG_GATED = {
    "gate and value exchanged": lambda m, x: m.output(
        m.gate(m.value_projection(x)) * m.gate_projection(x)
    ),
    "a sum for the product": lambda m, x: m.output(
        m.gate(m.gate_projection(x)) + m.value_projection(x)
    ),
    "sigmoid for swish": lambda m, x: m.output(
        m.gate_projection(x).sigmoid() * m.value_projection(x)
    ),
    "both gated": lambda m, x: m.output(
        m.gate(m.gate_projection(x)) * m.gate(m.value_projection(x))
    ),
}


@pytest.mark.parametrize("mistake", [*WRONG_FEED_FORWARD, *WRONG_GATED])
def test_known_wrong_sublayers_are_told_apart(mistake):
    if mistake in WRONG_GATED:
        made, wrong = build(GatedFeedForward, 4, 7, "swiglu"), WRONG_GATED[mistake]
    else:
        made, wrong = build(FeedForward, 4, 7, "gelu"), WRONG_FEED_FORWARD[mistake]
    assert (made(X) - wrong(made, X)).abs().max() > 1e-4


def norm_by_hand(x, gain, shift, eps):
    out = np.zeros_like(x)
    for i in np.ndindex(x.shape[:-1]):
        mean = sum(x[i]) / len(x[i])
        variance = sum((v - mean) ** 2 for v in x[i]) / len(x[i])
        out[i] = [(v - mean) / math.sqrt(variance + eps) for v in x[i]]
    return out * gain + shift


def rms_by_hand(x, gain, eps):
    out = np.zeros_like(x)
    for i in np.ndindex(x.shape[:-1]):
        out[i] = [v / math.sqrt(sum(u * u for u in x[i]) / len(x[i]) + eps) for v in x[i]]
    return out * gain


EPS = 0.1  # large, so that its place is seen


def test_norms_equal_their_formulas():
    layer, rms = build(LayerNorm, 4, eps=EPS), build(RMSNorm, 4, eps=EPS)
    g, b = layer.weight.detach().numpy(), layer.bias.detach().numpy()
    torch.testing.assert_close(layer(X), torch.tensor(norm_by_hand(X.numpy(), g, b, EPS)), **EXACT)
    torch.testing.assert_close(
        rms(X), torch.tensor(rms_by_hand(X.numpy(), rms.weight.detach().numpy(), EPS)), **EXACT
    )


@pytest.mark.parametrize(("ours", "theirs"), [(LayerNorm, nn.LayerNorm), (RMSNorm, nn.RMSNorm)])
def test_norms_equal_pytorch_s_in_value_and_gradient(ours, theirs):
    made = build(ours, 4, eps=1e-5)
    other = theirs(4, eps=1e-5).double()
    other.load_state_dict(made.state_dict())
    results = []
    for module in (made, other):
        x = X.clone().requires_grad_()
        out = module(x)
        results.append(
            [
                out,
                *torch.autograd.grad(
                    (out * torch.linspace(-1, 1, 24).view_as(out)).sum(), [x, *module.parameters()]
                ),
            ]
        )
    for a, b in zip(*results):
        torch.testing.assert_close(a, b, **EXACT)


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 16), st.floats(0.1, 1e3), st.floats(-50, 50), st.integers(0, 99))
def test_what_the_norms_forget(d, scale, shift, seed):
    torch.manual_seed(seed)
    x = torch.randn(3, d).double()
    layer, rms = LayerNorm(d, eps=0.0).double(), RMSNorm(d, eps=0.0).double()
    torch.testing.assert_close(layer(scale * x + shift), layer(x), atol=1e-6, rtol=1e-6)
    torch.testing.assert_close(rms(scale * x), rms(x), **EXACT)
    torch.testing.assert_close(layer(x).square().mean(-1), torch.ones(3).double(), **EXACT)
    torch.testing.assert_close(layer(x).mean(-1), torch.zeros(3).double(), **EXACT)
    torch.testing.assert_close(rms(x - x.mean(-1, keepdim=True)), layer(x), atol=1e-8, rtol=0)


@pytest.mark.parametrize(
    "make",
    [
        lambda: FeedForward(4, 7),
        lambda: GatedFeedForward(4, 7),
        lambda: LayerNorm(4),
        lambda: RMSNorm(4),
    ],
    ids=["plain", "gated", "layer norm", "rms norm"],
)
def test_one_position_alone_is_taken_as_it_is(make):
    torch.manual_seed(0)
    made, x = make().double(), torch.randn(3, 4).double()
    torch.testing.assert_close(made(x[1]), made(x)[1], **EXACT)
    for wrong, words in (
        (x[0, :3], "^x must"),
        (x[0, 0], r"x must have at least one dimension .*, got shape \(\)"),
        (x[0].long(), "floating point"),
        (x[0].tolist(), "^x must"),
    ):
        with pytest.raises(ValueError, match=words):
            made(wrong)


WRONG_NORMS = {
    "unbiased variance": lambda x: (
        (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True) + EPS).sqrt()
    ),
    "eps outside the root": lambda x: (
        (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True, correction=0) + EPS)
    ),
    "Bessel and eps outside": lambda x: (
        (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + EPS)
    ),
    "variance for deviation": lambda x: (
        (x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, correction=0) + EPS)
    ),
    "over the positions": lambda x: (
        (x - x.mean(-2, keepdim=True)) / (x.var(-2, keepdim=True, correction=0) + EPS).sqrt()
    ),
    "over the batch": lambda x: (
        (x - x.mean(0, keepdim=True)) / (x.var(0, keepdim=True, correction=0) + EPS).sqrt()
    ),
    "over positions and features": lambda x: (
        (x - x.mean((-1, -2), keepdim=True))
        / (x.var((-1, -2), keepdim=True, correction=0) + EPS).sqrt()
    ),
    "no mean taken off": lambda x: x / (x.var(-1, keepdim=True, correction=0) + EPS).sqrt(),
    "sum of squares for their mean": lambda x: x / (x.square().sum(-1, keepdim=True) + EPS).sqrt(),
}


@pytest.mark.parametrize("mistake", WRONG_NORMS)
def test_known_wrong_norms_are_told_apart(mistake):
    wrong = WRONG_NORMS[mistake](X)
    for made in (LayerNorm(4, eps=EPS).double(), RMSNorm(4, eps=EPS).double()):
        assert (made(X) - wrong).abs().max() > 1e-2


def test_norms_under_autocast_are_computed_in_float32():
    x = torch.randn(5, 64) + 300
    with torch.autocast("cpu", torch.bfloat16):
        low = LayerNorm(64)(x)
    torch.testing.assert_close(low.float(), LayerNorm(64)(x), atol=1e-5, rtol=1e-5)


def test_an_offset_is_added_to_the_weight_in_float32():
    """g = 1 + w, where bfloat16 has no number between 1 and 1.0078."""
    made = RMSNorm(64, offset=1.0)
    assert torch.equal(made.weight, torch.zeros(64))
    torch.manual_seed(0)
    x = torch.randn(5, 64)
    torch.testing.assert_close(made(x), RMSNorm(64)(x), atol=1e-6, rtol=0)
    with torch.no_grad():
        made.weight.fill_(0.0025)
    low = made.bfloat16()
    wanted = 1.0025 * RMSNorm(64)(x.bfloat16().float())
    half_a_step = torch.finfo(torch.bfloat16).eps / 2
    error = (low(x.bfloat16()).float() / wanted - 1).abs().max()
    assert low(x.bfloat16()).dtype == torch.bfloat16 and error < 1.01 * half_a_step + 1e-4


test_bad_input_is_named = refusals(
    ("d_hidden", lambda: FeedForward(4, 0)),
    ("activation", lambda: FeedForward(4, 7, "swiglu")),
    ("gate", lambda: GatedFeedForward(4, 7, "relu")),
    ("x", lambda: FeedForward(4, 7)(torch.zeros(2, 5))),
    ("x", lambda: GatedFeedForward(4, 7)(torch.zeros(2, 5))),
    ("dropout", lambda: FeedForward(4, 7, dropout=1.0)),
    ("d_model", lambda: LayerNorm(0)),
    ("eps", lambda: LayerNorm(4, eps=-1.0)),
    ("x", lambda: LayerNorm(4)(torch.zeros(2, 5))),
    ("x", lambda: RMSNorm(4)(torch.zeros(2, 5))),
    ("offset", lambda: RMSNorm(4, offset="1")),
)
