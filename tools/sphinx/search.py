"""What the search page looks through: every heading of every page with the text under it, and the
terms of the glossary with the page that defines each.

Sphinx's own index joins words by AND and ranks by alphabet; `_vendor/book/search.js` ranks what is
written here by relevance.
"""

import json
import re
from pathlib import Path

from lxml import html

GLOSSARY = "appendix/glossary.html"
LEFT_OUT = " | ".join(
    ["//pre", "//script", "//style", "//details", "//div[contains(@class, 'math')]"]
    + ["//div[@class='citation']", "//dl[contains(@class, 'glossary')]"]
    + [f"//section[@id='{name}']//table" for name in ("ledger", "what-held")]
    + [f"//*[contains(@class, '{name}')]" for name in ("headerlink", "eqno", "cell_output")]
)
"""Code, hints, formulas set apart, what cells print, lists of papers and the tables of the ledger
and of what held: nobody looks for those by a question.
"""


def write_index(app, exception):
    """`_static/book/index.json`: pages [address, title], entries [page, anchor, heading, text], and
    terms [term, address]."""
    if exception or app.builder.format != "html":
        return
    out = Path(app.outdir)
    pages, entries = [], []
    for name in sorted(app.env.all_docs):
        path = out / f"{name}.html"
        article = html.fromstring(path.read_text(encoding="utf-8")).find(".//article")
        if article is None or article.find(".//h1") is None:
            continue
        terms = _terms(article, name) if f"{name}.html" == GLOSSARY else None
        for unread in article.xpath(LEFT_OUT):  # the glossary stands among the terms
            unread.drop_tree()
        pages.append([f"{name}.html", _text(article.find(".//h1"))])
        here = len(pages) - 1
        for described in reversed(article.xpath("//dl[contains(@class, 'py')]")):
            sig = described.find("dt")
            if sig.get("id"):
                name = sig.get("id").rpartition(".")[2]
                # what it is, and its formula; arguments and errors are not what one types
                length = 0 if "method" in described.get("class") else 150
                entries.append([here, sig.get("id"), name, _text(described.find("dd"))[:length]])
            described.drop_tree()  # what is in it is not said again of the section around it
        length = 400 if pages[here][0].startswith("api/") else None  # what the modules are for
        for section in article.iter("section"):
            anchor, heading, text = _entry(section)
            entries.append([here, anchor, heading, text[:length]])
        if terms is not None:
            found = terms
    index = {"pages": pages, "entries": entries, "terms": found}
    written = json.dumps(index, ensure_ascii=False, separators=(",", ":"))
    (out / "_static" / "book" / "index.json").write_text(written, encoding="utf-8")


def _text(element) -> str:
    return re.sub(r"\s+", " ", element.text_content()).strip()


def _entry(section) -> list[str]:
    """Anchor, heading and text of a section, without the sections in it."""
    heading = next((child for child in section if re.fullmatch("h[1-6]", str(child.tag))), None)
    parts = [_text(child) for child in section if child.tag != "section" and child is not heading]
    return [
        section.get("id", ""),
        "" if heading is None else _text(heading),
        " ".join(filter(None, parts)),
    ]


def _terms(article, name: str) -> list[list[str]]:
    """The terms of the glossary, each with the address of the first link of its definition."""
    found = []
    for term in article.xpath("//dl[contains(@class, 'glossary')]/dt"):
        definition = term
        while definition.tag != "dd":
            definition = definition.getnext()
        words = re.sub(r"\s+", " ", "".join(term.itertext())).strip("# ¶")
        link = next((a.get("href") for a in definition.iter("a")), None)
        if link is None:
            raise ValueError(
                f"the glossary must link every term to its section, and {words} has no link"
            )
        target = (Path(name).parent / link.partition("#")[0]).as_posix()
        found.append([words, re.sub(r"[^/]+/\.\./", "", target)])
    return found


def setup(app):
    app.connect("build-finished", write_index)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
