"""A round in the sandbox: a made-up class, honest and hostile, and what the round writes."""

import csv
import hashlib
import os
import shutil
from pathlib import Path

import pytest
from made_up_class import write_class

import attnbook
import attnbook_grader
from attnbook_grader.notebooks.hand_ins import safe_names

from .conftest import EMPTY, IDS, grade_here, marks_table, write
from .test_judging import LOOPS

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("bubblewrap")]


def modules():
    """The code that the class may not change."""
    folders = [Path(package.__file__).parent for package in (attnbook, attnbook_grader)]
    paths = [path for folder in folders for path in folder.rglob("*.py")]
    return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


@pytest.fixture(scope="module")
def graded(course, assignment, section, tmp_path_factory):
    folder = tmp_path_factory.mktemp("round")
    written = write_class(folder / "hand-ins", assignment, section)
    for student in LOOPS:  # a limit that ends them soon could end honest answers on a slow machine
        del written[student]
        shutil.rmtree(folder / "hand-ins" / student)
    (folder / "hand-ins" / "absent").mkdir()
    write(folder, "hand-ins/right/holiday.ipynb", EMPTY)
    write(folder, "hand-ins/200 MB/soft_lookup.ipynb", "")
    os.truncate(folder / "hand-ins" / "200 MB" / "soft_lookup.ipynb", 200 * 2**20)
    before = modules()
    done = grade_here(course, folder, trust=False)
    assert modules() == before
    assert not os.path.exists("/tmp/attnbook-bomb")
    return written, folder, done


def test_every_hand_in_gets_the_marks_that_it_must_get(graded):
    written, folder, _ = graded
    marks = {student: {} for student in written}
    for row in marks_table(folder / "out"):
        if row["student"] in written:
            marks[row["student"]][row["exercise"]] = float(row["points"])
    assert marks == {student: one.marks for student, one in written.items()}


def test_the_feedback_says_why(graded):
    written, folder, _ = graded
    notes = {
        row["student"]: row["note"]
        for row in marks_table(folder / "out")
        if row["exercise"] == IDS[0]
    }
    for student, one in written.items():
        assert one.words in notes[student], f"{student}: {notes[student]}"
        if student != "uses the library":
            assert bool(notes[student]) == (one.marks[IDS[0]] < 2), f"{student}: {notes[student]}"
    assert notes["absent"] == "nothing was handed in"
    assert "larger than 128 MB" in notes["200 MB"]


def test_the_table_adds_up(graded, assignment):
    written, folder, _ = graded
    rows = marks_table(folder / "out")
    assert list(rows[0]) == ["student", "assignment", "exercise", "points", "max", "note"]
    with (folder / "out" / "wide.csv").open(newline="", encoding="utf-8-sig") as file:
        totals = {row["student"]: float(row["total"]) for row in csv.DictReader(file)}
    assert all(totals[name] == sum(one.marks.values()) for name, one in written.items())
    assert sum(float(row["max"]) for row in rows if row["student"] == "right") == assignment.most
    assert len(rows) == 2 * (len(written) + 2)


def test_every_student_has_a_page(graded):
    written, folder, _ = graded
    names = safe_names([*written, "absent", "200 MB"])
    pages = folder / "out" / "feedback"
    for student, one in written.items():
        page = (pages / names[student] / "index.html").read_text(encoding="utf-8")
        assert f"{sum(one.marks.values()):g} of 6 points" in page and "<script" not in page
    page = (pages / names["crashing"] / "index.html").read_text()
    stopped = "your code stopped with IndexError: list index out of range; line 2: return [][1]"
    assert stopped in page


def test_the_class_has_a_page(graded):
    _, folder, done = graded
    page = (folder / "out" / "class.html").read_text(encoding="utf-8")
    assert page.count("<svg") == page.count('role="img" aria-label=') == 1
    assert "equal to wrong, wrong (wrong in the same way: 00.weighted_sum)" in page
    assert "What went wrong most often" in page
    (group,) = done.equal["soft_lookup"]
    assert group.students == ("equal to wrong", "wrong"), "the right answer is that of many"


def test_nothing_but_the_round_is_left(graded):
    _, folder, _ = graded
    left = {path.name for path in (folder / "out").iterdir()}
    made = "attnbook-grades class.html feedback journal.db marks.csv wide.csv"
    assert left - {".lock", "journal.db-wal", "journal.db-shm"} == set(made.split())
