"""Rules: late and repeated hand-ins, the library's own implementation, equal answers."""

import ast
import json
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell
from patience import PATIENT

from attnbook.checks.verdict import Verdict
from attnbook_grader.course.assignments import Rules, from_sections, notebook_with
from attnbook_grader.course.exercises import find_book, sections, solution_of
from attnbook_grader.course.synthetic_class import _chapter
from attnbook_grader.grading import judging
from attnbook_grader.grading.equal import equal_answers
from attnbook_grader.grading.judging import (
    Job,
    Outcome,
    _outcome,
    cells_before_judging,
    judge_notebook,
    printable,
)
from attnbook_grader.grading.marks import marks_of
from attnbook_grader.notebooks.hand_ins import HandIn
from attnbook_grader.notebooks.similarity import binding, nameless, plain, uses_library
from attnbook_grader.notebooks.submissions import restore
from attnbook_grader.sandbox.launch import Limits
from attnbook_grader.sandbox.session import Session

DUE = datetime(2027, 1, 31, 23, 59, tzinfo=UTC)


@pytest.fixture
def due(assignment):
    return replace(assignment, due=DUE)


def outcomes(assignment, right, half=(), **more):
    return {
        task.id: Outcome(
            task.id,
            task.id in right or task.id in half,
            task.id in right,
            "" if task.id in right else "wrong",
            **more,
        )
        for task in assignment.tasks
    }


def points(assignment, hand_ins, found, rules=None):
    rules = rules or Rules()
    return [(one.points, one.note) for one in marks_of("ann", assignment, hand_ins, found, rules)]


def hand_in(sha, late=timedelta(), student="ann"):
    return HandIn(student, "soft_lookup", Path(f"{sha}.ipynb"), sha, DUE + late)


def test_each_check_has_its_points(assignment):
    one, other = assignment.tasks
    found = {"a": outcomes(assignment, right=[one.id], half=[other.id])}
    assert points(assignment, [hand_in("a")], found) == [(2.0, ""), (2.0, "wrong")]
    assert sum(assignment.points[other.id]) == 4.0


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
    (got, note), _ = points(
        due, [hand_in("a", late)], {"a": outcomes(due, right=[task.id for task in due.tasks])}
    )
    assert got == pytest.approx(2 * share)
    assert ("late" in note) == (share < 1)


def test_without_a_due_date_nothing_is_late(assignment):
    assert points(
        assignment,
        [hand_in("a", timedelta(days=400))],
        {"a": outcomes(assignment, [task.id for task in assignment.tasks])},
    )[0] == (2.0, "")


def test_of_several_hand_ins_the_one_of_the_rule_counts(due):
    both = [task.id for task in due.tasks]
    found = {
        "early": outcomes(due, right=both[:1]),
        "best": outcomes(due, right=both),
        "last": outcomes(due, right=[]),
    }
    hand_ins = [
        hand_in("last", timedelta(days=2)),
        hand_in("early", -timedelta(days=1)),
        hand_in("best", timedelta(days=1)),
    ]
    for rule, total in (("first", 2.0), ("last", 0.0), ("best", 0.9 * 6)):
        assert sum(
            got for got, _ in points(due, hand_ins, found, Rules(repeated=rule))
        ) == pytest.approx(total), rule
    costly = Rules(repeated="best", late_per_day=0.9)
    assert sum(got for got, _ in points(due, hand_ins, found, costly)) == 2.0, (
        "lateness counts before the best is chosen"
    )


