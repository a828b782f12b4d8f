"""The built pages as files: links, pictures, buttons, nothing from elsewhere or for instructors."""

import base64
import copy
import gzip
import hashlib
import re
import shutil
from collections import Counter
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

import nbformat
import pytest
from book import ROOT, build, toc_files
from bs4 import BeautifulSoup

from bookbuild import publish
from bookbuild.address import read_address
from bookbuild.rules import is_figure

pytestmark = [pytest.mark.site, pytest.mark.slow]
NOTEBOOKS = [name for name in toc_files() if (ROOT / f"{name}.ipynb").exists()]
GROUND = re.compile(r"\b(dark|light|pale|bright|white|black|faint)", re.IGNORECASE)


def pages(site: Path) -> dict[Path, BeautifulSoup]:
    return {
        p: BeautifulSoup(p.read_text(encoding="utf-8"), "html.parser")
        for p in sorted(site.rglob("*.html"))
        if "_static" not in p.parts
    }


@pytest.fixture(scope="module")
def soup(site):
    """Every page, parsed."""
    return pages(site)


def broken_links(soup: dict[Path, BeautifulSoup], site: Path) -> list[str]:
    """Internal links of the built pages that lead nowhere."""
    ids = {
        page: {t["id"] for t in s.find_all(id=True)}
        | {t["name"] for t in s.find_all("a", attrs={"name": True})}
        for page, s in soup.items()
    }
    said = []
    for page, parsed in soup.items():
        if page.name in ("404.html", "genindex.html", "search.html"):
            continue
        for tag in parsed.find_all("a", href=True):
            link, fragment = urldefrag(tag["href"])
            if urlsplit(link).scheme or link.startswith("//"):
                continue
            target = (page.parent / unquote(link)).resolve() if link else page
            if target.is_dir():
                target = target / "index.html"
            if not target.exists():
                said.append(f"{page.relative_to(site)}: {tag['href']}")
            elif fragment and target in ids and unquote(fragment) not in ids[target]:
                said.append(f"{page.relative_to(site)}: {tag['href']} (no such place on the page)")
    return said


def raw_tables(soup: dict[Path, BeautifulSoup]) -> list[str]:
    """Pages on which the bars of a Markdown table are read as text, outside code."""
    return [
        page.name
        for page, parsed in soup.items()
        if any(re.search(r"\|\s*:?-{3}", p.get_text()) for p in parsed.find_all("p"))
    ]


def test_tables_are_tables_also_those_that_cells_display(soup, site):
    assert raw_tables(soup) == []
    scores = soup[site / "chapters/03_attention_family/scores.html"]
    shown = scores.select(".cell_output table")
    # the scores and the kinds of attention, each table under a head
    heads = [[cell.get_text(strip=True) for cell in t.find("tr").find_all("th")] for t in shown]
    assert [head[:2] for head in heads] == [["score", "formula"], ["kind", "what it is"]]
    assert all(len(t.find_all("tr")) > 3 for t in shown)
    planted = BeautifulSoup("<p>| a | b |\n|---|---|</p>", "html.parser")
    assert raw_tables({Path("a.html"): planted}) == ["a.html"]


def test_internal_links_hold(soup, site):
    assert not broken_links(soup, site)


def test_a_broken_link_is_seen(tmp_path):
    page = tmp_path / "a.html"
    links = [f"<a href='{link}'>x</a>" for link in ("#here", "#gone", "b.html", "https://x.org")]
    page.write_text("<h1 id='here'>x</h1>" + "".join(links))
    gone = "a.html: #gone (no such place on the page)"
    assert broken_links(pages(tmp_path), tmp_path) == [gone, "a.html: b.html"]


