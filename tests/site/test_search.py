"""The search page: what people type finds its page, with an error too; else they are told so."""

import json
from collections import Counter
from types import SimpleNamespace

import formulas
import pytest
import search
import yaml
from axe_playwright_python.sync_playwright import Axe
from book import ROOT, Look
from lxml import html

QUESTIONS = yaml.safe_load((ROOT / "tests/site/questions.yaml").read_text(encoding="utf-8"))
in_browser = [pytest.mark.site, pytest.mark.slow]


@pytest.fixture(scope="module")
def look(browser, url):
    """The search page in a browser, with nothing typed yet."""
    with Look(browser) as look:
        look.open(f"{url}/search.html")
        look.page.locator("#search-results [role=status]:not(:empty)").wait_for()
        yield look
        assert not look.faults(), look.faults()


def typed(look, query) -> str:
    """Type a query into the field of the page; what is said above the results then."""
    field = look.page.locator(".bd-search-container input[name=q]")
    said = look.page.locator("#search-results [role=status]")
    field.fill("")
    said.filter(has_text="Type a word").wait_for()
    field.type(query)
    said.filter(has_text=f"“{query}”").wait_for()  # until it can be seen
    return said.inner_text()


def results(look):
    return look.page.locator("#search-results ul.search > li")


def first_pages(look, queries) -> dict:
    """The addresses of the first three pages for each query, as the page itself ranks them."""
    found = look.page.evaluate(
        """queries => queries.map(query => bookSearch.find(query).results.slice(0, 3)
             .map(({page}) => bookSearch.index.pages[page][0]))""",
        list(queries),
    )
    return dict(zip(queries, found))


class TestPage:
    pytestmark = in_browser

    def test_answers_as_people_ask(self, look):
        """Of 91 questions, 20 of them misspelled, 86 have a page among the first three."""
        kinds = Counter(one["kind"] for one in QUESTIONS)
        assert kinds == {"word": 30, "misspelled": 20, "question": 41}
        found = first_pages(look, [one["ask"] for one in QUESTIONS])
        missed = {
            one["ask"]: found[one["ask"]]
            for one in QUESTIONS
            if not {f"{page}.html" for page in one["find"]} & {*found[one["ask"]]}
        }
        assert len(missed) <= 4, missed

    @pytest.mark.parametrize(
        ("queries", "page"),
        [
            # wrong, missing, doubled and swapped letters
            (["atention", "attentoin", "atttention", "attantion"], "00_attention/soft_lookup"),
            (["lsmt", "encodr decoder"], "01_seq2seq/encoder_decoder"),
            # written as one word, as two, with a hyphen; with an error as well
            (
                ["selfattention", "self attention", "self-attention", "selfatention"],
                "03_attention_family/self_attention",
            ),
            (["flash attention", "flashattention"], "09_since_2017/flash_attention"),
            (["drop out"], "06_transformer/training"),
            (["kvcache", "kv cache", "key value cache"], "06_transformer/cached_decoding"),
            # other spellings and forms
            (["layer normalization", "layer normalisation", "layernorms"], "06_transformer/block"),
            (["traveling salesmen", "travelling salesman"], "05_pointer_networks/tours"),
            # what a thing is called elsewhere
            (["mha", "nn.MultiheadAttention"], "06_transformer/multi_head"),
            (["chatgpt", "llm"], "09_since_2017/decoder"),
            (["mdp"], "07_snail/decision_processes"),
            # the name of a paper
            (["attention is all you need"], "06_transformer/full_model"),
        ],
        ids=lambda value: value[0] if isinstance(value, list) else "",
    )
    def test_forgives(self, look, queries, page):
        found = first_pages(look, queries)
        missed = {q: pages for q, pages in found.items() if f"chapters/{page}.html" not in pages}
        assert not missed, f"{page} is not among the first three of {missed}"

    def test_from_any_page(self, browser, url):
        """The search button, a question, Enter; the results by Tab, the first by Enter."""
        with Look(browser) as look:
            page = look.open(f"{url}/intro.html")
            page.locator("button.search-button__button, button.search-button").first.click()
            page.locator("#pst-search-dialog input[name=q]").fill("how does beam search work")
            page.keyboard.press("Enter")
            page.wait_for_url("**/search.html?q=how+does+beam+search+work")
            results(look).first.wait_for()
            page.locator(".bd-search-container input[name=q]").focus()
            page.keyboard.press("Tab")
            page.keyboard.press("Enter")
            page.wait_for_url("**/chapters/01_seq2seq/decoding.html*")
            assert not look.faults(), look.faults()

    def test_says_what_was_corrected(self, look):
        assert typed(look, "atention") == (
            "Nothing was found for “atention”. Showing results for “attention”."
        )
        assert results(look).count() >= 10
        # known words, although the book writes the second in British
        for query in ("attention", "regularization"):
            assert typed(look, query) == f"Pages for “{query}”"

    def test_says_that_nothing_was_found(self, look):
        """In a sentence, with the way to the glossary, the contents and the nearest term."""
        said = typed(look, "transfrmrrz")
        assert said.startswith("Nothing was found for “transfrmrrz”. Did you mean Transformer?")
        assert results(look).count() == 0
        status = look.page.locator("#search-results [role=status]")
        assert status.get_by_role("link", name="glossary").get_attribute("href") == (
            "appendix/glossary.html"
        )
        assert status.get_by_role("link", name="contents").get_attribute("href") == "intro.html"
        status.get_by_role("link", name="Transformer").click()
        look.page.wait_for_url("**?q=Transformer")
        results(look).first.wait_for()

    def test_shows_no_tex(self, look):
        """Formulas in titles, headings and passages are a few plain characters."""
        typed(look, "why divide by sqrt d")
        assert "√dₖ" in look.page.locator("#search-results").inner_text()
        shown = look.page.evaluate(
            """() => bookSearch.entries.map(([, , heading, text]) => heading + ' ' + text)
                 .filter(said => /[\\\\]|\\$/.test(said))"""
        )
        assert not shown, shown[:5]

    @pytest.mark.parametrize(("scheme", "width"), [("light", 1400), ("dark", 390)])
    def test_no_barriers(self, browser, url, scheme, width):
        with Look(browser, scheme=scheme, width=width) as look:
            for query in ("multi-head attention", "atention", "transfrmrrz"):
                look.open(f"{url}/search.html?q={query}")
                look.page.locator("#search-results [role=status]:not(:empty)").wait_for()
                found = Axe().run(look.page).response["violations"]
                assert not found, [(b["id"], b["nodes"][0]["html"]) for b in found]
                wide = look.page.evaluate("document.documentElement.scrollWidth - innerWidth")
                assert wide <= 1, f"{query}: {wide} px wider than the window"


