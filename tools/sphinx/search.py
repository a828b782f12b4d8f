"""What the search page looks through: every heading of every page with the text under it, the
terms of the glossary with the pages that define each, and the papers with the page that cites them
most.

Sphinx's own index joins words by AND and ranks by alphabet; `_vendor/book/search.js` ranks what is
written here by relevance.
"""

import json
import re
from collections import Counter, defaultdict
from pathlib import Path
from posixpath import normpath

from lxml import html

GLOSSARY = "appendix/glossary.html"
LEFT_OUT = " | ".join(
    ["//pre", "//script", "//style", "//details", "//div[contains(@class, 'math')]"]
    + ["//*[contains(@class, 'katex-display')]"]
    + ["//p[em][starts-with(., 'about ') or starts-with(., '●')]"]
    + ["//div[@class='citation']", "//dl[contains(@class, 'glossary')]"]
    + [f"//section[@id='{name}']//table" for name in ("ledger", "what-held")]
    + [f"//*[contains(@class, '{name}')]" for name in ("headerlink", "eqno", "cell_output")]
)
"""Code, hints, formulas set apart, times and sizes, what cells print, lists of papers and the
tables of the ledger and of what held: nobody looks for those by a question.
"""
FORMULA = "//span[@class='katex']"
WITHOUT_COMMENTS = html.HTMLParser(encoding="utf-8", remove_comments=True)
"""Those of the sources are nothing that a reader looks for."""
LONGEST = 24
"""Characters of a formula that is still read with the words around it."""


def write_index(app, exception):
    """`_static/book/index.json`: pages [address, title, keywords], entries [page, anchor, heading,
    text], terms [names, addresses, definition] and papers [title, address].
    """
    if exception or app.builder.format != "html":
        return
    out = Path(app.outdir)
    pages, entries, terms, papers = [], [], [], defaultdict(Counter)
    for name in _in_order(app.env.toctree_includes, app.config.root_doc):
        tree = html.fromstring((out / f"{name}.html").read_bytes(), parser=WITHOUT_COMMENTS)
        article = tree.find(".//article")
        if article is None or article.find(".//h1") is None:
            continue
        for formula in article.xpath(FORMULA):
            _spell(formula)
        if name.startswith("chapters/"):
            for paper in article.xpath("//a[contains(@href, 'references.html#')]/@title"):
                papers[paper][f"{name}.html"] += 1
        if f"{name}.html" == GLOSSARY:
            terms = _terms(article, name)
        for unread in article.xpath(LEFT_OUT):  # the glossary stands among the terms
            unread.drop_tree()
        pages.append(
            [f"{name}.html", _text(article.find(".//h1")), *_keywords(app.env.doc2path(name))]
        )
        here = len(pages) - 1
        for described in reversed(article.xpath("//dl[contains(@class, 'py')]")):
            sig, said = described.find("dt"), _text(described.find("dd"))
            if sig.get("id") and said:
                name = sig.get("id").rpartition(".")[2]
                # what it is, and its formula; arguments and errors are not what one types
                length = 0 if "method" in described.get("class") else 110
                entries.append([here, sig.get("id"), name, said[:length]])
            described.drop_tree()  # what is in it is not said again of the section around it
        length = 400 if pages[here][0].startswith("api/") else None  # what the modules are for
        for section in article.iter("section"):
            anchor, heading, text = _entry(section)
            # what an exercise is about stands at its beginning
            kept = 120 if heading.startswith("Exercise ") else length
            entries.append([here, anchor, heading, text[:kept]])
    index = {
        "pages": pages,
        "entries": entries,
        "terms": terms,
        "papers": [[paper, _home(citing)] for paper, citing in papers.items()],
    }
    written = json.dumps(index, ensure_ascii=False, separators=(",", ":"))
    (out / "_static" / "book" / "index.json").write_text(written, encoding="utf-8")


def _text(element) -> str:
    return re.sub(r"\s+", " ", element.text_content()).strip()


def _keywords(source: str) -> list[str]:
    """Other words for a page, in a comment of its source, which no viewer shows."""
    return re.findall(r"^<!-- keywords: (.*) -->$", Path(source).read_text("utf-8"), re.MULTILINE)


def _in_order(contents: dict, name: str) -> list[str]:
    """A page and those below it, as one reads them."""
    below = contents.get(name, [])
    return [name, *(page for child in below for page in _in_order(contents, child))]


