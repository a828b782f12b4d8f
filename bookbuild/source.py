"""From the source of a section (MyST, with solutions) to the student's notebook (without) and the
instructor's (with).

The public `.ipynb`, which the website, Colab and JupyterLab show, is the student's version. Its
solutions are cut as nbgrader's ClearSolutions cuts them, so a hand-in made from it grades like one
made from an nbgrader release.

A source names an exercise once, in the check that follows it: the cell tagged `exercise`, then the
cell tagged `check` with `check("00.weighted_sum", weighted_sum)`. What nbgrader needs is made from
that and from the registry of `attnbook.checks`: the cells' ids, their points, and, for the
instructor only, the hidden tests."""

from __future__ import annotations

import copy
import hashlib
import re
from collections import Counter
from functools import lru_cache
from pathlib import Path

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from .setup_cell import TAG as SETUP
from .setup_cell import add_setup

STUB = "raise NotImplementedError  # YOUR CODE HERE"
GATE = "solution-gate"
SOLUTION = ("### BEGIN SOLUTION", "### END SOLUTION")
HIDDEN = ("### BEGIN HIDDEN TESTS", "### END HIDDEN TESTS")

# The same for every notebook and every machine: nothing of the author's environment is stored.
METADATA = {
    "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
    "language_info": {"name": "python", "pygments_lexer": "ipython3"},
}


def read_source(path: str | Path) -> NotebookNode:
    """The notebook that the MyST file `path` describes, with its set-up cell, solutions included,
    without outputs.

    Raises ValueError when the file is not a MyST notebook of this book, ImportError when jupytext
    is missing."""
    path = Path(path)
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".md" or "format_name: myst" not in text[:600]:
        raise ValueError(f"path: expected a MyST notebook (.md with a jupytext header), got {path}")
    return add_setup(copy.deepcopy(_parse(text)), path)


# A tenth of a second for each section: a round of grading and its tests read the book many times.
@lru_cache(maxsize=128)
def _parse(text: str) -> NotebookNode:
    try:
        import jupytext
    except ImportError as error:
        raise ImportError("reading chapter sources needs jupytext: pip install jupytext") from error
    return jupytext.reads(text, fmt="md:myst")


def notebook_of(path: Path) -> Path:
    """Where the readers' notebook of a source lies: that of `sources/REST/NAME.md` is
    `chapters/REST/NAME.ipynb`, that of any other is beside it."""
    return _elsewhere(path, "sources", "chapters").with_suffix(".ipynb")


def source_of(path: Path) -> Path:
    """The source of a notebook or a page of the book, with or without its ending."""
    found = _elsewhere(path, "chapters", "sources").with_suffix(".md")
    return found if found.is_file() else path.with_suffix(".md")


def _elsewhere(path, here, there):
    if path.parent.parent.name != here:
        return path
    return path.parent.parent.parent / there / path.parent.name / path.name


def is_source(path: str | Path) -> bool:
    """Whether the .md file `path` is the source of a notebook (and not a plain page)."""
    path = Path(path)
    return (
        path.suffix == ".md"
        and path.is_file()
        and "format_name: myst" in path.read_text(encoding="utf-8")[:600]
    )


def student_version(nb: NotebookNode) -> NotebookNode:
    """The notebook that readers get: stubs for solutions, no hidden tests, no cells tagged
    `solution-gate`, no outputs.

    Returns a new notebook; a cell whose content did not change has the same id whenever it is made.
    Raises ValueError for a begin marker without its end, or an end without its begin.
    """
    made = copy.deepcopy(nb)
    kept = []
    for cell in made.cells:
        if GATE in cell.metadata.get("tags", []):
            continue
        if cell.cell_type == "code":
            shown = _cut(cut_solution(cell.source), HIDDEN, None)
            if not shown.strip() and cell.source.strip():
                continue  # nothing but hidden tests
            cell.source = shown
        elif any(marker in cell.source for marker in (*SOLUTION, *HIDDEN)):
            raise ValueError(
                f"a text cell holds a solution marker, which only code cells may: "
                f"{cell.source[:60]!r}"
            )
        kept.append(cell)
    made.cells = kept
    _say_what_is_optional(made)
    _mark_exercises(made, hidden=False)
    return _normalize(made)


def instructor_version(nb: NotebookNode) -> NotebookNode:
    """The notebook with solutions, hidden tests and their markers in place (what
    `nbgrader generate_assignment` reads).

    Each exercise has three cells with nbgrader's metadata: `KEY` (the solution), `KEY-check` (the
    reader's check, which for the grader also raises) and `KEY-hidden` (the same check on other
    inputs). KEY and points come from `attnbook.checks`.

    Returns a new notebook without outputs.
    Raises ValueError for a begin marker without its end, or an end without its begin.
    """
    made = copy.deepcopy(nb)
    for cell in made.cells:
        if cell.cell_type == "code":
            _cut(cell.source, SOLUTION, STUB)
            _cut(cell.source, HIDDEN, None)
    _mark_exercises(made, hidden=True)
    return _normalize(made)


_CLOSER = re.compile(r"^## Closer look: (.+)$", re.MULTILINE)
OPTIONAL = "What follows up to the exercises may be skipped; it looks closer at: "
"""How the paragraph begins that names the closer looks between "What to remember" and exercises."""


