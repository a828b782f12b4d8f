"""From outcomes to marks: points, lateness, repeated hand-ins, and answers that use the library."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field, replace

from ..course.assignments import Assignment, Rules
from ..notebooks.hand_ins import TIMES, HandIn
from .outcomes import UNREADABLE, Outcome

__all__ = ["Mark", "late_hand_ins", "marks_of"]

ABSENT = "nothing was handed in"
WAITS = "handed in, but not judged yet"
WAITS_FOR_MARKS = "waits to be marked by hand"


@dataclass(frozen=True)
class Mark:
    """The marks of one student for one exercise.

    points: with all rules applied.
    most: the maximum.
    note: "" when everything is right and in time, else why marks are missing or what the
    instructor should check.
    hand_in: the one that counts; None without one.
    outcome: of the exercise in that hand-in.
    by_hand, excused: what the instructor has decided (overrides.toml, words.csv).
    parts: of a rubric, with the points that the instructor gave.
    waits: whether it is an answer in words that nobody has marked yet.
    days, lost: how many days the hand-in is late, and the points that this costs.
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
    parts: dict[str, float] = field(default_factory=dict)
    waits: bool = False
    days: int = 0
    lost: float = 0.0


def marks_of(
    student: str,
    assignment: Assignment,
    hand_ins: list[HandIn],
    outcomes,
    rules: Rules,
    remarks=None,
) -> list[Mark]:
    """The marks of a student for an assignment.

    hand_ins: of the student for this assignment, in any order.
    outcomes: {sha: {exercise: Outcome}}; a hand-in without any counts only when there is no
    other.
    remarks: list to which a remark is added for each hand-in that counts for another
    assignment.
    """
    judged = [one for one in hand_ins if one.sha in outcomes] or hand_ins
    attempts = [
        _attempt(student, assignment, one, outcomes.get(one.sha, {}), rules)
        for one in sorted(judged, key=lambda one: one.order)
    ]
    if not attempts:
        titles = {one.id: one.title for one in (*assignment.tasks, *assignment.words)}
        return [
            Mark(student, assignment.name, id, titles[id], 0.0, most, ABSENT)
            for id, most in assignment.exercises.items()
        ]
    remarks = [] if remarks is None else remarks
    attempts = _readable(_of_this_assignment(attempts, remarks), remarks)
    if rules.repeated == "best":
        return max(attempts, key=_total)
    chosen = attempts[0 if rules.repeated == "first" else -1]
    counts = chosen[0].hand_in
    others = [marks[0].hand_in for marks in attempts if marks is not chosen]
    if same := {one.name for one in others if one.time == counts.time and one.sha != counts.sha}:
        remarks.append(
            f"{student}: {assignment.name}: {counts.name} and {', '.join(sorted(same))} have the "
            f"same time, and {counts.name} counts, by its name; {TIMES} can say when each came"
        )
    return chosen


def _attempt(student, assignment, hand_in, outcomes, rules):
    share, late, days = _share(assignment, hand_in, rules)
    marks = []
    for task in assignment.tasks:
        outcome = outcomes.get(task.id) or Outcome(task.id, False, False, WAITS)
        pair = assignment.points[task.id]
        whole = sum(most for most, passed in zip(pair, (outcome.visible, outcome.hidden)) if passed)
        notes = [outcome.note, outcome.remark]
        if outcome.library:
            notes.append(f"uses {outcome.library}, the book's own implementation")
            whole = 0.0 if rules.library == "zero" else whole
        points = share * whole
        if points or outcome.visible or outcome.hidden:
            notes.append(late)
        note = "; ".join(filter(None, notes))
        own = (student, assignment.name, task.id, task.title, round(points, 4), sum(pair), note)
        marks.append(Mark(*own, hand_in, outcome, days=days, lost=whole - points))
    for one in assignment.words:
        outcome = outcomes.get(one.id) or Outcome(one.id, False, False, WAITS)
        waits = not outcome.note
        note = "; ".join(filter(None, (outcome.note or WAITS_FOR_MARKS, outcome.remark)))
        most = assignment.exercises[one.id]
        own = (student, assignment.name, one.id, one.title, 0.0, most, note, hand_in, outcome)
        marks.append(Mark(*own, waits=waits, days=days))
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
            f"{one.student}: {one.hand_in.name}: holds exercises of other assignments, and another "
            f"hand-in, with better marks or answers, counts for {one.assignment}"
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


def late_hand_ins(marks: list[Mark]) -> list[str]:
    """Of each assignment for which somebody was late: how many were, by how much, and what it
    costs them.
    """
    said, by_assignment = [], defaultdict(list)
    for one in marks:
        if one.hand_in:
            by_assignment[one.assignment].append(one)
    for name, own in by_assignment.items():
        days = {one.student: one.days for one in own if one.days}
        if not days:
            continue
        handed_in = {one.student for one in own}
        least, most = min(days.values()), max(days.values())
        line = (
            f"{name}: {len(days)} of {len(handed_in)} students handed in late, by "
            f"{f'{least} to ' if least < most else ''}{most} day{'s' if most > 1 else ''}, "
            f"and lose {round(sum(one.lost for one in own), 2):.10g} points"
        )
        if len(days) == len(handed_in) > 1:
            line += (
                ". Everybody is late: do the files have the time of their unpacking? times.csv "
                "can give the right ones"
            )
        said.append(line)
    return said


def _share(assignment, hand_in, rules):
    """(share of the marks that remains, the lateness in words, in days)."""
    if assignment.due is None or hand_in.late is False or hand_in.late and assignment.extended:
        return 1.0, "", 0
    seconds = (hand_in.time - assignment.due).total_seconds()
    # a platform says that it was late, not by how much
    days = 1 if hand_in.late else math.ceil(seconds / 86400)
    if days <= 0:
        return 1.0, "", 0
    lateness = f"{days} day{'s' if days > 1 else ''} late"
    if hand_in.late:
        lateness += " (late by its name, counted as one day; times.csv can say more)"
    if days > rules.latest_days:
        return 0.0, f"{lateness}: no marks after {rules.latest_days:g} days", days
    share = max(0.0, 1 - rules.late_per_day * days)
    return share, f"{lateness}: {100 * share:g}% of the marks", days
