"""Learning-rate schedules: functions from the step, counted from 0, to a factor."""

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
    return _decay(steps, warmup_steps, lambda progress: 1 - progress)


def cosine_decay(steps: int, warmup_steps: int = 0) -> Schedule:
    """A linear warm-up to 1, then half a cosine to 0 at step ``steps``.

    Where ``warmup_steps`` is not below ``steps``, a run of ``steps`` steps is all warm-up.

    Source: Loshchilov and Hutter 2017.
    """
    return _decay(steps, warmup_steps, lambda progress: (1 + math.cos(math.pi * progress)) / 2)


def inverse_sqrt(warmup_steps: int) -> Schedule:
    """factor(k) = min((k + 1) / w, √(w / (k + 1))), w = warmup_steps; at k + 1 = w its peak of 1.

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
    function from step to factor is used as it is; its factors are checked when they are asked for.
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
    require(
        schedule in SCHEDULES,
        f"schedule must be one of {', '.join(map(repr, SCHEDULES))} or a function of the step, got "
        f"{schedule!r}",
    )
    return (linear_decay if schedule == "linear" else cosine_decay)(steps, warmup_steps)


def _warmup(step: int, warmup_steps: int) -> float:
    return min(1.0, (step + 1) / warmup_steps) if warmup_steps else 1.0


def _decay(steps: int, warmup_steps: int, factor: Callable[[float], float]) -> Schedule:
    """The warm-up, times a factor of how much of the rest is done."""
    warmup_steps = check_integer("warmup_steps", warmup_steps, 0)
    rest = max(1, check_integer("steps", steps) - warmup_steps)

    def schedule(step: int) -> float:
        return _warmup(step, warmup_steps) * factor(min(1.0, max(0, step - warmup_steps) / rest))

    return schedule


def _factor(value: float, step: int) -> float:
    try:
        valid = math.isfinite(value) and value >= 0
    except TypeError:
        valid = False
    require(valid, f"schedule must give a finite number >= 0, got {value!r} at step {step}")
    return float(value)  # not NumPy's: it goes into checkpoints
