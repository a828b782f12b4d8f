"""A round of grading: what it judges, what it keeps, and what it says."""

import json
import os
import sqlite3
from dataclasses import replace
from types import SimpleNamespace

import pytest

from attnbook_grader.course.assignments import Course, Rules, notebook_with
from attnbook_grader.grading import judging, outputs, rounds
from attnbook_grader.grading.judging import Outcome
from attnbook_grader.notebooks import hand_ins

from .conftest import grade_here, write


def points(done):
    return {(one.student, one.assignment): one.points for one in done.marks}


def notes(done):
    return {one.student: one.note for one in done.marks}


@pytest.fixture
def course(assignment):
    return Course("x", 1, (assignment,))


@pytest.fixture
def here(course, tmp_path, monkeypatch):
    """A round that judges in this process, which has PyTorch already, and writes no pages."""
    judge = lambda jobs, **_: [(key, judging.judge_notebook(job)) for key, job in jobs]  # noqa: E731
    monkeypatch.setattr(rounds, "judge_all", judge)
    monkeypatch.setattr(rounds, "write_outputs", lambda *_: None)
    return lambda out="out", **options: grade_here(course, tmp_path, out, **options)


def test_a_failing_round_leaves_the_old_pages(tmp_path, course, monkeypatch):
    write(tmp_path, "hand-ins/ann/soft_lookup.ipynb", "")
    grade_here(course, tmp_path, jobs=1)
    before = (tmp_path / "out" / "marks.csv").read_text()
    assert "the file is empty" in before

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(outputs, "write_class_page", full)
    with pytest.raises(OSError):
        grade_here(course, tmp_path, jobs=1)
    assert (tmp_path / "out" / "marks.csv").read_text() == before
    assert not list((tmp_path / "out").glob(".new-*"))


def test_a_fault_of_the_grader_costs_one_notebook_and_is_tried_again(tmp_path, here, monkeypatch):
    cells = {"ann": [], "bob": [{"cell_type": "code", "source": "x"}], "cy": []}
    for student, content in cells.items():
        write(tmp_path, f"hand-ins/{student}/soft_lookup.ipynb", json.dumps({"cells": content}))

    def breaks(content):
        if not json.loads(content)["cells"]:
            raise KeyError("a fault \ud800")
        odd(content)

    def odd(content):
        raise judging.Unreadable("the file is odd")

    monkeypatch.setattr(judging, "parse_submission", breaks)
    done = here()
    stopped = "this notebook could not be graded: the grader stopped with KeyError"
    assert notes(done) == {"ann": stopped, "bob": "the file is odd", "cy": stopped}
    assert [one.partition(" (")[0] for one in done.remarks if "could not be graded" in one] == [
        f"{student}: soft_lookup.ipynb: could not be graded, and is judged again in the next "
        f"round: KeyError: 'a fault \\ud800'"
        for student in ("ann", "cy")
    ]
    monkeypatch.setattr(judging, "parse_submission", odd)
    done = here()
    assert done.judged == 1 and {*notes(done).values()} == {"the file is odd"}


def test_a_broken_upload_does_not_take_the_place_of_a_right_one(weeks):
    weeks.grade()
    write(weeks.folder, "ann/week-1 again.ipynb", "{cut off")
    later = weeks.grade()
    assert points(later)["ann", "week-1"] == 2.0
    (one,) = [one for one in later.marks if (one.student, one.assignment) == ("ann", "week-1")]
    broken = "the file is not a Jupyter notebook (it does not appear to be JSON)"
    assert one.note == f"week-1 again.ipynb does not count: {broken}"
    assert later.remarks == [f"ann: {one.note}"]
    write(weeks.folder, "cy/week-1.ipynb", "{cut off")
    of_cy = {one.note for one in weeks.grade().marks if one.student == "cy"}
    assert of_cy == {"nothing was handed in", broken}, "where there is no other, it is said"


