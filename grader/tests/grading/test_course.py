"""The commands of a course: laid out, checked, refused where it cannot be used; and the
students' own side.
"""

import csv
import os
import re
import sqlite3
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from types import SimpleNamespace

import nbformat
import pytest
from click.testing import CliRunner
from patience import PATIENT

from attnbook.checks import exercises
from attnbook.cli import main
from attnbook_grader import self_check
from attnbook_grader.commands import check, course, grade
from attnbook_grader.course import nbgrader_bridge
from attnbook_grader.course.assignments import FILE, Course, notebook_with, read_course
from attnbook_grader.course.exercises import find_book, instructor_notebook, sections, solution_of
from attnbook_grader.course.known_wrong_answers import wrong_answers
from attnbook_grader.grading import feedback, judging, rounds
from attnbook_grader.grading.course_check import check_course
from attnbook_grader.grading.judging import Outcome
from attnbook_grader.grading.marks import Mark
from attnbook_grader.notebooks.hand_ins import HandIn
from attnbook_grader.sandbox import launch
from attnbook_grader.sandbox.launch import Limits


@pytest.fixture
def patient(monkeypatch):
    """A notebook that a student checks is waited for."""
    monkeypatch.setattr(self_check, "_LIMITS", replace(self_check._LIMITS, **PATIENT))


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
    asked = [task for task in exercises().values() if task.notebook == "soft_lookup"]
    assert len(stubs) == len(asked) > 2
    assert all("raise NotImplementedError  # YOUR CODE HERE" in cell.source for cell in stubs)
    assert all(cell.source.strip() for cell in nb.cells)
    assert sum("check(" in cell.source for cell in nb.cells if cell.cell_type == "code") == len(
        asked
    )


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
            assert [cell.metadata.nbgrader.points for cell in task.tests] == list(
                exercises()[task.id].points
            )


def test_folders_that_cannot_be_used(tmp_path, section):
    missing = run(grade, tmp_path / "nobody", "--out", tmp_path / "out")
    assert missing.exit_code == 1
    assert (
        f"Error: submissions: {tmp_path / 'nobody'} is not there, expected a folder"
        in missing.output
    )
    (tmp_path / "hand-ins").mkdir()
    assert "holds no student" in run(grade, tmp_path / "hand-ins", "--out", tmp_path / "out").output
    (tmp_path / "hand-ins" / "ann").mkdir()
    (tmp_path / "hand-ins" / "ann" / "x.ipynb").write_text("")
    nothing = run(grade, tmp_path / "hand-ins", "--out", tmp_path / "out").output
    assert "holds no notebook of an assignment" in nothing and "ann/x.ipynb" in nothing
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "thesis.tex").write_text("")
    assert (
        "no round of grading wrote"
        in run(grade, tmp_path / "hand-ins", "--out", tmp_path / "precious").output
    )
    assert (
        "is a file, expected a folder"
        in run(grade, tmp_path / "hand-ins", "--out", tmp_path / "precious" / "thesis.tex").output
    )
    assert "there is no folder" in run(grade, tmp_path / "hand-ins", "--book", tmp_path).output
    assert (
        "the book has no section 'x'" in run(grade, tmp_path / "hand-ins", "--section", "x").output
    )
    assert (
        "the book has no exercise '00.x'"
        in run(grade, tmp_path / "hand-ins", "--exercise", "00.x").output
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hand-ins", "precious"], (
        "nothing half-written"
    )


def test_without_a_sandbox_nothing_is_graded(tmp_path, monkeypatch):
    (tmp_path / "hand-ins" / "ann").mkdir(parents=True)
    (tmp_path / "hand-ins" / "ann" / "soft_lookup.ipynb").write_text("")
    monkeypatch.setattr(launch.shutil, "which", lambda name: None)
    result = run(grade, tmp_path / "hand-ins", "--out", tmp_path / "out")
    assert result.exit_code == 1
    assert "bubblewrap is not installed" in result.output and "--trust" in result.output
    assert not (tmp_path / "out").exists()


