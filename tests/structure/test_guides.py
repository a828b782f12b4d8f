"""The code of contributing/*.md, put where the guide says in a copy of the repository, passes the
tests that the guide names.
"""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import NamedTuple

import pytest
from patience import HANGS

ROOT = Path(__file__).resolve().parents[2]
GUIDES = sorted((ROOT / "contributing").glob("*.md"))
CODE = ("attnbook", "attnbook_exercises", "attnbook_runs", "tests")
LINKED = ("bookbuild", "data", "results", "conftest.py", "pyproject.toml", "references.bib")
BLOCK = re.compile(r"^( *)```python\n(.*?)^ *```$", re.M | re.S)
FILE = re.compile(r"`([\w/]+/\w+\.py)`")
STEP = re.compile(r"^\d+\. ", re.M)
EXAMPLE = {"chCC_CHAPTER/SECTION": "ch03_attention_family/general_layer"}


class Block(NamedTuple):
    """A block of Python, and the file that its step names last before it, or the guide's first."""

    guide: str
    file: str
    code: str


def blocks(path: Path) -> list[Block]:
    text, found = path.read_text(encoding="utf-8"), []
    for match in BLOCK.finditer(text):
        before = text[: match.start()]
        file = [*FILE.findall(before)[:1], *FILE.findall(STEP.split(before)[-1])][-1]
        for part, example in EXAMPLE.items():
            file = file.replace(part, example)
        found.append(Block(path.stem, file, textwrap.dedent(match[2])))
    return found


BLOCKS = [block for path in GUIDES for block in blocks(path)]


def put(tree: Path, block: Block) -> None:
    """Add the code to its file, and the classes that it defines to what their folder offers."""
    path = tree / block.file
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    classes = [node.name for node in ast.parse(block.code).body if isinstance(node, ast.ClassDef)]
    offered = "".join(f"__all__ += [{name!r}]\n" for name in classes if before)
    path.write_text(f"{before}\n\n{block.code}{offered}".lstrip(), encoding="utf-8")
    if block.file.startswith(("attnbook/mechanisms", "attnbook/models")) and not before:
        init, names = path.parent / "__init__.py", ", ".join(classes)
        added = f"\nfrom .{path.stem} import {names}\n\n__all__ += {classes}\n"
        init.write_text(init.read_text(encoding="utf-8") + added, encoding="utf-8")


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    """The code of the repository with that of all guides."""
    tree = tmp_path_factory.mktemp("tree")
    for name in CODE:
        shutil.copytree(ROOT / name, tree / name)
    for name in LINKED:
        (tree / name).symlink_to(ROOT / name)
    for block in BLOCKS:
        put(tree, block)
    return tree


def run(tree: Path, *arguments: str) -> subprocess.CompletedProcess:
    paths = [tree, tree / "tests" / "helpers"]
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=HANGS,
    )


@pytest.mark.parametrize("guide", sorted({block.guide for block in BLOCKS}))
def test_every_name_in_a_guide_is_known_where_its_code_stands(tree, guide):
    files = {block.file for block in BLOCKS if block.guide == guide}
    done = run(tree, "-m", "ruff", "check", "--isolated", "--select", "F", "--no-cache", *files)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_what_the_guides_add_passes_the_tests_that_they_name(tree):
    named = "mechanisms/scores mechanisms/attention kernels/test_visible.py test_every_module.py"
    named += " tasks/sequences tasks/translation structure/test_names.py"
    added = "gaussian or GaussianScore or Gate] or Tagger] or rotate or stands_in_the_catalogue"
    options = ["-q", "-p", "no:cacheprovider", "-k", added]
    done = run(tree, "-m", "pytest", *options, *(f"tests/{part}" for part in named.split()))
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(re.search(r"(\d+) passed", done.stdout)[1]) > 60, done.stdout


EDIT = re.compile(r"""^edit\("(.*?)", "(.*?)", "(.*?)"\)$""", re.M)
SLIP = ("the scale is missing", " / key.shape[-1] ** 0.5", "")
ANSWERS = """
import sys
from attnbook.checks import check

SOLUTION = "def scaled(query, key):\\n    return query @ key.T / key.shape[-1] ** 0.5"

def judged(code, scope):
    exec(code, scope)
    return check("03.scaled", scope["scaled"])

assert judged(SOLUTION, {})
for words, old, new in EDITS:
    assert old in SOLUTION
    print("\\0")
    assert not judged(SOLUTION.replace(old, new), {})
"""


@pytest.mark.slow
def test_the_exercise_of_the_guide_judges(tree):
    (code,) = [b.code for b in BLOCKS if b.guide == "exercise" and "edits(" in b.code]
    wrong = [SLIP, *EDIT.findall(code)]
    assert len(wrong) == 4, "three beside the slip"
    done = run(tree, "-c", f"EDITS = {wrong}\n{ANSWERS}")
    _, *said = done.stdout.split("\0\n")
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(words in verdict for (words, *_), verdict in zip(wrong, said, strict=True)), said


@pytest.mark.slow
def test_the_experiment_of_the_guide_runs(tree, tmp_path):
    code = "import sys, attnbook_runs as runs; runs.reproduce('reversal', out=sys.argv[1], "
    done = run(tree, "-c", f"{code}commit='abc', steps=2, hidden_size=8)", str(tmp_path))
    assert done.returncode == 0, done.stderr
    record = json.loads((tmp_path / "reversal.seed0.json").read_text(encoding="utf-8"))
    assert 0 <= record["figures"]["exact"] <= 1 and record["figures"]["parameters"] > 0