def test_what_was_read_can_be_judged_when_it_is_gone(weeks, monkeypatch):
    """And is not read a second time."""
    weeks.grade()
    (weeks.folder / "ann" / "week-1.ipynb").unlink()
    (weeks.folder / "bob" / "x.ipynb").write_bytes((weeks.folder / "bob/week-1.ipynb").read_bytes())
    monkeypatch.setattr(hand_ins, "read_notebook", None)
    again = weeks.grade(again=[weeks.ids[0]])
    assert again.judged == 2 and points(again)["ann", "week-1"] == 2.0


@pytest.fixture
def weeks(assignment, tmp_path, monkeypatch):
    """Two assignments, and hand-ins of ann for both and of bob for the first.

    `grade` calls right what says so, and writes no pages.
    """
    made = [
        replace(assignment, name=name, tasks=(task,), points={task.id: assignment.points[task.id]})
        for name, task in zip(("week-1", "week-2"), assignment.tasks)
    ]
    written = []

    def judge(jobs, **_):
        return [(key, [verdict(id, job.content.decode()) for id in job.tasks]) for key, job in jobs]

    def verdict(id, text):
        right = f"# right: {id}" in text
        return Outcome(id, right, right, "", print="x" if right else "")

    def write_outputs(out, course, assignments, *_):
        written.append([one.name for one in assignments])

    def hand_in(name, *parts, more=""):
        tasks = [task.id for part in parts for task in made[part].tasks]
        answers = {id: f"# right: {id}{more}" for id in tasks}
        write(tmp_path / "hand-ins", name, notebook_with(assignment, answers))

    def grade(rules=None, **options):
        return grade_here(Course("x", 1, tuple(made), rules or Rules()), tmp_path, **options)

    monkeypatch.setattr(rounds, "judge_all", judge)
    monkeypatch.setattr(rounds, "write_outputs", write_outputs)
    hand_in("ann/week-1.ipynb", 0)
    hand_in("ann/week-2.ipynb", 1)
    hand_in("bob/week-1.ipynb")
    return SimpleNamespace(
        folder=tmp_path / "hand-ins",
        journal=tmp_path / "out" / "journal.db",
        hand_in=hand_in,
        grade=grade,
        written=written,
        ids=[task.id for task in assignment.tasks],
    )


def test_marks_are_made_from_all_that_was_ever_handed_in(weeks):
    """The folder of the second week holds the second week alone, and one student has gone."""
    first = weeks.grade()
    for name in ("ann/week-1.ipynb", "bob/week-1.ipynb"):
        (weeks.folder / name).unlink()
    (weeks.folder / "bob").rmdir()
    second = weeks.grade()
    assert points(second) == points(first) and {*notes(second)} == {"ann", "bob"}
    assert second.remarks == [
        "week-1: 2 hand-ins of an earlier round no longer there, still counted: "
        "ann (ann/week-1.ipynb), bob (bob/week-1.ipynb); --drop-absent drops what is gone"
    ]
    dropped = weeks.grade(drop_absent=True)
    assert points(dropped) == {("ann", "week-2"): 4.0} and not dropped.remarks
    assert weeks.grade().marks == dropped.marks


def test_a_file_that_was_moved_is_no_second_hand_in(weeks):
    whole = weeks.grade()
    (weeks.folder / "ann" / "deep").mkdir()
    (weeks.folder / "ann" / "week-1.ipynb").rename(weeks.folder / "ann" / "deep" / "week-1.ipynb")
    again = weeks.grade()
    assert points(again) == points(whole) and not again.remarks


def test_an_earlier_version_of_a_file_is_a_hand_in_too(weeks):
    """The first counts under that rule, although another file has taken its place."""
    weeks.grade()
    weeks.hand_in("ann/week-1.ipynb")
    again = weeks.grade()
    assert points(again)["ann", "week-1"] == 0.0 and not again.remarks
    assert points(weeks.grade(rules=Rules(repeated="first")))["ann", "week-1"] == 2.0


def test_one_assignment_alone_takes_no_file_of_another(weeks):
    """Neither an empty file named after another assignment, nor the student's name in a file
    without a folder.
    """
    marks = {("ann", "week-2"): 4.0, ("bob", "week-2"): 0.0}
    assert points(weeks.grade(only=["week-2"])) == marks
    for name in ("ann/week-1.ipynb", "dora_week-1.ipynb"):
        write(weeks.folder, name, "")
    done = weeks.grade(only=["week-2"])
    assert done.judged == 0 and points(done) == marks | {("dora", "week-2"): 0.0}


