"""The students' own side: attnbook check."""

import subprocess
import sys

import pytest
from patience import HANGS

from attnbook.checks import judge
from attnbook_grader.commands import check
from attnbook_grader.course.assignments import notebook_with
from attnbook_grader.course.exercises import find_book, solution_of
from attnbook_grader.course.known_wrong_answers import wrong_answers

from .conftest import EMPTY, run

CHECK = "from attnbook_grader.commands import check; check()"


def checked(path, *more, code=CHECK):
    """In a process of its own, whose IPython it may have."""
    command = [sys.executable, "-c", code, str(path), *more]
    return subprocess.run(command, capture_output=True, text=True, timeout=HANGS)


@pytest.mark.slow
def test_a_student_sees_the_verdicts_of_the_notebook(tmp_path, assignment):
    wrong = wrong_answers(find_book(), list(assignment.tasks))["00.weighted_sum"][0]
    right = solution_of(assignment.tasks[1]) + "\nprint('hello')"
    answers = {"00.weighted_sum": wrong.code, "00.temperature": right}
    path = tmp_path / "mine.ipynb"
    path.write_bytes(notebook_with(assignment, answers))
    result = checked(path)
    scope = {}
    exec(wrong.code, scope)
    assert result.returncode == 1
    verdict = judge("00.weighted_sum", scope["weighted_sum"])
    assert result.stdout == f"{verdict}\n✓ 00.temperature: right.\n"
    assert checked(path, "--exercise", "00.temperature").returncode == 0
    path.write_bytes(notebook_with(assignment, {}))
    assert checked(path).stdout == "".join(
        f"○ {id}: not written yet. Replace the line that raises NotImplementedError.\n"
        for id in answers
    )
    path.write_bytes(notebook_with(assignment, {"00.weighted_sum": "1 / 0", "00.temperature": ""}))
    assert checked(path).stdout == (
        "✗ 00.weighted_sum: your cell stopped with ZeroDivisionError: division by zero; line 1: "
        "1 / 0\n✗ 00.temperature: there is no function lookup\n"
    )


@pytest.mark.slow
def test_a_student_needs_no_checkout_of_the_book(tmp_path, assignment):
    path = tmp_path / "mine.ipynb"
    answers = {task.id: solution_of(task) for task in assignment.tasks}
    path.write_bytes(notebook_with(assignment, answers))
    code = f"import os; os.environ['ATTNBOOK_BOOK'] = {str(tmp_path)!r}; {CHECK}"
    result = checked(path, code=code)
    assert result.stdout == "✓ 00.weighted_sum: right.\n✓ 00.temperature: right.\n", result.stderr


def test_notebooks_that_cannot_be_checked(tmp_path, assignment):
    path = tmp_path / "x.ipynb"
    assert "is not there" in run(check, path).output
    path.write_text("")
    assert "the file is empty" in run(check, path).output
    path.write_text(EMPTY)
    assert "calls no check" in run(check, path).output
    path.write_bytes(notebook_with(assignment, {}))
    assert "has no check of '99.x'" in run(check, path, "--exercise", "99.x").output
