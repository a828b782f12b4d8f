"""A made-up class is graded with nbgrader: every mark, every page, and the same again."""

import csv
import json
import sqlite3

import pytest
from click.testing import CliRunner

from attnbook.course import grading
from attnbook.course.commands import grade
from attnbook.course.grade_one import Limits
from attnbook.course.made_up import made_up_class, write_class
from attnbook.course.nbgrader_course import gradebook

from .conftest import IDS

pytestmark = pytest.mark.slow

WHY = {
    "another format": "not a Jupyter notebook",
    "always equal": "a Yes came back, expected a torch.Tensor",
    "answer deleted": "the cell for your answer is missing from the notebook",
    "ends its grader": "the notebook ended the process that graded it",
    "crashing": "your code stopped with IndexError: list index out of range; line 2: return [][1]",
    "edited checks": "None came back",
    "empty file": "not a Jupyter notebook",
    "endless loop": "the cell ran longer than 3 s and was stopped: an endless loop?",
    "ends the kernel": "the notebook ended its own kernel",
    "forged check": "None came back",
    "not JSON": "not a Jupyter notebook",
    "not Python": "NameError: name 'weighted_sum' is not defined",
    "partly right": "with other inputs: ",
    "untouched": "not written yet",
    "wrong": "the shape is",
}


def table(out):
    with (out / "marks.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def graded(section, tmp_path_factory):
    """(folder of hand-ins, what each must get, folder of the round, what it returned)."""
    base = tmp_path_factory.mktemp("grading")
    expected = write_class(base / "hand-ins", section)
    (base / "hand-ins" / "absent").mkdir()
    (base / "hand-ins" / "absent" / "holiday.ipynb").write_text("{}")
    expected["absent"] = dict.fromkeys(IDS, 0.0)
    lines = []
    done = grading.grade_folder(base / "hand-ins", base / "out", tasks=IDS, limits=Limits(cell=3), say=lines.append)
    assert len(lines) == len(expected)
    return base / "hand-ins", expected, base / "out", done


def test_every_mark_is_the_one_that_it_must_be(graded):
    _, expected, out, _ = graded
    marks = {student: {} for student in expected}
    for row in table(out):
        marks[row["student"]][row["exercise"]] = float(row["points"])
    assert marks == expected


def test_the_table_adds_up(graded, section):
    _, expected, out, _ = graded
    rows = table(out)
    assert list(rows[0]) == ["student", "section", "exercise", "points", "max", "total", "note"]
    for row in rows:
        assert float(row["total"]) == sum(expected[row["student"]].values())
        assert (row["note"] == "") == (row["points"] == row["max"])
    assert sum(float(row["max"]) for row in rows if row["student"] == "right") == section.points


def test_every_lost_mark_has_its_reason(graded):
    _, expected, out, done = graded
    notes = {row["student"]: row["note"] for row in table(out) if row["exercise"] == IDS[0]}
    for student, words in WHY.items():
        assert words in notes[student], student
    assert notes["absent"] == "nothing was handed in"
    assert any("holiday.ipynb" in remark for remark in done.remarks)


def test_every_student_has_a_page(graded):
    _, expected, out, _ = graded
    names = grading._names(expected)
    for student, marks in expected.items():
        page = (out / "feedback" / names[student] / "index.html").read_text(encoding="utf-8")
        assert f"Feedback for {student}" in page
        assert f"{sum(marks.values()):g} of 6 points" in page
        ran = student in ("right", "partly right", "endless loop", "crashing")
        notebook = out / "feedback" / names[student] / "soft_lookup.html"
        if ran:
            assert 'href="soft_lookup.html"' in page
            assert notebook.is_file()
    shown = (out / "feedback" / "crashing" / "soft_lookup.html").read_text(encoding="utf-8")
    assert "your code stopped with IndexError" in shown
    assert "registry.py" not in shown, "the page shows the sentence, not the checker's stack"


def test_nbgrader_s_gradebook_holds_the_same_marks(graded):
    _, expected, out, _ = graded
    names = grading._names(expected)
    with gradebook(out) as book:
        for student, marks in expected.items():
            submission = book.find_submission("soft_lookup", names[student])
            assert submission.score == sum(marks.values()), student
            assert not submission.needs_manual_grade
    with sqlite3.connect(out / "gradebook.db") as base:
        assert base.execute("pragma integrity_check").fetchone() == ("ok",)


def test_nothing_but_the_round_is_left(graded):
    hand_ins, expected, out, _ = graded
    assert sorted(path.name for path in out.parent.iterdir()) == ["hand-ins", "out"]
    assert {path.name for path in out.iterdir()} == {
        "attnbook-grades", "autograded", "feedback", "gradebook.db", "marks.csv", "release", "source", "submitted"
    }


def test_a_second_run_repeats_the_marks(graded, section, tmp_path):
    _, _, out, _ = graded
    again = ["right", "partly right", "endless loop", "ends the kernel", "not JSON"]
    write_class(tmp_path / "hand-ins", section, again)
    first = [row for row in table(out) if row["student"] in again]
    arguments = [tmp_path / "hand-ins", "--out", tmp_path / "out", "--timeout", 3, "--exercise", IDS[0], "--exercise", IDS[1]]
    result = CliRunner().invoke(grade, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    assert "unprotected" in result.stderr
    assert "right · soft_lookup: 6 of 6" in result.stdout
    assert table(tmp_path / "out") == first


def test_a_round_replaces_the_one_before(section, tmp_path):
    write_class(tmp_path / "hand-ins", section, ["not JSON"])
    for _ in range(2):
        grading.grade_folder(tmp_path / "hand-ins", tmp_path / "out", tasks=IDS, say=lambda line: None)
    (tmp_path / "hand-ins" / "not JSON" / "soft_lookup.ipynb").unlink()
    (tmp_path / "hand-ins" / "empty").mkdir()
    (tmp_path / "hand-ins" / "empty" / "soft_lookup.ipynb").write_text("")
    grading.grade_folder(tmp_path / "hand-ins", tmp_path / "out", tasks=IDS, say=lambda line: None)
    unreadable = "the file is not a Jupyter notebook (Notebook does not appear to be JSON)"
    assert [row["note"] for row in table(tmp_path / "out")] == [unreadable] * 2 + ["nothing was handed in"] * 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hand-ins", "out"]


def test_a_notebook_that_takes_too_long_in_all_is_stopped(section, tmp_path):
    text, _ = made_up_class(section)["right"]
    nb = json.loads(text)
    stubborn = "import time\nwhile True:\n    try:\n        time.sleep(1)\n    except BaseException:\n        pass"
    cell = {"cell_type": "code", "id": "stubborn", "metadata": {}, "execution_count": None, "outputs": [], "source": stubborn}
    nb["cells"].insert(1, cell)
    for student, content in (("slow", json.dumps(nb)), ("quick", text)):
        (tmp_path / "hand-ins" / student).mkdir(parents=True)
        (tmp_path / "hand-ins" / student / "soft_lookup.ipynb").write_text(content)
    limits = Limits(cell=20, notebook=30)
    done = grading.grade_folder(tmp_path / "hand-ins", tmp_path / "out", tasks=IDS, limits=limits, say=lambda line: None)
    assert {(one.student, one.points) for one in done.results} == {("slow", 0.0), ("quick", 2.0), ("quick", 4.0)}
    assert all("longer than 30 s in all" in one.note for one in done.results if one.student == "slow")
