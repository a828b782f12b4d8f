"""What a training run records, and the error that stops one."""

from dataclasses import dataclass, field
from typing import Any

import torch

__all__ = ["History", "NonFiniteError"]


class NonFiniteError(ValueError):
    """A loss or a gradient that is NaN or infinite; the weights are those before the step.

    Attributes:
        what: "loss" or "gradient", in adversarial training also of which network.
        step: updates made before it.
        value: the value.
    """

    def __init__(self, what: str, step: int, value: float, hint: str = ""):
        super().__init__(
            f"{what} must be finite, got {value} at step {step}; the weights were not changed{hint}"
        )
        self.what, self.step, self.value, self._hint = what, step, value, hint

    def __reduce__(self):
        """Pickled by its message alone, an error could not be read back from another process."""
        return type(self), (self.what, self.step, self.value, self._hint)


@dataclass
class RunHistory:
    """What every training records, see :class:`History`; a subclass adds its losses."""

    evaluations: list[tuple[int, Any]] = field(default_factory=list)
    seconds: float = 0.0
    resumed_from: int = 0
    averaged: torch.nn.Module | None = None

    @property
    def steps(self) -> int:
        raise NotImplementedError


@dataclass
class History(RunHistory):
    """What happened during `fit`.

    Attributes:
        losses: mean loss per counted term at each step, before the update.
        grad_norms: Euclidean norm of all gradients at each step, before clipping.
        evaluations: (step, value) for each call of `evaluate`; `step` counts the updates before it.
        seconds: time in the loop, including that of the runs that were resumed.
        steps: updates in all.
        resumed_from: updates found in the checkpoint, 0 for a new run.
        averaged: the model with averaged weights, in evaluation mode, or None.
    """

    losses: list[float] = field(default_factory=list)
    grad_norms: list[float] = field(default_factory=list)

    @property
    def steps(self) -> int:
        return len(self.losses)
