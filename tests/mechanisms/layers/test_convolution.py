"""Lightweight and dynamic convolutions against loops in NumPy, and against PyTorch's grouped
convolution.
"""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from refusing import refusals
from torch.autograd import gradcheck
from torch.nn import functional as F

from attnbook import causal_mask, padding_mask
from attnbook.mechanisms.layers.convolution import DynamicConvolution, LightweightConvolution

D, H = 6, 3
EXACT = {"atol": 1e-10, "rtol": 0}
KINDS = [LightweightConvolution, DynamicConvolution]


def build(kind=LightweightConvolution, k=3, causal=False, seed=0):
    torch.manual_seed(seed)
    layer = kind(D, H, k, causal=causal).double()
    with torch.no_grad():
        for p in layer.parameters():
            p.normal_()
    return layer


def x_of(n, batch=2, seed=3):
    return torch.randn(
        batch, n, D, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )


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
        result = layer(x, mask)
        for row in range(2):
            allowed = (
                torch.ones(5, 5, dtype=torch.bool) if mask is None else mask.expand(2, 5, 5)[row]
            )
            context, weights = oracle(layer, x[row], allowed.numpy())
            np.testing.assert_allclose(result.context[row].detach(), context, atol=1e-10)
            np.testing.assert_allclose(result.weights[row].detach(), weights, atol=1e-10)
        torch.testing.assert_close(
            layer(x, mask, need_weights=False).context, result.context, **EXACT
        )


def test_the_lightweight_one_is_a_grouped_convolution():
    layer, x = build(k=5, causal=True), x_of(7)
    v = layer.project(x).value
    kernel = layer.weight.softmax(-1).repeat_interleave(D // H, 0)[:, None]  # (D, 1, K)
    expected = F.conv1d(F.pad(v.mT, (4, 0)), kernel, groups=D).mT
    torch.testing.assert_close(layer(x).context, layer.output_projection(expected), **EXACT)


@settings(max_examples=20, deadline=None)
@given(n=st.integers(1, 8), k=st.integers(1, 6), seed=st.integers(0, 9), dynamic=st.booleans())
def test_step_by_step_with_a_cache_is_the_same_and_nothing_later_is_read(n, k, seed, dynamic):
    layer, x = build(KINDS[dynamic], k, causal=True, seed=seed), x_of(n, seed=seed)
    full, cache = layer(x, causal_mask(n)), None
    for t in range(n):
        own = layer.project(x[:, t : t + 1])
        cache = own if cache is None else cache.extend(own)
        torch.testing.assert_close(
            layer(x[:, t : t + 1], projected=cache).context[:, 0], full.context[:, t], **EXACT
        )
    changed = x.clone()
    changed[:, -1] += 1
    torch.testing.assert_close(
        layer(changed, causal_mask(n)).context[:, :-1], full.context[:, :-1], **EXACT
    )


@pytest.mark.parametrize("kind", KINDS)
def test_the_weights_are_those_before_dropout_and_the_context_is_made_of_those_after_it(kind):
    layer, x, mask = build(kind), x_of(5), causal_mask(5)
    expected = layer(x, mask)

    class Doubled(torch.nn.Module):
        def forward(self, kernel):
            return 2 * kernel

    layer.dropout = Doubled()
    result = layer(x, mask)
    torch.testing.assert_close(result.weights, expected.weights, **EXACT)
    bias = layer.output_projection.bias
    torch.testing.assert_close(result.context - bias, 2 * (expected.context - bias), **EXACT)


def test_padding_has_no_weight_and_no_gradient_and_adds_nothing():
    layer, x = build(DynamicConvolution, 5), x_of(6).requires_grad_()
    mask = padding_mask(torch.tensor([4, 6]), 6)[:, None]
    result = layer(x, mask)
    result.context[0, :4].square().sum().backward()
    assert (
        x.grad[0, 4:].abs().max() == 0
        and x.grad[0, :4].abs().min(-1).values.min() > 0
        and result.weights[0, :, :, 4:].abs().max() == 0
    )
    torch.testing.assert_close(result.context[0, :4], layer(x[:1, :4]).context[0], **EXACT)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_right_and_reach_every_parameter(kind):
    layer, x = build(kind), x_of(4, batch=1).requires_grad_()
    assert gradcheck(lambda x: layer(x, causal_mask(4)).context, (x,))
    layer(x).context.square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().sum() > 0 for p in layer.parameters())


@pytest.mark.parametrize(
    "mistake",
    [
        "no softmax",
        "softmax over the heads",
        "channels dealt out in turns",
        "one place too late",
        "no gate",
        "kernel of the last position for all",
    ],
)
def test_known_wrong_versions_are_told_apart(mistake, monkeypatch):
    dynamic = mistake.startswith("kernel")
    layer, x = build(KINDS[dynamic], 3, causal=True), x_of(5)
    right = layer(x, causal_mask(5)).context
    kernel = layer.kernel
    if mistake == "no softmax":
        monkeypatch.setattr(layer, "kernel", lambda v: layer.weight.expand(*v.shape[:-1], -1, -1))
    elif mistake == "softmax over the heads":
        monkeypatch.setattr(
            layer, "kernel", lambda v: layer.weight.softmax(0).expand(*v.shape[:-1], -1, -1)
        )
    elif mistake == "channels dealt out in turns":
        order = torch.arange(D).reshape(D // H, H).T.flatten()
        project = layer.project
        monkeypatch.setattr(
            layer, "project", lambda x: project(x)._replace(value=project(x).value[..., order])
        )
    elif mistake == "one place too late":
        monkeypatch.setattr(layer, "left", 1)
    elif mistake == "no gate":
        monkeypatch.setattr(
            "attnbook.mechanisms.layers.convolution.F.glu", lambda a, dim: a[..., :D]
        )
    else:
        monkeypatch.setattr(layer, "kernel", lambda v: kernel(v[..., -1:, :].expand_as(v)))
    assert (layer(x, causal_mask(5)).context - right).abs().max() > 1e-3


test_bad_input_is_named = refusals(
    ("d_model", lambda: LightweightConvolution(D, 4, 3)),
    ("kernel_size", lambda: LightweightConvolution(D, 3, 0)),
    ("x", lambda: build()(x_of(3)[..., :4])),
    ("projected", lambda: build()(x_of(3), projected=build().project(x_of(2)))),
    ("mask", lambda: build()(x_of(3), torch.ones(3, 3))),
)
