"""A round of grading: hand-ins in; journal, marks, feedback and a gradebook out.

It may be killed at any moment and started again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from pathlib import Path

from tqdm import tqdm

from ..course.assignments import Course
from ..course.overrides import Overrides
from ..notebooks.hand_ins import HandIn, find_hand_ins
from ..notebooks.roster import Roster
from ..sandbox.launch import choose
from .check_fingerprint import fingerprint
from .equal import Equal, equal_answers
from .journal import Journal
from .judging import Job
from .marks import Mark, marks_of
from .outcomes import refused
from .outputs import MARKER, locked, usable, write_outputs
from .selection import chosen, cut, known_ids
from .workers import judge_all

__all__ = ["Round", "chosen", "grade"]


@dataclass(frozen=True)
class Round:
    """What a round found.

    marks: one a student and exercise
    judged: how many notebooks were judged in this round; the others were known
    equal: {assignment: groups of students with equal answers, what weighs most first}
    remarks: on files that were left out, and on what could not be graded or written
    """

    marks: list[Mark]
    judged: int
    equal: dict[str, list[Equal]]
    remarks: list[str]


def grade(
    course: Course,
    submissions: Path,
    out: Path,
    *,
    trust=False,
    jobs=None,
    scheduler=None,
    again=(),
    only=None,
    tasks=None,
    drop_absent=False,
    roster: Roster | None = None,
    overrides: Overrides | None = None,
    say=print,
) -> Round:
    """Judge what was not judged yet in the folder `submissions`, and write the folder `out`.

    out: gets journal.db, marks.csv, class.html, feedback/STUDENT/index.html and nbgrader's
    gradebook.db
    trust: run students' code without a sandbox
    again: ids of exercises to judge again; after a round that was killed the same ids go on with
    what is left of it
    only: names of the assignments to judge; default: those that anybody handed in
    tasks: ids of the exercises to judge; default: all
    drop_absent: forget the hand-ins of earlier rounds that are no longer in `submissions`
    overrides: what the instructor has decided by hand
    roster: the students, also those who handed in nothing
    The marks are those of all assignments and exercises that were judged, in this round or before,
    of every hand-in that there ever was.
    Raises ValueError for folders that cannot be used, NoSandbox.
    """
    overrides = overrides or Overrides()
    sandbox = choose(course.sandbox if not trust else "none", trust)
    wanted = [cut(one, tasks or one.exercises) for one in chosen(course, only)]
    known_ids(again, wanted)
    usable(out)
    # with fewer, a file of another one would be taken for one of these
    notebooks = _known_notebooks(out)
    found, students, remarks = find_hand_ins(submissions, course.assignments, roster, notebooks)
    if not only:
        given = {one.assignment for one in found}
        wanted = [one for one in wanted if one.name in given]
    if not found:
        raise ValueError(
            "; ".join(
                [f"submissions: {submissions} holds no notebook of an assignment", *remarks[:5]]
            )
        )
    say(_count(students, found))
    out.mkdir(parents=True, exist_ok=True)
    with locked(out):
        (out / MARKER).write_text(
            "Written by attnbook. The next round of grading goes on from the journal in this "
            "folder.\n"
        )
        journal = Journal(out / "journal.db")
        try:
            for one in wanted:
                for task in one.tasks:
                    if task.id in again:
                        journal.forget(one.name, task.id)
            journal.remember(found, notebooks)
            judged = _judge(
                journal, course, wanted, found, notebooks, remarks, sandbox, jobs, scheduler, say
            )
            if drop_absent:
                journal.drop_absent(found)
            else:
                students = sorted({*students, *journal.students()})
            hand_ins = journal.hand_ins()
            if roster:  # it may be new
                hand_ins = [replace(one, student=roster.label(one.student)) for one in hand_ins]
                students = sorted({roster.label(student) for student in students})
            remarks += _absent(hand_ins, found)
            outcomes = {one.name: journal.outcomes(one.name) for one in course.assignments}
            assignments = _with_marks(course, wanted, hand_ins, outcomes, remarks)
            own = defaultdict(list)
            for hand in hand_ins:
                own[hand.student, hand.assignment].append(hand)
            marks = [
                mark
                for student in students
                for one in assignments
                for mark in marks_of(
                    student,
                    overrides.for_student(student, one),
                    own[student, one.name],
                    outcomes[one.name],
                    course.rules,
                    remarks,
                )
            ]
            marks = overrides.apply(marks)
            remarks += [
                f"overrides.toml: there is no student {student!r}"
                for student in sorted(overrides.students() - {*students})
            ]
            equal = {
                one.name: equal_answers(
                    [hand for hand in hand_ins if hand.assignment == one.name], outcomes[one.name]
                )
                for one in assignments
            }
            done = Round(marks, judged, equal, remarks)
            journal.write_marks(marks)
            write_outputs(out, course, assignments, students, done, roster)
            journal.finished([(one.name, task.id) for one in wanted for task in one.tasks])
        finally:
            journal.close()
    return done


def _count(students, found):
    """How many there are, said before anything is judged: a layout that was read wrongly shows."""
    counts = Counter(one.assignment for one in found)
    files = ", ".join(f"{name}: {count}" for name, count in counts.items())
    shown = f"{', '.join(students[:3])}{', …' if len(students) > 3 else ''}"
    return f"{len(students)} student{'s' if len(students) > 1 else ''} ({shown}); hand-ins: {files}"


def _absent(hand_ins, found):
    """Remarks on the hand-ins of earlier rounds that are no longer there."""
    files, gone = {one.file for one in found}, defaultdict(list)
    for one in hand_ins:
        if one.file not in files:
            gone[one.assignment].append(one)
    for name, own in gone.items():
        shown = [f"{one.student} ({one.file})" for one in own]
        more = f" and {len(shown) - 5} more" if len(shown) > 5 else ""
        yield (
            f"{name}: {len(own)} hand-in{'s' if len(own) > 1 else ''} of an earlier round "
            f"no longer there, still counted: {', '.join(shown[:5])}{more}; --drop-absent drops "
            f"what is gone"
        )


def _with_marks(course, wanted, found, outcomes, remarks):
    """The assignments and exercises that get marks: the wanted ones, and what is in the journal
    of the others that were handed in.
    """
    ids = {one.name: {*one.exercises} for one in wanted}
    made = []
    for one in course.assignments:
        own = [hand for hand in found if hand.assignment == one.name]
        known = {id for hand in own for id in outcomes[one.name].get(hand.sha, ())}
        waiting = [hand for hand in own if hand.sha not in outcomes[one.name]]
        if known and waiting and one.name not in ids:
            remarks.append(
                f"{one.name}: hand-ins that came after its last round do not count yet, those of "
                f"{', '.join(sorted({hand.student for hand in waiting}))}; grade it again"
            )
        made.append(cut(one, ids.get(one.name, set()) | known))
    return [one for one in made if one.exercises]


def _judge(
    journal,
    course,
    assignments,
    found: list[HandIn],
    notebooks,
    remarks,
    sandbox,
    jobs,
    scheduler,
    say,
):
    """Judge every notebook once, and write down what is found as soon as it is."""
    fingerprints = {
        one.name: {task.id: fingerprint(task.id, course.hidden_seed(task.id)) for task in one.tasks}
        | {asked.id: "in words" for asked in one.words}
        for one in assignments
    }
    found = [one for one in found if one.assignment in fingerprints]
    by_name, queue = {one.name: one for one in course.assignments}, {}
    for one in found:
        ids = journal.missing(one.assignment, one.sha, fingerprints[one.assignment])
        if ids:
            queue[one.assignment, one.sha] = (one, ids)

    def all_jobs():
        for one, ids in queue.values():
            content = notebooks[one.sha]
            if isinstance(content, str):
                continue
            seeds = {id: course.hidden_seed(id) for id in ids}
            assignment = by_name[one.assignment]
            yield one, Job(content, assignment, ids, seeds, course.limits, sandbox, course.image)

    def all_outcomes():
        for one, ids in queue.values():
            if isinstance(reason := notebooks[one.sha], str):
                yield one, refused(ids, reason)
        yield from judge_all(all_jobs(), count=jobs, scheduler=scheduler)

    judged, known = 0, len({(one.assignment, one.sha) for one in found}) - len(queue)
    if known:
        say(f"{known} notebooks are in the journal already")
    with tqdm(total=len(queue), desc="judged", unit=" notebooks", disable=None) as bar:
        for one, outcomes in all_outcomes():
            journal.record(one.assignment, one.sha, fingerprints[one.assignment], outcomes)
            bar.update()
            judged += 1
            failed = next((outcome.failed for outcome in outcomes if outcome.failed), "")
            if failed:
                remarks += [
                    f"{same.student}: {same.name}: could not be graded, and is judged again in "
                    f"the next round: {failed}"
                    for same in found
                    if (same.assignment, same.sha) == (one.assignment, one.sha)
                ]
            if bar.disable:
                passed = sum(outcome.visible and outcome.hidden for outcome in outcomes)
                say(f"{one.student} · {one.assignment}: {passed} of {len(outcomes)} right")
    return judged


def _known_notebooks(out):
    """What earlier rounds have read."""
    if not (out / "journal.db").is_file():
        return {}
    journal = Journal(out / "journal.db")
    try:
        return journal.notebooks()
    finally:
        journal.close()
