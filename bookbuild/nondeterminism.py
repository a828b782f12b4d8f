"""Which cells of a notebook say something that another machine would say differently.

A name is *tainted* when its value comes from training, from a recorded run or from a clock, or is
computed from such a value. Text that a cell prints from tainted names cannot be compared letter by
letter; the cell has to assert a band instead. The analysis reads the code, it does not run it: it
follows names from cell to cell, in order."""

from __future__ import annotations

import ast
import re

# Calls whose result differs from machine to machine, and how many models, the first arguments, each
# of them changes.
TRAINS = {"fit": 1, "fit_adversarial": 2}
CLOCKS = {
    "perf_counter",
    "perf_counter_ns",
    "process_time",
    "best_milliseconds",
    "monotonic",
    "timeit",
    "repeat",
    "Timer",
    "time",
    "time_ns",
}
_RECORDED_PATH = re.compile(r"(^|/)results/")


def parse(source: str) -> ast.Module:
    """The syntax tree of a cell, with IPython's `%` and `!` lines blanked; raises SyntaxError."""
    plain = re.sub(r"^(\s*)[%!].*$", r"\1pass", source, flags=re.MULTILINE)
    return ast.parse(plain)


class Taint:
    """The tainted names after the cells that were fed so far, in order."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self._branches = 0

    def feed(self, source: str) -> bool:
        """Take in one cell; returns whether the cell uses, or makes, a tainted value."""
        tree = parse(source)
        before, used = None, False
        while before != self.names:  # a loop may use a name above the line that taints it
            before = set(self.names)
            for statement in tree.body:
                used |= self._statement(statement)
        return used

    def within(self, source: str) -> list[str]:
        """The tainted names in a cell."""
        names = {n.id for n in ast.walk(parse(source)) if isinstance(n, ast.Name)}
        return sorted(names & self.names)

    # -- statements

    def _statement(self, node: ast.stmt) -> bool:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            own = self._parameters(node)
            tainted = any(
                self._tainted(n)
                for n in ast.walk(node)
                if not (isinstance(n, ast.Name) and n.id in own)
            )
            self._set(node.name, tainted)
            return tainted
        if isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            value = self._expression(node.value) if node.value is not None else False
            whole = isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None
            for target in targets:
                self._assign(target, value, replace=whole)
            return value or any(self._expression(t) for t in targets if not isinstance(t, ast.Name))
        if isinstance(node, (ast.For, ast.AsyncFor)):
            source = self._expression(node.iter)
            if source:
                self._assign(node.target, True, replace=False)
            return self._block([*node.body, *node.orelse]) or source
        if isinstance(node, (ast.With, ast.AsyncWith)):
            used = False
            for item in node.items:
                value = self._expression(item.context_expr)
                if value and item.optional_vars is not None:
                    self._assign(item.optional_vars, True, replace=False)
                used |= value
            return self._block(node.body) or used
        if isinstance(node, (ast.If, ast.While)):
            test = self._expression(node.test)
            return self._block([*node.body, *node.orelse]) or test
        if isinstance(node, ast.Try):
            handlers = [s for h in node.handlers for s in h.body]
            return self._block([*node.body, *handlers, *node.orelse, *node.finalbody])
        return any(
            [
                self._expression(child)
                for child in ast.iter_child_nodes(node)
                if isinstance(child, ast.expr)
            ]
        )

    def _block(self, statements: list[ast.stmt]) -> bool:
        self._branches += 1
        used = any([self._statement(s) for s in statements])
        self._branches -= 1
        return used

    # -- names

    def _assign(self, target: ast.expr, tainted: bool, replace: bool) -> None:
        if isinstance(target, ast.Name):
            if tainted or replace:
                self._set(target.id, tainted)
        elif isinstance(target, (ast.Tuple, ast.List)):
            for element in target.elts:
                self._assign(element, tainted, replace)
        elif isinstance(target, ast.Starred):
            self._assign(target.value, tainted, replace)
        elif tainted:  # x[i] = ..., x.a = ...: the whole of x from here on
            root = _root(target)
            if root:
                self.names.add(root)

    def _set(self, name: str, tainted: bool) -> None:
        if tainted:
            self.names.add(name)
        elif not self._branches:  # a branch that may not run cleans nothing
            self.names.discard(name)

    @staticmethod
    def _parameters(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> set[str]:
        if isinstance(node, ast.ClassDef):
            return set()
        a = node.args
        return {
            p.arg
            for p in (*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, (a.vararg, a.kwarg)))
        }

    # -- expressions

    def _expression(self, node: ast.expr) -> bool:
        """Whether any part of the expression is tainted; calls also pass taint on to what they
        change.
        """
        for part in ast.walk(node):
            if not isinstance(part, ast.Call):
                continue
            arguments = [*part.args, *(k.value for k in part.keywords)]
            if _name(part.func) in TRAINS:
                changed = [
                    k.value
                    for k in part.keywords
                    if k.arg in ("model", "generator", "discriminator")
                ]
                for argument in part.args[: TRAINS[_name(part.func)]] + changed:
                    if root := _root(argument):
                        self.names.add(root)
            elif _name(part.func) == "load_model_weights":
                for argument in part.args[:1]:
                    if root := _root(argument):
                        self.names.add(root)
            elif isinstance(part.func, ast.Attribute) and any(
                self._tainted(n) for a in arguments for n in ast.walk(a)
            ):
                root = _root(part.func.value)  # losses.append(loss): the list as well
                if root and part.func.attr in {
                    "append",
                    "extend",
                    "add",
                    "update",
                    "insert",
                    "setdefault",
                }:
                    self.names.add(root)
        for part in ast.walk(node):
            if isinstance(part, ast.comprehension) and self._expression_free(part.iter):
                self._assign(part.target, True, replace=False)
            if isinstance(part, ast.NamedExpr) and self._expression_free(part.value):
                self._assign(part.target, True, replace=False)
        return self._expression_free(node)

    def _expression_free(self, node: ast.AST) -> bool:
        return any(self._tainted(part) for part in ast.walk(node))

    def _tainted(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Name):
            return node.id in self.names and isinstance(node.ctx, ast.Load)
        if isinstance(node, ast.Call):
            return _name(node.func) in TRAINS or _is_recorded(node.func) or _is_clock(node.func)
        return (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and bool(_RECORDED_PATH.search(node.value))
        )


def _name(func: ast.expr) -> str:
    return (
        func.attr
        if isinstance(func, ast.Attribute)
        else func.id
        if isinstance(func, ast.Name)
        else ""
    )


def _is_recorded(func: ast.expr) -> bool:
    name = _name(func)  # load_state_dict copies from a model of the notebook
    return name.startswith("load_") and name != "load_state_dict"


def _is_clock(func: ast.expr) -> bool:
    name = _name(func)
    if name in {"time", "repeat"}:  # words with other meanings: only as time.time, timeit.repeat
        return isinstance(func, ast.Attribute) and _root(func) in {"time", "timeit"}
    return name in CLOCKS


def _root(node: ast.expr) -> str | None:
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else None


def has_assert(source: str) -> bool:
    """Whether the cell asserts something."""
    return any(isinstance(node, ast.Assert) for node in ast.walk(parse(source)))
