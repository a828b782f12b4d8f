"""Optimizers by name take the steps that their formulas give."""

import pytest
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


def step_of(name, **options):
    """By how much a step with the gradient 2 at the weight 3 lowers the weight, at the rate 0.1."""
    weight = torch.full((1,), 3.0, dtype=torch.float64, requires_grad=True)
    optimizer = make_optimizer(name, [weight], 0.1, **options)
    weight.grad = torch.full((1,), 2.0, dtype=torch.float64)
    optimizer.step()
    return 3 - weight.item()


ADAM = 0.1 * 2 / (2 + 1e-8)  # a first step of Adam is the rate times the sign


def adadelta(g):
    return 0.1 * (1e-6 / (0.05 * g**2 + 1e-6)) ** 0.5 * g


@pytest.mark.parametrize(
    ("name", "decay", "expected"),
    [
        ("adamw", None, 0.1 * 0.01 * 3 + ADAM),
        ("adamw", 0, ADAM),
        ("adamw", 0.5, 0.1 * 0.5 * 3 + ADAM),  # of the weight itself
        ("adam", None, ADAM),
        ("adam", 4.0, 0.1 * 14 / (14 + 1e-8)),  # in the gradient, 2 + 4 · 3
        ("sgd", None, 0.1 * 2),
        ("sgd", 4.0, 0.1 * 14),
        ("adadelta", None, adadelta(2)),
        ("adadelta", 4.0, adadelta(14)),
    ],
)
def test_weight_decay(name, decay, expected):
    assert step_of(name, weight_decay=decay) == pytest.approx(expected, rel=1e-12)


def test_names_are_those_of_pytorch_in_any_case():
    for name, kind in (("Adam", torch.optim.Adam), ("AdamW", torch.optim.AdamW), ("SGD", None)):
        assert step_of(name) == step_of(name.lower())
        made = make_optimizer(name, [torch.zeros(1, requires_grad=True)], 0.1)
        assert type(made) is (kind or torch.optim.SGD)


@pytest.mark.parametrize(
    ("optimizer", "decay", "message"),
    [
        ("Lion", None, "optimizer must be one of 'adam', 'adamw', 'sgd', 'adadelta', got 'lion'"),
        (None, None, "optimizer must be one of 'adam', 'adamw', 'sgd', 'adadelta', got None"),
        ("adam", -0.1, "weight_decay must be a finite number >= 0, got -0.1"),
        ("adam", "0.1", "weight_decay must be a finite number >= 0, got '0.1'"),
        (torch.optim.SGD, 0.1, "weight_decay must be None where a function makes the optimizer"),
    ],
)
def test_bad_input_is_named(optimizer, decay, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        make_optimizer(optimizer, [torch.zeros(1, requires_grad=True)], 0.1, decay)
