"""What the grader makes of a handed-in notebook, without running it."""

from dataclasses import replace

import nbformat
import pytest
from patience import PATIENT

from attnbook_grader.grading.judging import Job, judge_notebook
from attnbook_grader.notebooks.submissions import (
    answered_twice,
    grade_id,
    parse_submission,
    restore,
)
from attnbook_grader.sandbox.launch import Limits
from bookbuild import source
from bookbuild.source import cut_solution

from .conftest import ORDER, names, place_of, restored


@pytest.mark.parametrize(
    "student",
    [
        "right",
        "right in the chapter",
        "right without checks",
        "right without cell names",
        "edited checks",
    ],
)
def test_the_checks_are_those_of_the_source(assignment, hand_ins, student):
    nb, remarks = restored(assignment, hand_ins[student])
    assert names(nb) == ORDER
    assert remarks == {}
    tests = {
        cell.metadata.nbgrader.grade_id: cell for task in assignment.tasks for cell in task.tests
    }
    for cell in nb.cells:
        name = cell.metadata.get("nbgrader", {}).get("grade_id")
        if name in tests:
            assert cell.source == tests[name].source
            assert cell.metadata.nbgrader == tests[name].metadata.nbgrader
    nbformat.validate(nb)


def test_a_missing_answer_is_a_stub_with_a_remark(assignment, hand_ins):
    nb, remarks = restored(assignment, hand_ins["answer deleted"])
    assert set(remarks) == {"00.weighted_sum"}
    assert sorted(names(nb)) == sorted(ORDER)
    (stub,) = [
        cell
        for cell in nb.cells
        if cell.metadata.get("nbgrader", {}).get("grade_id") == "00-weighted-sum"
    ]
    assert source.STUB in stub.source
    assert "BEGIN SOLUTION" not in stub.source


def answer(made, name):
    return made.cells[place_of(made, name)].source


@pytest.mark.parametrize(
    "code",
    [
        "def weighted_sum(weights, values):\n    return weights @ values",
        "weighted_sum = lambda w, v: w @ v",
        "def \uff57eighted_sum(w, v):\n    return w @ v",  # Python reads a plain w
    ],
)
def test_a_retyped_answer_is_the_answer(assignment, hand_ins, code):
    nb = parse_submission(hand_ins["right"])
    del nb.cells[place_of(nb, "00-weighted-sum")]
    nb.cells += [
        nbformat.v4.new_code_cell(text)
        for text in ("def weighted_sum(*inputs):\n    return 0", code, "a = weighted_sum == 1")
    ]
    made, remarks = restore(nb, assignment)
    assert answer(made, "00-weighted-sum") == code and remarks == {}
    assert sorted(names(made)) == sorted(ORDER) and not any(
        source.STUB in cell.source for cell in made.cells
    )
    assert [
        made.cells[place_of(made, "00-weighted-sum") + n].metadata.nbgrader.grade_id[16:]
        for n in (1, 2)
    ] == ["check", "hidden"]


BINDS = {
    "in a block": "if True:\n    def weighted_sum(w, v):\n        return w @ v",
    "annotated": "weighted_sum: object = lambda w, v: w @ v",
    "a tuple": "weighted_sum, other = (lambda w, v: w @ v), 3",
    "indented by a tab": "try:\n\tweighted_sum = torch.matmul\nfinally:\n\tpass",
    "decorated": "@torch.no_grad()\ndef weighted_sum(w, v):\n    return w @ v",
    "a class": "class weighted_sum:\n    pass",
}


@pytest.mark.parametrize("left", ["no cell", "the stub before", "the stub after", "no names"])
@pytest.mark.parametrize("how", BINDS)
def test_the_stub_never_overrides_an_answer(assignment, hand_ins, how, left):
    nb = parse_submission(hand_ins["right"])
    place = place_of(nb, "00-weighted-sum")
    stub = cut_solution(assignment.tasks[0].solution.source)
    own = nbformat.v4.new_code_cell(BINDS[how])
    if left == "no cell":
        nb.cells[place] = own
    else:
        nb.cells[place].source = stub
        nb.cells.insert(place + (left == "the stub before"), own)
    if left == "no names":
        for cell in nb.cells:
            cell.metadata.pop("nbgrader", None)
    made, remarks = restore(nb, assignment)
    assert answer(made, "00-weighted-sum") == BINDS[how] and remarks == {}
    assert not any(source.STUB in cell.source for cell in made.cells)