def test_a_notebook_for_another_assignment_costs_nothing_in_this_one(due):
    """A chapter's notebook that holds exercises of two: handed in for the other one before,
    empty, and after, late.
    """
    both = [task.id for task in due.tasks]
    found = {
        "empty": outcomes(due, right=[]),
        "own": outcomes(due, right=both, print="a"),
        "later": outcomes(due, right=both, print="a"),
        "better": outcomes(due, right=both, print="a"),
        "weak": outcomes(due, right=both[:1], print="b"),
    }
    early, own = (
        replace(hand_in("empty", -timedelta(days=2)), shared=True),
        hand_in("own", -timedelta(days=1)),
    )
    later = replace(hand_in("later", timedelta(days=3)), shared=True)

    def total(*hand_ins, **rules):
        remarks = []
        marks = marks_of("ann", due, list(hand_ins), found, Rules(**rules), remarks)
        return sum(one.points for one in marks), [remark.split(": ")[1] for remark in remarks]

    for rule in ("first", "last", "best"):
        assert total(later, early, own, repeated=rule) == (6.0, ["empty.ipynb", "later.ipynb"]), (
            rule
        )
    assert total(later) == (pytest.approx(0.7 * 6), [])
    assert total(later, early) == (pytest.approx(0.7 * 6), ["empty.ipynb"]), (
        "the only one with answers counts"
    )
    assert total(early) == (0.0, [])
    assert total(own, replace(later, shared=False)) == (pytest.approx(0.7 * 6), []), (
        "one that is for this assignment replaces the earlier one"
    )
    weak, better = hand_in("weak", -timedelta(days=1)), replace(hand_in("better"), shared=True)
    assert total(weak, better) == (6.0, []), "nor is it kept from counting where it is better"
    assert total(weak, better, repeated="first") == (2.0, [])


def test_who_hands_in_nothing_gets_nothing(assignment):
    assert points(assignment, [], {}) == [(0.0, "nothing was handed in")] * 2


def test_the_library_s_own_is_marked_or_costs_the_points(assignment):
    found = {
        "a": outcomes(assignment, [task.id for task in assignment.tasks], library="attnbook.attend")
    }
    (got, note), _ = points(assignment, [hand_in("a")], found)
    assert got == 2.0 and "uses attnbook.attend, the book's own" in note
    assert points(assignment, [hand_in("a")], found, Rules(library="zero"))[0][0] == 0.0


def equal(answers, class_of=0):
    """Who is reported for {student: {exercise: (print, right)}}, beside others with their own."""
    answers = answers | {
        f"other {i}": {"a": (f"a{i}", True), "b": (f"b{i}", True)} for i in range(class_of)
    }
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
    assert plain(one) == plain("def f( x ):\n    return x + 1  # yours")
    assert plain(one) != plain("def f(y):\n    return y + 1")
    assert plain("def f(:") == "def f(:"


@pytest.fixture(scope="module")
def attention():
    (part,) = sections(find_book(), ["scaled_dot_product"])
    (task,) = [task for task in part.tasks if task.function == "left_padded_mask"]
    return task


