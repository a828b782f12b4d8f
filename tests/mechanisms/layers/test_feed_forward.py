"""Feed-forward sublayers and norms against loops in NumPy, PyTorch's own and wrong versions."""

import math

import numpy as np
import pytest
import torch
from assertions import refusals
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from attnbook import FeedForward, GatedFeedForward, LayerNorm, RMSNorm
from attnbook.mechanisms.layers.feed_forward import ACTIVATIONS, GATES

from ..agreement import assert_same, drawn, randomised, slopes


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
    return randomised(kind(*arguments, **options), std=1.0)


X = drawn(2, 3, 4, seed=2)


def apply(function, x):
    return np.vectorize(function)(x)


def linear(layer, x):
    out = x @ layer.weight.detach().numpy().T
    return out if layer.bias is None else out + layer.bias.detach().numpy()


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_every_activation_equals_its_formula(name):
    made = build(FeedForward, 4, 7, name)
    expected = linear(made.output, apply(SCALAR[name], linear(made.hidden, X.numpy())))
    assert_same(made(X), torch.tensor(expected))


@pytest.mark.parametrize("name", GATES)
def test_every_gate_equals_its_formula(name):
    made = build(GatedFeedForward, 4, 7, name)
    gate, value = (linear(p, X.numpy()) for p in (made.gate_projection, made.value_projection))
    assert_same(made(X), torch.tensor(linear(made.output, apply(GATE_OF[name], gate) * value)))


def test_a_function_can_be_the_activation_and_two_thirds_keep_the_parameters():
    made = build(FeedForward, 4, 7, torch.tanh)
    assert_same(made(X), made.output(made.hidden(X).tanh()))

    def count(m):
        return sum(p.numel() for name, p in m.named_parameters() if "weight" in name)

    assert count(FeedForward(8, 96)) == count(GatedFeedForward(8, 64))


WRONG_FEED_FORWARD = {
    "no activation": lambda m, x: m.output(m.hidden(x)),
    "activation after both": lambda m, x: m.output(m.hidden(x)).relu(),
    "activation before both": lambda m, x: m.output(m.hidden(x.relu())),
    "relu for gelu": lambda m, x: m.output(m.hidden(x).relu()),
    "gelu by tanh": lambda m, x: m.output(F.gelu(m.hidden(x), approximate="tanh")),
}
WRONG_GATED = {  # of the module m, what comes of its gate g and of its value v
    "gate and value exchanged": lambda m, g, v: m.gate(v) * g,
    "a sum for the product": lambda m, g, v: m.gate(g) + v,
    "sigmoid for swish": lambda m, g, v: g.sigmoid() * v,
    "both gated": lambda m, g, v: m.gate(g) * m.gate(v),
}


@pytest.mark.parametrize("mistake", [*WRONG_FEED_FORWARD, *WRONG_GATED])
def test_known_wrong_sublayers_are_told_apart(mistake):
    if mistake in WRONG_GATED:
        made = build(GatedFeedForward, 4, 7, "swiglu")
        parts = made.gate_projection(X), made.value_projection(X)
        wrong = made.output(WRONG_GATED[mistake](made, *parts))
    else:
        made = build(FeedForward, 4, 7, "gelu")
        wrong = WRONG_FEED_FORWARD[mistake](made, X)
    assert (made(X) - wrong).abs().max() > 1e-4


EPS = 0.1  # large, so that its place is seen


def by_hand(x, made, centred):
    """Layer norm or, not centred and without a shift, RMS norm."""
    out = np.zeros_like(x)
    for i in np.ndindex(x.shape[:-1]):
        mean = sum(x[i]) / len(x[i]) if centred else 0.0
        variance = sum((v - mean) ** 2 for v in x[i]) / len(x[i])
        out[i] = [(v - mean) / math.sqrt(variance + EPS) for v in x[i]]
    out = out * made.weight.detach().numpy()
    return out + made.bias.detach().numpy() if centred else out


@pytest.mark.parametrize("kind", [LayerNorm, RMSNorm])
def test_norms_equal_their_formulas(kind):
    made = build(kind, 4, eps=EPS)
    assert_same(made(X), torch.tensor(by_hand(X.numpy(), made, kind is LayerNorm)))


@pytest.mark.parametrize(("ours", "theirs"), [(LayerNorm, nn.LayerNorm), (RMSNorm, nn.RMSNorm)])
def test_norms_equal_pytorch_s_in_value_and_gradient(ours, theirs):
    made = build(ours, 4, eps=1e-5)
    other = theirs(4, eps=1e-5).double()
    other.load_state_dict(made.state_dict())
    x = X.clone().requires_grad_()
    got, expected = made(x), other(x)
    assert_same(got, expected)
    assert_same(slopes(got, [x, *made.parameters()]), slopes(expected, [x, *other.parameters()]))


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 16), st.floats(0.1, 1e3), st.floats(-50, 50), st.integers(0, 99))
def test_what_the_norms_forget(d, scale, shift, seed):
    torch.manual_seed(seed)
    x = torch.randn(3, d).double()
    layer, rms = LayerNorm(d, eps=0.0).double(), RMSNorm(d, eps=0.0).double()
    torch.testing.assert_close(layer(scale * x + shift), layer(x), atol=1e-6, rtol=1e-6)
    assert_same(rms(scale * x), rms(x))
    assert_same(layer(x).square().mean(-1), torch.ones(3).double())
    assert_same(layer(x).mean(-1), torch.zeros(3).double())
    torch.testing.assert_close(rms(x - x.mean(-1, keepdim=True)), layer(x), atol=1e-8, rtol=0)


MAKE = {
    "plain": lambda: build(FeedForward, 4, 7),
    "gated": lambda: build(GatedFeedForward, 4, 7),
    "layer norm": lambda: build(LayerNorm, 4),
    "rms norm": lambda: build(RMSNorm, 4),
}


@pytest.mark.parametrize("name", MAKE)
def test_one_position_alone_is_taken_as_it_is_and_knows_of_no_other(name):
    made, x = MAKE[name](), X[0]
    assert_same(made(x[1]), made(X)[0, 1])
    for wrong, words in (
        (x[0, :3], "^x must"),
        (x[0, 0], r"x must have at least one dimension .*, got shape \(\)"),
        (x[0].long(), "floating point"),
        (x[0].tolist(), "^x must"),
    ):
        with pytest.raises(ValueError, match=words):
            made(wrong)


def scaled(dims=-1, correction=0, mean=True):
    """Divided by the root of the variance plus ε, over these dimensions."""
    return lambda x: (
        (x - mean * x.mean(dims, keepdim=True))
        / (x.var(dims, keepdim=True, correction=correction) + EPS).sqrt()
    )


def centred(x):
    return x - x.mean(-1, keepdim=True)


WRONG_NORMS = {
    "unbiased variance": scaled(correction=1),
    "eps outside the root": lambda x: centred(x) / (x.std(-1, keepdim=True, correction=0) + EPS),
    "Bessel and eps outside": lambda x: centred(x) / (x.std(-1, keepdim=True) + EPS),
    "variance for deviation": lambda x: centred(x) / (x.var(-1, keepdim=True, correction=0) + EPS),
    "over the positions": scaled(-2),
    "over the batch": scaled(0),
    "over positions and features": scaled((-1, -2)),
    "no mean taken off": scaled(mean=False),
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
