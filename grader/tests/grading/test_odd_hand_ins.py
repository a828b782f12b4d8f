"""Hand-ins as a class makes them: names in many scripts, files in the wrong place, late, lost."""

import csv
import json
import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from attnbook_grader.course.assignments import Course, Rules, Words, from_sections, notebook_with
from attnbook_grader.course.exercises import find_book, sections, solution_of
from attnbook_grader.grading import feedback, rounds
from attnbook_grader.grading.marks import Mark
from attnbook_grader.grading.outcomes import CUT_SHORT, STOPPED, Outcome
from attnbook_grader.grading.overrides import OVERRIDES, read_overrides
from attnbook_grader.grading.wide import write_wide
from attnbook_grader.grading.words_sheet import read_sheet
from attnbook_grader.notebooks.hand_ins import find_hand_ins
from attnbook_grader.notebooks.roster import read_roster

from .conftest import EMPTY, grade_here, judged, write

DUE = datetime(2027, 1, 31, 12, tzinfo=UTC)


def roster_of(folder, text):
    write(folder, "roster.csv", text)
    return read_roster(folder / "roster.csv")


@pytest.fixture
def weeks(assignment):
    """Two assignments: one closed, one open."""
    return [
        replace(assignment, name=name, tasks=(task,), points={task.id: (0.0, 4.0)}, due=due)
        for name, task, due in zip(
            ("week-6", "week-9"), assignment.tasks, (DUE - timedelta(days=20), DUE)
        )
    ]


def handed_in(folder, assignments, files, roster=None):
    for name, content in files.items():
        write(folder / "hand-ins", name, content)
        time = DUE.timestamp()
        os.utime(folder / "hand-ins" / name, (time, time))
    return find_hand_ins(folder / "hand-ins", assignments, roster)


@pytest.fixture
def right(monkeypatch):
    """Every answer is right, and nothing is judged."""

    def judge(jobs, **_):
        return [
            (key, [Outcome(id, True, True, "", print="x") for id in job.tasks]) for key, job in jobs
        ]

    monkeypatch.setattr(rounds, "judge_all", judge)


# -- for which assignment


def test_a_notebook_of_a_closed_assignment_in_the_open_one_s_folder_is_late_for_neither(
    tmp_path, weeks, right
):
    closed, both = notebook_with(weeks[0], {}), notebook_with(weeks[1], {})
    files = {"week-9/leeann_11_901_x.ipynb": closed, "week-9/bo_12_902_week-6.ipynb": both}
    found, _, remarks = handed_in(tmp_path, weeks, files)
    assert {(one.student, one.assignment, one.late) for one in found} == {
        ("leeann (11)", "week-9", False),
        ("bo (12)", "week-9", False),
    }
    assert remarks == [
        "week-9/leeann_11_901_x.ipynb: lies in the folder of week-9 and holds exercises of week-6; "
        "it is looked at for week-9 alone"
    ]


def test_without_a_folder_canvas_s_names_do_not_say_for_what_a_file_is_in_time(
    tmp_path, weeks, right
):
    """Whatever the file is called: its name is the student's choice."""
    files = {
        f"{name}_{id}_90{id}_{file}.ipynb": notebook_with(weeks[0], {})
        for name, id, file in (("leeann", 11, "x"), ("bo", 12, "week-6"))
    }
    found, _, remarks = handed_in(tmp_path, weeks, files)
    assert [one.late for one in found] == [None, None]
    assert remarks == [
        "bo_12_9012_week-6.ipynb, leeann_11_9011_x.ipynb: Canvas's names say whether they are "
        "late, but not for which assignment, so the times of the files count. Put each download "
        "into a folder named as its assignment, as week-6/"
    ]
    done = grade_here(Course("x", 1, tuple(weeks)), tmp_path)
    assert {one.points for one in done.marks} == {0.0} and {one.days for one in done.marks} == {20}


