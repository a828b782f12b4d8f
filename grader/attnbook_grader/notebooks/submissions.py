"""What a student handed in: reading it, and putting the grader's cells back into it."""

from __future__ import annotations

import ast
from itertools import takewhile
from typing import cast
from unicodedata import normalize

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from bookbuild import folds, setup_cell, source

from ..course.assignments import Assignment, Words
from ..course.exercises import Task, grade_id
from .reading import bare_notebook
from .similarity import binds, parsed

_SETUP = "import attnbook\nsetup = attnbook.setup(seed=0, figures=False)"
"""In place of the set-up cell: the same names, without installing the package, and without
matplotlib, since nobody looks at figures.
"""
_OWN_WORDS = 2_000


def parse_submission(content: bytes) -> NotebookNode:
    """The notebook in these bytes, its folded cells without the titles that publishing gave them.
    Raises Unreadable, with the reason, when there is none."""
    made = cast(NotebookNode, nbformat.from_dict(bare_notebook(content)))
    for cell in made.cells:
        cell.source = folds.untitled(cell.source)
    return made


def restore(nb: NotebookNode, assignment: Assignment) -> tuple[NotebookNode, dict[str, str]]:
    """The notebook to grade: the student's answers and own cells, with the grader's statements and
    checks.

    Checks are always those of the source: deleted ones come back, edited ones are replaced. Cells
    of the chapter keep only their imports, definitions and constants, so that nothing is trained
    while grading. An answer cell that is gone or untouched is replaced by the last other cell that
    binds its function, else by the stub.

    Returns the notebook and, by exercise id, remarks for the student.
    """
    answers = _answers(nb, assignment)
    book, cells, remarks, placed = assignment.book, [], {}, set()
    tests = {grade_id(cell): task for task in assignment.tasks for cell in task.tests}
    # a stub that is no answer would take the place of one
    seen, stubs = set(), {"", *map(_stub, assignment.tasks)}
    for place, cell in enumerate(nb.cells):
        if place in answers:
            for task in answers[place]:
                cells += [_fresh(task.statement), _fresh(task.solution, cell.source)]
                seen.add(task.id)
            continue
        test = tests.get(grade_id(cell))
        if test is not None:
            if test.id in seen and test.id not in placed:
                cells += map(_fresh, test.tests)
                placed.add(test.id)
        elif cell.cell_type == "code" and cell.source.strip() not in stubs:
            if (code := kept(cell.source, book)).strip():
                cells.append(new_code_cell(code))
    for task in assignment.tasks:
        if task.id not in seen:
            remarks[task.id] = "the cell for your answer is missing from the notebook"
            cells += [_fresh(task.statement), _fresh(task.solution, _stub(task))]
        if task.id not in placed:
            at = next(i for i, c in enumerate(cells) if grade_id(c) == task.key)
            cells[at + 1 : at + 1] = map(_fresh, task.tests)
    for place, cell in enumerate(cells):
        cell.id = f"cell-{place:03d}"
    return new_notebook(cells=cells, metadata=nbformat.from_dict(source.METADATA)), remarks


def kept(code: str, book: frozenset[str]) -> str:
    """What runs of a cell when nobody looks at it: of the chapters' cells the definitions."""
    if setup_cell.is_setup(code.strip()):
        return _SETUP
    return definitions(code.strip()) if code.strip() in book else code


def definitions(code: str) -> str:
    """The imports, functions, classes and constants of a cell, without what it runs; "" for what is
    not Python, or too long or too deep to be read.

    A constant is a name for a literal: SIZES = (8, 64). IPython's own lines, %pip and !ls, are left
    out.
    """
    tree, kinds = parsed(code), (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)
    nodes = tree.body if tree else ()
    try:
        found = [ast.unparse(one) for one in nodes if isinstance(one, kinds) or _constant(one)]
    except (ValueError, RecursionError, MemoryError):
        return ""
    return "\n\n".join(found)


def _constant(node):
    if not isinstance(node, (ast.Assign, ast.AnnAssign)) or node.value is None:
        return False
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    kinds = (ast.Name, ast.Tuple, ast.List, ast.Starred, ast.expr_context)
    if not all(isinstance(part, kinds) for target in targets for part in ast.walk(target)):
        return False
    try:
        ast.literal_eval(node.value)
    except (ValueError, TypeError):
        return False
    return True


