"""A sample of what tools/solution_mutants.py makes of the solutions: wrong answers nobody thought
of. The nightly run judges them all.
"""

import random
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"
COUNT = 300


@pytest.fixture(scope="module")
def solution_mutants():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(TOOLS))
        import solution_mutants

        yield solution_mutants


@pytest.fixture(scope="module")
def broken(solution_mutants):
    """Every broken solution with the name of its function, by exercise and change."""
    return {
        (answer.id, answer.change): (answer, task.function)
        for task in solution_mutants.tasks_of()
        for answer in solution_mutants.wrong_answers(task)
    }


def test_broken_solutions_are_refused_or_marked_with_a_reason(broken, solution_mutants):
    drawn = random.Random(0).sample(sorted(broken), COUNT)
    known = solution_mutants.marked()
    passed = [
        (id, change)
        for id, change in drawn
        if change not in known.get(id, {})
        and solution_mutants.verdict(*broken[id, change]) == "right"
    ]
    assert len(passed) <= COUNT * solution_mutants.MOST / 100, passed


def test_what_is_marked_as_right_too_is_made_and_passes(broken, solution_mutants):
    marks = [(id, one) for id, changes in solution_mutants.marked().items() for one in changes]
    assert [key for key in marks if key not in broken] == []
    drawn = random.Random(0).sample(marks, COUNT // 3)  # a right one runs to its end
    assert [key for key in drawn if solution_mutants.verdict(*broken[key]) != "right"] == []