def test_every_figure_of_the_notebooks_is_on_its_page_and_described(soup, site):
    """Counted: as many pictures as the cells drew, each with the alt text of its cell."""
    total = 0
    for name in NOTEBOOKS:
        nb = nbformat.read(ROOT / f"{name}.ipynb", as_version=4)
        drawn = [(c, o) for c in nb.cells for o in c.get("outputs", []) if is_figure(o)]
        wanted = [c.metadata.alt for c, o in drawn if "text/html" not in o.data]
        images = soup[site / f"{name}.html"].find("article").find_all("img")
        assert [i.get("alt") for i in images if i.get("alt") in wanted] == wanted, name
        total += len(wanted)
        for _, o in drawn:  # what is shown as HTML brings its still along, described by itself
            for still in BeautifulSoup(o.data.get("text/html", ""), "html.parser").find_all("img"):
                assert still["alt"] in [i.get("alt") for i in images], name
        assert all(len(i.get("alt", "")) >= 20 for i in images), name
    assert total >= 20


def test_figures_turn_dark_with_the_page_unless_that_would_make_them_untrue(soup, site):
    """Curves and diagrams do; what a caption calls dark or pale keeps its ground, and so do
    pictures.
    """
    turned = set()
    for name in toc_files():
        for figure in soup[site / f"{name}.html"].find_all("figure"):
            words = f"{figure.get_text()} {figure.img.get('alt', '')}" if figure.img else ""
            if "lines" in (figure.img or {}).get("class", []):
                assert not GROUND.search(words), words
                turned.add(figure.get("id"))
    assert len(turned) >= 100
    assert {"fig-soft-lookup-steps", "fig-multi-head-line", "fig-tours-sizes"} <= turned
    assert not {"fig-far-digits", "fig-few-shot-looks", "fig-copying-smudge"} & turned


def test_buttons_lead_to_the_notebook(soup, site):
    """Colab opens the notebook of the page, and the download is it."""
    for name in NOTEBOOKS:
        links = [a.get("href", "") for a in soup[site / f"{name}.html"].find_all("a")]
        assert read_address(ROOT).on_colab(f"{name}.ipynb") in links, name
        here = [link for link in links if "colab" not in link]
        assert any(link.endswith(f"{Path(name).name}.ipynb") for link in here), name


def test_nothing_is_loaded_from_elsewhere(soup):
    """No script, style sheet, font or picture with an address of another machine."""
    loading = {"stylesheet", "preload", "icon", "modulepreload", "preconnect"}
    for page, parsed in soup.items():
        for tag in parsed.find_all(["script", "link", "img", "iframe", "source"]):
            address = tag.get("src") or (tag.get("href") if tag.name == "link" else "") or ""
            loads = tag.name != "link" or set(tag.get("rel", [])) & loading
            assert not (loads and re.match(r"(https?:)?//", address)), (page.name, address)


def test_every_page_says_what_may_run_on_it(soup):
    """The policy of `tools/sphinx/pages.py`, with the hash of each script written on the page; no
    handler stands in an attribute, where no hash could allow it.
    """
    for page, parsed in soup.items():
        if parsed.find("meta", attrs={"http-equiv": "Refresh"}):
            continue  # sends to the front page, and has no script
        policy = parsed.find("meta", attrs={"http-equiv": "Content-Security-Policy"})["content"]
        assert policy.startswith("default-src 'none'; script-src 'self'"), page.name
        assert "unsafe" not in policy.partition("style-src")[0] and "http" not in policy, page.name
        for script in parsed.find_all("script", src=False):
            digest = base64.b64encode(hashlib.sha256(script.string.encode()).digest()).decode()
            assert f"'sha256-{digest}'" in policy or script.get("type") == "application/json"
        handlers = [a for tag in parsed.find_all() for a in tag.attrs if re.match("on[a-z]+$", a)]
        assert not handlers, page.name