def _home(citing: Counter) -> str:
    """The page that cites a paper most, in the chapter that does; of two the earlier one."""
    chapters = Counter()
    for page, times in citing.items():
        chapters[Path(page).parent] += times
    return max(citing, key=lambda page: (chapters[Path(page).parent], citing[page]))


def _entry(section) -> list[str]:
    """Anchor, heading and text of a section, without the sections in it."""
    heading = next((child for child in section if re.fullmatch("h[1-6]", str(child.tag))), None)
    parts = [_text(child) for child in section if child.tag != "section" and child is not heading]
    return [
        section.get("id", ""),
        "" if heading is None else _text(heading),
        " ".join(filter(None, parts)),
    ]


def _spell(formula):
    """Put a few characters in the place of a formula within a line, which KaTeX has set."""
    kept = html.Element("span")
    kept.text, kept.tail = spelled(formula.find(".//math")), formula.tail
    formula.getparent().replace(formula, kept)


LOW = dict(zip("0123456789+-aehijklmnoprstuvx", "₀₁₂₃₄₅₆₇₈₉₊₋ₐₑₕᵢⱼₖₗₘₙₒₚᵣₛₜᵤᵥₓ"))
HIGH = dict(zip("0123456789+-−T⊤nmkij", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻ᵀᵀⁿᵐᵏⁱʲ"))
SPACED = "=≈≠<>≤≥∈→∼+−-×⋅·"
"""Signs with a space on both sides, where they stand between two things."""


def spelled(math) -> str:
    """A short formula, given as MathML, in plain characters, "√dₖ"; "…" for one that has none."""
    text = re.sub(r"\s+", " ", _line(math) or "").strip()
    return text if text and len(text) <= LONGEST and "…?" not in text else "…"


def _line(element) -> str:
    """An element of MathML in one line, "…?" for what has no line."""
    parts = [_line(child) for child in element]
    match element.tag:
        case "mi" | "mn" | "mo" | "mtext":
            text = (element.text or "").replace("\u2061", "").replace("\u200b", "")
            before = element.getprevious() is not None
            if element.tag == "mo" and text in SPACED and before:
                return f" {text} " if text else ""
            return f" {text} " if element.tag == "mi" and len(text) > 1 else text
        case "msub":
            return parts[0] + _small(parts[1], LOW)
        case "msup":
            return parts[0] + _small(parts[1], HIGH)
        case "msubsup":
            return parts[0] + _small(parts[1], LOW) + _small(parts[2], HIGH)
        case "mover" | "munder":  # a bar, a hat, a tilde
            return parts[0] if element[1].tag == "mo" else "…?"
        case "msqrt":
            inner = "".join(parts)
            return f"√{inner}" if len(inner) < 4 else f"√({inner})"
        case "mfrac":
            return "/".join(part if len(part) < 4 else f"({part})" for part in parts)
        case "math" | "semantics" | "mrow" | "mstyle" | "mpadded":
            return "".join(parts)
        case "annotation":
            return ""
        case "mspace":
            return " "
    return "…?"


def _small(text: str, small: dict) -> str:
    """Below or above the line where there are such characters; else beside, or in brackets."""
    text = text.replace(" ", "")
    if all(c in small for c in text):
        return "".join(small[c] for c in text)
    return text if small is LOW else f"^{text}" if len(text) == 1 else f"^({text})"


def _terms(article, name: str) -> list:
    """Of each term of the glossary all names, the addresses that its definition links, the home
    first, and the definition."""
    found = []
    for definition in article.xpath("//dl[contains(@class, 'glossary')]/dd"):
        names, above = [], definition.getprevious()
        while above is not None and above.tag == "dt":
            names.insert(0, re.sub(r"\s+", " ", "".join(above.itertext())).strip("# ¶"))
            above = above.getprevious()
        links = [a.get("href").partition("#")[0] for a in definition.iter("a")]
        if not links:
            raise ValueError(
                f"the glossary must link every term to its section, and {names[0]} has no link"
            )
        before = "(.//a)[1]/preceding-sibling::node()/descendant-or-self::text()"
        opening = re.sub(r"\s+", " ", "".join(definition.xpath(before))).strip()
        addresses = [normpath((Path(name).parent / link).as_posix()) for link in links]
        found.append([names, addresses, opening])
    return found


def setup(app):
    app.connect("build-finished", write_index)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
