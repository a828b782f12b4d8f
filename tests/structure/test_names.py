"""Every name that the package offers is there and says what it is."""

import ast
import importlib
import inspect
import pkgutil
import re
from collections import namedtuple
from pathlib import Path

import catalogue
import pytest
from torch import nn

import attnbook
import attnbook_exercises
import attnbook_runs

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted(
    m.name
    for package in (attnbook, attnbook_exercises, attnbook_runs)
    for m in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    if not m.name.endswith("__main__")
)


def offered(module) -> list[str]:
    """What a module lists in ``__all__``; the tasks list nothing, there it is what they define."""
    defined = [
        name
        for name, value in vars(module).items()
        if module.__name__.startswith("attnbook.tasks.") and not name.startswith("_")
        if getattr(value, "__module__", None) == module.__name__
    ]
    return list(getattr(module, "__all__", defined))


def faults(module) -> list[str]:
    names, said = offered(module), []
    said += [f"{module.__name__} has no docstring"] if not (module.__doc__ or "").strip() else []
    said += [f"{module.__name__}.__all__ has a name twice"] if len(set(names)) < len(names) else []
    for name in names:
        if not hasattr(module, name):
            said.append(f"{module.__name__}.{name} does not exist")
            continue
        value = getattr(module, name)
        if not (inspect.isclass(value) or inspect.isfunction(value)):
            continue  # a table, a number or a string: its module says what it is
        words = vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__
        # what a tuple or a dataclass says by itself
        if not (words or "").strip() or words.startswith(f"{value.__name__}("):
            said.append(f"{module.__name__}.{name} has no docstring")
    return said


@pytest.mark.parametrize("name", ["attnbook", *MODULES])
def test_every_name_on_offer_exists_and_is_documented(name):
    assert not faults(importlib.import_module(name))


def pages_of_the_api() -> set[str]:
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "api").glob("*.md")]
    return set(re.findall(r"package-api:: (\S+)", "\n".join(texts)))


@pytest.mark.parametrize("part", ["decoding", "pretrained", "tasks", "training"])
def test_what_a_package_exports_is_on_a_page_of_the_api(part):
    """A page shows what a module of its package offers."""
    package, missing = importlib.import_module(f"attnbook.{part}"), []
    for name in package.__all__:
        value = getattr(package, name)
        home = getattr(value, "__module__", "")
        if inspect.isclass(value) or inspect.isfunction(value):
            listed = name in offered(importlib.import_module(home))
            on_a_page = {home, home.rpartition(".")[0]} & pages_of_the_api()
            missing += [] if listed and on_a_page else [f"{home}.{name}"]
    assert not missing


def test_a_fault_is_seen():
    module = type(ast)("planted")
    module.__all__ = ["missing", "silent", "Pair", "Pair"]
    module.silent, module.Pair = lambda: None, namedtuple("Pair", "one two")
    assert faults(module) == [
        "planted has no docstring",
        "planted.__all__ has a name twice",
        "planted.missing does not exist",
        "planted.silent has no docstring",
        *2 * ["planted.Pair has no docstring"],
    ]


def switches() -> dict[str, inspect.Signature]:
    """Every function and method that can be asked for its weights."""
    found = {}
    for name in MODULES:
        for value in vars(importlib.import_module(name)).values():
            owner = getattr(value, "__module__", None) == name
            parts = list(vars(value).values()) if owner and inspect.isclass(value) else [value]
            for part in parts:
                if inspect.isfunction(part) and part.__module__ == name:
                    signature = inspect.signature(part)
                    if "need_weights" in signature.parameters:
                        found[f"{name}.{part.__qualname__}"] = signature
    return found


def test_weights_come_from_an_attention_unasked_and_from_what_is_built_on_it_when_asked():
    wrong, found = [], switches()
    for name, signature in found.items():
        switch = signature.parameters["need_weights"]
        if switch.default is not switch.empty and (
            switch.kind is not switch.KEYWORD_ONLY
            or switch.default is not ("Attended" in str(signature.return_annotation))
        ):
            wrong.append(f"{name}{signature}")
    assert len(found) > 40 and not wrong, "\n".join(wrong)


def test_every_public_module_stands_in_the_catalogue():
    public = {
        name
        for name in attnbook.__all__
        if inspect.isclass(kind := getattr(attnbook, name)) and issubclass(kind, nn.Module)
    }
    assert public == set(catalogue.MAKE) | catalogue.BASE_CLASSES
    for name in catalogue.MAKE:
        around = ("NoResidual", "PostNorm", "PreNorm", "ReZero", "SandwichNorm")
        if name not in around:  # around a layer
            assert isinstance(catalogue.make(name).module, getattr(attnbook, name)), name


def test_no_argument_is_told_by_a_letter_and_a_full_stop():
    """On the API pages that is an item of a list."""
    for path in (ROOT / "attnbook").rglob("*.py"):
        told = path.read_text(encoding="utf-8")
        assert not re.search(r"^ +\w+: [A-Za-z]\.$", told, re.M), path