def test_a_failing_round_leaves_the_old_pages(tmp_path, assignment, monkeypatch):
    (tmp_path / "hand-ins" / "ann").mkdir(parents=True)
    (tmp_path / "hand-ins" / "ann" / "soft_lookup.ipynb").write_text("")
    made = Course("x", 1, (assignment,))
    rounds.grade(
        made, tmp_path / "hand-ins", tmp_path / "out", trust=True, jobs=1, say=lambda line: None
    )
    before = (tmp_path / "out" / "marks.csv").read_text()
    assert "the file is empty" in before

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(rounds, "write_class_page", full)
    with pytest.raises(OSError):
        rounds.grade(
            made, tmp_path / "hand-ins", tmp_path / "out", trust=True, jobs=1, say=lambda line: None
        )
    assert (tmp_path / "out" / "marks.csv").read_text() == before
    assert not list((tmp_path / "out").glob(".new-*"))


def judge_here(jobs, **_):
    """In place of `judge_all`: in this process, which has PyTorch already."""
    return [(key, judging.judge_notebook(job)) for key, job in jobs]


@pytest.mark.slow
def test_the_gradebook_has_the_student_s_own_name(tmp_path):
    from nbgrader.api import Gradebook

    nbgrader_bridge.record(
        tmp_path, [], [("student_1", Mark("王", "s", "00.x", "X", 0.0, 2.0, ""))]
    )
    with Gradebook(f"sqlite:///{tmp_path / 'gradebook.db'}", "attnbook") as book:
        assert [(one.id, one.last_name) for one in book.students] == [("student_1", "王")]


def test_a_fault_of_the_grader_costs_one_notebook_and_is_tried_again(
    tmp_path, assignment, monkeypatch
):
    for student, content in (("ann", ""), ("bob", " "), ("cy", "")):
        (tmp_path / "hand-ins" / student).mkdir(parents=True)
        (tmp_path / "hand-ins" / student / "soft_lookup.ipynb").write_text(content)
    made = Course("x", 1, (assignment,))

    def breaks(content):
        if not content:
            raise KeyError("a fault \ud800")
        return true(content)

    true = judging.parse_submission
    monkeypatch.setattr(rounds, "judge_all", judge_here)
    monkeypatch.setattr(judging, "parse_submission", breaks)
    monkeypatch.setattr(rounds, "_write", lambda *_: None)
    done = rounds.grade(
        made, tmp_path / "hand-ins", tmp_path / "out", trust=True, say=lambda line: None
    )
    notes = {one.student: one.note for one in done.marks}
    assert (
        notes["ann"]
        == notes["cy"]
        == "this notebook could not be graded: the grader stopped with KeyError"
    )
    assert notes["bob"] == "the file is empty"
    assert [
        remark.partition(" (")[0] for remark in done.remarks if "could not be graded" in remark
    ] == [
        f"{student}: soft_lookup.ipynb: could not be graded, and is judged again in the next "
        f"round: KeyError: 'a fault \\ud800'"
        for student in ("ann", "cy")
    ]
    monkeypatch.setattr(judging, "parse_submission", true)
    done = rounds.grade(
        made, tmp_path / "hand-ins", tmp_path / "out", trust=True, say=lambda line: None
    )
    assert done.judged == 1 and {one.note for one in done.marks} == {"the file is empty"}


def test_a_file_that_changes_during_the_round_costs_no_more_than_itself(
    tmp_path, assignment, monkeypatch
):
    for student, content in (("ann", ""), ("bob", " "), ("cy", ""), ("dora", "  ")):
        (tmp_path / student).mkdir()
        (tmp_path / student / "soft_lookup.ipynb").write_text(content)
    true = rounds.find_hand_ins

    def changes(folder, assignments):
        found = true(folder, assignments)
        (folder / "ann" / "soft_lookup.ipynb").unlink()  # cy has the same
        (folder / "bob" / "soft_lookup.ipynb").write_text("other")
        return found

    monkeypatch.setattr(rounds, "judge_all", judge_here)
    monkeypatch.setattr(rounds, "_write", lambda *_: None)
    monkeypatch.setattr(rounds, "find_hand_ins", changes)
    done = rounds.grade(
        Course("x", 1, (assignment,)),
        tmp_path,
        tmp_path.with_name("out"),
        trust=True,
        say=lambda line: None,
    )
    assert done.judged == 2 and done.remarks == [
        "bob: soft_lookup.ipynb: not judged in this round: it has changed since the round began"
    ]
    assert {one.student: one.note for one in done.marks} == {
        "ann": "the file is empty",
        "bob": "handed in, but not judged yet",
        "cy": "the file is empty",
        "dora": "the file is empty",
    }


