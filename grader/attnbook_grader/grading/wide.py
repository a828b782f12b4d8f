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

from ..notebooks.names import first_of
from ..notebooks.roster import Roster
from .feedback import cell, number
from .marks import Mark

__all__ = ["write_wide"]

_CANVAS = ("Student", "ID", "SIS User ID", "SIS Login ID", "Section")
_NUMBERED = re.compile(r"(.+) \(\d+\)")


def write_wide(path: Path, students, assignments, marks, roster: Roster | None = None) -> list[str]:
    """Write the table, with a roster in its columns, by which a platform finds its own ids; returns
    remarks on students that a platform could not tell."""
    own: dict[tuple[str, str], list[Mark]] = defaultdict(list)
    for one in marks:
        own[one.student, one.assignment].append(one)
    unclear, lacking = (roster.unclear(students) if roster else {}), set()

    def points_of(student, assignment):
        """As if nothing had been excused: the platform knows one most for all. None for nothing."""
        marks = own[student, assignment.name]
        most = sum(one.most for one in marks)
        if student in unclear and not any(one.hand_in for one in marks):
            lacking.add(student)
            return None
        if marks and not most:
            return None
        excused = any(one.excused for one in marks)
        points = sum(one.points for one in marks)
        return points * assignment.most / most if excused else points

    people = {one.label: one.row for one in roster.people} if roster else {}
    columns = roster.columns if roster else ["student"]
    canvas = roster is not None and roster.is_canvas
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
            blanks, most = [""] * (len(columns) - 1), [number(one.most) for one in assignments]
            writer.writerow(["    Points Possible", *blanks, *most])
        for student in students:
            if student in lost:
                continue
            row = people.get(student, {"student": student})
            points = [points_of(student, one) for one in assignments]
            cells = ["" if one is None else number(one) for one in points]
            if canvas:
                excused = [any(mark.excused for mark in own[student, a.name]) for a in assignments]
                cells = ["EX" if all_ and not one else one for all_, one in zip(excused, cells)]
            if not canvas:
                whole = sum(one.most for one in assignments)  # as if nothing had been excused
                free = sum(a.most for a in assignments if _is_excused(own[student, a.name]))
                total = sum(one or 0.0 for one in points) * whole / max(1e-9, whole - free)
                cells.append("" if student in lacking and not any(points) else number(total))
            writer.writerow([*(cell(row.get(column, "")) for column in columns), *cells])
    remarks = [f"{path.name}: without {', '.join(lost)}: not in the roster"] if lost else []
    if blank := {one: found for one, found in unclear.items() if one in lacking}:
        claims = first_of(f"{one} (is it {', '.join(found)}?)" for one, found in blank.items())
        remarks.append(f"{path.name}: nothing stands there for {claims}")
    return remarks


def _is_excused(marks):
    return bool(marks) and all(one.excused for one in marks)


def _own_column(assignment, columns):
    """The platform's column of an assignment; a title alone makes a new one there."""
    for column in columns:
        title = found[1] if (found := _NUMBERED.fullmatch(column)) else column
        if title.casefold() in (assignment.title.casefold(), assignment.name.casefold()):
            return column
    return assignment.title
