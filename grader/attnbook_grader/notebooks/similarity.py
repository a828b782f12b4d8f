"""Which cell answers an exercise, and which answers are equal, read off the code.

Equal answers point an instructor to something; they prove nothing, and can be fooled."""

from __future__ import annotations

import ast
import re
import symtable
import warnings

__all__ = ["binding", "binds", "nameless", "plain"]

LONGEST = 200_000
"""Characters of code that are looked through; the longest section has a fifth of it."""
_IPYTHON = re.compile(r"^([ \t]*)[%!].*$")
"""A line of IPython's own."""


def plain(code: str) -> str:
    """The code without comments, docstrings and layout; as it is when it is not Python, or
    nested too deep.
    """
    tree = _parse(code)
    return code.strip() if tree is None else _written(_without_docstrings(tree), code)


def nameless(code: str) -> str:
    """The code as `plain` gives it, also without annotations, and with the names that it binds
    itself replaced by their number: two that differ in names alone come out equal.

    Of an import's name, what it stands for takes the place.
    """
    tree = _parse(code)
    if tree is None:
        return code.strip()
    imported, own, nodes = {}, {}, list(ast.walk(_without_docstrings(tree)))
    for node in nodes:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            module = f"{node.module or ''}." if isinstance(node, ast.ImportFrom) else ""
            for one in node.names:
                if one.asname or module:
                    imported[one.asname or one.name] = module + one.name
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
            node.id = own.get(node.id, imported.get(node.id, node.id))
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            node.names = [own.get(name, name) for name in node.names]
    return _written(tree, code)


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


def _without_docstrings(tree):
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if (
            isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Module))
            and body
            and isinstance(body[0], ast.Expr)
        ):
            if (
                isinstance(body[0].value, ast.Constant)
                and isinstance(body[0].value.value, str)
                and len(body) > 1
            ):
                body.pop(0)
    return tree


def _written(tree, code):
    try:
        return ast.unparse(tree)
    except (RecursionError, ValueError, MemoryError):  # a number too long to be written, for one
        return code.strip()


def binding(name: str, answer: str, cells: list[str]) -> str:
    """The code of the cell that binds the name last: a student may have answered in another cell
    than that for the answer.

    cells: those that run before the answer is judged, in order. When none binds it, `answer`.
    """
    if sum(map(len, cells)) > LONGEST:
        return answer
    for code in reversed(cells):
        bound = _bound(name, code)
        if bound or bound is None and code == answer:
            return code
    return answer


def binds(name: str, code: str) -> bool:
    """Whether a cell gives the name a value: by `def`, in a block, in a tuple, or by an import.

    What is no Python may have been meant to, where it says `def`.
    """
    bound = _bound(name, code)
    if bound is None:
        return bool(re.search(rf"^def +{name}\b", code, re.MULTILINE))
    return bound


def _bound(name, code):
    """Whether the name gets a value outside of functions; None where the code cannot be read."""
    tree = _parse(code)
    if tree is None:
        return None
    try:
        table = symtable.symtable(ast.unparse(tree), "cell", "exec")
        symbol = table.lookup(name)
    except KeyError:
        return False
    except (ValueError, RecursionError, MemoryError, SyntaxError):
        return None
    return symbol.is_assigned() or symbol.is_imported()


def _parse(code):
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
