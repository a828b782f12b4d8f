"""Counts what the size and the paths of the code are:

    python tools/count_code.py [--tree PATH] [--json FILE] [--verbose] [SECTION ...]

Everything is computed from a checkout, this one or that of ``--tree``: with `ast` and `tokenize`,
or, for calls and time, by running its library. A section's function says what it counts;
without a name all sections are counted.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import io
import json
import math
import re
import statistics
import subprocess
import sys
import time
import tokenize
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

LIBRARY = "attnbook"
ASIDE = {"checks", "answers", "experiments"}  # in the library's folder, not of the library
KINDS = ("code", "signature", "import", "validation", "docstring", "comment", "blank")
MODULES, LINES, PARAMETERS = 15, 300, 8  # what a folder, a model and an oracle may have
SYSTEMS = """attend MultiHeadAttention Transformer TransformerLM NTM Bahdanau training.fit
load_decoder""".split()
ENGINE = re.compile(  # validation, what lies in kernels/ and, where no such folder is, its files
    r"attnbook/(validate|double_backward|kernels/.*|(mechanisms/)?memory/memory_step"
    r"|mechanisms/(attention/(fused|streaming|online_softmax|nonfinite)|precision|block_sizes"
    r"|triton_kernels|dropout|linear|scores/additive_\w+))\.py"
)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
CELL = re.compile(r"^(`{3,})(?:\{code-cell\}|python)[^\n]*\n(.*?)^\1", re.M | re.S)
API = re.compile(r"^\.\. (?:package-api|autofunction):: (\S+)", re.M)  # what a page shows
CELL_OPTIONS = re.compile(r"\A---\n.*?^---\n|\A(?::[^\n]*\n)+", re.M | re.S)


class Table(NamedTuple):
    """Rows of cells under a title; ``detail`` is shown only on request."""

    title: str
    columns: str
    rows: list[tuple]
    detail: bool = False


@cache
def python_files(tree: Path) -> dict[str, str]:
    """The text of each file of Python that git tracks or would, by its path below the tree; of all
    files where the tree is no checkout.
    """
    command = ["git", "-C", str(tree), "ls-files", "-co", "--exclude-standard", "-z", "*.py"]
    listed = subprocess.run(command, capture_output=True, text=True)
    found = [name for name in listed.stdout.split("\0") if name]
    if listed.returncode:
        found = [path.relative_to(tree).as_posix() for path in tree.rglob("*.py")]
    present = (name for name in sorted(found) if (tree / name).is_file())
    return {name: (tree / name).read_text(encoding="utf-8") for name in present}


@cache
def nodes(text: str) -> list:
    """The module first, then all that is in it."""
    return list(ast.walk(ast.parse(text)))


def is_library(name: str) -> bool:
    parts = name.removesuffix(".py").split("/")
    return parts[0] == LIBRARY and parts[1] not in ASIDE


def is_test(name: str) -> bool:
    return name.startswith(("tests/", "grader/tests/"))


def last_name(node) -> str:
    """``c`` of the expression ``a.b.c`` or of a call of it, "" of any other."""
    node = node.func if isinstance(node, ast.Call) else node
    return getattr(node, "attr", None) or getattr(node, "id", None) or ""


def targets(node) -> list:
    """What a statement assigns to."""
    return getattr(node, "targets", None) or [t for t in [getattr(node, "target", None)] if t]


# --- lines and folders ---


def is_check(name: str) -> bool:
    return name == "require" or name.lstrip("_").startswith("check_")


def _validates(node) -> bool:
    """Whether a statement does nothing but check arguments: calls `require` or `check_…`, with the
    result kept or not, raises after an ``if``, or defines a function ``check_…``.
    """
    if isinstance(node, FUNCTIONS):
        return is_check(node.name)
    if isinstance(node, ast.If):
        return isinstance(node.body[0], ast.Raise) and not node.orelse
    called = getattr(node, "value", None) if isinstance(node, ast.stmt) else None
    return isinstance(called, ast.Call) and is_check(last_name(called))


def line_kinds(text: str) -> Counter[str]:
    """How many lines of a file are of each kind, the first that fits: docstring (also that of a
    variable), blank, comment (alone on its line), import (or ``__all__``), signature (from a
    decorator to the colon), validation, code.
    """
    spans = defaultdict(list)
    for node in nodes(text):
        if _validates(node):
            spans["validation"].append((node.lineno, node.end_lineno))
        if isinstance(node, FUNCTIONS):
            first = min(part.lineno for part in [*node.decorator_list, node])
            spans["signature"].append((first, max(node.lineno, node.body[0].lineno - 1)))
        if isinstance(node, ast.Import | ast.ImportFrom) or "__all__" in map(
            last_name, targets(node)
        ):
            spans["import"].append((node.lineno, node.end_lineno))
        if isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str):
            spans["docstring"].append((node.lineno, node.end_lineno))
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT and not token.line[: token.start[1]].strip():
            spans["comment"].append((token.start[0], token.start[0]))
    kinds = ["code"] * (len(text.splitlines()) + 1)
    spans["blank"] = [(i, i) for i, line in enumerate(text.splitlines(), 1) if not line.strip()]
    for kind in ("validation", "signature", "import", "comment", "blank", "docstring"):
        for first, last in spans[kind]:
            kinds[first : last + 1] = [kind] * (last + 1 - first)
    return Counter(kinds[1:])


def raises_sections(text: str) -> list[int]:
    """The lines of each ``Raises:`` section of a file's docstrings, its heading counted."""
    documented = (*FUNCTIONS, ast.ClassDef, ast.Module)
    docs = [ast.get_docstring(node) for node in nodes(text) if isinstance(node, documented)]
    told = [part for doc in docs for part in re.findall(r"^Raises:\n(?: .*\n?)*", doc or "", re.M)]
    return [len(part.splitlines()) for part in told]


