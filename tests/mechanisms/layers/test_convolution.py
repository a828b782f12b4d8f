"""Lightweight and dynamic convolutions against loops in NumPy, and against PyTorch's grouped
convolution.
"""

import numpy as np
import pytest
import torch
from assertions import refusals
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.autograd import gradcheck
from torch.nn import functional as F

from attnbook import causal_mask, padding_mask
from attnbook.mechanisms.layers.convolution import (
    DynamicConvolution,
    LightweightConvolution,
    PastValues,
)

from ..agreement import assert_same, drawn, randomised

D, H = 6, 3
KINDS = [LightweightConvolution, DynamicConvolution]


def build(kind=LightweightConvolution, k=3, causal=False, seed=0):
    return randomised(kind(D, H, k, causal=causal), seed, std=1.0)


def x_of(n, batch=2, seed=3):
    return drawn(batch, n, D, seed=seed)


def softmax(a):
    e = np.exp(a - a.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def oracle(layer, x, mask):
    """Context and weights for x (n, D) and a mask (n, n), position by position and channel by
    channel.
    """
    p = {name: value.detach().numpy() for name, value in layer.named_parameters()}
    gated = x.numpy() @ p["input_projection.weight"].T + p["input_projection.bias"]
    v = gated[:, :D] / (1 + np.exp(-gated[:, D:]))
    n, k = len(v), layer.kernel_size
    z, weights = np.zeros((n, D)), np.zeros((H, n, n))
    for t in range(n):
        kernel = softmax(
            p["weight"] if "weight" in p else (p["kernel_projection.weight"] @ v[t]).reshape(H, k)
        )
        for c in range(D):
            head = c * H // D
            for j in range(k):
                place = t + j - layer.left
                if 0 <= place < n and mask[t, place]:
                    z[t, c] += kernel[head, j] * v[place, c]
                    weights[head, t, place] = kernel[head, j]
    context = z @ p["output_projection.weight"].T + p["output_projection.bias"]
    context[~mask.any(-1)] = 0.0
    return context, weights


@pytest.mark.parametrize("k", [1, 3, 4, 9])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_context_and_weights_equal_the_definition(kind, causal, k):
    layer, x = build(kind, k, causal), x_of(5)
    for mask in (None, causal_mask(5), padding_mask(torch.tensor([3, 5]), 5)[:, None]):
        result = layer(x, mask=mask)
        allowed = (torch.ones(1).bool() if mask is None else mask).expand(2, 5, 5)
        for row in range(2):
            context, weights = oracle(layer, x[row], allowed[row].numpy())
            np.testing.assert_allclose(result.context[row].detach(), context, atol=1e-10)
            np.testing.assert_allclose(result.weights[row].detach(), weights, atol=1e-10)
        assert_same(layer(x, mask=mask, need_weights=False).context, result.context)


def test_the_lightweight_one_is_a_grouped_convolution():
    layer, x = build(k=5, causal=True), x_of(7)
    v = layer.project(x).value
    kernel = layer.weight.softmax(-1).repeat_interleave(D // H, 0)[:, None]  # (D, 1, K)
    expected = F.conv1d(F.pad(v.mT, (4, 0)), kernel, groups=D).mT
    assert_same(layer(x).context, layer.output_projection(expected))


@settings(max_examples=20, deadline=None)
@given(n=st.integers(1, 8), k=st.integers(1, 6), seed=st.integers(0, 9), dynamic=st.booleans())
def test_step_by_step_with_a_cache_is_the_same_and_nothing_later_is_read(n, k, seed, dynamic):
    layer, x = build(KINDS[dynamic], k, causal=True, seed=seed), x_of(n, seed=seed)
    full, cache = layer(x, mask=causal_mask(n)), None
    for t in range(n):
        found, cache, _ = layer.read(x[:, t : t + 1], cache=cache)
        assert_same(found[:, 0], full.context[:, t])
    changed = x.clone()
    changed[:, -1] += 1
    assert_same(layer(changed, mask=causal_mask(n)).context[:, :-1], full.context[:, :-1])


def test_padding_has_no_weight_and_no_gradient_and_adds_nothing():
    layer, x = build(DynamicConvolution, 5), x_of(6).requires_grad_()
    mask = padding_mask(torch.tensor([4, 6]), 6)[:, None]
    result = layer(x, mask=mask)
    result.context[0, :4].square().sum().backward()
    assert x.grad[0, 4:].abs().max() == 0 < x.grad[0, :4].abs().min()
    assert result.weights[0, :, :, 4:].abs().max() == 0
    assert_same(result.context[0, :4], layer(x[:1, :4]).context[0])


@pytest.mark.parametrize("kind", KINDS)
def test_a_kernel_that_looks_ahead_is_causal_where_it_is_said(kind):
    layer, x, words = build(kind, k=5), x_of(7), padding_mask(torch.tensor([7, 4]), 7)
    found = layer(x, is_causal=True, key_mask=words)
    assert_same(tuple(found), tuple(layer(x, mask=causal_mask(7) & words[:, None])))
    bad = x.clone()
    bad[:, 5] = torch.nan
    later = layer(bad, is_causal=True, key_mask=words).context
    assert_same(later[:, :5], found.context[:, :5])
    assert later[0, 5:].isnan().all() and not later[1].isnan()[:5].any()


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_right_and_reach_every_parameter(kind):
    layer, x = build(kind), x_of(4, batch=1).requires_grad_()
    assert gradcheck(lambda x: layer(x, mask=causal_mask(4)).context, (x,))
    layer(x).context.square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in layer.parameters())


def spread(kernel):
    """One kernel for all positions."""
    return lambda v: kernel.expand(*v.shape[:-1], -1, -1)


def in_turns(layer):
    """Channels dealt out to the heads in turns."""
    order, project = torch.arange(D).reshape(D // H, H).T.flatten(), layer.project
    return lambda x: project(x)._replace(value=project(x).value[..., order])


def of_the_last(layer):
    kernel = layer.kernel
    return lambda v: kernel(v[..., -1:, :].expand_as(v))


WRONG = {  # which part of the layer is replaced, and by what
    "no softmax": ("kernel", lambda layer: spread(layer.weight)),
    "softmax over the heads": ("kernel", lambda layer: spread(layer.weight.softmax(0))),
    "channels dealt out in turns": ("project", in_turns),
    "one place too late": ("left", lambda layer: 1),
    "no gate": ("project", lambda layer: lambda x: PastValues(layer.input_projection(x)[..., :D])),
    "kernel of the last position for all": ("kernel", of_the_last),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_known_wrong_versions_are_told_apart(mistake):
    layer, x = build(KINDS[mistake.startswith("kernel")], 3, causal=True), x_of(5)
    right = layer(x, mask=causal_mask(5)).context
    part, wrong = WRONG[mistake]
    setattr(layer, part, wrong(layer))
    assert (layer(x, mask=causal_mask(5)).context - right).abs().max() > 1e-3


test_bad_input_is_named = refusals(
    ("d_model", lambda: LightweightConvolution(D, 4, 3)),
    ("kernel_size", lambda: LightweightConvolution(D, 3, 0)),
    ("x", lambda: build()(x_of(3)[..., :4])),
    ("projected", lambda: build()(x_of(3), projected=build().project(x_of(2)))),
    ("mask", lambda: build()(x_of(3), mask=torch.ones(3, 3))),
)
