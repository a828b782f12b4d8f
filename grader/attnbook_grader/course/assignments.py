"""A course: the file course.toml, and the assignments that it names."""

from __future__ import annotations

import hashlib
import re
import secrets
import tomllib
from dataclasses import dataclass, field, fields
from datetime import datetime
from pathlib import Path

import nbformat
from nbformat import NotebookNode

from attnbook.checks import exercises
from bookbuild import source

from ..sandbox.launch import KINDS, Limits
from .exercises import Section, Task, find_book, instructor_notebook, sections

__all__ = [
    "Assignment",
    "Course",
    "Rules",
    "from_sections",
    "notebook_with",
    "read_course",
    "write_course",
]

FILE = "course.toml"


@dataclass(frozen=True)
class Rules:
    """What is not a matter of right and wrong.

    late_per_day: share of the marks that a hand-in loses for every day that has begun since it was
    due
    latest_days: days after which a late hand-in gets no marks
    repeated: which of several hand-ins of a student counts: "last", "first" or "best"
    library: an answer that uses the book's own implementation: "mark" says so beside the
    marks, "zero" takes them
    """

    late_per_day: float = 0.1
    latest_days: float = 7
    repeated: str = "last"
    library: str = "mark"

    def __post_init__(self):
        for name in ("late_per_day", "latest_days"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not value >= 0:
                raise ValueError(f"rules.{name}: got {value!r}, expected a number, 0 or more")
        for name, known in (("repeated", ("last", "first", "best")), ("library", ("mark", "zero"))):
            if getattr(self, name) not in known:
                raise ValueError(
                    f"rules.{name}: got {getattr(self, name)!r}, expected one of {', '.join(known)}"
                )


@dataclass(frozen=True)
class Assignment:
    """Exercises that are handed in together, as one notebook.

    name: the stem of the notebook and its name in the gradebook
    tasks: the exercises, in order
    points: by exercise id: (for the reader's check, for the hidden one)
    due: with a time zone; None if hand-ins are never late
    setup: the first code cell of the notebook
    book: code cells of the chapters, of which only the definitions run when a hand-in holds them
    """

    name: str
    title: str
    tasks: tuple[Task, ...]
    points: dict[str, tuple[float, float]]
    setup: NotebookNode
    book: frozenset[str]
    due: datetime | None = None

    @property
    def most(self) -> float:
        return sum(map(sum, self.points.values()))

    def notebook(self) -> NotebookNode:
        """With solutions and hidden checks, as nbgrader reads it."""
        nb = instructor_notebook(Section(self.name, self.title, "", Path(), self.setup, self.tasks))
        for cell in nb.cells:
            for task in self.tasks:
                for test, points in zip(task.tests, self.points[task.id]):
                    if (
                        cell.metadata.get("nbgrader", {}).get("grade_id")
                        == test.metadata.nbgrader.grade_id
                    ):
                        cell.metadata.nbgrader.points = points
        return nb


@dataclass(frozen=True)
class Course:
    """What course.toml says.

    seed: from it the inputs of the hidden checks are drawn; whoever knows it knows them
    """

    title: str
    seed: int
    assignments: tuple[Assignment, ...]
    rules: Rules = Rules()
    limits: Limits = Limits()
    sandbox: str | None = None
    image: str | None = None
    folder: Path = field(default=Path("."), compare=False)

    def hidden_seed(self, id: str) -> int:
        """The seed of the hidden check of an exercise; never 0, which is the reader's.

        Of 62 bits: a hash of it does not give it away. PyTorch's generator on the CPU takes the
        lower 32 of a seed. So inputs are never
        drawn from this one, but from a hash of it and the hand-in (`judging.hand_in_seed`), whose
        bits say nothing about it."""
        return 1 + int.from_bytes(
            hashlib.sha256(f"{self.seed}:{id}".encode()).digest()[:8], "little"
        ) % (2**62 - 1)


def notebook_with(assignment: Assignment, answers: dict[str, str]) -> bytes:
    """A student's notebook as the bytes of its file.

    Args:
        answers: {exercise id: code}; the stub for exercises without one.
    """
    nb = assignment.notebook()
    nb.cells = [
        cell
        for cell in nb.cells
        if not cell.metadata.get("nbgrader", {}).get("grade_id", "").endswith("-hidden")
    ]
    by_key = {task.key: answers.get(task.id) for task in assignment.tasks}
    for cell in nb.cells:
        name = cell.metadata.get("nbgrader", {}).get("grade_id", "")
        if cell.cell_type == "code":
            cell.source = source.cut_hidden(source.cut_solution(cell.source))
        if by_key.get(name) is not None:
            cell.source = by_key[name]
    return nbformat.writes(nb).encode()


def from_sections(parts: list[Section]) -> tuple[Assignment, ...]:
    """One assignment a section, with the points that the book gives."""
    return tuple(
        _assignment(part.name, part.title, [part], {task.id for task in part.tasks})
        for part in parts
    )


def read_course(folder: str | Path, book: str | Path | None = None) -> Course:
    """The course in `folder`.

    Raises ValueError that names the line's key, what it says, and what was expected.
    """
    folder = Path(folder)
    path = folder / FILE
    if not path.is_file():
        raise ValueError(
            f"course: there is no {path}; make a course with: attnbook course new {folder}"
        )
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: {error}") from None
    _only(path, "", table, {"title", "seed", "sandbox", "image", "rules", "limits", "assignment"})
    if not isinstance(table.get("seed"), int) or isinstance(table["seed"], bool):
        raise ValueError(f"{path}: seed: got {table.get('seed')!r}, expected a whole number")
    if not isinstance(table.get("image", ""), str):
        raise ValueError(f"{path}: image: got {table['image']!r}, expected a word")
    if not isinstance(table.get("assignment", []), list):
        raise ValueError(
            f"{path}: assignment: expected [[assignment]], got {table['assignment']!r}"
        )
    if table.get("sandbox") not in (None, *KINDS):
        raise ValueError(
            f"{path}: sandbox: got {table['sandbox']!r}, expected one of {', '.join(KINDS)}"
        )
    try:
        rules, limits = _fill(Rules, path, "rules", table), _fill(Limits, path, "limits", table)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    parts, found = sections(find_book(book)), []
    for entry in table.get("assignment", []):
        found.append(_read_assignment(path, entry, parts))
    if not found:
        raise ValueError(f"{path}: there is no [[assignment]]")
    names = [one.name.casefold() for one in found]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{path}: assignment: two are named {name!r}")
    return Course(
        str(table.get("title", "Attention")),
        table["seed"],
        tuple(found),
        rules,
        limits,
        table.get("sandbox"),
        table.get("image"),
        folder,
    )


def write_course(path: Path, title: str, assignments) -> None:
    """Write course.toml with a seed of its own for a new course."""
    lines = [
        "# A course made by `attnbook course new`. Keep this folder to yourself: with the seed "
        "and the solutions in it,",
        "# anybody could write answers that only look right.",
        f"title = {_quoted(title)}",
        f"seed = {secrets.randbits(62)}  # the inputs of the hidden checks are drawn from it",
        '# sandbox = "bubblewrap"  # or "docker" or "podman", with the image to run; without a '
        "line: bubblewrap",
        '# image = "registry.example.org/attnbook:latest"',
        "",
        "[rules]",
    ]
    says = {
        "late_per_day": "share of the marks lost for every day that has begun since it was due",
        "latest_days": "days after which a late hand-in gets no marks",
        "repeated": 'which hand-in counts: "last", "first" or "best"',
        "library": 'an answer that uses the book\'s own implementation: "mark" or "zero"',
    }
    lines += [f"{one.name} = {_value(one.default)}  # {says[one.name]}" for one in fields(Rules)]
    lines += [
        "",
        "[limits]  # for one notebook; seconds are for one cell or one check, memory, output and "
        "disk are in MB",
    ]
    lines += [f"{one.name} = {one.default}" for one in fields(Limits)]
    for one in assignments:
        lines += [
            "",
            "[[assignment]]",
            f"name = {_quoted(one.name)}",
            f"title = {_quoted(one.title)}",
            "# due = 2027-01-31T23:59:00+01:00",
            "[assignment.points]  # one line an exercise: marks for the visible check, for the "
            "hidden one",
        ]
        lines += [
            f"{_quoted(id)} = [{visible:g}, {hidden:g}]"
            for id, (visible, hidden) in one.points.items()
        ]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _read_assignment(path, entry, parts):
    where = (
        f"{path}: assignment {entry.get('name')!r}"
        if isinstance(entry, dict)
        else f"{path}: assignment"
    )
    if (
        not isinstance(entry, dict)
        or not isinstance(entry.get("name"), str)
        or not re.fullmatch(r"[A-Za-z0-9][\w-]*", entry["name"], re.ASCII)
    ):
        raise ValueError(
            f"{where}: name: expected letters, digits, - and _, which are the name of its notebook"
        )
    _only(where, "", entry, {"name", "title", "due", "points"})
    due, points = entry.get("due"), entry.get("points")
    if due is not None and (not isinstance(due, datetime) or due.tzinfo is None):
        raise ValueError(
            f"{where}: due: got {due!s}, expected a date and time with a zone, as "
            f"2027-01-31T23:59:00+01:00"
        )
    if not isinstance(points, dict) or not points:
        raise ValueError(
            f'{where}: points: expected a line for each exercise, as "00.weighted_sum" = [1, 1]'
        )
    known = exercises()
    for id, pair in points.items():
        if id not in known:
            raise ValueError(f"{where}: points: the book has no exercise {id!r}")
        if (
            not isinstance(pair, list)
            or len(pair) != 2
            or not all(type(n) in (int, float) and 0 <= n <= 10**6 for n in pair)
            or not sum(pair)
        ):
            raise ValueError(
                f"{where}: points: {id}: got {pair!r}, expected [visible, hidden], two numbers "
                f"up to 1,000,000, not both 0"
            )
    made = _assignment(
        entry["name"], str(entry.get("title", entry["name"])), parts, points.keys(), due
    )
    return Assignment(
        **{
            **vars(made),
            "points": {task.id: tuple(map(float, points[task.id])) for task in made.tasks},
        }
    )


def _assignment(name, title, parts, ids, due=None):
    parts = [part for part in parts if any(task.id in ids for task in part.tasks)]
    tasks = tuple(task for part in parts for task in part.tasks if task.id in ids)
    points = {}
    for task in tasks:
        visible, hidden = (float(test.metadata.nbgrader.points) for test in task.tests)
        points[task.id] = visible, hidden
    cells = {
        cell.source.strip()
        for part in parts
        for cell in source.student_version(source.read_source(part.path)).cells
        if cell.cell_type == "code"
    }
    return Assignment(
        name,
        title,
        tasks,
        points,
        parts[0].setup,
        frozenset(cells | {part.setup.source.strip() for part in parts}),
        due,
    )


def _fill(kind, path, name, table):
    given = table.get(name, {})
    if not isinstance(given, dict):
        raise ValueError(f"{name}: expected a table, [{name}]")
    _only(path, f"{name}.", given, {one.name for one in fields(kind)})
    for key, value in given.items():
        default = next(one.default for one in fields(kind) if one.name == key)
        if isinstance(value, bool) or not isinstance(
            value, str if isinstance(default, str) else (int, float)
        ):
            raise ValueError(
                f"{name}.{key}: got {value!r}, expected "
                f"{'a word' if isinstance(default, str) else 'a number'}"
            )
    return kind(**given)


def _only(where, prefix, given, known):
    for key in given:
        if key not in known:
            raise ValueError(
                f"{where}: {prefix}{key}: not known; expected {', '.join(sorted(known))}"
            )


def _quoted(text):
    return '"' + re.sub(r'(["\\])', r"\\\1", re.sub(r"[\x00-\x1f\x7f]", " ", str(text))) + '"'


def _value(value):
    return _quoted(value) if isinstance(value, str) else f"{value}"
