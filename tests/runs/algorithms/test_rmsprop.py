"""RMSProp in Graves's form against his four equations, number by number."""

import math

import numpy as np
import pytest
import torch

from attnbook_runs.algorithms.rmsprop import GravesRMSProp


def by_hand(gradients, lr, clip=10.0, rho=0.95, momentum=0.9, eps=1e-4):
    theta = n = m = delta = 0.0
    for g in gradients:
        g = max(-clip, min(clip, g))
        n = rho * n + (1 - rho) * g * g
        m = rho * m + (1 - rho) * g
        delta = momentum * delta - lr * g / math.sqrt(n - m * m + eps)
        theta += delta
    return theta


@pytest.mark.parametrize("clip", [10.0, 0.3, None])
def test_equals_the_equations(clip):
    generator = np.random.default_rng(0)
    gradients = generator.normal(size=(30, 4)) * np.array([0.01, 1.0, 30.0, 1e-6])
    weights = torch.zeros(4, dtype=torch.float64, requires_grad=True)
    untouched = torch.ones(2, requires_grad=True)
    optimizer = GravesRMSProp([weights, untouched], lr=0.02, clip=clip)
    for row in gradients:
        weights.grad = torch.tensor(row)
        optimizer.step()
    expected = [by_hand(column, 0.02, math.inf if clip is None else clip) for column in gradients.T]
    np.testing.assert_allclose(weights.detach().numpy(), expected, rtol=1e-10)
    assert (untouched == 1).all(), "no gradient, no step"
    assert not np.allclose(
        expected, [by_hand(c, 0.02, 1e9, eps=1e-8) for c in gradients.T], rtol=1e-3
    )


def test_a_constant_gradient_does_not_make_the_root_negative():
    weights = torch.zeros(3, requires_grad=True)
    optimizer = GravesRMSProp([weights], lr=1e-3)
    for _ in range(500):
        weights.grad = torch.full((3,), 7.3)
        optimizer.step()
    assert weights.isfinite().all()


@pytest.mark.parametrize("wrong", [{"lr": 0}, {"clip": -1}])
def test_wrong_numbers_are_named(wrong):
    with pytest.raises(ValueError, match=f"{next(iter(wrong))} must be"):
        GravesRMSProp([torch.zeros(1, requires_grad=True)], **wrong)
