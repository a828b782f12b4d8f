"""The exercises of the book by id, and the two ways to check an answer: `check` tells, `grade`
takes points.
"""

import difflib
from collections.abc import Callable
from dataclasses import dataclass

from ..answers.guarded import StudentError
from .context import Trial, a
from .verdict import MISTAKE, NOT_WRITTEN, RIGHT, STOPPED, Mistake, NotPassed, Verdict

_EXERCISES = {}


@dataclass(frozen=True)
class Exercise:
    """One exercise of the book.

    id:         chapter and name, "00.weighted_sum"
    title:      as printed over its statement
    difficulty: 1 to 4
    minutes:    for a reader who has read the section
    function:   `function(answer, trial)`, raises Mistake; never calls what it grades
    """

    id: str
    title: str
    difficulty: int
    minutes: int
    function: Callable

    @property
    def notebook(self):
        """The section that it stands in: checks live in the module of that name."""
        return self.function.__module__.rsplit(".", 1)[-1]

    @property
    def points(self):
        """(points of the visible check, points of the hidden check): the difficulty, twice."""
        return self.difficulty, self.difficulty

    @property
    def key(self):
        """The id as the name of its cells: "00-weighted-sum" (nbgrader allows no dot there)."""
        return self.id.replace(".", "-").replace("_", "-")


def exercise(id, *, title, difficulty, minutes):
    """Register the decorated function `(answer, trial)` as the check of exercise `id`."""

    def register(function):
        if id in _EXERCISES:
            raise ValueError(f"id: {id!r} is registered twice")
        if difficulty not in (1, 2, 3, 4):
            raise ValueError(f"difficulty: got {difficulty!r} for {id!r}, expected 1, 2, 3 or 4")
        _EXERCISES[id] = Exercise(id, title, difficulty, minutes, function)
        return function

    return register


def exercises():
    """All exercises of the book as a dict from id to Exercise, in the order of the book."""
    return dict(_EXERCISES)


def find(id):
    """The exercise of this id; ValueError names the nearest ids."""
    if id not in _EXERCISES:
        near = difflib.get_close_matches(str(id), _EXERCISES, n=3, cutoff=0.4)
        hint = (
            f"did you mean {' or '.join(repr(name) for name in near)}?"
            if near
            else f"known: {', '.join(_EXERCISES)}"
        )
        raise ValueError(f"id: there is no exercise {id!r}; {hint}")
    return _EXERCISES[id]


def judge(id, answer, seed=0):
    """Run the checks of exercise `id` on the function `answer` and return the Verdict, silently."""
    task = find(id)
    if not callable(answer):
        return Verdict(id, MISTAKE, f"the check got {a(answer)}, expected your function")
    try:
        task.function(answer, Trial(seed))
    except StudentError as error:
        if error.unwritten:
            return Verdict(
                id,
                NOT_WRITTEN,
                "not written yet. Replace the line that raises NotImplementedError.",
            )
        return Verdict(id, STOPPED, f"your code stopped with {error}")
    except Mistake as mistake:
        return Verdict(id, MISTAKE, str(mistake))
    return Verdict(id, RIGHT, "right.")


def check(id, answer, seed=0):
    """Check an answer, print what is right or the first thing that is wrong, and return the
    Verdict.

    id:     the exercise, as "00.weighted_sum"
    answer: your function
    seed:   the inputs are drawn from it; the same seed gives the same sentence
    Never raises for a wrong answer. ValueError if there is no such exercise.
    """
    verdict = judge(id, answer, seed)
    print(verdict)
    return verdict


def grade(id, answer, seed=0):
    """The same check for a graded cell: silent when the answer is right, raises NotPassed
    otherwise.

    Arguments as in `check`. The hidden check of an exercise is this function with another seed.
    """
    verdict = judge(id, answer, seed)
    if not verdict:
        raise NotPassed(verdict)
