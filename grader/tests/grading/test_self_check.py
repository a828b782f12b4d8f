"""The students' own side: attnbook check."""

from dataclasses import replace

import pytest
from patience import PATIENT

from attnbook_grader import self_check
from attnbook_grader.commands import check
from attnbook_grader.course.assignments import notebook_with
from attnbook_grader.course.exercises import find_book, solution_of
from attnbook_grader.course.known_wrong_answers import wrong_answers

from .conftest import EMPTY, run


@pytest.fixture
def patient(monkeypatch):
    """A notebook that a student checks is waited for."""
    monkeypatch.setattr(self_check, "_LIMITS", replace(self_check._LIMITS, **PATIENT))


@pytest.mark.slow
def test_a_student_sees_the_verdicts_of_the_notebook(tmp_path, assignment, patient):
    from attnbook.checks import judge

    wrong = wrong_answers(find_book(), list(assignment.tasks))["00.weighted_sum"][0]
    answers = {"00.weighted_sum": wrong.code, "00.temperature": solution_of(assignment.tasks[1])}
    path = tmp_path / "mine.ipynb"
    path.write_bytes(notebook_with(assignment, answers))
    result = run(check, path)
    scope = {}
    exec(wrong.code, scope)
    assert result.exit_code == 1
    verdict = judge("00.weighted_sum", scope["weighted_sum"])
    assert result.output == f"{verdict}\n✓ 00.temperature: right.\n"
    assert run(check, path, "--exercise", "00.temperature").exit_code == 0
    path.write_bytes(notebook_with(assignment, {}))
    assert run(check, path).output == "".join(
        f"○ {id}: not written yet. Replace the line that raises NotImplementedError.\n"
        for id in answers
    )


@pytest.mark.slow
def test_a_student_needs_no_checkout_of_the_book(tmp_path, assignment, patient, monkeypatch):
    def installed(*_):
        raise ValueError("no book")

    monkeypatch.setattr(self_check, "find_book", installed)
    path = tmp_path / "mine.ipynb"
    answers = {task.id: solution_of(task) for task in assignment.tasks}
    path.write_bytes(notebook_with(assignment, answers))
    assert run(check, path).output == "✓ 00.weighted_sum: right.\n✓ 00.temperature: right.\n"


def test_notebooks_that_cannot_be_checked(tmp_path, assignment):
    path = tmp_path / "x.ipynb"
    assert "is not there" in run(check, path).output
    path.write_text("")
    assert "the file is empty" in run(check, path).output
    path.write_text(EMPTY)
    assert "calls no check" in run(check, path).output
    path.write_bytes(notebook_with(assignment, {}))
    assert "has no check of '99.x'" in run(check, path, "--exercise", "99.x").output
