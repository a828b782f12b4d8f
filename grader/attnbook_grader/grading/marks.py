"""From what was found to what counts: points, lateness, repeated hand-ins, and answers that are
the library's or another's.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass

from ..course.assignments import Assignment, Rules
from ..notebooks.hand_ins import HandIn
from .judging import Outcome

__all__ = ["Mark", "equal_answers", "marks_of"]

ABSENT = "nothing was handed in"
WAITS = "handed in, but not judged yet"


@dataclass(frozen=True)
class Mark:
    """The marks of one student for one exercise.

    points, most: with all rules applied, and what could be had
    note:         "" when everything is right and in time, else why marks are missing or what the
    instructor should look at
    hand_in:      the one that counts; None if there is none
    outcome:      what was found in it
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


def marks_of(
    student: str,
    assignment: Assignment,
    hand_ins: list[HandIn],
    outcomes,
    rules: Rules,
    remarks=None,
) -> list[Mark]:
    """The marks of a student for an assignment.

    hand_ins: the student's for this assignment, in any order
    outcomes: {sha: {exercise: Outcome}}; a hand-in without any counts only where there is no other
    remarks:  a list that gets one more for each hand-in that is taken for one of another assignment
    """
    judged = [one for one in hand_ins if one.sha in outcomes] or hand_ins
    tries = [
        _tried(student, assignment, one, outcomes.get(one.sha, {}), rules)
        for one in sorted(judged, key=lambda one: (one.time, one.path))
    ]
    if not tries:
        return [
            Mark(
                student,
                assignment.name,
                task.id,
                task.title,
                0.0,
                sum(assignment.points[task.id]),
                ABSENT,
            )
            for task in assignment.tasks
        ]
    tries = _for_this(tries, [] if remarks is None else remarks)
    if rules.repeated == "first":
        return tries[0]
    if rules.repeated == "last":
        return tries[-1]
    return max(tries, key=_sum)


def equal_answers(hand_ins: list[HandIn], outcomes, least: int = 2) -> list[list[str]]:
    """Groups of students whose answers to at least `least` exercises (or all there are) of an
    assignment are all equal.

    Equal means: the same but for comments, docstrings and layout. Short right answers may be equal
    by chance.
    """
    groups: dict[tuple, set[str]] = defaultdict(set)
    for one in hand_ins:
        found = outcomes.get(one.sha, {})
        prints = tuple((id, found[id].print) for id in sorted(found) if found[id].print)
        if prints and len(prints) >= min(least, len(found)):
            groups[prints].add(one.student)
    return sorted(sorted(group) for group in groups.values() if len(group) > 1)


def _tried(student, assignment, hand_in, outcomes, rules):
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
    return marks


def _for_this(tries, remarks):
    """Without those that were handed in for another assignment, as far as one can tell: a chapter's
    notebook may hold the exercises of several, and comes once for each. Then it must cost nothing
    here: neither what an earlier one got, nor, empty, the place of the first."""
    kept = []
    for marks in tries:
        written = any(one.outcome.print for one in marks)
        if marks[0].hand_in.shared and (not written or kept and _sum(kept[-1]) > _sum(marks)):
            continue
        kept.append(marks)
    if not kept:
        return tries
    for one in (marks[0] for marks in tries if marks not in kept):
        remarks.append(
            f"{one.student}: {one.hand_in.name}: holds exercises of several assignments and does "
            f"not count for {one.assignment}, "
            "where another hand-in has better marks or answers"
        )
    return kept


def _sum(marks):
    return sum(one.points for one in marks)


def _share(assignment, hand_in, rules):
    """(share of the marks that is left, in words)."""
    if assignment.due is None or hand_in.time <= assignment.due:
        return 1.0, ""
    days = math.ceil((hand_in.time - assignment.due).total_seconds() / 86400)
    said = f"{days} day{'s' if days > 1 else ''} late"
    if days > rules.latest_days:
        return 0.0, f"{said}: no marks after {rules.latest_days:g} days"
    share = max(0.0, 1 - rules.late_per_day * days)
    return share, f"{said}: {100 * share:g} % of the marks"
