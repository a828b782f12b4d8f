"""What the grader makes of a handed-in notebook, without running it."""

from dataclasses import replace

import nbformat
import pytest
from nbformat.v4 import new_code_cell

from attnbook_grader.notebooks.submissions import grade_id, odd_cells, parse_submission, restore
from bookbuild import source
from bookbuild.source import cut_solution

from .conftest import ORDER, cell_named, judged, names, place_of, restored

NAME, ID = "00-weighted-sum", "00.weighted_sum"
CODE = "def weighted_sum(weights, values):\n    return "


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
    assert names(nb) == ORDER and remarks == {}
    for cell in (cell for task in assignment.tasks for cell in task.tests):
        found = cell_named(nb, grade_id(cell))
        assert found.source == cell.source
        assert found.metadata.nbgrader == cell.metadata.nbgrader
    nbformat.validate(nb)


def answer(made, name=NAME):
    return cell_named(made, name).source


def test_a_missing_answer_is_a_stub_with_a_remark(assignment, hand_ins):
    nb, remarks = restored(assignment, hand_ins["answer deleted"])
    assert set(remarks) == {ID} and sorted(names(nb)) == sorted(ORDER)
    assert source.STUB in answer(nb) and "BEGIN SOLUTION" not in answer(nb)
    (one,) = judged(hand_ins["answer deleted"], assignment, ID)
    assert one.note == remarks[ID] and one.code == "", "the stub is nobody's answer"


@pytest.mark.parametrize(
    "code",
    [
        f"{CODE}weights @ values",
        "weighted_sum = lambda w, v: w @ v",
        "def \uff57eighted_sum(w, v):\n    return w @ v",  # Python reads a plain w
    ],
)
def test_a_retyped_answer_is_the_answer(assignment, right, code):
    del right.cells[place_of(right, NAME)]
    first = "def weighted_sum(*inputs):\n    return 0"
    right.cells += [new_code_cell(text) for text in (first, code, "a = weighted_sum == 1")]
    made, remarks = restore(right, assignment)
    assert answer(made) == code and remarks == {}
    assert sorted(names(made)) == sorted(ORDER)
    assert not any(source.STUB in cell.source for cell in made.cells)
    place = place_of(made, NAME)
    after = [grade_id(cell) for cell in made.cells[place + 1 : place + 3]]
    assert after == [f"{NAME}-check", f"{NAME}-hidden"]


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
def test_the_stub_never_overrides_an_answer(assignment, right, how, left):
    place, own = place_of(right, NAME), new_code_cell(BINDS[how])
    if left == "no cell":
        right.cells[place] = own
    else:
        right.cells[place].source = cut_solution(assignment.tasks[0].solution.source)
        right.cells.insert(place + (left == "the stub before"), own)
    if left == "no names":
        for cell in right.cells:
            cell.metadata.pop("nbgrader", None)
    made, remarks = restore(right, assignment)
    assert answer(made) == BINDS[how] and remarks == {}
    assert not any(source.STUB in cell.source for cell in made.cells)


@pytest.mark.parametrize("left", ["the stub", "no names"])
def test_what_binds_the_name_below_the_check_is_no_answer(assignment, right, left):
    place, own = place_of(right, NAME), new_code_cell(f"{CODE}weights @ values  # mine")
    right.cells[place].source = cut_solution(assignment.tasks[0].solution.source)
    right.cells.insert(place + 1, own)
    if left == "no names":
        for cell in right.cells:
            cell.metadata.pop("nbgrader", None)
    right.cells.append(new_code_cell(f"{CODE}values  # tried out"))
    made, remarks = restore(right, assignment)
    assert answer(made) == own.source and remarks == {}


def test_an_answer_in_the_cell_of_another_is_found(assignment, right):
    first = right.cells.pop(place_of(right, NAME)).source
    cell_named(right, "00-temperature").source += f"\n\n{first}"
    made, remarks = restore(right, assignment)
    assert first in answer(made) and remarks == {}


def test_one_cell_may_hold_several_answers(assignment, hand_ins):
    nb = parse_submission(hand_ins["right without cell names"])
    functions = [cell for cell in nb.cells if "\ndef " in f"\n{cell.source}"]
    code = "\n\n".join(cell.source for cell in functions) + "\n# final"
    first = nb.cells.index(functions[0])
    nb.cells = [cell for cell in nb.cells if cell not in functions]
    nb.cells.insert(first, new_code_cell(code))
    made, remarks = restore(nb, assignment)
    assert answer(made) == answer(made, "00-temperature") == code and remarks == {}
    assert names(made) == ORDER