def test_an_answer_in_the_cell_of_another_is_found(assignment, hand_ins):
    nb = parse_submission(hand_ins["right"])
    first = nb.cells[place_of(nb, "00-weighted-sum")].source
    del nb.cells[place_of(nb, "00-weighted-sum")]
    nb.cells[place_of(nb, "00-temperature")].source += f"\n\n{first}"
    made, remarks = restore(nb, assignment)
    assert first in answer(made, "00-weighted-sum") and remarks == {}


def test_one_cell_may_hold_several_answers(assignment, hand_ins):
    nb = parse_submission(hand_ins["right without cell names"])
    code = "\n\n".join(
        cell.source
        for cell in nb.cells
        if cell.source.startswith("def ") or "\ndef " in cell.source
    )
    nb.cells.append(nbformat.v4.new_code_cell(code + "\n# final"))
    made, remarks = restore(nb, assignment)
    assert (
        answer(made, "00-weighted-sum") == answer(made, "00-temperature") == code + "\n# final"
        and remarks == {}
    )
    assert names(made) == ORDER


def test_a_function_of_the_chapter_is_no_answer(assignment, hand_ins):
    chapter = "def weighted_sum(weights, values):\n    return weights @ values  # of the chapter"
    made_for = replace(assignment, book=assignment.book | {chapter})
    nb = parse_submission(hand_ins["untouched"])
    stub = nb.cells.pop(place_of(nb, "00-weighted-sum"))
    nb.cells.append(nbformat.v4.new_code_cell(chapter))
    made, remarks = restore(nb, made_for)
    assert source.STUB in answer(made, "00-weighted-sum") and set(remarks) == {"00.weighted_sum"}
    nb.cells.insert(2, nbformat.v4.new_code_cell(stub.source))
    made, remarks = restore(nb, made_for)
    assert source.STUB in answer(made, "00-weighted-sum") and remarks == {}


def test_no_solution_of_the_book_is_handed_to_anybody(assignment, hand_ins):
    for student in ("untouched", "answer deleted"):
        nb, _ = restored(assignment, hand_ins[student])
        text = next(
            c.source
            for c in nb.cells
            if c.metadata.get("nbgrader", {}).get("grade_id") == "00-weighted-sum"
        )
        assert "raise NotImplementedError" in text
        assert "@" not in text.replace("...", "")


def test_cells_of_the_chapter_keep_only_definitions(assignment, hand_ins):
    nb, _ = restored(assignment, hand_ins["right in the chapter"])
    code = "\n".join(cell.source for cell in nb.cells if cell.cell_type == "code")
    assert (
        "import attnbook\nsetup = attnbook.setup(seed=0, figures=False)\n" in code
        and code.count("attnbook.setup(") == 1
    )
    assert "def trained(seed)" in code and "\nmodel = trained(" not in code
    assert "scratch = [1, 2, 3]" in code, "the student's own cells run"


def test_own_cells_stay_in_their_place(assignment, hand_ins):
    nb = parse_submission(hand_ins["right"])
    place = next(
        i
        for i, c in enumerate(nb.cells)
        if c.metadata.get("nbgrader", {}).get("grade_id") == "00-weighted-sum"
    )
    nb.cells.insert(place, nbformat.v4.new_code_cell("def helper(): pass"))
    nb.cells.insert(place + 2, nbformat.v4.new_code_cell("after = 1"))
    made, _ = restore(nb, assignment)
    code = [cell.source.split("\n")[0] for cell in made.cells if cell.cell_type == "code"]
    assert code[:2] == ["import attnbook", "def helper(): pass"]
    assert code[3] == "after = 1"
    assert names(made) == ORDER


def test_a_copied_answer_cell_runs_but_has_no_name(assignment, hand_ins):
    nb = parse_submission(hand_ins["right"])
    place = next(
        i
        for i, c in enumerate(nb.cells)
        if c.metadata.get("nbgrader", {}).get("grade_id") == "00-weighted-sum"
    )
    again = nbformat.from_dict(
        {
            **nb.cells[place],
            "id": "again",
            "source": "def weighted_sum(weights, values):\n    return 2",
        }
    )
    nb.cells.insert(place + 1, again)
    made, _ = restore(nb, assignment)
    assert names(made) == ORDER
    assert any(
        cell.source == again.source and "nbgrader" not in cell.metadata for cell in made.cells
    )


