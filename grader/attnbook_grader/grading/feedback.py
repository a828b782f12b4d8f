"""What a round of grading leaves to be read: the table of marks, and a page for each student."""

from __future__ import annotations

import csv
import html
import re
from pathlib import Path

COLUMNS = ("student", "assignment", "exercise", "points", "max", "note")
# The begin of a formula where a cell may begin. Quotes may stand before it: a reader that splits at
# semicolons drops them. After a comma there are none nor spaces: "1, -2" stays as it is, and a
# comma within quotes divides nothing.
_FORMULA = re.compile(r"""(^[\s"]*|;[\s"]*|,)([=+\-@＝＋－＠])""")
_CONTROLS = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)

# As `attnbook_exercises.answers.guarded.describe` writes it.
_LINE = re.compile(r"; line (\d+): (.*)")
_STYLE = """
:root { color-scheme: light dark; --text: #222; --page: #fff; --line: #ccc; --full: #06662a; --part: #7a4b00; --none: #9b1c1c }
@media (prefers-color-scheme: dark) { :root { --text: #e6e6e6; --page: #16181c; --line: #444; --full: #6fd394; --part: #e8b35a; --none: #ff8f8f } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: var(--text); background: var(--page) }
.wide { overflow-x: auto }
table { border-collapse: collapse; width: 100%; margin: 1rem 0 }
caption { text-align: left; font-weight: 600; padding: .4rem 0 }
th, td { text-align: left; vertical-align: top; padding: .4rem .8rem; border-bottom: 1px solid var(--line) }
th, td.id, td.points { white-space: nowrap }
td.note { min-width: 14rem; overflow-wrap: anywhere }
td.note pre { white-space: pre-wrap }
tr.full td.points { color: var(--full) } tr.part td.points { color: var(--part) } tr.none td.points { color: var(--none) }
@media (max-width: 42rem) {
  table.marks tr:first-child { display: none }
  table.marks tr, table.marks td { display: block; border: 0; padding: .1rem 0 }
  table.marks tr { border-bottom: 1px solid var(--line); padding: .6rem 0 }
  table.marks td.check::before { content: attr(data-name) ": " }
}
pre { overflow-x: auto; font-size: .85rem }
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
    """One row a student and exercise; the totals are in the wide table."""
    with path.open("w", newline="", encoding="utf-8-sig", errors="replace") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for one in marks:
            row = [cell(one.student), one.assignment, one.exercise]
            writer.writerow([*row, number(one.points), number(one.most), cell(one.note)])


def write_feedback(path: Path, student: str, marks, assignments) -> None:
    """A student's page: every mark, what each of the two checks said, and the rules that were
    applied. Times are in the zone of the due date.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    waiting = sum(one.most for one in marks if one.waits)
    most = sum(one.most for one in marks) - waiting
    later = f", and {number(waiting)} more that wait to be marked by hand" if waiting else ""
    body = [
        f"<p><strong>{number(sum(one.points for one in marks))} of {number(most)} "
        f"points</strong>{later}</p>"
    ]
    for assignment in assignments:
        own = [one for one in marks if one.assignment == assignment.name]
        hand_in, when = own[0].hand_in, ""
        if hand_in:
            time = hand_in.time.astimezone((assignment.due or hand_in.time).tzinfo)
            when = f"<p>Handed in: {text(hand_in.name)}, {time:%Y-%m-%d %H:%M %Z}</p>"
        words = {asked.id for asked in assignment.words}
        rows = "\n".join(_row(one, one.exercise in words) for one in own)
        head = head_row(("exercise", "", "points", "your check", "other inputs", ""))
        body.append(
            f'{heading(assignment)}\n{when}\n<div class="wide"><table '
            f'class="marks">{head}\n{rows}\n</table></div>'
        )
    body.append(
        "<p>Each exercise is checked twice: as in your notebook, and with other inputs.</p>"
    )
    path.write_text(
        page(f"Feedback for {student}", "\n".join(body)), encoding="utf-8", errors="replace"
    )


def heading(assignment):
    return f"<h2>{text(assignment.title)} <small>({text(assignment.name)})</small></h2>"


def head_row(names):
    return "<tr>" + "".join(f'<th scope="col">{name}</th>' for name in names) + "</tr>"


def _row(one, in_words):
    kind = "full" if one.points >= one.most else "part" if one.points else "none"
    points = f"{number(one.points)} of {number(one.most)}"
    if one.waits:
        kind, points = "", f"of {number(one.most)}"
    elif not one.most:
        kind, points = "", "no points"
    yours = others = "–"
    if one.outcome and not in_words:
        passed = (one.outcome.visible, one.outcome.hidden)
        yours, others = ("✓ right" if right else "✗" for right in passed)
    parts = "".join(f"<li>{text(part)}: {number(given)}</li>" for part, given in one.parts.items())
    parts = parts and f"<ul>{parts}</ul>"
    return (
        f'<tr class="{kind}"><td class="id">{text(one.exercise)}</td><td>{text(one.title)}</td>'
        f'<td class="points">{points}</td>'
        f'<td class="check" data-name="your check">{yours}</td>'
        f'<td class="check" data-name="other inputs">{others}</td>'
        f'<td class="note">{text(one.note)}{parts}{_answer(one.outcome)}</td></tr>'
    )


def _answer(outcome):
    """The student's answer, folded, with the line that the message names."""
    if not outcome or not outcome.code.strip():
        return ""
    lines = [text(line) for line in outcome.code.split("\n")]
    found = _LINE.search(outcome.note)
    if found and 0 < int(found[1]) <= len(lines):
        place = int(found[1]) - 1
        # a line of this number may stand in another cell
        if outcome.code.split("\n")[place].strip() == found[2].strip():
            lines[place] = f"<mark>{lines[place]}</mark>"
    return f"<details><summary>your answer</summary><pre>{chr(10).join(lines)}</pre></details>"


def page(title, body):
    return _PAGE.format(title=text(title), style=_STYLE, body=body)


def text(value):
    """The value as HTML, with the signs that turn it around or that no page takes written out."""
    plain = _CONTROLS.sub(lambda one: one[0].encode("unicode_escape").decode(), str(value))
    return html.escape(plain)


def number(value: float) -> str:
    """Points in the shortest way, never as 1e+06."""
    return f"{round(value, 4):.10g}"


def cell(value):
    """Text that a spreadsheet does not take for a formula: also where it reads no comma but the
    semicolon, and so begins a cell within this one.
    """
    value = re.sub(r"[\r\n\t\v\f]", " ", value)
    return _FORMULA.sub(r"\1'\2", value)
