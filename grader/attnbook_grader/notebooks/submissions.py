"""What a student handed in: reading it, and putting the grader's cells back into it."""

from __future__ import annotations

import ast
import re
import warnings
from typing import cast
from unicodedata import normalize

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook

from bookbuild import folds, setup_cell, source

from ..course.assignments import Assignment
from ..course.exercises import Task
from .reading import cells_of
from .similarity import LONGEST, binds

_SETUP = "import attnbook\nsetup = attnbook.setup(seed=0, figures=False)"
"""In place of the set-up cell: the same names, without installing the package, and without
matplotlib, since nobody looks at figures.
"""
_MAGIC = re.compile(r"^([ \t]*)[%!].*$", re.MULTILINE)


def parse_submission(content: bytes) -> NotebookNode:
    """The notebook in these bytes, its folded cells without the titles that publishing gave them.
    Raises Unreadable, with the reason, when there is none."""
    notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": cells_of(content)}
    made = cast(NotebookNode, nbformat.from_dict(notebook))
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
    tests = {
        cell.metadata.nbgrader.grade_id: task for task in assignment.tasks for cell in task.tests
    }

    def put_tests(task):
        cells.extend(_fresh(test) for test in task.tests)
        placed.add(task.id)

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
                put_tests(test)
        elif cell.cell_type == "code" and cell.source.strip() not in stubs:
            text = cell.source.strip()
            kept = (
                _SETUP
                if setup_cell.is_setup(text)
                else definitions(text)
                if text in book
                else cell.source
            )
            if kept.strip():
                cells.append(new_code_cell(kept))
    for task in assignment.tasks:
        if task.id not in seen:
            remarks[task.id] = "the cell for your answer is missing from the notebook"
            cells += [_fresh(task.statement), _fresh(task.solution, _stub(task))]
        if task.id not in placed:
            at = next(i for i, c in enumerate(cells) if grade_id(c) == task.key)
            cells[at + 1 : at + 1] = [_fresh(test) for test in task.tests]
    for place, cell in enumerate(cells):
        cell.id = f"cell-{place:03d}"
    made = new_notebook(
        cells=cells, metadata=NotebookNode({k: NotebookNode(v) for k, v in source.METADATA.items()})
    )
    return made, remarks


def definitions(code: str) -> str:
    """The imports, functions, classes and constants of a cell, without what it runs; "" for what is
    not Python, or too long or too deep to be read.

    A constant is a name for a literal: SIZES = (8, 64). IPython's own lines, %pip and !ls, are left
    out.
    """
    kinds = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a student's "\d", on the instructor's terminal
        for text in (code, _MAGIC.sub(r"\1pass", code)) if len(code) <= LONGEST else ():
            try:
                return "\n\n".join(
                    ast.unparse(node)
                    for node in ast.parse(text).body
                    if isinstance(node, kinds) or _constant(node)
                )
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                continue
    return ""


def _constant(node):
    if isinstance(node, ast.Assign):
        targets, value = node.targets, node.value
    elif isinstance(node, ast.AnnAssign) and node.value:
        targets, value = [node.target], node.value
    else:
        return False
    kinds = (ast.Name, ast.Tuple, ast.List, ast.Starred, ast.expr_context)
    if not all(isinstance(part, kinds) for target in targets for part in ast.walk(target)):
        return False
    try:
        ast.literal_eval(value)
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
            place = _retyped(nb, task, assignment.book)
        if place is None or named and not written and nb.cells[place].source.strip() == _stub(task):
            place = next(iter(named), place)
        if place is not None:
            found.setdefault(place, []).append(task)
    return found


def _stub(task):
    return source.cut_solution(task.solution.source).strip()


def answered_twice(nb: NotebookNode, task: Task) -> bool:
    """Whether cells of the answer's name, copied perhaps, hold different answers."""
    stub = _stub(task)
    return (
        len({cell.source.strip() for cell in nb.cells if grade_id(cell) == task.key} - {"", stub})
        > 1
    )


def _retyped(nb, task, book):
    """The place of the last cell that binds the task's function without being named for it; None
    without one.

    Cells of the chapter do not count, which may define a function of this name; the stub does where
    there is nothing else."""
    stub = _stub(task)
    found = [
        (text != stub, place)
        for place, cell in enumerate(nb.cells)
        if cell.cell_type == "code"
        and task.function in normalize("NFKC", text := cell.source.strip())  # as Python reads it
        and not (grade_id(cell) or "").endswith(("-check", "-hidden"))
        and grade_id(cell) != task.key
        and (text == stub or text not in book)
        and binds(task.function, text)
    ]
    return max(found)[1] if found else None


def grade_id(cell) -> str | None:
    """The name that nbgrader's metadata give a cell."""
    meta = cell.metadata.get("nbgrader", {})
    name = meta.get("grade_id") if isinstance(meta, dict) else None
    return name if isinstance(name, str) else None  # a student may have put anything there


def _fresh(cell, text=None):
    made = NotebookNode(
        {
            "cell_type": cell.cell_type,
            "metadata": {},
            "source": cell.source if text is None else text,
        }
    )
    if "nbgrader" in cell.metadata:
        made.metadata = NotebookNode({"nbgrader": NotebookNode(cell.metadata.nbgrader)})
    if cell.cell_type == "code":
        made.outputs, made.execution_count = [], None
    return made
