"""What the front page and the end of each chapter show: cards, a figure, the count of the claims.

``.. chapter-card:: 02_bahdanau`` has the option ``figure`` (a section of the chapter and the label
of a figure in it, as ``alignment_model fig-alignment-model-matrix``) and says below it what a
reader can do afterwards; minutes and exercises are counted. ``.. verdicts::`` is the count of what
the book measured.
"""

from __future__ import annotations

import base64
import io
from collections import Counter
from pathlib import Path

import nbformat
import yaml
from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from PIL import Image
from sphinx.util.docutils import SphinxDirective

from bookbuild import measure, publish, source

ROOT = Path(__file__).resolve().parents[2]
WIDTH = 720
"""Of the picture on a card, in pixels: twice what it takes on a page."""


class ChapterCard(SphinxDirective):
    """One chapter: its picture, its title as a link, what it teaches, how long it takes."""

    required_arguments = 1
    option_spec = {"figure": directives.unchanged_required, "alt": directives.unchanged_required}
    has_content = True

    def run(self):
        chapter = self.arguments[0]
        section, label = self.options["figure"].split()
        path = self._picture(chapter, section, label)
        minutes, exercises = _counted(chapter)
        card = nodes.container(classes=["chapter-card"])
        image = nodes.image(uri=f"/{path.relative_to(ROOT)}", alt=self.options["alt"])
        told = nodes.container(classes=["chapter-told"])
        title = nodes.paragraph(classes=["chapter-title"])
        title += self._parsed(f"[](/chapters/{chapter}/index.md)")
        told += title
        told += self._parsed("\n".join(self.content), inline=False)
        hours = f"{round(minutes / 60, 1):g} hours" if minutes > 90 else f"{minutes} minutes"
        told += nodes.paragraph(
            "", f"{hours} of reading · {exercises} exercises", classes=["chapter-time"]
        )
        card += [image, told]
        return [card]

    def _parsed(self, text, inline=True):
        holder = nodes.container()
        self.state.nested_parse(StringList([text]), self.content_offset, holder)
        return holder.children[0].children if inline else holder.children

    def _picture(self, chapter, section, label):
        """The figure as the notebook shows it, made smaller."""
        self.env.note_dependency(str(ROOT / "chapters" / chapter / f"{section}.ipynb"))
        target = ROOT / "_build" / "cards" / f"{label}.png"
        notebook = ROOT / "chapters" / chapter / f"{section}.ipynb"
        if not target.is_file() or target.stat().st_mtime < notebook.stat().st_mtime:
            image = Image.open(io.BytesIO(_figure(notebook, label))).convert("RGB")
            image.thumbnail((WIDTH, WIDTH))
            target.parent.mkdir(parents=True, exist_ok=True)
            image.save(target, optimize=True)
        return target


class ChapterPicture(ChapterCard):
    """The picture alone."""

    has_content = False

    def run(self):
        path = self._picture(self.arguments[0], *self.options["figure"].split())
        return [nodes.image(uri=f"/{path.relative_to(ROOT)}", alt=self.options["alt"])]


def _figure(notebook: Path, label: str) -> bytes:
    path = source.source_of(notebook)
    made = publish.with_outputs(
        source.read_source(path), nbformat.read(notebook, as_version=4), path
    )
    for cell in made.cells:
        if cell.metadata.get("mystnb", {}).get("figure", {}).get("name") == label:
            (data,) = [o.data for o in cell.outputs if "image/png" in o.get("data", {})]
            return base64.b64decode(data["image/png"])
    raise ValueError(f"figure: {notebook.name} has none that is called {label!r}")


def _counted(chapter: str) -> tuple[int, int]:
    """Minutes of reading and exercises of a chapter."""
    minutes = exercises = 0
    for path in sorted((ROOT / "sources" / chapter).glob("*.md")):
        nb = source.read_source(path)
        minutes += measure.main_path(nb).minutes
        exercises += path.read_text(encoding="utf-8").count("\n### Exercise: ")
    return minutes, exercises


def _claims() -> list[dict]:
    return yaml.safe_load((ROOT / "data" / "claims.yaml").read_text(encoding="utf-8"))


class Verdicts(SphinxDirective):
    """How many of the claims that the book measures held: one bar, and the numbers in words."""

    def run(self):
        rows = _claims()
        self.env.note_dependency(str(ROOT / "data" / "claims.yaml"))
        count = Counter(row["verdict"] for row in rows)
        order = ["holds", "holds in part", "does not hold at this size", "not decided"]
        assert set(count) <= set(order)
        parts = "".join(
            f'<span style="flex: {count[verdict]}" class="verdict verdict-{i}">'
            f"<b>{count[verdict]}</b> {verdict}</span>"
            for i, verdict in enumerate(order)
        )
        return [nodes.raw("", f'<div class="verdicts">{parts}</div>', format="html")]


def setup(app):
    app.add_directive("chapter-card", ChapterCard)
    app.add_directive("chapter-picture", ChapterPicture)
    app.add_directive("verdicts", Verdicts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
