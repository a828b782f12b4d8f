"""The page on the class: what needs attention, totals, each exercise, frequent mistakes."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path
from urllib.parse import quote

from .feedback import heading, page, text
from .marks import WAITS_FOR_MARKS
from .outcomes import UNREADABLE

__all__ = ["write_class_page"]


def write_class_page(path: Path, course, assignments, done, ids) -> None:
    """The class at a glance: totals, each exercise, what went wrong most often, equal answers,
    remarks. A student's name leads to the feedback in the folder ``ids[student]``.
    """
    names = {
        student: f'<a href="feedback/{quote(id)}/index.html">{text(student)}</a>'
        for student, id in ids.items()
    }
    body = [
        f"<p>{len({one.student for one in done.marks})} students</p>",
        _attention(done.marks, names),
        _students(assignments, done.marks, names),
    ]
    for assignment in assignments:
        marks = [one for one in done.marks if one.assignment == assignment.name]
        body.append(heading(assignment))
        body += [
            _totals(assignment, marks),
            _by_exercise(assignment, marks),
            _table(assignment, marks),
            _mistakes(assignment, marks),
        ]
        body.append(
            _list(
                "Equal answers",
                "students whose answers to an exercise are the same but for names, comments and "
                "layout, the most telling first: a wrong one weighs as much as three right ones, "
                "one that many gave less; short ones may be equal by chance",
                [str(group) for group in done.equal[assignment.name]],
            )
        )
        body.append(
            _list(
                "Answers that use the library",
                f"rule of this course: {course.rules.library}",
                [
                    f"{one.student}: {one.exercise} uses {one.outcome.library}"
                    for one in marks
                    if one.outcome and one.outcome.library
                ],
            )
        )
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
            reason = f"{one.outcome.attention}: {one.outcome.note}"
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
            f"waits for your marks<pre>{text(one.outcome.code)}</pre>",
        )
        for one in marks
        if one.note == WAITS_FOR_MARKS
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
        (
            names[student],
            *(f"{value:g}" for value in (sum(own.values()), *(own[a.name] for a in assignments))),
        )
        for student, own in points.items()
    ]
    most = sum(one.most for one in assignments)
    head = [f"all ({most:g})", *(f"{text(one.name)} ({one.most:g})" for one in assignments)]
    return (
        "<details><summary>Totals of the students</summary>"
        f"{_rows('', ('student', *head), rows)}</details>"
    )


def _totals(assignment, marks):
    totals = Counter()
    for one in marks:
        totals[one.student] += one.points
    values = list(totals.values())

    def draw(ax):
        ax.hist(
            values,
            bins=min(20, max(1, round(assignment.most))),
            range=(0, assignment.most),
            color="#3b6fb6",
            edgecolor="white",
        )
        ax.set(xlabel="points", ylabel="students", xlim=(0, assignment.most))

    mean = sum(values) / len(values)
    return _figure(
        draw,
        (7, 2.4),
        f"Histogram of the students' points: mean {mean:.1f} of {assignment.most:g}",
        f"Points of the {len(values)} students: {mean:.1f} of {assignment.most:g} on average.",
    )


def _by_exercise(assignment, marks):
    kinds = [
        ("all points", "#2c7a4b"),
        ("some", "#d9a441"),
        ("none", "#b3473f"),
        ("not handed in", "#9aa5b1"),
    ]
    counts = {
        task.id: Counter(_kind(one) for one in marks if one.exercise == task.id)
        for task in assignment.tasks
    }

    def draw(ax):
        left = [0] * len(counts)
        for name, color in kinds:
            wide = [count[name] for count in counts.values()]
            ax.barh(list(counts), wide, left=left, color=color, label=name)
            left = [a + b for a, b in zip(left, wide)]
        ax.invert_yaxis()
        ax.set(xlabel="students", xlim=(0, max(left)))
        ax.figure.legend(loc="outside upper center", ncols=4, frameon=False)

    summary = "; ".join(
        f"{id}: {count['all points']} with all points" for id, count in counts.items()
    )
    return _figure(
        draw,
        (7, 1.2 + 0.4 * len(counts)),
        f"Bars, one an exercise, of students with all, some and no points: {summary}",
        "How many students have all, some or none of an exercise's points.",
    )


def _table(assignment, marks):
    kinds = ("all points", "some", "none", "not handed in")
    rows = []
    for task in assignment.tasks:
        own = [one for one in marks if one.exercise == task.id]
        count, most = Counter(_kind(one) for one in own), sum(assignment.points[task.id])
        mean = sum(one.points for one in own) / len(own)
        counts = (str(count[name]) for name in kinds)
        rows.append((text(task.id), text(task.title), f"{mean:.2f} of {most:g}", *counts))
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
    first = "".join(f'<th scope="col">{name}</th>' for name in head)
    body = "".join(
        "<tr>"
        + "".join(f"<td>{cell}</td>" for cell in cells[:-1])
        + f'<td class="note">{cells[-1]}</td></tr>'
        for cells in rows
    )
    return f'<div class="wide"><table class="{kind}">{caption}<tr>{first}</tr>{body}</table></div>'


def _list(title, explained, lines):
    if not lines:
        return ""
    items = "".join(f"<li>{text(line)}</li>" for line in lines)
    return (
        f"<h3>{title}</h3>"
        + (f"<p>{text(explained)}</p>" if explained else "")
        + f"<ul>{items}</ul>"
    )


def _figure(draw, size, alt, caption):
    """A drawing as SVG within the page; for a screen reader it is its alt text."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    ax = figure.subplots()
    ax.spines[["top", "right"]].set_visible(False)
    draw(ax)
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None})
    svg = file.getvalue()
    svg = svg[svg.index("<svg") :].replace("<svg", f'<svg role="img" aria-label="{text(alt)}"', 1)
    return f"<figure>{svg}<figcaption>{text(caption)}</figcaption></figure>"


def _kind(mark):
    if mark.hand_in is None:
        return "not handed in"
    return "all points" if mark.points >= mark.most else "some" if mark.points else "none"