def _parts(name: str) -> list[str]:
    """The folder and the sums that a file's lines are counted for."""
    parts = name.split("/")
    deep = len(parts) > 2 and parts[0] in (LIBRARY, "grader")
    sums = ["= all"] + ["= tests and the grader's"] * is_test(name)
    sums += ["= the library"] * is_library(name)
    return ["/".join(parts[: 1 + deep][: len(parts) - 1] or ["."]) + "/", *sums]


def lines(tree: Path) -> list[Table]:
    """Lines of Python. The library is its folder without exercises and recorded runs."""
    files, counted = python_files(tree), defaultdict(Counter)
    for name, text in files.items():
        for part in _parts(name):
            counted[part].update(line_kinds(text))
    rows = [(p, n.total(), *(n[kind] for kind in KINDS)) for p, n in sorted(counted.items())]
    told = [n for name, text in files.items() if is_library(name) for n in raises_sections(text)]
    return [
        Table("Lines of Python", " ".join(("folder", "lines", *KINDS)), rows),
        Table("Raises: in the library", "sections lines", [(len(told), sum(told))]),
    ]


def folders(tree: Path) -> list[Table]:
    """Folders with many modules (`__init__` not counted), long files of models."""
    files = python_files(tree)
    modules = Counter(n.rpartition("/")[0] + "/" for n in files if not n.endswith("__init__.py"))
    many = [(folder, number) for folder, number in modules.most_common() if number > MODULES]
    models = [name for name in files if name.startswith(f"{LIBRARY}/models/")]
    size = Counter({name: len(files[name].splitlines()) for name in models})
    long = [(name, number) for name, number in size.most_common() if number > LINES]
    return [
        Table(f"Folders of code with more than {MODULES} modules", "folder modules", many),
        Table(f"Files of models with more than {LINES} lines", "file lines", long),
    ]


# --- calls and time ---