def _answers(nb, assignment):
    """The tasks that a cell answers, by its place: by the cell's name, or by the function for a
    task whose named cell is gone or was left as it is.

    Of several cells of a name, copies perhaps, the first that is more than the stub.
    """
    found = {}
    for task in assignment.tasks:
        named = [place for place, cell in enumerate(nb.cells) if grade_id(cell) == task.key]
        written = [
            place for place in named if nb.cells[place].source.strip() not in ("", _stub(task))
        ]
        place = next(iter(written), None)
        if place is None:
            place = _retyped(nb, task, assignment)
        if place is None or named and not written and nb.cells[place].source.strip() == _stub(task):
            place = next(iter(named), place)
        if place is not None:
            found.setdefault(place, []).append(task)
    return found


def words_below(nb: NotebookNode, asked: Words, assignment: Assignment) -> str:
    """What a student wrote into cells below the field for an answer in words, up to the next cell
    of the grader's; where there is nothing, all text of the student's own that is in no field.

    Cells that Jupyter made for code hold words, too, where they are no Python."""
    known = {cell.source.strip() for cell in assignment.notebook().cells} | {""}
    mine = [
        None
        if grade_id(cell) or cell.source.strip() in known | assignment.book
        else cell.source.strip()
        if cell.cell_type != "code" or parsed(cell.source) is None
        else ""
        for cell in nb.cells
    ]
    question = asked.cells()[0].source.strip()
    at = [
        place
        for place, cell in enumerate(nb.cells)
        if grade_id(cell) == asked.key or cell.source.strip() == question
    ]
    below = takewhile(lambda text: text is not None, mine[at[-1] + 1 :] if at else [])
    found = "\n\n".join(filter(None, below)) or "\n\n".join(filter(None, mine))
    return found if at or len(found) < _OWN_WORDS else ""  # else it is a chapter's text


def _stub(task):
    return source.cut_solution(task.solution.source).strip()


def odd_cells(nb: NotebookNode, task: Task) -> str:
    """What is odd about the cells of the answer's name, in words; "" for nothing."""
    cells = [cell for cell in nb.cells if grade_id(cell) == task.key]
    cells = [cell for cell in cells if cell.source.strip() not in ("", _stub(task))]
    if len({cell.source.strip() for cell in cells}) > 1:
        return (
            "the notebook holds the cell for this answer more than once, with different answers: "
            "the one before the first check counts"
        )
    if cells and cells[0].cell_type != "code":
        return "the cell for this answer is no code cell any more; its text was run as code"
    return ""


def _retyped(nb, task, assignment):
    """The place of the last cell above the task's check, or else the last of all, that binds the
    task's function without being named for it; None without one.

    Cells of the chapter do not count, which may define a function of this name; the stub does where
    there is nothing else. Several exercises may ask for a function of one name: then the cell
    belongs to the first check below it that names its exercise."""
    stub = _stub(task)
    shared = sum(one.function == task.function for one in assignment.tasks) > 1
    checks = _checks(nb)
    found = [
        (text != stub, place)
        for place, cell in enumerate(nb.cells)
        if cell.cell_type == "code"
        and task.function in normalize("NFKC", text := cell.source.strip())  # as Python reads it
        and not grade_id(cell).endswith(("-check", "-hidden"))
        and grade_id(cell) != task.key
        and (text == stub or text not in assignment.book)
        and (not shared or _checked_next(checks, place, task))
        and binds(task.function, text)
    ]
    end = min((place for place, id in checks if id == task.id), default=len(nb.cells))
    above = [one for one in found if one[0] and one[1] < end]
    return max(above or found)[1] if found else None


def _checks(nb):
    """(place, id) of each exercise that a cell of the notebook checks, in order."""
    return [
        (place, match["id"])
        for place, cell in enumerate(nb.cells)
        if cell.cell_type == "code"
        for match in source.CHECK_CALL.finditer(cell.source)
    ]


def _checked_next(checks, place, task):
    """Whether the first check below a cell is that of the task, or no check names the task."""
    below = next((id for at, id in checks if at >= place), None)
    return below == task.id or all(id != task.id for _, id in checks)


def _fresh(cell, text=None):
    new = new_code_cell if cell.cell_type == "code" else new_markdown_cell
    own = {"nbgrader": dict(cell.metadata.nbgrader)} if "nbgrader" in cell.metadata else {}
    return new(cell.source if text is None else text, metadata=own)
