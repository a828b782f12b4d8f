"""A whole round in the sandbox: a made-up class, honest and hostile; what it leaves behind;
killed and started again.
"""

import csv
import hashlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

import attnbook
import attnbook_grader
from attnbook_grader.commands import grade
from attnbook_grader.course.assignments import Course
from attnbook_grader.course.synthetic_class import write_class
from attnbook_grader.grading import check_fingerprint, rounds
from attnbook_grader.notebooks.hand_ins import safe_names
from attnbook_grader.sandbox.launch import Limits

from .conftest import IDS

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("bubblewrap")]
LIMITS = Limits(seconds=8, notebook=120, memory=1024)


def table(out):
    with (out / "marks.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def quiet(*_):
    pass


@pytest.fixture(scope="module")
def course(assignment):
    return Course("A class", 4711, (assignment,), limits=LIMITS)


@pytest.fixture(scope="module")
def graded(course, assignment, section, tmp_path_factory):
    folder = tmp_path_factory.mktemp("round")
    written = write_class(folder / "hand-ins", assignment, section)
    (folder / "hand-ins" / "absent").mkdir()
    (folder / "hand-ins" / "right" / "holiday.ipynb").write_text(
        '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'
    )
    huge = folder / "hand-ins" / "200 MB"
    huge.mkdir()
    with open(huge / "soft_lookup.ipynb", "wb") as file:
        file.truncate(200 * 2**20)
    modules = [
        path
        for package in (attnbook, attnbook_grader)
        for path in Path(package.__file__).parent.rglob("*.py")
    ]
    before = {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in modules}
    done = rounds.grade(course, folder / "hand-ins", folder / "out", say=quiet)
    assert {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in modules} == before
    assert not os.path.exists("/tmp/attnbook-bomb")
    return written, folder, done


def test_every_hand_in_gets_the_marks_that_it_must_get(graded):
    written, folder, _ = graded
    marks = {student: {} for student in written}
    for row in table(folder / "out"):
        if row["student"] in written:
            marks[row["student"]][row["exercise"]] = float(row["points"])
    assert marks == {student: one.marks for student, one in written.items()}


def test_the_feedback_says_why(graded):
    written, folder, _ = graded
    notes = {
        row["student"]: row["note"] for row in table(folder / "out") if row["exercise"] == IDS[0]
    }
    for student, one in written.items():
        assert one.words in notes[student], f"{student}: {notes[student]}"
        if student != "uses the library":
            assert bool(notes[student]) == (one.marks[IDS[0]] < 2), f"{student}: {notes[student]}"
    assert notes["absent"] == "nothing was handed in"
    assert "larger than 20 MB" in notes["200 MB"]


def test_the_table_adds_up(graded, assignment):
    written, folder, _ = graded
    rows = table(folder / "out")
    assert list(rows[0]) == ["student", "assignment", "exercise", "points", "max", "total", "note"]
    for row in rows:
        if row["student"] in written:
            assert float(row["total"]) == sum(written[row["student"]].marks.values())
    assert sum(float(row["max"]) for row in rows if row["student"] == "right") == assignment.most
    assert len(rows) == 2 * (len(written) + 2)


def test_every_student_has_a_page(graded):
    written, folder, _ = graded
    names = safe_names([*written, "absent", "200 MB"])
    for student, one in written.items():
        page = (folder / "out" / "feedback" / names[student] / "index.html").read_text(
            encoding="utf-8"
        )
        assert f"{sum(one.marks.values()):g} of 6 points" in page
        assert "<script" not in page
    page = (folder / "out" / "feedback" / names["crashing"] / "index.html").read_text()
    assert (
        "your code stopped with IndexError: list index out of range; line 2: return [][1]" in page
    )


def test_the_class_has_a_page(graded):
    _, folder, done = graded
    page = (folder / "out" / "class.html").read_text(encoding="utf-8")
    assert page.count("<svg") == 2 and page.count('role="img" aria-label=') == 2
    assert (
        "equal to right" in page
        and "00.weighted_sum" in page
        and "What went wrong most often" in page
    )
    (group,) = done.equal["soft_lookup"]
    assert {"right", "equal to right", "right from Colab"} <= set(group) and "wrong" not in group


def test_nbgrader_s_gradebook_holds_the_same_marks(graded):
    from nbgrader.api import Gradebook

    written, folder, _ = graded
    names = safe_names([*written, "absent", "200 MB"])
    with Gradebook(f"sqlite:///{folder / 'out' / 'gradebook.db'}", "attnbook") as book:
        for student, one in written.items():
            submission = book.find_submission("soft_lookup", names[student])
            assert submission.score == sum(one.marks.values()), student
            assert not submission.needs_manual_grade


def test_the_journal_is_whole(graded):
    written, folder, _ = graded
    with sqlite3.connect(folder / "out" / "journal.db") as base:
        assert base.execute("pragma integrity_check").fetchone() == ("ok",)
        assert base.execute("select max(count) from outcome").fetchone() == (1,)
        assert base.execute("select count(*) from mark").fetchone() == (2 * (len(written) + 2),)


def test_nothing_but_the_round_is_left(graded):
    _, folder, _ = graded
    assert {path.name for path in (folder / "out").iterdir()} - {
        ".lock",
        "journal.db-wal",
        "journal.db-shm",
    } == {"attnbook-grades", "class.html", "feedback", "gradebook.db", "journal.db", "marks.csv"}


def test_what_is_known_is_not_judged_again(graded, course, tmp_path):
    _, folder, _ = graded
    before = table(folder / "out")
    again = rounds.grade(course, folder / "hand-ins", folder / "out", say=quiet)
    assert again.judged == 0 and table(folder / "out") == before


@pytest.fixture
def small(assignment, section, tmp_path):
    write_class(tmp_path / "hand-ins", assignment, section, ["wrong", "partly right"])
    return tmp_path


def counts(folder):
    with sqlite3.connect(folder / "out" / "journal.db") as base:
        return dict(base.execute("select exercise, sum(count) from outcome group by exercise"))


def test_a_changed_check_is_judged_again_and_no_other(small, course, monkeypatch):
    rounds.grade(course, small / "hand-ins", small / "out", say=quiet, jobs=1)
    assert counts(small) == dict.fromkeys(IDS, 2)
    true = check_fingerprint._code
    monkeypatch.setattr(
        check_fingerprint, "_code", lambda id: true(id) + ("# mended" if id == IDS[1] else "")
    )
    assert rounds.grade(course, small / "hand-ins", small / "out", say=quiet, jobs=1).judged == 2
    assert counts(small) == {IDS[0]: 2, IDS[1]: 4}
    assert (
        rounds.grade(
            course, small / "hand-ins", small / "out", again=[IDS[0]], say=quiet, jobs=1
        ).judged
        == 2
    )
    assert counts(small) == {IDS[0]: 4, IDS[1]: 4}
    with pytest.raises(ValueError, match="regrade: no assignment has the exercise 'x'"):
        rounds.grade(course, small / "hand-ins", small / "out", again=["x"])


def test_a_new_hand_in_is_judged_alone(small, course, assignment, section):
    rounds.grade(course, small / "hand-ins", small / "out", say=quiet, jobs=1)
    write_class(small / "hand-ins", assignment, section, ["untouched"])
    assert rounds.grade(course, small / "hand-ins", small / "out", say=quiet, jobs=1).judged == 1


def test_two_rounds_at_a_time_are_refused(small, course):
    (small / "out").mkdir()
    (small / "out" / rounds.MARKER).write_text("")
    with (
        rounds._locked(small / "out"),
        pytest.raises(ValueError, match="another round of grading is at work"),
    ):
        rounds.grade(course, small / "hand-ins", small / "out", say=quiet)


KILLED = """
import sys
from pathlib import Path

from attnbook_grader.grading import rounds
from attnbook_grader.course.assignments import Course, from_sections
from attnbook_grader.course.exercises import find_book, sections
from attnbook_grader.sandbox.launch import Limits
if __name__ == "__main__":
    parts = sections(find_book(), ["soft_lookup"], {ids})
    limits = Limits(seconds=8, notebook=120, memory=1024)
    course, out = Course("A class", 4711, from_sections(parts), limits=limits), Path({out!r})
    rounds.grade(course, {hand_ins!r}, out, say=lambda line: print(line, flush=True))
"""


def test_killed_at_any_moment_it_loses_nothing_and_judges_nothing_twice(
    course, assignment, section, tmp_path
):
    write_class(tmp_path / "once", assignment, section, ["right", "wrong"])
    for copy in range(5):
        for student in ("right", "wrong"):
            nb = json.loads((tmp_path / "once" / student / "soft_lookup.ipynb").read_text())
            nb["metadata"]["copy"] = copy  # another file, the same marks
            target = tmp_path / "hand-ins" / f"{student} {copy}"
            target.mkdir(parents=True)
            (target / "soft_lookup.ipynb").write_text(json.dumps(nb))
    script = tmp_path / "round.py"
    script.write_text(
        KILLED.format(ids=IDS, hand_ins=str(tmp_path / "hand-ins"), out=str(tmp_path / "out"))
    )
    whole = rounds.grade(course, tmp_path / "hand-ins", tmp_path / "whole", say=quiet)
    for wanted in (1, 2, 0, 2, 1):  # lines to wait for before the blow
        round_ = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
        for _ in range(wanted):
            round_.stdout.readline()
        time.sleep(0.5 * wanted)
        round_.send_signal(signal.SIGKILL)
        round_.wait()
        round_.stdout.close()
    done = rounds.grade(course, tmp_path / "hand-ins", tmp_path / "out", say=quiet)
    assert 0 < done.judged < 10
    with sqlite3.connect(tmp_path / "out" / "journal.db") as base:
        assert base.execute("select count(*), max(count) from outcome").fetchone() == (20, 1)
    assert table(tmp_path / "out") == table(tmp_path / "whole")
    assert [(one.student, one.exercise, one.points) for one in done.marks] == [
        (one.student, one.exercise, one.points) for one in whole.marks
    ]
    assert not list((tmp_path / "out").glob(".new-*"))


def test_a_cluster_gives_the_same_marks(small, course, tmp_path):
    """Two workers of a Dask cluster on this machine."""
    from distributed import LocalCluster

    here = rounds.grade(course, small / "hand-ins", small / "here", say=quiet, jobs=2)
    with LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=40
    ) as cluster:
        there = rounds.grade(
            course,
            small / "hand-ins",
            small / "there",
            scheduler=cluster.scheduler_address,
            say=quiet,
        )
    assert there.judged == 2 and table(small / "there") == table(small / "here")
    assert here.judged == 2
    with pytest.raises(
        ValueError, match="scheduler: no Dask scheduler answers at 'tcp://127.0.0.1:1'"
    ):
        from attnbook_grader.grading.workers import judge_all

        list(judge_all([], scheduler="tcp://127.0.0.1:1"))


