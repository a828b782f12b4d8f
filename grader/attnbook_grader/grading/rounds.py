"""A round of grading: hand-ins in; journal, marks and feedback out.

It may be killed at any moment and started again.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path

from tqdm import tqdm

from ..course.assignments import Course
from ..notebooks.hand_ins import HandIn, find_hand_ins
from ..notebooks.layouts import canvas_owner
from ..notebooks.names import first_of
from ..notebooks.roster import Roster
from ..sandbox.launch import choose
from .check_fingerprint import fingerprint
from .equal import Equal, equal_answers
from .journal import Journal
from .judging import Job
from .marks import ABSENT, Mark, late_hand_ins, marks_of
from .outcomes import refused
from .outputs import MARKER, locked, usable, write_outputs
from .overrides import Overrides
from .words_sheet import Sheet
from .workers import judge_all

__all__ = ["Round", "chosen", "grade"]

_IN_WORDS = "in words"  # in place of the fingerprint of a check


@dataclass(frozen=True)
class Round:
    """What a round found.

    marks: one a student and exercise
    judged: how many notebooks were judged in this round; the others were known
    equal: {assignment: groups of students with equal answers, what weighs most first}
    remarks: on files that were left out, and on what could not be graded or written
    late: of each assignment for which somebody was late, how many were
    """

    marks: list[Mark]
    judged: int
    equal: dict[str, list[Equal]]
    remarks: list[str]
    late: list[str] = field(default_factory=list)


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
    drop_absent=False,
    roster: Roster | None = None,
    overrides: Overrides | None = None,
    sheet: Sheet | None = None,
    say=print,
) -> Round:
    """Judge what was not judged yet in the folder `submissions`, and write the folder `out`.

    out: gets journal.db, marks.csv, wide.csv, class.html and feedback/STUDENT/index.html
    trust: run students' code without a sandbox
    again: ids of exercises to judge again; after a round that was killed the same ids go on with
    what is left of it
    only: names of the assignments to judge; default: those that anybody handed in
    drop_absent: forget the hand-ins of earlier rounds that are no longer in `submissions`
    overrides: what the instructor has decided by hand
    sheet: the points for answers in words; it is written anew
    roster: the students, also those who handed in nothing
    The marks are those of all assignments and exercises that were judged, in this round or before,
    of every hand-in that there ever was.
    Raises ValueError for folders that cannot be used, NoSandbox.
    """
    overrides = overrides or Overrides()
    sandbox = choose(course.sandbox if not trust else "none", trust)
    wanted = chosen(course, only)
    known_ids(again, wanted)
    usable(out)
    # with fewer, a file of another one would be taken for one of these
    notebooks = _known_notebooks(out)
    found, students, remarks = find_hand_ins(submissions, course.assignments, roster, notebooks)
    if not only:
        given = {one.assignment for one in found}
        wanted = [one for one in wanted if one.name in given]
    if not found:
        nothing = f"submissions: {submissions} holds no notebook of an assignment"
        raise ValueError("; ".join([nothing, *remarks[:5]]))
    say(_count(students, found))
    out.mkdir(parents=True, exist_ok=True)
    with locked(out):
        (out / MARKER).write_text(
            "Written by attnbook. The next round of grading goes on from the journal in this "
            "folder.\n"
        )
        with closing(Journal(out / "journal.db")) as journal:
            for one, id in ((one, id) for one in wanted for id in again if id in one.exercises):
                journal.forget(one.name, id)
            journal.remember(found, notebooks)
            how = {"sandbox": sandbox, "count": jobs, "scheduler": scheduler}
            judged = _judge(journal, course, wanted, found, notebooks, remarks, say, **how)
            if drop_absent:
                journal.drop_absent(found)
            students = sorted(journal.students(students))
            hand_ins = journal.hand_ins()
            if roster:  # it may be new
                hand_ins, students = _of_roster(roster, hand_ins, students)
            remarks += _absent(hand_ins, found)
            overrides, nobody = overrides.of(students, roster)
            remarks += nobody
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
            if sheet:
                marks = sheet.apply(marks, remarks)
            marks = overrides.apply(_unclear(marks, students, roster))
            equal = {
                one.name: equal_answers(
                    [hand for hand in hand_ins if hand.assignment == one.name],
                    outcomes[one.name],
                    {asked.id for asked in one.words},
                )
                for one in assignments
            }
            done = Round(marks, judged, equal, remarks, late_hand_ins(marks))
            write_outputs(out, course, assignments, students, done, roster)
            if sheet:
                sheet.write(marks, assignments)
            journal.finished([(one.name, id) for one in wanted for id in one.exercises])
    return done


def _of_roster(roster, hand_ins, students):
    """The hand-ins and students of all rounds with the names of this roster."""
    labels = {}
    for one in hand_ins:
        called = canvas_owner(one.file)
        if not called or one.student != f"{called[0]} ({called[1]})":
            called = (one.student,)
        person = roster.find(*called)
        labels[one.student] = person.label if person else one.student
    moved = [replace(one, student=labels[one.student]) for one in hand_ins]
    return moved, sorted({labels.get(one) or roster.label(one) for one in students})


def _unclear(marks, students, roster):
    """The marks, where those of students without a hand-in say which hand-ins may be theirs."""
    claims = roster.unclear(students) if roster else {}
    return [
        replace(one, note=f"{ABSENT} under this name; is it {', '.join(claims[one.student])}?")
        if one.hand_in is None and one.student in claims
        else one
        for one in marks
    ]


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
        listed = first_of(f"{one.student} ({one.file})" for one in own)
        yield (
            f"{name}: {len(own)} hand-in{'s' if len(own) > 1 else ''} of an earlier round no "
            f"longer there, still counted: {listed}; --drop-absent drops what is gone"
        )


def _with_marks(course, wanted, found, outcomes, remarks):
    """The assignments that get marks: the wanted ones, and those with hand-ins in the journal."""
    made, names = [], {one.name for one in wanted}
    for one in course.assignments:
        own = [hand for hand in found if hand.assignment == one.name]
        waiting = sorted({hand.student for hand in own if hand.sha not in outcomes[one.name]})
        known = any(hand.sha in outcomes[one.name] for hand in own)
        if known and waiting and one.name not in names:
            remarks.append(
                f"{one.name}: hand-ins that came after its last round do not count yet, those of "
                f"{', '.join(waiting)}; grade it again"
            )
        if known or one.name in names:
            made.append(one)
    return made


def _judge(journal, course, assignments, found: list[HandIn], notebooks, remarks, say, **how):
    """Judge every notebook once, and write down what is found as soon as it is."""
    sandbox = how.pop("sandbox")
    fingerprints = {
        one.name: {task.id: fingerprint(task.id, course.hidden_seed(task.id)) for task in one.tasks}
        | {asked.id: _IN_WORDS for asked in one.words}
        for one in assignments
    }
    found = [one for one in found if one.assignment in fingerprints]
    found = _few(found, notebooks, course.rules, remarks)
    by_name, queue = {one.name: one for one in course.assignments}, {}
    limits = repr(course.limits)
    for one in found:
        ids = journal.missing(one.assignment, one.sha, fingerprints[one.assignment], limits)
        if ids:
            queue[one.assignment, one.sha] = (one, ids)

    def all_jobs():
        for one, ids in queue.values():
            if isinstance(content := notebooks[one.sha], bytes):
                asked = (content, by_name[one.assignment], ids)
                seeds = {id: course.hidden_seed(id) for id in ids}
                yield one, Job(*asked, seeds, course.limits, sandbox, course.image)

    unreadable = [
        (one, refused(ids, notebooks[one.sha]))
        for one, ids in queue.values()
        if isinstance(notebooks[one.sha], str)
    ]
    judged, known = 0, len({(one.assignment, one.sha) for one in found}) - len(queue)
    if known:
        say(f"{known} notebooks are in the journal already")
    with tqdm(total=len(queue), desc="judged", unit=" notebooks", disable=None) as bar:
        for one, outcomes in chain(unreadable, judge_all(all_jobs(), **how)):
            stamps = fingerprints[one.assignment]
            journal.record(one.assignment, one.sha, stamps, limits, outcomes)
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
                seen = [each for each in outcomes if stamps[each.exercise] != _IN_WORDS]
                passed = sum(each.visible and each.hidden for each in seen)
                say(f"{one.student} · {one.assignment}: {passed} of {len(seen)} right")
    return judged


def _few(found, notebooks, rules, remarks):
    """The hand-ins without those of students who have handed in more than the rule lets judge."""
    own, left_out = defaultdict(list), set()
    for one in sorted(found, key=lambda one: one.order):
        if isinstance(notebooks[one.sha], bytes):
            own[one.student, one.assignment].append(one)
    for (student, name), every in own.items():
        first, most = rules.repeated == "first", rules.notebooks
        more = every[most:] if first else every[:-most]
        left_out.update((one.student, one.file) for one in more)
        if more:
            remarks.append(
                f"{student}: {len(every)} notebooks for {name}, of which the "
                f"{'first' if first else 'last'} {most} are judged (rule notebooks)"
            )
    return [one for one in found if (one.student, one.file) not in left_out]


def _known_notebooks(out):
    """What earlier rounds have read."""
    if not (out / "journal.db").is_file():
        return {}
    with closing(Journal(out / "journal.db")) as journal:
        return journal.notebooks()


def chosen(course, only):
    """The assignments of these names; all without any.

    ValueError for a name that the course does not have.
    """
    known = [one.name for one in course.assignments]
    if unknown := [name for name in only or () if name not in known]:
        raise ValueError(
            f"assignment: the course has no assignment {unknown[0]!r}; it has {', '.join(known)}"
        )
    return [one for one in course.assignments if not only or one.name in only]


def known_ids(ids, assignments):
    """ValueError for an id that no assignment has."""
    known = [id for one in assignments for id in one.exercises]
    if unknown := [id for id in ids if id not in known]:
        raise ValueError(
            f"regrade: no assignment has the exercise {unknown[0]!r}; there are {', '.join(known)}"
        )
