import csv
from dataclasses import replace

import pytest
from click.testing import CliRunner
from made_up_class import synthetic_class, write_class
from patience import PATIENT

from attnbook_grader.course.assignments import Course, from_sections
from attnbook_grader.course.exercises import find_book, sections
from attnbook_grader.grading import rounds
from attnbook_grader.grading.judging import Job, judge_notebook
from attnbook_grader.notebooks.hand_ins import find_hand_ins
from attnbook_grader.notebooks.submissions import grade_id, parse_submission, restore
from attnbook_grader.sandbox.launch import Limits

IDS = ("00.weighted_sum", "00.temperature")
ONE = """
seed = 5
[[assignment]]
name = "soft_lookup"
[assignment.points]
"00.weighted_sum" = [0, 2]
"00.temperature" = [0, 4]
"""
"""The file of a course with one assignment."""
EMPTY = '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'


@pytest.fixture(scope="session")
def section():
    """Two exercises of the first section of the book."""
    (part,) = sections(find_book(), ["soft_lookup"])
    return replace(part, tasks=tuple(task for task in part.tasks if task.id in IDS))


@pytest.fixture(scope="session")
def assignment(section):
    """The same as an assignment."""
    return from_sections([section])[0]


@pytest.fixture(scope="session")
def course(assignment):
    """A course of this assignment."""
    return Course("A class", 4711, (assignment,), limits=Limits(**PATIENT, memory=1024))


@pytest.fixture
def small(assignment, section, tmp_path):
    """A folder with the hand-ins of two students."""
    write_class(tmp_path / "hand-ins", assignment, section, ["wrong", "partly right"])
    return tmp_path


def quiet(*_):
    pass


def write(folder, name, content):
    """A file, and the folders that it lies in."""
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def grade_here(course, folder, out="out", **options):
    """A round on the hand-ins of a folder, without a sandbox and without a word."""
    options = {"trust": True, "say": quiet} | options
    return rounds.grade(course, folder / "hand-ins", folder / out, **options)


def judged(content, assignment, *ids, seed=7):
    """What the checks say of exercises of a hand-in; without a seed, on visible inputs alone."""
    seeds = {} if seed is None else dict.fromkeys(ids, seed)
    return judge_notebook(Job(content, assignment, ids, seeds, Limits(**PATIENT), "none"))


def marks_table(out):
    """The rows of marks.csv."""
    with (out / "marks.csv").open(newline="", encoding="utf-8-sig") as file:
        return list(csv.DictReader(file))


def run(command, *arguments):
    """What a command says and ends with."""
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


@pytest.fixture(scope="session")
def hand_ins(assignment, section):
    return {student: one.content for student, one in synthetic_class(assignment, section).items()}


def restored(assignment, content):
    return restore(parse_submission(content), assignment)


@pytest.fixture
def right(hand_ins):
    """A notebook with right answers, to be changed."""
    return parse_submission(hand_ins["right"])


def place_of(nb, name):
    return next(i for i, cell in enumerate(nb.cells) if grade_id(cell) == name)


def cell_named(nb, name):
    return nb.cells[place_of(nb, name)]


def names(nb):
    return [cell.metadata.nbgrader.grade_id for cell in nb.cells if "nbgrader" in cell.metadata]


ORDER = [
    f"00-{name}{part}"
    for name in ("weighted-sum", "temperature")
    for part in ("", "-check", "-hidden")
]


def found(folder, *assignments):
    hand_ins, students, remarks = find_hand_ins(folder, assignments)
    return (
        [
            (one.student, one.assignment, one.path.relative_to(folder).as_posix())
            for one in hand_ins
        ],
        students,
        remarks,
    )
