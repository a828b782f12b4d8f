"""What a folded cell holds, in the words that stand on its fold: on the website, on Colab (the
title of a form) and in JupyterLab (the first line of a collapsed cell).
"""

from __future__ import annotations

import ast
import re

from nbformat import NotebookNode

from . import setup_cell
from .measure import FOLDED

_TITLE = re.compile(r"\A#@title .*\n")
_MAGIC = re.compile(r"^([ \t]*)[%!].*$", re.MULTILINE)
_COMPARES = re.compile(r"\bassert_(close|allclose|array_equal|equal)\b|\b(same|compare)\(")
_GIVEN = ("attnbook_runs", "attnbook.figures", "attnbook.tasks", "attnbook.training")
"""What a check takes from the library to make its problem, not to compare with."""


def title(cell: NotebookNode, numbers: dict[str, str]) -> str | None:
    """The words on the fold of a code cell of a source, None for one that stands open.

    numbers: of the figures, by label.
    """
    tags = {*cell.metadata.get("tags", [])}
    if not FOLDED & tags:
        return "Output" if "hide-output" in tags else None
    if setup_cell.TAG in tags:
        return "Set-up"
    check = _check(cell.source)
    shown = cell.metadata.get("mystnb", {})
    if name := shown.get("figure", {}).get("name"):
        said = f"Code for Figure {numbers[name]}"
    elif "image" in shown:
        said = "Code for the figure below"
    elif "hide-cell" not in tags and re.search(r"\b(print|display)\(|^\w+\.table\(", cell.source):
        said = "Code for the output below"
    elif check:
        return check
    else:
        said = _defines(cell.source)
    return f"{said} · {check[0].lower()}{check[1:]}" if check else said


def titled(cell: NotebookNode, numbers: dict[str, str]) -> str:
    """The code of a folded cell below its title."""
    return f"#@title {title(cell, numbers)}\n{cell.source}"


def untitled(code: str) -> str:
    """The code without the title of a fold, of this day or another."""
    return _TITLE.sub("", code)


def _check(code):
    """What kind of check the code is, None for none."""
    tree = _parsed(code)
    if not any(isinstance(node, ast.Assert) for node in ast.walk(tree)) and not (
        _COMPARES.search(code)
    ):
        return None
    compared = [
        name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and (name := node.module or "").startswith("attnbook")
        and not name.startswith(_GIVEN)
    ]
    library = compared and _COMPARES.search(code)
    return "Check against the library" if library else "Check of the numbers"


def _defines(code):
    kinds = ast.FunctionDef, ast.ClassDef
    names = [node.name for node in _parsed(code).body if isinstance(node, kinds)]
    return f"Code: {', '.join(names)}" if names else "Code"


def _parsed(code):
    try:
        return ast.parse(_MAGIC.sub(r"\1pass", code))
    except SyntaxError:  # named by the rules
        return ast.parse("")
