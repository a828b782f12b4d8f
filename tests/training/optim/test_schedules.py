"""Schedules at the steps where they are known."""

import math

import numpy as np
import pytest

from attnbook.training import constant, cosine_decay, inverse_sqrt, linear_decay
from attnbook.training.optim.schedules import make_schedule


def test_inverse_sqrt_is_the_noam_rate():
    d_model, warmup = 512, 4000
    for number in (1, 7, 3999, 4000, 4001, 100000):
        paper = d_model**-0.5 * min(number**-0.5, number * warmup**-1.5)
        assert inverse_sqrt(warmup)(number - 1) * (d_model * warmup) ** -0.5 == pytest.approx(
            paper, rel=1e-12
        )


def test_inverse_sqrt_at_step_0_and_against_known_wrong_schedules():
    """The paper's steps begin at 1: 0^-0.5 has no value, and a rate of 0 would waste a step."""
    warmup, factor = 10, inverse_sqrt(10)
    assert factor(0) == pytest.approx(1 / warmup)
    assert all(math.isfinite(factor(k)) for k in range(3))
    wrong = {
        "one step late": lambda k: min(k / warmup, math.sqrt(warmup / max(k, 1))),
        "no decay": lambda k: min(1.0, (k + 1) / warmup),
        "decay from the start": lambda k: math.sqrt(1 / (k + 1)),
        "the larger of the two": lambda k: max((k + 1) / warmup, math.sqrt(warmup / (k + 1))),
        "inverse, without the root": lambda k: min((k + 1) / warmup, warmup / (k + 1)),
    }
    for other in wrong.values():
        assert max(abs(other(k) - factor(k)) for k in range(40)) > 0.05


def test_warmup_is_never_zero_and_reaches_one():
    for schedule in (constant(10), linear_decay(100, 10), cosine_decay(100, 10), inverse_sqrt(10)):
        assert schedule(0) == pytest.approx(0.1) and schedule(9) == pytest.approx(1.0)
        assert all(schedule(k) < schedule(k + 1) for k in range(9))


def test_decays():
    assert [linear_decay(4)(k) for k in range(6)] == pytest.approx([1, 0.75, 0.5, 0.25, 0, 0])
    assert [cosine_decay(4)(k) for k in range(5)] == pytest.approx(
        [(1 + math.cos(math.pi * k / 4)) / 2 for k in range(5)]
    )
    assert [constant()(k) for k in (0, 5)] == [1, 1]


def test_warmup_by_name():
    """A straight line to 1 over four of twenty steps, then the decay over what is left: from there
    on the factors are those of `transformers.get_scheduler`, whose inverse root is one step late.
    """
    rest = range(4, 20)
    decays = {
        "constant": [1 for k in rest],
        "linear": [(20 - k) / 16 for k in rest],
        "cosine": [(1 + math.cos(math.pi * (k - 4) / 16)) / 2 for k in rest],
        "inverse_sqrt": [math.sqrt(4 / (k + 1)) for k in rest],
    }
    for name, decay in decays.items():
        factor = make_schedule(name, 20, 4)
        assert [factor(k) for k in range(20)] == pytest.approx([0.25, 0.5, 0.75, 1, *decay])
        # a factor of NumPy's would go into checkpoints
        of_numpy = make_schedule(name, np.int64(20), np.int64(4))
        assert [type(of_numpy(k)) for k in (1, 10)] == [float, float]
    assert make_schedule(None, 20, 4)(0) == 0.25 and make_schedule(None, 20)(0) == 1
    assert make_schedule(lambda step: step + 2.0, 20)(3) == 5
    assert make_schedule("inverse_sqrt", 20)(1) == 1  # a tenth, unasked


def test_bad_schedules():
    for message, call in (
        ("^schedule must", lambda: make_schedule("step", 10)),
        ("warmup_steps must be", lambda: inverse_sqrt(0)),
        ("steps must be", lambda: linear_decay(0)),
        ("warmup_steps must be", lambda: make_schedule("cosine", 10, -1)),
        ("warmup_steps must be", lambda: make_schedule("inverse_sqrt", 10, 0)),
        ("warmup_steps must be", lambda: make_schedule("linear", 10, 2.5)),
        ("warmup_steps must be None where", lambda: make_schedule(constant(), 10, 2)),
    ):
        with pytest.raises(ValueError, match=message):
            call()
