"""overrides.toml: what an instructor decides by hand, and every round keeps."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from ..course.assignments import Assignment
from ..course.course_file import read_due, read_toml, require_known
from ..notebooks.names import key, near
from .feedback import number

__all__ = ["OVERRIDES", "Overrides", "read_overrides"]

OVERRIDES = "overrides.toml"
_KEYS = {
    "mark": {"student", "exercise", "points", "comment"},
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

    def of(self, students, roster=None) -> tuple[Overrides, list[str]]:
        """The same for the students as the round calls them, whom the file may call by any way to
        write the name and, with a roster, by an id; and remarks on those that are nobody.
        """
        remarks, called = [], {}
        by_key = defaultdict(list)
        for student in students:
            by_key[key(student)].append(student)
        named = {student for own in (self.marks, self.due, self.excused) for student, _ in own}
        for name in sorted(named):
            found = [name] if name in students else by_key[key(name)]
            if not found and roster:
                found = [person.label for person in [roster.find(name)] if person]
            if len(found) == 1:
                called[name] = found[0]
                continue
            others = [*found, *near(name, students)]
            hint = f"; is it {' or '.join(dict.fromkeys(others))}?" if others else ""
            remarks.append(f"{OVERRIDES}: there is no student {name!r}{hint}")
        made = (
            {(called[one], id): what for (one, id), what in own.items() if one in called}
            for own in (self.marks, self.due, self.excused)
        )
        return Overrides(*made), remarks  # type: ignore[arg-type]

    def for_student(self, student: str, assignment: Assignment) -> Assignment:
        """The assignment as it is due for this student."""
        due = self.due.get((student, assignment.name))
        return replace(assignment, due=due, extended=True) if due else assignment

    def apply(self, marks: list) -> list:
        """The marks with what was decided by hand."""
        return [self._applied(one) for one in marks]

    def _applied(self, one):
        place, decided = (one.student, one.exercise), {"waits": False, "days": 0, "lost": 0.0}
        if place in self.excused:
            note = "; ".join(filter(None, ("excused", self.excused[place])))
            return replace(one, points=0.0, most=0.0, note=note, excused=True, **decided)
        if place not in self.marks:
            return one
        points, comment = self.marks[place]
        if points is None:
            return replace(one, note="; ".join(filter(None, (one.note, comment))))
        note = "; ".join(filter(None, ("marked by hand", comment)))
        parts = one.parts if points == one.points else {}
        return replace(one, points=float(points), note=note, by_hand=True, parts=parts, **decided)


def read_overrides(path: Path, assignments: tuple[Assignment, ...]) -> Overrides:
    """What the file says; nothing where there is none.

    Raises ValueError that names the entry, what it says, and what was expected.
    """
    made = Overrides()
    if not path.is_file():
        return made
    for kind, entries in read_toml(path).items():
        if kind not in _KEYS or not isinstance(entries, list):
            raise ValueError(f"{path}: {kind}: expected [[mark]], [[extension]] or [[excuse]]")
        for place, entry in enumerate(entries, 1):
            try:
                _add(made, kind, entry, assignments)
            except ValueError as error:
                raise ValueError(f"{path}: [[{kind}]] {place}: {error}") from None
    return made


def _add(made, kind, entry, assignments):
    require_known(entry, _KEYS[kind])
    student, comment = _word(entry, "student"), _word(entry, "comment", "")
    if kind == "extension":
        made.due[student, _named(entry, assignments).name] = read_due(entry)
    elif kind == "excuse":
        whole = "exercise" not in entry
        ids = _named(entry, assignments).exercises if whole else [_exercise(entry, assignments)]
        made.excused.update({(student, id): comment for id in ids})
    else:
        id = _exercise(entry, assignments)
        made.marks[student, id] = _points(entry, id, assignments), comment


def _points(entry, id, assignments):
    """The points that an entry gives; None for a comment alone."""
    if "points" not in entry and "comment" in entry:
        return None
    points, most = entry.get("points"), max(one.exercises.get(id, 0.0) for one in assignments)
    if type(points) not in (int, float) or not 0 <= points <= most:
        raise ValueError(f"points: got {points!r}, expected a number from 0 to {number(most)}")
    return points


def _word(entry, name, default=None):
    if not isinstance(entry.get(name, default), str):
        raise ValueError(f"{name}: got {entry.get(name)!r}, expected a text")
    return entry.get(name, default)


def _named(entry, assignments):
    name, by_name = _word(entry, "assignment"), {one.name: one for one in assignments}
    if name not in by_name:
        raise ValueError(f"assignment: the course has no {name!r}; it has {', '.join(by_name)}")
    return by_name[name]


def _exercise(entry, assignments):
    id = _word(entry, "exercise")
    if not any(id in one.exercises for one in assignments):
        raise ValueError(f"exercise: the course has no {id!r}")
    return id
