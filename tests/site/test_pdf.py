"""The book on paper: numbers, contents, links and page references of what is typeset, and that
nothing of the website's folds is left in it.

`make test` typesets one chapter, the first, from the pages that the website's tests have read;
`make nightly` typesets the book.
"""

import os
import re
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import paper
import pytest
from book import CI, ROOT
from docutils import nodes
from pypdf import PdfReader

import make_pdf
from bookbuild import publish

CHAPTER = "00_attention"
FORBIDDEN = {
    "a role or directive of MyST": r"\{(numref|eq|cite:?[tp]?|ref|doc)\}|^:::|^```",
    "HTML": r"</?(details|summary|div|span|p|a)\b[^>\n]*>",
    "a formula in TeX": r"\\(frac|sum|operatorname|mathbb|alpha)\b|\$\$",
    "a word about folds": r"\bfolded (cell|code|away)|[Cc]lick to|Show the (source|content)",
    "the cell that sets a notebook up": r"attnbook\.setup\(",
    "a check": r"attnbook\.checks import check|not written yet",
}


class Typeset:
    """A PDF as its reader sees it, and the log of its making."""

    def __init__(self, pdf: Path, log: Path):
        self.reader = PdfReader(pdf)
        self.pages = [page.extract_text() for page in self.reader.pages]
        self.log = log.read_text(encoding="utf-8", errors="replace").replace("\n", "")
        labels = log.with_suffix(".aux").read_text(encoding="utf-8")
        label = r"\\newlabel\{[^{}]*:((?:fig|eq)-[\w-]+)\}\{\{([\d.]+)\}"
        self.numbers = dict(re.findall(label, labels))

    def links(self):
        """(sheet, width, target sheet or address) of each link; sheets count from 1."""
        places = self.reader.named_destinations
        for k, page in enumerate(self.reader.pages, 1):
            for note in page.get("/Annots", []):
                link = note.get_object()
                action = link.get("/A", {})
                width = float(link["/Rect"][2] - link["/Rect"][0])
                if "/URI" in action:
                    yield k, width, action["/URI"]
                else:
                    place = places.get(action.get("/D", link.get("/Dest")))
                    found = place and self.reader.get_destination_page_number(place)
                    yield k, width, None if found is None else found + 1


@pytest.fixture(scope="module")
def chapter(site, tmp_path_factory):
    needs_tex()
    out = tmp_path_factory.mktemp("paper")
    # in a process of its own, as by its command: Sphinx is not to find what other tests have left
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as fresh:
        doctrees = site.parent / ".doctrees"
        (pdf,) = fresh.submit(make_pdf.make, out, CHAPTER, out / "latex", doctrees).result()
    return Typeset(pdf, out / "latex" / f"{CHAPTER}.log")


def needs_tex():
    if lacking := make_pdf.missing():
        pytest.fail(lacking) if CI else pytest.skip(lacking)


def in_order(made: Typeset, folder: str) -> None:
    """Figures and formulas have the numbers of the website, the ones that notebooks say."""
    book = publish.read_book(ROOT)
    text = "".join(p.read_text(encoding="utf-8") for p in (ROOT / "sources" / folder).glob("*.md"))
    named = {label for label in book.numbers if re.search(rf"\b{label}\b", text)}
    ours = {n: k for n, k in book.numbers.items() if n in named and int(k[0]) == int(folder[:2])}
    ours = {n: k for n, k in ours.items() if n[:3] in ("fig", "eq-")}
    assert ours, folder
    assert {n: made.numbers.get(n) for n in ours} == ours


def sound(made: Typeset) -> None:
    """What holds for a chapter and for the book."""
    for sheet, words in enumerate(made.pages, 1):
        for what, pattern in FORBIDDEN.items():
            found = re.search(pattern, words, re.MULTILINE)
            assert not found, f"{what} on page {sheet}: {found[0]!r}"
    missing = re.findall(r"Missing character: .{60}", made.log)
    assert not missing, missing[:5]
    assert "undefined references" not in made.log
    wide = [float(w) for w in re.findall(r"Overfull \\hbox \(([\d.]+)pt too wide\)", made.log)]
    assert max(wide, default=0) < 6, sorted(wide)[-5:]
    links = list(made.links())
    lost = [link for link in links if link[2] is None]
    assert not lost, f"links that lead nowhere: {lost[:5]}"
    outside = {to for _, _, to in links if isinstance(to, str)}
    assert all(re.match(r"https?://[^/]+\.[a-z]+(/|$)", to) for to in outside)
    assert not any(re.search(r"\.(md|ipynb)(#|$)", to) for to in outside if "github" not in to)
    # every page that the text names is where a link of that width leads
    said = 0
    for sheet, words in enumerate(made.pages, 1):
        lead = {(to, len(str(to))) for at, wide, to in links if at == sheet and wide < 22}
        for number in re.findall(r"[(,]\s*p\.\s*(\d+)", words):
            said += 1
            assert (int(number), len(number)) in lead, f"page {sheet} says p. {number}"
    assert said > 5
    # sheets have the numbers that they are called by
    for sheet, words in enumerate(made.pages[1:], 2):
        assert words.split()[-1] == str(sheet)


