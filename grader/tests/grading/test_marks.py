"""Rules: late and repeated hand-ins, the library's own implementation, equal answers."""

import ast
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell

from attnbook_exercises.checks.verdict import Verdict
from attnbook_grader.course.assignments import Rules, notebook_with
from attnbook_grader.course.exercises import solution_of
from attnbook_grader.grading import judging
from attnbook_grader.grading.equal import equal_answers
from attnbook_grader.grading.judging import Outcome, _outcome, printable
from attnbook_grader.grading.marks import marks_of
from attnbook_grader.notebooks.hand_ins import HandIn
from attnbook_grader.notebooks.library import Code
from attnbook_grader.notebooks.similarity import binding, nameless
from attnbook_grader.notebooks.submissions import restore
from attnbook_grader.sandbox.session import Session

from .conftest import judged, place_of

DUE = datetime(2027, 1, 31, 23, 59, tzinfo=UTC)


@pytest.fixture
def due(assignment):
    return replace(assignment, due=DUE)


def outcomes(assignment, right, half=(), **more):
    found = {}
    for id in (task.id for task in assignment.tasks):
        whole = id in right
        found[id] = Outcome(id, whole or id in half, whole, "" if whole else "wrong", **more)
    return found


def all_right(assignment, **more):
    return {"a": outcomes(assignment, [task.id for task in assignment.tasks], **more)}


def points(assignment, hand_ins, found, rules=None):
    rules = rules or Rules()
    return [(one.points, one.note) for one in marks_of("ann", assignment, hand_ins, found, rules)]


def hand_in(sha, late=timedelta(), student="ann"):
    return HandIn(student, "soft_lookup", Path(f"{sha}.ipynb"), sha, DUE + late)


def test_each_check_has_its_points(assignment):
    one, other = assignment.tasks
    found = {"a": outcomes(assignment, right=[one.id], half=[other.id])}
    assert points(assignment, [hand_in("a")], found) == [(2.0, ""), (0.0, "wrong")]
    assert assignment.points[other.id] == (0.0, 4.0)
    shared = replace(assignment, points={one.id: (1.0, 2.0), other.id: (3.0, 5.0)})
    assert points(shared, [hand_in("a")], found) == [(3.0, ""), (3.0, "wrong")]


@pytest.mark.parametrize(
    ("late", "share"),
    [
        (timedelta(0), 1.0),
        (timedelta(seconds=1), 0.9),
        (timedelta(days=1), 0.9),
        (timedelta(days=1, seconds=1), 0.8),
        (timedelta(days=7), 0.3),
        (timedelta(days=7, seconds=1), 0.0),
    ],
    ids=str,
)
def test_late_days_cost_what_the_rule_says(due, late, share):
    (got, note), _ = points(due, [hand_in("a", late)], all_right(due))
    assert got == pytest.approx(2 * share)
    assert ("late" in note) == (share < 1)


def test_without_a_due_date_nothing_is_late(assignment):
    late = hand_in("a", timedelta(days=400))
    assert points(assignment, [late], all_right(assignment))[0] == (2.0, "")


def test_of_several_hand_ins_the_one_of_the_rule_counts(due):
    both = [task.id for task in due.tasks]
    found = {
        "early": outcomes(due, right=both[:1]),
        "best": outcomes(due, right=both),
        "last": outcomes(due, right=[]),
    }
    days = {"last": 2, "early": -1, "best": 1}
    hand_ins = [hand_in(name, timedelta(days=number)) for name, number in days.items()]

    def total(**rules):
        return sum(got for got, _ in points(due, hand_ins, found, Rules(**rules)))

    for rule, most in (("first", 2.0), ("last", 0.0), ("best", 0.9 * 6)):
        assert total(repeated=rule) == pytest.approx(most), rule
    assert total(repeated="best", late_per_day=0.9) == 2.0, "lateness counts before the choice"


@pytest.mark.parametrize(
    "names",
    [
        ("x.ipynb", "x (1).ipynb", "x (2).ipynb", "x (10).ipynb"),
        ("x.ipynb", "x-1.ipynb", "x-2.ipynb"),
        ("lee_12_997_x.ipynb", "lee_12_1003_x-1.ipynb"),
    ],
)
def test_of_one_time_the_higher_number_came_last(assignment, names):
    """All files have the time of their unpacking."""
    last, *others = reversed([replace(hand_in(name), file=name, path=Path(name)) for name in names])
    found = {one.sha: outcomes(assignment, right=[]) for one in others}
    found[last.sha] = outcomes(assignment, right=[task.id for task in assignment.tasks])
    for order in ([last, *others], [*others, last]):
        remarks = []
        marks = marks_of("ann", assignment, order, found, Rules(), remarks)
        assert sum(one.points for one in marks) == 6
        (said,) = remarks
        assert f"have the same time, and {last.name} counts" in said
    same = replace(last, file="another name", path=Path("another name"))
    marks_of("ann", assignment, [last, same], found, Rules(), again := [])
    assert again == [], "one and the same notebook"