USES = {
    "import": (
        "from attnbook import padding_mask\ndef left_padded_mask(lengths, n):\n    return "
        "padding_mask(lengths, n)",
        [],
    ),
    "inside": (
        "def left_padded_mask(lengths, n):\n    from attnbook.mechanisms.attention.masks import "
        "padding_mask as p\n    return p(lengths, n)",
        [],
    ),
    "dotted": (
        "import attnbook\ndef left_padded_mask(lengths, n):\n    return "
        "attnbook.padding_mask(lengths, n)",
        [],
    ),
    "as": (
        "import attnbook.mechanisms as m\ndef left_padded_mask(lengths, n):\n    return "
        "m.padding_mask(lengths, n)",
        [],
    ),
    "another cell": (
        "def left_padded_mask(lengths, n):\n    return padding_mask(lengths, n)",
        ["from attnbook import padding_mask"],
    ),
    "a helper": (
        "def left_padded_mask(lengths, n):\n    return helper(lengths, n)",
        ["from attnbook import padding_mask", "def helper(a, b):\n    return padding_mask(a, b)"],
    ),
    "another name": (
        "def left_padded_mask(lengths, n):\n    return mine(lengths, n)",
        ["from attnbook import padding_mask\nmine = padding_mask"],
    ),
    "by name": (
        "import importlib\ndef left_padded_mask(lengths, n):\n    return "
        "importlib.import_module('attnbook').padding_mask(lengths, n)",
        [],
    ),
    "package by another name": (
        "def left_padded_mask(lengths, n):\n    return ab.padding_mask(lengths, n)",
        ["import attnbook as ab"],
    ),
    "getattr": (
        "def left_padded_mask(lengths, n):\n    return getattr(attnbook, "
        "'padding_mask')(lengths, n)",
        ["import attnbook"],
    ),
    "default": (
        "def left_padded_mask(lengths, n, own=padding_mask):\n    return own(lengths, n)",
        ["from attnbook import padding_mask"],
    ),
    "in a block": (
        "def left_padded_mask(lengths, n):\n    return mine(lengths, n)",
        [
            "from attnbook import padding_mask\nmine = None\nif True:\n    with open('x') as "
            "file:\n        mine = padding_mask"
        ],
    ),
    "bound before": (
        "def left_padded_mask(lengths, n):\n    return mine(lengths, n)",
        ["from attnbook import padding_mask\nmine = padding_mask\npadding_mask = 3"],
    ),
    "bound after": (
        "def left_padded_mask(lengths, n):\n    return mine(lengths, n)",
        ["def mine(*given):\n    return padding_mask(*given)", "from attnbook import padding_mask"],
    ),
    "a method": (
        "def left_padded_mask(lengths, n):\n    return Mine().mask(lengths, n)",
        [
            "from attnbook import padding_mask",
            "class Mine:\n    def mask(self, *given):\n        return [padding_mask(*given) for "
            "given in [given]]",
        ],
    ),
    "put into a module": (
        "def left_padded_mask(lengths, n):\n    return torch.mine(lengths, n)",
        ["import torch, attnbook\ntorch.mine = attnbook.padding_mask"],
    ),
    "global": (
        "def left_padded_mask(lengths, n):\n    global padding_mask\n    return "
        "padding_mask(lengths, n)",
        ["from attnbook import padding_mask"],
    ),
    "below a wrapped remainder": (
        "def left_padded_mask(lengths, n):\n    return mine(lengths, n)",
        [
            "%matplotlib inline\nn = (7\n% 4)\nfrom attnbook import padding_mask as mine\n!pip "
            "install 'x"
        ],
    ),
    "hidden": (
        "def left_padded_mask(lengths, n):\n    return "
        "__import__('attnbook').padding_mask(lengths, n)",
        [],
    ),
}


@pytest.mark.parametrize("name", USES)
def test_an_answer_that_uses_the_library_is_found(attention, name):
    answer, cells = USES[name]
    assert uses_library(answer, [*cells, answer], attention).startswith("attnbook")


STUB = "def left_padded_mask(lengths, n):\n    raise NotImplementedError"
AFTER = {
    "an import": ["from attnbook import padding_mask as left_padded_mask"],
    "an assignment": ["import attnbook", "left_padded_mask = attnbook.padding_mask"],
    "a function": [
        "from attnbook import padding_mask",
        "def left_padded_mask(lengths, n):\n    return padding_mask(lengths, n)",
    ],
    "by a helper": [
        "def mine(lengths, n):\n    from attnbook import padding_mask\n    return "
        "padding_mask(lengths, n)",
        "left_padded_mask = mine",
    ],
    "in a block": [
        "from attnbook import padding_mask",
        "if True:\n    left_padded_mask = padding_mask",
    ],
}


@pytest.mark.parametrize("name", AFTER)
def test_an_answer_in_another_cell_that_uses_the_library_is_found(attention, name):
    for answer in (STUB, "def left_padded_mask(lengths, n):\n    return lengths"):
        assert uses_library(answer, [answer, *AFTER[name]], attention).startswith("attnbook")
    own = "def left_padded_mask(lengths, n):\n    return n"
    assert uses_library(STUB, [*AFTER[name], STUB, own], attention) == "", (
        "what is bound last is judged"
    )


