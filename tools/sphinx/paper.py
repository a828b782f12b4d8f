"""The book on paper: what LaTeX gets in place of the pages of the website.

What the website folds away is not printed, nor are sentences about it, nor what only a screen can
do. Links inside the book say the page they lead to, all others lead to the website. One document
holds the whole book, or, with `paper_chapter`, one chapter. The typography is in `paper.sty`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, cast

from docutils import nodes
from PIL import Image
from sphinx.addnodes import glossary, start_of_file, toctree
from sphinx.builders.latex import LaTeXBuilder
from sphinx.util.console import darkgreen
from sphinx.util.docutils import new_document
from sphinx.util.nodes import inline_all_toctrees
from sphinx.writers.latex import LaTeXTranslator

HERE = Path(__file__).parent
AFTER = ["chapters/epilogue", "appendix/map", "appendix/notation", "appendix/glossary"]
AFTER += ["appendix/slips", "references"]
"""What stands after the chapters. The API, the ledger, the table of claims and the
commands for teachers are for a screen."""

WORDING = [
    (r"\((the )?folded cell( above)?\)", "(in the notebook)"),
    (r"\b([Tt])he folded (cell|code)( above)?", r"\1he notebook"),
    (r"\bA folded cell( at the end)?", "The notebook"),
    (r"\ba folded cell( at the end)?", "the notebook"),
    (r"\bhelper functions are folded\b", "helper functions are in the notebook"),
    (r", folded,", ", in the notebook,"),
    (r"hints are folded away under the statement", "its notebook has hints"),
    (r" below the check\b", " below"),
    (r"the rocket button at the top", "on the website the rocket button at the top"),
    (r"\bTouch a cell to allow or forbid a look, and", "In the notebook, touch a cell, and"),
    (r"\bMove the slider of\b", "In the notebook, move the slider of"),
    (r"\bbefore you scroll\b", "before you read on"),
    (r"\b[Rr]un the cell after the check\b", "run the cell after it in the notebook"),
]
"""Of what is folded on the website a reader of paper is told where to find it."""

CHARACTERS = 90
"""That a line of a table has room for."""
POINT = 0.186
"""Of a figure, in mm: its letters are a little smaller than those of the text."""
WIDTH, HEIGHT = 150, 105
"""Of a figure, at most, in mm: the line, and less than half of the sheet."""
TOGETHER = 10
"""Lines of code, at most, that are not torn apart at the end of a sheet."""


def on_paper(text: str) -> str:
    """A piece of prose as it is printed."""
    for pattern, instead in WORDING:
        text = re.sub(pattern, instead, text)
    return text


class Paper(LaTeXBuilder):
    """Writes the book, or one chapter, as one document."""

    def init_document_data(self):
        config, chapter = self.config, self.config.paper_chapter
        title, author = config.html_title, config.author
        name = f"{chapter or 'book'}.tex"
        self.document_data = [(config.root_doc, name, title, author, "manual", False)]
        self.titles = []

    def get_target_uri(self, docname, typ=None):
        if docname in self.docnames:
            return f"%{docname}"
        return f"{self.config.html_baseurl}{docname}.html"

    def get_contentsname(self, indexfile):
        return "Contents"

    def assemble_doctree(self, indexfile, toctree_only, appendices):
        chapters = sorted(d for d in self.env.all_docs if re.fullmatch(r"chapters/\d.*/index", d))
        chapter = self.config.paper_chapter
        parts = [(r"\papermatter{1}", chapters), (r"\papermatter{-1}", AFTER)]
        if chapter:
            parts = [(r"\papermatter{1}", [f"chapters/{chapter}/index"])]
        number = int(chapter[:2]) if chapter else 0
        self.docnames = set()
        book = new_document("<book>")
        whole = nodes.section("", nodes.title("", self.config.html_title))
        whole += _latex(rf"\setcounter{{chapter}}{{{number - 1}}}")
        if not chapter:
            self.docnames.add(indexfile)
            whole += [_latex(r"\papermatter{-1}"), self._preface(indexfile)]
        for command, names in parts:
            whole += _latex(command)
            whole += toctree(includefiles=names, entries=[], parent=indexfile)
        book += whole
        book = inline_all_toctrees(self, self.docnames, indexfile, book, darkgreen, [indexfile])
        book["docname"] = indexfile
        leave_out(book)
        for node in list(book.findall(glossary)):
            place = node.parent.index(node)
            node.parent.insert(place + 1, _latex(r"\end{papercolumns}"))
            node.parent.insert(place, _latex(r"\begin{papercolumns}"))
        self.env.resolve_references(book, indexfile, self)
        for table in book.findall(nodes.table):
            set_columns(table)
        return book

    def _preface(self, docname):
        """The front page of the website, which leads to all others there and to none here."""
        page = self.env.get_doctree(docname)
        for tree in list(page.findall(toctree)):
            tree.parent.remove(tree)
        title = next(page.findall(nodes.title))
        title.children = [nodes.Text("Preface")]
        front = start_of_file(docname=docname)
        front.children = page.children
        for section in front.findall(nodes.section):
            section["docname"] = docname
        return front


def set_columns(table: nodes.table) -> None:
    """Gives the columns of a table that is wider than a line widths that follow its words."""
    rows = [[cell.astext() for cell in row] for row in table.findall(nodes.row)]
    columns = list(zip(*rows, strict=True))
    if sum(max(map(len, column)) for column in columns) < CHARACTERS:
        return
    words = [max(len(w) for cell in column for w in cell.split() or [""]) for column in columns]
    texts = [sum(map(len, column)) / len(column) for column in columns]
    free = max(0, CHARACTERS - sum(words))
    for spec, word, text in zip(table.findall(nodes.colspec), words, texts, strict=True):
        spec["colwidth"] = round(10 * (word + 2 + free * text / sum(texts)))
    table["classes"] = ["colwidths-given", "longtable"]


def leave_out(book: nodes.document) -> None:
    """Takes away what is folded on the website, what only a screen can do, and words about it."""
    for cell in cast(list[nodes.Element], list(book.findall(_is_cell))):
        tags = {c.removeprefix("tag_") for c in cell["classes"] if c.startswith("tag_")}
        inputs = [
            n for n in cast(list[Any], cell.children) if n.get("nb_element") == "cell_code_source"
        ]
        setup = any("attnbook.setup(" in n.astext() for n in inputs)
        if {"hide-cell", "check"} & tags or setup:
            cell.parent.remove(cell)
            continue
        gone = inputs if "hide-input" in tags else []
        if "hide-output" in tags:
            gone = gone + [n for n in cell.children if n not in inputs]
        for node in gone:
            cell.remove(node)
        cell["classes"] = []
    for raw in list(book.findall(nodes.raw)):
        if raw.parent is not None and raw.astext().lstrip().startswith("<details"):
            _remove_fold(raw)
    for node in list(book.findall(_is_for_screens)):
        if node.parent is not None:
            node.parent.remove(node)
    for node in list(book.findall(nodes.raw)):
        if node.get("format") == "html":
            counted = re.findall(r"<b>(\d+)</b> ([^<]+)", node.astext())  # the bar of verdicts
            said = ", ".join(f"{number} {verdict}" for number, verdict in counted)
            node.parent.replace(node, nodes.paragraph("", f"{said}.") if said else [])
    for mark in [m for m in book.findall(nodes.emphasis) if m.astext() == "Live:"]:
        _only_still(mark)
    for text in list(book.findall(nodes.Text)):
        if not isinstance(text.parent, (nodes.literal, nodes.literal_block, nodes.math)):
            text.parent.replace(text, nodes.Text(on_paper(text.astext())))


def _only_still(mark: Any) -> None:
    """Of a caption "… *Live:* … *Still:* …" what is true of the picture on paper."""
    caption, at = mark.parent, mark.parent.index(mark)
    after = caption.children[at:]
    still = next(
        (n for n in after if isinstance(n, nodes.emphasis) and n.astext() == "Still:"), None
    )
    end = len(caption.children) if still is None else caption.index(still) + 1
    del caption[at:end]
    if still is not None:
        said = caption[at].astext().lstrip()
        caption[at] = nodes.Text(f" {said[:1].upper()}{said[1:]}")


def _latex(command):
    return nodes.raw("", command, format="latex")


def _is_cell(node):
    return isinstance(node, nodes.container) and node.get("nb_element") == "cell_code"


def _is_for_screens(node: Any) -> bool:
    """The doors and pictures of the front page, the links to the API, what only the web shows."""
    if isinstance(node, nodes.Admonition):
        box = cast(Any, node)
        seealso = "seealso" in box.get("classes", ()) and box.children
        return bool(seealso) and box[0].astext() == "In the library"
    if isinstance(node, nodes.image):
        card = isinstance(node.parent, nodes.container) and "chapter-card" in node.parent["classes"]
        return card or "/cards/" in node["uri"]
    return isinstance(node, nodes.container) and "front-doors" in node["classes"]


def _remove_fold(first: nodes.raw) -> None:
    """Removes what stands between <details> and </details>, with both."""
    parent, depth = first.parent, 0
    for node in parent.children[parent.index(first) :]:
        text = node.astext() if isinstance(node, nodes.raw) else ""
        depth += text.count("<details") - text.count("</details>")
        parent.remove(node)
        if depth == 0:
            return
    raise ValueError(f"a fold that nothing closes: {first.astext()!r}")


class PaperTranslator(LaTeXTranslator):
    """Page references, figures as large as they look on the website, numbers of what lies outside
    this document."""

    def _page(self, label, near, node):
        """The page of a label, unless it is `near` pages from here or less."""
        before, after = (", ", "") if _in_brackets(node) else (" (", ")")
        self.body.append(
            rf"\paperpage{{{near}}}{{{before}p.~}}{{{self.idescape(label)}}}{{{after}}}"
        )

    def visit_reference(self, node):
        super().visit_reference(node)
        uri = node.get("refuri", "")
        if self.in_title or not uri.startswith("%") or uri.startswith("%references"):
            return
        label = uri[1:].replace("#", ":") if "#" in uri else f"{uri[1:]}::doc"
        node["paper_page"] = label

    def depart_reference(self, node):
        super().depart_reference(node)
        if "paper_page" in node and not _is_term(node):
            self._page(node["paper_page"], 0, node)

    def visit_number_reference(self, node):
        uri = node.get("refuri", "")
        if uri.startswith("%") or not uri:
            try:
                super().visit_number_reference(node)
            except nodes.SkipNode:
                label = uri[1:].replace("#", ":")
                label = label or f"{self.curfilestack[-1]}:{node['refid']}"
                self._page(label, 1, node)
                raise
        docname, _, label = uri.removeprefix(self.config.html_baseurl).partition(".html#")
        numbers = self.builder.env.toc_fignumbers[docname]["figure"][label]
        number = ".".join(map(str, numbers))
        self.body.append(rf"\sphinxhref{{{self.encode_uri(uri)}}}{{Figure~{number}}}")
        raise nodes.SkipNode

    def visit_math_reference(self, node):
        if node["docname"] in self.builder.docnames:
            super().visit_math_reference(node)
            self._page(f"equation:{node['docname']}:{node['target']}", 1, node)
            raise nodes.SkipNode
        anchor = nodes.make_id(f"equation-{node['target']}")
        numbers = self.builder.env.toc_fignumbers[node["docname"]]["displaymath"][anchor]
        uri = f"{self.config.html_baseurl}{node['docname']}.html#{anchor}"
        number = ".".join(map(str, numbers))
        self.body.append(rf"\sphinxhref{{{self.encode_uri(uri)}}}{{({number})}}")
        raise nodes.SkipNode

    def depart_math_reference(self, node):
        pass

    def visit_caption(self, node):
        super().visit_caption(node)
        if self.body[-1] == r"\caption{":
            self.body[-1] = r"\caption[]{"  # no list of figures: nothing of it moves elsewhere

    def visit_image(self, node):
        if size := _millimetres(Path(self.builder.srcdir) / node["uri"]):
            node["width"] = f"{size:.1f}mm"
            node.attributes.pop("height", None)
        super().visit_image(node)

    def visit_container(self, node):
        if "cell_output" in node["classes"]:
            node["classes"] = ["printed"] if any(node.findall(nodes.literal_block)) else []
            below = node.parent.index(node) > 0  # of the code that printed it
            self.body.append(r"\vspace{-8pt}" if node["classes"] and below else "")
        super().visit_container(node)

    def visit_literal_block(self, node):
        if "output" not in node["classes"]:
            node.rawsource = on_paper(re.sub(r"\n{3,}", "\n\n", node.rawsource))
            node.children = [nodes.Text(node.rawsource)]
        lines = node.astext().count("\n") + 2
        if lines <= TOGETHER + 2 and not self.table:
            self.body.append(rf"\needspace{{{lines * 9.5 + 12:.0f}pt}}")
        super().visit_literal_block(node)


def _is_term(node):
    return any("std-term" in n.get("classes", ()) for n in node if isinstance(n, nodes.Element))


def _in_brackets(node: Any) -> bool:
    """Whether the words before a reference have opened a bracket that is still open."""
    if not isinstance(node.parent, nodes.TextElement):
        return False
    before = "".join(n.astext() for n in node.parent.children[: node.parent.index(node)])
    return before.count("(") > before.count(")")


def _millimetres(path: Path) -> float | None:
    """How wide a picture is on the sheet; a figure of a notebook has two pixels for each of the
    website."""
    if path.suffix != ".png" or not path.is_file():
        return None
    with Image.open(path) as picture:
        width, height = picture.size
        double = picture.info.get("dpi", (0, 0))[0] > 200
    return min(POINT * width / (2 if double else 1), WIDTH, HEIGHT * width / height)


FONTS = r"""
\directlua{luaotfload.add_fallback("paper",
  {"[DejaVuSerif.ttf]:mode=node;", "[DroidSansFallbackFull.ttf]:mode=node;"})}
