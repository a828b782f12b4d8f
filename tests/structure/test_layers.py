"""Who may import whom. Read from the source with ast: nothing is imported."""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "attnbook"

# Parts of the package that each part may import, beside itself.
MAY = {
    "validate": set(),
    "mechanisms": {"validate"},
    "models": {"mechanisms", "validate"},
    "tasks": {"resources", "validate"},
    "training": {"tasks", "validate"},  # the special ids and the shape of a batch; no model
    "figures": {"validate"},
    "sandbox": set(),
    "checks": {"sandbox"},  # how a student's function is called, and what it costs
    "course": {"checks", "sandbox"},
    "experiments": {
        "validate",
        "mechanisms",
        "models",
        "tasks",
        "training",
        "figures",
        "resources",
    },
    "resources": set(),
    "notebook": {"figures"},
}
FREE = {"cli", "__main__", "__init__"}
# What mechanisms and models may import from outside the standard library; the rest of the run-time
# code is held to what Colab has.
LIGHT = {"torch"}
COLAB = {
    "torch",
    "numpy",
    "matplotlib",
    "tqdm",
    "scipy",
    "pandas",
    "pooch",
    "accelerate",
    "safetensors",
    "click",
    "IPython",
    "matplotlib_inline",
    "psutil",
    "nbformat",
    "requests",
    "PIL",
    "sklearn",
}
# Imported inside the function that uses them, with an error that names the extra.
LATE = {
    "sacrebleu",
    "tokenizers",
    "pycocoevalcap",
    "nbgrader",
    "jupytext",
    "nbclient",
    "jupyter_client",
    "nbconvert",
    "traitlets",
    "bs4",
    "distributed",
}


def part_of(path: Path, package: Path) -> str:
    return path.relative_to(package).with_suffix("").parts[0]


def imports(tree: ast.Module, path: Path, package: Path):
    """(top-level name outside the package or part inside it, inside?, late?) of every import of
    a module.
    """
    here = ["attnbook", *path.relative_to(package).with_suffix("").parts]
    inside_functions = {
        id(n)
        for f in ast.walk(tree)
        if isinstance(f, (ast.FunctionDef, ast.AsyncFunctionDef))
        for n in ast.walk(f)
    }
    for node in ast.walk(tree):
        late = id(node) in inside_functions
        if isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = here[: len(here) - node.level] if node.level else []
            module = base + (node.module.split(".") if node.module else [])
            names = [module + [alias.name] for alias in node.names] if len(module) < 2 else [module]
        else:
            continue
        for name in names:
            if name[0] == "attnbook":
                yield (name[1] if len(name) > 1 else ""), True, late
            else:
                yield name[0], False, late


def faults(package: Path) -> list[str]:
    """Every import of the package that breaks a rule."""
    said = []
    parts = {p.stem for p in package.iterdir()}
    for path in sorted(package.rglob("*.py")):
        part = part_of(path, package)
        if part in FREE:
            continue
        if part not in MAY:
            said.append(
                f"{path.relative_to(package)}: a new part of the package; say in this test what "
                f"it may import"
            )
            continue
        for name, inside, late in imports(
            ast.parse(path.read_text(encoding="utf-8")), path, package
        ):
            where = f"{path.relative_to(package)} imports {name}"
            if inside:
                if name in parts - {"__init__"} and name != part and name not in MAY[part]:
                    said.append(where)
            elif name not in sys.stdlib_module_names:
                allowed = (
                    LIGHT
                    if part in ("mechanisms", "models", "validate")
                    else COLAB | (LATE if late else set())
                )
                if name not in allowed:
                    said.append(where)
    return said


def test_the_package_keeps_its_layers():
    assert faults(PACKAGE) == []


@pytest.mark.parametrize(
    "file, line",
    [
        ("mechanisms/a.py", "from ..models import Seq2Seq"),
        ("mechanisms/a.py", "import numpy as np"),
        ("models/a.py", "def f():\n    from attnbook.training import fit"),
        ("models/a.py", "import matplotlib.pyplot as plt"),
        ("tasks/a.py", "from .. import models"),
        ("training/a.py", "import attnbook.models.rnn.seq2seq"),
        ("checks/a.py", "from ..mechanisms import attend"),
        ("figures/a.py", "from attnbook.models import Bahdanau"),
        ("training/a.py", "import sacrebleu"),
        ("experiments/a.py", "import d2l"),
        ("surprise/a.py", "import torch"),
    ],
)
def test_a_planted_import_is_seen(tmp_path, file, line):
    package = tmp_path / "attnbook"
    for part in [*MAY, "surprise"]:
        if part != "surprise" or file.startswith("surprise"):
            (package / part).mkdir(parents=True)
    (package / "__init__.py").touch()
    assert faults(package) == []
    (package / file).write_text(line + "\n")
    assert len(faults(package)) == 1


def test_a_plain_import_is_light():
    """`import attnbook` takes torch along and neither matplotlib nor a notebook's machinery."""
    import subprocess

    code = (
        "import attnbook, sys; print([m for m in ('matplotlib', 'IPython', 'pandas', "
        "'accelerate', 'scipy', 'jupytext') if m in sys.modules])"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT
        ).stdout.strip()
        == "[]"
    )
