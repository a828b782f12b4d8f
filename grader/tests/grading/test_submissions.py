"""What a hand-in is read as: formats, encodings, definitions."""

import json
import warnings
from dataclasses import replace

import nbformat
import pytest

from attnbook_grader.notebooks.reading import Unreadable
from attnbook_grader.notebooks.similarity import nameless
from attnbook_grader.notebooks.submissions import definitions, parse_submission
from bookbuild import setup_cell

from .conftest import ORDER, cell_named, found, judged, names, restored, write

NO_NOTEBOOK = "not a Jupyter notebook"
FORMAT = b'{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": '


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "the file is empty"),
        (b" \n", "the file is empty"),
        (b"hello", "not appear to be JSON"),
        (b"\xff\xfe\x00", NO_NOTEBOOK),
        (b"\x80\x04\x95cposix", NO_NOTEBOOK),
        (b"[1, 2]", NO_NOTEBOOK),
        (b'"text"', NO_NOTEBOOK),
        (b"[" * 100_000, NO_NOTEBOOK),
        (FORMAT + b'[{"cell_type": "code"}]}', NO_NOTEBOOK),
        (FORMAT + b"3}", NO_NOTEBOOK),
        (b'{"nbformat": 99, "cells": []}', NO_NOTEBOOK),
    ],
    ids=lambda value: str(value[-20:]),
)
def test_what_is_no_notebook_says_why(content, words):
    with pytest.raises(Unreadable, match=words):
        parse_submission(content)


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp1252"]
)
def test_other_encodings_are_read(hand_ins, encoding):
    nb = json.loads(hand_ins["right"])
    nb["cells"][1]["source"] = "# caf\xe9"
    text = json.dumps(nb, ensure_ascii=False)
    assert parse_submission(text.encode(encoding, errors="replace")).cells[1].source == "# caf\xe9"


