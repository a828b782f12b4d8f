"""Learning-rate schedules: functions from the step, counted from 0, to a factor on the learning
rate.
"""

from __future__ import annotations

import math
from collections.abc import Callable

Schedule = Callable[[int], float]


def constant(warmup_steps: int = 0) -> Schedule:
    """factor(k) = min(1, (k + 1) / warmup_steps): a linear warm-up, then 1."""
    warmup_steps = _count("warmup_steps", warmup_steps)
    return lambda step: _warmup(step, warmup_steps)


def linear_decay(steps: int, warmup_steps: int = 0, floor: float = 0.0) -> Schedule:
    """A linear warm-up to 1, then a straight line that would reach `floor`, from 0 to 1, at step
    `steps`.

    Where `warmup_steps` is not below `steps`, a run of `steps` steps is all warm-up.
    """
    warmup_steps, steps, floor = (
        _count("warmup_steps", warmup_steps),
        _count("steps", steps, least=1),
        _share("floor", floor),
    )
    return lambda step: (
        _warmup(step, warmup_steps) * (1 - (1 - floor) * _progress(step, warmup_steps, steps))
    )


def cosine_decay(steps: int, warmup_steps: int = 0, floor: float = 0.0) -> Schedule:
    """A linear warm-up to 1, then half a cosine that would reach `floor`, from 0 to 1, at step
    `steps` (Loshchilov 2017).

    Where `warmup_steps` is not below `steps`, a run of `steps` steps is all warm-up.
    """
    warmup_steps, steps, floor = (
        _count("warmup_steps", warmup_steps),
        _count("steps", steps, least=1),
        _share("floor", floor),
    )

    def factor(step: int) -> float:
        cosine = (1 + math.cos(math.pi * _progress(step, warmup_steps, steps))) / 2
        return _warmup(step, warmup_steps) * (floor + (1 - floor) * cosine)

    return factor


def inverse_sqrt(warmup_steps: int) -> Schedule:
    """factor(k) = min((k + 1) / w, √(w / (k + 1))) with w = warmup_steps; its peak, at k + 1 = w,
    is 1.

    Vaswani et al. 2017, section 5.3, without the factor (d_model · w)^-1/2, which belongs in the
    learning rate. Steps count from 0, so k + 1 stands where the paper's step number does: 0^-1/2
    never arises."""
    warmup_steps = _count("warmup_steps", warmup_steps, least=1)
    return lambda step: min((step + 1) / warmup_steps, math.sqrt(warmup_steps / (step + 1)))


SCHEDULES = ("constant", "linear", "cosine", "inverse_sqrt")


def make_schedule(schedule: str | Schedule | None, steps: int) -> Schedule:
    """The schedule of that name for a run of `steps` steps; None is "constant", a callable is taken
    as it is.

    By name, "linear" and "cosine" have no warm-up and end at 0, "inverse_sqrt" warms up for a tenth
    of the steps. Raises ValueError for another name; a callable's schedule, for a factor that is no
    finite number of at least 0."""
    if callable(schedule):
        return lambda step: _factor(schedule(step), step)
    if schedule is None or schedule == "constant":
        return constant()
    if schedule == "linear":
        return linear_decay(steps)
    if schedule == "cosine":
        return cosine_decay(steps)
    if schedule == "inverse_sqrt":
        return inverse_sqrt(max(1, steps // 10))
    raise ValueError(
        f"schedule: got {schedule!r}, expected one of {', '.join(SCHEDULES)} or a function of "
        f"the step"
    )


def _warmup(step: int, warmup_steps: int) -> float:
    return min(1.0, (step + 1) / warmup_steps) if warmup_steps else 1.0


def _progress(step: int, warmup_steps: int, steps: int) -> float:
    return min(1.0, max(0, step - warmup_steps) / max(1, steps - warmup_steps))


def _factor(value: float, step: int) -> float:
    try:
        fits = math.isfinite(value) and value >= 0
    except TypeError:
        fits = False
    if not fits:
        raise ValueError(
            f"schedule: got {value!r} at step {step}, expected a finite number of at least 0"
        )
    return float(value)  # not NumPy's: it goes into checkpoints


def _share(name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError(f"{name}: got {value!r}, expected a number from 0 to 1")
    return value


def _count(name: str, value: int, least: int = 0) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name}: got {value!r}, expected an integer >= {least}")
    return value