def test_a_folder_named_as_an_assignment_takes_no_holiday(tmp_path, weeks):
    """What holds no exercise at all does not take the place of a hand-in."""
    files = {"week-9/ann/week-9.ipynb": notebook_with(weeks[1], {}), "week-9/ann/a.ipynb": EMPTY}
    found, _, remarks = handed_in(tmp_path, weeks, files)
    assert [one.name for one in found] == ["week-9.ipynb"]
    assert remarks == ["week-9/ann/a.ipynb: belongs to no assignment (week-6, week-9), left out"]


# -- whose


@pytest.mark.parametrize("name", ["Ann Lee (2)", "week (2)", "(2)", "Ann Lee(2)"])
def test_a_number_in_brackets_is_nobody_s_id(tmp_path, name):
    roster = roster_of(tmp_path, "name,id\nAnn Lee,1\nBo,2\n")
    assert roster.find(name) is None
    assert roster.find(name, "2").name == "Bo", "but that which Canvas gives is"


def test_a_browser_s_second_download_is_that_of_its_student(tmp_path, assignment):
    roster = roster_of(tmp_path, "name,id\nAnn Lee,1\nBo,2\n")
    files = {"Ann Lee (2).ipynb": notebook_with(assignment, {})}
    ((one,), _, _) = handed_in(tmp_path, [assignment], files, roster)
    assert one.student == "Ann Lee"


def test_the_id_of_one_and_the_name_of_another_are_nobody_s(tmp_path):
    roster = roster_of(tmp_path, "name,id\nAnn Lee,1\nBo,2\n")
    assert roster.find("Ann Lee", "2") is None and roster.find("annlee", "1").name == "Ann Lee"


def test_another_of_the_same_name_with_a_number_of_canvas_is_another(tmp_path, assignment):
    files = {
        f"lee_ann_{number}_{place}_x.ipynb": notebook_with(assignment, {})
        for place, number in enumerate(("1", "7"))
    }
    canvas = roster_of(tmp_path, 'Student,ID\n"Lee, Ann",1\nBo,2\n')
    found, _, remarks = handed_in(tmp_path, [assignment], files, canvas)
    assert sorted(one.student for one in found) == ["Ann Lee", "lee_ann (7)"]
    assert remarks == ["lee_ann (7): Ann Lee has this name in the roster, but not the number 7"]
    plain = roster_of(tmp_path, "name,id\nAnn Lee,x\nBo,y\n")
    found, _, remarks = find_hand_ins(tmp_path / "hand-ins", [assignment], plain)
    assert {one.student for one in found} == {"Ann Lee"}
    assert remarks == [
        "lee_ann_7_1_x: has the number 7, and another file of Ann Lee the number 1: is it that of "
        "another student?"
    ]


DIFFERENT = [  # in the roster, and another person
    ("राम कुमार", "रमा कुमार"),
    ("রাম", "রমা"),
    ("குமார்", "கமர"),
    ("రామ", "రమ"),
    ("สมใจ", "สมจิ"),
    ("အောင်", "အင်"),
    ("ハス", "バス"),
    ("محمَد2", "محمُد2"),
]


@pytest.mark.parametrize(("listed", "other"), DIFFERENT)
def test_a_vowel_is_no_accent(tmp_path, assignment, listed, other):
    roster = roster_of(tmp_path, f"name,id\n{listed},1\n")
    assert roster.find(other) is None and roster.find(listed).name == listed
    files = {f"{other}/x.ipynb": notebook_with(assignment, {})}
    found, students, _ = handed_in(tmp_path, [assignment], files, roster)
    assert [one.student for one in found] == [other] and len(students) == 2


SAME = [  # two ways to write one name
    ("Zoë Ångström", "zoe angstrom"),
    ("Łukasz Ŵ", "łukasz w"),
    ("Γιώργος", "γιωργος"),
    ("Йосиф", "и\u0306осиф"),
    ("Ｊｏ Ｌｉ", "Jo Li"),
    ("Straße", "STRASSE"),
    ("Ann\u200b Lee", "Ann Lee"),
    ("\ufeffAnn Lee", "Ann\u2060 Lee"),
    ("Ann\tLee", "Ann Lee"),
    ("Zoe\u0308", "Zo\u00eb"),
    ("نرگس\u200cها", "نرگسها"),
    ("राम", "रा\u200dम"),
    ("김\ufe0f민지", "\u1100\u1175\u11b7민지"),
]