def test_a_notebook_for_another_assignment_costs_nothing_in_this_one(due):
    """A notebook with exercises of two: handed in for the other before, empty, and after, late."""
    both = [task.id for task in due.tasks]
    found = {
        "empty": outcomes(due, right=[]),
        "own": outcomes(due, right=both, print="a"),
        "later": outcomes(due, right=both, print="a"),
        "better": outcomes(due, right=both, print="a"),
        "weak": outcomes(due, right=both[:1], print="b"),
    }
    early = replace(hand_in("empty", -timedelta(days=2)), shared=True)
    own = hand_in("own", -timedelta(days=1))
    later = replace(hand_in("later", timedelta(days=3)), shared=True)

    def total(*hand_ins, **rules):
        remarks = []
        marks = marks_of("ann", due, list(hand_ins), found, Rules(**rules), remarks)
        return sum(one.points for one in marks), [remark.split(": ")[1] for remark in remarks]

    for rule in ("first", "last", "best"):
        assert total(later, early, own, repeated=rule) == (6.0, ["empty.ipynb", "later.ipynb"])
    late = pytest.approx(0.7 * 6)
    assert total(later) == (late, [])
    assert total(later, early) == (late, ["empty.ipynb"]), "the only one with answers counts"
    assert total(early) == (0.0, [])
    # one that is for this assignment replaces the earlier one
    assert total(own, replace(later, shared=False)) == (late, [])
    weak, better = hand_in("weak", -timedelta(days=1)), replace(hand_in("better"), shared=True)
    assert total(weak, better) == (6.0, []), "nor is it kept from counting where it is better"
    assert total(weak, better, repeated="first") == (2.0, [])


def test_who_hands_in_nothing_gets_nothing(assignment):
    assert points(assignment, [], {}) == [(0.0, "nothing was handed in")] * 2


def test_the_library_s_own_is_marked_or_costs_the_points(assignment):
    found = all_right(assignment, library="attnbook.attend")
    (got, note), _ = points(assignment, [hand_in("a")], found)
    assert got == 2.0 and "uses attnbook.attend, the book's own" in note
    assert points(assignment, [hand_in("a")], found, Rules(library="zero"))[0][0] == 0.0


def equal(answers, class_of=0):
    """Who is reported for {student: {exercise: (print, right)}}, beside others with their own."""
    for i in range(class_of):
        answers = answers | {f"other {i}": {id: (f"{id}{i}", True) for id in "ab"}}
    found = {
        student: {
            id: Outcome(id, right, right, "", print=print_) for id, (print_, right) in own.items()
        }
        for student, own in answers.items()
    }
    hand_ins = [hand_in(student, student=student) for student in answers]
    return [(one.students, one.right, one.wrong) for one in equal_answers(hand_ins, found)]


def test_equal_answers_are_compared_by_exercise():
    answers = {
        "ann": {"a": ("1", True), "b": ("2", True), "c": ("3", True)},
        "bob": {"a": ("1", True), "b": ("2", True), "c": ("own", True)},
        "cy": {"a": ("1", True), "b": ("else", True), "c": ("", False)},
        "dora": {"a": ("x", True), "b": ("y", True), "c": ("", False)},
    }
    assert equal(answers) == [(("ann", "bob"), ("a", "b"), ())]
    assert equal({"ann": {"a": ("1", True)}, "bob": {"a": ("1", True)}}) == [
        (("ann", "bob"), ("a",), ())
    ], "where there is one exercise, it is enough"


def test_an_equal_wrong_answer_weighs_more():
    wrong = {"a": ("1", False), "b": ("", False)}
    other = wrong | {"b": ("2", True)}
    assert equal({"ann": wrong, "bob": other}) == [(("ann", "bob"), (), ("a",))]
    right = {"a": ("3", True), "b": ("4", True)}
    answers = {"ann": right, "bob": wrong, "cy": right, "dora": wrong}
    assert [one[0] for one in equal(answers)] == [("bob", "dora"), ("ann", "cy")]


def test_what_many_gave_is_no_sign():
    many = {f"s{i}": {"a": ("1", True), "b": ("2", True)} for i in range(8)}
    assert equal(many, class_of=20) == []
    assert len(equal({name: many[name] for name in ("s1", "s2", "s3")}, class_of=20)) == 1


NAMES = """
import torch as t
def f(x, n=2):
    for i in range(n):
        x = t.exp(x)
    return x
"""