def traced(run: Callable, folder: Path) -> Counter[tuple[str, str]]:
    """How often a run calls each function whose code lies in a folder, by (file, name): every
    "call" that `sys.setprofile` sees, so that properties, lambdas and generators count, these once
    each time that they go on.
    """
    found: Counter[tuple[str, str]] = Counter()

    def note(frame, event, _):
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(folder):
            found[path.relative_to(folder).as_posix(), frame.f_code.co_qualname] += 1

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return found


def validating(counted: Counter[tuple[str, str]], *beginnings: str) -> int:
    """The calls in `validate.py`, and of functions elsewhere whose names begin so."""
    return sum(
        number
        for (file, name), number in counted.items()
        if file == "validate.py" or name.rpartition(".")[2].startswith(beginnings)
    )


def _scene(tree: Path) -> tuple:
    """The library of that tree, its `MultiHeadAttention(16, 4)`, x (2, 5, 16), a causal mask."""
    sys.path.insert(0, str(tree))
    import torch

    import attnbook

    if not Path(attnbook.__file__ or "").resolve().is_relative_to(tree):
        raise SystemExit(f"attnbook was imported from {attnbook.__file__}, not from {tree}")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    heads, x = attnbook.MultiHeadAttention(16, 4), torch.randn(2, 5, 16)
    return attnbook, heads, x, attnbook.causal_mask(5)


def calls(tree: Path) -> list[Table]:
    """Calls of the library's functions in self-attention under a mask, without weights; modules are
    made before, and for `attend` the mask, too, and each has run once. Validation is what stands in
    `validate.py` or is named ``check_…``; in the column after it ``_check_…`` counts, too.
    """
    attnbook, heads, x, mask = _scene(tree)
    score, rows, tables = attnbook.ScaledDotScore(), [], []
    for title, run in {
        "MultiHeadAttention": lambda: heads(x, mask=attnbook.causal_mask(5), need_weights=False),
        "attend": lambda: attnbook.attend(score, x, x, x, mask=mask, need_weights=False),
    }.items():
        run()
        counted = traced(run, tree / LIBRARY)
        checks = validating(counted, "check_"), validating(counted, "check_", "_check_")
        rows.append((title, counted.total(), *checks, len(counted), len({f for f, _ in counted})))
        called = [(number, *place) for place, number in sorted(counted.items())]
        tables.append(Table(f"Calls in {title}", "calls file function", called, True))
    columns = "what calls validation +private functions files"
    return [Table("Calls of the library's functions", columns, rows), *tables]


def ratio(tree: Path, blocks: int = 12, repeats: int = 400) -> list[Table]:
    """Microseconds of one call as in `calls` and of four `nn.Linear` with
    `scaled_dot_product_attention`, in alternating blocks on one thread; the median of their ratios,
    and its interval from the third lowest to the third highest (96 % for twelve blocks).
    """
    _, heads, x, mask = _scene(tree)
    import torch

    class Plain(torch.nn.ModuleDict):
        def forward(self, x, mask):
            q, k, v = (self[n](x).unflatten(-1, (4, 4)).transpose(1, 2) for n in names[:3])
            context = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
            return self["output"](context.transpose(1, 2).flatten(2))

    names = "query", "key", "value", "output"
    plain = Plain({name: torch.nn.Linear(16, 16) for name in names})
    for name in names:
        plain[name].load_state_dict(getattr(heads, f"{name}_projection").state_dict())
    sides = (lambda: heads(x, mask=mask, need_weights=False)[0]), (lambda: plain(x, mask))
    torch.testing.assert_close(sides[0](), sides[1]())
    rows = []
    for title, grad in (("without gradient", False), ("with gradient", True)):
        with torch.set_grad_enabled(grad):
            found = [[_microseconds(side, repeats) for side in sides] for _ in range(blocks + 1)]
        ratios = sorted(ours / theirs for ours, theirs in found[1:])  # the first block warms up
        medians = [round(statistics.median(side), 1) for side in zip(*found[1:])]
        ends = (ratios[2], statistics.median(ratios), ratios[-3])
        rows.append((title, *medians, *(round(end, 2) for end in ends)))
    columns = "forward µs plain_µs from ratio to"
    return [Table("MultiHeadAttention(16, 4) beside a plain module", columns, rows)]


