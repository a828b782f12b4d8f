"""A course: its rules and limits, and its assignments."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from bookbuild import source

from ..sandbox.launch import Limits
from .exercises import Section, Task, instructor_notebook

__all__ = [
    "Assignment",
    "Course",
    "Rules",
    "Words",
    "assignment_of",
    "from_sections",
    "notebook_with",
]


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
class Words:
    """A question that is answered in words and marked by hand.

    rubric: what is looked for, with its points
    """

    id: str
    title: str
    text: str
    rubric: dict[str, float]

    @property
    def key(self) -> str:
        return "words-" + self.id.replace(".", "-")

    def cells(self) -> list[NotebookNode]:
        """The question and the cell for its answer."""
        asked = "\n".join(f"- {part} ({points:g})" for part, points in self.rubric.items())
        answer = new_markdown_cell("YOUR ANSWER HERE")
        answer.metadata["nbgrader"] = NotebookNode(
            grade=True,
            solution=True,
            locked=False,
            grade_id=self.key,
            points=sum(self.rubric.values()),
            schema_version=3,
        )
        return [new_markdown_cell(f"### {self.title}\n\n{self.text}\n\n{asked}"), answer]


@dataclass(frozen=True)
class Assignment:
    """Exercises that are handed in together, as one notebook.

    name: the stem of the notebook and its name in the gradebook
    tasks: the exercises, in order
    points: by exercise id: (for the reader's check, for the hidden one)
    due: with a time zone; None if hand-ins are never late
    words: questions that are answered in words
    extended: `due` is that of one student
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
    words: tuple[Words, ...] = ()
    extended: bool = False

    @property
    def exercises(self) -> dict[str, float]:
        """The most points of each exercise, those in words among them."""
        found = {task.id: sum(self.points[task.id]) for task in self.tasks}
        return found | {one.id: sum(one.rubric.values()) for one in self.words}

    @property
    def most(self) -> float:
        return sum(self.exercises.values())

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
        nb.cells += [cell for one in self.words for cell in one.cells()]
        for place, cell in enumerate(nb.cells):
            cell.id = f"cell-{place:03d}"
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
        assignment_of(part.name, part.title, [part], {task.id for task in part.tasks})
        for part in parts
    )


def assignment_of(name, title, parts, ids, due=None):
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
