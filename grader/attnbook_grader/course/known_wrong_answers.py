"""The book's known wrong answers as cells of a notebook: what a class would hand in, with words
that the message of the check must contain.
"""

from __future__ import annotations

import ast
import importlib.util
import inspect
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from .exercises import Task

FOLDER = "tests/exercises/wrong_answers"
_REGISTER = {"wrong", "edits", "edit"}  # how the tests register answers; a notebook does not


@dataclass(frozen=True)
class WrongAnswer:
    """A wrong answer to an exercise.

    name: of the function in the book's tests, or the edit of the solution.
    words: what the verdict must contain.
    code: a cell that defines the answer.
    """

    name: str
    words: str
    code: str


def wrong_answers(book: Path, tasks: list[Task]) -> dict[str, list[WrongAnswer]]:
    """The known wrong answers to each exercise, from the tests in a checkout of the book.

    Returns {exercise id: its wrong answers}.

    Raises ValueError when the checkout has no such tests, or an exercise has no wrong answer.
    """
    folder = book / FOLDER
    if not folder.is_dir():
        raise ValueError(
            f"book: there is no folder {folder}; the known wrong answers are part of the book's "
            f"checkout"
        )
    registered, cells = _imported(folder.resolve()), {}
    for task in tasks:
        if not registered.get(task.id):
            raise ValueError(f"book: the exercise {task.id} has no known wrong answer in {folder}")
        cells[task.id] = [
            WrongAnswer(one.name, one.words, one.code or _defining(task.function, one))
            for one in registered[task.id]
        ]
    return cells


def _defining(function, wrong):
    return f"{_cell(wrong.function.__module__)}\n\n{function} = {wrong.name}\n"


@cache
def _imported(folder: Path) -> dict:
    """What the tests register: {exercise id: its wrong answers}.

    Imported from the folder, not by name: the book may be another checkout than the one that
    Python finds.
    """
    name = f"attnbook_wrong_answers_{abs(hash(folder)):x}"
    spec = importlib.util.spec_from_file_location(
        name, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None and spec.loader is not None, folder
    sys.modules[name] = package = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(package)
    return package.WRONG


@cache
def _cell(module: str) -> str:
    """The code of a module of wrong answers, which may share functions, without what registers
    them.
    """
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    tree.body = [node for node in tree.body if not _registers(node)]
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.decorator_list = [one for one in node.decorator_list if not _registers(one)]
    return ast.unparse(tree)


def _registers(node: ast.AST) -> bool:
    if isinstance(node, ast.ImportFrom):
        return any(one.name in _REGISTER for one in node.names)
    call = node.value if isinstance(node, (ast.Expr, ast.Assign)) else node
    return isinstance(call, ast.Call) and getattr(call.func, "id", "") in _REGISTER
