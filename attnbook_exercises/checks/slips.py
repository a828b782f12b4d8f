"""Known mistakes of an exercise, each written once: a sentence, and an edit of the oracle's code or
the number that comes out on paper.
"""

import ast
import inspect
import textwrap
from collections import UserDict
from contextlib import suppress
from functools import cached_property, wraps

import numpy as np

from attnbook.validate import require

from .registry import exercise

_ROUNDED = 0.005  # a slip is named if the answer is its value rounded by a reader


class Slips:
    """An oracle and the known mistakes in it: `right, wrong = slips(*inputs)`.

    Args:
        oracle: a function of a module, in NumPy, that gives the right value.
        edits: {sentence: "old → new"} of each mistake: the code that is replaced, which occurs in
            the oracle's body exactly once, and its replacement; a tuple of such edits, which are
            made in turn, where one is not enough.

    Raises:
        ValueError: an edit does not apply.
    """

    def __init__(self, oracle, edits):
        self.oracle = oracle
        source = textwrap.dedent(inspect.getsource(oracle))
        (function,) = ast.parse(source).body
        assert isinstance(function, ast.FunctionDef)
        first = function.body[ast.get_docstring(function) is not None]
        lines, start = source.splitlines(keepends=True), first.lineno - 1
        head, body = "".join(lines[:start]), "".join(lines[start:])
        self._sources = {
            sentence: head + _edited(body, sentence, edits[sentence]) for sentence in edits
        }

    def __call__(self, *inputs):
        """Return the right value of these inputs, and {sentence: the value of this mistake} of the
        mistakes that do not stop with an error, as where shapes do not fit.
        """
        return self.oracle(*inputs), _Values(self, inputs)

    @cached_property
    def mistaken(self):
        """{sentence: the edited oracle}, which reads the names of the oracle's module."""
        functions = {}
        for sentence, source in self._sources.items():
            scope = {}
            exec(compile(source, f"<{sentence}>", "exec"), self.oracle.__globals__, scope)
            functions[sentence] = scope[self.oracle.__name__]
        return functions


class _Values(UserDict):
    """The values of the mistakes, which are worked out once one of them is asked for: that of a
    right answer never is.
    """

    def __init__(self, slips, inputs):
        self._slips, self._inputs = slips, inputs

    def __or__(self, more):
        return {**self.data, **more}

    def __ror__(self, more):
        return {**more, **self.data}

    @cached_property
    def data(self):
        values = {}
        for sentence, mistaken in self._slips.mistaken.items():
            with np.errstate(all="ignore"), suppress(ValueError, IndexError):
                values[sentence] = mistaken(*self._inputs)
        return values


def _edited(body, sentence, edits):
    """The body of the oracle with the pieces of code replaced."""
    for edit in (edits,) if isinstance(edits, str) else edits:
        old, arrow, new = map(str.strip, edit.partition("→"))
        require(bool(arrow), f"edits must be 'old → new', got {edit!r} for {sentence!r}")
        require(
            body.count(old) == 1,
            f"edits: {old!r} must occur once in the oracle, got {body.count(old)} times for "
            f"{sentence!r}",
        )
        body = body.replace(old, new)
    return body


def on_paper(
    id,
    asks,
    *,
    title,
    difficulty,
    minutes,
    within: float | np.ndarray = 0.0,
    otherwise="",
    kind="On paper",
):
    """Register the decorated function, which returns (the right number, {sentence: the number that
    this mistake gives}), as an exercise whose answer comes from paper.

    Args:
        id, difficulty, minutes: as for `exercise`.
        asks: what messages call the number, as "the context"; a tuple of names where several
            numbers are asked for.
        title: without the kind, which comes before it: "On paper: " or "Budget: ".
        within: how far from the right number an answer may be; an array of several.
        otherwise: what is said after "the context is not 3: " where no mistake explains it.
    """
    several = not isinstance(asks, str)

    def register(numbers):
        @exercise(id, title=f"{kind}: {title}", difficulty=difficulty, minutes=minutes)
        @wraps(numbers)
        def check(answer, ctx):
            got, names = ctx.call(answer), asks if several else (asks,)
            parts = ctx.parts(got, names) if several else [got]
            got = np.array([ctx.number(part, name) for part, name in zip(parts, names)])
            right, slips = numbers()
            off = np.abs(got - right)
            if (off <= within + 1e-9).all():
                return
            _name_the_nearest(ctx, got, slips, within)
            worst = off.argmax()
            said = f"{names[worst]} is not {got[worst]:g}"
            ctx.fail(f"{said}: {otherwise}" if otherwise else said)

        return check

    return register


def read_the_curve(id, *, title, difficulty, minutes):
    """Register the decorated function, which returns {what messages call a choice: (the right one,
    {another: why it is not that one})}, as an exercise on curves that the notebook shows. The
    answer returns the choices in this order, a string, or a tuple of several.

    Args:
        id, difficulty, minutes: as for `exercise`.
        title: without the words "Read the curve: ", which come before it.
    """

    def register(choices):
        title_ = f"Read the curve: {title}"

        @exercise(id, title=title_, difficulty=difficulty, minutes=minutes)
        @wraps(choices)
        def check(answer, ctx):
            asked = choices()
            got = ctx.call(answer)
            for said, (name, (right, wrong)) in zip(
                ctx.parts(got, tuple(asked)) if len(asked) > 1 else [got], asked.items()
            ):
                said = ctx.choice(said, name, sorted([right, *wrong]))
                if said != right:
                    ctx.fail(f"{name} is not {said!r}: {wrong[said]}")

        return check

    return register


def _name_the_nearest(ctx, got, slips, within):
    """Fail with the sentence of the slip that lies nearest to an answer, and near enough."""
    off = {
        sentence: (np.abs(got - slip) / np.maximum(within + 1e-9, _ROUNDED * np.abs(slip))).max()
        for sentence, slip in slips.items()
    }
    nearest = min(off, key=lambda sentence: off[sentence])
    if off[nearest] <= 1:
        ctx.fail(nearest)
