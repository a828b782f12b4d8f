"""What the grader makes of a handed-in notebook, without running it."""

import json

import nbformat
import pytest

from attnbook.course import source
from attnbook.course.made_up import made_up_class
from attnbook.course.submissions import Unreadable, definitions, find_submissions, read_submission, restore


@pytest.fixture(scope="module")
def hand_ins(section):
    return {student: text for student, (text, _) in made_up_class(section).items()}


def restored(section, text):
    return restore(nbformat.reads(text, 4), section)


def names(nb):
    return [cell.metadata.nbgrader.grade_id for cell in nb.cells if "nbgrader" in cell.metadata]


ORDER = [f"00-{name}{part}" for name in ("weighted-sum", "temperature") for part in ("", "-check", "-hidden")]


@pytest.mark.parametrize(
    "student", ["right", "right in the chapter", "right without checks", "right without cell names", "edited checks"]
)
def test_the_checks_are_those_of_the_source(section, hand_ins, student):
    nb, remarks = restored(section, hand_ins[student])
    assert names(nb) == ORDER
    assert remarks == {}
    tests = {cell.metadata.nbgrader.grade_id: cell for task in section.tasks for cell in task.tests}
    for cell in nb.cells:
        name = cell.metadata.get("nbgrader", {}).get("grade_id")
        if name in tests:
            assert cell.source == tests[name].source
            assert cell.metadata.nbgrader == tests[name].metadata.nbgrader
    nbformat.validate(nb)


def test_a_missing_answer_is_a_stub_with_a_remark(section, hand_ins):
    nb, remarks = restored(section, hand_ins["answer deleted"])
    assert set(remarks) == {"00.weighted_sum"}
    assert sorted(names(nb)) == sorted(ORDER)
    (stub,) = [cell for cell in nb.cells if cell.metadata.get("nbgrader", {}).get("grade_id") == "00-weighted-sum"]
    assert source.STUB in stub.source
    assert "BEGIN SOLUTION" not in stub.source


def test_no_solution_of_the_book_is_handed_to_anybody(section, hand_ins):
    for student in ("untouched", "answer deleted"):
        nb, _ = restored(section, hand_ins[student])
        text = next(c.source for c in nb.cells if c.metadata.get("nbgrader", {}).get("grade_id") == "00-weighted-sum")
        assert "raise NotImplementedError" in text
        assert "@" not in text.replace("...", "")


def test_cells_of_the_chapter_keep_only_definitions(section, hand_ins):
    nb, _ = restored(section, hand_ins["right in the chapter"])
    code = "\n".join(cell.source for cell in nb.cells if cell.cell_type == "code")
    assert "attnbook.setup(" not in code
    assert "fit(model" not in code
    assert "scratch = [1, 2, 3]" in code, "the student's own cells run"


def test_own_cells_stay_in_their_place(section, hand_ins):
    nb = nbformat.reads(hand_ins["right"], 4)
    place = next(i for i, c in enumerate(nb.cells) if c.metadata.get("nbgrader", {}).get("grade_id") == "00-weighted-sum")
    nb.cells.insert(place, nbformat.v4.new_code_cell("def helper(): pass"))
    nb.cells.insert(place + 2, nbformat.v4.new_code_cell("after = 1"))
    made, _ = restore(nb, section)
    code = [cell.source.split("\n")[0] for cell in made.cells if cell.cell_type == "code"]
    assert code.index("def helper(): pass") < names(made).index("00-weighted-sum") + 1
    assert code[2] == "after = 1"
    assert names(made) == ORDER


def test_a_copied_answer_cell_runs_but_has_no_name(section, hand_ins):
    nb = nbformat.reads(hand_ins["right"], 4)
    place = next(i for i, c in enumerate(nb.cells) if c.metadata.get("nbgrader", {}).get("grade_id") == "00-weighted-sum")
    again = nbformat.from_dict({**nb.cells[place], "id": "again", "source": "def weighted_sum(weights, values):\n    return 2"})
    nb.cells.insert(place + 1, again)
    made, _ = restore(nb, section)
    assert names(made) == ORDER
    assert any(cell.source == again.source and "nbgrader" not in cell.metadata for cell in made.cells)


def test_a_check_above_its_answer_comes_after_it(section, hand_ins):
    nb = nbformat.reads(hand_ins["right"], 4)
    place = next(i for i, c in enumerate(nb.cells) if c.metadata.get("nbgrader", {}).get("grade_id") == "00-weighted-sum-check")
    nb.cells.insert(0, nb.cells.pop(place))
    made, _ = restore(nb, section)
    assert names(made) == ORDER


def test_an_answer_turned_into_text_is_code_again(section, hand_ins):
    nb = nbformat.reads(hand_ins["right"], 4)
    cell = next(c for c in nb.cells if c.metadata.get("nbgrader", {}).get("grade_id") == "00-weighted-sum")
    cell.cell_type = "markdown"
    for name in ("outputs", "execution_count"):
        cell.pop(name)
    made, _ = restore(nb, section)
    assert next(c for c in made.cells if c.metadata.get("nbgrader", {}).get("grade_id") == "00-weighted-sum").cell_type == "code"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "not appear to be JSON"),
        (b"\xff\xfe\x00", "cannot be read as UTF-8"),
        (b"[1, 2]", "not a Jupyter notebook"),
        (b'"text"', "not a Jupyter notebook"),
        (b'{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [{"cell_type": "code"}]}', "not a Jupyter notebook"),
        (b'{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": 3}', "not a Jupyter notebook"),
        (b'{"nbformat": 99, "cells": []}', "not a Jupyter notebook"),
    ],
)
def test_what_is_no_notebook_says_why(tmp_path, content, words):
    path = tmp_path / "x.ipynb"
    path.write_bytes(content)
    with pytest.raises(Unreadable, match=words):
        read_submission(path)


def test_a_byte_order_mark_and_an_old_format_are_read(tmp_path, hand_ins):
    path = tmp_path / "x.ipynb"
    path.write_bytes(b"\xef\xbb\xbf" + hand_ins["right"].encode())
    assert len(read_submission(path).cells) == len(json.loads(hand_ins["right"])["cells"])
    old = nbformat.convert(nbformat.reads(hand_ins["right"], 4), 3)
    path.write_text(nbformat.writes(old, version=3))
    assert read_submission(path).nbformat == 4


def test_definitions():
    code = "import torch\nfrom os import path\nx = train()\ndef f(a=1):\n    return a\nclass A:\n    pass\nprint(x)"
    assert definitions(code) == "import torch\n\nfrom os import path\n\ndef f(a=1):\n    return a\n\nclass A:\n    pass"
    assert definitions("%pip install x\nimport y") == ""


def test_submissions_are_found_at_any_depth(tmp_path):
    for name in ("ann/soft_lookup.ipynb", "bob/deep/00_attention/soft_lookup.ipynb", "bob/soft_lookup.ipynb", "cy/x.ipynb"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "ann/.ipynb_checkpoints").mkdir()
    (tmp_path / "ann/.ipynb_checkpoints/soft_lookup.ipynb").write_text("")
    (tmp_path / "loose.ipynb").write_text("")
    found, remarks = find_submissions(tmp_path, ["soft_lookup"])
    assert [(one.student, one.path and one.path.relative_to(tmp_path).as_posix()) for one in found] == [
        ("ann", "ann/soft_lookup.ipynb"), ("bob", "bob/deep/00_attention/soft_lookup.ipynb"), ("cy", None)
    ]
    assert len(remarks) == 3
