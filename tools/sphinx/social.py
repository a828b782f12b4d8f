"""What a link to a page of the book says elsewhere: its first sentences, and never the words of
buttons, pictures or small print. A page may say it itself, as ``og:description`` at its head.

The address of the book alone, without a page, is that of a file that sends on to the front page; it
says what the front page says.
"""

from __future__ import annotations

import html
import re

from docutils import nodes

ENOUGH, MOST = 70, 200  # letters of a description
_BESIDE = (
    nodes.figure,
    nodes.Admonition,
    nodes.topic,
    nodes.table,
    nodes.footnote,
    nodes.list_item,
)
_SENTENCE = re.compile(r"(?:(?<=[.?!])|(?<=[.?!][”’)]))(?<!\bal\.)\s+")


def first_sentences(document: nodes.document) -> str:
    """The sentences with which a page begins, as many as there is room for."""
    said = ""
    for paragraph in document.findall(nodes.paragraph):
        if any(isinstance(above, _BESIDE) for above in _above(paragraph)):
            continue
        if len(paragraph) == 1 and isinstance(paragraph[0], nodes.emphasis):
            continue  # how long it takes to read
        for sentence in _SENTENCE.split(_text(paragraph)):
            if "\0" in sentence or (len(said) >= ENOUGH and len(said) + len(sentence) >= MOST):
                return said
            said = f"{said} {sentence}".strip()
            if len(said) > MOST:
                return f"{said[: MOST - 1].rsplit(' ', 1)[0]}…"
        if len(said) >= ENOUGH:
            break
    return said


def _above(node: nodes.Node):
    while node := node.parent:
        yield node


def _text(paragraph: nodes.paragraph) -> str:
    """Its words, without the years of citations; a formula that is no word becomes a zero byte."""
    parts = []
    for node in paragraph.findall(lambda n: isinstance(n, (nodes.Text, nodes.math))):
        if isinstance(node, nodes.math):
            words = node.astext()
            parts.append(words if re.fullmatch(r"[A-Za-z0-9 +]+", words) else "\0")
        elif not isinstance(node.parent, nodes.math):
            parts.append(node.astext())
    without = re.sub(r"\s*\[\s*[^\[\]]*\d{4}[a-z]?\s*\]", "", "".join(parts))
    return " ".join(without.split())


def describe(app, pagename, templatename, context, doctree) -> None:
    if doctree is None:
        return
    given = context.get("meta") or {}
    said = given.get("og:description") or first_sentences(doctree)
    if said:
        context["meta"] = {**given, "og:description": said}
        context["metatags"] += f'<meta name="description" content="{html.escape(said)}" />\n'


def send_to_the_front_page(app, exception) -> None:
    front = app.builder.get_target_uri(app.config.root_doc) if exception is None else ""
    if app.builder.format != "html" or not front or front == "index.html":
        return
    page = (app.outdir / front).read_text(encoding="utf-8")
    tags = re.findall(r'<meta (?:property|name)="(?:og:|twitter:|description)[^>]*>', page)
    title = re.search(r"<title>.*?</title>", page, re.DOTALL)
    (app.outdir / "index.html").write_text(
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        + "\n".join([title[0] if title else "", *tags])
        + f'\n<meta http-equiv="Refresh" content="0; url={front}">\n'
        + f'<a href="{front}">{html.escape(app.config.ogp_site_name)}</a>\n</html>\n',
        encoding="utf-8",
    )


def setup(app):
    app.connect("html-page-context", describe, priority=400)  # before the tags are written
    app.connect("build-finished", send_to_the_front_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
