"""Every exercise of the book: its solution is right, its stub is not written yet, its known
wrong answers are named.
"""

import re

import pytest

from attnbook.answers.arguments import copied
from attnbook.checks import exercises, judge
from attnbook_grader.course.exercises import find_book, sections
from bookbuild.source import STUB, read_source, student_version

from .wrong_answers import WRONG

IDS = list(exercises())
CASES = [(id, *case) for id in IDS for case in WRONG[id]]


@pytest.fixture(scope="module")
def tasks():
    return {task.id: (section, task) for section in sections(find_book()) for task in section.tasks}


def answer(code, name):
    scope = {}
    exec(compile(code, "<answer>", "exec"), scope)
    return scope[name]


def test_every_exercise_stands_in_the_section_that_its_check_is_named_after(tasks):
    assert list(tasks) == IDS, "the order of the book and of the registry"
    wrong = [id for id in IDS if tasks[id][0].name != exercises()[id].notebook]
    assert not wrong


def test_each_chapter_has_enough_of_them():
    for chapter, least in (("00", 5), ("01", 5), ("02", 5)):
        assert sum(id.startswith(chapter) for id in IDS) >= least
    assert set(WRONG) == set(IDS)
    assert all(len(WRONG[id]) >= 3 for id in IDS)


@pytest.mark.parametrize("id", IDS)
def test_the_statement_says_what_the_registry_says(tasks, id):
    entry, text = exercises()[id], tasks[id][1].statement.source
    dots = "●" * entry.difficulty + "○" * (4 - entry.difficulty)
    assert re.match(rf"### Exercise {int(id[:2])}\.\d+: {re.escape(entry.title)}\n", text)
    assert f"*{dots} · {entry.minutes} minutes*" in text
    assert text.index("<summary>Hint</summary>") < text.index("<summary>Pseudo-code</summary>")


@pytest.mark.parametrize("id", IDS)
def test_the_solution_is_right(tasks, id):
    task = tasks[id][1]
    function = answer(task.solution.source, task.function)
    for seed in range(6):
        verdict = judge(id, function, seed)
        assert verdict, verdict


BUGS = [id for id in IDS if exercises()[id].title.startswith("Find the bug")]


@pytest.mark.parametrize("id", BUGS)
def test_the_printed_bug_runs_and_is_named(tasks, id):
    """What an exercise prints as code with a bug: of a length to be read, no error of its own,
    one of the known wrong answers.
    """
    task = tasks[id][1]
    (printed,) = re.findall(r"```python\n(.*?)```", task.statement.source, re.DOTALL)
    assert 15 <= len(printed.splitlines()) <= 35
    (words,) = [words for name, _, words in WRONG[id] if name.endswith("as_printed")]
    for seed in range(4):
        verdict = judge(id, answer(printed, task.function), seed)
        assert verdict.status == "mistake" and words in verdict.message
    assert "A loss curve does not show this bug" in task.statement.source


@pytest.mark.parametrize("id", IDS)
def test_the_stub_is_not_written_yet(tasks, id):
    section, task = tasks[id]
    cells = student_version(read_source(section.path)).cells
    (stub,) = [
        cell for cell in cells if cell.metadata.get("nbgrader", {}).get("grade_id") == task.key
    ]
    assert STUB in stub.source
    verdict = judge(id, answer(stub.source, task.function))
    assert (verdict.status, verdict.passed) == ("not written yet", False)


@pytest.mark.parametrize(
    ("id", "name", "function", "words"), CASES, ids=[f"{id}-{name}" for id, name, *_ in CASES]
)
def test_a_wrong_answer_is_named(id, name, function, words):
    for seed in range(4):
        verdict = judge(id, function, seed)
        assert not verdict.passed, f"accepted with seed {seed}"
        assert words in verdict.message
        assert "\n" not in verdict.message
    assert judge(id, function, 3) == verdict, "the same answer and seed give the same words"


OF_A_SIZE = {
    "03.two_heads": "what comes back are matrices for heads of a given size, and one choice of "
    "them is right for all inputs"
}
"""Exercises without an input but sizes: the answers for the visible run are right for every seed
that draws the same sizes.
"""


@pytest.mark.parametrize("id", [id for id in IDS if id not in OF_A_SIZE])
def test_the_answers_of_the_visible_run_are_wrong_for_other_seeds(tasks, id):
    """Who has recorded what was right in the reader's check, and answers the same call by call,
    must not pass the hidden one.
    """
    task = tasks[id][1]
    function, said = answer(task.solution.source, task.function), []

    def recorded(*given):
        result = function(*given)
        said.append(copied(result))
        return result

    def replayed(*given):
        function(*given)  # for the calls that it makes itself
        return copied(next(left, None))

    assert judge(id, recorded)
    for seed in range(1, 7):
        left = iter(said)
        assert not judge(id, replayed, seed), f"accepted with seed {seed}"


def test_no_leak_is_lost_in_rounding(tasks):
    """Scores once lay so far apart here that a later row moved an earlier result by 6e-11."""
    task = tasks["06.leaks"][1]
    assert judge("06.leaks", answer(task.solution.source, task.function), 1299416064948332898)
