"""words.csv: the answers in words of the whole class, and a column to write the points into."""

from __future__ import annotations

import csv
import math
import os
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..notebooks.roster import read_table
from .feedback import cell, number
from .marks import Mark

__all__ = ["WORDS", "Sheet", "read_sheet"]

WORDS = "words.csv"
COLUMNS = ("student", "exercise", "part", "max", "points", "comment", "answer")


@dataclass
class Sheet:
    """What an instructor has written into the sheet.

    rows: {(student, exercise): its lines, one for each part of the rubric}
    """

    path: Path
    rows: dict[tuple[str, str], list[dict[str, str]]] = field(default_factory=dict)

    def apply(self, marks: list[Mark], remarks: list[str]) -> list[Mark]:
        """The marks with the points of the sheet, where it has all parts of the answer."""
        return [self._applied(one, remarks) for one in marks]

    def _applied(self, one, remarks):
        rows = self.rows.get((cell(one.student), one.exercise))
        if not rows or not one.waits:
            return one
        points = {row["part"]: _number(row["points"]) for row in rows if row["points"].strip()}
        what = f"{self.path.name}: {one.student}: {one.exercise}"
        if points and _same(rows[0]["answer"]) != _same(cell(one.outcome.code)):
            remarks.append(f"{what}: answered anew since it was marked; it waits again")
            self.rows[cell(one.student), one.exercise] = []
            return one
        if points and len(points) < len(rows):
            remarks.append(f"{what}: {len(points)} of {len(rows)} parts have points; it waits")
        if len(points) < len(rows):
            return one
        comment = "; ".join(row["comment"].strip() for row in rows if row["comment"].strip())
        note = "; ".join(filter(None, ("marked by hand", comment)))
        marked = {"by_hand": True, "parts": points, "waits": False}
        return replace(one, points=sum(points.values()), note=note, **marked)

    def write(self, marks: list[Mark], assignments) -> None:
        """Write the sheet anew: every answer there is, with what stood in it before; and the lines
        of answers that are no longer there.
        """
        rubrics = {one.id: one.rubric for every in assignments for one in every.words}
        answers = [
            one for one in marks if one.exercise in rubrics and one.outcome and one.outcome.code
        ]
        if not answers and not self.rows:
            return
        left = dict(self.rows)
        work = self.path.with_name(f".new-{self.path.name}")
        with work.open("w", newline="", encoding="utf-8-sig", errors="replace") as file:
            writer = csv.DictWriter(file, [*COLUMNS])
            writer.writeheader()
            for one in answers:
                before = {
                    row["part"]: row for row in left.pop((cell(one.student), one.exercise), ())
                }
                for place, (part, most) in enumerate(rubrics[one.exercise].items()):
                    old = before.get(cell(part), {"points": "", "comment": ""})
                    points = number(one.parts[part]) if part in one.parts else old["points"]
                    answer = "" if place or not one.outcome else cell(one.outcome.code)
                    values = (one.student, one.exercise, part, number(most), points)
                    values = (*map(cell, values), old["comment"], answer)
                    writer.writerow(dict(zip(COLUMNS, values)))
            for rows in left.values():
                writer.writerows(rows)
        os.replace(work, self.path)


def read_sheet(path: Path, assignments) -> Sheet:
    """The sheet as the instructor has left it; an empty one where there is none.

    Raises ValueError that names the line, what it says, and what was expected.
    """
    sheet = Sheet(path)
    if not path.is_file():
        return sheet
    columns, rows = read_table(path)
    if missing := [one for one in COLUMNS if one not in columns]:
        raise ValueError(f"{path}: line 1: the column {missing[0]} is missing")
    rubrics = {one.id: one.rubric for every in assignments for one in every.words}
    for line, row in rows:
        most = {cell(part): most for part, most in rubrics.get(row["exercise"], {}).items()}
        given = row["points"].strip()
        if row["part"] not in most:
            if given:
                raise ValueError(
                    f"{path}: line {line}: the course has no question {row['exercise']!r} with a "
                    f"part {row['part']!r}"
                )
            continue
        points = _number(given) if given else 0.0
        if not 0 <= points <= most[row["part"]]:
            raise ValueError(
                f"{path}: line {line}: points: got {given!r}, expected a number from 0 to "
                f"{number(most[row['part']])}"
            )
        own = {column: row[column] for column in COLUMNS}
        sheet.rows.setdefault((row["student"], row["exercise"]), []).append(own)
    return sheet


def _number(text):
    """The number in a cell, with a point or a comma; NaN for another text."""
    try:
        return float(text.strip().replace(",", "."))
    except ValueError:
        return math.nan


def _same(text):
    return " ".join(text.split())
