"""What a notebook viewer needs: the readers' notebook, in which no role, label or directive of the
website is left.

A source says {cite:t}`vaswani2017`, {eq}`eq-softmax`, {numref}`fig-rows`; its figures have their
captions and alternative texts in the metadata of their cells. Colab, GitHub and JupyterLab know
nothing of that. :func:`readable` writes "Vaswani et al. (2017)" with a link to the paper, "(0.2)",
"Figure 0.3", numbers the formulas, and puts the caption of each figure below it. The numbers are
those of the website, which is built from the same sources with all its cross-references:
:func:`with_outputs` gives it the cells of the source and the outputs of the stored notebook.
"""

from __future__ import annotations

import copy
import os
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import yaml
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from . import source
from .measure import FOLDED

SITE = "https://attnbook.github.io/attnbook/"
CAPTION = "caption"
"""The tag of a cell that holds the caption of the figure above it."""

_ROLE = re.compile(r"\{(?P<role>cite:t|cite:p|eq|numref|ref)\}`(?P<target>[^`]+)`")
_LABEL = re.compile(r"^\((?P<label>[\w-]+)\)=[ \t]*\n", re.MULTILINE)
_FORMULA = re.compile(r"\$\$(?P<body>(?:[^$]|\$(?!\$))*?)\$\$(?:[ \t]*\((?P<label>eq-[\w-]+)\))?")
_EXERCISE = re.compile(r"^\((?P<label>ex-[\w-]+)\)=[ \t]*\n### Exercise(?=: )", re.MULTILINE)
_LINK = re.compile(r"(?<=\]\()(?P<target>[\w./-]+\.md)(?P<anchor>#[\w-]*)?(?=\))")
_FIGURE = re.compile(r"^    name: (fig-[\w-]+)$", re.MULTILINE)  # in the head of a code cell
_FENCE = re.compile(r"(```.*?```|~~~.*?~~~)", re.DOTALL)


class UnknownLabel(ValueError):
    """A role names a label, a paper or a figure that the book does not have."""


@dataclass(frozen=True)
class Book:
    """What the roles of all sections refer to.

    Attributes:
        numbers: of each formula, figure and exercise by label, such as "6.38"
        pages: the source that each other label stands in
        papers: by key: authors in short, year, address
    """

    numbers: dict[str, str]
    pages: dict[str, Path]
    papers: dict[str, tuple[str, str, str]]


def resolved(nb: NotebookNode, path: Path) -> NotebookNode:
    """A copy of the notebook of the source ``path`` whose texts hold no role and no label."""
    made, book = copy.deepcopy(nb), read_book(_root(path))
    for cell in made.cells:
        if cell.cell_type == "markdown":
            cell.source = resolve(cell.source, path, book)
    return made


def readable(nb: NotebookNode, path: Path) -> NotebookNode:
    """The readers' notebook of a source: the student's version with its texts resolved, captions
    as cells, and what the website folds folded.

    Cells keep the ids that the source gives them: a new number changes none.
    """
    raw = source.student_version(nb)
    made, book = resolved(raw, path), read_book(_root(path))
    cells = []
    for cell in made.cells:
        cells.append(cell)
        if cell.cell_type != "code":
            continue
        tags = {*cell.metadata.get("tags", [])}
        if FOLDED & tags:
            cell.metadata.jupyter = NotebookNode(source_hidden=True)
            cell.metadata.cellView = "form"
        if {"hide-cell", "hide-output"} & tags:
            cell.metadata.setdefault("jupyter", NotebookNode()).outputs_hidden = True
        shown = cell.metadata.pop("mystnb", NotebookNode())
        if alt := shown.get("image", {}).get("alt"):
            cell.metadata.alt = alt
        if caption := shown.get("figure", {}).get("caption"):
            cells.append(_caption(cell, caption, shown.figure.get("name"), path, book))
    made.cells = cells
    return made


def _caption(cell, caption, name, path, book):
    number = f"**Figure {book.numbers[name]}.** " if name else ""
    text = number + resolve(caption, path, book)
    if alt := cell.metadata.get("alt"):
        words = f"{alt.rstrip('.')}."
        text += f"\n\n<details><summary>The figure in words</summary>\n\n{words}\n\n</details>"
    made = new_markdown_cell(text, metadata={"tags": [CAPTION]})
    made.id = f"{cell.id}-caption"
    return made


def with_outputs(nb: NotebookNode, stored: NotebookNode, path: Path) -> NotebookNode:
    """The cells of the source ``path``, its exercises numbered, with the outputs of the readers'
    notebook made from it.

    Raises:
        ValueError: the two have not the same cells.
    """
    made = source.student_version(nb)
    cells = [c for c in stored.cells if CAPTION not in c.metadata.get("tags", [])]
    if [c.id for c in made.cells] != [c.id for c in cells]:
        raise ValueError("the stored notebook differs from its source: build it again")
    book = read_book(_root(path))
    for cell, one in zip(made.cells, cells):
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = one.outputs, one.execution_count
        else:
            cell.source = _number_exercises(cell.source, book)
    return made


def _number_exercises(text: str, book: Book) -> str:
    return _EXERCISE.sub(lambda found: f"{found[0]} {_number(book, found['label'])}", text)


