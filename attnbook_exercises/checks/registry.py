"""The exercises of the book by id, and the ways to check an answer: `check` prints the verdict,
`judge` returns it, `grade` raises an error for a wrong answer.
"""

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass

from attnbook.validate import check_integer, require

from ..answers.guarded import StudentError
from .context import CheckContext, a, kind_of_size
from .verdict import MISTAKE, NOT_WRITTEN, RIGHT, STOPPED, Mistake, NotPassed, Verdict

WITHOUT_CODE = ("On paper", "Budget", "Read the curve", "Choose a setting", "Predict")
"""Kinds of exercises that are answered with what a function without arguments returns: numbers from
paper, the bytes and minutes of a training run, what given curves show, a setting for a training run
of the check, a bet.
"""

KINDS = (*WITHOUT_CODE, "Find the bug", "Shape error", "Make it fast", "From the formula")
"""What a title begins with, before a colon, unless the exercise is to write a function."""

SECONDS = 10  # after which `check` stops a call of an answer
_EXERCISES = {}


@dataclass(frozen=True)
class Exercise:
    """One exercise of the book.

    Attributes:
        id: chapter and name, as "00.weighted_sum".
        title: as printed over its statement, without its number.
        difficulty: 1 to 4.
        minutes: for a reader who has read the section.
        function: the check, `function(answer, ctx)`, raises Mistake; what it returns, if not None,
            is said of a right answer.
    """

    id: str
    title: str
    difficulty: int
    minutes: int
    function: Callable

    @property
    def notebook(self):
        """The name of its section, which is that of the check's module."""
        return self.function.__module__.rsplit(".", 1)[-1]

    @property
    def kind(self):
        """The one of `KINDS` that the title begins with, or "Write"."""
        kind, colon, _ = self.title.partition(": ")
        return kind if colon and kind in KINDS else "Write"

    @property
    def points(self):
        """(points of the visible check, points of the hidden check): nothing, and twice the
        difficulty. The visible one is there to learn from, and its inputs can be learned by heart.
        A prediction has none: any answer is right.
        """
        return 0, 0 if self.kind == "Predict" else 2 * self.difficulty

    @property
    def key(self):
        """The id as nbgrader names its cells, without dots: "00-weighted-sum"."""
        return self.id.replace(".", "-").replace("_", "-")


def exercise(id: str, *, title: str, difficulty: int, minutes: int):
    """Register the decorated function `(answer, ctx)` as the check of an exercise.

    Args:
        id: the two digits of the chapter, a dot, and a name of lower-case letters, digits and _.
        title: one line in sentence case, without a full stop.
        difficulty: 1 to 4.
        minutes: for a reader who has read the section.

    Raises:
        ValueError: an argument has another form, the id is taken, or the check lies in the package
            of another chapter.
    """
    require(
        re.fullmatch(r"\d\d\.[a-z][a-z0-9]*(_[a-z0-9]+)*", id) is not None,
        f"id must be the chapter and a name, as '00.weighted_sum', got {id!r}",
    )
    require(id not in _EXERCISES, f"id must be unique, got {id!r} twice")
    try:
        check_integer("difficulty", difficulty, 1, 4)
        check_integer("minutes", minutes)
        require(
            re.fullmatch(r"[A-Z].*[^\s.:]", title) is not None,
            f"title must be one line with a capital first and no full stop, got {title!r}",
        )
    except ValueError as error:
        raise ValueError(f"exercise {id!r}: {error}") from None

    def register(function):
        chapter = re.search(r"\.ch(\d\d)_\w+\.\w+$", function.__module__)
        require(
            chapter is None or id.startswith(f"{chapter[1]}."),
            f"id must begin with the chapter of {function.__module__}, got {id!r}",
        )
        _EXERCISES[id] = Exercise(id, title, difficulty, minutes, function)
        return function

    return register


def exercises():
    """All exercises of the book as a dict from id to Exercise, in the order of the chapters, and of
    the names of the sections within a chapter.
    """
    return dict(_EXERCISES)


def find(id):
    """Return the Exercise of this id, or raise a ValueError that names the nearest ids."""
    if id not in _EXERCISES:
        near = difflib.get_close_matches(str(id), _EXERCISES, n=3, cutoff=0.4)
        hint = (
            f"did you mean {' or '.join(repr(name) for name in near)}?"
            if near
            else f"known: {', '.join(_EXERCISES)}"
        )
        raise ValueError(f"id: there is no exercise {id!r}; {hint}")
    return _EXERCISES[id]


def judge(id, answer, seed=0, seconds=None):
    """Check the function `answer` of exercise `id`, silently, and return the Verdict.

    Args:
        seconds: after which a call of the answer is stopped; None for no limit.
    """
    task = find(id)
    if not callable(answer):
        return Verdict(id, MISTAKE, f"the check got {a(answer)}, expected your function")
    first = CheckContext(seed, seconds=seconds)
    verdict = _run(task, answer, first)
    runs = [CheckContext(seed, size, seconds) for size in first.asked]
    kinds = {kind_of_size(name) for _, name, _ in first.asked}
    cases = [case for case in ("double", "long", "wide") if case == "double" or case in kinds]
    runs += [CheckContext(seed, seconds=seconds, case=case) for case in cases]
    for ctx in runs:
        if not verdict:
            break
        again = _run(task, answer, ctx)
        if not again:
            return _at_fault(task, answer, ctx, again)
    return verdict


def _at_fault(task, answer, ctx, again):
    """The Verdict of an answer that passes the first run and fails in another. Whether it is what
    that run is for, or the other numbers drawn with it, seven other seeds of the first show.
    """
    for other in range(ctx.seed + 1, ctx.seed + 8):
        verdict = _run(task, answer, CheckContext(other, seconds=ctx.seconds))
        if not verdict:
            return verdict
    return Verdict(task.id, again.status, f"{ctx.against()}: {again.message}")


def _run(task, answer, ctx):
    """The Verdict of one run of the check."""
    id = task.id
    try:
        said = task.function(answer, ctx)
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
    return Verdict(id, RIGHT, said or "right.")


def check(id, answer, seed=0):
    """Check an answer, print the verdict, and return it.

    Args:
        id: the exercise, as "00.weighted_sum".
        answer: your function.
        seed: of the random inputs.

    Returns:
        The Verdict, of a wrong answer too.

    Raises:
        ValueError: there is no such exercise.
    """
    verdict = judge(id, answer, seed, SECONDS)
    print(verdict)
    return verdict


def grade(id, answer, seed=0):
    """Check the answer of a graded cell: silent for a right one, NotPassed for any other.

    The arguments are those of `check`. The hidden check of an exercise uses another seed.
    """
    verdict = judge(id, answer, seed)
    if not verdict:
        raise NotPassed(verdict)