@pytest.fixture
def weeks(assignment, tmp_path, monkeypatch):
    """Two assignments, and hand-ins of ann for both and of bob for the first.

    `grade` calls right what says so, and writes no pages.
    """
    first, other = assignment.tasks
    made = [
        replace(assignment, name=name, tasks=(task,), points={task.id: assignment.points[task.id]})
        for name, task in (("week-1", first), ("week-2", other))
    ]

    def judge(jobs, **_):
        return [(key, [verdict(id, job.content.decode()) for id in job.tasks]) for key, job in jobs]

    def verdict(id, text):
        right = f"# right: {id}" in text
        return Outcome(id, right, right, "", print="x" if right else "")

    monkeypatch.setattr(rounds, "judge_all", judge)
    monkeypatch.setattr(
        rounds,
        "_write",
        lambda out, course, assignments, students, done: written.append(
            [one.name for one in assignments]
        ),
    )
    written = []

    def hand_in(name, *parts, more=""):
        path = tmp_path / "hand-ins" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(
            notebook_with(
                assignment,
                {
                    task.id: f"# right: {task.id}{more}"
                    for part in parts
                    for task in made[part].tasks
                },
            )
        )

    hand_in("ann/week-1.ipynb", 0)
    hand_in("ann/week-2.ipynb", 1)
    hand_in("bob/week-1.ipynb")

    def grade(**options):
        return rounds.grade(
            Course("x", 1, tuple(made)),
            tmp_path / "hand-ins",
            tmp_path / "out",
            trust=True,
            say=lambda line: None,
            **options,
        )

    return SimpleNamespace(
        folder=tmp_path / "hand-ins",
        journal=tmp_path / "out" / "journal.db",
        hand_in=hand_in,
        grade=grade,
        written=written,
    )


def points(done):
    return {(one.student, one.assignment): one.points for one in done.marks}


def test_one_assignment_alone_takes_no_file_of_another(weeks):
    """Neither an empty file named after another assignment, nor the student's name in a file
    without a folder.
    """
    assert points(weeks.grade(only=["week-2"])) == {("ann", "week-2"): 4.0, ("bob", "week-2"): 0.0}
    (weeks.folder / "ann" / "week-1.ipynb").write_text("")
    (weeks.folder / "dora_week-1.ipynb").write_text("")
    done = weeks.grade(only=["week-2"])
    assert done.judged == 0 and points(done) == {
        ("ann", "week-2"): 4.0,
        ("bob", "week-2"): 0.0,
        ("dora", "week-2"): 0.0,
    }


def test_the_marks_of_the_other_assignments_stay(weeks):
    whole = weeks.grade()
    assert points(whole) == {
        ("ann", "week-1"): 2.0,
        ("ann", "week-2"): 4.0,
        ("bob", "week-1"): 0.0,
        ("bob", "week-2"): 0.0,
    }
    again = weeks.grade(only=["week-2"])
    assert (
        again.judged == 0
        and again.marks == whole.marks
        and weeks.written == [["week-1", "week-2"]] * 2
    )
    with sqlite3.connect(weeks.journal) as base:
        assert base.execute("select count(*) from mark").fetchone() == (4,) and base.execute(
            "select count(*) from hand_in"
        ).fetchone() == (3,)
    weeks.hand_in("cy/week-1.ipynb", 0, more=", and mine")
    waits = weeks.grade(only=["week-2"])
    assert waits.judged == 0 and points(waits) == {
        **points(whole),
        ("cy", "week-1"): 0.0,
        ("cy", "week-2"): 0.0,
    }
    assert waits.remarks == [
        "week-1: hand-ins that came after its last round do not count yet, those of cy; grade it "
        "again"
    ]
    assert "handed in, but not judged yet" in {
        one.note for one in waits.marks if one.student == "cy"
    }
    done = weeks.grade()
    assert done.judged == 1 and points(done)["cy", "week-1"] == 2.0 and not done.remarks


def test_an_exercise_judged_alone_leaves_the_marks_of_the_others(weeks, assignment):
    first, other = (task.id for task in assignment.tasks)
    assert {one.exercise for one in weeks.grade(tasks=[first]).marks} == {first}
    assert {one.exercise for one in weeks.grade(tasks=[other]).marks} == {first, other}