def test_answers_are_compared_by_the_cell_that_is_judged(assignment):
    task = assignment.tasks[0]
    mine = new_code_cell(solution_of(task) + "\n# mine")

    def printed(answers, *cells):
        nb = nbformat.reads(notebook_with(assignment, answers).decode(), 4)
        place = next(
            i
            for i, cell in enumerate(nb.cells)
            if cell.metadata.get("nbgrader", {}).get("grade_id") == f"{task.key}-check"
        )
        nb.cells[place:place] = cells
        nb, _ = restore(nb, assignment)
        return _outcome(task, {}, {}, {}, nb, assignment).print

    assert (
        printed({task.id: solution_of(task)})
        == printed({}, mine)
        == printed({task.id: "def f(:"}, mine)
        != ""
    )


def test_the_cell_that_binds_a_name_last():
    one, other = "def f(x):\n    return x", "x = 1\nf = max"
    assert binding("f", one, [one, "g = f", other, "f(1)"]) == other
    assert binding("f", one, [other, one, "def g():\n    f = 1"]) == one
    assert binding("f", "f = (", [one, "f = (", "x = 1"]) == "f = (", (
        "what is no Python may have been meant"
    )
    assert binding("f", "# below", ["x = 1", "# below"]) == "# below"


@pytest.mark.parametrize(
    "answer",
    [
        "def left_padded_mask(lengths, n):\n    return torch.arange(n)",
        "def f(:",
        "import attnbook\nsetup = attnbook.setup(seed=0)\ndef left_padded_mask(a, b):\n    "
        "return a",
        "from attnbook.checks import check\ndef left_padded_mask(a, b):\n    return 'attnbook'",
    ],
)
def test_an_answer_of_one_s_own_is_not(attention, answer):
    assert (
        uses_library(
            answer,
            [answer, "from attnbook import padding_mask", "%pip install attnbook"],
            attention,
        )
        == ""
    )


def test_a_grader_does_not_count_what_runs_after_the_checks(assignment):
    task = assignment.tasks[0]
    nb = json.loads(
        notebook_with(
            assignment,
            {task.id: f"{solution_of(task)}\nother = 1\n\ndef more():\n    return other"},
        )
    )
    nb["cells"].append(
        {
            "cell_type": "code",
            "id": "later",
            "metadata": {},
            "source": "import attnbook\nother = attnbook.attend",
            "outputs": [],
            "execution_count": None,
        }
    )
    (one,) = judge_notebook(
        Job(json.dumps(nb).encode(), assignment, (task.id,), {}, Limits(**PATIENT), "none")
    )
    assert (one.visible, one.library) == (True, "")


def test_code_nested_too_deep_is_compared_as_it_is():
    code, limit = "x = " + "+".join(["1"] * 600), sys.getrecursionlimit()
    sys.setrecursionlimit(1000)  # Python's own: libraries that other tests import may raise it
    try:
        assert plain(f"{code}\n") == code
    finally:
        sys.setrecursionlimit(limit)


