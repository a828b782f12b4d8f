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

import contextlib
import copy
import os
import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import yaml
from nbformat import NotebookNode
from nbformat.v4 import new_markdown_cell

from . import folds, measure, promise, setup_cell, source
from .address import Address, read_address

CAPTION = "caption"
"""The tag of a cell that holds the caption of the figure above it."""
NEIGHBOURS = "neighbours"
"""The tag of the last cell, which leads on."""

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
        numbers: of each formula and figure by label, such as "6.38", and of each exercise, "6.2.4"
        pages: the source that each other label stands in
        papers: by key: authors in short, year, address
        titles: of each numbered page, in their order, with its number, such as "6.2 Multi-head
            attention"
        address: where the book lives
    """

    numbers: dict[str, str]
    pages: dict[str, Path]
    papers: dict[str, tuple[str, str, str]]
    titles: dict[Path, str]
    address: Address


def resolved(nb: NotebookNode, path: Path) -> NotebookNode:
    """A copy of the notebook of the source ``path`` whose texts hold no role and no label; its
    title has its number, and the line below says how long a reader takes.
    """
    made, root = copy.deepcopy(nb), _root(path)
    book = read_book(root)
    for cell in made.cells:
        if cell.cell_type == "markdown":
            cell.source = resolve(cell.source, path, book)
    if (title := book.titles.get(path.resolve())) and made.cells:
        first = made.cells[0]
        first.source = re.sub(r"^# .+$", f"# {title}", first.source, count=1, flags=re.MULTILINE)
    return _with_minutes(made)


def _with_minutes(nb):
    """In place: the reader's time in the line under the title."""
    for cell in nb.cells:
        if cell.cell_type == "markdown" and (found := promise.LINE.search(cell.source)):
            if found["reading"] is None:
                said = f"*about {measure.reading_minutes(nb)} minutes with the exercises · "
                cell.source = cell.source.replace(found[0], said + found[0][1:])
            break
    return nb


def readable(nb: NotebookNode, path: Path, stored: NotebookNode | None = None) -> NotebookNode:
    """The readers' notebook of a source: the student's version with its texts resolved, captions
    as cells, what the website folds folded under a title, and links to its neighbours at the end.

    Cells keep the ids that the source gives them: a new number changes none. A notebook that says
    the same as the ``stored`` one keeps its number of the library's interface, if that is still
    supported; any other is written for the current one.
    """
    made = _readable(nb, path)
    number = _stored_interface(stored)
    if stored is not None and number is not None and number >= setup_cell.oldest_interface():
        kept = copy.deepcopy(made)
        _write_interface(kept, number)
        if source.skeleton(kept) == source.skeleton(stored):
            return kept
    return made


def _readable(nb, path):
    made, book = resolved(source.student_version(nb), path), read_book(_root(path))
    cells = []
    for cell in made.cells:
        cells.append(cell)
        if cell.cell_type != "code":
            continue
        tags = {*cell.metadata.get("tags", [])}
        if measure.FOLDED & tags:
            cell.metadata.jupyter = NotebookNode(source_hidden=True)
            cell.metadata.cellView = "form"
            if setup_cell.TAG not in tags:
                cell.source = folds.titled(cell, book.numbers)
        if {"hide-cell", "hide-output"} & tags:
            cell.metadata.setdefault("jupyter", NotebookNode()).outputs_hidden = True
        shown = cell.metadata.pop("mystnb", NotebookNode())
        if alt := shown.get("image", {}).get("alt"):
            cell.metadata.alt = alt
        if caption := shown.get("figure", {}).get("caption"):
            cells.append(_caption(cell, caption, shown.figure.get("name"), path, book))
    made.cells = cells
    with contextlib.suppress(ValueError):  # without a line, which the rules name
        if promise.declared(made).wants_gpu:
            made.metadata.accelerator = "GPU"
            made.metadata.colab = NotebookNode(gpuType="T4")
            place = next(i for i, c in enumerate(made.cells) if promise.LINE.search(c.source))
            made.cells[place].source += f"\n\n{promise.GET_GPU}"
    if path.resolve() in book.titles:
        made.cells.append(_neighbours(path, book))
    return made


def _stored_interface(stored):
    cells = stored.cells if stored is not None else []
    found = (c.source for c in cells if setup_cell.TAG in c.metadata.get("tags", []))
    return next(map(setup_cell.interface_of, found), None)


def _write_interface(nb, number):
    for cell in nb.cells:
        if setup_cell.TAG in cell.metadata.get("tags", []):
            cell.source = setup_cell.with_interface(cell.source, number)


