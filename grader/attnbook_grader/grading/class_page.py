"""The page on the class: what needs attention, totals, each exercise, frequent mistakes."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path

from .feedback import heading, page, text
from .marks import WAITS_FOR_MARKS

__all__ = ["write_class_page"]


def write_class_page(path: Path, course, assignments, done) -> None:
    """The class at a glance: totals, each exercise, what went wrong most often, equal answers,
    remarks.
    """
    body = [
        f"<p>{len({one.student for one in done.marks})} students</p>",
        _list("Needs attention", "files and answers to look at yourself", _attention(done.marks)),
        _students(assignments, done.marks),
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


def _attention(marks):
    """What could not be read, was stopped, or lacked a package: one line a file and reason."""
    found: dict[tuple[str, ...], list[str]] = {}
    for one in marks:
        if one.outcome and one.outcome.attention:
            file = one.hand_in.name if one.hand_in else ""
            key = (one.student, file, one.outcome.attention, one.outcome.note)
            found.setdefault(key, []).append(one.exercise)
    return [
        f"{student}: {file} ({', '.join(dict.fromkeys(ids))}) {attention}: {note}"
        for (student, file, attention, note), ids in sorted(found.items())
    ] + [
        f"{one.student}: {one.exercise} waits for your marks: {one.outcome.code}"
        for one in marks
        if one.note == WAITS_FOR_MARKS
    ]


def _students(assignments, marks):
    """The totals of each student: in all, and for each assignment."""
    points: dict[str, Counter] = {}
    for one in marks:
        points.setdefault(one.student, Counter())[one.assignment] += one.points
    rows = [
        f'<tr><td class="id">{text(student)}</td>'
        + "".join(
            f'<td class="number">{value:g}</td>'
            for value in (sum(own.values()), *(own[one.name] for one in assignments))
        )
        + "</tr>"
        for student, own in points.items()
    ]
    most = sum(one.most for one in assignments)
    names = [f"all ({most:g})", *(f"{text(one.name)} ({one.most:g})" for one in assignments)]
    head = "".join(f'<th scope="col">{name}</th>' for name in ("student", *names))
    return (
        f'<details><summary>Totals of the students</summary><div class="wide"><table>'
        f"<tr>{head}</tr>{''.join(rows)}</table></div></details>"
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
    rows = []
    for task in assignment.tasks:
        own = [one for one in marks if one.exercise == task.id]
        count, most = Counter(_kind(one) for one in own), sum(assignment.points[task.id])
        mean = sum(one.points for one in own) / len(own)
        cells = [
            text(task.id),
            text(task.title),
            f"{mean:.2f} of {most:g}",
            *(str(count[name]) for name in ("all points", "some", "none", "not handed in")),
        ]
        rows.append("<tr>" + "".join(f'<td class="id">{cell}</td>' for cell in cells) + "</tr>")
    head = "".join(
        f'<th scope="col">{name}</th>'
        for name in ("exercise", "", "mean", "all points", "some", "none", "not handed in")
    )
    return (
        f"<div "
        f'class="wide"><table><caption>Exercises</caption><tr>{head}</tr>{"".join(rows)}</table></div>'
    )


def _mistakes(assignment, marks):
    rows = []
    for task in assignment.tasks:
        notes = Counter(
            one.outcome.note
            for one in marks
            if one.exercise == task.id and one.outcome and one.outcome.note
        )
        rows += [
            f'<tr><td class="id">{text(task.id)}</td><td class="number">{count}</td><td '
            f'class="note">{text(note)}</td></tr>'
            for note, count in notes.most_common(3)
        ]
    if not rows:
        return ""
    head = (
        '<tr><th scope="col">exercise</th><th scope="col">notebooks</th><th scope="col">what '
        "the check said</th></tr>"
    )
    return (
        f'<div class="wide"><table><caption>What went wrong most '
        f"often</caption>{head}{''.join(rows)}</table></div>"
    )


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
