"""Writes data/interface.csv, what the notebooks use of the library, and keeps its numbers:

    python tools/make_interface.py [--check]

The list has the names and keywords that the notebooks use, the exercises that they check and the
records that they read. Where it differs from the committed one, INTERFACE in attnbook/version.py
rises by one, so that a notebook and a library of different days are told apart (`attnbook.setup`).
Where the library no longer offers what the committed list has, OLDEST_INTERFACE rises to it as
well. `tools/build_notebooks.py` does the same before it makes a notebook.
"""

from __future__ import annotations

import argparse
import ast
import csv
import fnmatch
import importlib
import inspect
import io
import re
import subprocess
import sys
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from bookbuild import setup_cell, source
from bookbuild.nondeterminism import parse

ROOT = Path(__file__).resolve().parents[1]
LIST = "data/interface.csv"
NUMBER = "interface"
Entries = frozenset[tuple[str, str]]
"""(kind, entry) with the kinds name, keyword, exercise and record."""


def used_by(nb) -> Entries:
    """What the code cells of a notebook use of the library."""
    trees = [parse(cell.source) for cell in nb.cells if cell.cell_type == "code"]
    names: dict[str, str] = {"attnbook": "attnbook"}
    found: set[tuple[str, str]] = set()
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "attnbook":
            for alias in node.names:
                names[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                found.add(("name", f"{node.module}.{alias.name}"))
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "attnbook":
                    found.add(("name", alias.name))
                    if alias.asname:
                        names[alias.asname] = alias.name
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.Attribute) and (path := _dotted(node, names)):
            found.add(("name", path))
        if isinstance(node, ast.Call) and (path := _dotted(node.func, names)):
            found |= {("keyword", f"{path} {k.arg}") for k in node.keywords if k.arg}
            if path == "attnbook.checks.check" and node.args:
                found.add(("exercise", ast.literal_eval(node.args[0])))
    return frozenset(found | {("record", name) for name in _records(trees)})


def _dotted(node, names):
    """attnbook.x.y for what an expression names, None where it is not of the library."""
    if isinstance(node, ast.Name):
        path = names.get(node.id)
    elif isinstance(node, ast.Attribute):
        above = _dotted(node.value, names)
        # an attribute of a class or a function is no name that one imports
        path = f"{above}.{node.attr}" if above and inspect.ismodule(_object(above)) else None
    else:
        path = None
    return path


def _records(trees) -> set[str]:
    """The files of results/ whose names the code makes: the parts that a pattern leaves open stand
    in the code, too.
    """
    patterns, words = set(), set()
    for node in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(node, ast.JoinedStr):
            text = "".join(
                str(v.value) if isinstance(v, ast.Constant) else "*" for v in node.values
            )
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            text = node.value
            words |= set(re.findall(r"[a-z0-9]+", text.lower()))
        elif isinstance(node, ast.Constant) and isinstance(node.value, int):
            words.add(str(node.value))
            continue
        else:
            words |= {name.lower() for name in _identifiers(node)}
            continue
        text = re.sub(r"\{[^}]*\}", "*", text)  # of a string that is formatted later
        if re.search(r"results/|\.seed|\.json$|\.safetensors$", text):
            patterns.add(text.rpartition("/")[2])
    found = set()
    for name in _recorded():
        for pattern in patterns:
            if fnmatch.fnmatchcase(name, pattern):
                rest = re.fullmatch(fnmatch.translate(pattern).replace(".*", "(.*)"), name)
                open_parts = " ".join(rest.groups()) if rest else ""
                if set(re.findall(r"[a-z]+", open_parts)) <= words:
                    found.add(name)
    return found


def _identifiers(node):
    if isinstance(node, ast.keyword) and node.arg:
        return node.arg.split("_")
    return ()


@lru_cache
def _recorded() -> tuple[str, ...]:
    return tuple(sorted(p.name for p in (ROOT / "results").iterdir() if p.suffix != ".png"))


def collect() -> Entries:
    """What all notebooks of the book use."""
    found: set[tuple[str, str]] = set()
    for path in sorted((ROOT / "sources").rglob("*.md")):
        if source.is_source(path):
            found |= used_by(source.student_version(source.read_source(path)))
    return frozenset(found)


def offers(kind: str, entry: str) -> bool:
    """Whether the library has an entry of the list."""
    if kind == "record":
        return (ROOT / "results" / entry).is_file()
    if kind == "exercise":
        from attnbook.checks import exercises

        return entry in exercises()
    name, _, keyword = entry.partition(" ")
    found = _object(name)
    if found is None or not keyword:
        return found is not None
    try:
        arguments = inspect.signature(found).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(a.name == keyword or a.kind is a.VAR_KEYWORD for a in arguments)


@cache
def _object(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    try:
        return importlib.import_module(name)
    except ImportError:
        above = _object(module) if module else None
        return getattr(above, attribute, None)


def written(number: int, entries: Entries) -> str:
    """The list as a file."""
    out = io.StringIO()
    rows = csv.writer(out, lineterminator="\n")
    rows.writerow(("kind", "entry"))
    rows.writerow((NUMBER, number))
    rows.writerows(sorted(entries))
    return out.getvalue()


def read(text: str) -> tuple[int, Entries]:
    """The number and the entries of a list."""
    _, (_, number), *rows = csv.reader(io.StringIO(text))
    return int(number), frozenset((kind, entry) for kind, entry in rows)


def committed(root: Path = ROOT, commit: str = "HEAD") -> tuple[int, Entries] | None:
    """The list of a commit, None where there is none."""
    shown = subprocess.run(
        ["git", "show", f"{commit}:{LIST}"], cwd=root, capture_output=True, text=True
    )
    return read(shown.stdout) if shown.returncode == 0 else None


def numbers(before: tuple[int, Entries] | None, now: Entries) -> tuple[int, int]:
    """INTERFACE and OLDEST_INTERFACE for the entries `now`, after a list of `before`."""
    oldest = setup_cell.oldest_interface(ROOT)
    if before is None or before[1] == now:
        number = before[0] if before else setup_cell.current_interface(ROOT)
        return number, min(oldest, number)
    number = before[0] + 1
    gone = [entry for entry in before[1] if not offers(*entry)]
    return number, number if gone else oldest


def refresh() -> tuple[int, int]:
    """Write the list and the numbers; returns them."""
    now = collect()
    current, oldest = numbers(committed(), now)
    version = ROOT / "attnbook" / "version.py"
    text = version.read_text(encoding="utf-8")
    new = re.sub(r"(?m)^INTERFACE = \d+$", f"INTERFACE = {current}", text)
    new = re.sub(r"(?m)^OLDEST_INTERFACE = \d+$", f"OLDEST_INTERFACE = {oldest}", new)
    if new != text:
        version.write_text(new, encoding="utf-8")
    made = written(current, now)
    if not (ROOT / LIST).is_file() or (ROOT / LIST).read_text(encoding="utf-8") != made:
        (ROOT / LIST).write_text(made, encoding="utf-8")
    return current, oldest


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if it differs")
    if not parser.parse_args(argv).check:
        current, oldest = refresh()
        print(f"the notebooks use interface {current}; the library offers {oldest} to {current}")
        return 0
    number, stored = read((ROOT / LIST).read_text(encoding="utf-8"))
    now = collect()
    for word, entries in (("gone from", stored - now), ("new in", now - stored)):
        for kind, entry in sorted(entries):
            print(f"{word} the notebooks: {kind} {entry}")
    if stored != now or number != setup_cell.current_interface(ROOT):
        print(f"{LIST} is not current: python tools/make_interface.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