def test_a_chapter_s_notebook_handed_in_for_one_week_costs_nothing_in_the_other(weeks):
    weeks.hand_in("ann/deep/soft_lookup.ipynb", 1)
    os.utime(weeks.folder / "ann" / "week-1.ipynb", (1_000_000_000, 1_000_000_000))
    done = weeks.grade()
    assert points(done)["ann", "week-1"] == 2.0 and points(done)["ann", "week-2"] == 4.0
    assert done.remarks == [
        "ann: soft_lookup.ipynb: holds exercises of several assignments and does not count for "
        "week-1, "
        "where another hand-in has better marks or answers"
    ]


def test_a_section_alone_is_one_of_all(monkeypatch):
    seen = {}
    monkeypatch.setattr(
        rounds,
        "grade",
        lambda course, *_, **options: (
            seen.update(options, course=course) or rounds.Round([], 0, {}, [])
        ),
    )
    assert (
        run(grade, "hand-ins", "--section", "soft_lookup", "--exercise", "00.temperature").exit_code
        == 0
    )
    assert (seen["only"], seen["tasks"]) == (["soft_lookup"], ("00.temperature",))
    assert {"soft_lookup", "scores"} < {one.name for one in seen["course"].assignments}


def test_what_is_judged_again_is_not_begun_anew_after_a_kill(tmp_path, assignment, monkeypatch):
    """A round that ends in the middle, and the same command after it."""
    for copy in range(4):
        (tmp_path / "hand-ins" / f"student {copy}").mkdir(parents=True)
        (tmp_path / "hand-ins" / f"student {copy}" / "soft_lookup.ipynb").write_text(" " * copy)
    id = assignment.tasks[0].id

    def grade(**options):
        return rounds.grade(
            Course("x", 1, (assignment,)),
            tmp_path / "hand-ins",
            tmp_path / "out",
            trust=True,
            say=lambda line: None,
            **options,
        ).judged

    def killed(jobs, **_):
        yield from judge_here(list(jobs)[:3])
        raise KeyboardInterrupt

    monkeypatch.setattr(rounds, "judge_all", judge_here)
    monkeypatch.setattr(rounds, "_write", lambda *_: None)
    assert grade() == 4
    assert grade(again=[id]) == 4, "all of it"
    assert grade(again=[id]) == 4, "a round that came to its end is not gone on with"
    monkeypatch.setattr(rounds, "judge_all", killed)
    with pytest.raises(KeyboardInterrupt):
        grade(again=[id])
    monkeypatch.setattr(rounds, "judge_all", judge_here)
    assert grade(again=[id]) == 1, "what was left"
    assert grade(again=[id]) == 4
    assert grade() == 0


def test_half_a_surrogate_pair_does_not_stop_a_round(tmp_path, assignment, monkeypatch):
    (tmp_path / "hand-ins" / "ann").mkdir(parents=True)
    (tmp_path / "hand-ins" / "ann" / "soft_lookup.ipynb").write_text('{"nbformat":"\\ud800"}')
    made = Course("x", 1, (assignment,))
    monkeypatch.setattr(
        rounds,
        "judge_all",
        lambda jobs, **_: [(key, judging.judge_notebook(job)) for key, job in jobs],
    )
    monkeypatch.setattr(rounds, "_write", lambda *_: None)

    def note(out):
        done = rounds.grade(
            made, tmp_path / "hand-ins", tmp_path / out, trust=True, say=lambda line: None
        )
        return {one.note for one in done.marks}.pop()

    assert "not a Jupyter notebook" in note("as it is")

    def refuses(content):
        raise judging.Unreadable("no \ud800")

    with monkeypatch.context() as patched:
        patched.setattr(judging, "parse_submission", refuses)
        assert note("tidied") == "no "
        patched.setattr(
            judging,
            "judge_notebook",
            lambda job: [Outcome(id, False, False, "\ud800!", remark="\udfff") for id in job.tasks],
        )
        assert note("written down") == "?!; ?"


def test_pages_and_tables_take_any_text(tmp_path, assignment):
    outcome = Outcome("00.x", False, False, '<script>alert("x")</script>')
    one = Mark("=cmd()", "s", "00.x", "<b>", 0.0, 2.0, '<script>alert("x")</script>', None, outcome)
    feedback.write_csv(tmp_path / "marks.csv", [one])
    assert "'=cmd()" in (tmp_path / "marks.csv").read_text()
    feedback.write_feedback(
        tmp_path / "feedback" / "ann" / "index.html",
        "<i>Ann</i> \ud800",
        [one],
        [replace(assignment, name="s", title="<u>S</u>")],
    )
    page = (tmp_path / "feedback" / "ann" / "index.html").read_text()
    assert (
        "<script>" not in page and "<i>Ann" not in page and "<b>" not in page and "<u>" not in page
    )