@pytest.mark.site
@pytest.mark.slow
class TestChapter:
    def test_is_sound(self, chapter):
        sound(chapter)
        assert len(chapter.pages) < 32

    def test_counts_from_zero(self, chapter):
        tops = [item for item in chapter.reader.outline if not isinstance(item, list)]
        assert [item.title for item in tops] == ["0 What attention is"]
        in_order(chapter, CHAPTER)
        figure = publish.read_book(ROOT).numbers["fig-soft-lookup-arcs"]
        assert any(f"Figure {figure} The trained model" in page for page in chapter.pages)

    def test_contents_agree_with_the_pages(self, chapter):
        listed = re.findall(r"^(0\.\d) ?(.+?)(?: ?\.)+ ?(\d+)$", chapter.pages[1], re.MULTILINE)
        assert [number for number, _, _ in listed] == ["0.1", "0.2", "0.3"]
        for number, title, page in listed:
            words = re.sub(r"\s+", "", chapter.pages[int(page) - 1])
            assert re.sub(r"\s+", "", number + title) in words

    def test_leaves_out_what_is_folded(self, chapter):
        text = " ".join(chapter.pages)
        assert "What is the context? The answer comes out whole" in re.sub(r"\s+", " ", text)
        assert "Write down the three exponentials" not in text  # the hint of that exercise
        assert "torch.testing.assert_close(pooled" not in text  # a cell that is hidden
        assert "layout=" not in text  # the code of a figure
        assert "raise NotImplementedError" in text

    def test_figures_are_no_larger_than_they_need(self, chapter):
        widths = []
        for page in chapter.reader.pages:
            scales = []

            def seen(operator, operands, matrix, _, scales=scales):
                if operator == b"Do":
                    scales.append((matrix[0], matrix[3]))

            page.extract_text(visitor_operand_before=seen)
            line, sheet = 150 / 25.4 * 72, 842
            assert all(w < line + 1 and h < sheet / 2 for w, h in scales)
            widths += [w for w, _ in scales]
        assert len(widths) > 8 and min(widths) > 150


@pytest.mark.nightly
def test_the_book(tmp_path):
    needs_tex()
    book, *parts = make_pdf.make(tmp_path, None, tmp_path / "latex", tmp_path / "doctrees")
    made = Typeset(book, tmp_path / "latex" / "book.log")
    sound(made)
    for name in make_pdf.names():
        in_order(made, name)
    assert len(made.pages) <= 700
    assert book.stat().st_size < 40e6
    assert [part.stem for part in parts] == make_pdf.names()
    for part, (first, end) in zip(parts, make_pdf.chapters(made.reader).values(), strict=True):
        alone = PdfReader(part)
        assert len(alone.pages) == end - first
        assert alone.pages[0].extract_text().split()[0] == str(int(part.stem[:2]))
        assert sum(len(page.get("/Annots", [])) for page in alone.pages) > 20


def test_what_is_said_of_folds_is_said_of_the_notebook():
    """Every sentence of the sources that names what is folded has its words for paper."""
    said = 0
    for path in sorted(ROOT.glob("sources/*/*.md")) + [ROOT / "intro.md"]:
        prose = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        said += len(re.findall(r"\bfolded\b", prose))
        left = re.search(r".{30}\bfolded\b.{30}", paper.on_paper(prose))
        assert not left, f"{path.name}: {left[0]!r} needs words in paper.WORDING"
    assert said > 30


def test_a_machine_without_tex_is_told_what_to_install(tmp_path):
    command = [sys.executable, str(ROOT / "tools" / "make_pdf.py")]
    env = {**os.environ, "PATH": str(tmp_path)}
    done = subprocess.run(command, env=env, capture_output=True, text=True)
    assert done.returncode == 2 and done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert "no lualatex and no latexmk" in line and "install_system.sh paper" in line


@pytest.mark.parametrize("still", [True, False])
def test_a_caption_on_paper_is_that_of_the_still(still):
    parts = [nodes.Text("A tree. "), nodes.emphasis("", "Live:"), nodes.Text(" step on. ")]
    if still:
        parts += [nodes.emphasis("", "Still:"), nodes.Text(" ten planes.")]
    caption = nodes.caption("", "", *parts)
    paper._only_still(caption[1])
    assert " ".join(caption.astext().split()) == ("A tree. Ten planes." if still else "A tree.")
