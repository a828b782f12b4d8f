"""Every exercise of the book: its solution is right, its stub is not written yet, the mistakes of
its known wrong answers are named.
"""

import re
from copy import deepcopy
from functools import cache

import pytest
import torch

from attnbook.checks import exercises, judge
from attnbook_exercises.answers.arguments import copied
from attnbook_exercises.checks.registry import WITHOUT_CODE
from attnbook_grader.course.exercises import find_book, sections
from bookbuild.source import SOLUTION, STUB, read_source, student_version

from .wrong_answers import WRONG

IDS = list(exercises())
LEAST = 3  # wrong answers per exercise


@pytest.fixture(scope="module")
def tasks():
    return {task.id: (section, task) for section in sections(find_book()) for task in section.tasks}


def answer(code, name):
    scope = {}
    exec(compile(code, "<answer>", "exec"), scope)
    return scope[name]


@cache
def stubs(path):
    """{key of an exercise: the code of its cell in the students' notebook}, for one section."""
    cells = student_version(read_source(path)).cells
    return {cell.metadata.get("nbgrader", {}).get("grade_id"): cell.source for cell in cells}


def incomplete(entries, tasks, wrong):
    """What is missing before an exercise can be handed out, one line per fault."""
    for id, entry in entries.items():
        if id not in tasks:
            yield f"{id}: no section has a cell tagged exercise and check({id!r}, …) after it"
        else:
            section, task = tasks[id]
            if section.name != entry.notebook:
                yield f"{id}: the cell is in {section.name}, the check in {entry.notebook}"
            if SOLUTION[0] not in task.solution.source:
                yield f"{id}: the cell in {section.name} has no solution ({SOLUTION[0]})"
        if len(wrong.get(id, ())) < LEAST:
            yield f"{id}: {len(wrong.get(id, ()))} known wrong answers, at least {LEAST} are needed"


def test_every_exercise_is_complete(tasks):
    assert list(incomplete(exercises(), tasks, WRONG)) == []


def test_an_incomplete_exercise_is_named(tasks):
    ids = ["00.weighted_sum", "00.temperature", "00.masked_softmax", "00.leave_one_out"]
    entries = {id: exercises()[id] for id in ids}
    unsolved = deepcopy(tasks["00.temperature"][1])
    unsolved.solution.source = "def temperature(scores, values, temperature): ..."
    section = tasks["00.masked_softmax"][0]
    tasks = {
        "00.temperature": (section, unsolved),
        "00.masked_softmax": tasks["00.masked_softmax"],
        "00.leave_one_out": (section, tasks["00.leave_one_out"][1]),
    }
    wrong = {**WRONG, "00.masked_softmax": WRONG["00.masked_softmax"][:2]}
    faults = list(incomplete(entries, tasks, wrong))
    assert [fault.split(":")[0] for fault in faults] == ids
    for fault, words in zip(faults, ("no section", "no solution", "2 known wrong", "the cell is")):
        assert words in fault


def test_a_section_asks_in_the_order_of_its_checks(tasks):
    for name in {section.name for section, _ in tasks.values()}:
        assert [id for id in tasks if tasks[id][0].name == name] == [
            id for id in IDS if exercises()[id].notebook == name
        ]


HINTS = {**dict.fromkeys(WITHOUT_CODE, (["Hint"], ["Hint", "Second hint"])), "Predict": ([],)}
"""What a statement folds away, by the kind of its exercise; see `OF_CODE` for the others."""

OF_CODE = ["Hint", "Pseudo-code"], ["Hint", "Second hint", "Pseudo-code"]


@pytest.mark.parametrize("id", IDS)
def test_the_statement_says_what_the_registry_says(tasks, id):
    entry, text = exercises()[id], tasks[id][1].statement.source
    dots = "●" * entry.difficulty + "○" * (4 - entry.difficulty)
    heading = rf"### Exercise {int(id[:2])}\.\d+\.\d+: {re.escape(entry.title)}\n"
    line = f"*{dots} · {entry.minutes} minutes*"
    assert re.match(heading, text), f"the statement must begin with {heading!r}, got {text[:80]!r}"
    assert line in text, f"the statement must have the line {line!r}"
    folded = re.findall(r"<summary>(.*?)</summary>", text.partition("](data:image")[0])
    hints = HINTS.get(entry.kind, OF_CODE)
    assert folded in hints, f"the statement must fold one of {hints}, got {folded}"


@pytest.mark.parametrize("id", IDS)
def test_the_solution_is_right(tasks, id):
    task = tasks[id][1]
    function = answer(task.solution.source, task.function)
    for seed in range(3):
        verdict = judge(id, function, seed)
        assert verdict, verdict


def test_an_exercise_has_twice_its_difficulty_in_points_and_a_bet_has_none():
    for task in exercises().values():
        assert task.points == (0, 0 if task.kind == "Predict" else 2 * task.difficulty)