@pytest.mark.parametrize(
    ("tex", "said"),
    [
        (r"\sqrt{d_k}", "√dₖ"),
        (r"q \cdot k_i", "q ⋅ kᵢ"),
        (r"QK^\top", "QKᵀ"),
        (r"-\infty", "−∞"),
        (r"\frac{1}{n}", "1/n"),
        (r"X \in \mathbb{R}^{n \times d}", "X ∈ R^(n×d)"),
        (r"\bar{h}_t = \tanh(W h)", "hₜ = tanh (Wh)"),
        (r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}", "…"),
        (r"a + b + c + d + e + f + g + h", "…"),
    ],
)
def test_a_formula_in_plain_characters(tex, said):
    found = html.fromstring(formulas.katex(tex, False)).find(".//math")
    assert search.spelled(found) == said


def test_formulas_of_the_index(tmp_path):
    """Within a line they are read, and none of those set apart."""
    root, display = (formulas.katex(r"\sqrt{d_k}", apart) for apart in (False, True))
    grid = formulas.katex(r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}", False)
    (tmp_path / "_static/book").mkdir(parents=True)
    (tmp_path / "page.html").write_text(
        "<html><body><article><section id='s'><h1>Title</h1><!-- unseen --><p>"
        f"A <span class='math notranslate'>{root}</span>, d <span class='math'>{grid}</span>.</p>"
        f"<div class='math notranslate'>{display}</div></section></article></body></html>",
        encoding="utf-8",
    )
    (tmp_path / "page.md").write_text("<!-- keywords: heading, name -->\n\n# Title\n")
    app = SimpleNamespace(
        builder=SimpleNamespace(format="html"),
        config=SimpleNamespace(root_doc="page"),
        env=SimpleNamespace(toctree_includes={}, doc2path=lambda name: tmp_path / f"{name}.md"),
        outdir=tmp_path,
    )
    search.write_index(app, None)
    index = json.loads((tmp_path / "_static/book/index.json").read_text(encoding="utf-8"))
    assert index["entries"] == [[0, "s", "Title", "A √dₖ, d …."]]
    assert index["pages"] == [["page.html", "Title", "heading, name"]]