\usepackage{unicode-math}
\newcommand\paperfaces{Extension=.otf, UprightFont=*-regular, ItalicFont=*-italic,
  BoldFont=*-bold, BoldItalicFont=*-bolditalic, RawFeature={fallback=paper}}
\expanded{\noexpand\setmainfont{texgyrepagella}[\paperfaces]}
\expanded{\noexpand\setsansfont{texgyreheros}[\paperfaces]}
\setmonofont{DejaVuSansMono}[Extension=.ttf, UprightFont=*, BoldFont=*-Bold, ItalicFont=*-Oblique,
  BoldItalicFont=*-BoldOblique, Scale=MatchLowercase, RawFeature={fallback=paper}]
\setmathfont{texgyrepagella-math.otf}
"""


def use_style(app, config):
    """Everything that Sphinx would choose by itself and the book has its own way of."""
    config.latex_additional_files = [str(HERE / "paper.sty")]
    config.latex_docclass = {"manual": "report"}
    config.latex_domain_indices = False
    config.latex_table_style = ["booktabs"]
    config.latex_elements = {
        "papersize": "a4paper",
        "pointsize": "10pt",
        "extraclassoptions": "openany,oneside",
        "polyglossia": "",
        "babel": r"\usepackage[english]{babel}",
        "fncychap": "",
        "fontpkg": FONTS,
        "figure_align": "tbp",
        "fvset": r"\fvset{fontsize=\papercode}",
        "geometry": r"\usepackage[hmargin=30mm,top=24mm,bottom=22mm,headsep=6mm]{geometry}",
        "sphinxsetup": "verbatimwithframe=false,VerbatimColor={rgb}{.955,.96,.968},"
        "verbatimsep=3pt,InnerLinkColor={rgb}{.1,.25,.5},OuterLinkColor={rgb}{.1,.25,.5},"
        "TitleColor={rgb}{0,0,0}",
        "preamble": r"\usepackage{paper}",
        "maketitle": r"\papercover",
        "tableofcontents": r"{\hypersetup{linkcolor=black}\tableofcontents}\clearpage",
        "printindex": "",
        "makeindex": "",
    }


def use_translator(app):
    """Only where paper is made: the theme of the website leaves its pages as Sphinx writes them as
    soon as there is a translator for anything."""
    if app.builder.name == "latex":
        app.set_translator("latex", PaperTranslator, override=True)


def setup(app):
    app.add_config_value("paper_chapter", None, "")
    app.connect("config-inited", use_style, priority=400)  # before Sphinx checks what there is
    app.add_builder(Paper, override=True)
    app.connect("builder-inited", use_translator, priority=400)  # before the theme of the pages
    return {"parallel_read_safe": True, "parallel_write_safe": True}