def _microseconds(run: Callable, repeats: int) -> float:
    started = time.perf_counter()
    for _ in range(repeats):
        run()
    return (time.perf_counter() - started) / repeats * 1e6


# --- files ---


class Imports:
    """Which file leads to which.

    An import counts wherever it stands: in a function and for types, too. A name that comes from a
    package leads to the file that defines it, as the package's `__init__` says, which no reader
    opens for that; a package that is imported whole leads to what is used of it.
    """

    def __init__(self, tree: Path) -> None:
        self.files = python_files(tree)

    def path(self, dotted: str) -> str:
        """The file of a module or a package, "" for none."""
        stem = dotted.replace(".", "/")
        return next((p for p in (f"{stem}/__init__.py", f"{stem}.py") if p in self.files), "")

    def named(self, path: str) -> Iterator[tuple[str, str, str]]:
        """(module, name in it, name here) for each import in a file."""
        package = path.removesuffix("/__init__.py").removesuffix(".py").split("/")
        package = package if path.endswith("__init__.py") else package[:-1]
        for node in nodes(self.files[path]):
            if isinstance(node, ast.ImportFrom):
                above = package[: len(package) + 1 - node.level] if node.level else []
                module = ".".join([*above, *filter(None, [node.module])])
                yield from ((module, a.name, a.asname or a.name) for a in node.names)
            elif isinstance(node, ast.Import):
                yield from ((a.name, "", a.asname or a.name) for a in node.names)

    def home(self, module: str, name: str, passed: frozenset = frozenset()) -> str:
        """The file that defines what a module offers under a name, "" for none."""
        path, passed = self.path(module), passed | {(module, name)}
        if not path or name in _defined(self.files[path]):
            return path
        ways = [(source, it) for source, it, here in self.named(path) if here == name]
        ways += [(source, name) for source, it, _ in self.named(path) if it == "*"]
        found = (self.home(*way, passed) for way in ways if way not in passed)
        return next(filter(None, found), self.path(f"{module}.{name}"))

    def after(self, path: str) -> set[str]:
        """The files that a file leads to by itself."""
        found = set()
        for module, name, here in self.named(path):
            whole = f"{module}.{name}".rstrip(".")
            if not module.startswith(LIBRARY):
                continue
            if not self.path(module).endswith("__init__.py"):
                found.add(self.path(module))
            elif self.path(whole).endswith("__init__.py"):
                uses = (n for n in nodes(self.files[path]) if isinstance(n, ast.Attribute))
                found |= {self.home(whole, n.attr) for n in uses if last_name(n.value) == here}
            else:
                found.add(self.home(module, name))
        return found - {""}

    def closure(self, path: str) -> set[str]:
        """All files that a file leads to, and itself."""
        found, ahead = set(), {path}
        while ahead:
            found.add(path := ahead.pop())
            ahead |= self.after(path) - found
        return found


@cache
def _defined(text: str) -> set[str]:
    """The names that a module defines at its top."""
    top = nodes(text)[0].body
    return {node.name for node in top if isinstance(node, (*FUNCTIONS, ast.ClassDef))} | {
        last_name(name) for node in top for target in targets(node) for name in ast.walk(target)
    }


