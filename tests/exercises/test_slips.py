"""Slips and exercises on paper: a mistake is named from one edit, or from one number."""

import numpy as np
import pytest

from attnbook.checks import exercises, judge
from attnbook_exercises.checks import registry
from attnbook_exercises.checks.slips import Slips, on_paper, read_the_curve

SCALE = 2.0


def scaled(query, key):
    """The product of query and key, divided by a scale."""
    product = query @ key.T
    return product / SCALE


def values(edits, *inputs):
    right, wrong = Slips(scaled, edits)(*inputs)
    return right.tolist(), {sentence: value.tolist() for sentence, value in wrong.items()}


ONE, TWO = np.array([[4.0, 6.0]]), np.eye(2)


def test_each_slip_gives_the_value_of_the_edited_oracle():
    edits = {
        "no scale": "/ SCALE →",
        "multiplied": "/ SCALE → * SCALE",
        "squared, and no scale": ("product = → product = 2 *", "/ SCALE →"),
        "one after the other": ("/ SCALE → / 3", "/ 3 → / 4"),
    }
    assert values(edits, ONE, TWO) == (
        [[2.0, 3.0]],
        {
            "no scale": [[4.0, 6.0]],
            "multiplied": [[8.0, 12.0]],
            "squared, and no scale": [[8.0, 12.0]],
            "one after the other": [[1.0, 1.5]],
        },
    )


def test_a_slip_reads_the_names_of_the_module_as_they_are_now(monkeypatch):
    slips = Slips(scaled, {"plus": "/ SCALE → + SCALE"})
    assert slips(ONE, TWO)[1]["plus"].tolist() == [[6.0, 8.0]]
    monkeypatch.setitem(globals(), "SCALE", 10.0)
    assert slips(ONE, TWO)[1]["plus"].tolist() == [[14.0, 16.0]]
    assert slips.mistaken is slips.mistaken


def test_a_slip_that_does_not_fit_the_inputs_is_left_out():
    edits = {"transposed": "query @ key.T → key.T @ query", "no scale": "/ SCALE →"}
    assert list(values(edits, ONE, TWO)[1]) == ["no scale"]
    with pytest.raises(NameError):
        values({"a name that is not there": "SCALE → SCALES"}, ONE, TWO)


def test_a_slip_is_worked_out_when_its_value_is_asked_for():
    right, wrong = Slips(scaled, {"a name that is not there": "SCALE → SCALES"})(ONE, TWO)
    assert right.tolist() == [[2.0, 3.0]], "a right answer needs no more"
    with pytest.raises(NameError):
        wrong["a name that is not there"]


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        ("/ scale → * 2", "'/ scale' must occur once in the oracle, got 0 times for 'a slip'"),
        ("product → query", "'product' must occur once in the oracle, got 2 times"),
        (("/ SCALE →", "/ SCALE → * 2"), "'/ SCALE' must occur once in the oracle, got 0 times"),
        ("query, key → key, query", "must occur once in the oracle, got 0 times"),  # no parameter
        ("/ SCALE", "edits must be 'old → new', got '/ SCALE' for 'a slip'"),
    ],
)
def test_an_edit_that_does_not_apply_is_refused(edit, words):
    with pytest.raises(ValueError, match="edits") as caught:
        Slips(scaled, {"a slip": edit})
    assert words in str(caught.value)


@pytest.fixture
def paper():
    """Register an exercise on paper for one test: paper(right, slips, …) -> say(number)."""

    def add(right, slips, asks="the share", **options):
        registry._EXERCISES.pop("99.paper", None)

        @on_paper("99.paper", asks, title="A share", difficulty=1, minutes=1, **options)
        def share():
            return right, slips

        return lambda said: judge("99.paper", lambda: said)

    yield add
    registry._EXERCISES.pop("99.paper", None)


def test_it_is_an_exercise_of_its_module(paper):
    paper(0.5, {"a half": 2})
    task = exercises()["99.paper"]
    assert (task.title, task.function.__name__) == ("On paper: A share", "share")
    assert task.notebook == "test_slips"


def test_a_number_is_right_within_its_tolerance(paper):
    say = paper(0.5, {"turned around": 2}, within=0.01)
    assert say(0.5) and say(0.51) and say(np.float32(0.495)) and not say(0.52)
    assert paper(7, {"one more": 8})(7) and not paper(7, {"one more": 8})(7.001)


@pytest.mark.parametrize("said", [1000, 1004.9, 995.1])
def test_a_rounded_slip_is_named(paper, said):
    assert paper(1, {"in thousandths": 1000})(said).message == "in thousandths"


@pytest.mark.parametrize("said", [1005.1, 994.9, 2])
def test_another_number_is_not_what_was_asked_for(paper, said):
    verdict = paper(1, {"in thousandths": 1000})(said)
    assert verdict.message == f"the share is not {said:g}"
    verdict = paper(1, {"in thousandths": 1000}, otherwise="divide by the whole")(said)
    assert verdict.message == f"the share is not {said:g}: divide by the whole"


def test_of_two_slips_the_nearer_is_named(paper):
    say = paper(1, {"a thousand": 1000, "a little more": 1002})
    assert say(1000.9).message == "a thousand" and say(1001.1).message == "a little more"


def test_several_numbers_are_compared_together(paper):
    say = paper((5, 7), {"swapped": (7, 5)}, asks=("the first", "the second"), within=0.01)
    assert say((5.01, 7)) and say((7, 5)).message == "swapped"
    assert say((7, 7)).message == "the first is not 7"
    assert say((5, 6.5)).message == "the second is not 6.5"
    assert "expected the tuple (the first, the second)" in say(5).message


def test_a_budget_is_of_its_own_kind(paper):
    paper(1, {}, kind="Budget")
    assert exercises()["99.paper"].kind == "Budget"


@pytest.fixture
def curves():
    @read_the_curve("99.curves", title="Which run leaks", difficulty=2, minutes=3)
    def curves():
        return {
            "the run": ("B", {"A": "its loss stays above that of the unigrams"}),
            "the cause": ("a leak", {"the rate": "a rate too high makes spikes"}),
        }

    yield lambda *said: judge("99.curves", lambda: said).message
    registry._EXERCISES.pop("99.curves")


def test_each_choice_says_why_it_is_not_so(curves):
    assert exercises()["99.curves"].kind == "Read the curve"
    assert curves("b", "A leak") == "right."
    assert curves("A", "a leak") == "the run is not 'A': its loss stays above that of the unigrams"
    assert curves("B", "the rate") == "the cause is not 'the rate': a rate too high makes spikes"
    assert curves("C", "a leak") == "the run is 'C', expected one of 'A', 'B'"
    assert "expected the tuple (the run, the cause)" in curves("B")
