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
)
from attnbook.mechanisms.attention.synthesizer import SynthesizerAttention
from attnbook.mechanisms.layers.convolution import DynamicConvolution, LightweightConvolution

from ..agreement import assert_same, drawn, randomised

B, N, D, H = 2, 7, 12, 3


def slope(n):
    return torch.arange(1.0, n + 1, dtype=torch.float64)


class Tilt(torch.nn.Module):
    """Weights times 1, 2, 3, … over the places; at the next call times their squares, and so on."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, weights):
        self.calls += 1
        return weights * slope(weights.shape[-1]).to(weights.dtype) ** self.calls


def all_but_one(m, n):
    """A mask in which each query is kept from one key: the one before it."""
    return (torch.arange(n) + 1) % n != torch.arange(m)[:, None]


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("masked", [True, False])
def test_dropout_stands_between_the_weights_and_the_values(masked, need_weights):
    query, key, value = drawn(2, 3, 4), drawn(2, 5, 4), drawn(2, 5, 3)
    mask, tilt = all_but_one(3, 5) if masked else None, Tilt()
    plain = attend(ScaledDotScore(), query, key, value, mask=mask)
    given = {"mask": mask, "dropout": tilt, "need_weights": need_weights}
    got = attend(ScaledDotScore(), query, key, value, **given)
    assert tilt.calls == 1
    assert_same(got.context, (plain.weights * slope(5)) @ value)
    assert torch.equal(got.weights, plain.weights) if need_weights else got.weights is None
    tilt.eval()
    assert_same(attend(ScaledDotScore(), query, key, value, **given).context, plain.context)


# What each kind sums up in its heads, of the weights w before dropout.


def summed(made, x, w):
    return (w * slope(w.shape[-1])) @ made.project(x).value


def in_blocks(made, x, w):
    return (w * ((slope(N) - 1) % 3 + 1)) @ made.project(x).value  # it sees one block at a time


def in_stretches(made, x, w):
    return (w * slope(w.shape[-1])) @ made.project(x).settled().value


def in_mixtures(made, x, w):
    return (w * slope(w.shape[-1])) @ made.value_mixture(made.project(x).value)


def with_distances(made, x, w):
    """One draw meets the values and the vectors of the distances, (B, h, m, n, d_head)."""
    distance = (torch.arange(N) - torch.arange(N)[:, None]).clamp(-2, 2) + 2
    seen = made.project(x).value[:, :, None] + made.value_distance[distance]
    return ((w * slope(N))[..., None] * seen).sum(3)


def in_kernels(made, x, w):
    """The place of key j in the kernel of query t; the weights are 0 elsewhere."""
    place = torch.arange(N) - torch.arange(N)[:, None] + made.left
    return (w * (place + 1)) @ made.project(x).value.unflatten(-1, (H, -1)).transpose(1, 2)


def synthesizer(kind, mix):
    return lambda: SynthesizerAttention(D, H, length=N, kind=kind, mix=mix)


KINDS = {
    "multi-head": (lambda: MultiHeadAttention(D, H), summed),
    "random synthesizer": (synthesizer("random", None), summed),
    "dense synthesizer": (synthesizer("dense", "plus"), summed),
    "local": (lambda: LocalAttention(D, H, block_length=3), in_blocks),
    "compressed": (lambda: MemoryCompressedAttention(D, H), in_stretches),
    "linformer": (lambda: LinformerAttention(D, H, length=N, rank=4), in_mixtures),
    "relative": (lambda: RelativeMultiHeadAttention(D, H, max_distance=2), with_distances),
    "lightweight": (lambda: LightweightConvolution(D, H, 4), in_kernels),
    "lightweight, causal": (lambda: LightweightConvolution(D, H, 4, causal=True), in_kernels),
    "dynamic": (lambda: DynamicConvolution(D, H, 4), in_kernels),
    "dynamic, causal": (lambda: DynamicConvolution(D, H, 4, causal=True), in_kernels),
}


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_drops_weights_once_and_returns_those_before_it(kind, need_weights):
    make, sums = KINDS[kind]
    made, x = randomised(make()), drawn(B, N, D)
    mask = None if kind == "linformer" else all_but_one(N, N)
    plain = made.eval()(x, mask=mask).weights
    tilt = made.train().dropout = Tilt()
    got = made(x, mask=mask, need_weights=need_weights)
    heads = sums(made, x, plain).transpose(1, 2).flatten(2)
    assert tilt.calls == 1
    assert_same(got.context, made.output_projection(heads))
    assert torch.equal(got.weights, plain) if need_weights else got.weights is None
