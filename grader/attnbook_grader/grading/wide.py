"""The table that a learning platform imports: a line for each student, a column for each
assignment.

Canvas reads back its own export of the gradebook: the columns Student, ID, SIS User ID, SIS Login
ID and Section, those of assignments as "Title (number)", and a line of points possible. Moodle
matches any column that tells a student, such as Email address, with its own, and so does any other.
"""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from pathlib import Path

from ..notebooks.roster import Roster
from .feedback import cell

__all__ = ["write_wide"]

_CANVAS = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")
_NUMBERED = re.compile(r"(.+) \(\d+\)")


def write_wide(path: Path, students, assignments, marks, roster: Roster | None = None) -> list[str]:
    """Write the table; returns remarks on students that a platform could not tell.

    With a roster: its columns, so that the platform finds its own ids.
    """
    totals: dict[tuple[str, str], float] = defaultdict(float)
    for one in marks:
        totals[one.student, one.assignment] += one.points
    excused = {(one.student, one.assignment) for one in marks if one.excused}
    counted = {
        (student, one.name)
        for student in students
        for one in assignments
        if (student, one.name) not in excused
    } | {(one.student, one.assignment) for one in marks if not one.excused}
    people = {one.label: one.row for one in roster.people} if roster else {}
    columns = roster.columns if roster else ["student"]
    canvas = {"Student", "ID"} <= set(columns)
    if canvas:
        heads = [_own_column(one, columns) for one in assignments]
        columns = [column for column in _CANVAS if column in columns or column == "Section"]
    else:
        heads = [one.title for one in assignments]
    if len(set(heads)) < len(heads):
        heads = [one.name for one in assignments]
    lost = [student for student in students if roster and student not in people]
    with path.open("w", newline="", encoding="utf-8-sig", errors="replace") as file:
        writer = csv.writer(file)
        writer.writerow([*columns, *heads, *([] if canvas else ["total"])])
        if canvas:
            blanks = [""] * (len(columns) - 1)
            writer.writerow(
                ["    Points Possible", *blanks, *(f"{one.most:g}" for one in assignments)]
            )
        for student in students:
            if student in lost:
                continue
            row = people.get(student, {"student": student})
            own = [totals[student, one.name] for one in assignments]
            points = [
                ("EX" if canvas else "") if (student, one.name) not in counted else f"{value:g}"
                for one, value in zip(assignments, own)
            ]
            if not canvas:
                points.append(f"{sum(own):g}")
            writer.writerow([*(cell(row.get(column, "")) for column in columns), *points])
    return [f"{path.name}: without {', '.join(lost)}: not in the roster"] if lost else []


def _own_column(assignment, columns):
    """The platform's column of an assignment; a title alone makes a new one there."""
    for column in columns:
        title = found[1] if (found := _NUMBERED.fullmatch(column)) else column
        if title.casefold() in (assignment.title.casefold(), assignment.name.casefold()):
            return column
    return assignment.title
