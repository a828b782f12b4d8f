"""What of the library an answer uses, and whether its code can be followed at all: read, not run.

An answer is the statement that binds its function, and every statement of the notebook that binds
or changes a name which one of these uses. A comparison with the book's own function elsewhere in
the notebook is therefore no part of it. What reading finds is a hint for an instructor: code that
comes by its functions in a roundabout way is shown, and not judged."""

from __future__ import annotations

import ast
import builtins
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from .similarity import COMPREHENSIONS, LONGEST, bound, parsed

__all__ = ["Code", "library_names"]

_ROOTS = ("attnbook", "attnbook_runs", "attnbook_exercises")
_FREE = ("attnbook.notebook", "attnbook.checks", "attnbook.figures", "attnbook.setup")
"""Parts of the library that are no solution of anything."""
_KNOWN = {*vars(builtins), "__name__", "display", "In", "Out", "google"}
_ROUNDABOUT = {
    *("__import__", "compile", "eval", "exec", "get_ipython", "globals", "open", "vars"),
    *("__builtins__", "__main__", "builtins", "code", "codeop", "ctypes", "dill", "gc", "imp"),
    *("importlib", "inspect", "marshal", "multiprocessing", "pickle", "pkgutil", "runpy"),
    *("subprocess", "types.CodeType", "types.FunctionType"),
    *("sys._getframe", "sys.meta_path", "sys.modules", "sys.path", "torch.package"),
    *("os.exec", "os.fork", "os.posix_spawn", "os.system", "IPython.core", "IPython.get_ipython"),
    *(
        "cloudpickle",
        "joblib",
        "operator.attrgetter",
        "operator.methodcaller",
        "pydoc",
        "string.Formatter",
        "timeit",
    ),
    *("sympy.lambdify", "sympy.parse_expr", "sympy.sympify", "torch.hub", "torch.load"),
    *("torch.serialization", "traitlets", "typing.get_type_hints", "unittest.mock"),
}
_ATTRIBUTES = {
    *("__builtins__", "__closure__", "__code__", "__getattribute__", "__globals__", "__loader__"),
    *("__spec__", "__subclasses__", "f_back", "f_globals", "f_locals", "tb_frame"),
}
_OF_ALL_CELLS = {
    *("ast_transformers", "input_transformers_cleanup", "input_transformers_post", "user_ns"),
    *("input_transformer_manager", "user_global_ns"),
}
"""Attributes of IPython's shell with which a cell changes what the others do."""
_DEEPEST = 12
"""Parts of a dotted name that are looked at."""
_REFLECTION = ("getattr", "setattr", "delattr")


