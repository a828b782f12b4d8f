"""Every name that the package offers is there and says what it is."""

import ast
import importlib
import inspect
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest
from patience import HANGS

import attnbook

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted(
    m.name
    for m in pkgutil.walk_packages(attnbook.__path__, "attnbook.")
    if not m.name.endswith("__main__")
)
PACKAGES = [
    "attnbook",
    *(name for name in MODULES if hasattr(importlib.import_module(name), "__path__")),
]


def faults(module) -> list[str]:
    names, said = list(getattr(module, "__all__", [])), []
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


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_can_be_imported_whole(name):
    space = {}
    exec(f"from {name} import *", space)
    assert set(getattr(importlib.import_module(name), "__all__", [])) <= set(space)


def test_the_package_can_be_imported_whole_by_a_new_interpreter():
    done = subprocess.run(
        [sys.executable, "-c", "from attnbook import *; print(NTM.__name__, setup.__name__)"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=HANGS,
    )
    assert done.stdout.split() == ["NTM", "setup"], done.stderr


def test_a_fault_is_seen():
    module = type(ast)("planted")
    module.__all__ = ["missing", "silent", "Pair", "Pair"]
    module.silent, module.Pair = (
        lambda: None,
        importlib.import_module("collections").namedtuple("Pair", "one two"),
    )
    assert faults(module) == [
        "planted has no docstring",
        "planted.__all__ has a name twice",
        "planted.missing does not exist",
        "planted.silent has no docstring",
        *2 * ["planted.Pair has no docstring"],
    ]
