"""Layouts of learning platforms, rosters, and the table that they import."""

import csv
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from attnbook_grader.commands import course
from attnbook_grader.course.assignments import Rules, notebook_with
from attnbook_grader.course.course_file import FILE
from attnbook_grader.grading import rounds
from attnbook_grader.grading.marks import Mark, _share
from attnbook_grader.grading.wide import write_wide
from attnbook_grader.notebooks.hand_ins import HandIn, find_hand_ins
from attnbook_grader.notebooks.roster import Person, Roster, read_roster

from .conftest import ONE, run, write

CANVAS = "Student,ID,SIS User ID,SIS Login ID,Section,Soft lookup (77)\n"
ROSTERS = {
    "Canvas": CANVAS
    + '    Points Possible,,,,,6\n"Lee, Ann",11,s1,alee,A,\n"Müller, Bo",12,s2,bo,A,\n',
    "Moodle": "\ufeffFirst name,Surname,ID number,Email address\nAnn,Lee,11,ann@x.org\n"
    "Bo,Müller,12,bo@x.org\n",
    "GitHub": "identifier,github_username,github_id,name\n"
    '11,alee,1,Ann Lee\n12,bo,2,"Müller, Bo"\n',
    "one's own": "name,id,username\nAnn Lee,11,alee\nBo Müller,12,bo\n",
}
# Where the files of two students lie; of the platform Canvas they say that the second is late.
MOODLE = "assignsubmission_file"
LAYOUTS = {
    "a folder each": ["Ann Lee/x.ipynb", "Bo Müller/deep/y.ipynb"],
    "a file each": ["soft_lookup_Ann Lee (1).ipynb", "Bo Müller-soft-lookup.ipynb"],
    "a folder for the assignment": ["soft_lookup/Ann Lee.ipynb", "soft_lookup/Bo Müller.ipynb"],
    "and folders in it": ["Soft-Lookup/Ann Lee/x.ipynb", "Soft-Lookup/Bo Müller/y.ipynb"],
    "Canvas": ["leeann_11_901_soft_lookup-1.ipynb", "muller_bo_LATE_12_902_answers.ipynb"],
    "Canvas in a folder": [
        f"submissions (3)/{name}_x.ipynb" for name in ("leeann_11_901", "mullerbo_LATE_12_902")
    ],
    "Moodle": [f"Ann Lee_4711_{MOODLE}/x.ipynb", f"Bo Müller_4712_{MOODLE}/deep/y.ipynb"],
    "Moodle without folders": [
        f"week 1/{name}_{MOODLE}_x.ipynb" for name in ("Ann Lee_4711", "Bo Müller_4712")
    ],
    "GitHub Classroom": [
        f"soft-lookup-submissions/soft-lookup-{name}.ipynb" for name in ("alee/a/x", "bo/y")
    ],
}
# What the students are called without a roster, where not by their names.
CALLED = {
    "Canvas": "leeann (11), muller_bo (12)",
    "Canvas in a folder": "leeann (11), mullerbo (12)",
    "GitHub Classroom": "alee, bo",
}


@pytest.fixture
def roster(tmp_path):
    """Of Ann and Bo, as somebody writes one."""
    return read(tmp_path, ROSTERS["one's own"])


def handed_in(folder, assignment, *names, roster=None):
    """What is found of notebooks of these names."""
    for name in names:
        write(folder / "hand-ins", name, notebook_with(assignment, {}))
    return find_hand_ins(folder / "hand-ins", [assignment], roster)


def read(folder, text):
    write(folder, "roster.csv", text)
    return read_roster(folder / "roster.csv")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_whose_a_file_is(tmp_path, assignment, layout):
    students = CALLED.get(layout, "Ann Lee, Bo Müller")
    found, seen, remarks = handed_in(tmp_path, assignment, *LAYOUTS[layout])
    assert (", ".join(seen), remarks) == (students, [])
    assert [one.late for one in found] == ([False, True] if "Canvas" in layout else [None, None])
    for kind, text in ROSTERS.items():
        roster = read(tmp_path, text)
        if layout == "GitHub Classroom" and kind == "Moodle":  # has no names of GitHub's
            continue
        _, seen, remarks = handed_in(tmp_path, assignment, roster=roster)
        assert (seen, remarks) == (["Ann Lee", "Bo Müller"], []), kind
        # names of rounds without the roster
        assert rounds._of_roster(roster, found, students.split(", "))[1] == sorted(seen)