def test_of_copies_the_first_that_is_written_is_the_answer(assignment, hand_ins):
    nb = parse_submission(hand_ins["right"])
    place = next(
        i
        for i, c in enumerate(nb.cells)
        if c.metadata.get("nbgrader", {}).get("grade_id") == "00-weighted-sum"
    )
    task = next(task for task in assignment.tasks if task.key == "00-weighted-sum")
    right = nb.cells[place].source
    # answer and check
    copies = [
        nbformat.from_dict({**cell, "id": f"again-{k}"})
        for k, cell in enumerate(nb.cells[place : place + 2])
    ]
    nb.cells[place + 2 : place + 2] = copies
    assert not answered_twice(nb, task)
    nb.cells[place].source = cut_solution(task.solution.source)
    assert not answered_twice(nb, task)
    made, _ = restore(nb, assignment)
    assert [cell.source for cell in made.cells if grade_id(cell) == "00-weighted-sum"] == [right]
    assert sorted(names(made)) == sorted(ORDER)
    nb.cells[place].source = "def weighted_sum(weights, values):\n    return 1"
    assert answered_twice(nb, task)


def test_a_student_who_lost_marks_hears_of_two_answers(assignment, hand_ins):
    nb = parse_submission(hand_ins["right"])
    place = next(
        i
        for i, c in enumerate(nb.cells)
        if c.metadata.get("nbgrader", {}).get("grade_id") == "00-weighted-sum"
    )
    nb.cells[place + 2 : place + 2] = [
        nbformat.from_dict({**cell, "id": f"again-{k}"})
        for k, cell in enumerate(nb.cells[place : place + 2])
    ]
    nb.cells[place].source = "def weighted_sum(weights, values):\n    return 1"
    (one,) = judge_notebook(
        Job(
            nbformat.writes(nb).encode(),
            assignment,
            ("00.weighted_sum",),
            {"00.weighted_sum": 7},
            Limits(**PATIENT),
            "none",
        )
    )
    assert not one.visible and one.remark.startswith(
        "the notebook holds the cell for this answer more than once"
    )
    nb.cells[place], nb.cells[place + 2] = nb.cells[place + 2], nb.cells[place]
    (one,) = judge_notebook(
        Job(
            nbformat.writes(nb).encode(),
            assignment,
            ("00.weighted_sum",),
            {"00.weighted_sum": 7},
            Limits(**PATIENT),
            "none",
        )
    )
    assert one.visible and one.hidden and not one.remark


def test_a_check_above_its_answer_comes_after_it(assignment, hand_ins):
    nb = parse_submission(hand_ins["right"])
    place = next(
        i
        for i, c in enumerate(nb.cells)
        if c.metadata.get("nbgrader", {}).get("grade_id") == "00-weighted-sum-check"
    )
    nb.cells.insert(0, nb.cells.pop(place))
    made, _ = restore(nb, assignment)
    assert names(made) == ORDER


@pytest.mark.parametrize("name", [["x"], {"a": 1}, 5, None], ids=str)
def test_a_cell_name_that_is_no_text_is_none(assignment, hand_ins, name):
    nb = parse_submission(hand_ins["right"])
    nb.cells[0].metadata["nbgrader"] = {"grade_id": name}
    made, remarks = restore(nb, assignment)
    assert names(made) == ORDER and remarks == {}


def test_an_answer_turned_into_text_is_code_again(assignment, hand_ins):
    nb = parse_submission(hand_ins["right"])
    cell = next(
        c for c in nb.cells if c.metadata.get("nbgrader", {}).get("grade_id") == "00-weighted-sum"
    )
    cell.cell_type = "markdown"
    for name in ("outputs", "execution_count"):
        cell.pop(name)
    made, _ = restore(nb, assignment)
    assert (
        next(
            c
            for c in made.cells
            if c.metadata.get("nbgrader", {}).get("grade_id") == "00-weighted-sum"
        ).cell_type
        == "code"
    )