@pytest.mark.parametrize(("listed", "written"), SAME)
def test_one_name_in_two_ways_is_one_student(tmp_path, assignment, right, listed, written):
    roster = roster_of(tmp_path, f"name,id\n{listed},1\nBo,2\n")
    files = {f"{written}/x.ipynb": notebook_with(assignment, {})}
    found, students, remarks = handed_in(tmp_path, [assignment], files, roster)
    assert [one.student for one in found] == [roster.people[0].label]
    assert len(students) == 2 and remarks == []
    done = grade_here(Course("x", 1, (assignment,)), tmp_path, roster=roster)
    with (tmp_path / "out" / "wide.csv").open(encoding="utf-8-sig", newline="") as file:
        assert sorted(row["total"] for row in csv.DictReader(file)) == ["0", "6"]
    assert done.remarks == []


def test_a_near_name_is_a_remark_and_no_credit(tmp_path, assignment):
    roster = roster_of(tmp_path, "name,id\nJohannes Schmidt,1\nBo,2\n")
    files = {"Johanes Schmid/x.ipynb": notebook_with(assignment, {})}
    found, students, remarks = handed_in(tmp_path, [assignment], files, roster)
    assert [one.student for one in found] == ["Johanes Schmid"] and len(students) == 3
    assert remarks == [
        "Johanes Schmid: nobody in the roster has this name; is it Johannes Schmidt?"
    ]


def test_who_may_be_meant_by_a_near_name_gets_no_zero(tmp_path, assignment, right):
    roster = roster_of(tmp_path, "name,id\nCy Twombly,1\nBo,2\n")
    handed_in(tmp_path, [assignment], {"Cy Twombli/x.ipynb": notebook_with(assignment, {})})
    done = grade_here(Course("x", 1, (assignment,)), tmp_path, roster=roster)
    with (tmp_path / "out" / "wide.csv").open(encoding="utf-8-sig", newline="") as file:
        rows = [(row[assignment.title], row["total"]) for row in csv.DictReader(file)]
    assert rows == [("0", "0"), ("", "")]
    page = (tmp_path / "out" / "class.html").read_text()
    assert "2 students of the roster, and 1 that it does not have" in page
    assert "Points of the 1 student who handed in: 6.0 of 6" in page
    notes = {one.student: one.note for one in done.marks}
    assert notes["Cy Twombly"] == "nothing was handed in under this name; is it Cy Twombli?"
    said = "wide.csv: nothing stands there for Cy Twombly (is it Cy Twombli?)"
    assert said in done.remarks


def test_quit_ends_the_cell_and_says_so(assignment):
    task = assignment.tasks[0]
    content = notebook_with(assignment, {task.id: f"def {task.function}(*given):\n    quit()"})
    (one,) = judged(content, assignment, task.id)
    assert one.note == "your code stopped with SystemExit; line 2: quit()"


def test_two_students_of_one_name_get_no_zero_for_what_one_of_them_handed_in(
    tmp_path, assignment, right
):
    """As Moodle packs it, whose numbers nobody else has."""
    roster = roster_of(tmp_path, "name,id\nMinji Kim,1\nMinji Kim,2\nBo,3\n")
    files = {
        f"Minji Kim_{number}_assignsubmission_file/x.ipynb": notebook_with(assignment, {})
        for number in (4711, 4712)
    }
    handed_in(tmp_path, [assignment], files)
    done = grade_here(Course("x", 1, (assignment,)), tmp_path, roster=roster)
    with (tmp_path / "out" / "wide.csv").open(encoding="utf-8-sig", newline="") as file:
        cells = [row[assignment.title] for row in csv.DictReader(file)]
    assert cells == ["0", "", ""]
    own = {one.student: one for one in done.marks}
    assert {own[f"Minji Kim ({number})"].points for number in (4711, 4712)} == {4.0}
    assert own["Minji Kim (1)"].note == (
        "nothing was handed in under this name; is it Minji Kim (4711), Minji Kim (4712)?"
    )
    assert own["Bo"].note == "nothing was handed in"
    assert any("nothing stands there for Minji Kim (1) (is it" in r for r in done.remarks)
    one = "Minji Kim_4711_assignsubmission_file/x.ipynb"
    (tmp_path / "hand-ins" / one.replace("4711", "4712")).unlink()
    _, _, remarks = find_hand_ins(tmp_path / "hand-ins", [assignment], roster)
    said = "the roster has 2 students of this name: Minji Kim (1), Minji Kim (2)"
    assert any(said in remark for remark in remarks) or "2 students of this name" in remarks[0]