def test_pages_are_light(soup, site):
    """What a page loads before its pictures, packed as a server sends it: at most 500 kB. Pictures
    have a size, so that the text does not jump, and wait until they come near.
    """
    packed = {}

    def weight(path):
        if path not in packed:
            packed[path] = len(gzip.compress(path.read_bytes()))
        return packed[path]

    for page, parsed in soup.items():
        if page.name == "404.html":
            continue  # stands anywhere, so its addresses are whole
        files = {tag["src"] for tag in parsed.find_all("script", src=True)}
        files |= {tag["href"] for tag in parsed.find_all("link", rel="stylesheet")}
        paths = {(page.parent / file.partition("?")[0]).resolve() for file in files}
        fonts = 200_000 if any("katex" in file for file in files) else 0
        if page.name == "search.html":
            paths.add(site / "_static" / "book" / "index.json")
        most = 540_000 if page.name == "search.html" else 520_000  # the index grows with the book
        assert weight(page) + sum(map(weight, paths)) + fonts <= most, page.name
        assert (fonts > 0) == (parsed.select_one(".math") is not None), page.name
        for picture in parsed.select('article img[src*="_images/"]'):
            assert picture["width"] and picture["height"] and picture["loading"] == "lazy"


def test_formulas_are_set_and_say_themselves_to_screen_readers(soup):
    """As HTML for the eye and as MathML, whether or not a script runs; no TeX is left to read."""
    total = 0
    for page, parsed in soup.items():
        formulas = parsed.select(".math")
        total += len(formulas)
        for formula in formulas:
            assert formula.select_one(".katex-mathml math") and formula.select_one(".katex-html")
        texts = parsed.find_all(string=re.compile(r"\\"))
        texts = [one for one in texts if not one.find_parent(["pre", "code", "script", "style"])]
        assert not texts, (page.name, texts[0])
        assert not parsed.select('script[src*="katex"]')
    assert total > 3000


def test_references_are_listed_as_they_are_cited(soup, site):
    """By author and year, in this order, each with a link to the paper."""
    entries = soup[site / "references.html"].select("div.citation")
    labels = [entry.select_one(".label").get_text(strip=True).strip("[]") for entry in entries]
    assert len(labels) >= 180 and "Hochreiter and Schmidhuber, 1997" in labels
    assert {label for label in labels if not re.fullmatch(r"\D+, \d{4}", label)} == set()
    first = [re.split(r" et al\.| and |, \d", label)[0].lower() for label in labels]
    assert first == sorted(first)
    assert not [e.get_text() for e in entries if not e.select_one('p a[href^="http"]')]
    cited = soup[site / "chapters/02_bahdanau/index.html"].select_one(
        'article p a[href*="references.html#"]'
    )
    assert cited.find_parent("p").get_text().count("[") == 0  # round brackets, as in the notebooks


def test_the_page_for_a_wrong_address_leads_on_from_anywhere(soup, site):
    """A box to search, the front page and every chapter; all addresses are whole, as the page may
    be shown at any depth.
    """
    prefix = urlsplit(read_address(ROOT).site).path
    page = soup[site / "404.html"]
    article = page.select_one("article")
    form = article.find("form", role="search")
    links = [a["href"] for a in article.find_all("a", href=True)]
    assert form["action"] == f"{prefix}search.html" and form.find("input", attrs={"name": "q"})
    chapters = [name for name in toc_files() if re.fullmatch(r"chapters/\w+/index", name)]
    assert [f"{prefix}{name}.html" for name in chapters] == [k for k in links if "chapters" in k]
    assert f"{prefix}intro.html" in links
    addresses = [tag["href"] for tag in page.find_all(["a", "link"], href=True)]
    addresses += [tag["src"] for tag in page.find_all(["script", "img"], src=True)]
    inside = [a for a in addresses if not urlsplit(a).scheme and not a.startswith("#")]
    assert len(inside) > 100
    for address in inside:
        path = unquote(urlsplit(address).path)
        assert path.startswith(prefix) and (site / path.removeprefix(prefix)).exists(), address


def test_no_solution_reaches_the_site(site):
    paths = [p for p in site.rglob("*") if p.suffix in (".html", ".ipynb", ".md", ".txt", ".js")]
    for path in paths:
        text = path.read_text(encoding="utf-8", errors="ignore")
        assert not re.search(r"BEGIN SOLUTION|BEGIN HIDDEN", text), path


