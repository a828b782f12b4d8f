"""Pages and tables: any text, and no formula."""

import csv
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from attnbook_grader.course.assignments import Course
from attnbook_grader.grading import class_page, feedback, judging, rounds
from attnbook_grader.grading.judging import Outcome
from attnbook_grader.grading.marks import Mark
from attnbook_grader.grading.outcomes import OUT_OF_SIGHT
from attnbook_grader.notebooks.hand_ins import HandIn


def test_pages_and_tables_take_any_text(tmp_path, assignment):
    outcome = Outcome("00.x", False, False, '<script>alert("x")</script>')
    one = Mark("=cmd()", "s", "00.x", "<b>", 0.0, 2.0, '<script>alert("x")</script>', None, outcome)
    feedback.write_csv(tmp_path / "marks.csv", [one])
    assert "'=cmd()" in (tmp_path / "marks.csv").read_text()
    feedback.write_feedback(
        tmp_path / "feedback" / "ann" / "index.html",
        "<i>Ann</i> \ud800",
        [one, replace(one, outcome=replace(outcome, code="x = 1  # \u202e\0"))],
        [replace(assignment, name="s", title="<u>S</u>")],
    )
    page = (tmp_path / "feedback" / "ann" / "index.html").read_text()
    assert not any(tag in page for tag in ("<script>", "<i>Ann", "<b>", "<u>", "\u202e", "\0"))
    assert r"x = 1  # \u202e\x00" in page


FORMULAS = ["=A1", " =A1", "@A1", "x;=A1", "x; +A1", 'x;"=A1"', 'x;"" -A1', "x\n=A1;y", "x\r=A1"]
FORMULAS += ["x\t;=A1", "x,=A1", "x;＝A1"]


@pytest.mark.parametrize("text", FORMULAS)
def test_no_cell_of_the_table_is_a_formula(tmp_path, text):
    """However it is divided: at commas, or at semicolons as where the comma is in numbers."""
    feedback.write_csv(tmp_path / "marks.csv", [Mark(text, "s", "00.x", "X", 0.0, 2.0, text)])
    for mark in ",;":
        with (tmp_path / "marks.csv").open(newline="", encoding="utf-8-sig") as file:
            cells = [cell for row in csv.reader(file, delimiter=mark) for cell in row]
        assert "A1" in "".join(cells)
        assert not [cell for cell in cells if cell.strip(' "').startswith(tuple("=+-@＝"))], cells
    assert (tmp_path / "marks.csv").read_bytes().count(b"\n") == 2


def test_an_ordinary_message_stands_in_the_table_as_it_is(tmp_path):
    said = "weights[0]: got [0.5, -1.25]; line 2: return x - y; 1 day late: 90% of the marks"
    feedback.write_csv(tmp_path / "marks.csv", [Mark("Jean-Luc", "s", "00.x", "X", 0.0, 2.0, said)])
    with (tmp_path / "marks.csv").open(newline="", encoding="utf-8-sig") as file:
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


def test_the_class_page_says_what_needs_attention(tmp_path, assignment):
    ids = [task.id for task in assignment.tasks]
    hand_in = HandIn(
        "ann", assignment.name, tmp_path / "x.ipynb", "a", datetime(2027, 1, 1, tzinfo=UTC)
    )
    marks = [
        Mark("ann", assignment.name, id, "X", 0.5, 2.0, "", hand_in, outcome)
        for id, outcome in zip(ids, judging.refused(ids, "the file is <empty>"))
    ]
    marks += [
        Mark("bo", assignment.name, ids[0], "X", 0.0, 2.0, "", hand_in, one)
        for one in (
            Outcome(ids[0], True, False, "wrong", attention=f"{OUT_OF_SIGHT}: it uses exec"),
        )
    ]
    marks += [Mark("bo", assignment.name, id, "X", 2.0, 2.0, "") for id in ids]
    done = rounds.Round(marks, 2, {assignment.name: []}, [])
    class_page.write_class_page(
        tmp_path / "class.html",
        Course("C", 1, (assignment,)),
        [assignment],
        done,
        {"ann": "ann 1", "bo": "bo"},
    )
    page = (tmp_path / "class.html").read_text()
    ann = '<td><a href="feedback/ann%201/index.html">ann</a></td>'
    assert (
        f"<tr>{ann}<td>x.ipynb</td><td>all</td>"
        '<td class="note">could not be read: the file is &lt;empty&gt;</td></tr>' in page
    )
    assert "it uses exec; the check says: wrong" in page
    assert f'{ann}<td>1</td><td class="note">1</td>' in page
    assert '<td><a href="feedback/bo/index.html">bo</a></td><td>4</td>' in page
    assert "is &lt;empty" not in page.partition("went wrong")[2], "no check said that"