# -- lateness


def test_that_everybody_is_late_is_said(tmp_path, assignment, right):
    due = replace(assignment, due=DUE - timedelta(days=20))
    files = {f"student {n}/x.ipynb": notebook_with(due, {}) for n in range(3)}
    handed_in(tmp_path, [due], files)
    done = grade_here(Course("x", 1, (due,)), tmp_path)
    assert {one.points for one in done.marks} == {0.0}
    said = (
        "soft_lookup: 3 of 3 students handed in late, by 20 days, and lose 18 points. Everybody is "
        "late: do the files have the time of their unpacking? times.csv can give the right ones"
    )
    assert done.late == [said]
    assert "<h3>Late</h3>" in (page := (tmp_path / "out" / "class.html").read_text())
    assert said in page
    in_time = replace(due, due=DUE + timedelta(days=1))
    assert grade_here(Course("x", 1, (in_time,)), tmp_path).late == []


# -- which cell


def test_predictions_without_the_names_of_their_cells_are_told_apart():
    """Several exercises of one notebook ask for a function of the same name."""
    (part,) = sections(find_book(), ["soft_lookup"])
    (made,) = from_sections([part])
    predictions = [task for task in made.tasks if task.function == "prediction"] or [
        task for task in made.tasks
    ]
    # the same function for two tasks, as where a section holds several predictions
    first, other = predictions[:2]
    name = first.function
    ids = [first.id, other.id]

    def renamed(task):
        check = task.cells[-2].source.replace(f", {task.function})", f", {name})")
        cells = [
            type(cell)({**cell, "source": cell.source.replace(task.function, name)})
            for cell in task.cells
        ]
        assert f", {name})" in check
        return replace(task, function=name, cells=tuple(cells))

    tasks = (first, renamed(other))
    made = replace(made, tasks=tasks, points={id: (0.0, 2.0) for id in ids})
    nb = json.loads(notebook_with(made, {task.id: solution_of(task) for task in tasks}))
    for cell in nb["cells"]:
        cell["metadata"], cell["id"] = {}, "x"
    outcomes = judged(json.dumps(nb).encode(), made, *ids)
    assert [(one.exercise, one.visible and one.hidden) for one in outcomes] == [
        (id, True) for id in ids
    ]


ROOT = Words("soft_lookup.root", "Why the root?", "Explain.", {"variance": 2.0, "softmax": 1.0})


@pytest.mark.parametrize("kind", ["markdown", "code"])
def test_words_typed_below_their_field_wait_for_marks(assignment, kind):
    asked = replace(assignment, words=(ROOT, replace(ROOT, id="soft_lookup.more", title="More?")))
    nb = json.loads(notebook_with(asked, {}))
    place = next(n for n, c in enumerate(nb["cells"]) if "words-soft_lookup-root" in str(c))
    new = {"cell_type": kind, "metadata": {}, "source": "Because the variance grows with d."}
    nb["cells"].insert(place + 1, {**new, "id": "new"})
    root, more = judged(json.dumps(nb).encode(), asked, *(one.id for one in asked.words))
    assert root.code == new["source"] and root.note == "" and "other cells" in root.remark
    # what belongs to no field is shown as well
    assert more.code == new["source"]
    other = from_sections(sections(find_book(), ["scores"]))[0]
    wrong, _ = judged(notebook_with(other, {}), asked, *(one.id for one in asked.words))
    assert wrong.code == "", "the text of another notebook is no answer"
    empty, _ = judged(notebook_with(asked, {}), asked, *(one.id for one in asked.words))
    assert (empty.code, empty.note) == ("", "not answered")


# -- what was judged, and how often


