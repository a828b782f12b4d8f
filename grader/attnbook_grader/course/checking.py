"""Proof that a course marks rightly: every solution gets all points, every known wrong answer
and the untouched notebook get fewer.
"""

from __future__ import annotations

from dataclasses import dataclass

import nbformat

from bookbuild import source

from ..grading.judging import Job, Outcome
from ..grading.workers import judge_all
from .assignments import Assignment, Course
from .exercises import Task
from .known_wrong_answers import wrong_answers

__all__ = ["Finding", "check_course", "notebook_with"]

SOLUTION, UNTOUCHED = "the solution", "untouched"


@dataclass(frozen=True)
class Finding:
    """One answer and what the grader made of it. `fault` is "" when it is as it should be."""

    assignment: str
    exercise: str
    answer: str
    outcome: Outcome
    fault: str


def notebook_with(assignment: Assignment, answers: dict[str, str]) -> bytes:
    """The students' notebook with these answers: {exercise id: code}; the stub where there is none.

    The bytes of the file.
    """
    nb = assignment.notebook()
    nb.cells = [
        cell
        for cell in nb.cells
        if not cell.metadata.get("nbgrader", {}).get("grade_id", "").endswith("-hidden")
    ]
    by_key = {task.key: answers.get(task.id) for task in assignment.tasks}
    for cell in nb.cells:
        name = cell.metadata.get("nbgrader", {}).get("grade_id", "")
        if cell.cell_type == "code":
            cell.source = source.cut_hidden(source.cut_solution(cell.source))
        if by_key.get(name) is not None:
            cell.source = by_key[name]
    return nbformat.writes(nb).encode()


def solution_of(task: Task) -> str:
    """The solution without the marks around it."""
    return "\n".join(
        line for line in task.solution.source.split("\n") if line.strip() not in source.SOLUTION
    )


def check_course(
    course: Course, book, sandbox: str, *, jobs=None, only=None, progress=lambda finding: None
) -> list[Finding]:
    """Judge solutions, known wrong answers and the untouched notebook of every assignment, as
    hand-ins are judged.

    progress: called with each finding as it comes
    """
    queue = []
    for one in course.assignments:
        if only and one.name not in only:
            continue
        wrong = wrong_answers(book, list(one.tasks))
        queue.append(
            (
                one,
                {task.id: SOLUTION for task in one.tasks},
                {task.id: solution_of(task) for task in one.tasks},
            )
        )
        queue.append((one, {task.id: UNTOUCHED for task in one.tasks}, {}))
        # one notebook holds one wrong answer to each exercise
        for place in range(max(map(len, wrong.values()))):
            here = {id: answers[place] for id, answers in wrong.items() if place < len(answers)}
            queue.append((one, here, {id: answer.code for id, answer in here.items()}))
    findings = []

    def all_jobs():
        for one, names, answers in queue:
            seeds = {id: course.hidden_seed(id) for id in names}
            job = Job(
                notebook_with(one, answers),
                one,
                tuple(names),
                seeds,
                course.limits,
                sandbox,
                course.image,
            )
            yield (one, names), job

    for (one, names), outcomes in judge_all(all_jobs(), count=jobs):
        for outcome in outcomes:
            finding = _finding(one, outcome, names[outcome.exercise])
            findings.append(finding)
            progress(finding)
    return findings


def _finding(assignment, outcome, answer):
    passed, fault = outcome.visible and outcome.hidden, ""
    if answer == SOLUTION:
        name = answer
        if not passed:
            fault = f"does not get all points: {outcome.note}"
        elif outcome.library:
            fault = f"is said to use {outcome.library}"
    elif answer == UNTOUCHED:
        name = answer
        if outcome.visible or outcome.hidden:
            fault = "gets points"
        elif "not written" not in outcome.note:
            fault = f"is not said to be unwritten: {outcome.note}"
    else:
        name = answer.name
        if passed:
            fault = "gets all points"
        elif answer.words not in outcome.note and not outcome.visible:
            fault = f"the message does not name the mistake ({answer.words!r}): {outcome.note}"
    return Finding(assignment.name, outcome.exercise, name, outcome, fault)
