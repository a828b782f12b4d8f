"""Factorised, adaptive and mixed embeddings and outputs against their formulas in NumPy."""

import itertools

import numpy as np
import pytest
import torch
from assertions import assert_refused, refusals
from torch import nn
from torch.autograd import gradcheck

from attnbook.mechanisms.layers.embeddings import (
    AdaptiveEmbedding,
    AdaptiveOutput,
    FactorisedEmbedding,
    FactorisedOutput,
    MixtureOfSoftmaxes,
    ScaledEmbedding,
    set_padding,
)

from ..agreement import assert_same, drawn, randomised

D, SIZE = 8, 11
CUTOFFS = (3, 6)
TOKENS = torch.tensor([[0, 2, 3, 5], [6, 10, 1, 0]])


def build(module, seed=0):
    return randomised(module, seed, std=1.0)


def x_of(*shape):
    return drawn(*shape, D, seed=3)


def log_softmax(a):
    a = a - a.max(-1, keepdims=True)
    return a - np.log(np.exp(a).sum(-1, keepdims=True))


def values(module):
    return {name: p.detach().numpy() for name, p in module.named_parameters()}


def test_a_factorised_embedding_is_a_product_of_two_matrices():
    layer = build(FactorisedEmbedding(SIZE, D, 3))
    p = values(layer)
    expected = np.sqrt(D) * (p["narrow.weight"] @ p["widen.weight"].T)[TOKENS.numpy()]
    np.testing.assert_allclose(layer(TOKENS).detach(), expected, atol=1e-10)
    assert sum(q.numel() for q in layer.parameters()) == SIZE * 3 + 3 * D


def test_a_factorised_output_and_its_sharing():
    output = build(FactorisedOutput(D, SIZE, 3))
    embedding = build(FactorisedEmbedding(SIZE, D, 3), 1)
    p, x = values(output), x_of(2, 4)
    assert_same(output(x), torch.tensor(x.numpy() @ p["narrow"] @ p["words"].T))
    output.share(embedding)
    table = embedding.widen(embedding.narrow.weight)
    assert_same(output(x), x @ table.mT)
    assert output.words is embedding.narrow.weight and output.narrow is embedding.widen.weight
    assert_refused("embedding", lambda: output.share(FactorisedEmbedding(SIZE, D, 4)))


@pytest.mark.parametrize("factor", [1.0, 2.0, 4.0])
def test_an_adaptive_embedding_looks_up_each_word_in_its_band(factor):
    layer = build(AdaptiveEmbedding(SIZE, D, CUTOFFS, factor))
    p, bands = values(layer), [(0, 3), (3, 6), (6, SIZE)]
    for token in range(SIZE):
        b = next(i for i, (first, last) in enumerate(bands) if first <= token < last)
        vector = p[f"widen.{b}.weight"] @ p[f"tables.{b}.weight"][token - bands[b][0]]
        assert_same(layer(torch.tensor(token)), torch.tensor(np.sqrt(D) * vector))
        assert p[f"tables.{b}.weight"].shape[1] == max(1, int(D // factor**b))


def test_embeddings_start_with_variance_one_and_padding_at_zero():
    torch.manual_seed(0)
    layers = (
        ScaledEmbedding(2000, 64),
        FactorisedEmbedding(2000, 64, 16),
        AdaptiveEmbedding(2000, 64, (500, 1000)),
    )
    for layer, padding in itertools.product(layers, (0, 700)):
        assert layer(torch.tensor(padding)).abs().max() > 0
        set_padding(layer, padding)
        result = layer(torch.arange(2000))
        assert result[padding].abs().max() == 0 < result[padding + 1].abs().max()
        for part in (result[1:500], result[500:1000], result[1000:]):
            assert 0.8 < part.var() < 1.2
        result[padding].sum().backward()
        table = next(m for m in layer.modules() if getattr(m, "padding_idx", None) is not None)
        assert table.weight.grad[table.padding_idx].abs().max() == 0


def test_only_the_band_of_a_word_gets_gradients():
    layer = build(AdaptiveEmbedding(SIZE, D, CUTOFFS))
    layer(torch.tensor([4])).sum().backward()
    touched = torch.cat([table.weight.grad.abs().sum(1) for table in layer.tables])
    assert touched.nonzero().tolist() == [[4]]


@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_an_adaptive_output_is_the_product_of_two_softmaxes(factor):
    layer = build(AdaptiveOutput(D, SIZE, CUTOFFS, factor))
    p, x = values(layer), x_of(2, 3)
    head = log_softmax(x.numpy() @ p["layer.head.weight"].T)  # three words and two bands
    expected = [head[..., :3]]
    for b in (0, 1):
        inner = x.numpy() @ p[f"layer.tail.{b}.0.weight"].T @ p[f"layer.tail.{b}.1.weight"].T
        expected.append(head[..., 3 + b : 4 + b] + log_softmax(inner))
    np.testing.assert_allclose(layer(x).detach(), np.concatenate(expected, -1), atol=1e-10)
    assert_same(layer(x).logsumexp(-1), torch.zeros(2, 3).double())
    targets = torch.tensor([1, 4, 9, 10, 0, 6])
    loss = nn.functional.cross_entropy(layer(x).flatten(0, 1), targets)
    assert_same(loss, layer.layer(x.flatten(0, 1), targets).loss)


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0,), (2, 0), (2, 1, 2)], ids=str)
def test_every_output_takes_one_position_and_none(shape):
    for layer in (
        AdaptiveOutput(D, SIZE, CUTOFFS, 2.0),
        FactorisedOutput(D, SIZE, 3),
        MixtureOfSoftmaxes(D, SIZE, 3),
    ):
        layer, x = build(layer), x_of(*shape)
        assert layer(x).shape == (*shape, SIZE)
        for where in np.ndindex(*shape):
            assert_same(layer(x)[where], layer(x[where][None])[0])


