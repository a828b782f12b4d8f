"""What students hand in: finding it, reading it, and putting the grader's cells back into it."""
from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_notebook

from . import source
from .exercises import Section


@dataclass(frozen=True)
class Submission:
    """One notebook of one student: `path` is None when nothing was handed in for the section."""

    student: str
    section: str
    path: Path | None


class Unreadable(ValueError):
    """The file is no notebook; the message is for the student."""


def find_submissions(folder: str | Path, sections: list[str]) -> tuple[list[Submission], list[str]]:
    """The notebooks in `folder`, which holds one folder a student: STUDENT/SECTION.ipynb, at any depth.

    Returns the submissions by student and section, and remarks about files that belong to none.
    Raises ValueError when the folder is missing or holds no student.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise ValueError(f"submissions: {folder} is {'a file' if folder.exists() else 'not there'}, expected a folder")
    students = sorted(entry for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    remarks = [f"{entry.name}: not in a student's folder, left out" for entry in sorted(folder.glob("*.ipynb"))]
    if not students:
        raise ValueError(f"submissions: {folder} holds no student: expected a folder for each, STUDENT/SECTION.ipynb")
    found = []
    for student in students:
        taken = {}
        for path in sorted(student.rglob("*.ipynb")):
            name = path.relative_to(student)
            if any(part.startswith(".") for part in name.parts):
                continue
            if path.stem not in sections:
                remarks.append(f"{student.name}/{name}: is named like no section ({', '.join(sections)}), left out")
            elif path.stem in taken:
                remarks.append(f"{student.name}/{name}: a second {path.name}, left out")
            else:
                taken[path.stem] = path
        found += [Submission(student.name, section, taken.get(section)) for section in sections]
    return found, remarks


def read_submission(path: Path) -> NotebookNode:
    """The notebook at `path`. Raises Unreadable, with the reason, when it is none."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise Unreadable(f"the file cannot be read as UTF-8 text ({type(error).__name__})") from None
    try:
        nb = nbformat.reads(text, as_version=4)
        nbformat.validate(nb, relax_add_props=True)
    except Exception as error:  # nbformat raises its own kinds, and KeyError, AttributeError, … for other JSON
        said = re.split(r": '|\n", str(error).strip())
        raise Unreadable(f"the file is not a Jupyter notebook ({said[0][:120] if said else type(error).__name__})") from None
    return nb


def restore(nb: NotebookNode, section: Section) -> tuple[NotebookNode, dict[str, str]]:
    """The notebook to grade: the student's answers and own cells, with the grader's statements and checks.

    Checks are always those of the source: deleted ones come back, edited ones are replaced. Cells of the chapter keep
    only their imports and definitions, so that nothing is trained while grading. An answer cell that is gone is
    replaced by the stub.

    Returns the notebook and, by exercise id, remarks for the student.
    """
    answers, order = _answers(nb, section)
    book, cells, remarks, placed = _book_cells(section), [], {}, set()
    tests = {cell.metadata.nbgrader.grade_id: task for task in section.tasks for cell in task.tests}

    def put_tests(task):
        cells.extend(_fresh(test) for test in task.tests)
        placed.add(task.id)

    seen = set()
    for place, cell in enumerate(order):
        task = answers.get(place)
        if task is not None:
            cells += [_fresh(task.statement), _fresh(task.solution, cell.source)]
            seen.add(task.id)
            continue
        test = tests.get(_grade_id(cell))
        if test is not None:
            if test.id in seen and test.id not in placed:
                put_tests(test)
        elif cell.cell_type == "code" and cell.source.strip():
            kept = definitions(cell.source) if cell.source.strip() in book else cell.source
            if kept.strip():
                cells.append(new_code_cell(kept))
    for task in section.tasks:
        if task.id not in seen:
            remarks[task.id] = "the cell for your answer is missing from the notebook"
            stub = source._cut(task.solution.source, source.SOLUTION, source.STUB)
            cells += [_fresh(task.statement), _fresh(task.solution, stub)]
        if task.id not in placed:
            at = next(i for i, c in enumerate(cells) if _grade_id(c) == task.key)
            cells[at + 1 : at + 1] = [_fresh(test) for test in task.tests]
    for place, cell in enumerate(cells):
        cell.id = f"cell-{place:03d}"
    made = new_notebook(cells=cells, metadata=NotebookNode({k: NotebookNode(v) for k, v in source.METADATA.items()}))
    return made, remarks


def definitions(code: str) -> str:
    """The imports, functions and classes of a cell, without what it runs."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError):
        return ""
    kinds = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)
    return "\n\n".join(ast.unparse(node) for node in tree.body if isinstance(node, kinds))


def _answers(nb, section):
    """Place of each answer among the cells -> its task. By cell name; by function where a notebook has lost all names."""
    cells, keys = list(nb.cells), {task.key: task for task in section.tasks}
    found, taken = {}, set()
    for place, cell in enumerate(cells):
        task = keys.get(_grade_id(cell))
        if task is not None and task.id not in taken:
            found[place] = task
            taken.add(task.id)
    if not any(_grade_id(cell) for cell in cells):
        for task in section.tasks:
            for place, cell in enumerate(cells):
                if cell.cell_type == "code" and re.search(rf"^def {task.function}\b", cell.source, re.MULTILINE):
                    found[place] = task
                    break
    return found, cells


def _book_cells(section):
    nb = source.student_version(source.read_source(section.path))
    return {cell.source.strip() for cell in nb.cells if cell.cell_type == "code"} | {section.setup.source.strip()}


def _grade_id(cell):
    meta = cell.metadata.get("nbgrader", {})
    return meta.get("grade_id") if isinstance(meta, dict) else None


def _fresh(cell, text=None):
    made = NotebookNode({"cell_type": cell.cell_type, "metadata": {}, "source": cell.source if text is None else text})
    if "nbgrader" in cell.metadata:
        made.metadata = NotebookNode({"nbgrader": NotebookNode(cell.metadata.nbgrader)})
    if cell.cell_type == "code":
        made.outputs, made.execution_count = [], None
    return made