def test_other_limits_judge_again_what_the_old_ones_stopped(tmp_path, assignment, monkeypatch):
    kinds = {"stopped": {"attention": STOPPED}, "cut": {"remark": f"x; {CUT_SHORT}"}, "wrong": {}}

    def judge(jobs, **_):
        for key, job in jobs:
            kind = next(kind for kind in kinds if f"# {kind}" in job.content.decode())
            yield key, [Outcome(id, False, False, "no", **kinds[kind]) for id in job.tasks]

    monkeypatch.setattr(rounds, "judge_all", judge)
    first = assignment.tasks[0].id
    files = {f"{kind}/x.ipynb": notebook_with(assignment, {first: f"# {kind}"}) for kind in kinds}
    handed_in(tmp_path, [assignment], files)
    course = Course("x", 1, (assignment,))
    assert [grade_here(course, tmp_path).judged for _ in range(2)] == [3, 0]
    more = replace(course, limits=replace(course.limits, seconds=60))
    assert [grade_here(more, tmp_path).judged for _ in range(2)] == [2, 0]


@pytest.mark.parametrize(("rule", "kept"), [("last", "x 7"), ("first", "x 0"), ("best", "x 7")])
def test_of_very_many_notebooks_a_few_are_judged(tmp_path, assignment, right, rule, kept):
    first = assignment.tasks[0].id
    for n in range(8):
        write(tmp_path, f"hand-ins/ann/x {n}.ipynb", notebook_with(assignment, {first: f"# {n}"}))
        os.utime(tmp_path / f"hand-ins/ann/x {n}.ipynb", (n, n))
    rules = Rules(repeated=rule, notebooks=3)
    done = grade_here(Course("x", 1, (assignment,), rules), tmp_path)
    assert done.judged == 3
    which = "first" if rule == "first" else "last"
    assert done.remarks == [
        f"ann: 8 notebooks for soft_lookup, of which the {which} 3 are judged (rule notebooks)"
    ]
    if rule != "best":
        assert {one.hand_in.path.stem for one in done.marks} == {kept}


# -- what is excused


def test_an_excused_exercise_costs_no_points_in_canvas(tmp_path, assignment):
    roster = roster_of(tmp_path, "Student,ID,Section,Soft lookup (77)\nAnn,1,A,\nBo,2,A,\n")
    made = replace(assignment, title="Soft lookup")
    ids = [task.id for task in made.tasks]
    marks = [Mark(name, made.name, ids[0], "X", 1.5, 2.0, "") for name in ("Ann", "Bo")]
    marks.append(Mark("Ann", made.name, ids[1], "Y", 0.0, 0.0, "", excused=True))
    marks.append(Mark("Bo", made.name, ids[1], "Y", 0.0, 4.0, ""))
    write_wide(tmp_path / "wide.csv", ["Ann", "Bo"], [made], marks, roster)
    with (tmp_path / "wide.csv").open(encoding="utf-8-sig", newline="") as file:
        assert [row[-1] for row in csv.reader(file)][1:] == ["6", "4.5", "1.5"]


def test_a_total_is_scaled_where_a_whole_assignment_is_excused(tmp_path, weeks):
    ids = [week.tasks[0].id for week in weeks]
    marks = [Mark(name, weeks[0].name, ids[0], "X", 3.0, 4.0, "") for name in ("Ann", "Bo")]
    marks.append(Mark("Ann", weeks[1].name, ids[1], "Y", 0.0, 0.0, "", excused=True))
    marks.append(Mark("Bo", weeks[1].name, ids[1], "Y", 0.0, 4.0, ""))
    write_wide(tmp_path / "wide.csv", ["Ann", "Bo"], weeks, marks)
    with (tmp_path / "wide.csv").open(encoding="utf-8-sig", newline="") as file:
        assert [row[-1] for row in csv.reader(file)] == ["total", "6", "3"]


# -- answers in words