@dataclass
class _Statement:
    """A statement of the notebook outside of all functions.

    cell: the place of its cell
    binds, changes: names that it gives a value, for certain or perhaps
    imports, stars: what the names stand for that it imports, and from where it imports all
    uses: (name, dotted name from there on, whether only when a function is called)
    paths: dotted names that it uses by imports of its own functions
    odd: what makes it hard to follow
    shell: what it uses of IPython's shell
    """

    cell: int
    binds: set[str] = field(default_factory=set)
    changes: set[str] = field(default_factory=set)
    imports: dict[str, str] = field(default_factory=dict)
    stars: list[str] = field(default_factory=list)
    uses: list[tuple[str, str, bool]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    odd: list[str] = field(default_factory=list)
    shell: list[str] = field(default_factory=list)


class Code:
    """The code cells of a notebook, in the order in which they run."""

    def __init__(self, cells: list[str]):
        self.too_long = sum(map(len, cells)) > LONGEST
        self._statements = []
        for place, code in enumerate(cells if not self.too_long else []):
            with suppress(RecursionError):  # then its names are defined nowhere
                tree = parsed(code)
                self._statements += [_read(node, place) for node in (tree.body if tree else ())]

    def answer(self, function: str, cells: int, allowed: Iterable[str] = ()) -> tuple[str, str]:
        """(What of the library the function uses, why its code cannot be followed), each "" for
        nothing.

        cells: how many of them run before the function is judged
        allowed: what of the library it may use
        """
        if self.too_long:
            return "", "the notebook is too long to be read"
        here = [one for one in self._statements if one.cell < cells]
        free, used = [*map(_defined, (*_FREE, *allowed))], ""
        odd = next((f"a cell uses {name}" for one in here for name in one.shell), "")
        for path, why in _followed(function, here):
            path = _found(path)[1] if _package(path) in _ROOTS else path
            if why:
                odd = odd or why
            elif _package(path) in _ROOTS:
                if not used and not _within(_defined(path), free):
                    used = path
            elif not odd and _within(path, _ROUNDABOUT):
                odd = f"it uses {path}"
            elif not odd and not _installed(_package(path)):
                odd = f"it imports {path}, which is no package that is installed"
        return used, odd


def library_names(code: str) -> list[str]:
    """What a cell takes from the library: "attnbook.mechanisms.attend"."""
    tree = parsed(code)
    if tree is None:  # a student's copy may lack the body
        return []
    read = [_read(node, 0) for node in tree.body]
    imports = {name: path for one in read for name, path in one.imports.items()}
    found = [*imports.values(), *(path for one in read for path in one.paths)]
    for one in read:
        found += [_joined(imports[name], rest) for name, rest, _ in one.uses if name in imports]
    return [path for path in dict.fromkeys(found) if path.startswith(("attnbook.", "attnbook_"))]


def _followed(function, here) -> Iterator[tuple[str, str]]:
    """(dotted name of something imported, "") or ("", why something cannot be followed), for all
    that a function uses.
    """
    binders, changed, stars = defaultdict(list), defaultdict(list), []
    for place, one in enumerate(here):
        for names, kind in ((one.binds, binders), (one.changes, changed)):
            for name in names:
                kind[name].append(place)
        stars += one.stars
    # torch.special.entr = mine: a change of the package for all who import it, by any name
    packages = {name: _package(path) for one in here for name, path in one.imports.items()}
    patched = defaultdict(list)
    for place, one in enumerate(here):
        for name in one.changes & packages.keys() - one.imports.keys():
            patched[packages[name]].append(place)
    queue, seen = [(function, "", len(here))], set()
    while queue:
        name, rest, before = queue.pop()
        last = [place for place in binders[name] if place < before][-1:]
        if not last and not changed[name] and name not in _KNOWN:
            owners = [star for star in stars if _has(star, name)]
            yield (_joined(owners[0], name), "") if owners else ("", f"no cell defines {name}")
        elif not last and (name in _ROUNDABOUT):
            yield name, ""
        called = [] if last and name in here[last[0]].imports else changed[f"{name}()"]
        places = [*last, *changed[name], *called]
        for one in [here[place] for place in places]:
            used = {_package(path) for path in (one.imports.get(name, ""), *one.paths)}
            places += [place for package in used for place in patched[package]]
        for place in places:
            one = here[place]
            if name in one.imports:
                yield _joined(one.imports[name], rest), ""
            if place in seen:
                continue
            seen.add(place)
            yield from ((path, "") for path in one.paths)
            yield from (("", why) for why in one.odd)
            queue += [(other, more, len(here) if lazy else place) for other, more, lazy in one.uses]


def _read(node: ast.stmt, cell: int) -> _Statement:
    made, names = _Statement(cell), bound([node])
    made.imports = {name: path for name, path in names.items() if path}
    simple = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Assign, ast.AnnAssign)
    for_certain = isinstance(node, (*simple, ast.Import, ast.ImportFrom))
    (made.binds if for_certain else made.changes).update(names)
    _Uses(made).visit(node)
    return made


