"""API pages from the docstrings, linked with the sections of the book that teach each thing.

``.. package-api:: attnbook.mechanisms.scores`` documents every module of a package. What the ledger
(`data/ledger.csv`) says a section teaches gets a link to that section, and the section gets a line
with links to what the library calls it.
"""

from __future__ import annotations

import csv
import importlib
import inspect
import json
import pkgutil
from collections import defaultdict
from functools import cache
from pathlib import Path

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from sphinx.util.nodes import nested_parse_with_titles

ROOT = Path(__file__).resolve().parents[2]


def full_name(obj) -> str:
    """Where an object is defined, however it was imported; of a method, where its class is."""
    return f"{obj.__module__}.{obj.__qualname__.partition('.')[0]}"


def resolve(name: str):
    """The object that a dotted name of the ledger stands for, or None."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:length]))
        except ImportError:
            continue
        for attribute in parts[length:]:
            found = getattr(found, attribute, None)
        return found
    return None


@cache
def taught() -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """{object: sections that teach it} and {section: objects}, both in the order of the ledger."""
    sections, objects = defaultdict(list), defaultdict(list)
    rows = _rows("ledger.csv")
    modifications = next(row["section"] for row in rows if row["id"] == "S6.19")
    rows += [{**row, "section": modifications} for row in _rows("modifications.csv")]
    for row in rows:
        for name in row["name"].split():
            obj = resolve(name)
            if not (inspect.isclass(obj) or inspect.isfunction(obj)):
                continue
            key = full_name(obj)
            if row["section"] not in sections[key]:
                sections[key].append(row["section"])
            if key not in objects[row["section"]]:
                objects[row["section"]].append(key)
    return sections, objects


def _rows(name: str) -> list[dict[str, str]]:
    with (ROOT / "data" / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def offered(module) -> list[str]:
    """The names that a module has for others: ``__all__``, or in ``attnbook.tasks``, whose modules
    have none, every function and class that it defines without an underscore."""
    names = [
        name
        for name, value in vars(module).items()
        if module.__name__.startswith("attnbook.tasks.")
        and getattr(value, "__module__", None) == module.__name__
        and (inspect.isclass(value) or inspect.isfunction(value))
        and not name.startswith("_")
    ]
    return getattr(module, "__all__", names)


def is_documented(module: str) -> bool:
    """Whether a module has a place on the API pages: it offers something that its part of the
    library exports, or that a section teaches."""
    found = importlib.import_module(module)
    exported = importlib.import_module(".".join(module.split(".")[:2]))
    names = offered(found)
    return any(hasattr(exported, name) or f"{module}.{name}" in taught()[0] for name in names) or (
        bool(names) and exported.__name__.split(".")[1] not in ("mechanisms", "models")
    )


class PackageApi(Directive):
    """Documents what each module of a package offers."""

    required_arguments = 1

    def run(self):
        package = importlib.import_module(self.arguments[0])
        names = [package.__name__] if not hasattr(package, "__path__") else []
        if not names:
            names = [
                f"{package.__name__}.{module.name}"
                for module in pkgutil.iter_modules(package.__path__)
                if not module.ispkg
            ]
        lines = []
        for name in names:
            if is_documented(name):
                lines += [f".. rubric:: {name}", "", f".. automodule:: {name}", "   :members:", ""]
        node = nodes.section()
        node.document = self.state.document
        nested_parse_with_titles(self.state, StringList(lines, self.arguments[0]), node)
        return node.children


def link_to_sections(app, what, name, obj, options, lines):
    """Behind the docstring of what a section teaches: where."""
    if inspect.isclass(obj) or inspect.isfunction(obj):
        for section in taught()[0].get(full_name(obj), []):
            lines += ["", f"Taught in :doc:`/{section}`."]


def skip_fields(app, what, name, obj, skip, options):
    """The fields of a tuple are described by its docstring."""
    return skip or (getattr(obj, "__doc__", "") or "").startswith("Alias for field number")


def link_to_api(app, docname, source):
    """At the end of a section: what the library calls the things that it teaches."""
    names = taught()[1].get(docname)
    if not names or not source[0].lstrip().startswith("{"):
        return
    notebook = json.loads(source[0])
    linked = ", ".join(f"{{py:obj}}`~{name}`" for name in names if is_public(name))
    if linked:
        text = f"```{{admonition}} In the library\n:class: seealso\n{linked}\n```"
        notebook["cells"].append(
            {"cell_type": "markdown", "id": "in-the-library", "metadata": {}, "source": text}
        )
        source[0] = json.dumps(notebook)


def is_public(name: str) -> bool:
    """Whether an API page documents the object: its module offers it, and has a page."""
    module, _, attribute = name.rpartition(".")
    pages = ("mechanisms", "models", "tasks", "training", "figures", "checks")
    return module.split(".")[1] in pages and attribute in offered(importlib.import_module(module))


def setup(app):
    app.add_directive("package-api", PackageApi)
    app.connect("autodoc-process-docstring", link_to_sections)
    app.connect("autodoc-skip-member", skip_fields)
    app.connect("source-read", link_to_api)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
