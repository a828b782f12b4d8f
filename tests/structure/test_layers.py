"""Who may import whom: the contracts of pyproject.toml hold, and each of them can be broken."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONTRACTS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"][
    "importlinter"
]["contracts"]
# What a module may import when it is imported; all of it is on Colab, where the package is
# installed with --no-deps. Extras are imported inside the function that needs them (ruff, TID253).
COLAB = "torch numpy matplotlib tqdm scipy pandas pooch accelerate safetensors click IPython"
COLAB += " matplotlib_inline requests PIL sklearn sacrebleu tokenizers jinja2 pycocoevalcap triton"
COLAB += " distributed"


def lint(folder: Path) -> subprocess.CompletedProcess:
    return subprocess.run(
        [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"],
        cwd=folder,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(folder), "PATH": "/usr/bin:/bin", "PYTHONIOENCODING": "utf-8"},
    )


def test_the_contracts_hold():
    done = lint(ROOT)
    assert done.returncode == 0, done.stdout[-3000:]


def modules_named(value) -> set[str]:
    """Every module of ours that the contracts name."""
    if isinstance(value, dict | list):
        parts = value.values() if isinstance(value, dict) else value
        return set().union(*map(modules_named, parts))
    parts = map(str.strip, str(value).split("|"))
    return {part for part in parts if part.startswith(("attnbook", "bookbuild"))}


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("attnbook/mechanisms", "from ..models import part"),
        ("attnbook/mechanisms", "import numpy"),
        ("attnbook/models", "def f():\n    from attnbook_runs import part"),
        ("attnbook/tasks", "from .. import models"),
        ("attnbook/training", "import attnbook.models.part"),
        ("attnbook/training", "from attnbook_runs import part"),
        ("attnbook/figures", "import attnbook_exercises.part"),
        ("attnbook_exercises", "from attnbook.mechanisms import part"),
        ("attnbook_exercises", "import attnbook_runs.part"),
        ("attnbook/figures", "from attnbook.models import part"),
        ("attnbook/tasks", "from . import other  # and back"),
        ("attnbook/figures", "import bookbuild.part"),
        ("bookbuild", "from attnbook_grader import part"),
    ],
)
def test_a_planted_import_breaks_a_contract(tmp_path, module, line):
    (tmp_path / "pyproject.toml").write_bytes((ROOT / "pyproject.toml").read_bytes())
    for name in modules_named(CONTRACTS):
        folder = tmp_path / name.replace(".", "/")
        folder.mkdir(parents=True, exist_ok=True)
        for file in ("__init__.py", "part.py"):
            (folder / file).touch()
    (tmp_path / "attnbook" / "__init__.py").touch()
    if line.startswith("from . import other"):
        (tmp_path / "attnbook" / "tasks" / "other.py").write_text("from . import part\n")
    assert lint(tmp_path).returncode == 0, lint(tmp_path).stdout
    (tmp_path / module / "part.py").write_text(line + "\n")
    assert lint(tmp_path).returncode == 1


def test_nothing_imports_a_tool():
    import grimp

    packages = sorted(name for name in modules_named(CONTRACTS) if "." not in name)
    graph = grimp.build_graph(*packages, include_external_packages=True, cache_dir=None)
    assert {"nbformat", "bookbuild.source", "attnbook_grader.commands"} <= graph.modules
    assert not graph.modules & {path.stem for path in (ROOT / "tools").glob("*.py")}


def test_the_library_imports_nothing_that_colab_lacks():
    import grimp

    ours = "attnbook", "attnbook_exercises", "attnbook_runs"
    graph = grimp.build_graph(*ours, include_external_packages=True, cache_dir=None)
    outside = {name for name in graph.modules if not name.startswith("attnbook")}
    assert outside - set(sys.stdlib_module_names) <= set(COLAB.split())
