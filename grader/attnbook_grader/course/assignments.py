"""A course: its rules and limits, and its assignments."""

from __future__ import annotations

import hashlib
import math
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell, new_notebook

from bookbuild import source

from ..sandbox.launch import Limits
from .exercises import Section, Task, grade_id

UNANSWERED = "YOUR ANSWER HERE"
"""What stands in the field for an answer in words."""


@dataclass(frozen=True)
class Rules:
    """What is not a matter of right and wrong.

    late_per_day: share of the marks that a hand-in loses for every day that has begun since it was
    due
    latest_days: days after which a late hand-in gets no marks
    repeated: which of several hand-ins of a student counts: "last", "first" or "best"
    notebooks: of a student's hand-ins for an assignment, how many are judged: the last ones; with
    "first" the first ones
    library: an answer that uses the book's own implementation: "mark" says so beside the
    marks, "zero" takes them
    """

    late_per_day: float = 0.1
    latest_days: float = 7
    repeated: str = "last"
    notebooks: int = 5
    library: str = "mark"

    def __post_init__(self):
        for name, most, expected in (
            ("late_per_day", 1, "a share from 0 to 1"),
            ("latest_days", math.inf, "a number, 0 or more"),
        ):
            value = getattr(self, name)
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            if not number or not 0 <= value <= most:
                raise ValueError(f"rules.{name}: got {value!r}, expected {expected}")
        if not isinstance(self.notebooks, int) or self.notebooks < 1:
            raise ValueError(
                f"rules.notebooks: got {self.notebooks!r}, expected a whole number, 1 or more"
            )
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
        parts = "\n".join(f"- {part} ({points:g})" for part, points in self.rubric.items())
        folded = f"<details><summary>What a good answer has</summary>\n\n{parts}\n\n</details>"
        answer = new_markdown_cell(UNANSWERED)
        answer.metadata["nbgrader"] = NotebookNode(
            grade=True,
            solution=True,
            locked=False,
            grade_id=self.key,
            points=sum(self.rubric.values()),
            schema_version=3,
        )
        return [new_markdown_cell(f"### {self.title}\n\n{self.text}\n\n{folded}"), answer]


@dataclass(frozen=True)
class Assignment:
    """Exercises that are handed in together, as one notebook.

    name: the stem of the notebook
    tasks: the exercises, in order
    points: by exercise id: (for the reader's check, for the hidden one)
    due: with a time zone; None if hand-ins are never late
    words: questions that are answered in words
    extended: `due` is that of one student
    links: to the sections, for students
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
    links: tuple[str, ...] = ()

    @property
    def exercises(self) -> dict[str, float]:
        """The most points of each exercise, those in words among them."""
        found = {task.id: sum(self.points[task.id]) for task in self.tasks}
        return found | {one.id: sum(one.rubric.values()) for one in self.words}

    @property
    def most(self) -> float:
        return sum(self.exercises.values())

    def notebook(self) -> NotebookNode:
        """With solutions and hidden checks, as nbgrader's generate_assignment reads it."""
        cells = [new_markdown_cell(f"# {self.title}: exercises\n\n{self._how()}"), self.setup]
        for task in self.tasks:
            cells += [task.statement, *task.cells]
        cells += [cell for one in self.words for cell in one.cells()]
        nb = deepcopy(new_notebook(cells=cells, metadata=source.METADATA))
        points = {
            grade_id(test): points
            for task in self.tasks
            for test, points in zip(task.tests, self.points[task.id])
        }
        for place, cell in enumerate(nb.cells):
            cell.id = f"cell-{place:03d}"
            if grade_id(cell) in points:
                cell.metadata.nbgrader.points = points[grade_id(cell)]
        return nb

    def _how(self):
        return (
            "Run the cells from top to bottom. Each check says what is right, or the first thing "
            "that is wrong. Models learn through such functions: where one takes tensors, many "
            "checks try its gradients, too, so stay with operations of PyTorch. Where a statement "
            "names a figure, a table, a formula or a cell that is not here, you find it in the "
            f"book: {' · '.join(self.links)}."
        )

    def released(self) -> NotebookNode:
        """What students get: stubs for solutions, and a comment for each hidden check. The cells
        keep nbgrader's names, so that a hub with nbgrader collects and grades them.
        """
        nb = self.notebook()
        for cell in nb.cells:
            if grade_id(cell).endswith("-hidden"):
                cell.source = "# Once handed in, your function is checked here with other inputs."
            elif cell.cell_type == "code":
                cell.source = source.cut_hidden(source.cut_solution(cell.source))
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

    answers: {exercise id: code}; the stub for exercises without one.
    """
    nb = assignment.released()
    by_key = {task.key: answers.get(task.id) for task in assignment.tasks}
    for cell in nb.cells:
        if by_key.get(grade_id(cell)) is not None:
            cell.source = by_key[grade_id(cell)]
    return nbformat.writes(nb).encode()


def from_sections(parts: list[Section]) -> tuple[Assignment, ...]:
    """One assignment a section, with the points and the rubrics that the book gives; a prediction
    has no points, and is for the reader.
    """
    made = []
    for part in parts:
        ids = {task.id for task in part.tasks if any(_points(task))}
        words = tuple(
            Words(f"{part.name}.{name}", title, text, rubric)
            for name, title, text, rubric in part.arguments
        )
        if ids:
            one = assignment_of(part.name, part.title, [part], ids)
            made.append(replace(one, words=words))
    return tuple(made)


def _points(task) -> tuple[float, float]:
    visible, hidden = (float(test.metadata.nbgrader.points) for test in task.tests)
    return visible, hidden


def assignment_of(name, title, parts, ids, due=None):
    parts = [part for part in parts if any(task.id in ids for task in part.tasks)]
    tasks = tuple(task for part in parts for task in part.tasks if task.id in ids)
    points = {task.id: _points(task) for task in tasks}
    cells = {
        cell.source.strip()
        for part in parts
        for cell in source.student_version(source.read_source(part.path)).cells
        if cell.cell_type == "code"
    }
    links = tuple(part.link for part in parts)
    book = frozenset(cells | {part.setup.source.strip() for part in parts})
    return Assignment(name, title, tasks, points, parts[0].setup, book, due, links=links)