FORMULAS = [
    "=A1",
    " =A1",
    "@A1",
    "x;=A1",
    "x; +A1",
    'x;"=A1"',
    'x;"" -A1',
    "x\n=A1;y",
    "x\r=A1",
    "x\t;=A1",
    "x,=A1",
    "x;＝A1",
]


@pytest.mark.parametrize("text", FORMULAS)
def test_no_cell_of_the_table_is_a_formula(tmp_path, text):
    """However it is divided: at commas, or at semicolons as where the comma is in numbers."""
    feedback.write_csv(tmp_path / "marks.csv", [Mark(text, "s", "00.x", "X", 0.0, 2.0, text)])
    for mark in ",;":
        with (tmp_path / "marks.csv").open(newline="", encoding="utf-8") as file:
            cells = [cell for row in csv.reader(file, delimiter=mark) for cell in row]
        assert "A1" in "".join(cells)
        assert not [cell for cell in cells if cell.strip(' "').startswith(tuple("=+-@＝"))], cells
    assert (tmp_path / "marks.csv").read_bytes().count(b"\n") == 2


def test_an_ordinary_message_stands_in_the_table_as_it_is(tmp_path):
    said = (
        "weights[0]: got [0.5, -1.25], expected [1, -2]; line 2: return x - y; 1 day late: 90 "
        "% of the marks"
    )
    feedback.write_csv(tmp_path / "marks.csv", [Mark("Jean-Luc", "s", "00.x", "X", 0.0, 2.0, said)])
    with (tmp_path / "marks.csv").open(newline="", encoding="utf-8") as file:
        (row,) = csv.DictReader(file)
    assert (row["student"], row["note"]) == ("Jean-Luc", said)


def test_a_student_s_page_has_the_title_and_the_zone_of_the_assignment(tmp_path, assignment):
    zone = timezone(timedelta(hours=1))
    made = replace(
        assignment, title="Soft and hard", due=datetime(2027, 1, 31, 23, 59, tzinfo=zone)
    )
    hand_in = HandIn(
        "ann", made.name, tmp_path / "x\n.ipynb", "a", datetime(2027, 1, 31, 23, tzinfo=UTC)
    )
    one = Mark(
        "ann", made.name, "00.x", "X", 1.0, 2.0, "", hand_in, Outcome("00.x", True, False, "")
    )
    feedback.write_feedback(tmp_path / "index.html", "ann", [one], [made])
    page = (tmp_path / "index.html").read_text()
    assert "<h2>Soft and hard <small>(soft_lookup)</small></h2>" in page
    assert r"x\n.ipynb, 2027-02-01 00:00 UTC+01:00" in page


@pytest.fixture(scope="module")
def autumn(tmp_path_factory):
    folder = tmp_path_factory.mktemp("courses") / "autumn"
    result = run(
        course,
        "new",
        folder,
        "--section",
        "soft_lookup",
        "--section",
        "scores",
        "--title",
        'Att"ention',
    )
    assert result.exit_code == 0, result.output
    asked = sum(one.notebook in ("soft_lookup", "scores") for one in exercises().values())
    assert f"2 assignments, {asked} exercises" in result.output
    return folder


@pytest.mark.slow
def test_a_course_is_laid_out(autumn):
    assert {path.name for path in autumn.iterdir()} == {
        "course.toml",
        "student",
        "instructor",
        "submissions",
    }
    made = read_course(autumn)
    assert made.title == 'Att"ention' and [one.name for one in made.assignments] == [
        "soft_lookup",
        "scores",
    ]
    assert made.assignments[0].points == {
        "00.three_keys": (1, 1),
        "00.far_away": (1, 1),
        "00.weighted_sum": (1, 1),
        "00.temperature": (2, 2),
        "00.masked_softmax": (3, 3),
    }
    student = (autumn / "student" / "soft_lookup.ipynb").read_text(encoding="utf-8")
    assert (
        "SOLUTION" not in student
        and "grade(" not in student
        and student.count("YOUR CODE HERE") == 5
    )
    assert "BEGIN SOLUTION" in (autumn / "instructor" / "soft_lookup.ipynb").read_text(
        encoding="utf-8"
    )
    assert str(made.seed) not in student
    again = run(course, "new", autumn)
    assert again.exit_code == 1 and "choose another folder" in again.output