def test_names_do_not_make_an_answer_another():
    other = """
import torch
def f(scores: torch.Tensor, times: int = 2) -> torch.Tensor:
    'Mine.'
    for _ in range(times):  # again
        scores = torch.exp(scores)
    return scores
"""
    assert nameless(NAMES) == nameless(other)
    for one, changed in (("exp", "log"), ("n=2", "n=3"), ("return x", "return n"), ("(n)", "(x)")):
        assert nameless(NAMES.replace(one, changed)) != nameless(NAMES), changed
    assert nameless("from torch import exp as e\ne") != nameless("from torch import log as e\ne")
    assert nameless("def f(:") == "def f(:" and nameless("x = 1\nx") == "_0 = 1\n_0"


def test_comments_and_layout_do_not_make_an_answer_another():
    one = 'def f(x):\n    """What it does."""\n    # mine\n    return (x+1)'
    assert nameless(one) == nameless("def f( x ):\n    return x + 1  # yours")
    assert nameless(one) != nameless("def f(y):\n    return 1 + y")
    assert nameless("def f(:") == "def f(:"


def test_answers_are_compared_by_the_cell_that_is_judged(assignment):
    task = assignment.tasks[0]
    mine = new_code_cell(solution_of(task) + "\n# mine")

    def printed(answers, *cells):
        nb = nbformat.reads(notebook_with(assignment, answers).decode(), 4)
        place = place_of(nb, f"{task.key}-check")
        nb.cells[place:place] = cells
        nb, _ = restore(nb, assignment)
        return _outcome(task, {}, Code([]), {}, nb).print

    right = printed({task.id: solution_of(task)})
    assert right == printed({}, mine) == printed({task.id: "def f(:"}, mine) != ""


def test_the_cell_that_binds_a_name_last():
    one, other = "def f(x):\n    return x", "x = 1\nf = max"
    assert binding("f", one, [one, "g = f", other, "f(1)"]) == other
    assert binding("f", one, [other, one, "def g():\n    f = 1"]) == one
    for last in ("from a import b as f", "if x:\n    f = 1", "for f in x:\n    pass", "import f"):
        assert binding("f", one, [one, last, "%time f(1)"]) == last
    # what is no Python may have been meant
    assert binding("f", "f = (", [one, "f = (", "x = 1"]) == "f = ("
    assert binding("f", "# below", ["x = 1", "# below"]) == "# below"


def test_code_nested_too_deep_is_compared_as_it_is():
    code, limit = "x = " + "+".join(["1"] * 600), sys.getrecursionlimit()
    sys.setrecursionlimit(1000)  # Python's own: libraries that other tests import may raise it
    try:
        assert nameless(f"{code}\n") == code
    finally:
        sys.setrecursionlimit(limit)


MANY = ", ".join(f"x{n}" for n in range(3000))
LARGE = {
    "strings": "x = [" + ",".join(["'attnbook x'"] * 14_000) + "]",
    "names": f"{MANY} = y\ny = [{MANY}]",
    "dots": "\n".join(["x" + ".a" * 300] * 300),
    "lines": "\n" * 100_000,
    "lines of IPython's": "x = (\n" + "1,\n" * 60_000 + ")\n" + "%time x\n" * 60,
    "too much": "x = [" + "1," * 10**7 + "]",
}


def within(limit, function, *arguments):
    """The result, if it takes at most so many steps, the same on every machine: calls of functions
    and characters that are parsed."""
    count = 0

    def profile(frame, event, argument):
        nonlocal count
        if event in ("call", "c_call"):
            count += 1
        if event == "call" and frame.f_code is ast.parse.__code__:
            count += len(frame.f_locals["source"])
        assert count <= limit

    sys.setprofile(profile)
    try:
        return function(*arguments)
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("name", LARGE)
def test_large_answers_take_no_time(name):
    assert within(12_000_000, binding, "x", "", [LARGE[name]]) in ("", LARGE[name])


def test_hidden_inputs_that_a_page_shows_are_of_no_use_for_another_hand_in(assignment, monkeypatch):
    task, seen = assignment.tasks[0], []

    class Looks(Session):
        def run(self, code):
            return None

        def judge(self, id, name, seed):
            seen.append(seed)
            return Verdict(id, "right", "")

    monkeypatch.setattr(judging, "Session", Looks)
    one = notebook_with(assignment, {task.id: solution_of(task)})
    for content, seed in ((one, 5), (one, 5), (one + b"\n", 5), (one, 6)):
        assert judged(content, assignment, task.id, seed=seed)[0].hidden
    visible, hidden = seen[::2], seen[1::2]
    assert visible == [0] * 4, "the reader's inputs are the same for all"
    assert hidden[0] == hidden[1], "the same file is judged alike, whenever it is judged"
    # of the seed, PyTorch takes these bits
    assert len({seed % 2**32 for seed in hidden}) == 3 and not {0, 5, 6} & set(hidden)


def test_messages_are_harmless():
    assert printable("a\x1b[31mb\u202ec\x00d\n") == "a[31mbcd\n"
    assert len(printable("x" * 10_000)) == 600