def files(tree: Path) -> list[Table]:
    """Files that one may have to open, and those of them that are not engine."""
    imports, rows, tables = Imports(tree), [], []
    for system in SYSTEMS:
        module, _, name = f"{LIBRARY}.{system}".rpartition(".")
        found = sorted(imports.closure(imports.home(module, name)))
        size = {path: len(imports.files[path].splitlines()) for path in found}
        engine = [path for path in found if ENGINE.fullmatch(path)]
        rows.append((name, len(found), len(found) - len(engine), sum(size.values())))
        opened = [(path, size[path], "engine" * (path in engine)) for path in found]
        tables.append(Table(f"Files of {name}", "file lines part", opened, True))
    return [Table("Files to open", "system files outside_the_engine lines", rows), *tables]


# --- options ---


def optional(text: str) -> Iterator[tuple[str, str, str, float, bool]]:
    """(owner, what one calls, option, its place in the call, infinite if it has none, whether it is
    explained) for the optional parameters of public functions and methods at the top of a module.
    """
    for top in nodes(text)[0].body:
        for node in top.body if isinstance(top, ast.ClassDef) else [top]:
            if not isinstance(node, FUNCTIONS) or top.name[0] == "_":
                continue
            if node.name[0] == "_" and node.name != "__init__":
                continue
            bound = node is not top and "staticmethod" not in map(last_name, node.decorator_list)
            called = top.name if node.name == "__init__" else node.name
            owner = node.name if node is top else f"{top.name}.{node.name}"
            told = explained(top if node.name == "__init__" else node)
            told = told if top.name in offered(text) else set()
            placed = node.args.posonlyargs + node.args.args
            for place in range(len(placed) - len(node.args.defaults), len(placed)):
                option = placed[place].arg
                yield owner, called, option, place - bound, option in told
            for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults):
                if default:
                    yield owner, called, argument.arg, math.inf, argument.arg in told


def explained(node) -> set[str]:
    """The parameters that have an entry in the section ``Args:`` of a docstring."""
    section = re.search(r"^Args:\n((?: .*\n|\n)*)", f"{ast.get_docstring(node) or ''}\n", re.M)
    entries = re.findall(r"^    (\*{0,2}\w[\w*, ]*):", section[1] if section else "", re.M)
    return {name.strip(" *") for entry in entries for name in entry.split(",")}


@cache
def offered(text: str) -> set[str]:
    """What a module lists in ``__all__``, or where it lists nothing, defines."""
    lists = [n.value for n in nodes(text)[0].body if "__all__" in map(last_name, targets(n))]
    listed = {getattr(part, "value", "") for value in lists for part in ast.walk(value)}
    return listed if lists else _defined(text)


def stand_for(found: list) -> dict[str, set[str]]:
    """What a variable, a parameter or a table may be: what it is assigned, has as its default, is
    passed by name, or holds as entries; and what an import renames.
    """
    also = defaultdict(set)
    for node in found:
        pairs = []
        if isinstance(node, ast.alias) and node.asname:
            also[node.asname].add(node.name.rpartition(".")[2])
        elif isinstance(node, ast.keyword) and node.arg:
            pairs = [(node.arg, node.value)]
        elif isinstance(node, ast.arguments):
            placed = node.posonlyargs + node.args
            pairs = zip(placed[len(placed) - len(node.defaults) :], node.defaults)
            pairs = [*pairs, *zip(node.kwonlyargs, node.kw_defaults)]
            pairs = [(parameter.arg, default) for parameter, default in pairs if default]
        elif isinstance(node, (ast.Assign, ast.AnnAssign)):
            pairs = [(last_name(target), node.value) for target in targets(node)]
        for name, value in pairs:
            also[name] |= set(map(last_name, entries(value))) - {name, ""}
    return also


def entries(node) -> list:
    """Of a table its values, of a choice both, of a call nothing, of anything else itself."""
    if isinstance(node, ast.IfExp):
        return [node.body, node.orelse]
    return getattr(node, "values", [] if isinstance(node, ast.Call) else [node])


def unsubscripted(node):
    """``a`` of ``a[b]``, and anything else as it is."""
    return node.value if isinstance(node, ast.Subscript) else node


