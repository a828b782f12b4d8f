"""From outcomes to marks: points, lateness, repeated hand-ins, and answers that use the library."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from ..course.assignments import Assignment, Rules
from ..notebooks.hand_ins import HandIn
from .outcomes import UNREADABLE, Outcome

__all__ = ["Mark", "marks_of"]

ABSENT = "nothing was handed in"
WAITS = "handed in, but not judged yet"
WAITS_FOR_MARKS = "waits to be marked by hand"


@dataclass(frozen=True)
class Mark:
    """The marks of one student for one exercise.

    Attributes:
        points: with all rules applied.
        most: the maximum.
        note: "" when everything is right and in time, else why marks are missing or what the
            instructor should check.
        hand_in: the one that counts; None without one.
        outcome: of the exercise in that hand-in.
        by_hand, excused: what the instructor has decided (overrides.toml).
    """

    student: str
    assignment: str
    exercise: str
    title: str
    points: float
    most: float
    note: str
    hand_in: HandIn | None = None
    outcome: Outcome | None = None
    by_hand: bool = False
    excused: bool = False


def marks_of(
    student: str,
    assignment: Assignment,
    hand_ins: list[HandIn],
    outcomes,
    rules: Rules,
    remarks=None,
) -> list[Mark]:
    """The marks of a student for an assignment.

    Args:
        hand_ins: of the student for this assignment, in any order.
        outcomes: {sha: {exercise: Outcome}}; a hand-in without any counts only when there is no
            other.
        remarks: list to which a remark is added for each hand-in that counts for another
            assignment.
    """
    judged = [one for one in hand_ins if one.sha in outcomes] or hand_ins
    attempts = [
        _attempt(student, assignment, one, outcomes.get(one.sha, {}), rules)
        for one in sorted(judged, key=lambda one: (one.time, one.path))
    ]
    if not attempts:
        titles = {one.id: one.title for one in (*assignment.tasks, *assignment.words)}
        return [
            Mark(student, assignment.name, id, titles[id], 0.0, most, ABSENT)
            for id, most in assignment.exercises.items()
        ]
    remarks = [] if remarks is None else remarks
    attempts = _readable(_of_this_assignment(attempts, remarks), remarks)
    if rules.repeated == "first":
        return attempts[0]
    if rules.repeated == "last":
        return attempts[-1]
    return max(attempts, key=_total)


def _attempt(student, assignment, hand_in, outcomes, rules):
    share, late = _share(assignment, hand_in, rules)
    marks = []
    for task in assignment.tasks:
        outcome, pair = (
            outcomes.get(task.id) or Outcome(task.id, False, False, WAITS),
            assignment.points[task.id],
        )
        points = share * sum(
            most for most, passed in zip(pair, (outcome.visible, outcome.hidden)) if passed
        )
        notes = [outcome.note, outcome.remark]
        if outcome.library:
            notes.append(f"uses {outcome.library}, the book's own implementation")
            points = 0.0 if rules.library == "zero" else points
        if points or outcome.visible or outcome.hidden:
            notes.append(late)
        marks.append(
            Mark(
                student,
                assignment.name,
                task.id,
                task.title,
                round(points, 4),
                sum(pair),
                "; ".join(filter(None, notes)),
                hand_in,
                outcome,
            )
        )
    for one in assignment.words:
        outcome = outcomes.get(one.id) or Outcome(one.id, False, False, WAITS)
        note = outcome.note or WAITS_FOR_MARKS
        most = assignment.exercises[one.id]
        marks.append(
            Mark(student, assignment.name, one.id, one.title, 0.0, most, note, hand_in, outcome)
        )
    return marks


def _of_this_assignment(attempts, remarks):
    """The attempts without those that were handed in for another assignment, as far as one can
    tell.

    The notebook of a chapter can hold the exercises of several assignments and is handed in once
    for each. Such a hand-in must not lower the marks here: it neither replaces an earlier one with
    more points nor, without an answer, counts as the first.
    """
    counted = []
    for marks in attempts:
        written = any(one.outcome.print for one in marks)
        if marks[0].hand_in.shared and (
            not written or counted and _total(counted[-1]) > _total(marks)
        ):
            continue
        counted.append(marks)
    if not counted:
        return attempts
    for one in (marks[0] for marks in attempts if marks not in counted):
        remarks.append(
            f"{one.student}: {one.hand_in.name}: holds exercises of several assignments and does "
            f"not count for {one.assignment}, "
            "where another hand-in has better marks or answers"
        )
    return counted


def _readable(attempts, remarks):
    """The attempts without files that are no notebooks, where there is another: a broken upload
    does not take the place of a right one.
    """
    broken = [marks for marks in attempts if marks[0].outcome.attention == UNREADABLE]
    kept = [marks for marks in attempts if marks not in broken]
    if not kept or not broken:
        return attempts
    lost = broken[-1][0]
    note = f"{lost.hand_in.name} does not count: {lost.outcome.note}"
    remarks.append(f"{lost.student}: {note}")
    return [
        [replace(one, note="; ".join(filter(None, (one.note, note)))) for one in marks]
        if lost.hand_in.time >= marks[0].hand_in.time
        else marks
        for marks in kept
    ]


def _total(marks):
    return sum(one.points for one in marks)


def _share(assignment, hand_in, rules):
    """(share of the marks that remains, the lateness in words)."""
    if assignment.due is None or hand_in.late is False or hand_in.late and assignment.extended:
        return 1.0, ""
    seconds = (hand_in.time - assignment.due).total_seconds()
    # a platform says that it was late, not by how much
    days = 1 if hand_in.late else math.ceil(seconds / 86400)
    if days <= 0:
        return 1.0, ""
    lateness = f"{days} day{'s' if days > 1 else ''} late"
    if hand_in.late:
        lateness += " (late by its name, counted as one day; times.csv can say more)"
    if days > rules.latest_days:
        return 0.0, f"{lateness}: no marks after {rules.latest_days:g} days"
    share = max(0.0, 1 - rules.late_per_day * days)
    return share, f"{lateness}: {100 * share:g} % of the marks"