def test_a_mixture_of_softmaxes_is_the_mean_of_distributions():
    layer = build(MixtureOfSoftmaxes(D, SIZE, 3))
    p, x = values(layer), x_of(2, 3).requires_grad_()
    share = np.exp(log_softmax(x.detach().numpy() @ p["share.weight"].T))
    h = np.tanh(x.detach().numpy() @ p["context.weight"].T + p["context.bias"]).reshape(2, 3, 3, D)
    each = np.exp(log_softmax(h @ p["weight"].T))
    assert_same(layer(x).exp(), torch.tensor((share[..., None] * each).sum(-2)))
    assert gradcheck(layer, (x,))


def test_the_logarithm_of_a_mixture_is_of_higher_rank():
    """Over many contexts one softmax gives a matrix of rank at most d + 1, a mixture does not."""
    torch.manual_seed(0)
    x = torch.randn(60, 4, dtype=torch.float64)

    def rank(components):
        layer = build(MixtureOfSoftmaxes(4, 40, components))
        return int(torch.linalg.matrix_rank(layer(x)))

    assert rank(1) <= 5 and rank(3) > 20


WRONG = {  # of the contexts before the tanh, and of the shares (…, 1)
    "mean of the logarithms": lambda h, s, each: (s.softmax(-2) * each(h.tanh())).sum(-2),
    "shares not normalised": lambda h, s, each: (s + each(h.tanh())).logsumexp(-2),
    "no tanh": lambda h, s, each: (s.log_softmax(-2) + each(h)).logsumexp(-2),
    "one context for all": lambda h, s, each: (
        s.log_softmax(-2) + each(h[..., :1, :].tanh())
    ).logsumexp(-2),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_wrong_mixtures_are_told_apart(mistake):
    layer, x = build(MixtureOfSoftmaxes(D, SIZE, 3)), x_of(4)
    each = lambda h: (h @ layer.weight.mT).log_softmax(-1)  # noqa: E731
    context = layer.context(x).unflatten(-1, (3, -1))
    wrong = WRONG[mistake](context, layer.share(x)[..., None], each)
    assert (wrong - layer(x)).abs().max() > 1e-3


test_bad_input_is_named = refusals(
    ("d_narrow", lambda: FactorisedEmbedding(SIZE, D, 0)),
    ("cutoffs", lambda: AdaptiveEmbedding(SIZE, D, (6, 3))),
    ("cutoffs", lambda: AdaptiveEmbedding(SIZE, D, ())),
    ("factor", lambda: AdaptiveEmbedding(SIZE, D, CUTOFFS, 0)),
    ("factor", lambda: AdaptiveEmbedding(SIZE, D, CUTOFFS, -2.0)),
    ("tokens", lambda: AdaptiveEmbedding(SIZE, D, CUTOFFS)(TOKENS + 1)),
    ("tokens", lambda: AdaptiveEmbedding(SIZE, D, CUTOFFS)(TOKENS - 1)),
    ("factor", lambda: AdaptiveOutput(D, SIZE, CUTOFFS, 0)),
    ("cutoffs", lambda: AdaptiveOutput(D, SIZE, (3, 11))),
    ("factor must leave", lambda: AdaptiveOutput(D, SIZE, CUTOFFS, 4.0)),
    ("components", lambda: MixtureOfSoftmaxes(D, SIZE, 0)),
)
