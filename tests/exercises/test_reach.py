"""Every mistake that a check names can be named: an answer that is right but for one value, that of
the mistake, gets its sentence.
"""

from itertools import count

import numpy as np
import pytest
import torch

from attnbook.checks import Mistake, exercises, judge
from attnbook_exercises.answers.arguments import copied
from attnbook_exercises.answers.guarded import StudentError
from attnbook_exercises.checks.context import CheckContext, array
from attnbook_exercises.checks.registry import WITHOUT_CODE
from attnbook_exercises.checks.slips import Slips

from .test_answers import answer, tasks  # noqa: F401 (a fixture)

SEEDS = range(3)
TASKS = exercises()
PAPER = [id for id, task in TASKS.items() if task.kind in ("On paper", "Budget")]
CODE = [id for id, task in TASKS.items() if task.kind not in WITHOUT_CODE]


class Recording(CheckContext):
    """Keeps what the answer gave and what it was compared with.

    Attributes:
        results: of the calls.
        compared: (number of calls before it, got, {sentence: value}) of every comparison.
    """

    def __init__(self, seed):
        super().__init__(seed)
        self.results, self.compared = [], []

    def call(self, function, *arguments, **options):
        result = super().call(function, *arguments, **options)
        self.results.append(copied(result))
        return result

    def recognize(self, got, expected, wrong):
        self.compared.append((len(self.results), got, dict(wrong)))
        super().recognize(got, expected, wrong)


class Replacing(CheckContext):
    """Compares another value in the place of the one that the check made of the answers."""

    def __init__(self, seed, number, value):
        super().__init__(seed)
        self.before, self.value = number, value

    def recognize(self, got, expected, wrong):
        self.before -= 1
        super().recognize(self.value if self.before == -1 else got, expected, wrong)


def _numbers(value):
    return array(value) if isinstance(value, torch.Tensor) else np.asarray(value)


def parts(result, path=()):
    """(path, value) of everything in a result that is no tuple and no list."""
    if type(result) not in (tuple, list):
        yield path, result
        return
    for i, part in enumerate(result):
        yield from parts(part, (*path, i))


def origins(results, gots):
    """(call, path) of each value that the check compares, in the results; [] if it has made
    something of one of them. Several values belong to several calls, in their order; one value
    belongs to the last that gave it.
    """
    places = [(k, *part) for k, result in enumerate(results) for part in parts(result)]
    found = []
    for got in gots:
        matches = [
            (call, path)
            for call, path, part in (places if len(gots) > 1 else places[::-1])
            if type(part) in (torch.Tensor, float, int)
            and (call, path) not in found
            and np.array_equal(_numbers(part), _numbers(got))
        ]
        if not matches:
            return []
        found.append(matches[0])
    return found


def put(result, path, value):
    """The result with `value`, as a tensor or number of its kind, at `path`."""
    if path:
        return type(result)(
            put(part, path[1:], value) if i == path[0] else part for i, part in enumerate(result)
        )
    if type(result) is torch.Tensor:
        return torch.as_tensor(np.array(_numbers(value))).to(result.dtype)
    return type(result)(value)


def mistaken(function, places, values):
    """The function, but for the values at these places of what its calls return."""
    calls = count()

    def answer(*given):
        result, now = function(*given), next(calls)
        for (call, path), value in zip(places, values):
            result = put(result, path, value) if call == now else result
        return result

    return answer


def message(task, function, ctx):
    try:
        task.function(function, ctx)
    except (Mistake, StudentError) as mistake:
        return str(mistake)
    return "right"


def named(task, function, seed):
    """{sentence: whether it is said of an answer with its value}, for one run of a check."""
    run, said = Recording(seed), {}
    task.function(function, run)
    for number, (calls, got, wrong) in enumerate(run.compared):
        several = type(got) is tuple
        places = origins(run.results[:calls], got if several else [got])
        for sentence, value in wrong.items():
            if said.get(sentence):
                continue
            if places:
                answer = mistaken(function, places, value if several else [value])
                verdict = message(task, answer, CheckContext(seed))
            else:
                verdict = message(task, function, Replacing(seed, number, value))
            said[sentence] = verdict == sentence
    return said


@pytest.mark.parametrize("id", CODE)
def test_every_slip_is_named(id, tasks, monkeypatch):  # noqa: F811
    cell, said = tasks[id][1], {}
    monkeypatch.setattr(Slips, "__call__", _noting(said))
    function = answer(cell.solution.source, cell.function)
    for seed in SEEDS:
        for sentence, reached in named(TASKS[id], function, seed).items():
            said[sentence] = reached or said.get(sentence, False)
        if all(said.values()):
            break
    assert [sentence for sentence, reached in said.items() if not reached] == []


def _noting(said):
    """`Slips.__call__`, which notes the sentences of what it is asked for as not said yet."""
    call = Slips.__call__

    def noting(self, *inputs):
        for sentence in self.mistaken:
            said.setdefault(sentence, False)
        return call(self, *inputs)

    return noting


@pytest.mark.parametrize("id", PAPER)
def test_every_slip_on_paper_is_named(id):
    """As the number that comes out, and as a reader may round it."""
    right, slips = TASKS[id].function.__wrapped__()
    missed = []
    for sentence, number in slips.items():
        for digits in (12, 4):
            given = tuple(float(f"{part:.{digits}g}") for part in np.atleast_1d(number))
            verdict = judge(id, lambda: given if len(given) > 1 else given[0])
            if verdict.message != sentence:
                missed.append((given, sentence, verdict.message))
    assert missed == []
    assert judge(id, lambda: right)
