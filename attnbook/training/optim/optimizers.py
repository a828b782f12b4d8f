"""Optimizers by name."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from ...validate import check_choice, check_number, require

OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "sgd": torch.optim.SGD,
    # The constants of Bahdanau et al. 2015, appendix B.2, not PyTorch's (0.9 and 1e-6); pair it
    # with learning_rate=1.
    "adadelta": partial(torch.optim.Adadelta, rho=0.95, eps=1e-6),
}


def make_optimizer(
    optimizer: str | Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer],
    parameters: list[torch.nn.Parameter],
    learning_rate: float,
    weight_decay: float | None = None,
) -> torch.optim.Optimizer:
    """The optimizer of that name over ``parameters``, or what the function makes of them.

    Args:
        optimizer: "adam", "adamw", "sgd", "adadelta", in letters of any case, or a function from
            the parameters to an optimizer, which sets its own learning rates. Not LBFGS, which
            wants several losses in one step.
        parameters: what is trained.
        learning_rate: for the optimizers that have a name.
        weight_decay: for them, too; None for their own: 0.01 for "adamw", else 0.
    """
    options: dict[str, Any] = {"lr": check_number("learning_rate", learning_rate, above=0)}
    if weight_decay is not None:
        options["weight_decay"] = check_number("weight_decay", weight_decay, least=0)
    if isinstance(optimizer, torch.optim.Optimizer):
        raise ValueError(
            "optimizer must be a name or a function from the parameters to an optimizer, which is "
            f"called after the model has moved to its device, got {type(optimizer).__name__}"
        )
    if callable(optimizer):
        require(
            weight_decay is None,
            "weight_decay must be None where a function makes the optimizer, which sets its own, "
            f"got {weight_decay}",
        )
        result = optimizer(parameters)
        fits, came = isinstance(result, torch.optim.Optimizer), type(result).__name__
        require(fits, f"optimizer must return a torch Optimizer, got {came}")
        closure = isinstance(result, torch.optim.LBFGS)
        require(not closure, "optimizer must make its step without a closure, got LBFGS")
        return result
    name = optimizer.lower() if isinstance(optimizer, str) else optimizer
    return OPTIMIZERS[check_choice("optimizer", name, OPTIMIZERS)](parameters, **options)