def passed(texts: list[str]) -> tuple[dict[str, set[str]], dict[str, float]]:
    """What calls pass by name and how many arguments without one, by the last part of what is
    called. What a class is called with reaches its bases; what a variable, a parameter or an entry
    of a table is called with, all that it may be.

    "**" has what may come through a dictionary: the keys of all dictionaries, the names that
    `select` takes, and what is passed to a function with ``**`` or to an entry of a table. It is
    itself among the names of what is called with one.
    """
    names, most = defaultdict(set), defaultdict(float)
    found = [node for text in texts for node in nodes(text)]
    classes = [node for node in found if isinstance(node, ast.ClassDef)]
    bases = {node.name: set(map(last_name, map(unsubscripted, node.bases))) for node in classes}
    within = {id(part): node.name for node in classes for part in ast.walk(node)}
    also, functions = stand_for(found), [node for node in found if isinstance(node, FUNCTIONS)]
    loose = {"dict"} | {
        within.get(id(node), "") if node.name == "__init__" else node.name
        for node in functions
        if node.args.kwarg
    }
    for node in found:
        if isinstance(node, ast.Dict):
            names["**"] |= {getattr(key, "value", "") for key in node.keys}
        if not isinstance(node, ast.Call):
            continue
        name, args, of_table = last_name(node), node.args, isinstance(node.func, ast.Subscript)
        called = [*map(last_name, entries(unsubscripted(node.func)))]
        stars = any(isinstance(argument, ast.Starred) for argument in args)
        if name == "partial":
            called, args = [last_name(args[0])], args[1:]
            stars = stars or bool(args)  # others may follow them
        elif name in ("cls", "__init__"):  # `super().__init__`
            called = [within.get(id(node), "")]
        elif name == "select":
            names["**"] |= {getattr(argument, "value", "") for argument in args}
        called += ["**"] if of_table or loose & {*called} else []
        for name in called:  # which grows
            more = bases.get(name, set())
            if not isinstance(node.func, ast.Attribute):
                more = more | also.get(name, set())
            called += more - set(called)
            most[name] = max(most[name], math.inf if stars else len(args))
            names[name] |= {word.arg or "**" for word in node.keywords}
    return names, most


def cells(page: str) -> Iterator[str]:
    """The Python of a page, magic commands left out."""
    for _, text in CELL.findall(page):
        code = re.sub(r"^( *)[%!]", r"\1pass  # ", CELL_OPTIONS.sub("", text), flags=re.M)
        with contextlib.suppress(SyntaxError):  # of an example that leaves something open
            nodes(code)
            yield code


def options(tree: Path) -> list[Table]:
    """Optional parameters in the library that nobody is told of and no code but a test passes, by
    name or by place: the library, exercises, runs, tools, benchmarks, grader, and the cells and
    examples of the pages.

    An option is told if whoever reads the API finds what it does: it has an entry in the section
    ``Args:`` of the docstring of its function, method or class, and a page of ``api/`` shows that.
    """
    code = python_files(tree)
    texts, shown = [text for name, text in code.items() if not is_test(name)], set()
    for folder in ("sources", "api", "contributing", "."):
        for page in tree.glob("*.md" if folder == "." else f"{folder}/**/*.md"):
            text = page.read_text(encoding="utf-8")
            texts += cells(text)
            shown |= set(API.findall(text)) if folder == "api" else set()
    names, most = passed(texts)
    anywhere, number, in_tests, rows = set().union(*names.values()), 0, 0, []
    for path in filter(is_library, code):
        module = path.removesuffix(".py").replace("/", ".")
        page = {module, module.rpartition(".")[0]} & shown
        for owner, called, option, place, is_explained in optional(code[path]):
            number += 1
            # the name of a module that is called says nothing of its class
            given = anywhere if called == "forward" else names[called]
            given = given | names["**"] if "**" in given else given
            if option in given or most[called] > place:
                continue
            in_tests += 1
            if not (is_explained and (page or f"{LIBRARY}.{owner}" in shown)):
                rows.append((path, owner, option))
    counts = [(number, in_tests, len(rows))]
    return [
        Table("Optional parameters", "all only_in_tests of_these_untold", counts),
        Table("Optional parameters that only tests pass, untold", "file owner option", rows, True),
    ]


