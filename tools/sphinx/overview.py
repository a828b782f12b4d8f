"""What the front page and the end of each chapter show: cards, a figure, the count of the claims.

``.. chapter-card:: 02_bahdanau`` says what a reader can do afterwards; the option ``alt`` describes
its picture, which ``tools/pictures/cards.py`` draws. Minutes and exercises are counted.
``.. chapter-picture:: 02_bahdanau`` shows a figure of the chapter: a section and the label of a
figure in it, as ``alignment_model fig-alignment-model-matrix``. ``.. verdicts::`` is the count of
the claims that the book measured, ``.. book-map::`` the drawing of who took what from whom.
"""

from __future__ import annotations

import base64
import html
import io
import re
from collections import Counter
from pathlib import Path

import map_drawing
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
"""Of the picture of a chapter, in pixels."""


class ChapterCard(SphinxDirective):
    """One chapter: its picture, its title as a link, what it teaches, how long it takes."""

    required_arguments = 1
    option_spec = {"alt": directives.unchanged_required}
    has_content = True

    def run(self):
        chapter = self.arguments[0]
        page = ROOT / "chapters" / chapter / "index.md"
        drawn = ROOT / "_vendor" / "book" / "cards" / f"{chapter}.svg"
        for path in (page, drawn):
            self.env.note_dependency(str(path))
        # drawn into the page, so that it takes its colours from it
        svg = drawn.read_text(encoding="utf-8").replace(
            'aria-hidden="true"', f'role="img" aria-label="{html.escape(self.options["alt"])}"', 1
        )
        (title,) = re.findall(r"^# (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
        minutes, exercises = _counted(chapter)
        hours = f"{round(minutes / 30) / 2:g} hours"
        told = nodes.container(classes=["chapter-told"])
        name = nodes.paragraph(classes=["chapter-title"])
        name += self._parsed(f"[{int(chapter[:2])} {title}](/chapters/{chapter}/index.md)")
        told += name
        told += self._parsed("\n".join(self.content), inline=False)
        told += nodes.paragraph("", f"{hours} with {exercises} exercises", classes=["chapter-time"])
        card = nodes.container(classes=["chapter-card"])
        card += [nodes.raw("", svg, format="html"), told]
        return [card]

    def _parsed(self, text, inline=True):
        holder = nodes.container()
        self.state.nested_parse(StringList([text]), self.content_offset, holder)
        return holder.children[0].children if inline else holder.children


class ChapterPicture(SphinxDirective):
    """A figure of the chapter, as the notebook shows it, made smaller."""

    required_arguments = 1
    option_spec = {"figure": directives.unchanged_required, "alt": directives.unchanged_required}

    def run(self):
        section, label = self.options["figure"].split()
        notebook = ROOT / "chapters" / self.arguments[0] / f"{section}.ipynb"
        self.env.note_dependency(str(notebook))
        target = ROOT / "_build" / "cards" / f"{label}.png"
        if not target.is_file() or target.stat().st_mtime < notebook.stat().st_mtime:
            image = Image.open(io.BytesIO(_figure(notebook, label))).convert("RGB")
            image.thumbnail((WIDTH, WIDTH))
            target.parent.mkdir(parents=True, exist_ok=True)
            image.save(target, optimize=True)
        return [nodes.image(uri=f"/{target.relative_to(ROOT)}", alt=self.options["alt"])]


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
        nb = source.student_version(source.read_source(path))
        minutes += measure.reading_minutes(nb)
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


class BookMap(SphinxDirective):
    """The map, drawn twice: the style sheet shows the one for which there is room."""

    def run(self):
        for path in ("data/map.csv", "references.bib", map_drawing.__file__):
            self.env.note_dependency(str(ROOT / path))
        ideas = map_drawing.ideas(ROOT)
        drawn = map_drawing.columns(ideas) + map_drawing.lines(ideas)
        return [nodes.raw("", f'<div class="book-map">{drawn}</div>', format="html")]


def setup(app):
    app.add_directive("chapter-card", ChapterCard)
    app.add_directive("chapter-picture", ChapterPicture)
    app.add_directive("verdicts", Verdicts)
    app.add_directive("book-map", BookMap)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
