"""The commands of a course: laid out, checked, refused where unusable; the students' side."""

import re
from dataclasses import replace
from types import SimpleNamespace

import nbformat
import pytest
from made_up_class import write_class
from patience import PATIENT

from attnbook.checks import exercises
from attnbook.cli import main
from attnbook_grader.commands import course
from attnbook_grader.course import course_file
from attnbook_grader.course.assignments import Course, from_sections
from attnbook_grader.course.course_file import FILE, read_course, write_course
from attnbook_grader.course.exercises import find_book, sections, solution_of
from attnbook_grader.course.known_wrong_answers import wrong_answers
from attnbook_grader.grading import course_check
from attnbook_grader.grading.course_check import check_course
from attnbook_grader.sandbox import launch
from attnbook_grader.sandbox.launch import Limits

from .conftest import EMPTY, ONE, run, write


def test_exercise_notebooks_hold_no_prose_of_the_chapter():
    for section in sections(find_book()):
        cells = from_sections([section])[0].notebook().cells
        where = f"chapters/{section.chapter}/{section.name}.html)."
        assert where in cells[0].source, "where its figures are"
        assert [cell.cell_type for cell in cells[:3]] == ["markdown", "code", "markdown"]
        for task in section.tasks:
            assert task.statement.source.startswith("### Exercise ")
            assert task.statement.source.count("### Exercise") == 1
            assert [cell.metadata.nbgrader.points for cell in task.tests] == list(
                exercises()[task.id].points
            )


@pytest.fixture
def one(tmp_path):
    """A folder with a course of one assignment and no hand-ins."""
    write(tmp_path, FILE, ONE)
    return tmp_path


def said(folder, *more):
    result = run(course, "grade", folder, *more)
    assert result.exit_code == 1
    return result.output


def test_folders_that_cannot_be_used(one):
    hand_ins, precious = one / "submissions", one / "precious"
    assert f"submissions: {hand_ins} is not there, expected a folder" in said(one)
    hand_ins.mkdir()
    assert "holds no student" in said(one)
    write(hand_ins, "ann/x.ipynb", EMPTY)
    assert "holds no notebook of an assignment" in said(one) and "ann/x.ipynb" in said(one)
    write(precious, "thesis.tex", "")
    assert "no round of grading wrote" in said(one, "--out", precious)
    assert "is a file, expected a folder" in said(one, "--out", precious / "thesis.tex")
    assert "there is no folder" in said(one, "--book", hand_ins)
    assert "no assignment 'x'; it has soft_lookup" in said(one, "--assignment", "x")
    assert {*one.iterdir()} == {hand_ins, precious, one / FILE}, "nothing half-written"
    assert "the book has no section 'x'" in run(course, "new", one / "y", "--section", "x").output


def test_without_a_sandbox_nothing_is_graded(one, monkeypatch):
    write(one, "submissions/ann/soft_lookup.ipynb", "")
    monkeypatch.setattr(launch.shutil, "which", lambda name: None)
    asked = said(one)
    assert "bubblewrap is not installed" in asked and "--trust" in asked
    assert not (one / "grades").exists()


@pytest.mark.slow
def test_the_command(one, assignment, section):
    write_class(one / "submissions", assignment, section, ["wrong", "partly right"])
    trusted = run(course, "grade", one, "--trust", "--jobs", 1)
    assert trusted.exit_code == 0, trusted.output
    assert "partly right · soft_lookup: 1 of 2 right" in trusted.stdout
    assert "marks: " in trusted.stdout and "without a sandbox" in trusted.stderr


@pytest.fixture(scope="module")
def autumn(tmp_path_factory):
    folder = tmp_path_factory.mktemp("courses") / "autumn"
    parts = ("--section", "soft_lookup", "--section", "scores")
    result = run(course, "new", folder, *parts, "--title", 'Att"ention')
    assert result.exit_code == 0, result.output
    asked = sum(
        one.notebook in ("soft_lookup", "scores") and any(one.points)
        for one in exercises().values()
    )
    assert f"2 assignments, {asked} exercises" in result.output
    return folder


def test_curves_to_read_come_with_the_exercise():
    """They stand above it in the chapter, and an assignment has nothing of that."""
    tasks = {task.id: task for section in sections(find_book()) for task in section.tasks}
    curves = [id for id, one in exercises().items() if one.kind == "Read the curve"]
    for text in (tasks[id].statement.source for id in curves):
        number = re.search(r"Figure (\d+\.\d+)", text)[1]
        assert f"**Figure {number}.**" in text
        assert re.search(r"!\[\]\(data:image/png;base64,[\w+/=]+\)", text), "in one line"
    assert len(curves) > 5


