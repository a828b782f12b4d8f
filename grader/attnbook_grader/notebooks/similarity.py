"""Which cell answers an exercise, and which answers are equal, read off the code.

Equal answers point an instructor to something; they prove nothing, and can be fooled."""

from __future__ import annotations

import ast
import re
import warnings

__all__ = ["COMPREHENSIONS", "binding", "binds", "bound", "imported", "nameless", "parsed"]

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
LONGEST = 200_000
"""Characters of code that are looked through; the longest section has a fifth of it."""
_IPYTHON = re.compile(r"^([ \t]*)[%!].*$")
"""A line of IPython's own."""


def nameless(code: str) -> str:
    """The code without comments, docstrings, annotations and layout, and with the names that it
    binds itself replaced by their number: two that differ in names alone come out equal; as it is
    when it is not Python, or nested too deep.

    Of an import's name, what it stands for takes the place.
    """
    tree = parsed(code)
    if tree is None:
        return code.strip()
    _drop_docstrings(tree)
    imports, own, nodes = {}, {}, list(ast.walk(tree))
    for node in nodes:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            imports |= imported(node)
            for one in node.names:
                one.asname = None
        field = _BINDS.get(type(node))
        if field and getattr(node, field):
            own.setdefault(getattr(node, field), f"_{len(own)}")
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            own.setdefault(node.id, f"_{len(own)}")
    for node in nodes:
        field = _BINDS.get(type(node))
        if field and getattr(node, field):
            setattr(node, field, own[getattr(node, field)])
        if isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            node.returns = None
        elif isinstance(node, ast.Name):
            node.id = own.get(node.id, imports.get(node.id, node.id))
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            node.names = [own.get(name, name) for name in node.names]
    try:
        return ast.unparse(tree)
    except (RecursionError, ValueError, MemoryError):  # a number too long to be written, for one
        return code.strip()


_BINDS = {
    ast.FunctionDef: "name",
    ast.AsyncFunctionDef: "name",
    ast.ClassDef: "name",
    ast.arg: "arg",
    ast.ExceptHandler: "name",
    ast.MatchAs: "name",
    ast.MatchStar: "name",
    ast.MatchMapping: "rest",
}
"""Where a part of the code that is no ast.Name holds a name that it binds."""


def _drop_docstrings(tree):
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(tree):
        if isinstance(node, kinds) and len(node.body) > 1 and ast.get_docstring(node) is not None:
            node.body.pop(0)


def binding(name: str, answer: str, cells: list[str]) -> str:
    """The code of the cell that binds the name last: a student may have answered in another cell
    than that for the answer.

    cells: those that run before the answer is judged, in order. When none binds it, `answer`.
    """
    if sum(map(len, cells)) > LONGEST:
        return answer
    for code in reversed(cells):
        if code == answer and parsed(code) is None or binds(name, code, or_means_to=False):
            return code
    return answer


def binds(name: str, code: str, or_means_to: bool = True) -> bool:
    """Whether a cell gives the name a value: by `def`, in a block, in a tuple, or by an import.

    or_means_to: what is no Python may have been meant to, where it says `def`
    """
    tree = parsed(code)
    if tree is None:
        return or_means_to and bool(re.search(rf"^def +{name}\b", code, re.MULTILINE))
    return name in bound(tree.body)


def bound(nodes) -> dict[str, str | None]:
    """The names that get a value in these statements, outside of the functions and classes in
    them, each with what it stands for where it is imported.
    """
    names, imports, left, outer = set(), {}, [*nodes], set()
    while left:
        node = left.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif not isinstance(node, (*COMPREHENSIONS, ast.Lambda)):
            left += ast.iter_child_nodes(node)
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            imports |= imported(node)
        elif isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            names.add(node.id)
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            names.add(node.name)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            outer |= {*node.names}
    return dict.fromkeys(names - outer) | imports


def imported(node: ast.Import | ast.ImportFrom) -> dict[str, str]:
    """What each name stands for that an import binds: {"attend": "attnbook.mechanisms.attend"}."""
    if isinstance(node, ast.ImportFrom):
        names = (one for one in node.names if one.name != "*")
        return {one.asname or one.name: f"{node.module or ''}.{one.name}" for one in names}
    tops = {one.name.partition(".")[0]: one for one in node.names if not one.asname}
    return {one.asname: one.name for one in node.names if one.asname} | {top: top for top in tops}


def parsed(code):
    """The tree of a cell without IPython's own lines; None if it is not Python.

    A line that begins with % or ! is IPython's only where Python cannot read it: inside brackets, %
    is the remainder."""
    if len(code) > LONGEST:
        return None
    lines = code.split("\n")
    # reading a long cell takes a fifth of a second
    for tries in range(min(50, 5 * LONGEST // (len(code) + 1)), -1, -1):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of a student's "\d", on the instructor's terminal
                return ast.parse("\n".join(lines))
        except SyntaxError as error:
            place = (error.lineno or 0) - 1
            if not (0 <= place < len(lines) and _IPYTHON.match(lines[place])):
                return None
            lines = [
                _IPYTHON.sub(r"\1pass", line) if tries == 1 or at == place else line
                for at, line in enumerate(lines)
            ]
        except (ValueError, RecursionError, MemoryError):
            return None
    return None
