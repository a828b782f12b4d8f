import csv

import pytest
from click.testing import CliRunner
from patience import PATIENT

from attnbook_grader.course.assignments import Course, from_sections
from attnbook_grader.course.exercises import find_book, sections
from attnbook_grader.course.synthetic_class import write_class
from attnbook_grader.sandbox.launch import Limits

IDS = ("00.weighted_sum", "00.temperature")


@pytest.fixture(scope="session")
def section():
    """Two exercises of the first section of the book."""
    (part,) = sections(find_book(), ["soft_lookup"], IDS)
    return part


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


def marks_table(out):
    """The rows of marks.csv."""
    with (out / "marks.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def run(command, *arguments):
    """What a command says and ends with."""
    return CliRunner().invoke(command, [str(argument) for argument in arguments])