@pytest.mark.slow
def test_a_course_is_laid_out(autumn):
    folders = {"student", "instructor", "submissions"}
    assert {path.name for path in autumn.iterdir()} == {"course.toml", *folders}
    made = read_course(autumn)
    assert made.title == 'Att"ention'
    assert [one.name for one in made.assignments] == ["soft_lookup", "scores"]
    assert made.assignments[0].points == {
        "00.three_keys": (0, 2),  # not 00.far_away: predictions are not marked
        "00.weighted_sum": (0, 2),
        "00.temperature": (0, 4),
        "00.masked_softmax": (0, 6),
    }
    student = (autumn / "student" / "soft_lookup.ipynb").read_text(encoding="utf-8")
    assert "SOLUTION" not in student and "grade(" not in student
    assert student.count("YOUR CODE HERE") == 4
    instructor = (autumn / "instructor" / "soft_lookup.ipynb").read_text(encoding="utf-8")
    assert "BEGIN SOLUTION" in instructor
    assert str(made.seed) not in student
    assert "\ntorch==" in (autumn / "student" / "environment.txt").read_text(encoding="utf-8")
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


POINTS, DUE = '"00.temperature" = [0, 4]', "# due = 2027-01-31T23:59:00+01:00"
LIMITS = [  # of the file, a value, what was expected
    ("memory = 2048", "-1", "a number above 0"),
    ("memory = 2048", "1500.5", "a whole number"),
    ("memory = 2048", "[1]", "a number"),
    ("memory = 2048", "'much'", "a number"),
    ("seconds = 15", "inf", "a number above 0, at most 1,000,000"),
    ("seconds = 15", "nan", "a number above 0"),
]
CHANGES = {
    "unknown key": ('title = "', 'titel = "', "titel: not known; expected"),
    "unknown rule": ("repeated = ", "repeat = ", "rules.repeat: not known; expected"),
    "no seed": ("seed = ", "# seed = ", "seed: got None, expected a whole number"),
    "exercise": ('"00.temperature"', '"00.x"', "points: the book has no exercise '00.x'"),
    "points": (POINTS, '"00.temperature" = [2]', "got [2], expected [visible, hidden]"),
    "endless points": (POINTS, '"00.temperature" = [inf, 1]', "got [inf, 1], expected [visible"),
    "date without zone": (DUE, "due = 2027-01-31", "due: got 2027-01-31, expected a date and time"),
    "rule": ('"last"', '"worst"', "rules.repeated: got 'worst', expected one of last, first, best"),
    "rate": ("late_per_day = 0.1", "late_per_day = 2", "rules.late_per_day: got 2, expected a share"),
    "image": ('# image = "', 'image = 5  # "', "image: got 5, expected a word"),
    "sandbox": (
        '# sandbox = "bubblewrap"',
        'sandbox = "chroot"',
        "sandbox: got 'chroot', expected one of",
    ),
    "name": ('name = "scores"', 'name = "../scores"', "name: expected letters, digits, - and _"),
    "twice": ('name = "scores"', 'name = "soft_lookup"', "two are named 'soft_lookup'"),
    "no TOML": ("[rules]", "[rules", "course.toml:"),
    **{
        f"limit {value}": (old, f"{old.split()[0]} = {value}", f"got {value}, expected {expected}")
        for old, value, expected in LIMITS
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANGES)
def test_a_course_file_with_a_mistake_says_which(autumn, tmp_path, name):
    old, new, words = CHANGES[name]
    text = (autumn / FILE).read_text(encoding="utf-8")
    assert old in text
    (tmp_path / FILE).write_text(text.replace(old, new, 1), encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape(words)) as told:
        read_course(tmp_path)
    assert str(told.value).count(FILE) == 1
    if name == "no seed":  # the command says any of them in one way
        result = run(course, "grade", tmp_path)
        assert result.exit_code == 1 and result.output.startswith("Error: ")


WEEK = """
[[assignment]]
name = "week-1"
due = 2027-01-31T23:59:00+01:00
[assignment.points]
"03.reduced_rank" = [1.5, 3]
"00.temperature" = [0, 2]
"""


@pytest.mark.slow
def test_assignments_can_be_joined_and_divided(autumn, tmp_path):
    head, _, _ = (autumn / FILE).read_text(encoding="utf-8").partition("[[assignment]]")
    (tmp_path / FILE).write_text(head + WEEK, encoding="utf-8")
    result = run(course, "notebooks", tmp_path)
    assert result.exit_code == 0, result.output
    (one,) = read_course(tmp_path).assignments
    assert [task.id for task in one.tasks] == ["00.temperature", "03.reduced_rank"]
    assert one.most == 6.5 and one.due.isoformat() == "2027-01-31T23:59:00+01:00"
    nb = nbformat.read(tmp_path / "student" / "week-1.ipynb", 4)
    meta = [cell.metadata.get("nbgrader", {}) for cell in nb.cells]
    assert [one.points for one in meta if one.get("grade")] == [0, 2, 1.5, 3]


def test_arguments_are_asked_with_the_rubric_of_the_book(tmp_path):
    parts = sections(find_book())
    asked = {part.name: part.path.read_text(encoding="utf-8") for part in parts}
    asked = {name: text for name, text in asked.items() if "\n### Argue: " in text}
    write_course(tmp_path / FILE, "All", from_sections(parts))
    made = {one.name: one.words for one in read_course(tmp_path).assignments if one.words}
    assert made.keys() == asked.keys() and len(made) >= 2
    for name, found in made.items():
        titles = re.findall(r"^### (Argue: .+)$", asked[name], re.MULTILINE)
        assert [one.title for one in found] == titles
        for one in found:
            rubric = asked[name].partition(f"### {one.title}\n")[2].partition("</details>")[0]
            assert len(one.rubric) == rubric.count("\n- ") >= 3, f"{name}: a line without points"
            cell, answer = one.cells()
            assert one.text in cell.source and all(part in cell.source for part in one.rubric)
            assert answer.metadata.nbgrader.points == sum(one.rubric.values())


@pytest.mark.slow
@pytest.mark.usefixtures("bubblewrap")
def test_a_course_is_proved_to_mark_rightly(autumn, tmp_path, monkeypatch):
    """With the first wrong answers to each exercise: tests/exercises has all of them."""
    patient = "\n".join(f"{name} = {seconds}" for name, seconds in PATIENT.items())
    limits = re.sub(rf"^({'|'.join(PATIENT)}) = .*\n", "", (autumn / FILE).read_text(), flags=re.M)
    (tmp_path / FILE).write_text(limits.replace("[limits]", f"[limits]\n{patient}\n"))
    few = lambda *given: {id: found[:3] for id, found in wrong_answers(*given).items()}  # noqa: E731
    monkeypatch.setattr(course_check, "wrong_answers", few)
    result = run(course, "check", tmp_path, "--assignment", "soft_lookup")
    assert result.exit_code == 0, result.output
    assert re.search(r"soft_lookup: \d\d answers to 4 exercises, 0 faults", result.output)
    assert "there is no" in run(course, "check", autumn / "x").output
    assert "no assignment 'x'" in run(course, "check", autumn, "--assignment", "x").output


@pytest.mark.slow
@pytest.mark.usefixtures("bubblewrap")
def test_a_course_that_marks_wrongly_is_found_out(assignment, monkeypatch):
    """A solution that is none, a wrong answer that is right, and one whose message is another."""
    first, other = assignment.tasks
    wrong = wrong_answers(find_book(), [first, other])
    one, two = wrong[first.id][:2]
    found_out = replace(one, code=solution_of(first)), replace(two, words="nobody says this")
    wrong[first.id] = [*found_out]
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
    from tests.exercises.wrong_answers import WRONG

    for id, answers in found.items():
        assert [(a.name, a.words) for a in answers] == [(a.name, a.words) for a in WRONG[id]]


@pytest.mark.parametrize(
    "command", ["", "course", "course new", "course check", "course grade", "check"]
)
def test_every_command_has_help(command):
    assert run(main, *command.split(), "--help").exit_code == 0


def test_the_check_of_a_course_says_where_it_is_without_a_terminal(tmp_path, monkeypatch):
    def judged(*_, progress, **__):
        for _ in range(120):
            progress(SimpleNamespace(assignment="week"))
        return []

    monkeypatch.setattr(course_file, "read_course", lambda *_: Course("x", 1, ()))
    monkeypatch.setattr(course_check, "check_course", judged)
    said = run(course, "check", tmp_path, "--trust").output
    assert said == "50 answers judged, now week\n100 answers judged, now week\n"
