"""Optimizers by name take the steps that their formulas give."""

import torch

from attnbook.training.optim.optimizers import make_optimizer


def test_adadelta_has_the_constants_of_bahdanau_and_not_those_of_pytorch():
    weight = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    optimizer = make_optimizer("adadelta", [weight], 1.0)
    of_gradients = of_steps = expected = 0.0
    for gradient in (2.0, -0.5, 1.5):
        weight.grad = torch.tensor([gradient], dtype=torch.float64)
        optimizer.step()
        of_gradients = 0.95 * of_gradients + 0.05 * gradient**2
        step = -(((of_steps + 1e-6) / (of_gradients + 1e-6)) ** 0.5) * gradient
        of_steps = 0.95 * of_steps + 0.05 * step**2
        expected += step
        assert abs(weight.item() - expected) < 1e-12
