"""What the grader makes of a handed-in notebook, without running it."""

import json
import os
import re
import warnings
from dataclasses import replace
from datetime import UTC, datetime

import nbformat
import pytest
from patience import PATIENT

from attnbook_grader.course.assignments import notebook_with
from attnbook_grader.course.synthetic_class import synthetic_class
from attnbook_grader.grading.judging import Job, judge_notebook
from attnbook_grader.notebooks import hand_ins as hand_ins_module
from attnbook_grader.notebooks.hand_ins import find_hand_ins, safe_names
from attnbook_grader.notebooks.similarity import plain
from attnbook_grader.notebooks.submissions import (
    LARGEST,
    Unreadable,
    answered_twice,
    definitions,
    grade_id,
    parse_submission,
    restore,
)
from attnbook_grader.sandbox.launch import Limits
from bookbuild import source
from bookbuild.source import cut_solution


@pytest.fixture(scope="module")
def hand_ins(assignment, section):
    return {student: one.content for student, one in synthetic_class(assignment, section).items()}


def restored(assignment, content):
    return restore(parse_submission(content), assignment)


def names(nb):
    return [cell.metadata.nbgrader.grade_id for cell in nb.cells if "nbgrader" in cell.metadata]


ORDER = [
    f"00-{name}{part}"
    for name in ("weighted-sum", "temperature")
    for part in ("", "-check", "-hidden")
]


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


def place_of(nb, name):
    return next(
        i
        for i, cell in enumerate(nb.cells)
        if cell.metadata.get("nbgrader", {}).get("grade_id") == name
    )


def answer(made, name):
    return made.cells[place_of(made, name)].source