def test_students_without_names_are_not_one(tmp_path, assignment):
    """As Moodle packs an assignment that is marked blindly."""
    names = [f"week/Participant_{number}_{MOODLE}/x.ipynb" for number in (4711, 4712)]
    found, students, remarks = handed_in(tmp_path, assignment, *names)
    assert students == ["Participant (4711)", "Participant (4712)"] and len(found) == 2
    assert remarks[0].startswith("Participant: 2 students of this name")


def test_files_of_students_in_a_folder_of_any_name(tmp_path, assignment):
    """The roster tells them from the files of one student."""
    roster = read(tmp_path, ROSTERS["one's own"] + "Cy,13,cy\n")
    names = ("Tuesday/Ann Lee.ipynb", "Tuesday/müller bo.ipynb", "Ann Lee/bo.ipynb")
    found, students, remarks = handed_in(tmp_path, assignment, *names, roster=roster)
    assert students == ["Ann Lee", "Bo Müller", "Cy"]
    assert [one.student for one in found] == ["Ann Lee", "Ann Lee", "Bo Müller"]
    asked = "Tuesday: taken for a folder that holds the work of Ann Lee"
    assert [remark.startswith(asked) for remark in remarks] == [True]
    _, students, remarks = handed_in(tmp_path, assignment, "Zed/x.ipynb", roster=roster)
    assert "Zed" in students
    assert remarks[0] == "Zed: nobody in the roster has this name"


def test_files_named_after_others_are_the_work_of_their_folder(tmp_path, assignment):
    forged = [f"mallory/{name}_7_{MOODLE}_soft_lookup.ipynb" for name in ("Ann Lee", "Bo")]
    names = ("Ann Lee/x.ipynb", "Bo/x.ipynb", *forged)
    found, students, remarks = handed_in(tmp_path, assignment, *names)
    assert students == ["Ann Lee", "Bo", "mallory"]
    assert [one.student for one in found if "mallory" not in str(one.path)] == ["Ann Lee", "Bo"]
    assert {one.student for one in found if "mallory" in str(one.path)} == {"mallory"}
    assert remarks[0].startswith("mallory: holds files named after Ann Lee, Bo, whose folders")


@pytest.mark.parametrize("two", [("Zo\u00eb", "Zoe\u0308"), ("Ann", "Ann "), ("Bo", "B\u200bo")])
def test_folders_that_look_the_same_are_said(tmp_path, assignment, two):
    names = [f"{name}/x.ipynb" for name in two]
    roster = Roster([Person(two[0], two[0], (), {})], ["name"])
    _, students, remarks = handed_in(tmp_path, assignment, *names, roster=roster)
    assert students == [two[0]] and "another one whose name reads the same" in remarks[0]


@pytest.mark.parametrize(
    "place",
    [
        f"Ann Lee_4711_{MOODLE}/bo.ipynb",
        f"Ann Lee_4711_{MOODLE}/Bo Müller_4712_{MOODLE}.ipynb",
        "soft-lookup-submissions/soft-lookup-ann/bo.ipynb",
        "Ann Lee/bo_12_13_x/soft_lookup.ipynb",
    ],
)
@pytest.mark.parametrize("listed", [True, False])
def test_a_name_in_a_students_folder_is_nobody_elses(tmp_path, assignment, roster, place, listed):
    found, students, _ = handed_in(tmp_path, assignment, place, roster=roster if listed else None)
    (owner,) = {one.student for one in found}
    assert owner.casefold().startswith("ann") and owner in students


def test_dates_in_names_make_nobody(tmp_path, assignment):
    names = ("Cy/soft_lookup_2026_11_28.ipynb", "Dee/soft_lookup_2026_11_27.ipynb")
    found, students, remarks = handed_in(tmp_path, assignment, *names)
    assert students == ["Cy", "Dee"] and len(found) == 2 and remarks == []


def test_a_folder_that_holds_one_known_student_is_asked_about(tmp_path, assignment, roster):
    names = ("bo.ipynb", "Annie/bo.ipynb")
    _, students, remarks = handed_in(tmp_path, assignment, *names, roster=roster)
    assert "Bo Müller" in students
    assert any(r.startswith("Annie: taken for a folder that holds the work of Bo") for r in remarks)