def of_kind(*kinds):
    return [id for id in IDS if exercises()[id].kind in kinds]


def printed_code(task):
    (code,) = re.findall(r"```python\n(.*?)```", task.statement.source, re.DOTALL)
    return code


@pytest.mark.parametrize("id", of_kind("Find the bug", "Make it fast"))
def test_the_printed_code_runs_and_is_named(tasks, id):
    """The code with a bug, or the slow code, that an exercise prints is short, runs, and is a known
    wrong answer.
    """
    task, bug = tasks[id][1], exercises()[id].kind == "Find the bug"
    printed = printed_code(task)
    assert 15 * bug <= len(printed.splitlines()) <= 35
    (words,) = [case.words for case in WRONG[id] if case.name.endswith("as_printed")]
    for seed in range(4):
        verdict = judge(id, answer(printed, task.function), seed)
        assert verdict.status == "mistake" and words in verdict.message
    assert not bug or "loss curve does not" in task.statement.source


@pytest.mark.parametrize("id", of_kind("Shape error"))
def test_the_printed_code_stops_as_printed(tasks, id):
    task = tasks[id][1]
    printed = printed_code(task)
    assert 15 <= len(printed.splitlines()) <= 35
    (said,) = re.findall(r"```\n(  File .*?)\n```", task.statement.source, re.DOTALL)
    with pytest.raises(RuntimeError) as caught:
        exec(compile(printed, "<cell>", "exec"), {})
    (where,) = [frame for frame in caught.traceback if frame.name == task.function]
    assert f'File "<cell>", line {where.lineno + 1}, in {task.function}' in said
    assert said.splitlines()[-1] == f"RuntimeError: {caught.value}"


@pytest.mark.parametrize("id", IDS)
def test_the_stub_is_not_written_yet(tasks, id):
    section, task = tasks[id]
    stub = stubs(section.path)[task.key]
    assert STUB in stub
    verdict = judge(id, answer(stub, task.function))
    assert (verdict.status, verdict.passed) == ("not written yet", False)


@pytest.mark.parametrize("id", IDS)
def test_the_wrong_answers_are_named(id):
    """With two seeds: the visible check takes the first, the hidden check the second."""
    faults = []
    for wrong in WRONG[id]:
        for seed in range(2):
            verdict = judge(id, wrong.function, seed)
            if verdict.passed or wrong.words not in verdict.message or "\n" in verdict.message:
                faults.append(f"{wrong.name}, seed {seed}: {verdict}, expected {wrong.words!r}")
    assert not faults, "\n".join(faults)
    function = WRONG[id][0].function
    assert judge(id, function) == judge(id, function), "one seed, one message"


OF_A_SIZE = {
    "03.two_heads": "what comes back are matrices for heads of a given size, and one choice of "
    "them is right for all inputs",
    "09.one_opinion": "what a layer begins with; any small numbers of which none are alike do",
}
"""Exercises whose only inputs are sizes: a replay is right for each seed of the same sizes."""


WITH_INPUTS = [id for id in IDS if id not in OF_A_SIZE and exercises()[id].kind not in WITHOUT_CODE]


@pytest.mark.parametrize("id", WITH_INPUTS)
def test_the_answers_of_the_visible_run_are_wrong_for_other_seeds(tasks, id):
    """An answer that replays what was right in the visible check does not pass the hidden one."""
    task = tasks[id][1]
    function, results = answer(task.solution.source, task.function), []

    def recorded(*given):
        result = function(*given)
        results.append(copied(result))
        return result

    def replayed(*given):
        function(*given)  # for the calls that it makes itself
        return copied(next(left, None))

    assert judge(id, recorded)
    for seed in range(1, 3):
        left = iter(results)
        assert not judge(id, replayed, seed), f"accepted with seed {seed}"


def test_no_leak_is_lost_in_rounding(tasks):
    """Scores once lay so far apart here that a later row moved an earlier result by 6e-11."""
    task = tasks["06.leaks"][1]
    assert judge("06.leaks", answer(task.solution.source, task.function), 1299416064948332898)


FLOAT32 = {
    "03.two_heads",  # its statement asks for float32
    "04.repeat_number",
    "04.reliability",
    "04.unknown_order",
    "06.average_weights",  # weights keep their number type
    "09.third_token",  # what it gives back goes into its next call
}


def in_float64(value):
    if type(value) is torch.Tensor:
        return value.double() if value.is_floating_point() else value
    return type(value)(map(in_float64, value)) if type(value) in (list, tuple) else value


@pytest.mark.parametrize("id", [id for id in IDS if id not in FLOAT32])
def test_a_right_value_in_float64_is_right(id, tasks):
    solution = answer(tasks[id][1].solution.source, tasks[id][1].function)
    assert judge(id, lambda *given: in_float64(solution(*given)))
