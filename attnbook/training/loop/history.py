"""What a training run leaves behind, and the error that stops one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


class NonFiniteError(ValueError):
    """A loss or a gradient that is NaN or infinite; the weights are those before the step.

    step   updates made before it
    what   "loss" or "gradient"
    value  the value met
    """

    def __init__(self, what: str, step: int, value: float, hint: str = ""):
        super().__init__(
            f"{what}: got {value} at step {step}, expected a finite number; the weights were not "
            f"touched{hint}"
        )
        self.what, self.step, self.value = what, step, value


@dataclass
class History:
    """What happened during `fit`.

    losses          mean loss per counted term at each step, before the update
    grad_norms      Euclidean norm of all gradients at each step, before clipping
    evaluations     (step, value) for each call of `evaluate`; `step` counts the updates made before
                    it
    seconds         time in the loop, with that of the runs that were resumed
    steps           updates made in all
    resumed_from    updates found in the checkpoint, 0 when the run began anew
    stopped         "steps" or "time_limit"
    """

    losses: list[float] = field(default_factory=list)
    grad_norms: list[float] = field(default_factory=list)
    evaluations: list[tuple[int, Any]] = field(default_factory=list)
    seconds: float = 0.0
    steps: int = 0
    resumed_from: int = 0
    stopped: str = "steps"
