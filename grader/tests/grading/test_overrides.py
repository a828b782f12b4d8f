"""What an instructor decides by hand: marks, comments, extensions, excuses, answers in words."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from attnbook_grader.course.assignments import Course, Words, notebook_with
from attnbook_grader.course.course_file import FILE, read_course
from attnbook_grader.grading import feedback, rounds
from attnbook_grader.grading.judging import judge_notebook
from attnbook_grader.grading.marks import Mark
from attnbook_grader.grading.outcomes import NOT_ANSWERED, Outcome
from attnbook_grader.grading.overrides import OVERRIDES, read_overrides
from attnbook_grader.grading.wide import write_wide

from .conftest import grade_here, judged, write

DUE = datetime(2027, 1, 31, 12, tzinfo=UTC)
ROOT = Words("week.root", "Why the root?", "Explain.", {"the variance": 2.0, "softmax": 1.0})


@pytest.fixture
def week(assignment):
    """An assignment of two exercises and a question, and its course."""
    return replace(assignment, name="week", due=DUE, words=(ROOT,))


@pytest.fixture
def grade(week, tmp_path, monkeypatch):
    """A round with the overrides in a text. Two students have both exercises right, two days late,
    and have answered in words.
    """

    def judge(jobs, **_):
        for key, job in jobs:
            found = judge_notebook(replace(job, tasks=(ROOT.id,))) if ROOT.id in job.tasks else []
            yield (key, found + [Outcome(id, True, True, "") for id in job.tasks if id != ROOT.id])

    monkeypatch.setattr(rounds, "judge_all", judge)
    for student in ("ann", "bo"):
        nb = json.loads(notebook_with(week, {}))
        (cell,) = [one for one in nb["cells"] if "words-" in str(one["metadata"])]
        cell["source"] = f"Because {student} <says> so."
        write(tmp_path, f"hand-ins/{student}/week.ipynb", json.dumps(nb))
    time = (DUE + timedelta(days=2)).isoformat()
    rows = "".join(f"{student}/week.ipynb,{time}\n" for student in ("ann", "bo"))
    write(tmp_path, "hand-ins/times.csv", f"file,time\n{rows}")

    def run(text=""):
        (tmp_path / OVERRIDES).write_text(text, encoding="utf-8")
        overrides = read_overrides(tmp_path / OVERRIDES, (week,))
        done = grade_here(Course("x", 1, (week,)), tmp_path, overrides=overrides)
        return {(one.student, one.exercise): one for one in done.marks}, done

    return run


def test_what_is_decided_by_hand_survives_every_round(grade, tmp_path, week):
    first, other = (task.id for task in week.tasks)
    before, _ = grade()
    assert [before["ann", id].points for id in (first, other, ROOT.id)] == [1.6, 3.2, 0.0]
    assert before["ann", ROOT.id].note == "waits to be marked by hand"
    page = (tmp_path / "out" / "class.html").read_text()
    assert "week.root</td>" in page
    assert "waits to be marked by hand<details" in page
    assert "<pre>Because ann &lt;says&gt; so.</pre>" in page
    text = f"""
