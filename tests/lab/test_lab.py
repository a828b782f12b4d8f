"""JupyterLab in a real browser: open a notebook, Restart & Run All, and read what was saved."""

import json
from pathlib import Path

import nbformat
import pytest
import small
from book import chromium_path

import lab
from bookbuild import source

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.lab, pytest.mark.slow]


@pytest.fixture()
def notebook(tmp_path):
    chromium_path()  # with a browser or not at all
    path = small.source_in(tmp_path)
    nbformat.write(source.student_version(source.read_source(path)), path.with_suffix(".ipynb"))
    return path.with_suffix(".ipynb")


def test_a_notebook_runs_from_top_to_bottom(notebook):
    picture = ROOT / "build" / "screenshots" / "lab.png"
    before = notebook.read_bytes()
    assert lab.headless(notebook, picture) == []
    assert notebook.read_bytes() == before, "the run is on a copy"
    assert picture.stat().st_size > 10_000


def test_a_cell_that_raises_is_named(notebook):
    nb = nbformat.read(notebook, as_version=4)
    cell = next(c for c in nb.cells if "print(total)" in c.source)
    cell.source += "\nraise RuntimeError('planted')"
    nbformat.write(nb, notebook)
    (said,) = lab.headless(notebook)
    assert "RuntimeError: planted" in said


def test_cells_out_of_order_are_named(tmp_path):
    cell = {"cell_type": "code", "source": "1", "outputs": []}
    cells = [{**cell, "execution_count": n} for n in (2, 1)]
    (tmp_path / "x.ipynb").write_text(json.dumps({"cells": cells}))
    assert lab.verdict(tmp_path / "x.ipynb") == ["the cells ran as [2, 1]"]
