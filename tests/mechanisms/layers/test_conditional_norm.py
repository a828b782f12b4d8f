"""Conditional batch norm: statistics of all pictures, gain and shift of the class."""

import numpy as np
import pytest
import torch
from assertions import assert_refused

from attnbook.mechanisms import ConditionalBatchNorm
from attnbook.mechanisms.layers.conditional_norm import UnconditionalBatchNorm

from ..agreement import randomised


def made(channels=3, classes=4):
    return randomised(ConditionalBatchNorm(channels, classes), std=1.0)


def oracle(norm, x, labels, *, shift_label=0, per_class=False):
    x, y = x.numpy(), np.empty(x.shape)
    for b, label in enumerate(labels.tolist()):
        for c in range(x.shape[1]):
            seen = x[labels.numpy() == label, c] if per_class else x[:, c]
            unit = (x[b, c] - seen.mean()) / np.sqrt(seen.var() + 1e-5)
            row = (label + shift_label) % norm.num_classes
            y[b, c] = norm.gain[row, c].item() * unit + norm.shift[row, c].item()
    return torch.tensor(y)


def test_value_equals_the_formula_and_not_that_of_another_class():
    norm = made()
    x = torch.randn(5, 3, 4, 2).double() * 3 + 1
    labels = torch.tensor([0, 3, 1, 1, 0])
    torch.testing.assert_close(norm(x, labels), oracle(norm, x, labels), atol=1e-10, rtol=0)
    for wrong in ({"shift_label": 1}, {"per_class": True}):
        assert (norm(x, labels) - oracle(norm, x, labels, **wrong)).abs().max() > 1e-2


def test_gradients_reach_the_classes_that_were_there():
    norm = made(2, 3)
    norm(torch.randn(3, 2, 2, 2).double(), torch.tensor([2, 0, 2])).square().sum().backward()
    assert (norm.gain.grad[1] == 0).all() and (norm.shift.grad[[0, 2]] != 0).all()


def test_it_starts_as_plain_batch_norm_and_evaluates_with_running_means():
    norm = ConditionalBatchNorm(3, 4)
    plain = UnconditionalBatchNorm(3)
    labels = torch.tensor([0, 1, 2, 3])
    for _ in range(3):
        x = torch.randn(4, 3, 5, 5) * 2 + 1
        torch.testing.assert_close(norm(x, labels), plain(x, labels))
    norm.eval(), plain.eval()
    torch.testing.assert_close(norm(x, labels), plain(x))
    # each picture alone
    torch.testing.assert_close(norm(x, labels)[1:2], norm(x[1:2], labels[1:2]))


@pytest.mark.parametrize("labels", [None, [0.0, 1.0], [0, 1, 2], [0, 4], [-1, 0]], ids=str)
def test_errors_say_what_came(labels):
    labels = None if labels is None else torch.tensor(labels)
    assert_refused("labels", ConditionalBatchNorm(3, 4), torch.randn(2, 3, 2, 2), labels)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32])
def test_labels_of_any_whole_type_are_labels(dtype):
    norm, x, labels = made(), torch.randn(5, 3, 4, 2).double(), torch.tensor([0, 3, 1, 1, 0])
    assert torch.equal(norm(x, labels.to(dtype)), norm(x, labels))


def test_half_precision_stays():
    norm, x = ConditionalBatchNorm(3, 4), torch.randn(4, 3, 5, 5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert norm(x.bfloat16(), torch.tensor([0, 1, 2, 3])).dtype == torch.bfloat16
