"""Where dropout stands: between the weights and the values, once, in every kind of attention.

Instead of a dropout of random numbers stands a tilt over the places that are attended to: what it
gives is known, and is another thing anywhere else in the computation."""

import pytest
import torch

from attnbook import (
    LinformerAttention,
    LocalAttention,
    MemoryCompressedAttention,
    MultiHeadAttention,
    RelativeMultiHeadAttention,
    ScaledDotScore,
    attend,
    padding_mask,
)
from attnbook.mechanisms.attention.synthesizer import SynthesizerAttention
from attnbook.mechanisms.layers.convolution import DynamicConvolution, LightweightConvolution

EXACT = {"atol": 1e-10, "rtol": 0}
B, N, D, H = 2, 7, 12, 3


def slope(n):
    return torch.arange(1.0, n + 1, dtype=torch.float64)


class Tilt(torch.nn.Module):
    """Weights times 1, 2, 3, … over the places; at the next call times the squares of that, and
    so on.
    """

    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, weights):
        self.calls += 1
        return weights * slope(weights.shape[-1]).to(weights.dtype) ** self.calls


def all_but_one(m, n):
    """A mask in which each query is kept from one key: the one before it."""
    return (torch.arange(n) + 1) % n != torch.arange(m)[:, None]


def normal(made):
    with torch.no_grad():
        for p in made.parameters():
            p.normal_(std=0.5)
    return made


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("masked", [True, False])
def test_dropout_stands_between_the_weights_and_the_values(masked, need_weights):
    torch.manual_seed(0)
    query, key, value = (
        torch.randn(2, n, width, dtype=torch.float64) for n, width in ((3, 4), (5, 4), (5, 3))
    )
    mask, tilt = all_but_one(3, 5) if masked else None, Tilt()
    plain = attend(ScaledDotScore(), query, key, value, mask)
    got = attend(ScaledDotScore(), query, key, value, mask, dropout=tilt, need_weights=need_weights)
    assert tilt.calls == 1
    torch.testing.assert_close(got.context, (plain.weights * slope(5)) @ value, **EXACT)
    assert torch.equal(got.weights, plain.weights) if need_weights else got.weights is None


BLOCK = 3
KINDS = {  # the attention, its mask, and what it sums up of the values of each head
    "multi-head": (
        lambda: MultiHeadAttention(D, H),
        all_but_one(N, N),
        lambda made, source: source.value,
    ),
    "local": (
        lambda: LocalAttention(D, H, block_length=BLOCK),
        all_but_one(N, N),
        lambda made, source: source.value,
    ),
    "compressed": (
        lambda: MemoryCompressedAttention(D, H),
        all_but_one(N, N),
        lambda made, source: source.settled().value,
    ),
    "linformer": (
        lambda: LinformerAttention(D, H, length=N, rank=4),
        None,
        lambda made, source: made.value_mixture(source.value),
    ),
    **{
        f"{kind} synthesizer": (
            lambda kind=kind, mix=mix: SynthesizerAttention(D, H, length=N, kind=kind, mix=mix),
            all_but_one(N, N),
            lambda made, source: source.value,
        )
        for kind, mix in (("random", None), ("dense", "plus"))
    },
}


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_drops_weights_once_and_returns_those_before_it(kind, need_weights):
    torch.manual_seed(0)
    make, mask, values = KINDS[kind]
    made, x = normal(make().double()), torch.randn(B, N, D, dtype=torch.float64)
    plain = made(x, mask=mask).weights
    tilt = made.dropout = Tilt()
    got = made(x, mask=mask, need_weights=need_weights)
    factors = slope(plain.shape[-1])
    if kind == "local":  # it sees one block at a time
        factors = (factors - 1) % BLOCK + 1
    heads = (plain * factors) @ values(made, made.project(x))
    assert tilt.calls == 1
    torch.testing.assert_close(
        got.context, made.output_projection(heads.transpose(1, 2).flatten(2)), **EXACT
    )
    assert torch.equal(got.weights, plain) if need_weights else got.weights is None


@pytest.mark.parametrize("need_weights", [True, False])
def test_one_draw_meets_the_values_and_the_vectors_of_the_distances(need_weights):
    torch.manual_seed(0)
    k = 2
    made = normal(RelativeMultiHeadAttention(D, H, max_distance=k).double())
    x = torch.randn(B, N, D, dtype=torch.float64)
    mask = padding_mask(torch.tensor([4, 7]), N)[:, None]
    plain = made(x, mask=mask).weights
    tilt = made.dropout = Tilt()
    got = made(x, mask=mask, need_weights=need_weights)
    distance = torch.arange(N) - torch.arange(N)[:, None]
    # (B, h, m, n, d_head)
    seen = made.project(x).value[:, :, None] + made.value_distance[distance.clamp(-k, k) + k]
    heads = ((plain * slope(N))[..., None] * seen).sum(3)
    assert tilt.calls == 1
    torch.testing.assert_close(
        got.context, made.output_projection(heads.transpose(1, 2).flatten(2)), **EXACT
    )
    assert torch.equal(got.weights, plain) if need_weights else got.weights is None


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("kind", [LightweightConvolution, DynamicConvolution])
def test_a_convolution_drops_places_of_its_kernel(kind, causal):
    torch.manual_seed(0)
    made = normal(kind(D, H, 4, causal=causal).double())
    x = torch.randn(B, N, D, dtype=torch.float64)
    plain = made.eval()(x, mask=all_but_one(N, N)).weights
    tilt = made.train().dropout = Tilt()
    got = made(x, mask=all_but_one(N, N)).context
    # of key j in the kernel of query t; the weights are 0 elsewhere
    place = torch.arange(N) - torch.arange(N)[:, None] + made.left
    values = made.project(x).value.unflatten(-1, (H, -1)).transpose(1, 2)
    heads = (plain * (place + 1)) @ values
    assert tilt.calls == 1
    torch.testing.assert_close(
        got, made.output_projection(heads.transpose(1, 2).flatten(2)), **EXACT
    )
