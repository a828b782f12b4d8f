"""Attention over the positions of a feature map, against loops in NumPy from the equations, and
against versions that are wrong.
"""

import math
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from any_gpu import any_gpu
from assertions import refusals
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from attnbook.mechanisms import PictureAttention, PooledPictureAttention

from ..agreement import assert_same, drawn

KINDS = {"equation": PictureAttention, "pooled": PooledPictureAttention}


def made(kind, channels=16, seed=0, gamma=0.7, **options):
    torch.manual_seed(seed)
    layer = KINDS[kind](channels, **options).double()
    with torch.no_grad():
        for p in layer.parameters():
            p.normal_(std=0.6)
        layer.gamma.fill_(gamma)
    return layer


def feature_map(*shape, seed=1):
    return drawn(*(shape or (2, 16, 4, 6)), seed=seed)


def pool(grid):
    """The largest of each 2×2 square of (height, width, d)."""
    h, w, d = grid.shape
    pooled = np.zeros((h // 2, w // 2, d))
    for i, j, c in np.ndindex(pooled.shape):
        pooled[i, j, c] = max(grid[2 * i + a, 2 * j + b, c] for a in (0, 1) for b in (0, 1))
    return pooled


def oracle(layer, x, *, wrong="", pooled=None):
    """y and β, a pair of positions of a picture after the other; or a wrong version of WRONG."""
    f, g, h, v = (
        m.weight.detach().numpy()[:, :, 0, 0]
        for m in (layer.key, layer.query, layer.value, layer.output)
    )
    f, g = (g, f) if wrong == "keys and queries exchanged" else (f, g)
    pooled = isinstance(layer, PooledPictureAttention) if pooled is None else pooled
    gamma, results, betas = float(layer.gamma.detach()), [], []
    for picture in x.numpy():
        c, height, width = picture.shape
        grid = picture.transpose(1, 2, 0)  # (height, width, C)
        keys, queries, values = (
            np.array([[m @ grid[i, j] for j in range(width)] for i in range(height)])
            for m in (f, g, h)
        )
        if pooled:
            keys, values = pool(keys), pool(values)
        if wrong == "queries are pooled":
            queries = np.repeat(np.repeat(pool(queries), 2, 0), 2, 1)
        keys, queries, values = (t.reshape(-1, t.shape[-1]) for t in (keys, queries, values))
        s = np.array([[k @ q for q in queries] for k in keys])  # s_ij: i is attended, j asks
        s = s / math.sqrt(len(f)) if wrong == "a root of d_key" else s
        e = np.exp(s - s.max())
        beta = e / e.sum(int(wrong == "softmax over the positions that ask"), keepdims=True)
        result = np.array(
            [v @ sum(beta[i, j] * values[i] for i in range(len(keys))) for j in range(len(queries))]
        )
        y = (1.0 if wrong == "γ is missing" else gamma) * result
        y = y if wrong == "x is not added" else grid.reshape(-1, c) + y
        results.append(y.reshape(height, width, c).transpose(2, 0, 1))
        betas.append(beta.T)
    return torch.tensor(np.array(results)), torch.tensor(np.array(betas))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "options", [{}, {"d_key": 3, "d_value": 5}, {"d_key": 1, "d_value": 16}], ids=str
)
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_value_and_weights_equal_the_equations(kind, options, layout):
    layer, x = made(kind, **options), feature_map()
    y, beta = oracle(layer, x)
    x = x.contiguous(memory_format=layout)
    context, weights = layer.attended(x)
    assert_same(layer(x), y)
    assert_same(x + layer.gamma * context, y)
    assert_same(weights, beta)
    assert_same(layer.attended(x, need_weights=False).context, context)
    assert layer.attended(x, need_weights=False).weights is None
    assert layer(x).is_contiguous(memory_format=layout)


WRONG = ["softmax over the positions that ask", "x is not added", "γ is missing"]
WRONG += ["a root of d_key", "keys and queries exchanged", "queries are pooled"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("wrong", [*WRONG, "the other one of the two layers"])
def test_a_wrong_version_is_told_from_the_layer(kind, wrong):
    layer, x = made(kind), feature_map()
    pooled = (kind == "pooled") == (wrong in WRONG)
    assert (layer(x) - oracle(layer, x, wrong=wrong, pooled=pooled)[0]).abs().max() > 1e-3


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("side", [4, 40])  # 40: too many pairs to be kept, so another way is taken
def test_gradients_with_and_without_weights_agree(kind, side):
    layer, x = made(kind), feature_map(2, 16, side, side).requires_grad_()
    down = torch.randn_like(x)
    wanted = [x, *layer.parameters()]
    without = torch.autograd.grad(layer(x), wanted, down)
    within = torch.autograd.grad(x + layer.gamma * layer.attended(x).context, wanted, down)
    torch.testing.assert_close(without, within, atol=1e-8, rtol=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_gradcheck(kind):
    layer = made(kind, channels=4, d_key=2, d_value=3)
    x = feature_map(1, 4, 2, 4).requires_grad_()
    names = [name for name, _ in layer.named_parameters()]

    def run(x, *parameters):
        return torch.func.functional_call(layer, dict(zip(names, parameters)), (x,))

    assert torch.autograd.gradcheck(run, (x, *layer.parameters()))


@pytest.mark.parametrize("kind", KINDS)
def test_the_layer_starts_as_the_identity_and_only_gamma_can_leave(kind):
    torch.manual_seed(0)
    layer, x = KINDS[kind](16), torch.randn(2, 16, 4, 4)
    assert layer.gamma.shape == () and torch.equal(layer(x), x)
    layer(x).square().sum().backward()
    assert layer.gamma.grad != 0
    for part in (layer.key, layer.query, layer.value, layer.output):
        assert part.bias is None and (part.weight.grad == 0).all()


def test_widths_are_those_of_the_paper_and_of_its_code():
    shapes = [
        {n: tuple(p.shape[:2]) for n, p in layer(64).named_parameters() if p.dim()}
        for layer in KINDS.values()
    ]
    for shape, d_value in zip(shapes, (8, 32)):
        assert shape.pop("value.weight") == shape.pop("output.weight")[::-1] == (d_value, 64)
        assert shape == {"key.weight": (8, 64), "query.weight": (8, 64)}
    assert PictureAttention(4).d_key == PooledPictureAttention(1).d_value == 1


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 99))
def test_shuffled_positions_give_a_shuffled_result(height, width, seed):
    layer, x = made("equation", 8, seed), feature_map(1, 8, height, width, seed=seed)
    order = torch.randperm(height * width, generator=torch.Generator().manual_seed(seed))
    shuffled = x.flatten(2)[..., order].view_as(x)
    assert_same(layer(shuffled), layer(x).flatten(2)[..., order].view_as(x))
    weights = layer.attended(x).weights
    assert weights.shape == (1, height * width, height * width)
    assert_same(weights.sum(-1), torch.ones_like(weights[..., 0]))


@pytest.mark.parametrize("kind", KINDS)
def test_every_position_reaches_every_other_in_one_layer(kind):
    layer, x = made(kind), feature_map(1, 16, 4, 4).requires_grad_()
    (grad,) = torch.autograd.grad(layer(x)[0, :, 0, 0].sum(), x)
    reached = grad[0].abs().amax(0)
    # Behind a maximum only the largest of each square is there, for keys and values in every
    # channel another one.
    assert (reached > 0).all() if kind == "equation" else (F.max_pool2d(reached[None], 2) > 0).all()


def test_pictures_of_a_batch_do_not_mix_and_odd_sides_are_pooled_as_far_as_they_go():
    for kind in KINDS:
        layer, x = made(kind), feature_map(3, 16, 5, 7)
        assert_same(layer(x)[1:2], layer(x[1:2]))
    assert layer.attended(x).weights.shape == (3, 35, 2 * 3)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_autocast_and_float32(kind, lower, device, layout):
    layer, x = made(kind, 64), feature_map(4, 64, 24, 24)
    with torch.no_grad():
        for p in layer.parameters():
            p.mul_(0.3)
        layer.gamma.fill_(0.5)
    exact = layer(x)
    layer = layer.float().to(device)
    x = x.float().to(device).contiguous(memory_format=layout).requires_grad_()
    with (
        nullcontext() if device == "cpu" else any_gpu(),
        torch.autocast(device, dtype=torch.bfloat16, enabled=lower),
    ):
        y = layer(x)
        weights = layer.attended(x).weights
    y.float().square().mean().backward()
    assert y.device.type == device and weights.isfinite().all()
    near = {"atol": 0.06, "rtol": 0.05} if lower else {"atol": 2e-5, "rtol": 1e-4}
    torch.testing.assert_close(y.double().cpu(), exact, **near)
    assert (weights.float().sum(-1) - 1).abs().max() <= (0.02 if lower else 1e-5)
    for t in (x, *layer.parameters()):
        assert t.grad.isfinite().all() and t.grad.dtype == torch.float32


test_errors_say_what_came = refusals(
    ("channels", lambda: PictureAttention(0)),
    ("d_key", lambda: PictureAttention(8, d_key=0)),
    ("x must have the", lambda: PictureAttention(8)(torch.zeros(2, 8, 4))),
    ("x must have the", lambda: PictureAttention(8)(torch.zeros(2, 6, 4, 4))),
    ("x", lambda: PictureAttention(8)(torch.zeros(2, 8, 4, 4).long())),
    ("x", lambda: PictureAttention(8)([1.0])),
    ("x must have 2×2", lambda: PooledPictureAttention(8)(torch.zeros(2, 8, 1, 4))),
)
