"""The exercises of the book's chapters, as notebooks of their own: with solutions, and what a
student gets.
"""

from __future__ import annotations

import ast
import os
import re
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell, new_notebook

from attnbook_exercises.checks import exercises
from bookbuild import publish, source

_ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Task:
    """One exercise as it stands in a section: its cells, solution and hidden checks included.

    id, key: "00.weighted_sum" and "00-weighted-sum"
    function: the name that the student defines
    statement, cells: one text cell, and [solution, (texts between), check, hidden check]
    """

    id: str
    key: str
    function: str
    statement: NotebookNode
    cells: tuple[NotebookNode, ...]

    @property
    def solution(self) -> NotebookNode:
        return self.cells[0]

    @property
    def title(self) -> str:
        """The title that stands over its statement."""
        found = re.search(
            r"^### (?:Exercise(?: [\d.]+)?: )?(.+)$", self.statement.source, re.MULTILINE
        )
        return found[1].strip() if found else self.id

    @property
    def tests(self) -> tuple[NotebookNode, ...]:
        """The visible and the hidden check, which belong to the grader."""
        return tuple(cell for cell in self.cells if cell.metadata.get("nbgrader", {}).get("grade"))


def library_names(code: str) -> list[str]:
    """What a cell imports of the library: "attnbook.mechanisms.attend"."""
    found = []
    try:
        tree = ast.parse(code)
    except SyntaxError:  # a student's copy may lack the body
        return []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [one.name for one in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [f"{node.module}.{one.name}" for one in node.names]
    return [name for name in found if name.startswith(("attnbook.", "attnbook_runs."))]


@dataclass(frozen=True)
class Section:
    """A section with exercises: `name` is nbgrader's assignment and the stem of the notebook
    that is handed in.
    """

    name: str
    title: str
    chapter: str
    path: Path
    setup: NotebookNode
    tasks: tuple[Task, ...]

    @property
    def points(self) -> int:
        return sum(int(cell.metadata.nbgrader.points) for task in self.tasks for cell in task.tests)


def find_book(folder: str | Path | None = None) -> Path:
    """The folder that holds `sources/`: the one given, that of the variable ATTNBOOK_BOOK, or the
    checkout that this package runs from.

    Raises ValueError when there are no sources (an installed wheel holds none).
    """
    folder = folder or os.environ.get("ATTNBOOK_BOOK")
    root = Path(folder) if folder else _ROOT
    if not (root / "sources").is_dir():
        hint = (
            "give the checkout of the book"
            if folder
            else "an installed package has none: give --book, a checkout of the book"
        )
        raise ValueError(f"book: there is no folder {root / 'sources'}; {hint}")
    return root


def sections(book: Path, only=None, tasks=None) -> list[Section]:
    """The sections of the book that have exercises, in the order of its table of contents.

    only: names of sections; default all
    tasks: ids of exercises; default all. A section without any of them is left out
    Raises ValueError for a name or an id that the book does not have.
    """
    found = [_read(path) for path in sorted(book.glob("sources/*/*.md")) if source.is_source(path)]
    found = [section for section in found if section.tasks]
    contents = book / "_toc.yml"
    lines = contents.read_text(encoding="utf-8").split() if contents.is_file() else []
    order = {entry: place for place, entry in enumerate(lines)}
    found.sort(
        key=lambda section: order.get(f"chapters/{section.chapter}/{section.name}", len(order))
    )
    if not found:
        raise ValueError(f"book: no section in {book / 'sources'} has an exercise")
    _known("section", only, [section.name for section in found])
    _known("exercise", tasks, [task.id for section in found for task in section.tasks])
    if only:
        found = [section for section in found if section.name in only]
    if tasks:
        found = [
            _replace(section, tuple(task for task in section.tasks if task.id in tasks))
            for section in found
        ]
    return [section for section in found if section.tasks]


def solution_of(task: Task) -> str:
    """The code of the solution, without the markers around it."""
    return "\n".join(
        line for line in task.solution.source.split("\n") if line.strip() not in source.SOLUTION
    )


def instructor_notebook(section: Section) -> NotebookNode:
    """The exercises of one section with solutions and hidden checks, as nbgrader's
    generate_assignment reads them.
    """
    how = (
        "Run the cells from top to bottom. Each check says what is right, or the first thing "
        "that is wrong. Models learn through such functions: where one takes tensors, many "
        "checks try its gradients, too, so stay with operations of PyTorch."
    )
    cells = [new_markdown_cell(f"# {section.title}: exercises\n\n{how}"), section.setup]
    for task in section.tasks:
        cells += [task.statement, *task.cells]
    cells = [deepcopy(cell) for cell in cells]
    for place, cell in enumerate(cells):
        cell.id = f"cell-{place:03d}"
    nb = new_notebook(cells=cells)
    nb.metadata = deepcopy(
        NotebookNode({key: NotebookNode(value) for key, value in source.METADATA.items()})
    )
    return nb


def _known(what, given, known):
    unknown = [name for name in given or () if name not in known]
    if unknown:
        raise ValueError(
            f"{what}: the book has no {what} {unknown[0]!r}; it has {', '.join(known)}"
        )


def _replace(section, tasks):
    return Section(section.name, section.title, section.chapter, section.path, section.setup, tasks)


def _read(path: Path) -> Section:
    nb = source.instructor_version(publish.resolved(source.read_source(path), path))
    title = re.search(
        r"^# (.+)$",
        "\n".join(c.source for c in nb.cells if c.cell_type == "markdown"),
        re.MULTILINE,
    )
    setup = next((cell for cell in nb.cells if cell.cell_type == "code"), None)
    if setup is None:
        raise ValueError(f"{path}: has no code cell")
    tasks, keys = [], {task.key: task.id for task in exercises().values()}
    cells = [cell for cell in nb.cells if source.GATE not in cell.metadata.get("tags", [])]
    for place, cell in enumerate(cells):
        meta = cell.metadata.get("nbgrader", {})
        if not meta.get("solution"):
            continue
        key = meta["grade_id"]
        last = next(
            i
            for i, c in enumerate(cells)
            if c.metadata.get("nbgrader", {}).get("grade_id") == f"{key}-hidden"
        )
        tasks.append(
            Task(
                keys[key],
                key,
                _function(cell),
                _statement(cells, place, key),
                tuple(cells[place : last + 1]),
            )
        )
    return Section(
        path.stem,
        title[1].strip() if title else path.stem,
        path.parent.name,
        path,
        setup,
        tuple(tasks),
    )


def _function(cell):
    return re.findall(r"^def (\w+)", cell.source, re.MULTILINE)[-1]


def _statement(cells, place, key):
    """The text of an exercise without the prose before it, and without the label, which only the
    website reads.
    """
    above = cells[place - 1].source if place and cells[place - 1].cell_type == "markdown" else ""
    begin = max(above.rfind(f"(ex-{key})="), above.rfind("### Exercise"))
    label = above.find(f"(ex-{key})=")
    text = above[label if label >= 0 else max(begin, 0) :]
    return new_markdown_cell(re.sub(r"^\(ex-[\w-]+\)=\n", "", text, flags=re.MULTILINE).strip())