def test_the_points_of_answers_in_words_stand_in_one_sheet(tmp_path, assignment, monkeypatch):
    asked = replace(assignment, words=(ROOT,))

    def judge(jobs, **_):
        for key, job in jobs:
            name = next(name for name in ("Ann", "Bo", "Cy") if name in job.content.decode())
            said = Outcome(ROOT.id, False, False, "", print="x", code=f"=1+1 says {name}\nand more")
            yield (
                key,
                [
                    said if id == ROOT.id else Outcome(id, True, True, "", print="x")
                    for id in job.tasks
                ],
            )

    monkeypatch.setattr(rounds, "judge_all", judge)
    first = asked.tasks[0].id
    files = {f"{n}/x.ipynb": notebook_with(asked, {first: f"# {n}"}) for n in ("Ann", "Bo", "Cy")}
    handed_in(tmp_path, [asked], files)
    path = tmp_path / "words.csv"

    def grade(text=""):
        (tmp_path / OVERRIDES).write_text(text)
        overrides = read_overrides(tmp_path / OVERRIDES, (asked,))
        sheet = read_sheet(path, (asked,))
        done = grade_here(Course("x", 1, (asked,)), tmp_path, sheet=sheet, overrides=overrides)
        return {one.student: one for one in done.marks if one.exercise == ROOT.id}, done

    def rows():
        with path.open(encoding="utf-8-sig", newline="") as file:
            return list(csv.DictReader(file))

    marks, _ = grade()
    assert all(one.waits and one.points == 0 for one in marks.values())
    page = (tmp_path / "out" / "feedback" / "Ann" / "index.html").read_text()
    assert "6 of 6 points</strong>, and 3 more that wait to be marked by hand" in page
    assert [(row["student"], row["part"], row["max"], row["points"]) for row in rows()] == [
        (name, part, most, "")
        for name in ("Ann", "Bo", "Cy")
        for part, most in (("variance", "2"), ("softmax", "1"))
    ]
    assert rows()[0]["answer"] == "'=1+1 says Ann and more" and rows()[1]["answer"] == ""
    # as a spreadsheet with other settings writes it
    filled = rows()
    for row, points in zip(filled, ("1,5", "0", "2", "", "", "")):
        row["points"] = points
    filled[0]["comment"] = "Well said."
    with path.open("w", encoding="cp1252", newline="") as file:
        writer = csv.DictWriter(file, filled[0], delimiter=";")
        writer.writeheader()
        writer.writerows(filled)
    marks, done = grade()
    ann, bo, cy = marks.values()
    assert (ann.points, ann.parts, ann.note) == (
        1.5,
        {"variance": 1.5, "softmax": 0.0},
        "marked by hand; Well said.",
    )
    assert bo.waits and cy.waits
    assert done.remarks == ["words.csv: Bo: soft_lookup.root: 1 of 2 parts have points; it waits"]
    page = (tmp_path / "out" / "feedback" / "Ann" / "index.html").read_text()
    assert "<li>variance: 1.5</li><li>softmax: 0</li>" in page and "7.5 of 9 points" in page
    assert [row["points"] for row in rows()] == ["1.5", "0", "2", "", "", ""]
    # what is decided in overrides.toml goes before
    by_hand = f"[[mark]]\nstudent='Ann'\nexercise='{ROOT.id}'\npoints=3\n"
    assert grade(by_hand)[0]["Ann"].points == 3.0 and grade()[0]["Ann"].points == 1.5
    # another answer is not marked yet
    text = path.read_text("utf-8-sig").replace("says Ann", "said Ann")
    path.write_text(text, "utf-8-sig")
    marks, done = grade()
    assert marks["Ann"].waits and "answered anew since it was marked" in done.remarks[0]
    assert [row["points"] for row in rows()][:2] == ["", ""]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("Ann,soft_lookup.root,variance,2,3,,x", "line 2: points: got '3', expected"),
        ("Ann,soft_lookup.root,variance,2,x,,x", "points: got 'x', expected a number from 0 to 2"),
        ("Ann,soft_lookup.root,other,2,1,,x", "no question 'soft_lookup.root' with a part 'other'"),
    ],
)
def test_a_sheet_with_a_mistake_says_which(tmp_path, assignment, line, words):
    head = "student,exercise,part,max,points,comment,answer\n"
    write(tmp_path, "words.csv", head + line + "\n")
    with pytest.raises(ValueError, match=words):
        read_sheet(tmp_path / "words.csv", (replace(assignment, words=(ROOT,)),))
    write(tmp_path, "words.csv", head.replace(",part", "") + line + "\n")
    with pytest.raises(ValueError, match="the column part is missing"):
        read_sheet(tmp_path / "words.csv", ())


