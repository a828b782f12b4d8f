"""A notebook that takes more memory than it declares makes the run red; more time does not."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from patience import HANGS

ROOT = Path(__file__).resolve().parents[2]


def notebook(seconds, memory):
    line = f"*quick: {seconds} s · {memory} · CPU — full: {seconds} s · {memory} · one GPU*"
    cells = [
        nbformat.v4.new_markdown_cell(f"# A notebook\n\n{line}"),
        nbformat.v4.new_code_cell("x = 1"),
        nbformat.v4.new_code_cell("assert x == 1"),
    ]
    return nbformat.v4.new_notebook(cells=cells)


@pytest.mark.slow
def test_a_promise_that_is_not_kept_is_a_failure(tmp_path):
    """On two workers; tests/bookbuild/test_execute.py has one without workers."""
    shutil.copy(ROOT / "conftest.py", tmp_path)
    for name, given in (("kept", (60, "1 GB")), ("slow", (0.001, "1 GB")), ("large", (60, "1 MB"))):
        nbformat.write(notebook(*given), tmp_path / f"{name}.ipynb")
    command = [sys.executable, "-m", "pytest", "--nbval", "--nbval-current-env", "-q", "-rfE"]
    command += ["-p", "no:cacheprovider", "--rootdir", tmp_path, "-n", "2", "--dist", "loadfile"]
    found = subprocess.run(
        [*command, tmp_path], cwd=tmp_path, capture_output=True, text=True, timeout=HANGS
    )
    said = found.stdout
    assert found.returncode == 1 and "1 failed, 5 passed" in said, said + found.stderr
    assert "large.ipynb: used" in said and "kept.ipynb:" not in said and "slow.ipynb:" not in said
    rows = json.loads((tmp_path / "build" / "notebooks.json").read_text(encoding="utf-8"))
    assert sorted(row["notebook"] for row in rows) == ["kept.ipynb", "large.ipynb", "slow.ipynb"]