def test_a_warning_fails_the_build(tmp_path):
    """Planted: an unknown label, an unknown citation, a skipped heading."""
    config = (ROOT / "_config.yml").read_text(encoding="utf-8")
    config = config.replace("tools/sphinx", str(ROOT / "tools/sphinx"))
    left_out = "logo|favicon|html_css_files|template_bridge|chapter_zero|api|sections|pages|search"
    config = re.sub(rf"^ *({left_out}|overview):.*\n", "", config, flags=re.MULTILINE)
    (tmp_path / "_config.yml").write_text(config)
    (tmp_path / "_toc.yml").write_text("format: jb-book\nroot: intro\nchapters:\n- file: page\n")
    (tmp_path / "_vendor").mkdir()
    shutil.copy(ROOT / "references.bib", tmp_path)
    papers = "```{bibliography}\n:filter: False\n```\n"
    (tmp_path / "intro.md").write_text(f"# Nothing wrong\n\n{papers}")
    page = tmp_path / "page.md"
    page.write_text("# Nothing wrong here\n\nA page.\n")
    assert build(tmp_path, tmp_path / "out").returncode == 0
    page.write_text("# One\n\n### Three\n\nSee {ref}`nowhere`, as in {cite:t}`nobody1900`.\n")
    made = build(tmp_path, tmp_path / "out")
    assert made.returncode != 0
    for words in ("nowhere", "nobody1900", "H1 to H3"):
        assert words in made.stdout + made.stderr, words
    page.write_text("# A formula\n\nOf $q$ and\n\n$$\n\\frac{q}{\\sqrt{d}\n$$\n")
    made = build(tmp_path, tmp_path / "out")
    assert made.returncode != 0
    assert r"page: expected a formula that KaTeX can set, got '\\frac{q}{\\sqrt{d}'" in made.stderr


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_page_and_notebook_have_the_same_numbers(soup, site, name):
    """Figures, formulas, what the text says of them, and every paper that is cited."""
    page = soup[site / f"{name}.html"].select_one("article")
    cells = nbformat.read(ROOT / f"{name}.ipynb", as_version=4).cells
    cells = [c for c in cells if publish.NEIGHBOURS not in c.metadata.get("tags", [])]
    texts = [cell.source for cell in cells if cell.cell_type == "markdown"]
    captions = re.findall(r"^\*\*(Figure [\d.]+)\.\*\* ", "\n".join(texts), re.MULTILINE)
    prose = "\n".join(re.sub(r"^\*\*Figure [\d.]+\.\*\* ", "", text) for text in texts)

    def of_page(selector):
        return [" ".join(tag.get_text().split()).strip("()#¶ ") for tag in page.select(selector)]

    assert of_page("figcaption .caption-number") == captions
    assert of_page("span.eqno") == re.findall(r"\\tag\{([\d.]+)\}", prose)
    assert sorted(of_page(".std-numref")) == sorted(re.findall(r"Figure \d+\.\d+", prose))
    # A formula's number reads like a probability in brackets: both must be the same here and there.
    told = copy.copy(page)
    for other in told.select(".cell, .eqno, figcaption, .math"):
        other.decompose()
    in_brackets = sorted(re.findall(r"\((\d+\.\d+)\)", told.get_text()))
    words = re.sub(r"\$[^$]*\$", "", prose)
    assert in_brackets == sorted(re.findall(r"(?<!\])\((\d+\.\d+)\)", words))
    assert not Counter(of_page('a.reference.internal[href*="#equation-"]')) - Counter(in_brackets)
    cited = re.findall(r"\[([^][]+?),? \(?(\d{4})\)?\]\(http", prose)
    text = re.sub(r"[][()]", "", " ".join(page.get_text().split()))
    assert len(of_page('a[href*="references.html"]')) == len(cited) > 0
    for who, year in cited:
        assert f"{who} {year}" in text or f"{who}, {year}" in text, who
