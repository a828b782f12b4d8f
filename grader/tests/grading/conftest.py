import pytest

from attnbook_grader.course.assignments import from_sections
from attnbook_grader.course.exercises import find_book, sections

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