def test_a_file_of_nobody_is_left_out(tmp_path, assignment):
    names = ("soft_lookup/soft_lookup.ipynb", "ann/soft_lookup.ipynb")
    found, students, remarks = handed_in(tmp_path, assignment, *names)
    assert students == ["ann"] and len(found) == 1
    assert remarks[0].startswith("soft_lookup/soft_lookup.ipynb: whose is it?")


WRONG = {
    "no columns": (b"points\n3\n", "line 1: expected a column for names"),
    "nothing": (b"", "line 1: expected a column for names"),
    "a name twice": (b"name\nAnn\nAnn\n", "line 3: 'Ann' stands in line 2 already"),
    "an id twice": (b"name,id\nAnn,1\nBo,1\n", "line 3: '1' stands in line 2 already"),
    "no text": (b"name\nZo\0\n", "line 2: expected text, got a byte that is none"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_roster_with_a_mistake_says_which(tmp_path, name):
    content, words = WRONG[name]
    with pytest.raises(ValueError, match=words):
        read(tmp_path, content)


def test_two_students_of_one_name_are_told_apart_by_id(tmp_path):
    roster = read(tmp_path, "name,id\nAnn Lee,1\nAnn Lee,2\n")
    assert [one.label for one in roster.people] == ["Ann Lee (1)", "Ann Lee (2)"]
    assert roster.find("Ann Lee") is None and roster.label("leeann", "2") == "Ann Lee (2)"


@pytest.mark.parametrize(
    ("late", "day", "share"),
    [(None, 3, 0.8), (False, 3, 1.0), (True, 1, 0.9), (True, 30, 0.9)],
    ids=str,
)
def test_what_a_platform_says_goes_before_the_time_of_its_file(assignment, late, day, share):
    due = replace(assignment, due=datetime(2027, 1, 1, 12, tzinfo=UTC))
    hand_in = HandIn("ann", due.name, None, "a", datetime(2027, 1, day, 11, tzinfo=UTC), late=late)
    got, words, days = _share(due, hand_in, Rules())
    assert got == share and ("late" in words) == (share < 1) == (days > 0)


def test_times_csv_says_more_than_the_name(tmp_path, assignment):
    name = "leeann_LATE_11_901_x.ipynb"
    write(tmp_path, "hand-ins/times.csv", f"file,time\n{name},2027-01-31T12:00:00+01:00\n")
    ((one,), _, _) = handed_in(tmp_path, assignment, name)
    assert one.late is None and one.time.day == 31


def table(path):
    with path.open(newline="", encoding="utf-8-sig") as file:
        return list(csv.reader(file))


def test_the_wide_table_has_the_platform_s_columns(tmp_path, assignment):
    made = replace(assignment, title="Soft lookup")
    marks = [
        Mark("Ann Lee", made.name, "00.x", "X", 2.5, 4.0, ""),
        Mark("Ann Lee", made.name, "00.y", "Y", 1.0, 2.0, ""),
        Mark("Zed", made.name, "00.x", "X", 4.0, 4.0, ""),
    ]
    students, out = ["Ann Lee", "Bo Müller", "Zed"], tmp_path / "wide.csv"
    lost = ["wide.csv: without Zed: not in the roster"]
    rosters = {kind: read(tmp_path, text) for kind, text in ROSTERS.items()}
    assert write_wide(out, students, [made], marks, rosters["Canvas"]) == lost
    assert table(out) == [
        ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "Soft lookup (77)"],
        ["    Points Possible", "", "", "", "", "6"],
        ["Lee, Ann", "11", "s1", "alee", "A", "3.5"],
        ["Müller, Bo", "12", "s2", "bo", "A", "0"],
    ]
    assert write_wide(out, students, [made], marks, rosters["Moodle"]) == lost
    assert table(out) == [
        ["First name", "Surname", "ID number", "Email address", "Soft lookup", "total"],
        ["Ann", "Lee", "11", "ann@x.org", "3.5", "3.5"],
        ["Bo", "Müller", "12", "bo@x.org", "0", "0"],
    ]
    assert write_wide(out, students, [made], marks) == []
    assert table(out)[1:] == [["Ann Lee", "3.5", "3.5"], ["Bo Müller", "0", "0"], ["Zed", "4", "4"]]


def test_a_roster_that_cannot_be_read_stops_the_command(tmp_path):
    write(tmp_path, "roster.csv", "points\n")
    write(tmp_path, FILE, ONE)
    said = run(course, "grade", tmp_path)
    assert said.exit_code == 1 and "expected a column for names" in said.output