def test_the_marks_of_the_other_assignments_stay(weeks):
    whole = weeks.grade()
    assert points(whole) == {
        ("ann", "week-1"): 2.0,
        ("ann", "week-2"): 4.0,
        ("bob", "week-1"): 0.0,
        ("bob", "week-2"): 0.0,
    }
    again = weeks.grade(only=["week-2"])
    assert again.judged == 0 and again.marks == whole.marks
    assert weeks.written == [["week-1", "week-2"]] * 2
    with sqlite3.connect(weeks.journal) as base:
        for table, count in (("student", 2), ("hand_in", 3)):
            assert base.execute(f"select count(*) from {table}").fetchone() == (count,)
    weeks.hand_in("cy/week-1.ipynb", 0, more=", and mine")
    waits = weeks.grade(only=["week-2"])
    nothing = {("cy", "week-1"): 0.0, ("cy", "week-2"): 0.0}
    assert waits.judged == 0 and points(waits) == points(whole) | nothing
    assert waits.remarks == [
        "week-1: hand-ins that came after its last round do not count yet, those of cy; grade it "
        "again"
    ]
    assert "handed in, but not judged yet" in {
        one.note for one in waits.marks if one.student == "cy"
    }
    done = weeks.grade()
    assert done.judged == 1 and points(done)["cy", "week-1"] == 2.0 and not done.remarks


def test_a_chapter_s_notebook_handed_in_for_one_week_costs_nothing_in_the_other(weeks):
    weeks.hand_in("ann/deep/soft_lookup.ipynb", 1)
    os.utime(weeks.folder / "ann" / "week-1.ipynb", (1_000_000_000, 1_000_000_000))
    done = weeks.grade()
    assert points(done)["ann", "week-1"] == 2.0 and points(done)["ann", "week-2"] == 4.0
    assert done.remarks == [
        "ann: soft_lookup.ipynb: holds exercises of other assignments, and another hand-in, with "
        "better marks or answers, counts for week-1"
    ]


def test_what_is_judged_again_is_not_begun_anew_after_a_kill(tmp_path, course, here, monkeypatch):
    """A round that ends in the middle, and the same command after it."""
    for copy in range(4):
        content = json.dumps({"cells": [{"cell_type": "code", "source": "x" * copy}]})
        write(tmp_path, f"hand-ins/student {copy}/soft_lookup.ipynb", content)
    again = [course.assignments[0].tasks[0].id]

    def right(jobs, **_):
        return [(key, [Outcome(id, True, True, "") for id in job.tasks]) for key, job in jobs]

    def killed(jobs, **_):
        yield from right(list(jobs)[:3])
        raise KeyboardInterrupt

    monkeypatch.setattr(rounds, "judge_all", right)
    assert here().judged == 4
    assert here(again=again).judged == 4, "all of it"
    assert here(again=again).judged == 4, "a round that came to its end is not gone on with"
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(rounds, "judge_all", killed)
        here(again=again)
    assert here(again=again).judged == 1, "what was left"
    assert here(again=again).judged == 4 and here().judged == 0


def test_half_a_surrogate_pair_does_not_stop_a_round(tmp_path, here, monkeypatch):
    write(tmp_path, "hand-ins/ann/soft_lookup.ipynb", '{"nbformat":"\\ud800"}')
    assert "not a Jupyter notebook" in notes(here("as it is"))["ann"]
    write(tmp_path, "hand-ins/ann/soft_lookup.ipynb", '{"cells": []}')

    def refuses(content):
        raise judging.Unreadable("no \ud800")

    def judge(job):
        return [Outcome(id, False, False, "\ud800!", remark="\udfff") for id in job.tasks]

    monkeypatch.setattr(judging, "parse_submission", refuses)
    assert notes(here("tidied"))["ann"] == "no "
    monkeypatch.setattr(judging, "judge_notebook", judge)
    assert notes(here("written down"))["ann"] == "?!; ?"