class _Uses(ast.NodeVisitor):
    """Fills in what a statement uses and changes."""

    def __init__(self, made: _Statement):
        self.made, self.scopes, self.lazy = made, [], 0

    def visit_Name(self, node):
        if node.id in _REFLECTION:
            self.made.odd.append(f"it hands {node.id} on")
        if isinstance(node.ctx, ast.Load):
            self._use(node.id, [])

    def visit_Attribute(self, node):
        names, below = [], node
        while isinstance(below, ast.Attribute):
            names.insert(0, below.attr)
            below = below.value
        self.made.odd += [f"it uses {name}" for name in names if name in _ATTRIBUTES]
        self.made.shell += [name for name in names if name in _OF_ALL_CELLS]
        if not isinstance(below, ast.Name):
            self.visit(below)
            return
        self._use(below.id, names)
        if not isinstance(node.ctx, ast.Load):
            self.made.changes.add(below.id)

    def visit_Subscript(self, node):
        if not isinstance(node.ctx, ast.Load) and (name := _root(node)):
            self.made.changes.add(name)
        self.generic_visit(node)

    def visit_Call(self, node):
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name in _REFLECTION:
            what = node.args[1] if len(node.args) > 1 else None
            if not isinstance(what, ast.Constant) or not isinstance(what.value, str):
                self.made.odd.append(f"it uses {name} with a name that is made up when it runs")
            elif what.value in _ATTRIBUTES:
                self.made.odd.append(f"it uses {what.value}")
            elif name == "getattr":
                self.visit(ast.Attribute(node.args[0], what.value, ast.Load()))
                return
            elif root := _root(node.args[0]):
                self.made.changes.add(root)
            for part in (*node.args, *node.keywords):
                self.visit(part)
            return
        if isinstance(node.func, ast.Attribute) and not self.scopes:
            root = _root(node.func)  # it may put something into what has this name
            if root and not self._local(root)[0]:
                self.made.changes.add(f"{root}()")
        self.generic_visit(node)

    def visit_ImportFrom(self, node):
        if any(one.name == "*" for one in node.names):
            self.made.stars.append(node.module or "")

    def visit_Global(self, node):
        self.made.changes.update(node.names)

    def visit_FunctionDef(self, node):
        at_once = (*node.args.defaults, *filter(None, node.args.kw_defaults))
        for part in (*getattr(node, "decorator_list", ()), *at_once):
            self.visit(part)
        body = node.body if isinstance(node.body, list) else [node.body]
        given = {one.arg: None for one in ast.walk(node.args) if isinstance(one, ast.arg)}
        self.lazy += 1
        self._inside(given | bound(body), body)
        self.lazy -= 1

    visit_AsyncFunctionDef = visit_Lambda = visit_FunctionDef  # type: ignore[assignment]

    def visit_ClassDef(self, node):
        for part in (*node.decorator_list, *node.bases, *node.keywords):
            self.visit(part)
        self._inside(bound(node.body), node.body, of_class=True)

    def visit_AnnAssign(self, node):  # an annotation is no use
        for part in filter(None, (node.target, node.value)):
            self.visit(part)

    def generic_visit(self, node):
        if isinstance(node, COMPREHENSIONS):
            own = bound(one.target for one in node.generators)
            self._inside(own, [*ast.iter_child_nodes(node)])
        else:
            super().generic_visit(node)

    def _inside(self, scope, nodes, of_class=False):
        self.scopes.append((scope, of_class))
        for node in nodes:
            self.visit(node)
        self.scopes.pop()

    def _local(self, name) -> tuple[bool, str | None]:
        """(whether a function's own variable has this name, what it imports as it)."""
        for place, (scope, of_class) in enumerate(reversed(self.scopes)):
            if name in scope and not (of_class and place):
                return True, scope[name]
        return False, None

    def _use(self, name, names):
        local, path = self._local(name)
        if local:
            if path:
                self.made.paths.append(_joined(path, ".".join(names)))
        else:
            self.made.uses.append((name, ".".join(names), self.lazy > 0))


def _root(node) -> str:
    """The name that an expression such as a.b[0].c begins with."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _package(path):
    return path.partition(".")[0]


def _joined(path, rest):
    return f"{path}.{rest}" if rest else path


def _within(name, parents):
    return any(name == one or name.startswith(f"{one}.") for one in parents)


def _has(module, name):
    """Whether a star import of the module binds the name; of modules that are not loaded here,
    perhaps.
    """
    if _package(module) in _ROOTS:
        return hasattr(_found(module)[0], name)
    return module not in sys.modules or hasattr(sys.modules[module], name)


@cache
def _installed(name):
    try:
        return name in sys.stdlib_module_names or name in _KNOWN or find_spec(name) is not None
    except (ImportError, ValueError):
        return False


@cache
def _found(path):
    """(What a dotted name of the library stands for, None for nothing; its name from the last
    module on the way, which may be another's: attnbook.notebook.sys.modules is sys.modules).
    """
    first, *names = path.split(".")[:_DEEPEST]
    thing, own = None, path
    with suppress(ImportError, ValueError):
        thing = import_module(first)
        for place, name in enumerate(names):
            if isinstance(thing, ModuleType):
                own = ".".join([thing.__name__, *names[place:]])
                if not hasattr(thing, name):
                    with suppress(ImportError, ValueError):
                        import_module(f"{thing.__name__}.{name}")
            thing = getattr(thing, name, None)
    return thing, own


@cache
def _defined(path):
    """Where the thing of this name is defined, which other modules may have as well."""
    thing: Any = _found(path)[0]
    if hasattr(thing, "__qualname__") and hasattr(thing, "__module__"):
        return f"{thing.__module__}.{thing.__qualname__}"
    return path