# --- exercises ---


def exercises(tree: Path) -> list[Table]:
    """Exercises, oracles (functions in the modules of checks that are no check themselves, inner
    ones too) with many parameters, and sentences for readers: strings of four words or more but
    docstrings and titles; of them the keys of dictionaries, which name mistakes.
    """
    text = {n: t for n, t in python_files(tree).items() if re.match(r"attnbook.*/checks/ch\d", n)}
    number, wide, sentences, named = 0, [], 0, 0
    for name, found in ((name, nodes(t)) for name, t in text.items()):
        told = {id(n.value) for n in found if isinstance(n, ast.Expr)}  # docstrings
        told |= {id(n.value) for n in found if isinstance(n, ast.keyword) and n.arg == "title"}
        told |= {id(part) for n in found if isinstance(n, ast.JoinedStr) for part in n.values}
        for node in found:
            if isinstance(node, FUNCTIONS):
                is_exercise = "exercise" in map(last_name, node.decorator_list)
                size = len(node.args.posonlyargs + node.args.args + node.args.kwonlyargs)
                number += is_exercise
                if size > PARAMETERS and not is_exercise:
                    wide.append((size, node.name, name))
            number += isinstance(node, ast.Call) and last_name(node) == "on_paper"
            sentences += id(node) not in told and _is_sentence(node)
            named += sum(map(_is_sentence, getattr(node, "keys", ())))
    counts = [(number, sentences, named, len(wide))]
    title = f"Oracles with more than {PARAMETERS} parameters"
    return [
        Table("Exercises", "exercises sentences in_dictionaries wide_oracles", counts),
        Table(title, "parameters oracle file", sorted(wide, reverse=True)),
    ]


def _is_sentence(node) -> bool:
    text = isinstance(node, ast.JoinedStr) or isinstance(getattr(node, "value", None), str)
    return text and isinstance(node, ast.expr) and len(ast.unparse(node).split()) > 3


SECTIONS = {
    "lines": lines,
    "folders": folders,
    "calls": calls,
    "time": ratio,
    "files": files,
    "options": options,
    "exercises": exercises,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sections", nargs="*", metavar="SECTION", help=", ".join(SECTIONS))
    parser.add_argument("--tree", type=Path, default=Path(__file__).parents[1], help="the checkout")
    parser.add_argument("--json", type=Path, help="a file for all tables")
    parser.add_argument("--verbose", action="store_true", help="print the long tables, too")
    given = parser.parse_args()
    if strange := set(given.sections) - set(SECTIONS):
        parser.error(f"SECTION must be one of {', '.join(SECTIONS)}, got {', '.join(strange)}")
    found = {name: SECTIONS[name](given.tree.resolve()) for name in given.sections or SECTIONS}
    for table in (table for tables in found.values() for table in tables):
        if given.verbose or not table.detail:
            show(table)
    if given.json:
        named = {name: [table._asdict() for table in tables] for name, tables in found.items()}
        given.json.write_text(json.dumps(named, indent=1, ensure_ascii=False) + "\n")


def show(table: Table) -> None:
    """Print a table, its numbers to the right."""
    rows = [table.columns.split(), *(tuple(map(str, row)) for row in table.rows)]
    wide = [max(map(len, column)) for column in zip(*rows)]
    right = [not isinstance(value, str) for value in [*table.rows, rows[0]][0]]
    print(f"\n{table.title}")
    for row in rows:
        row = (c.rjust(n) if r else c.ljust(n) for c, n, r in zip(row, wide, right))
        print("  " + "  ".join(row).rstrip())


if __name__ == "__main__":
    main()
