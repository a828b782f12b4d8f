"""What a round of grading leaves to be read: the table of marks, a page for each student, and a
page on the class.
"""

from __future__ import annotations

import csv
import html
import io
import re
from collections import Counter
from pathlib import Path

COLUMNS = ("student", "assignment", "exercise", "points", "max", "total", "note")
# The begin of a formula where a cell may begin. Quotes may stand before it: a reader that splits at
# semicolons drops them. After a comma there are none nor spaces: "1, -2" stays as it is, and a
# comma within quotes divides nothing.
_FORMULA = re.compile(r"""(^[\s"]*|;[\s"]*|,)([=+\-@＝＋－＠])""")

_STYLE = """
:root { color-scheme: light dark; --text: #222; --page: #fff; --line: #ccc; --full: #06662a; --part: #7a4b00; --none: #9b1c1c }
@media (prefers-color-scheme: dark) { :root { --text: #e6e6e6; --page: #16181c; --line: #444; --full: #6fd394; --part: #e8b35a; --none: #ff8f8f } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: var(--text); background: var(--page) }
.wide { overflow-x: auto }
table { border-collapse: collapse; width: 100%; margin: 1rem 0 }
caption { text-align: left; font-weight: 600; padding: .4rem 0 }
th, td { text-align: left; vertical-align: top; padding: .4rem .8rem; border-bottom: 1px solid var(--line) }
th, td.id, td.points, td.number { white-space: nowrap }
td.note { min-width: 14rem; overflow-wrap: anywhere }
tr.full td.points { color: var(--full) } tr.part td.points { color: var(--part) } tr.none td.points { color: var(--none) }
@media (max-width: 42rem) {
  table.marks tr:first-child { display: none }
  table.marks tr, table.marks td { display: block; border: 0; padding: .1rem 0 }
  table.marks tr { border-bottom: 1px solid var(--line); padding: .6rem 0 }
  table.marks td.check::before { content: attr(data-name) ": " }
}
figure { margin: 1rem 0 } figure svg { max-width: 100%; height: auto; background: #fff; border-radius: 6px }
"""
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style></head><body>
<h1>{title}</h1>
{body}
</body></html>
"""


def write_csv(path: Path, marks) -> None:
    """One row a student and exercise; `total` is the sum of the student's points over all rows."""
    total = Counter()
    for one in marks:
        total[one.student] += one.points
    with path.open("w", newline="", encoding="utf-8", errors="replace") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for one in marks:
            row = [
                cell(one.student),
                one.assignment,
                one.exercise,
                f"{one.points:g}",
                f"{one.most:g}",
                f"{total[one.student]:g}",
            ]
            writer.writerow([*row, cell(one.note)])


def write_feedback(path: Path, student: str, marks, assignments) -> None:
    """A student's page: every mark, what each of the two checks said, and the rules that were
    applied. Times are in the zone of the due date.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    body = [
        f"<p><strong>{sum(one.points for one in marks):g} of {sum(one.most for one in marks):g} "
        f"points</strong></p>"
    ]
    for assignment in assignments:
        own = [one for one in marks if one.assignment == assignment.name]
        hand_in, when = own[0].hand_in, ""
        if hand_in:
            time = (
                hand_in.time.astimezone(assignment.due.tzinfo) if assignment.due else hand_in.time
            )
            when = f"<p>Handed in: {_text(hand_in.name)}, {time:%Y-%m-%d %H:%M %Z}</p>"
        rows = "\n".join(_row(one) for one in own)
        head = (
            '<tr><th scope="col">exercise</th><th scope="col"></th><th '
            'scope="col">points</th><th scope="col">your check</th>'
            '<th scope="col">other inputs</th><th scope="col"></th></tr>'
        )
        body.append(
            f'{_heading(assignment)}\n{when}\n<div class="wide"><table '
            f'class="marks">{head}\n{rows}\n</table></div>'
        )
    body.append(
        "<p>Each exercise is checked twice: as in your notebook, and with other inputs.</p>"
    )
    path.write_text(
        _page(f"Feedback for {student}", "\n".join(body)), encoding="utf-8", errors="replace"
    )


def write_class_page(path: Path, course, assignments, done) -> None:
    """The class at a glance: totals, each exercise, what went wrong most often, equal answers,
    remarks.
    """
    body = [f"<p>{len({one.student for one in done.marks})} students</p>"]
    for assignment in assignments:
        marks = [one for one in done.marks if one.assignment == assignment.name]
        body.append(_heading(assignment))
        body += [
            _totals(assignment, marks),
            _by_exercise(assignment, marks),
            _table(assignment, marks),
            _mistakes(assignment, marks),
        ]
        body.append(
            _list(
                "Equal answers",
                "students whose answers are the same but for comments and layout; short ones may "
                "be so by chance",
                [", ".join(group) for group in done.equal[assignment.name]],
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
        _page(course.title, "\n".join(filter(None, body))), encoding="utf-8", errors="replace"
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
            _text(task.id),
            _text(task.title),
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
            f'<tr><td class="id">{_text(task.id)}</td><td class="number">{count}</td><td '
            f'class="note">{_text(note)}</td></tr>'
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


def _heading(assignment):
    return f"<h2>{_text(assignment.title)} <small>({_text(assignment.name)})</small></h2>"


def _list(title, explained, lines):
    if not lines:
        return ""
    items = "".join(f"<li>{_text(line)}</li>" for line in lines)
    return (
        f"<h3>{title}</h3>"
        + (f"<p>{_text(explained)}</p>" if explained else "")
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
    svg = svg[svg.index("<svg") :].replace("<svg", f'<svg role="img" aria-label="{_text(alt)}"', 1)
    return f"<figure>{svg}<figcaption>{_text(caption)}</figcaption></figure>"


def _kind(mark):
    if mark.hand_in is None:
        return "not handed in"
    return "all points" if mark.points >= mark.most else "some" if mark.points else "none"


def _row(one):
    kind = "full" if one.points >= one.most else "part" if one.points else "none"
    passed = (
        [("✓ right" if right else "✗") for right in (one.outcome.visible, one.outcome.hidden)]
        if one.outcome
        else ["–", "–"]
    )
    cells = [
        f'<td class="id">{_text(one.exercise)}</td><td>{_text(one.title)}</td>',
        f'<td class="points">{one.points:g} of {one.most:g}</td>',
        *(
            f'<td class="check" data-name="{name}">{text}</td>'
            for name, text in zip(("your check", "other inputs"), passed)
        ),
        f'<td class="note">{_text(one.note)}</td>',
    ]
    return f'<tr class="{kind}">{"".join(cells)}</tr>'


def _page(title, body):
    return _PAGE.format(title=_text(title), style=_STYLE, body=body)


def _text(value):
    return html.escape(str(value))


def cell(value):
    """Text that a spreadsheet does not take for a formula: also where it reads no comma but the
    semicolon, and so begins a cell within this one.
    """
    value = re.sub(r"[\r\n\t\v\f]", " ", value)
    return _FORMULA.sub(r"\1'\2", value)
