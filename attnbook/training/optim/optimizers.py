"""Optimizers by name."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

OPTIMIZERS = {
    "adam": torch.optim.Adam,
    "adamw": torch.optim.AdamW,
    "sgd": torch.optim.SGD,
    # The constants of Bahdanau et al. 2015, appendix B.2, not PyTorch's (0.9 and 1e-6); pair it
    # with learning_rate=1.
    "adadelta": lambda parameters, lr: torch.optim.Adadelta(parameters, lr=lr, rho=0.95, eps=1e-6),
}


def make_optimizer(
    optimizer: str | Callable[[list[torch.nn.Parameter]], torch.optim.Optimizer],
    parameters: list[torch.nn.Parameter],
    learning_rate: float,
) -> torch.optim.Optimizer:
    """The optimizer of that name over `parameters`, or what the callable makes of them.

    A callable sets its own learning rates; `learning_rate` is for the names. Raises ValueError for
    another name, a callable that returns no optimizer and a learning rate that is not positive.
    """
    if isinstance(learning_rate, bool) or not (
        isinstance(learning_rate, int | float)
        and math.isfinite(learning_rate)
        and learning_rate > 0
    ):
        raise ValueError(f"learning_rate: got {learning_rate!r}, expected a positive number")
    if isinstance(optimizer, torch.optim.Optimizer):
        raise ValueError(
            "optimizer: got an optimizer that is made already, expected a name or a function "
            "from the parameters "
            "to an optimizer (it has to be made after the model has moved to its device)"
        )
    if callable(optimizer):
        made = optimizer(parameters)
        if not isinstance(made, torch.optim.Optimizer):
            raise ValueError(
                f"optimizer: the function returned {type(made).__name__}, expected a torch "
                f"Optimizer"
            )
        return made
    if not isinstance(optimizer, str) or optimizer not in OPTIMIZERS:
        raise ValueError(
            f"optimizer: got {optimizer!r}, expected one of {', '.join(OPTIMIZERS)} or a function"
        )
    return OPTIMIZERS[optimizer](parameters, lr=learning_rate)
