"""Notebooks for students and instructors, made with one command, and folders that cannot be used."""

import nbformat
import pytest
from click.testing import CliRunner

from attnbook.checks import exercises
from attnbook.course import grading, report
from attnbook.course.commands import course, grade
from attnbook.course.exercises import find_book, instructor_notebook, sections
from attnbook.course.grade_one import Result


def run(command, *arguments):
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


@pytest.mark.slow
def test_students_get_neither_solutions_nor_hidden_checks(tmp_path):
    result = run(course, "release", "--out", tmp_path / "out", "--section", "soft_lookup")
    assert result.exit_code == 0, result.output
    nb = nbformat.read(tmp_path / "out" / "00_attention" / "soft_lookup.ipynb", 4)
    nbformat.validate(nb)
    text = nbformat.writes(nb)
    assert "SOLUTION" not in text and "HIDDEN" not in text and "grade(" not in text
    stubs = [cell for cell in nb.cells if cell.metadata.get("nbgrader", {}).get("solution")]
    assert len(stubs) == 3
    assert all("raise NotImplementedError  # YOUR CODE HERE" in cell.source for cell in stubs)
    assert all(cell.source.strip() for cell in nb.cells)
    assert sum("check(" in cell.source for cell in nb.cells if cell.cell_type == "code") == 3


def test_instructors_get_everything(tmp_path):
    result = run(course, "instructor", "--out", tmp_path / "out")
    assert result.exit_code == 0, result.output
    text = "".join(path.read_text(encoding="utf-8") for path in tmp_path.glob("out/*/*.ipynb"))
    for id in exercises():
        assert f'grade(\\"{id}\\", ' in text
    assert "BEGIN SOLUTION" in text
    again = run(course, "instructor", "--out", tmp_path / "out")
    assert again.exit_code == 1
    assert "exists; choose another folder" in again.output


def test_exercise_notebooks_hold_no_prose_of_the_chapter():
    for section in sections(find_book()):
        cells = instructor_notebook(section).cells
        assert [cell.cell_type for cell in cells[:3]] == ["markdown", "code", "markdown"]
        for task in section.tasks:
            assert task.statement.source.startswith("### Exercise ")
            assert task.statement.source.count("### Exercise") == 1
            assert [cell.metadata.nbgrader.points for cell in task.tests] == list(exercises()[task.id].points)


def test_folders_that_cannot_be_used(tmp_path, section):
    missing = run(grade, tmp_path / "nobody", "--out", tmp_path / "out")
    assert missing.exit_code == 1
    assert f"Error: submissions: {tmp_path / 'nobody'} is not there, expected a folder" in missing.output
    (tmp_path / "hand-ins").mkdir()
    assert "holds no student" in run(grade, tmp_path / "hand-ins", "--out", tmp_path / "out").output
    (tmp_path / "hand-ins" / "ann").mkdir()
    (tmp_path / "hand-ins" / "ann" / "x.ipynb").write_text("")
    nothing = run(grade, tmp_path / "hand-ins", "--out", tmp_path / "out").output
    assert "holds no notebook of a section" in nothing and "ann/x.ipynb" in nothing
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "thesis.tex").write_text("")
    assert "no round of grading wrote" in run(grade, tmp_path / "hand-ins", "--out", tmp_path / "precious").output
    assert "is a file, expected a folder" in run(grade, tmp_path / "hand-ins", "--out", tmp_path / "precious" / "thesis.tex").output
    assert "there is no folder" in run(grade, tmp_path / "hand-ins", "--book", tmp_path).output
    assert "the book has no section 'x'" in run(grade, tmp_path / "hand-ins", "--section", "x").output
    assert "the book has no exercise '00.x'" in run(grade, tmp_path / "hand-ins", "--exercise", "00.x").output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hand-ins", "precious"], "nothing half-written"


def test_a_failing_round_leaves_the_old_one(tmp_path, section, monkeypatch):
    (tmp_path / "hand-ins" / "ann").mkdir(parents=True)
    (tmp_path / "hand-ins" / "ann" / "soft_lookup.ipynb").write_text("")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / grading.MARK).write_text("")
    (tmp_path / "out" / "marks.csv").write_text("old")

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(grading.course, "add_assignments", full)
    result = run(grade, tmp_path / "hand-ins", "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert "No space left on device" in result.output
    assert (tmp_path / "out" / "marks.csv").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hand-ins", "out"]


def test_a_missing_nbgrader_names_the_extra(tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "nbgrader", None)
    assert "pip install 'attnbook[grade]'" in run(grade, tmp_path, "--out", tmp_path / "out").output


def test_names_for_nbgrader_are_plain_and_different():
    assert grading._names(["Ann Lee", "Ann_Lee", "ann-lee", "Zoë", "../x", "?"]) == {
        "../x": "x", "?": "student", "Ann Lee": "Ann_Lee", "Ann_Lee": "Ann_Lee_2", "ann-lee": "ann-lee", "Zoë": "Zo"
    }


def test_pages_and_tables_take_any_text(tmp_path):
    one = Result("=cmd()", "s", "00.x", "<b>", 0.0, 2.0, '<script>alert("x")</script>', ())
    report.write_csv(tmp_path / "marks.csv", [one])
    assert "'=cmd()" in (tmp_path / "marks.csv").read_text()
    report.write_feedback(tmp_path, "<i>Ann</i>", "ann", [one])
    page = (tmp_path / "feedback" / "ann" / "index.html").read_text()
    assert "<script>" not in page and "<i>Ann" not in page and "<b>" not in page
