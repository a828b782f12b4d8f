"""The exercises of the book's chapters, as notebooks of their own: with solutions, and what a
student gets.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from attnbook_exercises.checks import exercises
from bookbuild import publish, source
from bookbuild.address import read_address

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


def grade_id(cell: NotebookNode) -> str:
    """The name that nbgrader's metadata give a cell; "" for none."""
    return cell.metadata.get("nbgrader", {}).get("grade_id", "")


_ARGUMENT = re.compile(
    r"^### (?P<title>Argue: (?P<name>.+))\n\n(?P<text>(?:(?!#).*\n)+?)"
    r"<details><summary>What a good answer has</summary>\n(?P<rubric>(?:.*\n)+?)</details>",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Section:
    """A section with exercises: `name` is the stem of the notebook that is handed in.

    arguments: (name, title, text, rubric with points) of its questions that are answered in words
    """

    name: str
    title: str
    chapter: str
    path: Path
    setup: NotebookNode
    tasks: tuple[Task, ...]
    arguments: tuple[tuple[str, str, str, dict[str, float]], ...] = ()

    @property
    def link(self) -> str:
        """To its page on the website."""
        page = read_address(self.path).page(f"chapters/{self.chapter}/{self.name}")
        return f"[{self.title}]({page})"


def find_book(folder: str | Path | None = None) -> Path:
    """The folder that holds `sources/`: the one given, that of the variable ATTNBOOK_BOOK, or the
    checkout that this package runs from.

    Raises ValueError when there are no sources (an installed wheel holds none).
    """
    folder = folder or os.environ.get("ATTNBOOK_BOOK")
    root = Path(folder) if folder else _ROOT
    if not (root / "sources").is_dir():
        hint = "give" if folder else "an installed package has none: give --book,"
        raise ValueError(
            f"book: there is no folder {root / 'sources'}; {hint} a checkout of the book"
        )
    return root


def sections(book: Path, only=None) -> list[Section]:
    """The sections of the book that have exercises, or `only` those of these names, in the order of
    its table of contents. Raises ValueError for a name that the book does not have."""
    paths = [path for path in sorted(book.glob("sources/*/*.md")) if source.is_source(path)]
    if only and set(only) <= {path.stem for path in paths}:
        paths = [path for path in paths if path.stem in only]
    found = [section for section in map(_read, paths) if section.tasks]
    contents = book / "_toc.yml"
    lines = contents.read_text(encoding="utf-8").split() if contents.is_file() else []
    order = {entry: place for place, entry in enumerate(lines)}
    found.sort(key=lambda one: order.get(f"chapters/{one.chapter}/{one.name}", len(order)))
    if not found:
        raise ValueError(f"book: no section in {book / 'sources'} has an exercise")
    known = [section.name for section in found]
    if unknown := [name for name in only or () if name not in known]:
        raise ValueError(
            f"section: the book has no section {unknown[0]!r}; it has {', '.join(known)}"
        )
    return found


def solution_of(task: Task) -> str:
    """The code of the solution, without the markers around it."""
    return "\n".join(
        line for line in task.solution.source.split("\n") if line.strip() not in source.SOLUTION
    )


def _read(path: Path) -> Section:
    nb = source.instructor_version(publish.resolved(source.read_source(path), path))
    prose = "\n".join(cell.source for cell in nb.cells if cell.cell_type == "markdown")
    title = re.search(r"^# (.+)$", prose, re.MULTILINE)
    setup = next((cell for cell in nb.cells if cell.cell_type == "code"), None)
    if setup is None:
        raise ValueError(f"{path}: has no code cell")
    tasks, keys = [], {task.key: task.id for task in exercises().values()}
    cells = [cell for cell in nb.cells if source.GATE not in cell.metadata.get("tags", [])]
    for place, cell in enumerate(cells):
        if not cell.metadata.get("nbgrader", {}).get("solution"):
            continue
        key = grade_id(cell)
        last = next(i for i, other in enumerate(cells) if grade_id(other) == f"{key}-hidden")
        function = re.findall(r"^def (\w+)", cell.source, re.MULTILINE)[-1]
        text = _statement(cells, place, key)
        if figures := set(re.findall(r"\bFigure (\d+\.\d+)", text)):
            text += _figures(path, figures)
        own = (new_markdown_cell(text), tuple(cells[place : last + 1]))
        tasks.append(Task(keys[key], key, function, *own))
    title = title[1].strip() if title else path.stem
    found = [_argument(m) for cell in cells for m in _ARGUMENT.finditer(cell.source + "\n")]
    return Section(path.stem, title, path.parent.name, path, setup, tuple(tasks), tuple(found))


def _argument(match):
    name = re.sub(r"\W+", "_", match["name"].lower(), flags=re.ASCII).strip("_")
    parts = re.findall(r"^- (.+) \((\d+)\)$", match["rubric"], re.MULTILINE)
    rubric = {part: float(points) for part, points in parts}
    return name, match["title"], match["text"].strip(), rubric


def _statement(cells, place, key):
    """An exercise without the prose before it, and without the label, which only the website
    reads.
    """
    above = cells[place - 1].source if place and cells[place - 1].cell_type == "markdown" else ""
    begin = max(above.rfind(f"(ex-{key})="), above.rfind("### Exercise"))
    label = above.find(f"(ex-{key})=")
    text = above[label if label >= 0 else max(begin, 0) :]
    return re.sub(r"^\(ex-[\w-]+\)=\n", "", text, flags=re.MULTILINE).strip()


def _figures(path, numbers):
    """The figures of these numbers as they stand in the section's notebook, with their captions."""
    stored, found = path.parents[2] / "chapters" / path.parent.name / f"{path.stem}.ipynb", ""
    cells = nbformat.read(stored, 4).cells if stored.is_file() else []
    for cell, below in pairwise(cells):
        caption = re.match(r"\*\*Figure (\d+\.\d+)\.\*\*", below.source)
        for output in cell.get("outputs", ()) if caption and caption[1] in numbers else ():
            if png := output.get("data", {}).get("image/png"):
                picture = "".join(png.split())
                found += f"\n\n![](data:image/png;base64,{picture})\n\n{below.source}"
    return found