def resolve(text: str, path: Path, book: Book) -> str:
    """A text of the section ``path`` as every viewer shows it."""

    def formula(found: re.Match) -> str:
        body, label = found["body"], found["label"]
        if label is None:
            return found[0]
        end = "\n" if body.endswith("\n") else " "
        return f"$${body.rstrip()} \\tag{{{_number(book, label)}}}{end}$$"

    def role(found: re.Match) -> str:
        name, target = found["role"], found["target"]
        if name in ("cite:t", "cite:p"):
            return _cited(book, target.split(","), textual=name == "cite:t")
        if name == "eq":
            return f"({_number(book, target)})"
        if name == "numref":
            return f"Figure {_number(book, target)}"
        words, _, label = target.removesuffix(">").rpartition(" <")
        return f"[{words}]({_to_page(book, label, path)})"

    def page(found: re.Match) -> str:
        place = os.path.relpath(path.parent / found["target"], _root(path)).replace(os.sep, "/")
        return (
            SITE
            + place.removesuffix(".md").replace("sources/", "chapters/")
            + ".html"
            + (found["anchor"] or "")
        )

    parts = _FENCE.split(text)  # code in a text stays as it is
    for k in range(0, len(parts), 2):
        part = _LABEL.sub("", _number_exercises(parts[k], book))
        parts[k] = _LINK.sub(page, _ROLE.sub(role, _FORMULA.sub(formula, part)))
    return "".join(parts)


def _number(book, label):
    if label not in book.numbers:
        raise UnknownLabel(f"the book has no formula, figure or exercise {label!r}")
    return book.numbers[label]


def _to_page(book, label, path):
    if label not in book.pages:
        raise UnknownLabel(f"the book has no section {label!r}")
    relative = os.path.relpath(book.pages[label], path.parent).replace(os.sep, "/")
    return relative.removesuffix(".md") + ".ipynb"


def _cited(book, keys, textual):
    shown = []
    for key in map(str.strip, keys):
        if key not in book.papers:
            raise UnknownLabel(f"references.bib has no paper {key!r}")
        who, year, address = book.papers[key]
        shown.append(f"[{who} ({year})]({address})" if textual else f"[{who}, {year}]({address})")
    return ", ".join(shown) if textual else f"({'; '.join(shown)})"


def _root(path: Path) -> Path:
    """The folder of the book that a source belongs to: the nearest with a _toc.yml, else its
    own.
    """
    return next((f for f in path.resolve().parents if (f / "_toc.yml").is_file()), path.parent)


def read_book(root: Path) -> Book:
    """The numbers, labels and papers of the book in ``root``."""
    files = [root / "_toc.yml", root / "references.bib", *_pages(root)]
    return _read_book(root, tuple((f, f.stat().st_mtime_ns) for f in files if f.is_file()))


@lru_cache(maxsize=8)
def _read_book(root: Path, _) -> Book:
    numbers: dict[str, str] = {}
    pages: dict[str, Path] = {}
    chapter, counts = -1, {"eq": 0, "fig": 0, "ex": 0}
    for path in _pages(root):
        text = path.read_text(encoding="utf-8")
        if path.stem == "index":
            chapter, counts = chapter + 1, {"eq": 0, "fig": 0, "ex": 0}
        prose = _FENCE.sub("", text)
        for found in _LABEL.finditer(prose):
            pages[found["label"]] = path
        named = [found["label"] for found in _FORMULA.finditer(prose) if found["label"]]
        asked = [found["label"] for found in _EXERCISE.finditer(prose)]
        for label in (*named, *_FIGURE.findall(text), *asked):
            kind = label.partition("-")[0]
            counts[kind] += 1
            numbers[label] = f"{max(chapter, 0)}.{counts[kind]}"
    return Book(numbers, pages, _papers(root / "references.bib"))


def _pages(root: Path) -> list[Path]:
    """The sources of the numbered part of the book, in its order; without a table of contents
    those of the folder.
    """
    contents = root / "_toc.yml"
    if not contents.is_file():
        return sorted(root.glob("*.md"))
    parts = yaml.safe_load(contents.read_text(encoding="utf-8"))["parts"]
    entries = [
        entry
        for part in parts
        if part.get("numbered")
        for chapter in part["chapters"]
        for entry in (chapter, *chapter.get("sections", []))
    ]
    return [source.source_of(root / entry["file"]) for entry in entries]


def _papers(path: Path) -> dict[str, tuple[str, str, str]]:
    if not path.is_file():
        return {}
    from pybtex.database import parse_file

    papers = {}
    for key, entry in parse_file(str(path)).entries.items():
        people = entry.persons.get("author") or entry.persons.get("editor") or []
        names = [" ".join(map(str, p.rich_prelast_names + p.rich_last_names)) for p in people]
        who = names[0] if names else key
        if len(names) == 2:
            who = f"{names[0]} and {names[1]}"
        elif len(names) > 2:
            who = f"{names[0]} et al."
        papers[key] = (who, entry.fields.get("year", ""), _address(key, entry.fields))
    return papers


def _address(key, fields):
    if doi := fields.get("doi"):
        return f"https://doi.org/{doi}"
    if fields.get("archiveprefix", "").lower() == "arxiv":
        return f"https://arxiv.org/abs/{fields['eprint']}"
    return fields.get("url") or f"{SITE}references.html"