@pytest.mark.slow
def test_no_two_courses_have_the_same_hidden_inputs(autumn, tmp_path):
    run(course, "new", tmp_path / "spring", "--section", "soft_lookup")
    one, other = read_course(autumn), read_course(tmp_path / "spring")
    assert one.seed != other.seed
    assert one.hidden_seed("00.temperature") != other.hidden_seed("00.temperature")
    seeds = [one.hidden_seed(id) for id in exercises()]
    assert len(set(seeds)) == len(seeds) and 0 not in seeds


CHANGES = {
    "unknown key": ('title = "', 'titel = "', "titel: not known; expected"),
    "no seed": ("seed = ", "# seed = ", "seed: got None, expected a whole number"),
    "unknown exercise": (
        '"00.temperature"',
        '"00.temperatur"',
        "points: the book has no exercise '00.temperatur'",
    ),
    "points": (
        '"00.temperature" = [2, 2]',
        '"00.temperature" = [2]',
        "00.temperature: got [2], expected [visible, hidden]",
    ),
    "date without zone": (
        "# due = 2027-01-31T23:59:00+01:00",
        "due = 2027-01-31",
        "due: got 2027-01-31, expected a date and time with a zone",
    ),
    "rule": (
        'repeated = "last"',
        'repeated = "worst"',
        "rules.repeated: got 'worst', expected one of last, first, best",
    ),
    "limit": ("memory = 2048", "memory = -1", "memory: got -1, expected a number above 0"),
    "part of a MB": (
        "memory = 2048",
        "memory = 1500.5",
        "memory: got 1500.5, expected a whole number",
    ),
    "endless limit": (
        "seconds = 15",
        "seconds = inf",
        "seconds: got inf, expected a number above 0, at most 1,000,000",
    ),
    "limit that is none": (
        "seconds = 15",
        "seconds = nan",
        "seconds: got nan, expected a number above 0",
    ),
    "list as a limit": ("memory = 2048", "memory = [1]", "memory: got [1], expected a number"),
    "endless points": (
        '"00.temperature" = [2, 2]',
        '"00.temperature" = [inf, 1]',
        "00.temperature: got [inf, 1], expected [visible, hidden], two numbers",
    ),
    "image": ('# image = "', 'image = 5  # "', "image: got 5, expected a word"),
    "limit of words": (
        "memory = 2048",
        'memory = "much"',
        "limits.memory: got 'much', expected a number",
    ),
    "sandbox": (
        '# sandbox = "bubblewrap"',
        'sandbox = "chroot"',
        "sandbox: got 'chroot', expected one of",
    ),
    "name": ('name = "scores"', 'name = "../scores"', "name: expected letters, digits, - and _"),
    "twice": ('name = "scores"', 'name = "soft_lookup"', "two are named 'soft_lookup'"),
    "no TOML": ("[rules]", "[rules", "course.toml:"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANGES)
def test_a_course_file_with_a_mistake_says_which(autumn, tmp_path, name):
    old, new, words = CHANGES[name]
    text = (autumn / FILE).read_text(encoding="utf-8")
    assert old in text
    (tmp_path / FILE).write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape(words)):
        read_course(tmp_path)
    result = run(course, "grade", tmp_path)
    assert result.exit_code == 1 and result.output.startswith("Error: ")


@pytest.mark.slow
def test_assignments_can_be_joined_and_divided(autumn, tmp_path):
    text = (autumn / FILE).read_text(encoding="utf-8")
    text = (
        text[: text.index("[[assignment]]")]
        + """
[[assignment]]
name = "week-1"
due = 2027-01-31T23:59:00+01:00
[assignment.points]
"03.content_weights" = [1.5, 3]
"00.temperature" = [0, 2]
"""
    )
    (tmp_path / FILE).write_text(text, encoding="utf-8")
    result = run(course, "notebooks", tmp_path)
    assert result.exit_code == 0, result.output
    (one,) = read_course(tmp_path).assignments
    assert [task.id for task in one.tasks] == [
        "00.temperature",
        "03.content_weights",
    ] and one.most == 6.5
    nb = nbformat.read(tmp_path / "student" / "week-1.ipynb", 4)
    assert [
        cell.metadata.nbgrader.points
        for cell in nb.cells
        if cell.metadata.get("nbgrader", {}).get("grade")
    ] == [0, 1.5]
    assert read_course(tmp_path).assignments[0].due.isoformat() == "2027-01-31T23:59:00+01:00"


