"""The page on the class: what needs attention, totals, each exercise, frequent mistakes."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path
from urllib.parse import quote

from .feedback import head_row, heading, number, page, text
from .outcomes import OUT_OF_SIGHT, UNREADABLE

__all__ = ["write_class_page"]

_EQUAL = (
    "students whose answers to an exercise are the same but for names, comments and layout, the "
    "most telling first: a wrong one weighs as much as three right ones, one that many gave less; "
    "short ones may be equal by chance"
)
_SHOWN = 12  # lines of a list; the others are folded


def write_class_page(path: Path, course, assignments, done, ids, strangers=0) -> None:
    """The class at a glance: totals, each exercise, what went wrong most often, equal answers,
    remarks. A student's name leads to the feedback in the folder ``ids[student]``.

    strangers: how many of the students a roster does not have
    """
    more = f" of the roster, and {strangers} that it does not have" if strangers else ""
    names = {
        student: f'<a href="feedback/{quote(id)}/index.html">{text(student)}</a>'
        for student, id in ids.items()
    }
    body = [
        f"<p>{len(ids) - strangers} students{more}</p>",
        _list("Late", "", done.late),
        _attention(done.marks, names),
        _students(assignments, done.marks, names),
    ]
    for assignment in assignments:
        marks = [one for one in done.marks if one.assignment == assignment.name]
        used = [
            f"{one.student}: {one.exercise} uses {one.outcome.library}"
            for one in marks
            if one.outcome and one.outcome.library
        ]
        rule = f"rule of this course: {course.rules.library}"
        body += [
            heading(assignment),
            *(part(assignment, marks) for part in (_totals, _table, _mistakes)),
            _list("Equal answers", _EQUAL, done.equal[assignment.name]),
            _list("Answers that use the library", rule, used),
        ]
    body.append(_list("Remarks", "", done.remarks))
    path.write_text(
        page(course.title, "\n".join(filter(None, body))), encoding="utf-8", errors="replace"
    )


def _attention(marks, names):
    """What could not be read, was stopped, lacked a package, or waits for marks by hand."""
    found: dict[tuple[str, ...], list[str]] = {}
    every = Counter()
    for one in marks:
        every[one.student, one.assignment] += 1
        if one.outcome and one.outcome.attention:
            file = one.hand_in.name if one.hand_in else ""
            said = "; the check says: " if one.outcome.attention.startswith(OUT_OF_SIGHT) else ": "
            reason = said.join(filter(None, (one.outcome.attention, one.outcome.note)))
            key = (one.student, file, reason, one.assignment)
            found.setdefault(key, []).append(one.exercise)
    rows = [
        (
            names[student],
            text(file),
            "all" if len(ids) == every[student, assignment] else " ".join(map(text, ids)),
            text(reason),
        )
        for (student, file, reason, assignment), ids in sorted(found.items())
    ] + [
        (
            names[one.student],
            text(one.hand_in.name if one.hand_in else ""),
            text(one.exercise),
            f"{text(one.note)}<details open><summary>the answer</summary>"
            f"<pre>{text(one.outcome.code)}</pre></details>",
        )
        for one in marks
        if one.waits
    ]
    return rows and (
        "<h3>Needs attention</h3><p>files and answers to look at yourself</p>"
        + _rows("", ("student", "file", "exercises", "what happened"), rows, "marks")
    )


def _students(assignments, marks, names):
    """The totals of each student: in all, and for each assignment."""
    points: dict[str, Counter] = {}
    for one in marks:
        points.setdefault(one.student, Counter())[one.assignment] += one.points
    rows = [
        (names[student], number(sum(own.values())), *(number(own[a.name]) for a in assignments))
        for student, own in points.items()
    ]
    most = sum(one.most for one in assignments)
    head = [f"all ({number(most)})"]
    head += [f"{text(one.name)} ({number(one.most)})" for one in assignments]
    return (
        "<details><summary>Totals of the students</summary>"
        f"{_rows('', ('student', *head), rows)}</details>"
    )


def _totals(assignment, marks):
    """A histogram as SVG within the page; for a screen reader it is its alt text."""
    from matplotlib.figure import Figure

    totals, most = Counter(), assignment.most
    for one in marks:
        if one.hand_in and not one.excused:
            totals[one.student] += one.points
    if not totals:
        return ""
    figure = Figure(figsize=(7, 2.4), layout="constrained")
    ax = figure.subplots()
    ax.spines[["top", "right"]].set_visible(False)
    bins = min(20, max(1, round(most)))
    ax.hist([*totals.values()], bins=bins, range=(0, most), color="#3b6fb6", edgecolor="white")
    ax.set(xlabel="points", ylabel="students", xlim=(0, most))
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None})
    svg = file.getvalue()
    mean = f"{totals.total() / len(totals):.1f} of {number(most)}"
    alt = text(f"Histogram of the students' points: mean {mean}")
    svg = svg[svg.index("<svg") :].replace("<svg", f'<svg role="img" aria-label="{alt}"', 1)
    who = f"{len(totals)} student{'s' if len(totals) > 1 else ''} who handed in"
    caption = f"Points of the {who}: {mean} on average."
    return f"<figure>{svg}<figcaption>{caption}</figcaption></figure>"


def _table(assignment, marks):
    """Each exercise: the mean of those who handed in, and how many have what of its points."""
    kinds = ("all points", "some", "none", "not handed in")
    rows = []
    for task in assignment.tasks:
        own = [one for one in marks if one.exercise == task.id and not one.excused]
        count, most = Counter(_kind(one) for one in own), sum(assignment.points[task.id])
        handed_in = [one.points for one in own if one.hand_in]
        mean = sum(handed_in) / max(1, len(handed_in))
        counts = (str(count[name]) for name in kinds)
        rows.append((text(task.id), text(task.title), f"{mean:.2f} of {number(most)}", *counts))
    return _rows("Exercises", ("exercise", "", "mean", *kinds), rows)


def _mistakes(assignment, marks):
    """What checks said; files that could not be read stand under "Needs attention"."""
    rows = []
    for task in assignment.tasks:
        notes = Counter(
            one.outcome.note
            for one in marks
            if one.exercise == task.id and one.outcome and one.outcome.note
            if one.outcome.attention != UNREADABLE
        )
        rows += [(text(task.id), str(count), text(note)) for note, count in notes.most_common(3)]
    head = ("exercise", "notebooks", "what the check said")
    return rows and _rows("What went wrong most often", head, rows)


def _rows(caption, head, rows, kind=""):
    """A table of cells that are HTML already; what is long comes last."""
    caption = caption and f"<caption>{caption}</caption>"
    body = head_row(head)
    for *cells, last in rows:
        line = "".join(f"<td>{cell}</td>" for cell in cells)
        body += f'<tr>{line}<td class="note">{last}</td></tr>'
    return f'<div class="wide"><table class="{kind}">{caption}{body}</table></div>'


def _list(title, explained, lines):
    items = [f"<li>{text(line)}</li>" for line in lines]
    if not items:
        return ""
    shown = f"<ul>{''.join(items[:_SHOWN])}</ul>"
    if rest := items[_SHOWN:]:
        shown += f"<details><summary>{len(rest)} more</summary><ul>{''.join(rest)}</ul></details>"
    return f"<h3>{title}</h3>" + (f"<p>{text(explained)}</p>" if explained else "") + shown


def _kind(mark):
    if mark.hand_in is None:
        return "not handed in"
    return "all points" if mark.points >= mark.most else "some" if mark.points else "none"
