"""The check of a course: every solution must get all points, every known wrong answer and the
notebook without answers fewer.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..course.assignments import Course, notebook_with
from ..course.exercises import solution_of
from ..course.known_wrong_answers import wrong_answers
from .judging import Job, Outcome
from .workers import judge_all

__all__ = ["Finding", "check_course"]

SOLUTION, UNTOUCHED = "the solution", "untouched"


@dataclass(frozen=True)
class Finding:
    """One answer and what the grader made of it. `fault` is "" when it is as it should be."""

    assignment: str
    exercise: str
    answer: str
    outcome: Outcome
    fault: str


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
        right = {task.id: solution_of(task) for task in one.tasks}
        queue += [(one, dict.fromkeys(right, SOLUTION), right)]
        queue += [(one, dict.fromkeys(right, UNTOUCHED), {})]
        # one notebook holds one wrong answer to each exercise
        for place in range(max(map(len, wrong.values()))):
            here = {id: answers[place] for id, answers in wrong.items() if place < len(answers)}
            queue.append((one, here, {id: answer.code for id, answer in here.items()}))
    findings = []

    def all_jobs():
        for one, names, answers in queue:
            seeds = {id: course.hidden_seed(id) for id in names}
            asked = (notebook_with(one, answers), one, tuple(names), seeds)
            yield (one, names), Job(*asked, course.limits, sandbox, course.image)

    for (one, names), outcomes in judge_all(all_jobs(), count=jobs):
        for outcome in outcomes:
            finding = _finding(one, outcome, names[outcome.exercise])
            findings.append(finding)
            progress(finding)
    return findings


def _finding(assignment, outcome, answer):
    passed, fault = outcome.visible and outcome.hidden, ""
    name = answer if answer in (SOLUTION, UNTOUCHED) else answer.name
    if answer == SOLUTION:
        if not passed:
            fault = f"does not get all points: {outcome.note}"
        elif outcome.library:
            fault = f"is said to use {outcome.library}"
    elif answer == UNTOUCHED:
        if outcome.visible or outcome.hidden:
            fault = "gets points"
        elif "not written" not in outcome.note:
            fault = f"is not said to be unwritten: {outcome.note}"
    elif passed:
        fault = "gets all points"
    elif answer.words not in outcome.note and not outcome.visible:
        fault = f"the message does not name the mistake ({answer.words!r}): {outcome.note}"
    return Finding(assignment.name, outcome.exercise, name, outcome, fault)
