"""Every section is a pair, a source and a notebook, that say the same and keep the rules; and the
contents list all of them.
"""

import base64
import io
import json
import re
from collections import Counter
from pathlib import Path

import nbformat
import numpy as np
import pytest
from book import toc_files
from PIL import Image

from attnbook.checks import exercises
from bookbuild import measure, promise, publish, rules, source

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted(p for p in (ROOT / "sources").rglob("*.md") if source.is_source(p))
NOTEBOOKS = sorted((ROOT / "chapters").glob("*/*.ipynb"))
RECORDED = json.loads((ROOT / "results" / "notebooks.json").read_text(encoding="utf-8"))


def _id(path):
    return "/".join(path.with_suffix("").parts[-2:])


def test_no_source_and_no_notebook_is_alone():
    assert SOURCES, "there are no chapters"
    assert {_id(p) for p in SOURCES} == {_id(p) for p in NOTEBOOKS}


def test_contents_list_every_page_and_nothing_else():
    pages = [*NOTEBOOKS, *(ROOT / "chapters").rglob("*.md")]
    pages += [p for part in ("appendix", "api") for p in (ROOT / part).glob("*.md")]
    pages = {p.relative_to(ROOT).with_suffix("").as_posix() for p in pages}
    assert {name for name in toc_files() if "/" in name} == pages


@pytest.mark.parametrize("path", SOURCES, ids=_id)
def test_the_notebook_is_what_its_source_says(path):
    """Cell by cell: type, text, metadata and id of the readers' notebook."""
    stored = nbformat.read(source.notebook_of(path), as_version=4)
    made = publish.readable(source.read_source(path), path, stored)
    again = f"run: python tools/build_notebooks.py {path.relative_to(ROOT)}"
    for new, old in zip(source.skeleton(made), source.skeleton(stored)):
        assert new == old, again
    assert [c.id for c in made.cells] == [c.id for c in stored.cells], again


@pytest.mark.parametrize("path", NOTEBOOKS, ids=_id)
def test_the_notebook_keeps_the_rules(path):
    """Set-up cell, declared line, tags, outputs, alt text, exercises, comparison switched off
    only where training decides.
    """
    assert rules.problems(nbformat.read(path, as_version=4)) == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=_id)
def test_recorded_time_and_memory_are_what_the_notebook_declares(path):
    (row,) = [row for row in RECORDED if ROOT / row["notebook"] == path]
    said = promise.declared(nbformat.read(path, as_version=4))
    assert measure.untrue_promise(said.quick, row["seconds"], row["peak_mb"]) == []


def test_recorded_rows_are_the_notebooks_and_each_ends_in_150_seconds():
    assert [set(row) for row in RECORDED] == [{"notebook", "seconds", "peak_mb"}] * len(RECORDED)
    assert [ROOT / row["notebook"] for row in RECORDED] == NOTEBOOKS
    assert max(row["seconds"] for row in RECORDED) <= 150


def test_labels_are_unique_in_the_book():
    """(label)= over a title or before an equation: the website's build stops at a second one."""
    label, labels = r"^\(([\w-]+)\)=$|^\$\$ \(([\w-]+)\)$", []
    for path in (*SOURCES, *(ROOT / "chapters").rglob("index.md")):
        labels += map("".join, re.findall(label, path.read_text("utf-8"), flags=re.MULTILINE))
    assert len(labels) > 50 and [name for name, n in Counter(labels).items() if n > 1] == []


def test_names_are_unique_in_the_book():
    """grade_ids and figure names: two notebooks may not use one name."""
    names = []
    for path in SOURCES:
        for cell in source.student_version(source.read_source(path)).cells:
            names.append(cell.metadata.get("nbgrader", {}).get("grade_id"))
            names.append(cell.metadata.get("mystnb", {}).get("figure", {}).get("name"))
    assert [name for name, n in Counter(filter(None, names)).items() if n > 1] == []


def test_exercises_of_the_notebooks_are_those_of_the_registry():
    """At least 15 in all and 4 a chapter, and every exercise of attnbook.checks stands in the
    notebook that it names.
    """
    found = {}
    for path in NOTEBOOKS:
        for cell in nbformat.read(path, as_version=4).cells:
            meta = cell.metadata.get("nbgrader", {})
            if meta.get("solution"):
                found[meta["grade_id"]] = (path.stem, path.parent.name[:2])
    assert found == {e.key: (e.notebook, e.id[:2]) for e in exercises().values()}
    chapters = [chapter for _, chapter in found.values()]
    assert len(found) >= 15 and all(chapters.count(c) >= 4 for c in set(chapters))


def test_no_pairing_that_would_overwrite_the_sources():
    """A pair that JupyterLab keeps in step would write the student's stubs over the solutions
    when a reader saves.
    """
    assert "jupytext]" not in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    for path in SOURCES:
        assert "formats:" not in path.read_text(encoding="utf-8")[:600], path
    for path in NOTEBOOKS:
        assert "jupytext" not in nbformat.read(path, as_version=4).metadata, path


@pytest.mark.parametrize("path", NOTEBOOKS, ids=_id)
def test_figures_stay_readable_on_a_dark_page(path):
    """Each figure is an opaque picture with a light face, and no wider than a page."""
    cells = enumerate(nbformat.read(path, as_version=4).cells)
    outputs = [(i, out) for i, cell in cells for out in cell.get("outputs", [])]
    for i, out in outputs:
        if "image/png" in out.get("data", {}):
            picture = Image.open(io.BytesIO(base64.b64decode(out.data["image/png"])))
            pixels = np.asarray(picture.convert("RGBA"))
            edge = np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]])
            assert pixels[..., 3].min() == 255, f"cell {i}: a transparent figure"
            assert np.median(edge[:, :3]) > 215, f"cell {i}: a dark face"
            shown = out.metadata.get("image/png", {}).get("width", picture.width)
            assert shown <= 1100, f"cell {i}: {shown} px wide"