@pytest.mark.parametrize(
    "code",
    [
        "def weighted_sum(weights, values):\n    return weights @ values",
        "weighted_sum = lambda w, v: w @ v",
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
        (b"{" + bytes(LARGEST), "larger than 20 MB"),
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
    nb["cells"][0]["source"] = "# caf\xe9"
    text = json.dumps(nb, ensure_ascii=False)
    assert parse_submission(text.encode(encoding, errors="replace")).cells[0].source == "# caf\xe9"


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
    from attnbook_grader.grading.judging import Job, judge_notebook
    from attnbook_grader.sandbox.launch import Limits
    from bookbuild.rules import SETUP

    assert SETUP == assignment.setup.source and SETUP.endswith(
        "    import attnbook\nsetup = attnbook.setup(seed=0)"
    )
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


def found(folder, *assignments):
    hand_ins, students, remarks = find_hand_ins(folder, assignments)
    return (
        [
            (one.student, one.assignment, one.path.relative_to(folder).as_posix())
            for one in hand_ins
        ],
        students,
        remarks,
    )


def test_hand_ins_are_found_at_any_depth_and_under_any_name(tmp_path, assignment, hand_ins):
    right = hand_ins["right"]
    for name in (
        "ann/soft_lookup.ipynb",
        "bob/deep/00_attention/Kopie von X (2).ipynb",
        "bob/soft_lookup.ipynb",
        "cy/empty.IPYNB",
        "Zoë 李/a b.ipynb",
        "ann/.ipynb_checkpoints/soft_lookup-checkpoint.ipynb",
        "..dots/x.ipynb",
        "back\\slash/x.ipynb",
        "soft_lookup_dora (1).ipynb",
        "ed.ipynb",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(right)
    (tmp_path / "notes.txt").write_text("")
    got, students, remarks = found(tmp_path, assignment)
    assert students == sorted(["ann", "bob", "cy", "Zoë 李", "back\\slash", "dora", "ed"])
    assert [one[2] for one in got if one[0] == "bob"] == [
        "bob/soft_lookup.ipynb",
        "bob/deep/00_attention/Kopie von X (2).ipynb",
    ]
    assert (
        len(got) == 8
        and {one[1] for one in got} == {"soft_lookup"}
        and remarks == ["notes.txt: no notebook (.ipynb), left out"]
    )


def test_a_notebook_without_any_answer_belongs_to_nobody(tmp_path, assignment):
    (tmp_path / "ann").mkdir()
    (tmp_path / "ann" / "holiday.ipynb").write_text(
        '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'
    )
    got, students, remarks = found(tmp_path, assignment)
    assert (
        got == []
        and students == ["ann"]
        and len(remarks) == 1
        and "belongs to no assignment" in remarks[0]
    )


def test_links_are_not_followed(tmp_path, assignment, hand_ins):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "secret.ipynb").write_bytes(hand_ins["right"])
    folder = tmp_path / "hand-ins"
    for student in ("ann", "bob"):
        (folder / student).mkdir(parents=True)
    (folder / "ann" / "soft_lookup.ipynb").symlink_to(tmp_path / "elsewhere" / "secret.ipynb")
    (folder / "bob" / "deep").symlink_to(tmp_path / "elsewhere")
    (folder / "cy").symlink_to(tmp_path / "elsewhere")
    got, students, remarks = found(folder, assignment)
    assert got == [] and students == ["ann", "bob"]
    assert len(remarks) == 2 and all("link" in remark for remark in remarks)


def test_what_is_no_notebook_is_left_out_with_a_word(tmp_path, assignment, hand_ins):
    for name in (
        "Ida/hand.zip",
        "Ida/deep/week1.py",
        "Hugo.zip",
        "Jo/soft_lookup.ipynb",
        "Kim.IPYNB",
        *(f"Jo/{n}.png" for n in range(9)),
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(hand_ins["right"])
    os.mkfifo(tmp_path / "top.ipynb")
    os.mkfifo(tmp_path / "Jo" / "pipe.ipynb")
    got, students, remarks = found(tmp_path, assignment)
    assert students == ["Ida", "Jo", "Kim"] and len(got) == 2
    assert remarks == [
        "Hugo.zip: no notebook (.ipynb), left out",
        "Ida: hand.zip, deep/week1.py: no notebook (.ipynb), left out",
        "Jo/pipe.ipynb: a link or another thing that is no file, left out",
        "Jo: 0.png, 1.png, 2.png, 3.png, 4.png and 4 more: no notebook (.ipynb), left out",
        "top.ipynb: a link or another thing that is no file, left out",
    ]


def test_names_are_shown_so_that_everything_takes_them(tmp_path, assignment, hand_ins):
    for name in (
        b"Zo\xeb/soft_lookup\xff.ipynb",
        b"a\nb/soft_lookup.ipynb",
        "e\u202ev\u202d\x1b[2J.ipynb".encode(),
        "نرگس\u200cها/soft_lookup.ipynb".encode(),
        b"x\n.zip",
    ):
        path = os.path.join(os.fsencode(tmp_path), name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(hand_ins["right"])
    (tmp_path / "times.csv").write_text(
        'file,time\n"a\nb/soft_lookup.ipynb",2027-01-31T12:00:00+01:00\n'
    )
    got, students, remarks = find_hand_ins(tmp_path, [assignment])
    assert (
        set(students)
        == {r"Zo\xeb", r"a\nb", r"e\u202ev\u202d\x1b[2J", "نرگس\u200cها"}
        == {one.student for one in got}
    )
    assert [one.name for one in got if one.student == r"Zo\xeb"] == [r"soft_lookup\xff.ipynb"]
    assert [one.time.year for one in got if one.student == r"a\nb"] == [2027]
    assert remarks == [r"x\n.zip: no notebook (.ipynb), left out"] and all(
        one.content() == hand_ins["right"] for one in got
    )


def test_a_name_within_a_longer_one_is_not_meant(tmp_path):
    from attnbook_grader.course.assignments import from_sections
    from attnbook_grader.course.exercises import find_book, sections

    both = from_sections(sections(find_book(), ["documents_and_memory", "memory"]))
    for folder, name in (
        ("ann", "documents_and_memory"),
        ("bob", "Memory (1)"),
        ("cid", "memory and documents_and_memory"),
        ("__MACOSX", "memory"),
    ):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"{name}.ipynb").write_bytes(b"{cut off")
    found, students, _ = find_hand_ins(tmp_path, both)
    assert [(one.student, one.assignment) for one in found] == [
        ("ann", "documents_and_memory"),
        ("bob", "memory"),
        ("cid", "memory"),
    ]
    assert "__MACOSX" not in students


def test_a_hand_in_belongs_where_its_cells_belong(tmp_path, hand_ins):
    from attnbook_grader.course.assignments import from_sections
    from attnbook_grader.course.exercises import find_book, sections

    first, second = from_sections(sections(find_book(), ["soft_lookup", "weights_as_explanation"]))
    (tmp_path / "ann").mkdir()
    (tmp_path / "ann" / "soft_lookup.ipynb").write_bytes(notebook_with(second, {}))
    (tmp_path / "ann" / "any.ipynb").write_bytes(hand_ins["right without cell names"])
    (tmp_path / "ann" / "weights_as_explanation (3).ipynb").write_bytes(b"no notebook")
    (tmp_path / "ann" / "other.ipynb").write_bytes(b"no notebook")
    got, _, remarks = found(tmp_path, first, second)
    assert {(name, path) for _, name, path in got} == {
        ("weights_as_explanation", "ann/soft_lookup.ipynb"),
        ("soft_lookup", "ann/any.ipynb"),
        ("weights_as_explanation", "ann/weights_as_explanation (3).ipynb"),
    }
    assert remarks == [
        "ann/other.ipynb: belongs to no assignment (soft_lookup, weights_as_explanation), left out"
    ]


def test_a_notebook_of_two_assignments_is_shared_unless_its_name_says_which(
    tmp_path, assignment, hand_ins
):
    weeks = [
        replace(assignment, name=name, tasks=(task,))
        for name, task in zip(("week-1", "week-2"), assignment.tasks)
    ]
    (tmp_path / "ann").mkdir()
    for name in ("soft_lookup", "week-2", "week-1 and week-2"):
        (tmp_path / "ann" / f"{name}.ipynb").write_bytes(hand_ins["right"])
    (tmp_path / "ann" / "other.ipynb").write_bytes(notebook_with(weeks[0], {}))
    assert [
        (one.path.stem, one.assignment, one.shared) for one in find_hand_ins(tmp_path, weeks)[0]
    ] == [
        ("other", "week-1", False),
        ("soft_lookup", "week-1", True),
        ("soft_lookup", "week-2", True),
        ("week-1 and week-2", "week-1", False),
        ("week-1 and week-2", "week-2", False),
        ("week-2", "week-2", False),
    ]


def test_times_come_from_the_file_or_the_table(tmp_path, assignment, hand_ins):
    (tmp_path / "ann").mkdir()
    (tmp_path / "ann" / "x.ipynb").write_bytes(hand_ins["right"])
    os.utime(tmp_path / "ann" / "x.ipynb", (1_000_000_000, 1_000_000_000))
    ((one,), _, _) = find_hand_ins(tmp_path, [assignment])
    assert one.time == datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC)
    (tmp_path / "times.csv").write_text("file,time\nann/x.ipynb,2027-01-31T12:00:00+01:00\n")
    ((one,), _, _) = find_hand_ins(tmp_path, [assignment])
    assert one.time == datetime(2027, 1, 31, 11, tzinfo=UTC)
    (tmp_path / "times.csv").write_text("file,time\nann/x.ipynb,2027-01-31T12:00:00\n")
    with pytest.raises(
        ValueError, match="line 2: expected the columns file and time, a time with its zone"
    ):
        find_hand_ins(tmp_path, [assignment])
    (tmp_path / "times.csv").write_text("file,time\nann/x.ipynb,yesterday\n")
    with pytest.raises(ValueError, match="line 2: expected the columns file and time"):
        find_hand_ins(tmp_path, [assignment])
    (tmp_path / "times.csv").write_text("file,time\nann/y.ipynb,2027-01-31T12:00:00+01:00\n")
    assert find_hand_ins(tmp_path, [assignment])[2] == [
        f"times.csv: ann/y.ipynb: there is no notebook of this name, expected its path in "
        f"{tmp_path}, as STUDENT/NOTEBOOK.ipynb"
    ]
    (tmp_path / "times.csv").write_bytes(
        "file,time\nZoë/x.ipynb,2027-01-31T12:00:00+01:00\n".encode("cp1252")
    )
    with pytest.raises(ValueError, match="times.csv: line 2: expected UTF-8, got the byte 0xeb"):
        find_hand_ins(tmp_path, [assignment])
    (tmp_path / "times.csv").write_text("file,time\n" + "x" * 200_000)
    with pytest.raises(ValueError, match="times.csv: expected a table in CSV"):
        find_hand_ins(tmp_path, [assignment])


def test_a_large_file_is_not_read_into_memory(tmp_path, assignment):
    (tmp_path / "ann").mkdir()
    with open(tmp_path / "ann" / "soft_lookup.ipynb", "wb") as file:
        file.truncate(200 * 2**20)
    ((one,), _, _) = find_hand_ins(tmp_path, [assignment])
    assert len(one.content()) == LARGEST + 1
    assert one.sha != find_hand_ins(tmp_path, [assignment])[0][0].path.name


def test_a_file_that_changes_or_goes_is_not_read(tmp_path, assignment, hand_ins):
    """Between the look at the folder and the judging."""
    path, other = tmp_path / "hand-ins" / "ann" / "x.ipynb", tmp_path / "other.ipynb"
    path.parent.mkdir(parents=True)
    other.write_bytes(hand_ins["right"])

    def link():
        path.unlink()
        path.symlink_to(other)

    def pipe():
        path.unlink()
        os.mkfifo(path)

    for words, change in (
        ("it has changed", lambda: path.write_bytes(b"{}")),
        ("it has changed", lambda: os.truncate(path, 3 * LARGEST)),
        ("No such file", path.unlink),
        ("symbolic link", link),
        ("it is no file", pipe),
    ):
        path.unlink(missing_ok=True)
        path.write_bytes(hand_ins["right"])
        ((one,), _, _) = find_hand_ins(tmp_path / "hand-ins", [assignment])
        assert one.content() == hand_ins["right"]
        change()
        with pytest.raises(OSError, match=words):
            one.content()


def test_a_file_that_goes_while_the_folder_is_looked_through_is_left_out(
    tmp_path, assignment, hand_ins, monkeypatch
):
    for student in ("ann", "bob"):
        (tmp_path / student).mkdir()
        (tmp_path / student / "x.ipynb").write_bytes(hand_ins["right"])
    monkeypatch.setattr(
        hand_ins_module.os,
        "walk",
        lambda folder, **_: [(str(folder), [], ["gone.ipynb", "x.ipynb"])],
    )
    got, students, remarks = found(tmp_path, assignment)
    assert [one[0] for one in got] == students == ["ann", "bob"]
    assert remarks == [
        f"{student}/gone.ipynb: cannot be read (No such file or directory), left out"
        for student in students
    ]


@pytest.mark.parametrize(
    "seconds",
    [10**12, 253_402_300_000, -(10**12)],
    ids=["year 33658", "the last hour there is", "before all years"],
)
def test_a_time_that_is_no_date_costs_one_file(
    tmp_path, assignment, hand_ins, monkeypatch, seconds
):
    for student in ("ann", "bob"):
        (tmp_path / student).mkdir()
        (tmp_path / student / "x.ipynb").write_bytes(hand_ins["right"])
    true = os.fstat  # not every file system takes such a time

    def odd(number):
        values = true(number)
        if os.path.samestat(values, os.stat(tmp_path / "ann" / "x.ipynb")):
            return os.stat_result((*values[:8], seconds, *values[9:10]))
        return values

    monkeypatch.setattr(hand_ins_module.os, "fstat", odd)
    got, students, remarks = found(tmp_path, assignment)
    assert [one[0] for one in got] == ["bob"] and students == ["ann", "bob"]
    assert (
        len(remarks) == 1
        and remarks[0].startswith("ann/x.ipynb: its time is no date")
        and "times.csv" in remarks[0]
    )
    (tmp_path / "times.csv").write_text("file,time\nann/x.ipynb,2027-01-31T12:00:00+01:00\n")
    assert [one[0] for one in found(tmp_path, assignment)[0]] == ["ann", "bob"]


def test_names_for_nbgrader_are_plain_and_different():
    names = safe_names(["Ann Lee", "Ann_Lee", "ann-lee", "Zoë", "../x", "?", "x" * 90])
    assert names["Ann_Lee"] == "Ann_Lee" and names["ann-lee"] == "ann-lee", (
        "a name that is safe stays as it is"
    )
    assert re.fullmatch("Ann_Lee_[0-9a-f]{10}", names["Ann Lee"]) and re.fullmatch(
        "x_[0-9a-f]{10}", names["../x"]
    )
    assert (
        len({name.lower() for name in names.values()}) == len(names)
        and max(map(len, names.values())) < 100
    )


def test_the_name_of_one_student_is_never_another_s_in_the_next_round():
    forged = safe_names(["Ann Lee"])["Ann Lee"]
    class_ = ["王", "Ann_Lee", "Ann Lee", "ann", forged, forged.upper()]
    alone = {safe_names([student])[student]: student for student in class_}
    assert len({name.lower() for name in alone}) == len(class_)
    after = safe_names([*class_, "李", "Ann.Lee", "Ann", "!"])
    for student, name in after.items():
        assert alone.get(name, student) == student
    assert after["王"] in alone and after["Ann Lee"] in alone, "nor does it change when others come"
