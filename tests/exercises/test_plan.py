"""Each check has by its plan what careless answers stumble over: a case at least 200 long, and the
gradients of all inputs. (Wide inputs and float64 are runs of every check.)
"""

import pytest
import torch

from attnbook.checks import exercises
from attnbook_exercises.checks.context import FAR, CheckContext
from attnbook_exercises.checks.registry import WITHOUT_CODE

from .test_answers import answer, tasks  # noqa: F401 (a fixture)

CODE = [id for id, task in exercises().items() if task.kind not in WITHOUT_CODE]
SHORT = {
    "01.gru_step": "one step reads one vector; its widths are those of a wide run",
    "03.reduced_rank": "a matrix has widths alone, which a wide run draws",
    "06.chance_of_better": "there are 2ⁿ subsets of n losses, and an answer may try all of them",
    "06.leaks": "the slopes of 200 words by one another take half a minute",
    "06.take_heads_out": "it takes square matrices, which are wide in a run of its own",
    "07.steps_back": "an answer that tries all subsets of the dilations is right, too",
}
"""Exercises none of whose inputs can be 200 long, and why."""


def floats(value):
    if type(value) is torch.Tensor:
        return value.is_floating_point()
    if type(value) is dict:
        return any(map(floats, value.values()))
    return type(value) in (list, tuple) and any(map(floats, value))


class Recording(CheckContext):
    """Notes what an answer is given.

    Attributes:
        given: positions of arguments of floats.
        differentiable: whether an answer gave floats.
        largest: the longest dimension, list or text of the arguments.
    """

    def __init__(self, case=""):
        super().__init__(case=case)
        self.given, self.differentiable, self.largest = set(), False, 0

    def call(self, function, *arguments, **options):
        self.given |= {i for i, argument in enumerate(arguments) if floats(argument)}
        self.largest = max([self.largest, *map(_largest, arguments)])
        result = super().call(function, *arguments, **options)
        self.differentiable |= floats(result)
        return result


def _largest(value):
    if type(value) is torch.Tensor:
        return max(value.shape, default=0)
    if type(value) in (list, tuple):
        return max([len(value), *map(_largest, value)])
    return len(value) if isinstance(value, str) else 0


def run(task, ctx):
    """Let the solution be checked in this context."""
    exercises()[task.id].function(answer(task.solution.source, task.function), ctx)


@pytest.mark.parametrize("id", CODE)
def test_the_gradients_of_all_inputs_are_checked(id, tasks):  # noqa: F811
    ctx = Recording()
    run(tasks[id][1], ctx)
    if ctx.differentiable and not ctx.given <= ctx.differentiated:
        said = tasks[id][1].statement.source
        assert "gradient" in said, (
            f"arguments {sorted(ctx.given - ctx.differentiated)} get no gradient in the check: "
            f"check them, or let the statement say that none is asked for"
        )


@pytest.mark.parametrize("id", [id for id in CODE if id not in SHORT])
def test_there_is_a_long_case(id, tasks):  # noqa: F811
    ctx = Recording("long")
    run(tasks[id][1], ctx)
    longest = max(ctx.largest, *ctx.far.values(), 0)
    assert longest >= FAR["long"] - 1, f"the longest input has {longest} entries"
