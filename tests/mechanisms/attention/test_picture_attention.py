"""Attention over the positions of a feature map, against loops in NumPy from the equations, and
against versions that are wrong.
"""

import math
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from any_gpu import any_gpu
from hypothesis import given, settings
from hypothesis import strategies as st
from refusing import refusals
from torch.nn import functional as F

from attnbook.mechanisms import PictureAttention, PooledPictureAttention

EXACT = {"atol": 1e-10, "rtol": 0}
KINDS = {"equation": PictureAttention, "pooled": PooledPictureAttention}


def made(kind, channels=16, seed=0, gamma=0.7, **options):
    torch.manual_seed(seed)
    layer = KINDS[kind](channels, **options).double()
    with torch.no_grad():
        for p in layer.parameters():
            p.normal_(std=0.6)
        layer.gamma.fill_(gamma)
    return layer


def feature_map(shape=(2, 16, 4, 6), seed=1):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def pool(grid):
    """The largest of each 2×2 square of (height, width, d)."""
    h, w, d = grid.shape
    return np.array(
        [
            [
                [
                    max(grid[2 * i + a, 2 * j + b, c] for a in (0, 1) for b in (0, 1))
                    for c in range(d)
                ]
                for j in range(w // 2)
            ]
            for i in range(h // 2)
        ]
    )


def oracle(
    layer,
    x,
    *,
    axis="attended",
    add=True,
    scale=True,
    swap=False,
    root=False,
    pooled=None,
    pool_queries=False,
):
    """y and β of one picture after the other, one pair of positions after the other.

    The keywords make it wrong.
    """
    f, g, h, v = (
        m.weight.detach().numpy()[:, :, 0, 0]
        for m in (layer.key, layer.query, layer.value, layer.output)
    )
    f, g = (g, f) if swap else (f, g)
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
        if pool_queries:
            queries = np.repeat(np.repeat(pool(queries), 2, 0), 2, 1)
        keys, queries, values = (t.reshape(-1, t.shape[-1]) for t in (keys, queries, values))
        s = np.array([[k @ q for q in queries] for k in keys])  # s_ij: i is attended, j asks
        s = s / math.sqrt(len(f)) if root else s
        e = np.exp(s - s.max())
        beta = e / e.sum(0, keepdims=True) if axis == "attended" else e / e.sum(1, keepdims=True)
        result = np.array(
            [v @ sum(beta[i, j] * values[i] for i in range(len(keys))) for j in range(len(queries))]
        )
        y = (grid.reshape(-1, c) if add else 0) + (gamma if scale else 1.0) * result
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
    torch.testing.assert_close(layer(x), y, **EXACT)
    torch.testing.assert_close(x + layer.gamma * context, y, **EXACT)
    torch.testing.assert_close(weights, beta, **EXACT)
    torch.testing.assert_close(layer.attended(x, need_weights=False).context, context, **EXACT)
    assert layer.attended(x, need_weights=False).weights is None
    assert layer(x).is_contiguous(memory_format=layout)


WRONG = {
    "softmax over the positions that ask": {"axis": "asking"},
    "x is not added": {"add": False},
    "γ is missing": {"scale": False},
    "a root of d_key": {"root": True},
    "the other one of the two layers": {},  # pooled or not, filled in below
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_version_is_told_from_the_layer(kind, name):
    layer, x = made(kind), feature_map()
    how = WRONG[name] or {"pooled": kind == "equation"}
    assert (layer(x) - oracle(layer, x, **how)[0]).abs().max() > 1e-3


def test_keys_and_queries_are_not_the_same_thing():
    for kind in KINDS:
        layer, x = made(kind), feature_map()
        assert (layer(x) - oracle(layer, x, swap=True)[0]).abs().max() > 1e-3
    layer = made("pooled")
    assert (layer(x) - oracle(layer, x, pool_queries=True)[0]).abs().max() > 1e-3


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("side", [4, 40])  # 40: too many pairs to be kept, so another way is taken
def test_gradients_with_and_without_weights_agree(kind, side):
    layer, x = made(kind), feature_map((2, 16, side, side)).requires_grad_()
    down = torch.randn_like(x)
    wanted = [x, *layer.parameters()]
    without = torch.autograd.grad(layer(x), wanted, down)
    within = torch.autograd.grad(x + layer.gamma * layer.attended(x).context, wanted, down)
    for a, b in zip(without, within):
        torch.testing.assert_close(a, b, atol=1e-8, rtol=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_gradcheck(kind):
    layer = made(kind, channels=4, d_key=2, d_value=3)
    x = feature_map((1, 4, 2, 4)).requires_grad_()
    names = [name for name, _ in layer.named_parameters()]

    def run(x, *parameters):
        return torch.func.functional_call(layer, dict(zip(names, parameters)), (x,))

    assert torch.autograd.gradcheck(
        run, (x, *(p.detach().clone().requires_grad_() for p in layer.parameters()))
    )


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
    assert shapes[0] == {
        "key.weight": (8, 64),
        "query.weight": (8, 64),
        "value.weight": (8, 64),
        "output.weight": (64, 8),
    }
    assert shapes[1] == {
        "key.weight": (8, 64),
        "query.weight": (8, 64),
        "value.weight": (32, 64),
        "output.weight": (64, 32),
    }
    assert PictureAttention(4).d_key == PooledPictureAttention(1).d_value == 1


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 5), st.integers(1, 5), st.integers(0, 99))
def test_shuffled_positions_give_a_shuffled_result(height, width, seed):
    layer, x = made("equation", 8, seed), feature_map((1, 8, height, width), seed)
    order = torch.randperm(height * width, generator=torch.Generator().manual_seed(seed))
    shuffled = x.flatten(2)[..., order].view_as(x)
    torch.testing.assert_close(layer(shuffled), layer(x).flatten(2)[..., order].view_as(x), **EXACT)
    weights = layer.attended(x).weights
    assert weights.shape == (1, height * width, height * width)
    torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]), **EXACT)