def test_a_function_of_the_chapter_is_no_answer(assignment, hand_ins):
    chapter = f"{CODE}weights @ values  # of the chapter"
    made_for = replace(assignment, book=assignment.book | {chapter})
    nb = parse_submission(hand_ins["untouched"])
    stub = nb.cells.pop(place_of(nb, NAME))
    nb.cells.append(new_code_cell(chapter))
    made, remarks = restore(nb, made_for)
    assert source.STUB in answer(made) and set(remarks) == {ID}
    nb.cells.insert(2, new_code_cell(stub.source))
    made, remarks = restore(nb, made_for)
    assert source.STUB in answer(made) and remarks == {}


@pytest.mark.parametrize("student", ["untouched", "answer deleted"])
def test_no_solution_of_the_book_is_handed_to_anybody(assignment, hand_ins, student):
    text = answer(restored(assignment, hand_ins[student])[0])
    assert "raise NotImplementedError" in text and "@" not in text.replace("...", "")


def test_cells_of_the_chapter_keep_only_definitions(assignment, hand_ins):
    nb, _ = restored(assignment, hand_ins["right in the chapter"])
    code = "\n".join(cell.source for cell in nb.cells if cell.cell_type == "code")
    assert "import attnbook\nsetup = attnbook.setup(seed=0, figures=False)\n" in code
    assert code.count("attnbook.setup(") == 1
    assert "def trained(seed)" in code and "\nmodel = trained(" not in code
    assert "scratch = [1, 2, 3]" in code, "the student's own cells run"


def test_own_cells_stay_in_their_place(assignment, right):
    place = place_of(right, NAME)
    right.cells.insert(place, new_code_cell("def helper(): pass"))
    right.cells.insert(place + 2, new_code_cell("after = 1"))
    made, _ = restore(right, assignment)
    code = [cell.source.split("\n")[0] for cell in made.cells if cell.cell_type == "code"]
    assert code[:2] == ["import attnbook", "def helper(): pass"] and code[3] == "after = 1"
    assert names(made) == ORDER


def copies(nb, *parts):
    """An answer, its check, … once more."""
    place = place_of(nb, NAME)
    return [nbformat.from_dict({**nb.cells[place + k], "id": f"again-{k}"}) for k in parts]


def test_a_copied_answer_cell_runs_but_has_no_name(assignment, right):
    (again,) = copies(right, 0)
    again.source = f"{CODE}2"
    right.cells.insert(place_of(right, NAME) + 1, again)
    made, _ = restore(right, assignment)
    assert names(made) == ORDER
    (found,) = [cell for cell in made.cells if cell.source == again.source]
    assert "nbgrader" not in found.metadata


def test_of_copies_the_first_that_is_written_is_the_answer(assignment, right):
    place, (task, _) = place_of(right, NAME), assignment.tasks
    written = right.cells[place].source
    right.cells[place + 2 : place + 2] = copies(right, 0, 1)
    assert not odd_cells(right, task)
    right.cells[place].source = cut_solution(task.solution.source)
    assert not odd_cells(right, task)
    made, _ = restore(right, assignment)
    assert [cell.source for cell in made.cells if grade_id(cell) == NAME] == [written]
    assert sorted(names(made)) == sorted(ORDER)
    right.cells[place].source = f"{CODE}1"
    assert odd_cells(right, task)


def test_a_student_who_lost_marks_hears_of_two_answers(assignment, right):
    place = place_of(right, NAME)
    right.cells[place + 2 : place + 2] = copies(right, 0, 1)
    right.cells[place].source = f"{CODE}1"
    (one,) = judged(nbformat.writes(right).encode(), assignment, ID)
    assert not one.visible
    assert one.remark.startswith("the notebook holds the cell for this answer more than once")
    odd = nbformat.from_dict(right)
    del odd.cells[place + 2 : place + 4]
    odd.cells[place].cell_type = "markdown"
    (one,) = judged(nbformat.writes(odd).encode(), assignment, ID)
    assert (
        one.remark == "the cell for this answer is no code cell any more; its text was run as code"
    )
    right.cells[place], right.cells[place + 2] = right.cells[place + 2], right.cells[place]
    (one,) = judged(nbformat.writes(right).encode(), assignment, ID)
    assert one.visible and one.hidden and not one.remark
