"""Whose answer it is: answers that use the book's own implementation, and answers that are equal.

Both read the code and do not run it. They point an instructor to something; they prove nothing, and
can be fooled."""

from __future__ import annotations

import ast
import re
import warnings
from typing import cast

from ..course.exercises import Task
from .scopes import Bindings, outer

__all__ = ["binding", "binds", "nameless", "plain", "uses_library"]

FREE = ("attnbook", "attnbook.setup", "attnbook.checks", "attnbook.figures")
"""Parts of the package that are no solution of anything."""
LONGEST = 200_000
"""Characters of code that are looked through; the longest section has a fifth of it."""
_IPYTHON = re.compile(r"^([ \t]*)[%!].*$")
"""A line of IPython's own."""
_TRICKS = re.compile(r"import_module|__import__|sys\.modules|importlib|\beval\b|\bexec\b")


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
    except RecursionError:
        return code.strip()


def binding(name: str, answer: str, cells: list[str]) -> str:
    """The code of the cell that binds the name last: a student may have answered in another cell
    than that for the answer.

    cells: those that run before the answer is judged, in order. When none binds it, `answer`.
    """
    if sum(map(len, cells)) > LONGEST:
        return answer
    for code in reversed(cells):
        tree, names = _parse(code), Bindings("attnbook")
        if tree is not None:
            names.add(tree)
        if names.of(name, names.end) is not None or tree is None and code == answer:
            return code
    return answer


def binds(name: str, code: str) -> bool:
    """Whether a cell gives the name a value: by `def`, in a block, in a tuple, or by an import.

    What is no Python may have been meant to, where it says `def`.
    """
    tree = _parse(code)
    if tree is None:
        return bool(re.search(rf"^def +{name}\b", code, re.MULTILINE))
    names = Bindings("attnbook")
    names.add(tree)
    return names.of(name, names.end) is not None


def uses_library(answer: str, cells: list[str], task: Task) -> str:
    """The name from attnbook that the answer reaches, directly or through names of other cells; ""
    if none.

    The answer is the cell for it, and whatever binds the function's name when it is judged.

    cells: those that run before the answer is judged, in order, itself among them
    What the exercise's own cell imports is allowed. An import hidden in a string counts as one.
    Code of more than LONGEST characters in all is not looked through."""
    if sum(map(len, cells)) > LONGEST:
        return ""
    trees = {code: _parse(code) for code in (*cells, answer)}
    allowed = set(_imported(_parse(task.solution.source)))
    names, queue, tricks = Bindings("attnbook"), [], {}
    for code in cells if answer in cells else (*cells, answer):
        tree = trees[code]
        statements = names.add(tree) if tree is not None else ()
        if code == answer:
            queue += [(statement, until, trees[code]) for statement, until in statements]
    queue.append((ast.Name(task.function, ast.Load()), names.end, None))
    queued, seen = {id(node) for node, _, _ in queue}, set()
    while queue:
        node, until, around = queue.pop()
        for name, full in _imported(node).items():
            if name not in allowed:
                return full
        for part, later in outer(node):
            if isinstance(part, ast.Constant):
                if isinstance(part.value, str) and _hidden(part.value):
                    if id(around) not in tricks:
                        tricks[id(around)] = any(map(_TRICKS.search, _words(around)))
                    if tricks[id(around)]:
                        return part.value[:60]
                continue
            name, rest = _dotted(part)
            bound = names.of(name, names.end if later else until)
            if (name == "attnbook" and rest if bound is None else bound.whole) and not (
                rest and _free(f"attnbook{rest}")
            ):
                return f"attnbook{rest}"
            while bound is not None and bound not in seen:
                seen.add(bound)
                if _ours(bound.full) and not _free(bound.full) and name not in allowed:
                    return bound.full + rest
                new = [one for one in bound.nodes if not bound.full and id(one) not in queued]
                queued.update(map(id, new))
                queue += [(one, bound.until, one) for one in new]
                bound = bound.before
    return ""


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


def _words(tree):
    """The names and strings in a tree, but for an `eval` that is no function of Python's: that
    of a model, or a word in a text.
    """
    for part in ast.walk(tree):
        for _, value in ast.iter_fields(part):
            if isinstance(value, str) and not (
                isinstance(part, ast.Attribute) and value in ("eval", "exec")
            ):
                yield (
                    re.sub(r"\b(eval|exec)\b", "", value)
                    if isinstance(part, ast.Constant)
                    else value
                )
        if (
            isinstance(part, ast.Attribute)
            and isinstance(part.value, ast.Name)
            and (part.attr not in ("eval", "exec") or part.value.id == "builtins")
        ):
            yield f"{part.value.id}.{part.attr}"


def _imported(tree):
    """{name: what of attnbook it stands for}."""
    found = {}
    for node in ast.walk(tree) if tree is not None else ():
        if isinstance(node, ast.Import):
            found.update(
                {
                    (one.asname or one.name.split(".")[0]): one.name
                    for one in node.names
                    if _ours(one.name) and not _free(one.name)
                }
            )
        elif isinstance(node, ast.ImportFrom) and _ours(node.module or "") and not node.level:
            names = {one.asname or one.name: f"{node.module}.{one.name}" for one in node.names}
            found.update(
                {
                    name: full
                    for name, full in names.items()
                    if not _free(node.module) or node.module == "attnbook" and not _free(full)
                }
            )
    return found


def _dotted(node):
    """("a", ".b.c") of the name `a.b.c`."""
    rest = []
    while isinstance(node, ast.Attribute):
        rest.append(f".{node.attr}")
        node = node.value
    return cast(ast.Name, node).id, "".join(reversed(rest))


def _hidden(text):
    """Whether a text names the package: it may be imported by that name."""
    return "attnbook" in text and (text == "attnbook" or not _free(text))


def _ours(name):
    return name == "attnbook" or name.startswith("attnbook.")


def _free(name):
    return any(name == one or one != "attnbook" and name.startswith(one + ".") for one in FREE)
