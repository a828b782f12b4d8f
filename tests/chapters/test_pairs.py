"""Every section is a pair, a source and a notebook, that say the same and keep the rules; and the
contents list all of them.
"""

import io
import json
import re
from pathlib import Path

import nbformat
import pytest
from book import toc_files

from bookbuild import measure, promise, publish, rules, source

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted(p for p in (ROOT / "sources").rglob("*.md") if source.is_source(p))
NOTEBOOKS = sorted(
    p for p in (ROOT / "chapters").rglob("*.ipynb") if ".ipynb_checkpoints" not in p.parts
)


def _id(path):
    return "/".join(path.with_suffix("").parts[-2:])


def test_no_source_and_no_notebook_is_alone():
    assert SOURCES, "there are no chapters"
    assert {_id(p) for p in SOURCES} == {_id(p) for p in NOTEBOOKS}


def test_contents_list_every_page_and_nothing_else():
    pages = {
        p.relative_to(ROOT).with_suffix("").as_posix()
        for p in [
            *NOTEBOOKS,
            *(ROOT / "chapters").rglob("*.md"),
            *(ROOT / "appendix").glob("*.md"),
            *(ROOT / "api").glob("*.md"),
        ]
    }
    assert {name for name in toc_files() if "/" in name} == pages


@pytest.mark.parametrize("path", SOURCES, ids=_id)
def test_the_notebook_is_what_its_source_says(path):
    """Cell by cell: type, text, metadata and id of the readers' notebook."""
    stored = nbformat.read(source.notebook_of(path), as_version=4)
    made = publish.readable(source.read_source(path), path, stored)
    again = (
        f"differs from its source; run: python tools/build_notebooks.py {path.relative_to(ROOT)}"
    )
    assert len(made.cells) == len(stored.cells), again
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
    rows = {
        row["notebook"]: row
        for row in json.loads((ROOT / "results" / "notebooks.json").read_text(encoding="utf-8"))
    }
    row = rows[path.relative_to(ROOT).as_posix()]
    said = promise.declared(nbformat.read(path, as_version=4))
    assert measure.untrue_promise(said.quick, row["seconds"], row["peak_mb"]) == []


def test_recorded_rows_are_the_notebooks():
    rows = json.loads((ROOT / "results" / "notebooks.json").read_text(encoding="utf-8"))
    assert [set(row) for row in rows] == [{"notebook", "seconds", "peak_mb"}] * len(rows)
    assert [row["notebook"] for row in rows] == [p.relative_to(ROOT).as_posix() for p in NOTEBOOKS]


def test_a_section_of_the_quick_preset_ends_in_150_seconds():
    rows = json.loads((ROOT / "results" / "notebooks.json").read_text(encoding="utf-8"))
    assert max(row["seconds"] for row in rows) <= 150


def test_labels_are_unique_in_the_book():
    """(label)= over a title or before an equation: the website's build stops at a second one."""
    labels = [
        label
        for path in (*SOURCES, *(ROOT / "chapters").rglob("index.md"))
        if ".ipynb_checkpoints" not in path.parts
        for label in re.findall(
            r"^\(([\w-]+)\)=$|^\$\$ \(([\w-]+)\)$",
            path.read_text(encoding="utf-8"),
            flags=re.MULTILINE,
        )
    ]
    labels = ["".join(label) for label in labels]
    assert len(labels) > 50 and [label for label in set(labels) if labels.count(label) > 1] == []


def test_names_are_unique_in_the_book():
    """grade_ids and figure names: two notebooks may not use one name."""
    seen = {}
    for path in SOURCES:
        for cell in source.student_version(source.read_source(path)).cells:
            for name in (
                cell.metadata.get("nbgrader", {}).get("grade_id"),
                cell.metadata.get("mystnb", {}).get("figure", {}).get("name"),
            ):
                if name:
                    assert name not in seen, f"{name} is used by {seen[name]} and {_id(path)}"
                    seen[name] = _id(path)


def test_exercises_of_the_notebooks_are_those_of_the_registry():
    """At least 15 in all and 4 a chapter, and every exercise of attnbook.checks stands in the
    notebook that it names.
    """
    from attnbook.checks import exercises

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
    import base64

    import numpy as np
    from PIL import Image

    for i, cell in enumerate(nbformat.read(path, as_version=4).cells):
        for out in cell.get("outputs", []):
            if "image/png" in out.get("data", {}):
                picture = Image.open(io.BytesIO(base64.b64decode(out.data["image/png"]))).convert(
                    "RGBA"
                )
                pixels = np.asarray(picture)
                edge = np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]])
                assert pixels[..., 3].min() == 255, f"cell {i}: a transparent figure"
                assert np.median(edge[:, :3]) > 215, f"cell {i}: a dark face"
                shown = out.metadata.get("image/png", {}).get("width", picture.width)
                assert shown <= 1100, f"cell {i}: {shown} px wide"
