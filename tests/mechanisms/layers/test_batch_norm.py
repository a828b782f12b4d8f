"""Batch norm beside PyTorch's, in value, gradient and running statistics; padding that counts
and padding that does not.
"""

import pytest
import torch
from refusing import refusals
from torch import nn

from attnbook import padding_mask, paper_parts
from attnbook.mechanisms.layers.norms import BatchNorm, LayerNorm

EXACT = {"rtol": 1e-10, "atol": 1e-10}


def pair(d=5, dtype=torch.float64):
    g = torch.Generator().manual_seed(0)
    ours, theirs = BatchNorm(d).to(dtype), nn.BatchNorm1d(d, dtype=dtype)
    with torch.no_grad():
        for a, b in ((ours.weight, theirs.weight), (ours.bias, theirs.bias)):
            a.copy_(torch.randn(d, generator=g))
            b.copy_(a)
    return ours, theirs


def batch(*shape, seed=1):
    return (
        3
        + 2
        * torch.randn(*shape, 5, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    ).requires_grad_()


@pytest.mark.parametrize("masked", [False, True])
def test_it_equals_batch_norm_1d_on_the_positions_that_count(masked):
    ours, theirs = pair()
    mask = (
        padding_mask(torch.tensor([4, 2, 1]), 4) if masked else torch.ones(3, 4, dtype=torch.bool)
    )
    for seed in range(3):
        x = batch(3, 4, seed=seed)
        got, expected = ours(x, mask if masked else None)[mask], theirs(x[mask])
        torch.testing.assert_close(got, expected, **EXACT)
        ways = torch.linspace(-1, 2, got.numel(), dtype=torch.float64).view_as(got)
        grads = [
            torch.autograd.grad((y * ways).sum(), [x, m.weight, m.bias])
            for y, m in ((got, ours), (expected, theirs))
        ]
        for one, other in zip(*grads):
            torch.testing.assert_close(one, other, **EXACT)
    for name in ("running_mean", "running_var"):
        torch.testing.assert_close(getattr(ours, name), getattr(theirs, name), **EXACT)
    x = batch(2, 4, seed=7)
    torch.testing.assert_close(ours.eval()(x), theirs.eval()(x.flatten(0, 1)).view_as(x), **EXACT)


def test_padding_moves_the_words_unless_it_is_masked():
    ours, _ = pair()
    x, mask = batch(2, 4).detach(), padding_mask(torch.tensor([4, 2]), 4)
    other = torch.where(mask[..., None], x, torch.full_like(x, 50.0))
    assert not torch.allclose(ours(x)[mask], ours(other)[mask])
    torch.testing.assert_close(ours(x, mask)[mask], ours(other, mask)[mask], **EXACT)
    broken = torch.where(mask[..., None], x, torch.full_like(x, float("nan")))
    assert (
        torch.isfinite(ours(broken, mask)[mask]).all() and torch.isfinite(ours.running_mean).all()
    )


def test_a_row_depends_on_its_batch_in_training_and_not_in_evaluation():
    ours, _ = pair()
    x = batch(3, 4).detach()
    assert not torch.allclose(ours(x)[:1], ours(x[:1]))
    ours.eval()
    torch.testing.assert_close(ours(x)[:1], ours(x[:1]), **EXACT)


def test_it_is_a_norm_for_a_block():
    layer = paper_parts(8, 2, 16, dropout=0.0, norm=BatchNorm).make_encoder(1).layers[0]
    x = torch.randn(3, 4, 8)
    assert layer(x).x.shape == x.shape and layer.around_attention.norm.running_mean.any()
    half = BatchNorm(8)(x.bfloat16())
    assert half.dtype == torch.bfloat16


def test_a_whole_number_is_a_number():
    made = BatchNorm(8, 0, 1)
    made(x := torch.randn(3, 4, 8))
    torch.testing.assert_close(made.running_mean, x.mean((0, 1)))
    torch.testing.assert_close(LayerNorm(8, 0)(x), LayerNorm(8, 0.0)(x), atol=0, rtol=0)


test_wrong_arguments_are_named = refusals(
    ("x must have two", lambda: BatchNorm(5)(torch.randn(1, 5))),
    (
        "x must have two",
        lambda: BatchNorm(5)(torch.randn(2, 3, 5), torch.zeros(2, 3, dtype=torch.bool)),
    ),
    ("x must have width", lambda: BatchNorm(5)(torch.randn(2, 3, 4))),
    ("mask", lambda: BatchNorm(5)(torch.randn(2, 3, 5), torch.ones(2, 3))),
    (
        "mask must be broadcastable",
        lambda: BatchNorm(5)(torch.randn(2, 3, 5), torch.ones(2, 4) > 0),
    ),
    ("momentum", lambda: BatchNorm(5, momentum=2.0)),
)
