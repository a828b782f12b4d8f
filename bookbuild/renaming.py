"""Whether the outputs of a cell are still those of its code: comments and line breaks change none,
nor does another name for a thing of the library.
"""

from __future__ import annotations

import ast
import re

from nbformat import NotebookNode

from . import folds, setup_cell

_MAGIC = re.compile(r"^([ \t]*)([%!].*)$", re.MULTILINE)


def what_runs(cell: NotebookNode, renamed: dict[str, str] | None = None) -> str:
    """What of a code cell can change its output, with the names of ``renamed`` replaced: neither
    the title on its fold nor the address that the set-up cell installs from, no comment, no line
    break, not the order of its imports.
    """
    if setup_cell.is_setup(cell.source):
        return ""
    code = with_names(folds.untitled(cell.source), renamed or {})
    try:
        tree = ast.parse(_MAGIC.sub(lambda found: f"{found[1]}{found[2]!r}", code))
    except SyntaxError:
        return code
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            node.names.sort(key=lambda one: one.name)
    _sort_imports(tree.body)
    return ast.dump(tree)


def with_names(text: str, renamed: dict[str, str]) -> str:
    """The text with every name of ``renamed``, a word or words joined by dots, replaced by the
    other.
    """
    for old, new in renamed.items():
        text = re.sub(rf"(?<!\w){re.escape(old)}(?!\w)", new, text)
    return text


def clash(nb: NotebookNode, renamed: dict[str, str]) -> str | None:
    """Why a stored notebook cannot keep its outputs under new names: one is shown, or the new
    one is taken. None if it can.
    """
    for cell in nb.cells:
        if cell.cell_type != "code":
            continue
        shown = "\n".join(str(output) for output in cell.outputs)
        for old, new in renamed.items():
            if with_names(cell.source, {new: ""}) != cell.source:
                return f"{new} stands in its code before the renaming"
            if with_names(shown, {old: ""}) != shown:
                return f"an output shows {old}: make it again"
    return None


def _sort_imports(body):
    """In place: every run of import statements in the order of what they say."""
    begin = 0
    while begin < len(body):
        end = begin
        while end < len(body) and isinstance(body[end], (ast.Import, ast.ImportFrom)):
            end += 1
        body[begin:end] = sorted(body[begin:end], key=ast.dump)
        begin = end + 1