@pytest.mark.parametrize("kind", KINDS)
def test_every_position_reaches_every_other_in_one_layer(kind):
    layer, x = made(kind), feature_map((1, 16, 4, 4)).requires_grad_()
    (grad,) = torch.autograd.grad(layer(x)[0, :, 0, 0].sum(), x)
    reached = grad[0].abs().amax(0)
    # Behind a maximum only the largest of each square is there, for keys and values in every
    # channel another one.
    assert (reached > 0).all() if kind == "equation" else (F.max_pool2d(reached[None], 2) > 0).all()


def test_pictures_of_a_batch_do_not_mix_and_odd_sides_are_pooled_as_far_as_they_go():
    for kind in KINDS:
        layer, x = made(kind), feature_map((3, 16, 5, 7))
        torch.testing.assert_close(layer(x)[1:2], layer(x[1:2]), **EXACT)
    assert layer.attended(x).weights.shape == (3, 35, 2 * 3)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lower", [True, False])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_autocast_and_float32(kind, lower, device, layout):
    layer, x = made(kind, 64), feature_map((4, 64, 24, 24))
    with torch.no_grad():
        for p in layer.parameters():
            p.mul_(0.3)
        layer.gamma.fill_(0.5)
    exact = layer(x)
    layer = layer.float().to(device)
    x = x.float().to(device).contiguous(memory_format=layout).requires_grad_()
    with (
        nullcontext() if device == "cpu" else any_gpu(),
        torch.autocast(device, dtype=torch.bfloat16) if lower else nullcontext(),
    ):
        y = layer(x)
        weights = layer.attended(x).weights
    y.float().square().mean().backward()
    assert y.device.type == device and weights.isfinite().all()
    torch.testing.assert_close(
        y.double().cpu(),
        exact,
        **({"atol": 0.06, "rtol": 0.05} if lower else {"atol": 2e-5, "rtol": 1e-4}),
    )
    torch.testing.assert_close(
        weights.float().sum(-1),
        torch.ones_like(weights[..., 0], dtype=torch.float32),
        atol=0.02 if lower else 1e-5,
        rtol=0,
    )
    assert (
        all(p.grad.isfinite().all() and p.grad.dtype == torch.float32 for p in layer.parameters())
        and x.grad.isfinite().all()
    )


test_errors_say_what_came = refusals(
    ("channels", lambda: PictureAttention(0)),
    ("d_key", lambda: PictureAttention(8, d_key=0)),
    ("x must have the", lambda: PictureAttention(8)(torch.zeros(2, 8, 4))),
    ("x must have the", lambda: PictureAttention(8)(torch.zeros(2, 6, 4, 4))),
    ("x", lambda: PictureAttention(8)(torch.zeros(2, 8, 4, 4).long())),
    ("x", lambda: PictureAttention(8)([1.0])),
    ("x must have 2×2", lambda: PooledPictureAttention(8)(torch.zeros(2, 8, 1, 4))),
)
