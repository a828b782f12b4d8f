"""Building and running notebooks: the same bytes twice, in the book's environment; strict nbval
goes red on each planted fault.
"""

import base64
import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import numpy as np
import psutil
import pytest
import small
from matplotlib.figure import Figure
from nbval.plugin import get_sanitize_patterns
from patience import HANGS
from PIL import Image

from bookbuild import execute

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.slow


def nbval(folder: Path, *more: str) -> tuple[set[str], str]:
    """Strict nbval with the configuration of the project: the notebooks of a folder that are red,
    and all that was said.
    """
    command = [sys.executable, "-m", "pytest", "-q", "-c", ROOT / "pyproject.toml", "--rootdir"]
    command += [ROOT, "-p", "conftest", "-p", "no:cacheprovider", *more, folder]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=HANGS, env=env)
    return set(re.findall(r"^FAILED \S*?(\w+)\.ipynb", done.stdout, re.MULTILINE)), done.stdout


def encoded(picture: Image.Image) -> str:
    data = io.BytesIO()
    picture.save(data, format="PNG", dpi=(220, 220))
    return base64.encodebytes(data.getvalue()).decode()


def test_a_figure_is_stored_with_few_colours_and_a_photograph_as_it_is():
    figure = Figure(figsize=(3, 2), dpi=220)
    figure.subplots().plot([0, 2, 1, 3], label="a curve")
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=220)
    drawn = Image.open(data).convert("RGB")
    noise = np.random.default_rng(0).integers(0, 256, (200, 300, 3), dtype=np.uint8)
    photograph = encoded(Image.fromarray(noise))
    few = Image.open(io.BytesIO(base64.b64decode(execute.lighter(encoded(drawn)))))
    assert few.mode == "P" and few.size == drawn.size and round(few.info["dpi"][0]) == 220
    assert np.abs(np.asarray(few.convert("RGB")).astype(int) - np.asarray(drawn)).mean() < 0.1
    assert execute.lighter(photograph) == photograph


def test_no_pattern_looks_through_the_rest_of_a_line_from_each_of_its_places():
    """A figure's script is one line of 80,000 characters: `.*` in front takes minutes there."""
    patterns = get_sanitize_patterns((ROOT / "tests" / "sanitize.cfg").read_text("utf-8"))
    assert len(patterns) > 3
    assert not [regex for regex, _ in patterns if regex.startswith(".*")]


@pytest.fixture
def builder(monkeypatch):
    """tools/build_notebooks.py"""
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import build_notebooks

    return build_notebooks


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The small notebook, built once; tests that break it take a copy."""
    return small.made_in(tmp_path_factory.mktemp("made"))


def copy_of(made: Path, folder: Path) -> Path:
    for path in (made, made.with_suffix(".md")):
        shutil.copy(path, folder)
    return folder / made.name


CLOCK = small.BODY.index("```{code-cell} ipython3\n:tags: [nbval-ignore-output]")
STEADY = small.HEAD + small.BODY[:CLOCK] + small.EXERCISE


def test_made_again_it_is_the_same_file_and_no_kernel_stays_behind(tmp_path):
    before = {child.pid for child in psutil.Process().children(recursive=True)}
    first = small.made_in(tmp_path, STEADY).read_bytes()
    (tmp_path / "small.ipynb").unlink()
    assert small.made_in(tmp_path, STEADY).read_bytes() == first
    assert {child.pid for child in psutil.Process().children(recursive=True)} <= before


ENVIRONMENT = """
```{code-cell} ipython3
import os
names = "ATTNBOOK_DATA", "ATTNBOOK_PRESET", "ATTNBOOK_PROGRESS", "CUDA_VISIBLE_DEVICES"
print([os.environ.get(name) for name in names])
```
"""
FAULTS = {
    "stale": (("print(total)", "print(total + 1)"), "Cell outputs differ"),
    "error": (("print(total)", "raise RuntimeError(total)"), "RuntimeError"),
    "large": (("1 GB", "1 MB"), "large.ipynb: used"),
}


def test_strict_nbval_goes_red_for_each_fault_and_for_nothing_else(made, tmp_path, monkeypatch):
    """In the book's environment: quick preset, no progress bars, mirror or GPU, whatever is set."""
    monkeypatch.setenv("ATTNBOOK_DATA", str(tmp_path))
    monkeypatch.setenv("ATTNBOOK_PRESET", "full")
    monkeypatch.setenv("MPLBACKEND", "agg")
    notebook = small.made_in(tmp_path, small.HEAD + ENVIRONMENT)
    assert "[None, 'quick', '0', '']" in notebook.read_text()
    notebook.rename(tmp_path / "environment.ipynb")
    sound = copy_of(made, tmp_path)
    for name, (fault, _) in FAULTS.items():
        nb = nbformat.read(sound, as_version=4)
        target = next(c for c in nb.cells if fault[0] in c.source)
        target.source = target.source.replace(*fault)
        nbformat.write(nb, tmp_path / f"{name}.ipynb")
    red, said = nbval(tmp_path)
    assert red == set(FAULTS) and not [w for _, w in FAULTS.values() if w not in said], said


