"""What a hand-in is read as: formats, encodings, definitions."""

import json
import warnings
from dataclasses import replace

import nbformat
import pytest
from patience import PATIENT

from attnbook_grader.grading.judging import Job, judge_notebook
from attnbook_grader.notebooks.reading import Unreadable
from attnbook_grader.notebooks.similarity import plain
from attnbook_grader.notebooks.submissions import definitions, parse_submission
from attnbook_grader.sandbox.launch import Limits

from .conftest import ORDER, found, names, place_of, restored


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "the file is empty"),
        (b" \n", "the file is empty"),
        (b"hello", "not appear to be JSON"),
        (b"\xff\xfe\x00", "not a Jupyter notebook"),
        (b"\x80\x04\x95cposix", "not a Jupyter notebook"),
        (b"[1, 2]", "not a Jupyter notebook"),
        (b'"text"', "not a Jupyter notebook"),
        (b"[" * 100_000, "not a Jupyter notebook"),
        (
            b'{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [{"cell_type": '
            b'"code"}]}',
            "not a Jupyter notebook",
        ),
        (
            b'{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": 3}',
            "not a Jupyter notebook",
        ),
        (b'{"nbformat": 99, "cells": []}', "not a Jupyter notebook"),
    ],
    ids=lambda value: str(value[:20]),
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
        assert plain("x = '\\d'  # a pattern") == "x = '\\\\d'"


def _deep(levels):
    return [_deep(levels - 1)] if levels else []


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
}


@pytest.mark.parametrize("name", SPOILED)
def test_what_grading_does_not_read_may_be_anything(tmp_path, assignment, hand_ins, name):
    nb = json.loads(hand_ins["right"])
    SPOILED[name](
        nb,
        next(
            cell
            for cell in nb["cells"]
            if cell["metadata"].get("nbgrader", {}).get("grade_id") == "00-weighted-sum"
        ),
    )
    made, remarks = restored(assignment, json.dumps(nb).encode())
    assert names(made) == ORDER and remarks == {}
    assert [cell.source for cell in made.cells] == [
        cell.source for cell in restored(assignment, hand_ins["right"])[0].cells
    ]


def test_a_renamed_file_of_an_old_format_belongs_to_its_assignment(tmp_path, assignment, hand_ins):
    (tmp_path / "ann").mkdir()
    old = nbformat.writes(nbformat.convert(parse_submission(hand_ins["right"]), 3), version=3)
    for name, text in (("named", old), ("unnamed", old.replace("nbgrader", "other"))):
        (tmp_path / "ann" / f"{name}.ipynb").write_text(text)
    got, _, remarks = found(tmp_path, assignment, replace(assignment, name="other", tasks=()))
    assert [path for _, _, path in got] == [
        "ann/named.ipynb",
        "ann/unnamed.ipynb",
    ] and remarks == []


def test_an_old_format_is_read(hand_ins):
    old = nbformat.convert(parse_submission(hand_ins["right"]), 3)
    assert parse_submission(nbformat.writes(old, version=3).encode()).nbformat == 4


def test_definitions():
    code = (
        "import torch\nfrom os import path\nx = train()\ndef f(a=1):\n    return a\nclass "
        "A:\n    pass\nprint(x)"
    )
    assert (
        definitions(code)
        == "import torch\n\nfrom os import path\n\ndef f(a=1):\n    return a\n\nclass A:\n    pass"
    )
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
    left = [
        "model.size = 3",
        "table[0] = 1",
        "x = train()",
        "y = 2 * SIZES",
        "z = f'{x}'",
        "x += 1",
        "limit: int",
        "w = {[]: 1}",
        "v = {**a}",
    ]
    assert definitions("\n".join(kept + left)).split("\n\n") == kept


def test_the_set_up_cell_leaves_the_names_that_it_leaves_in_a_notebook(
    hand_ins, assignment, section
):
    """An answer that uses them, and a constant of the chapter, is right when it is graded, too."""
    from bookbuild import setup_cell

    assert setup_cell.is_setup(assignment.setup.source)
    nb = parse_submission(hand_ins["right"])
    nb.cells.insert(2, nbformat.v4.new_code_cell("ONE = 1.0\nprint(1 / 0)"))
    code = (
        "import sys\ndef weighted_sum(weights, values):\n    assert 'matplotlib' not in "
        "sys.modules and not setup.full and attnbook.setup\n"
    )
    nb.cells[place_of(nb, "00-weighted-sum")].source = (
        code + "    return ONE * weights.to(setup.device) @ values"
    )
    made_for = replace(assignment, book=assignment.book | {nb.cells[2].source})
    (outcome,) = judge_notebook(
        Job(
            nbformat.writes(nb).encode(),
            made_for,
            ("00.weighted_sum",),
            {"00.weighted_sum": 5},
            Limits(**PATIENT),
            "none",
        )
    )
    assert outcome.note == "" and outcome.hidden and outcome.library == ""