LARGE = {
    "strings": "x = [" + ",".join(["'attnbook x'"] * 14_000) + "]",
    "names": ", ".join(f"x{n}" for n in range(3000))
    + " = y\ny = ["
    + ", ".join(f"x{n}" for n in range(3000))
    + "]",
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
def test_large_answers_take_no_time(attention, name):
    assert within(12_000_000, uses_library, LARGE[name], [LARGE[name]], attention) == ""


def test_an_import_is_found_beside_code_nested_too_deep(attention):
    answer = USES["hidden"][0] + "\nx = " + "+".join(["1"] * 600) + "\ny = z" + ".a" * 300
    assert uses_library(answer, [answer], attention) == "attnbook"


def test_the_library_hint_can_be_stored(assignment):
    answer = solution_of(assignment.tasks[0]) + "\nnote = 'attnbook\\ud800'\neval('1')"
    job = Job(
        notebook_with(assignment, {assignment.tasks[0].id: answer}),
        assignment,
        (assignment.tasks[0].id,),
        {},
        Limits(**PATIENT),
        "none",
    )
    (one,) = judge_notebook(job)
    assert (one.visible, one.library, one.failed) == (True, "attnbook", "")


OWN = {
    "eval of a model": (
        'def left_padded_mask(lengths, n):\n    """Like attnbook.Transformer in eval mode."""\n  '
        "  model.eval()\n    return n",
        [],
    ),
    "a local name": (
        "def left_padded_mask(lengths, n):\n    x = torch.arange(n)\n    return x",
        ["import attnbook\nx = attnbook.padding_mask(1, 2)"],
    ),
    "a parameter": (
        "def left_padded_mask(x, *more, y=None):\n    return [x for _ in more] + [(lambda: y)()]",
        ["from attnbook import padding_mask as x, attend as y, score as more"],
    ),
    "a loop": (
        "def left_padded_mask(lengths, n):\n    for x in range(n):\n        with open(n) as y:\n "
        "           return [z + x for z in y]",
        ["from attnbook import a as x, b as y, c as z"],
    ),
    "of a function around": (
        "def left_padded_mask(lengths, n):\n    x = n\n    def inside(z):\n        return x + "
        "z\n    return inside(n)",
        ["from attnbook import a as x, b as inside, c as z"],
    ),
    "bound anew": (
        "def left_padded_mask(lengths, n):\n    return mine(n)",
        ["from attnbook import padding_mask as mine", "def mine(n):\n    return n"],
    ),
    "bound anew in the answer": (
        "import torch as mine\ndef left_padded_mask(lengths, n):\n    return mine.arange(n)",
        ["from attnbook import padding_mask as mine"],
    ),
    "an import in another function": (
        "def left_padded_mask(lengths, n):\n    return x",
        ["def show():\n    from attnbook import padding_mask as x\n    return x", "x = 3"],
    ),
}


@pytest.mark.parametrize("name", OWN)
def test_names_of_one_s_own_are_not_those_of_other_cells(attention, name):
    answer, cells = OWN[name]
    assert uses_library(answer, [*cells, answer], attention) == ""


def test_what_runs_after_the_checks_is_not_part_of_the_answer(assignment):
    task = assignment.tasks[0]
    answer = f"def {task.function}(*given):\n    return other(x)"
    compares = (
        f"import attnbook\nx = attnbook.attend(1)\nother = attnbook.attend\n{task.function} = other"
    )
    for first, used in ((False, ""), (True, "attnbook.attend")):
        nb = nbformat.reads(notebook_with(assignment, {task.id: answer}).decode(), 4)
        nb.cells.insert(0 if first else len(nb.cells), new_code_cell(compares))
        nb, _ = restore(nb, assignment)
        assert uses_library(answer, cells_before_judging(nb, task), task) == used


@pytest.fixture(scope="module")
def book():
    return [
        (part, from_sections([part])[0], {task.id: solution_of(task) for task in part.tasks})
        for part in sections(find_book())
    ]


def test_no_solution_of_the_book_is_said_to_use_it(book):
    for _, assignment, answers in book:
        cells = [assignment.setup.source, *answers.values()]
        for task in assignment.tasks:
            assert uses_library(answers[task.id], cells, task) == "", task.id


def test_nor_in_its_chapter_s_notebook(book):
    for section, assignment, answers in book:
        nb, _ = restore(_chapter(section, answers), assignment)
        for task in assignment.tasks:
            assert uses_library(answers[task.id], cells_before_judging(nb, task), task) == "", (
                task.id
            )


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
        assert judge_notebook(
            Job(content, assignment, (task.id,), {task.id: seed}, Limits(**PATIENT), "none")
        )[0].hidden
    visible, hidden = seen[::2], seen[1::2]
    assert visible == [0] * 4, "the reader's inputs are the same for all"
    assert hidden[0] == hidden[1], "the same file is judged alike, whenever it is judged"
    assert len({seed % 2**32 for seed in hidden}) == 3 and not {0, 5, 6} & set(hidden), (
        "of the seed, PyTorch takes these bits"
    )


def test_messages_are_harmless():
    assert printable("a\x1b[31mb\u202ec\x00d\n") == "a[31mbcd\n"
    assert len(printable("x" * 10_000)) == 600