def test_more_memory_than_declared_is_a_failure_with_workers_too_and_more_time_is_none(tmp_path):
    shutil.copy(ROOT / "conftest.py", tmp_path)
    promises = {"kept": "60 s · 1 GB", "slow": "0.001 s · 1 GB", "large": "60 s · 1 MB"}
    for name, said in promises.items():
        title = nbformat.v4.new_markdown_cell(f"# A notebook\n\n*runs in {said} · CPU*")
        code = [nbformat.v4.new_code_cell(code) for code in ("x = 1", "assert x == 1")]
        nbformat.write(nbformat.v4.new_notebook(cells=[title, *code]), tmp_path / f"{name}.ipynb")
    command = [sys.executable, "-m", "pytest", "--nbval", "--nbval-current-env", "-q", "-rfE"]
    command += ["-p", "no:cacheprovider", "--rootdir", tmp_path, "-n", "2", "--dist", "loadfile"]
    done = subprocess.run(
        [*command, tmp_path], cwd=tmp_path, capture_output=True, text=True, timeout=HANGS
    )
    said = done.stdout
    assert done.returncode == 1 and "1 failed, 5 passed" in said, said + done.stderr
    assert "large.ipynb: used" in said and "kept.ipynb:" not in said and "slow.ipynb:" not in said
    rows = json.loads((tmp_path / "build" / "notebooks.json").read_text(encoding="utf-8"))
    assert sorted(row["notebook"] for row in rows) == ["kept.ipynb", "large.ipynb", "slow.ipynb"]


def test_a_cell_without_an_answer_goes_red(tmp_path):
    """It stands alone: no other cell may take longer than the few seconds."""
    dead = {"endless": "import time; time.sleep(3600)", "dead": "import os; os._exit(1)"}
    for name, code in dead.items():
        nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
        nbformat.write(nb, tmp_path / f"{name}.ipynb")
    red, said = nbval(tmp_path, "--nbval-cell-timeout=3")
    assert red == set(dead) and "imeout" in said, said


def test_the_builder_checks_pairs_and_rules(made, tmp_path, capsys, builder):
    """--check is green on a sound pair, red when one word changes, and red on a stored error."""
    notebook, path = copy_of(made, tmp_path), str(tmp_path / "small.md")

    def build(*options, old="", new=""):
        """With a source in which something has changed."""
        if old:
            small.source_in(tmp_path, small.SOURCE.replace(old, new))
        return builder.main([*options, path]), capsys.readouterr().out

    assert build("--check") == (0, "")
    status, said = build("--check", old="an even number", new="an odd number")
    assert status == 1 and "build it again" in said
    outputs = notebook.read_text().count('"output_type"')
    assert build("--texts")[0] == 0
    assert "an odd number" in notebook.read_text()
    assert notebook.read_text().count('"output_type"') == outputs > 0
    status, said = build("--texts", old="print(total)", new="print(total + 1)")
    assert status == 1 and "its code changed too" in said and "+ 1" not in notebook.read_text()
    assert build("--renamed", "total=whole", old="total", new="whole")[0] == 0
    assert "print(whole)" in notebook.read_text()
    assert notebook.read_text().count('"output_type"') == outputs
    build("--renamed", "whole=total", old="total", new="total")
    nb = json.loads(notebook.read_text())
    cell = next(c for c in nb["cells"] if "print(total)" in "".join(c["source"]))
    error = {"output_type": "error", "ename": "ValueError", "evalue": "", "traceback": []}
    cell["outputs"] = [error]
    notebook.write_text(json.dumps(nb))
    status, said = build("--check")
    assert status == 1 and "the stored output is an error" in said


def test_measuring_alone_records_time_and_memory(made, tmp_path, capsys, monkeypatch, builder):
    """A notebook that is built on a busy machine leaves the recorded times as they are."""
    took = {"seconds": 3.0, "peak_mb": 400}
    monkeypatch.setattr(builder, "ROOT", tmp_path)
    monkeypatch.setattr(builder.execute, "execute", lambda nb, folder: took)
    notebook, recorded = copy_of(made, tmp_path), tmp_path / "results" / "notebooks.json"
    stored = notebook.read_bytes()
    assert builder.main(["--measure", str(notebook)]) == 0
    assert notebook.read_bytes() == stored
    assert json.loads(recorded.read_text()) == [{"notebook": "small.ipynb", **took}]
    took["seconds"] = 30.0
    builder.main([str(notebook)])
    assert json.loads(recorded.read_text())[0]["seconds"] == 3
    capsys.readouterr()
    assert builder.main(["--measure", str(notebook)]) == 1
    assert "small.md: the recorded run took 30 s, declared are 20 s" in capsys.readouterr().out
    assert json.loads(recorded.read_text())[0]["seconds"] == 30


def test_instructors_make_their_version_with_one_command(tmp_path, builder):
    path = small.source_in(tmp_path / "99_small")
    assert builder.main(["--instructor", str(tmp_path / "out"), str(path.parent)]) == 0
    text = (tmp_path / "out" / "99_small" / "small.ipynb").read_text()
    assert "return weights @ values" in text and "right." in text