def _say_what_is_optional(nb):
    """Name the closer looks above the first of them, so that a reader may choose, or pass by."""
    texts = [cell for cell in nb.cells if cell.cell_type == "markdown"]
    titles = [title.strip() for cell in texts for title in _CLOSER.findall(cell.source)]
    if len(titles) < 2:
        return
    first = next(cell for cell in texts if _CLOSER.search(cell.source))
    said = f"{OPTIONAL}{' · '.join(titles)}".removesuffix(".")
    said += "" if said.endswith("?") else "."
    first.source = _CLOSER.sub(lambda found: f"{said}\n\n{found[0]}", first.source, count=1)


def cut_solution(code: str) -> str:
    """The code of a cell with the stub in place of each solution."""
    return _cut(code, SOLUTION, STUB)


def cut_hidden(code: str) -> str:
    """The code of a cell without its hidden tests."""
    return _cut(code, HIDDEN, None).rstrip("\n")


def skeleton(nb: NotebookNode) -> list[tuple]:
    """What two versions of a notebook must have in common: (type, source, metadata) of each
    cell, and no outputs.
    """
    return [(c.cell_type, c.source.strip("\n"), _plain(c.metadata)) for c in nb.cells]


def _cut(source: str, markers: tuple[str, str], stub: str | None) -> str:
    begin, end = markers
    lines, inside = [], False
    for line in source.split("\n"):
        if begin in line:
            if inside:
                raise ValueError(f"{begin} inside {begin}: {source[:80]!r}")
            inside = True
            if stub is not None:
                lines.append(line[: len(line) - len(line.lstrip())] + stub)
        elif end in line:
            if not inside:
                raise ValueError(f"{end} without {begin}: {source[:80]!r}")
            inside = False
        elif not inside:
            lines.append(line)
    if inside:
        raise ValueError(f"{begin} without {end}: {source[:80]!r}")
    return "\n".join(lines)


CHECK_CALL = re.compile(r"""\bcheck\(\s*["'](?P<id>[\w.]+)["']\s*,\s*(?P<function>\w+)""")
"""A call of an exercise's check in a cell: check("00.weighted_sum", weighted_sum)."""


def _mark_exercises(nb: NotebookNode, hidden: bool) -> None:
    """Give the cells of each exercise their nbgrader metadata; with `hidden`, add the tests that
    only the grader runs.
    """
    cells, task = [], None
    for cell in nb.cells:
        tags = cell.metadata.get("tags", [])
        cells.append(cell)
        if "exercise" in tags:
            if task is not None:
                raise ValueError(
                    f"two exercises without a check between them: {cell.source[:60]!r}"
                )
            task = cell
        elif "check" in tags:
            called = CHECK_CALL.search(cell.source)
            if task is None or called is None:
                raise ValueError(
                    f'a cell tagged check follows an exercise and calls check("ID", function), '
                    f"got {cell.source[:80]!r}"
                )
            from attnbook.checks import find  # late: the checks take NumPy and SciPy along

            entry = find(called["id"])
            visible, secret = entry.points
            task.metadata.nbgrader = _nbgrader(entry.key, solution=True)
            cell.metadata.nbgrader = _nbgrader(f"{entry.key}-check", points=visible)
            if hidden:
                graded = (
                    f'from attnbook.checks import grade\ngrade("{called["id"]}", '
                    f"{called['function']}%s)"
                )
                cell.source += "\n" + _hide(graded % "")
                cells.append(
                    new_code_cell(
                        _hide(graded % ", seed=1"),
                        metadata={
                            "tags": ["remove-cell"],
                            "nbgrader": _nbgrader(f"{entry.key}-hidden", points=secret),
                        },
                    )
                )
            task = None
    if task is not None:
        raise ValueError(f"an exercise without a check after it: {task.source[:60]!r}")
    nb.cells = cells


def _hide(code: str) -> str:
    return f"{HIDDEN[0]}\n{code}\n{HIDDEN[1]}"


def _nbgrader(grade_id: str, points: int | None = None, solution: bool = False) -> NotebookNode:
    made = {
        "grade": points is not None,
        "grade_id": grade_id,
        "locked": points is not None,
        "schema_version": 3,
        "solution": solution,
        "task": False,
    }
    return NotebookNode({**made, "points": points} if points is not None else made)


def _normalize(nb: NotebookNode) -> NotebookNode:
    nb.metadata = NotebookNode({key: NotebookNode(value) for key, value in METADATA.items()})
    nb.nbformat, nb.nbformat_minor = 4, 5
    seen: Counter = Counter()
    for cell in nb.cells:
        content = f"{cell.cell_type}\0{cell.source}"
        # An id made from the content: stable for a cell that stays, whatever happens around it.
        cell.id = hashlib.sha256(f"{content}\0{seen[content]}".encode()).hexdigest()[:12]
        seen[content] += 1
        if SETUP in cell.metadata.get("tags", []):
            cell.id = SETUP  # whatever address and interface it names
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return nb


def _plain(value):
    return (
        {k: _plain(v) for k, v in value.items() if k not in ("execution", "trusted")}
        if isinstance(value, dict)
        else value
    )
