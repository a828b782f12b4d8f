"""A made-up class: one student for each way to hand in exercises, with the marks that each must get.

`attnbook course example` writes it, to try a round of grading on; the tests grade it.
"""
from __future__ import annotations

import copy
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell

from ..checks import judge
from . import source
from .exercises import Section, instructor_notebook

_LOOP = "\n\ndef {f}(*inputs):\n    while True:\n        pass\n"
_YES = """

class Yes:
    def __eq__(self, other):
        return True
    def __getattr__(self, name):
        return self
    def __call__(self, *inputs):
        return self

def {f}(*inputs):
    return Yes()
"""


def made_up_class(section: Section) -> dict[str, tuple[str, dict[str, float]]]:
    """The hand-ins for one section: student -> (text of the .ipynb file, exercise id -> marks it must get).

    The first exercise is the one that is spoiled, the others are right, except where a whole notebook is lost.
    """
    first, *rest = section.tasks
    full = {task.id: float(sum(cell.metadata.nbgrader.points for cell in task.tests)) for task in section.tasks}
    none, lost = dict.fromkeys(full, 0.0), {**full, first.id: 0.0}
    half = {**full, first.id: float(first.tests[0].metadata.nbgrader.points)}
    answers = {task.id: _plain(task.solution.source) for task in section.tasks}
    function, right = first.function, answers[first.id]

    def book(spoiled=None):
        return _notebook(section, answers if spoiled is None else {**answers, first.id: spoiled})

    def without(nb, drop):
        nb.cells = [cell for cell in nb.cells if not drop(cell.metadata.get("nbgrader", {}))]
        return nb

    edited = book(f"def {function}(*inputs):\n    return None\n")
    for cell in edited.cells:
        if cell.metadata.get("nbgrader", {}).get("grade"):
            cell.source = "assert True  # this is right"
            cell.metadata.nbgrader.points = 100
    unnamed = book()
    for cell in unnamed.cells:
        cell.metadata.pop("nbgrader", None)
    forged = book(f"def {function}(*inputs):\n    return None\n")
    forged.cells.insert(1, new_code_cell("def check(*inputs):\n    print('right')\n\n\ngrade = judge = check\n"))
    lucky = right + _only_first_calls(right, first)
    notebooks = {
        "right": (book(), full),
        "right in the chapter": (_chapter(section, answers), full),
        "right without checks": (without(book(), lambda meta: meta.get("grade")), full),
        "right without cell names": (unnamed, full),
        "right and talkative": (book(right + _talks(first)), full),
        "partly right": (book(lucky), half),
        "wrong": (book(f"def {function}(*inputs):\n    return inputs[0]\n"), lost),
        "untouched": (_notebook(section, {}), none),
        "crashing": (book(f"def {function}(*inputs):\n    return [][1]\n"), lost),
        "not Python": (book(f"def {function}(:\n    return\n"), lost),
        "endless loop": (book(_LOOP.format(f=function)), lost),
        "edited checks": (edited, lost),
        "forged check": (forged, lost),
        "answer deleted": (without(book(), lambda meta: meta.get("grade_id") == first.key), lost),
        "always equal": (book(_YES.format(f=function)), lost),
        "ends its grader": (book(right + "\nimport os, signal\nos.kill(os.getppid(), signal.SIGTERM)\nos.kill(os.getppid(), 9)\n"), none),
        "ends the kernel": (book(right + "\nimport os\nos._exit(0)\n"), none),
    }
    texts = {student: (nbformat.writes(nb), marks) for student, (nb, marks) in notebooks.items()}
    texts["not JSON"] = (nbformat.writes(book())[:-40], none)
    texts["another format"] = ('{"answers": [1, 2, 3]}', none)
    texts["empty file"] = ("", none)
    return texts


def write_class(folder: Path, section: Section, only=None) -> dict[str, dict[str, float]]:
    """Write `folder`/STUDENT/SECTION.ipynb for the made-up class and return student -> exercise id -> marks.

    only: names of students; default all
    """
    expected = {}
    for student, (text, marks) in made_up_class(section).items():
        if only is None or student in only:
            (folder / student).mkdir(parents=True)
            (folder / student / f"{section.name}.ipynb").write_text(text, encoding="utf-8")
            expected[student] = marks
    return expected


def _plain(solution):
    return "\n".join(line for line in solution.split("\n") if line.strip() not in source.SOLUTION)


def _notebook(section: Section, answers) -> NotebookNode:
    """The released notebook with these answers; a stub where there is none."""
    nb = instructor_notebook(section)
    by_key = {task.key: answers.get(task.id) for task in section.tasks}
    nb = source.student_version(_unmarked(nb))
    for cell in nb.cells:
        answer = by_key.get(cell.metadata.get("nbgrader", {}).get("grade_id"))
        if answer is not None:
            cell.source = answer
    return nb


def _chapter(section: Section, answers) -> NotebookNode:
    """The chapter's public notebook with these answers, a cell of the student's own, and a cell that must not run again."""
    nb = source.student_version(source.read_source(section.path))
    by_key = {task.key: answers.get(task.id) for task in section.tasks}
    for cell in nb.cells:
        answer = by_key.get(cell.metadata.get("nbgrader", {}).get("grade_id"))
        if answer is not None:
            cell.source = answer
    nb.cells.insert(1, new_markdown_cell("My notes."))
    nb.cells.insert(2, new_code_cell("scratch = [1, 2, 3]\nscratch"))
    return nb


def _unmarked(nb):
    """The notebook as a source has it: hidden checks and nbgrader's metadata are put in anew by student_version."""
    nb = copy.deepcopy(nb)
    nb.cells = [cell for cell in nb.cells if not cell.metadata.get("nbgrader", {}).get("grade_id", "").endswith("-hidden")]
    for cell in nb.cells:
        cell.metadata.pop("nbgrader", None)
    return nb


def _only_first_calls(right, task):
    """Code that makes an answer right for the visible check only, which calls it this often."""
    scope, count = {}, 0
    exec(right, scope)

    def counted(*inputs):
        nonlocal count
        count += 1
        return scope[task.function](*inputs)

    judge(task.id, counted)
    calls = 2 * count  # the graded cell checks once for the reader and once for the mark
    return (
        f"\n\nhonest, left = {task.function}, {calls}\n\n\ndef {task.function}(*inputs):\n    global left\n    left -= 1\n"
        "    return honest(*inputs) if left >= 0 else inputs[0]\n"
    )


def _talks(task):
    return (
        f"\n\nquiet = {task.function}\n\n\ndef {task.function}(*inputs):\n    import sys, warnings\n    print('hello')\n"
        "    print('hello', file=sys.stderr)\n    warnings.warn('hello')\n    return quiet(*inputs)\n"
    )
