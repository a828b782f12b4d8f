"""Batch norm beside PyTorch's, and padding that counts and padding that does not."""

import pytest
import torch
from assertions import refusals
from torch import nn

from attnbook import padding_mask, paper_parts
from attnbook.mechanisms.layers.norms import BatchNorm, LayerNorm

from ..agreement import assert_same, drawn, randomised, slopes


def pair():
    ours = randomised(BatchNorm(5), std=1.0)
    theirs = nn.BatchNorm1d(5, dtype=torch.float64)
    theirs.load_state_dict(ours.state_dict(), strict=False)  # but for the count of batches
    return ours, theirs


def batch(*shape, seed=1):
    return (3 + 2 * drawn(*shape, 5, seed=seed)).requires_grad_()


@pytest.mark.parametrize("masked", [False, True])
def test_it_equals_batch_norm_1d_on_the_positions_that_count(masked):
    ours, theirs = pair()
    mask = padding_mask(torch.tensor([4, 2, 1] if masked else [4, 4, 4]))
    for seed in range(3):
        x = batch(3, 4, seed=seed)
        got, expected = ours(x, key_mask=mask if masked else None)[mask], theirs(x[mask])
        assert_same(got, expected)
        assert_same(
            slopes(got, [x, *ours.parameters()]), slopes(expected, [x, *theirs.parameters()])
        )
    for name in ("running_mean", "running_var"):
        assert_same(getattr(ours, name), getattr(theirs, name))
    x = batch(2, 4, seed=7)
    assert_same(ours.eval()(x), theirs.eval()(x.flatten(0, 1)).view_as(x))


def test_padding_moves_the_words_unless_it_is_masked():
    ours, _ = pair()
    x, mask = batch(2, 4).detach(), padding_mask(torch.tensor([4, 2]), 4)
    other = torch.where(mask[..., None], x, torch.full_like(x, 50.0))
    assert not torch.allclose(ours(x)[mask], ours(other)[mask])
    assert_same(ours(x, key_mask=mask)[mask], ours(other, key_mask=mask)[mask])
    broken = torch.where(mask[..., None], x, torch.full_like(x, float("nan")))
    assert torch.isfinite(ours(broken, key_mask=mask)[mask]).all()
    assert torch.isfinite(ours.running_mean).all()


def test_a_row_depends_on_its_batch_in_training_and_not_in_evaluation():
    ours, _ = pair()
    x = batch(3, 4).detach()
    assert not torch.allclose(ours(x)[:1], ours(x[:1]))
    ours.eval()
    assert_same(ours(x)[:1], ours(x[:1]))


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


def _called(*shape, mask=None):
    return lambda: BatchNorm(5)(torch.randn(*shape), key_mask=mask)


test_wrong_arguments_are_named = refusals(
    ("x must have two", _called(1, 5)),
    ("x must have two", _called(2, 3, 5, mask=torch.zeros(2, 3, dtype=torch.bool))),
    ("x must have width", _called(2, 3, 4)),
    ("key_mask must be broadcastable", _called(2, 3, 5, mask=torch.ones(2, 4) > 0)),
    ("momentum", lambda: BatchNorm(5, momentum=2.0)),
)
