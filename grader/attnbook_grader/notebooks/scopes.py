"""What the names in a notebook stand for, by the rules of Python's scopes.

The code is read, not run.
"""

from __future__ import annotations

import ast
from bisect import bisect_right
from dataclasses import dataclass

__all__ = ["Binding", "Bindings", "outer"]

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_LOOPS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_BLOCKS = (
    ast.For,
    ast.AsyncFor,
    ast.While,
    ast.If,
    ast.With,
    ast.AsyncWith,
    ast.Try,
    ast.TryStar,
    ast.Match,
)


@dataclass(eq=False, frozen=True)
class Binding:
    """One binding of a name outside of functions.

    nodes: what the name gets its value from: expressions, or the whole statement
    until: the place up to which bindings count for what these read at once
    full: what an import binds to it, "a.b"; "" for any other binding
    before: an earlier binding that may still hold: this one stands in a block, or changes a part of
    the value
    whole: whether this one or one of those before is the package that is looked for
    """

    nodes: tuple[ast.AST, ...]
    until: int
    full: str
    before: Binding | None
    whole: bool


class Bindings:
    """The bindings of the cells that were added so far, in the order in which they run.

    package: the one that is looked for
    """

    def __init__(self, package: str) -> None:
        self.package = package
        self._bound: dict[str, tuple[list[int], list[Binding]]] = {}
        self.end = 0

    def add(self, tree: ast.Module) -> list[tuple[ast.stmt, int]]:
        """Take in a cell; returns its statements, each with the place up to which bindings count
        for it.
        """
        rows = []
        for statement in tree.body:
            block, pieces = isinstance(statement, _BLOCKS), list(_pieces(statement))
            until = self.end + len(pieces) if block else self.end
            for nodes in pieces:
                self.end += 1
                stored, _, changed = _stored(nodes)
                if isinstance(statement, ast.AugAssign):
                    changed |= stored
                changed.update(
                    name
                    for node in nodes
                    for part in ast.walk(node)
                    if isinstance(part, ast.Global)
                    for name in part.names
                )
                full = _imports(nodes)
                for name in stored | changed:
                    places, bound = self._bound.setdefault(name, ([], []))
                    before = bound[-1] if bound and (block or name in changed) else None
                    whole = full.get(name) == self.package or before is not None and before.whole
                    bound.append(Binding(nodes, until, full.get(name, ""), before, whole))
                    places.append(self.end)
            rows.append((statement, until))
        return rows

    def of(self, name: str, until: int) -> Binding | None:
        """The last binding of a name up to a place."""
        places, bound = self._bound.get(name, ((), ()))
        last = bisect_right(places, until)
        return bound[last - 1] if last else None


def outer(node: ast.AST):
    """(part, later) for the constants of a piece of code and its names from outside, `a.b.c` as a
    whole, without the names of its own functions.

    later: whether the part is in a function, and is read when that is called
    """
    stack = [(node, frozenset(), False)]
    while stack:
        node, hidden, later = stack.pop()
        if isinstance(node, _FUNCTIONS):
            body = node.body if isinstance(node.body, list) else [node.body]
            stored, declared, _ = _stored(body)
            every = [part for part in ast.walk(node.args) if isinstance(part, ast.arg)]
            inner = (hidden | stored | {one.arg for one in every}) - declared
            stack += [(part, inner, True) for part in body]
            now = [
                *node.args.defaults,
                *node.args.kw_defaults,
                *(one.annotation for one in every),
                *getattr(node, "decorator_list", ()),
                getattr(node, "returns", None),
            ]
            stack += [(part, hidden, later) for part in now if part is not None]
        elif isinstance(node, _LOOPS):
            first = node.generators[0].iter  # read outside of the loop
            inner = hidden | {
                part.id
                for one in node.generators
                for part in ast.walk(one.target)
                if isinstance(part, ast.Name)
            }
            stack.append((first, hidden, later))
            for child in ast.iter_child_nodes(node):
                parts = (
                    ast.iter_child_nodes(child) if isinstance(child, ast.comprehension) else [child]
                )
                stack += [(part, inner, later) for part in parts if part is not first]
        elif isinstance(node, (ast.Name, ast.Attribute)):
            base = _root(node)
            if not isinstance(base, ast.Name):
                stack.append((base, hidden, later))
            elif base.id not in hidden and isinstance(base.ctx, ast.Load):
                yield node, later
        else:
            if isinstance(node, ast.Constant):
                yield node, later
            stack += [(child, hidden, later) for child in ast.iter_child_nodes(node)]


def _root(node: ast.AST) -> ast.AST:
    """a of `a.b.c`."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node


def _pieces(statement):
    """The statement, or those of a block and what stands at its head, in order."""
    stack = [statement]
    while stack:
        node = stack.pop()
        if isinstance(node, (*_BLOCKS, ast.ExceptHandler, ast.match_case)):
            head, inside = [], []
            for part in ast.iter_child_nodes(node):
                (
                    inside
                    if isinstance(part, (ast.stmt, ast.ExceptHandler, ast.match_case))
                    else head
                ).append(part)
            yield tuple(head)
            stack += reversed(inside)
        else:
            yield (node,)


def _imports(nodes):
    """{name: what it stands for} of import statements."""
    found = {}
    for node in nodes:
        if isinstance(node, ast.Import):
            found.update(
                {
                    one.asname or one.name.split(".")[0]: one.name
                    if one.asname
                    else one.name.split(".")[0]
                    for one in node.names
                }
            )
        elif isinstance(node, ast.ImportFrom):
            found.update(
                {
                    one.asname or one.name: f"{'.' * node.level}{node.module or ''}.{one.name}"
                    for one in node.names
                }
            )
    return found


def _stored(nodes):
    """Names that statements bind, those that they declare global, and those of which they set a
    part: x of x.a = 1 and x[0] = 1.
    """
    stored, declared, changed, stack = set(), set(), set(), list(nodes)
    while stack:
        node = stack.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            stored.add(node.name)
        elif isinstance(node, _LOOPS):
            stored.update(
                part.target.id for part in ast.walk(node) if isinstance(part, ast.NamedExpr)
            )
        elif isinstance(node, ast.Global):
            declared.update(node.names)
        elif isinstance(node, ast.alias):
            stored.add(node.asname or node.name.split(".")[0])
        elif not isinstance(node, ast.Lambda):
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                stored.add(node.id)
            elif isinstance(node, (ast.Attribute, ast.Subscript)) and isinstance(
                node.ctx, ast.Store
            ):
                base = node
                while isinstance(base, (ast.Attribute, ast.Subscript)):
                    base = base.value
                changed.update([base.id] if isinstance(base, ast.Name) else ())
            elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
                stored.add(node.name)
            elif isinstance(node, ast.MatchMapping) and node.rest:
                stored.add(node.rest)
            stack += ast.iter_child_nodes(node)
    return stored, declared, changed