@pytest.mark.slow
@pytest.mark.usefixtures("bubblewrap")
def test_a_course_is_proved_to_mark_rightly(autumn, tmp_path, monkeypatch):
    """With the first wrong answers to each exercise: tests/checks has all of them."""
    from attnbook_grader.grading import course_check

    patient = "\n".join(f"{name} = {seconds}" for name, seconds in PATIENT.items())
    limits = re.sub(rf"^({'|'.join(PATIENT)}) = .*\n", "", (autumn / FILE).read_text(), flags=re.M)
    (tmp_path / FILE).write_text(limits.replace("[limits]", f"[limits]\n{patient}\n"))
    monkeypatch.setattr(
        course_check,
        "wrong_answers",
        lambda *given: {id: answers[:3] for id, answers in wrong_answers(*given).items()},
    )
    result = run(course, "check", tmp_path, "--assignment", "soft_lookup")
    assert result.exit_code == 0, result.output
    assert re.search(r"soft_lookup: \d\d answers to 5 exercises, 0 faults", result.output)
    assert "there is no" in run(course, "check", autumn / "x").output
    assert "no assignment 'x'" in run(course, "check", autumn, "--assignment", "x").output


@pytest.mark.slow
@pytest.mark.usefixtures("bubblewrap")
def test_a_course_that_marks_wrongly_is_found_out(assignment, monkeypatch):
    """A solution that is none, a wrong answer that is right, and one whose message is another."""
    from attnbook_grader.grading import course_check

    first, other = assignment.tasks
    wrong = wrong_answers(find_book(), [first, other])
    one, two = wrong[first.id][:2]
    wrong[first.id] = [
        replace(one, code=solution_of(first)),
        replace(two, words="nobody says this"),
    ]
    wrong[other.id] = wrong[other.id][:1]
    broken = solution_of(other).replace("return ", "return 2 * ")
    monkeypatch.setattr(course_check, "wrong_answers", lambda book, tasks: wrong)
    monkeypatch.setattr(
        course_check, "solution_of", lambda task: broken if task is other else solution_of(task)
    )
    made = Course("x", 5, (assignment,), limits=Limits(**PATIENT))
    findings = check_course(made, find_book(), "bubblewrap", jobs=1)
    faults = {
        (found.exercise, found.answer): found.fault.partition(":")[0].partition(" (")[0]
        for found in findings
        if found.fault
    }
    assert faults == {
        (other.id, "the solution"): "does not get all points",
        (first.id, one.name): "gets all points",
        (first.id, two.name): "the message does not name the mistake",
    }


def test_the_book_s_wrong_answers_become_cells():
    tasks = [task for section in sections(find_book()) for task in section.tasks]
    found = wrong_answers(find_book(), tasks)
    assert set(found) == set(exercises()) and min(map(len, found.values())) >= 3
    from tests.checks.wrong_answers import WRONG

    assert {id: [(one.name, one.words) for one in answers] for id, answers in found.items()} == {
        id: [(one.name, one.words) for one in WRONG[id]] for id in found
    }


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
    assert (
        result.output
        == f"{judge('00.weighted_sum', scope['weighted_sum'])}\n✓ 00.temperature: right.\n"
    )
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
    path.write_bytes(
        notebook_with(assignment, {task.id: solution_of(task) for task in assignment.tasks})
    )
    assert run(check, path).output == "✓ 00.weighted_sum: right.\n✓ 00.temperature: right.\n"


def test_notebooks_that_cannot_be_checked(tmp_path, assignment):
    assert "is not there" in run(check, tmp_path / "x.ipynb").output
    (tmp_path / "x.ipynb").write_text("")
    assert "the file is empty" in run(check, tmp_path / "x.ipynb").output
    (tmp_path / "x.ipynb").write_text(
        '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'
    )
    assert "calls no check" in run(check, tmp_path / "x.ipynb").output
    (tmp_path / "x.ipynb").write_bytes(notebook_with(assignment, {}))
    assert "has no check of '99.x'" in run(check, tmp_path / "x.ipynb", "--exercise", "99.x").output


def test_every_command_has_help():
    for command in (
        ["--help"],
        ["course", "--help"],
        ["course", "new", "--help"],
        ["course", "check", "--help"],
        ["course", "grade", "--help"],
        ["check", "--help"],
    ):
        assert CliRunner().invoke(main, command).exit_code == 0