def test_the_overrides_know_a_student_by_any_way_to_write_the_name(tmp_path, assignment, right):
    roster = roster_of(
        tmp_path, "name,id,email\nZoë Lee,1,zoe@x.org\nMinji Kim,2,a@x.org\nMinji Kim,3,b@x.org\n"
    )
    files = {"1/x.ipynb": notebook_with(assignment, {})}
    handed_in(tmp_path, [assignment], files)
    first = assignment.tasks[0].id

    def grade(name):
        (tmp_path / OVERRIDES).write_text(
            f"\ufeff[[mark]]\nstudent='{name}'\nexercise='{first}'\npoints=1\n", encoding="utf-8"
        )
        overrides = read_overrides(tmp_path / OVERRIDES, (assignment,))
        course = Course("x", 1, (assignment,))
        done = grade_here(course, tmp_path, roster=roster, overrides=overrides)
        by_hand = [one.student for one in done.marks if one.by_hand]
        return by_hand, [one for one in done.remarks if one.startswith(OVERRIDES)]

    for name in ("Zoë Lee", "Zoe\u0308 Lee", "lee zoe", "1", "ZOE@x.org"):
        assert grade(name) == (["Zoë Lee"], []), name
    assert grade("Minji Kim (3)") == (["Minji Kim (3)"], [])
    nobody = (
        "overrides.toml: there is no student 'Minji Kim'; is it Minji Kim (2) or Minji Kim (3)?"
    )
    assert grade("Minji Kim") == ([], [nobody])
    assert grade("Otto") == ([], ["overrides.toml: there is no student 'Otto'"])


def test_points_are_never_rounded_to_six_digits(tmp_path):
    assert [feedback.number(one) for one in (1_250_000.0, 0.1 + 0.2, 3.0, 1234567.25)] == [
        "1250000",
        "0.3",
        "3",
        "1234567.25",
    ]
    feedback.write_csv(tmp_path / "marks.csv", [])
    assert (tmp_path / "marks.csv").read_bytes().startswith(b"\xef\xbb\xbf")


EXPORTS = {
    "semicolons": "name;id\nAnn Lee;11\n",
    "tabs": "name\tid\nAnn Lee\t11\n",
    "Latin-1": "name,id\nAnn Lee,11\nZoë,12\n".encode("latin-1"),
    "UTF-16": "name\tid\nAnn Lee\t11\n".encode("utf-16"),
    "Moodle in German": "Vorname;Nachname;E-Mail-Adresse;ID-Nummer\nAnn;Lee;a@x.org;11\n",
    "Moodle in French": "Prénom,Nom de famille,Numéro d’identification,Adresse de courriel\n"
    "Ann,Lee,11,a@x.org\n",
}


@pytest.mark.parametrize("kind", EXPORTS)
def test_rosters_are_read_as_platforms_write_them(tmp_path, kind):
    roster = roster_of(tmp_path, EXPORTS[kind])
    assert roster.find("Ann Lee").label == roster.find("11").label == "Ann Lee"


@pytest.mark.parametrize("suffix", [".html", ".md", ".ipynb.txt"])
def test_who_handed_in_something_else_hears_of_it(tmp_path, assignment, suffix):
    files = {f"ann/x{suffix}": "# no notebook", f"bo_12_13_y{suffix}": "# no"}
    if suffix == ".ipynb.txt":
        files |= {"cy/x.ipynb.txt": notebook_with(assignment, {})}
    handed_in(tmp_path, [assignment], files)
    done = grade_here(Course("x", 1, (assignment,)), tmp_path)
    notes = {one.student: one.note for one in done.marks}
    assert {notes[one] for one in ("ann", "bo (12)")} == {
        "the file is not a Jupyter notebook (it does not appear to be JSON)"
    }
    if suffix == ".ipynb.txt":
        assert notes["cy"].startswith("not written yet")
