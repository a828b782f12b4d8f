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

    monkeypatch.setattr(outputs, "write_class_page", full)
    with pytest.raises(OSError):
        rounds.grade(
            made, tmp_path / "hand-ins", tmp_path / "out", trust=True, jobs=1, say=lambda line: None
        )
    assert (tmp_path / "out" / "marks.csv").read_text() == before
    assert not list((tmp_path / "out").glob(".new-*"))


def judge_here(jobs, **_):
    """In place of `judge_all`: in this process, which has PyTorch already."""
    return [(key, judging.judge_notebook(job)) for key, job in jobs]


def test_a_fault_of_the_grader_costs_one_notebook_and_is_tried_again(
    tmp_path, assignment, monkeypatch
):
    cells = [("ann", []), ("bob", [{"cell_type": "code", "source": "x"}]), ("cy", [])]
    for student, content in cells:
        (tmp_path / "hand-ins" / student).mkdir(parents=True)
        (tmp_path / "hand-ins" / student / "soft_lookup.ipynb").write_text(
            json.dumps({"cells": content})
        )
    made = Course("x", 1, (assignment,))

    def breaks(content):
        if not json.loads(content)["cells"]:
            raise KeyError("a fault \ud800")
        raise judging.Unreadable("the file is odd")

    def odd(content):
        raise judging.Unreadable("the file is odd")

    monkeypatch.setattr(rounds, "judge_all", judge_here)
    monkeypatch.setattr(judging, "parse_submission", breaks)
    monkeypatch.setattr(rounds, "write_outputs", lambda *_: None)
    done = rounds.grade(
        made, tmp_path / "hand-ins", tmp_path / "out", trust=True, say=lambda line: None
    )
    notes = {one.student: one.note for one in done.marks}
    assert (
        notes["ann"]
        == notes["cy"]
        == "this notebook could not be graded: the grader stopped with KeyError"
    )
    assert notes["bob"] == "the file is odd"
    assert [
        remark.partition(" (")[0] for remark in done.remarks if "could not be graded" in remark
    ] == [
        f"{student}: soft_lookup.ipynb: could not be graded, and is judged again in the next "
        f"round: KeyError: 'a fault \\ud800'"
        for student in ("ann", "cy")
    ]
    monkeypatch.setattr(judging, "parse_submission", odd)
    done = rounds.grade(
        made, tmp_path / "hand-ins", tmp_path / "out", trust=True, say=lambda line: None
    )
    assert done.judged == 1 and {one.note for one in done.marks} == {"the file is odd"}


def test_a_broken_upload_does_not_take_the_place_of_a_right_one(weeks):
    weeks.grade()
    (weeks.folder / "ann" / "week-1 again.ipynb").write_text("{cut off")
    later = weeks.grade()
    assert points(later)["ann", "week-1"] == 2.0
    (one,) = [one for one in later.marks if (one.student, one.assignment) == ("ann", "week-1")]
    assert one.note == (
        "week-1 again.ipynb does not count: the file is not a Jupyter notebook (it does not appear "
        "to be JSON)"
    )
    assert later.remarks == [f"ann: {one.note}"]
    (weeks.folder / "cy").mkdir()
    (weeks.folder / "cy" / "week-1.ipynb").write_text("{cut off")
    assert {one.note for one in weeks.grade().marks if one.student == "cy"} == {
        "nothing was handed in",
        "the file is not a Jupyter notebook (it does not appear to be JSON)",
    }, "where there is no other, it is said"


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
        "write_outputs",
        lambda out, course, assignments, *_: written.append([one.name for one in assignments]),
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

    def grade(rules=None, **options):
        return rounds.grade(
            Course("x", 1, tuple(made), rules or Rules()),
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
        ids=[task.id for task in assignment.tasks],
    )


def test_marks_are_made_from_all_that_was_ever_handed_in(weeks):
    """The folder of the second week holds the second week alone, and one student has gone."""
    first = weeks.grade()
    for name in ("ann/week-1.ipynb", "bob/week-1.ipynb"):
        (weeks.folder / name).unlink()
    (weeks.folder / "bob").rmdir()
    second = weeks.grade()
    assert points(second) == points(first) and {one.student for one in second.marks} == {
        "ann",
        "bob",
    }
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


def test_a_journal_of_an_earlier_version_is_read_on(weeks):
    whole = weeks.grade()
    with sqlite3.connect(weeks.journal) as base:
        base.execute("alter table hand_in drop column shared")
        base.execute("update hand_in set file = replace(file, student || '/', '')")
    again = weeks.grade()
    assert again.judged == 0 and again.marks == whole.marks and not again.remarks


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


def test_what_is_judged_again_is_not_begun_anew_after_a_kill(tmp_path, assignment, monkeypatch):
    """A round that ends in the middle, and the same command after it."""
    for copy in range(4):
        (tmp_path / "hand-ins" / f"student {copy}").mkdir(parents=True)
        (tmp_path / "hand-ins" / f"student {copy}" / "soft_lookup.ipynb").write_text(
            json.dumps({"cells": [{"cell_type": "code", "source": "x" * copy}]})
        )
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

    def right(jobs, **_):
        return [(key, [Outcome(id, True, True, "") for id in job.tasks]) for key, job in jobs]

    def killed(jobs, **_):
        yield from right(list(jobs)[:3])
        raise KeyboardInterrupt

    monkeypatch.setattr(rounds, "judge_all", right)
    monkeypatch.setattr(rounds, "write_outputs", lambda *_: None)
    assert grade() == 4
    assert grade(again=[id]) == 4, "all of it"
    assert grade(again=[id]) == 4, "a round that came to its end is not gone on with"
    monkeypatch.setattr(rounds, "judge_all", killed)
    with pytest.raises(KeyboardInterrupt):
        grade(again=[id])
    monkeypatch.setattr(rounds, "judge_all", right)
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
    monkeypatch.setattr(rounds, "write_outputs", lambda *_: None)

    def note(out):
        done = rounds.grade(
            made, tmp_path / "hand-ins", tmp_path / out, trust=True, say=lambda line: None
        )
        return {one.note for one in done.marks}.pop()

    assert "not a Jupyter notebook" in note("as it is")

    (tmp_path / "hand-ins" / "ann" / "soft_lookup.ipynb").write_text('{"cells": []}')

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