[[mark]]
student = "ann"
exercise = "{first}"
points = 1.5
comment = "Shown in class."
[[mark]]
student = "ann"
exercise = "{ROOT.id}"
points = 2.5
comment = "Well said."
[[mark]]
student = "ann"
exercise = "{other}"
comment = "See me."
[[extension]]
student = "bo"
assignment = "week"
due = 2027-02-02T12:00:00Z
[[excuse]]
student = "bo"
exercise = "{ROOT.id}"
comment = "ill"
[[mark]]
student = "nobody"
exercise = "{first}"
points = 1
"""
    for _ in range(2):
        marks, done = grade(text)
        assert [(one.points, one.most, one.note) for one in marks.values()] == [
            (1.5, 2.0, "marked by hand; Shown in class."),
            (3.2, 4.0, "2 days late: 80% of the marks; See me."),
            (2.5, 3.0, "marked by hand; Well said."),
            (2.0, 2.0, ""),
            (4.0, 4.0, ""),
            (0.0, 0.0, "excused; ill"),
        ]
        assert done.remarks == ["overrides.toml: there is no student 'nobody'"]
    page = (tmp_path / "out" / "feedback" / "ann" / "index.html").read_text()
    assert "Well said." in page and "Because ann &lt;says&gt; so." in page
    assert "waits to be" not in (tmp_path / "out" / "class.html").read_text()
    after, _ = grade()
    assert [one.points for one in after.values()] == [one.points for one in before.values()]


def test_who_is_excused_has_no_points_in_the_platform_s_table(tmp_path, week):
    marks = [
        Mark("ann", "week", "x", "X", 0.0, 0.0, "", excused=True),
        Mark("bo", "week", "x", "X", 0.0, 0.0, "", excused=True),
        Mark("bo", "week", "y", "Y", 1.0, 2.0, ""),
    ]
    write_wide(tmp_path / "wide.csv", ["ann", "bo", "cy"], [week], marks)
    lines = (tmp_path / "wide.csv").read_text("utf-8-sig").splitlines()
    assert lines[1:] == ["ann,,0", "bo,4.5,4.5", "cy,0,0"], "1 of the 2 that are left is half of 9"


MARK = "[[mark]]\nstudent='a'\nexercise='week.root'\n"
WRONG = {
    "no TOML": ("[[mark", "overrides.toml: "),
    "kind": ("[[marks]]", "marks: expected [[mark]], [[extension]] or [[excuse]]"),
    "key": ("[[mark]]\nstudnt='a'", "[[mark]] 1: studnt: not known; expected comment, exercise"),
    "no student": ("[[mark]]\npoints=1", "[[mark]] 1: student: got None, expected a text"),
    "exercise": ("[[mark]]\nstudent='a'\nexercise='9.x'", "exercise: the course has no '9.x'"),
    "nothing": (MARK, "points: got None, expected a number from 0 to 3"),
    "too many": (f"{MARK}points=3.5", "points: got 3.5, expected a number from 0 to 3"),
    "not a number": (f"{MARK}points=true", "points: got True, expected a number"),
    "date": (
        "[[extension]]\nstudent='a'\nassignment='week'\ndue=2027-01-01",
        "due: got 2027-01-01, expected a date and time with a zone",
    ),
    "assignment": (
        "[[excuse]]\nstudent='a'\nassignment='month'",
        "assignment: the course has no 'month'; it has week",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_mistake_in_the_file_is_named(tmp_path, week, name):
    text, words = WRONG[name]
    (tmp_path / OVERRIDES).write_text(text)
    with pytest.raises(ValueError) as error:
        read_overrides(tmp_path / OVERRIDES, (week,))
    assert words in str(error.value)


COURSE = """
seed = 5
[[assignment]]
name = "week"
[assignment.points]
"00.temperature" = [2, 2]
[[assignment.words]]
name = "root"
title = "Why the root?"
text = "Explain."
rubric = { "the variance" = 2, "softmax" = 1 }
"""


def test_questions_in_words_stand_in_the_course_file_and_the_notebook(tmp_path):
    (tmp_path / FILE).write_text(COURSE)
    (made,) = read_course(tmp_path).assignments
    assert made.words == (ROOT,) and made.most == 7.0
    *_, asked, answer = made.notebook().cells
    assert asked.source == (
        "### Why the root?\n\nExplain.\n\n<details><summary>What a good answer has</summary>\n\n"
        "- the variance (2)\n- softmax (1)\n\n</details>"
    )
    assert answer.metadata.nbgrader.points == 3 and answer.cell_type == "markdown"
    (tmp_path / FILE).write_text(COURSE.replace("= 2,", "= 0,"))
    with pytest.raises(ValueError, match="words 'root': rubric: got .*, expected what is looked"):
        read_course(tmp_path)


def test_an_answer_in_words_that_was_not_given(week):
    (one,) = judged(notebook_with(week, {}), week, ROOT.id)
    assert one.note == NOT_ANSWERED and not one.visible


def test_the_page_shows_the_answer_and_the_line_that_failed(tmp_path, week):
    code = "def f(x):\n    return [][1] < 2\n"
    for note, marked in (
        ("your code stopped with IndexError: x; line 2: return [][1] < 2", True),
        ("your code stopped with IndexError: x; line 2: helper()", False),
        ("the shape is (2,)", False),
    ):
        outcome = Outcome("00.x", False, False, note, code=code)
        marks = [Mark("ann", "week", "00.x", "X", 0.0, 2.0, note, None, outcome)]
        feedback.write_feedback(tmp_path / "index.html", "ann", marks, [week])
        page = (tmp_path / "index.html").read_text()
        assert "<pre>def f(x):\n" in page
        assert ("<mark>    return [][1] &lt; 2</mark>" in page) == marked