def test_the_command(small):
    arguments = [
        small / "hand-ins",
        "--out",
        small / "out",
        "--jobs",
        1,
        "--timeout",
        8,
        "--exercise",
        IDS[0],
        "--exercise",
        IDS[1],
    ]
    result = CliRunner().invoke(grade, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    assert "partly right · soft_lookup: 1 of 2 right" in result.stdout
    assert "marks: " in result.stdout and "unprotected" not in result.stderr
    trusted = CliRunner().invoke(
        grade,
        [*map(str, arguments[:2]), str(small / "trusted"), *map(str, arguments[3:]), "--trust"],
    )
    assert trusted.exit_code == 0, trusted.output
    assert "without a sandbox" in trusted.stderr
    assert table(small / "trusted") == table(small / "out")


DIES = """
import os
from attnbook_grader.grading.judging import judge_notebook as honest


def judge_notebook(job):
    if b"return inputs[0]" in job.content and b"left" not in job.content:
        os._exit(1)
    return honest(job)
"""


def test_a_worker_that_dies_takes_only_its_own_notebook(small, course, monkeypatch):
    from attnbook_grader.grading import workers

    (small / "dies.py").write_text(DIES)
    monkeypatch.syspath_prepend(small)
    import dies

    monkeypatch.setattr(workers, "judge_notebook", dies.judge_notebook)
    done = rounds.grade(course, small / "hand-ins", small / "out", say=quiet, jobs=2)
    assert {
        one.student for one in done.marks if "ended the process that graded it" in one.note
    } == {"wrong"}
    assert sum(one.points for one in done.marks if one.student == "partly right") == 5


def test_a_worker_of_a_cluster_that_dies_takes_only_its_own_notebook(small, course, monkeypatch):
    import dask
    from distributed import LocalCluster

    from attnbook_grader.grading import workers

    (small / "dies_there.py").write_text(DIES)
    monkeypatch.syspath_prepend(small)
    import dies_there

    monkeypatch.setattr(workers, "judge_notebook", dies_there.judge_notebook)
    with dask.config.set({"distributed.scheduler.allowed-failures": 1}):
        with LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50
        ) as cluster:
            done = rounds.grade(
                course,
                small / "hand-ins",
                small / "out",
                scheduler=cluster.scheduler_address,
                say=quiet,
            )
    assert {
        one.student for one in done.marks if "ended the process that graded it" in one.note
    } == {"wrong"}
    assert sum(one.points for one in done.marks if one.student == "partly right") == 5


def test_on_a_cluster_a_call_without_end_is_ended():
    """A worker's thread cannot be interrupted in a call of C, which holds the interpreter
    besides; its process can.
    """
    code = """
import time, types
from attnbook_grader.grading import workers
from attnbook_grader.sandbox.launch import Limits
workers._GRACE = 0.5
job = types.SimpleNamespace(limits=Limits(notebook=0.1, startup=0.1))
import threading, ctypes
sleep = lambda job: ctypes.PyDLL(None).sleep(30)
call = threading.Thread(target=workers._exclusively, args=(workers.CHECKS, sleep, job))
call.start()
call.join()
"""
    started = time.monotonic()
    done = subprocess.run([sys.executable, "-c", code], timeout=60)
    assert done.returncode == -signal.SIGALRM and time.monotonic() - started < 25