def test_a_hand_in_prints_no_warning(hand_ins):
    nb = json.loads(hand_ins["right"])
    nb["cells"][1]["id"] = nb["cells"][0]["id"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(parse_submission(json.dumps(nb).encode()).cells) == len(nb["cells"])
        assert nameless("print('\\d')  # a pattern") == "print('\\\\d')"


def _deep(levels):
    return [_deep(levels - 1)] if levels else []


def moved_up(nb, cell):
    """The check of an answer stands above it."""
    nb["cells"].insert(0, nb["cells"].pop(nb["cells"].index(cell) + 1))


SPOILED = {
    "no outputs": lambda nb, cell: [cell.pop(name) for name in ("outputs", "execution_count")],
    "a picture without metadata": lambda nb, cell: cell.update(
        outputs=[{"output_type": "display_data", "data": {}}]
    ),
    "a stream without a name": lambda nb, cell: cell.update(
        outputs=[{"output_type": "stream", "text": "x"}]
    ),
    "a kernel without a name": lambda nb, cell: nb.update(
        metadata={"kernelspec": {}, "language_info": {}}
    ),
    "metadata of another kind": lambda nb, cell: nb.update(metadata=None, nbformat_minor="5"),
    "an odd id": lambda nb, cell: cell.update(id="my cell / 1 " * 9),
    "tags twice": lambda nb, cell: cell["metadata"].update(
        tags=["a", "a"], collapsed="no", scrolled=7
    ),
    "deep metadata": lambda nb, cell: cell["metadata"]["nbgrader"].update(points=_deep(400)),
    "a text cell without metadata": lambda nb, cell: nb["cells"].insert(
        0, {"cell_type": "markdown", "source": ["a\n", "b"]}
    ),
    "a cell of another kind": lambda nb, cell: nb["cells"].insert(
        0, {"cell_type": "sql", "source": "select", "metadata": {}}
    ),
    "an answer turned into text": lambda nb, cell: cell.update(cell_type="markdown"),
    "a check above its answer": moved_up,
    **{
        f"a cell named {name}": lambda nb, cell, name=name: nb["cells"][0]["metadata"].update(
            nbgrader={"grade_id": name}
        )
        for name in (["x"], {"a": 1}, 5, None)
    },
}


@pytest.mark.parametrize("name", SPOILED)
def test_what_grading_does_not_read_may_be_anything(assignment, hand_ins, name):
    nb, right = json.loads(hand_ins["right"]), restored(assignment, hand_ins["right"])[0]
    answers = (cell for cell in nb["cells"] if "00-weighted-sum" in str(cell["metadata"]))
    SPOILED[name](nb, next(answers))
    made, remarks = restored(assignment, json.dumps(nb).encode())
    assert names(made) == ORDER and remarks == {}
    assert [(cell.cell_type, cell.source) for cell in made.cells] == [
        (cell.cell_type, cell.source) for cell in right.cells
    ]


def test_a_renamed_file_of_an_old_format_belongs_to_its_assignment(tmp_path, assignment, right):
    old = nbformat.writes(nbformat.convert(right, 3), version=3)
    for name, text in (("named", old), ("unnamed", old.replace("nbgrader", "other"))):
        write(tmp_path, f"ann/{name}.ipynb", text)
    got, _, remarks = found(tmp_path, assignment, replace(assignment, name="other", tasks=()))
    assert [path for _, _, path in got] == ["ann/named.ipynb", "ann/unnamed.ipynb"]
    assert remarks == [] and parse_submission(old.encode()).nbformat == 4


def test_definitions():
    kept = [
        "import torch",
        "from os import path",
        "def f(a=1):\n    return a",
        "class A:\n    pass",
    ]
    code = "\n".join([*kept[:2], "x = train()", *kept[2:], "print(x)"])
    assert definitions(code) == "\n\n".join(kept)
    assert definitions("%pip install x\nimport y\nfor z in y:\n    !ls") == "import y"
    assert definitions("%%bash\nls -l") == definitions("what is this?") == ""


@pytest.mark.parametrize(
    "code",
    [
        "x = " + "-" * 20_000 + "1",
        "(" * 5000,
        "x = " + "[" * 150 + "]" * 150,
        "import y\n" * 100_000,
        "\0",
        "import y\nx = '\ud800'",
    ],
    ids=range(6),
)
def test_code_that_cannot_be_read_defines_nothing(code):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert definitions("import re\nx = '\\d'") == "import re\n\nx = '\\\\d'"
        assert definitions(code) == ("" if "[" not in code else code)


def test_constants_are_definitions():
    kept = [
        "SIZES = (8, 64)",
        "a = b = -1.5",
        "steps, width = (3, {'x': [None]})",
        "[a, *b] = 'abc'",
        "limit: int = 3",
    ]
    left = ["model.size = 3", "table[0] = 1", "x = train()", "y = 2 * SIZES", "z = f'{x}'"]
    left += ["x += 1", "limit: int", "w = {[]: 1}", "v = {**a}"]
    assert definitions("\n".join(kept + left)).split("\n\n") == kept


def test_the_set_up_cell_leaves_the_names_that_it_leaves_in_a_notebook(right, assignment):
    """An answer that uses them, and a constant of the chapter, is right when it is graded, too."""
    assert setup_cell.is_setup(assignment.setup.source)
    constant = "ONE = 1.0\nprint(1 / 0)"
    right.cells.insert(2, nbformat.v4.new_code_cell(constant))
    cell_named(right, "00-weighted-sum").source = """import sys
def weighted_sum(weights, values):
    assert 'matplotlib' not in sys.modules and not setup.full and attnbook.setup
    return ONE * weights.to(setup.device) @ values"""
    made_for = replace(assignment, book=assignment.book | {constant})
    (outcome,) = judged(nbformat.writes(right).encode(), made_for, "00.weighted_sum")
    assert outcome.note == "" and outcome.hidden and outcome.library == ""
