"""What a round of grading leaves behind: the table of marks, and one feedback page a student."""
from __future__ import annotations

import csv
import html
import shutil
from pathlib import Path

COLUMNS = ("student", "section", "exercise", "points", "max", "total", "note")

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Feedback for {student}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #222; background: #fff }}
table {{ border-collapse: collapse; width: 100% }}
th, td {{ text-align: left; vertical-align: top; padding: .4rem .8rem; border-bottom: 1px solid #ccc }}
td.points {{ white-space: nowrap }}
tr.full td.points {{ color: #06662a }} tr.part td.points {{ color: #7a4b00 }} tr.none td.points {{ color: #9b1c1c }}
</style></head><body>
<h1>Feedback for {student}</h1>
<p><strong>{points:g} of {max:g} points</strong></p>
{sections}
</body></html>
"""
_ROW = '<tr class="{kind}"><td>{exercise}</td><td>{title}</td><td class="points">{points:g} of {max:g}</td><td>{note}</td></tr>'


def write_csv(path: Path, results) -> None:
    """One row a student and exercise; `total` is the sum of the student's points over all rows."""
    total = {}
    for one in results:
        total[one.student] = total.get(one.student, 0.0) + one.points
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for one in results:
            row = [_text(one.student), one.section, one.exercise, f"{one.points:g}", f"{one.max:g}", f"{total[one.student]:g}"]
            writer.writerow([*row, _text(one.note)])


def write_feedback(folder: Path, student: str, id: str, results) -> None:
    """`folder`/feedback/ID/index.html with every mark and its reason, beside nbgrader's page of each notebook that ran.

    nbgrader writes feedback/ID/SECTION/SECTION.html; the pages move up, so that a student's folder can be handed back.
    """
    home = folder / "feedback" / id
    home.mkdir(parents=True, exist_ok=True)
    blocks = []
    for section in dict.fromkeys(one.section for one in results):
        page = home / section / f"{section}.html"
        link = ""
        if page.is_file():
            page.replace(home / f"{section}.html")
            link = f' · <a href="{section}.html">the notebook as it was graded</a>'
        shutil.rmtree(home / section, ignore_errors=True)
        rows = "\n".join(_row(one) for one in results if one.section == section)
        head = "<tr><th>exercise</th><th></th><th>points</th><th></th></tr>"
        blocks.append(f"<h2>{html.escape(section)}{link}</h2>\n<table>{head}\n{rows}\n</table>")
    points, most = sum(one.points for one in results), sum(one.max for one in results)
    text = _PAGE.format(student=html.escape(student), points=points, max=most, sections="\n".join(blocks))
    (home / "index.html").write_text(text, encoding="utf-8")


def _row(one):
    kind = "full" if one.points == one.max else "part" if one.points else "none"
    note = html.escape(one.note) if one.note else "right"
    return _ROW.format(
        kind=kind, exercise=html.escape(one.exercise), title=html.escape(one.title), points=one.points, max=one.max, note=note
    )


def _text(value):
    """Text that a spreadsheet does not take for a formula."""
    return f"'{value}" if value[:1] in ("=", "+", "-", "@", "\t", "\r") else value