def _neighbours(path, book):
    """Where a reader of this notebook goes on, on the website and on Colab."""
    pages = list(book.titles)
    here = pages.index(path.resolve())
    chapter = next(p for p in reversed(pages[: here + 1]) if p.stem == "index")
    lines = ["---"]
    after = [page for page in pages[here + 1 :] if source.is_source(page)][:1]
    before = [page for page in pages[:here] if source.is_source(page)][-1:]
    ways = [("Next", page) for page in pages[here + 1 : here + 2]]
    ways += [("Next section", page) for page in after if ("Next", page) not in ways]
    ways += [("Before", page) for page in before] + [("Chapter", chapter)]
    for word, page in ways:
        name = _name(page, path)
        links = f"[{book.titles[page]}]({book.address.page(name)})"
        if source.is_source(page):
            links += f" · [on Colab]({book.address.on_colab(name + '.ipynb')})"
        lines.append(f"{word}: {links}")
    made = new_markdown_cell("\n\n".join(lines), metadata={"tags": [NEIGHBOURS]})
    made.id = NEIGHBOURS
    return made


def _name(page: Path, path: Path) -> str:
    """A page as the website and the repository call it, without its ending."""
    relative = os.path.relpath(page, _root(path)).replace(os.sep, "/")
    return re.sub(r"^sources/", "chapters/", relative.removesuffix(".md"))


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
    made = _with_minutes(source.student_version(nb))
    added = {CAPTION, NEIGHBOURS}
    cells = [c for c in stored.cells if not added & {*c.metadata.get("tags", [])}]
    if [c.id for c in made.cells] != [c.id for c in cells]:
        raise ValueError("the stored notebook differs from its source: build it again")
    book = read_book(_root(path))
    for cell, one in zip(made.cells, cells):
        if cell.cell_type != "code":
            cell.source = _number_exercises(cell.source, book)
            continue
        cell.outputs, cell.execution_count = one.outputs, one.execution_count
        if prompt := folds.title(cell, book.numbers):
            shown = cell.metadata.setdefault("mystnb", NotebookNode())
            shown.code_prompt_show = shown.code_prompt_hide = prompt
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
        name = _name(path.parent / found["target"], path)
        return book.address.page(name) + (found["anchor"] or "")

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
    page = book.pages[label]
    if not source.is_source(page):  # no notebook, so it is read on the website
        return book.address.page(_name(page, path))
    relative = os.path.relpath(page, path.parent).replace(os.sep, "/")
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
    names = ("_toc.yml", "_config.yml", "references.bib")
    files = [*(root / name for name in names), *_pages(root)]
    return _read_book(root, tuple((f, f.stat().st_mtime_ns) for f in files if f.is_file()))


@lru_cache(maxsize=8)
def _read_book(root: Path, _) -> Book:
    numbers: dict[str, str] = {}
    pages: dict[str, Path] = {}
    titles: dict[Path, str] = {}
    chapter, section, counts = -1, 0, {"eq": 0, "fig": 0, "ex": 0}
    for path in _pages(root):
        text = path.read_text(encoding="utf-8")
        if path.stem == "index":
            chapter, section, counts = chapter + 1, 0, {"eq": 0, "fig": 0, "ex": 0}
        else:
            section, counts["ex"] = section + 1, 0
        if (root / "_toc.yml").is_file() and (said := re.search(r"^# (.+)$", text, re.MULTILINE)):
            number = f"{chapter}.{section}" if section else f"{chapter}"
            titles[path.resolve()] = f"{number} {said[1].strip()}"
        prose = _FENCE.sub("", text)
        for found in _LABEL.finditer(prose):
            pages[found["label"]] = path
        named = [found["label"] for found in _FORMULA.finditer(prose) if found["label"]]
        asked = [found["label"] for found in _EXERCISE.finditer(prose)]
        for label in (*named, *_FIGURE.findall(text), *asked):
            kind = label.partition("-")[0]
            counts[kind] += 1
            # Exercises are counted in each section: one more changes no other notebook.
            place = f"{max(chapter, 0)}.{section}" if kind == "ex" else f"{max(chapter, 0)}"
            numbers[label] = f"{place}.{counts[kind]}"
    address = read_address(root)
    return Book(numbers, pages, _papers(root / "references.bib", address), titles, address)


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


def _papers(path: Path, book: Address) -> dict[str, tuple[str, str, str]]:
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
        papers[key] = (who, entry.fields.get("year", ""), _address(entry.fields, book))
    return papers


def _address(fields, book):
    if doi := fields.get("doi"):
        return f"https://doi.org/{doi}"
    if fields.get("archiveprefix", "").lower() == "arxiv":
        return f"https://arxiv.org/abs/{fields['eprint']}"
    return fields.get("url") or book.page("references")
