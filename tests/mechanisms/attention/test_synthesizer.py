"""Synthesizers against their formulas written in NumPy, one head and one query at a time."""

from functools import partial

import numpy as np
import pytest
import torch
from assertions import refusals
from torch.autograd import gradcheck

from attnbook import causal_mask
from attnbook.mechanisms.attention import synthesizer
from attnbook.mechanisms.attention.synthesizer import SYNTHESIZERS, SynthesizerAttention

from ..agreement import assert_same, drawn, randomised

D, H, L = 6, 2, 7
W = D // H
KINDS = sorted(SYNTHESIZERS)


def build(kind="dense", mix=None):
    return randomised(SynthesizerAttention(D, H, length=L, kind=kind, mix=mix), std=1.0)


def x_of(n, batch=2):
    return drawn(batch, n, D, seed=3)


def linear(layer, x):
    return x @ layer.weight.detach().numpy().T + layer.bias.detach().numpy()


def synthesised(layer, q, head, t, n):
    """S_t for one head and one query, from the definition."""
    p = {name: value.detach().numpy() for name, value in layer.synthesizer.named_parameters()}
    if layer.kind == "dense":
        return (np.maximum(q, 0) @ p["weight"][head] + p["bias"][head, 0])[:n]
    if layer.kind == "factorised-dense":
        a = np.maximum(q, 0) @ p["coarse.weight"][head] + p["coarse.bias"][head, 0]
        b = np.maximum(q, 0) @ p["fine.weight"][head] + p["fine.bias"][head, 0]
        return np.array([a[j // len(b)] * b[j % len(b)] for j in range(n)])
    if layer.kind == "random":
        return p["scores"][head, t, :n]
    return p["rows"][head, t] @ p["columns"][head, :n].T


def oracle(layer, x, mask):
    """Context and weights for x of shape (n, D), a mask (n, n)."""
    x = x.numpy()
    n = len(x)
    weights, heads = np.zeros((H, n, n)), np.zeros((n, D))
    for h in range(H):
        part = slice(h * W, (h + 1) * W)
        values = linear(layer.value_projection, x)[:, part]
        queries = (
            np.zeros((n, W))
            if not list(layer.query_projection.parameters())
            else linear(layer.query_projection, x)[:, part]
        )
        for t in range(n):
            scores = synthesised(layer, queries[t], h, t, n)
            if layer.mix is not None:
                compared = linear(layer.key_projection, x)[:, part] @ queries[t] / np.sqrt(W)
                if layer.mix == "plus":
                    scores = compared + scores
                else:
                    share = 1 / (1 + np.exp(-layer.share.item()))
                    scores = (1 - share) * compared + share * scores
            seen = mask[t]
            if seen.any():
                e = np.exp(scores - scores[seen].max()) * seen
                weights[h, t] = e / e.sum()
            heads[t, part] = weights[h, t] @ values
    context = linear(layer.output_projection, heads)
    context[~mask.any(-1)] = 0.0
    return context, weights


@pytest.mark.parametrize("mix", [None, "plus", "alpha"])
@pytest.mark.parametrize("kind", KINDS)
def test_context_and_weights_equal_the_definition(kind, mix):
    layer, x = build(kind, mix), x_of(5)
    mask = causal_mask(5).clone()
    mask[2] = False  # a row that may see nothing
    result = layer(x, mask=mask)
    for row in range(2):
        context, weights = oracle(layer, x[row], mask.numpy())
        np.testing.assert_allclose(result.context[row].detach(), context, atol=1e-10)
        np.testing.assert_allclose(result.weights[row].detach(), weights, atol=1e-10)
    assert_same(layer(x, mask=mask, need_weights=False).context, result.context)


@pytest.mark.parametrize("mix", [None, "plus", "alpha"])
@pytest.mark.parametrize("kind", KINDS)
def test_step_by_step_with_a_cache_is_the_same(kind, mix):
    layer, x = build(kind, mix), x_of(6)
    full, cache = layer(x, mask=causal_mask(6)), None
    for t in range(6):
        own = layer.project(x[:, t : t + 1])
        cache = own if cache is None else cache.extend(own)
        step = layer(x[:, t : t + 1], projected=cache)
        assert_same(step.context[:, 0], full.context[:, t])
        assert_same(step.weights[..., 0, :], full.weights[..., t, : t + 1])


@pytest.mark.parametrize("mix", [None, "plus"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("q", "k"), [((1, 3), (4, 5)), ((3,), (4, 5)), ((4, 3), (5,))], ids=str)
def test_leading_dimensions_broadcast(q, k, kind, mix):
    layer, query, key = build(kind, mix), torch.randn(*q, D).double(), torch.randn(*k, D).double()
    random = torch.rand(4, 3, 5, generator=torch.Generator().manual_seed(0)) < 0.7
    for mask in (random, None):
        full = layer(query.expand(4, 3, D), key.expand(4, 5, D), mask=mask)
        assert_same(layer(query, key, mask=mask), full)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_reach_every_parameter_and_are_right(kind):
    x = x_of(3, batch=1).requires_grad_()
    for layer in (build(kind, "alpha"), build(kind)):
        assert gradcheck(lambda x: layer(x, mask=causal_mask(3)).context, (x,))
        layer(x, mask=causal_mask(3)).context.square().sum().backward()
        assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in layer.parameters())


def test_who_decides_where_to_look():
    """A dense row follows the word that asks and not those that are asked; a random one follows
    no word.
    """
    x = x_of(5)
    other = x.clone()
    other[:, 2] += 1.0
    for kind, follows in (("dense", True), ("random", False)):
        layer = build(kind)
        before, after = layer(x).weights, layer(other).weights
        assert_same(before[:, :, [0, 1, 3, 4]], after[:, :, [0, 1, 3, 4]])
        assert bool((before - after)[:, :, 2].abs().max() > 1e-3) == follows
    both = build("dense", "plus")
    assert (both(x).weights - both(other).weights)[:, :, 0].abs().max() > 1e-3


def test_parameters_are_those_of_the_definition():
    def extra(kind, mix=None):
        return sum(p.numel() for p in build(kind, mix).parameters())

    linear_layer = D * D + D
    assert extra("dense") == 3 * linear_layer + H * (W * L + L)
    assert extra("random") == 2 * linear_layer + H * L * L
    assert extra("factorised-random") == 2 * linear_layer + H * 2 * L * 8
    assert extra("factorised-dense") == 3 * linear_layer + H * (W + 1) * (3 + 3)  # 3 · 3 ≥ 7 places
    assert extra("random", "alpha") == 4 * linear_layer + H * L * L + 1


def rows_of(wrong):
    """Other rows in place of those of the synthesizer s."""
    return lambda layer: (layer.synthesizer, "forward", partial(wrong, layer.synthesizer))


WRONG = {  # of a kind and a mix of the layer: what is replaced in it, and by what
    "no relu": (("dense",), rows_of(lambda s, q, _, n: q @ s.weight[..., :n] + s.bias[..., :n])),
    "rows from the first position": (
        ("random",),
        rows_of(lambda s, q, _, n: s.scores[:, : q.shape[-2], :n]),
    ),
    "columns and rows exchanged": (
        ("random",),
        rows_of(lambda s, q, at, n: s.scores.mT[:, at, :n]),
    ),
    "mask after the softmax": (
        ("dense",),
        lambda _: (synthesizer, "softmax_over_allowed", lambda s, mask: s.softmax(-1) * mask),
    ),
    "share the other way": (
        ("dense", "alpha"),
        lambda layer: (layer.share, "data", -layer.share.data),
    ),
    "no scale": (("dense", "alpha"), lambda layer: (layer.score, "compare", lambda q, k: q @ k.mT)),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_known_wrong_versions_are_told_apart(mistake, monkeypatch):
    kind, wrong = WRONG[mistake]
    layer, x = build(*kind), x_of(5)
    run = lambda: layer(x[:, 3:], projected=layer.project(x), mask=causal_mask(2, 5))  # noqa: E731
    right = run().context
    monkeypatch.setattr(*wrong(layer))
    assert (run().context - right).abs().max() > 1e-3


test_bad_input_is_named = refusals(
    ("kind", lambda: SynthesizerAttention(D, H, length=L, kind="sparse")),
    ("mix", lambda: SynthesizerAttention(D, H, length=L, mix="minus")),
    ("length", lambda: SynthesizerAttention(D, H, length=0)),
    ("key", lambda: build(kind="random")(x_of(3), torch.randn(2, 3, D + 1).double())),
    ("there", lambda: build()(x_of(8))),
    ("there", lambda: build()(x_of(3), projected=build().project(x_of(2)))),
)
