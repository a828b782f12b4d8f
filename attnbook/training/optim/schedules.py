"""Learning-rate schedules: functions from the step, counted from 0, to a factor on the learning
rate.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ...validate import check_integer, require

__all__ = ["constant", "cosine_decay", "inverse_sqrt", "linear_decay"]

Schedule = Callable[[int], float]


def constant(warmup_steps: int = 0) -> Schedule:
    """factor(k) = min(1, (k + 1) / warmup_steps): a linear warm-up, then 1."""
    warmup_steps = check_integer("warmup_steps", warmup_steps, 0)
    return lambda step: _warmup(step, warmup_steps)


def linear_decay(steps: int, warmup_steps: int = 0) -> Schedule:
    """A linear warm-up to 1, then a straight line to 0 at step ``steps``.

    Where ``warmup_steps`` is not below ``steps``, a run of ``steps`` steps is all warm-up.
    """
    warmup_steps = check_integer("warmup_steps", warmup_steps, 0)
    steps = check_integer("steps", steps)
    return lambda step: _warmup(step, warmup_steps) * (1 - _progress(step, warmup_steps, steps))


def cosine_decay(steps: int, warmup_steps: int = 0) -> Schedule:
    """A linear warm-up to 1, then half a cosine to 0 at step ``steps``.

    Where ``warmup_steps`` is not below ``steps``, a run of ``steps`` steps is all warm-up.

    Source: Loshchilov and Hutter 2017.
    """
    warmup_steps = check_integer("warmup_steps", warmup_steps, 0)
    steps = check_integer("steps", steps)

    def factor(step: int) -> float:
        cosine = (1 + math.cos(math.pi * _progress(step, warmup_steps, steps))) / 2
        return _warmup(step, warmup_steps) * cosine

    return factor


def inverse_sqrt(warmup_steps: int) -> Schedule:
    """factor(k) = min((k + 1) / w, √(w / (k + 1))) with w = warmup_steps; its peak, at k + 1 = w,
    is 1.

    Steps count from 0, so k + 1 stands for the paper's step number: 0^-1/2 never arises. The
    paper's factor (d_model · w)^-1/2 belongs in the learning rate.

    Source: Vaswani et al. 2017, section 5.3.
    """
    warmup_steps = check_integer("warmup_steps", warmup_steps)
    return lambda step: min((step + 1) / warmup_steps, math.sqrt(warmup_steps / (step + 1)))


SCHEDULES = ("constant", "linear", "cosine", "inverse_sqrt")


def make_schedule(
    schedule: str | Schedule | None, steps: int, warmup_steps: int | None = None
) -> Schedule:
    """The schedule of that name for a run of ``steps`` steps.

    "constant" (None), "linear" and "cosine" begin with a warm-up of ``warmup_steps``, by default
    none; the last two end at 0. "inverse_sqrt" needs one, by default of a tenth of the steps. A
    function from step to factor is used as it is.

    Raises:
        ValueError: for another name, a warm-up beside a function, or one that is negative; when
            called, for a factor that is not finite or below 0.
    """
    if callable(schedule):
        require(
            warmup_steps is None,
            "warmup_steps must be None where the schedule is a function, which has its own, got "
            f"{warmup_steps}",
        )
        return lambda step: _factor(schedule(step), step)
    if schedule == "inverse_sqrt":
        return inverse_sqrt(max(1, steps // 10) if warmup_steps is None else warmup_steps)
    warmup_steps = 0 if warmup_steps is None else warmup_steps
    if schedule is None or schedule == "constant":
        return constant(warmup_steps)
    if schedule == "linear":
        return linear_decay(steps, warmup_steps)
    if schedule == "cosine":
        return cosine_decay(steps, warmup_steps)
    raise ValueError(
        f"schedule must be one of {', '.join(map(repr, SCHEDULES))} or a function of the step, got "
        f"{schedule!r}"
    )


def _warmup(step: int, warmup_steps: int) -> float:
    return min(1.0, (step + 1) / warmup_steps) if warmup_steps else 1.0


def _progress(step: int, warmup_steps: int, steps: int) -> float:
    return min(1.0, max(0, step - warmup_steps) / max(1, steps - warmup_steps))


def _factor(value: float, step: int) -> float:
    try:
        valid = math.isfinite(value) and value >= 0
    except TypeError:
        valid = False
    require(valid, f"schedule must give a finite number >= 0, got {value!r} at step {step}")
    return float(value)  # not NumPy's: it goes into checkpoints
