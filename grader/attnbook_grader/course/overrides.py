"""overrides.toml: what an instructor decides by hand, and every round keeps."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from .assignments import Assignment

__all__ = ["OVERRIDES", "Overrides", "read_overrides"]

OVERRIDES = "overrides.toml"
_KEYS = {
    "mark": {"student", "exercise", "points", "rubric", "comment"},
    "extension": {"student", "assignment", "due"},
    "excuse": {"student", "assignment", "exercise", "comment"},
}


@dataclass
class Overrides:
    """By student and by exercise or assignment.

    marks: {(student, exercise): (points or None, comment)}
    due: {(student, assignment): when it is due for this student}
    excused: {(student, exercise): comment}
    """

    marks: dict[tuple[str, str], tuple[float | None, str]] = field(default_factory=dict)
    due: dict[tuple[str, str], datetime] = field(default_factory=dict)
    excused: dict[tuple[str, str], str] = field(default_factory=dict)

    def students(self) -> set[str]:
        """All that are named."""
        return {student for own in (self.marks, self.due, self.excused) for student, _ in own}

    def for_student(self, student: str, assignment: Assignment) -> Assignment:
        """The assignment as it is due for this student."""
        due = self.due.get((student, assignment.name))
        return replace(assignment, due=due, extended=True) if due else assignment

    def apply(self, marks: list) -> list:
        """The marks with what was decided by hand."""
        return [self._applied(one) for one in marks]

    def _applied(self, one):
        place = one.student, one.exercise
        if place in self.excused:
            note = "; ".join(filter(None, ("excused", self.excused[place])))
            return replace(one, points=0.0, most=0.0, note=note, excused=True)
        if place not in self.marks:
            return one
        points, comment = self.marks[place]
        if points is None:
            return replace(one, note="; ".join(filter(None, (one.note, comment))))
        note = "; ".join(filter(None, ("marked by hand", comment)))
        return replace(one, points=float(points), note=note, by_hand=True)


def read_overrides(path: Path, assignments: tuple[Assignment, ...]) -> Overrides:
    """What the file says; nothing where there is none.

    Raises ValueError that names the entry, what it says, and what was expected.
    """
    made = Overrides()
    if not path.is_file():
        return made
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: {error}") from None
    for kind, entries in table.items():
        if kind not in _KEYS or not isinstance(entries, list):
            raise ValueError(f"{path}: {kind}: expected [[mark]], [[extension]] or [[excuse]]")
        for place, entry in enumerate(entries, 1):
            try:
                _add(made, kind, entry, assignments)
            except ValueError as error:
                raise ValueError(f"{path}: [[{kind}]] {place}: {error}") from None
    return made


def _add(made, kind, entry, assignments):
    for key in entry:
        if key not in _KEYS[kind]:
            raise ValueError(f"{key}: not known; expected {', '.join(sorted(_KEYS[kind]))}")
    student, comment = _word(entry, "student"), _word(entry, "comment", "")
    if kind == "extension":
        (one,) = _named(entry, assignments)
        due = entry.get("due")
        if not isinstance(due, datetime) or due.tzinfo is None:
            raise ValueError(
                f"due: got {due!s}, expected a date and time with a zone, as "
                f"2027-01-31T23:59:00+01:00"
            )
        made.due[student, one.name] = due
    elif kind == "excuse":
        whole = "exercise" not in entry
        ids = _named(entry, assignments)[0].exercises if whole else [_exercise(entry, assignments)]
        made.excused.update({(student, id): comment for id in ids})
    else:
        id = _exercise(entry, assignments)
        made.marks[student, id] = _points(entry, id, assignments), comment


def _points(entry, id, assignments):
    """The points that an entry gives; None for a comment alone."""
    owner = next(one for one in assignments if id in one.exercises)
    if "rubric" in entry:
        rubric = next((one.rubric for one in owner.words if one.id == id), {})
        given = entry["rubric"]
        if not isinstance(given, dict) or not given.keys() <= rubric.keys():
            raise ValueError(f"rubric: got {given!r}, expected a table of {', '.join(rubric)}")
        for part, points in given.items():
            _within(f"rubric: {part}", points, rubric[part])
        return sum(given.values())
    if "points" in entry:
        _within("points", entry["points"], owner.exercises[id])
        return entry["points"]
    if "comment" not in entry:
        raise ValueError("expected points, a rubric or a comment")
    return None


def _within(name, points, most):
    if type(points) not in (int, float) or not 0 <= points <= most:
        raise ValueError(f"{name}: got {points!r}, expected a number from 0 to {most:g}")


def _word(entry, key, default=None):
    if not isinstance(entry.get(key, default), str):
        raise ValueError(f"{key}: got {entry.get(key)!r}, expected a text")
    return entry.get(key, default)


def _named(entry, assignments):
    name = _word(entry, "assignment")
    found = [one for one in assignments if one.name == name]
    if not found:
        raise ValueError(
            f"assignment: the course has no {name!r}; it has "
            f"{', '.join(one.name for one in assignments)}"
        )
    return found


def _exercise(entry, assignments):
    id = _word(entry, "exercise")
    if not any(id in one.exercises for one in assignments):
        raise ValueError(f"exercise: the course has no {id!r}")
    return id
