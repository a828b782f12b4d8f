"""The viewer of heads: what it shows is read back by an HTML parser written here and in a real
browser, with and without scripts.
"""

import base64
import io
import json
import re
from html.parser import HTMLParser

import nbformat
import numpy as np
import pytest
import torch
from book import chromium_path
from looking import Look, launch

from attnbook.figures import head_viewer, view_heads
from attnbook.models.transformer.encoder_decoder import HeadWeights

WORDS = (
    "the",
    "hat",
    "<b>bold</b>",
    'a"b',
    "it's & $x$",
    "</script><script>window.broken=1</script>",
)


def weights(layers, heads, m, n, seed=0):
    return np.random.default_rng(seed).dirichlet(np.full(n, 0.3), size=(layers, heads, m))


class Reader(HTMLParser):
    """Tables as lists of rows of text, alt texts, and the names of all elements."""

    def __init__(self, text):
        super().__init__()
        self.rows, self.alts, self.names, self.caption, self._into = [], [], [], "", None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.names.append(tag)
        given = dict(attributes)
        if tag == "img":
            self.alts.append(given["alt"])
        if tag == "tr":
            self.rows.append([])
        if tag in ("th", "td"):
            assert tag == "td" or given["scope"] in ("row", "col")
            self.rows[-1].append("")
        self._into = tag if tag in ("th", "td", "caption") else None

    def handle_endtag(self, tag):
        self._into = None

    def handle_data(self, text):
        if self._into == "caption":
            self.caption += text
        elif self._into:
            self.rows[-1][-1] += text


def check_table(rows, columns, expected):
    assert rows[0] == ["word looked at", "weight"]
    assert [row[0] for row in rows[1:]] == list(columns)
    assert [float(row[1]) for row in rows[1:]] == pytest.approx(expected, abs=5.1e-4)


def test_without_a_script_there_are_a_still_and_the_table_of_the_first_choice():
    array = weights(2, 3, 6, 6)
    viewer = head_viewer(array, WORDS, layer=1, head=2, row=4)
    seen = Reader(viewer.html().split("<script>")[0])
    check_table(seen.rows, WORDS, array[1, 2, 4])
    assert seen.caption == "Weights of “it's & $x$”: self-attention, layer 2, head 3"
    assert (
        len(seen.alts) == 1
        and "2 layers of 3 heads" in seen.alts[0]
        and not {"b", "select", "button"} & set(seen.names)
    )


def test_the_bundle_is_the_same_each_time_and_small():
    array = weights(4, 4, 20, 20)
    words = [f"word{i}" for i in range(20)]
    one, two = (head_viewer(array, words)._repr_mimebundle_() for _ in range(2))
    assert (
        one == two
        and set(one) == {"text/html", "image/png", "text/plain"}
        and len(json.dumps(one)) < 150_000
    )
    other = head_viewer(weights(4, 4, 20, 20, seed=1), words).html()
    ids = [re.search(r'id="([^"]+)"', html)[1] for html in (one["text/html"], other)]
    assert ids[0] != ids[1] and all(
        html.count(f'id="{own}"') == 1 for html, own in zip((one["text/html"], other), ids)
    )


def test_the_still_is_a_picture_of_every_head():
    from PIL import Image

    array = np.zeros((1, 2, 4, 4))
    array[0, 0], array[0, 1] = np.eye(4), 1.0
    image = np.asarray(
        Image.open(
            io.BytesIO(
                base64.b64decode(head_viewer(array, list("abcd"))._repr_mimebundle_()["image/png"])
            )
        ).convert("RGB")
    )
    dark = (image.astype(int)[:, :, 2] - image.astype(int)[:, :, 0] > 60) & (image[:, :, 0] < 40)
    half = image.shape[1] // 2
    assert 0.2 < dark[:, :half].sum() / dark[:, half:].sum() < 0.3  # one cell of four, beside all


def test_weights_of_a_model_are_taken_as_they_come():
    source, target = ["a", "b", "c"], ["x", "y"]
    # batch 5, two layers, one column of padding
    tensors = [torch.from_numpy(weights(5, 2, 3, 4, seed=s)[:, :, :, :]) for s in range(2)]
    given = HeadWeights(
        tuple(torch.from_numpy(weights(5, 2, 4, 4, seed=s)) for s in (4, 5)),
        tuple(torch.from_numpy(weights(5, 2, 3, 3, seed=s)) for s in (2, 3)),
        tuple(tensors),
    )
    cases = [
        (
            view_heads(given, source, target, index=3, part="cross", layer=1, head=1, row=2),
            given.cross[1][3, 1, 2, :3],
            source,
            "⟨/s⟩",
        ),
        (
            view_heads(given, source, target, index=1, part="decoder", row=1),
            given.decoder[0][1, 0, 1],
            ["⟨s⟩", *target],
            "y",
        ),
        (view_heads(given.encoder, source, layer=1), given.encoder[1][0, 0, 0, :3], source, "a"),
        (view_heads(given.encoder[0], source, index=2), given.encoder[0][2, 0, 0, :3], source, "a"),
        (view_heads({"cross": tensors}, source, target), tensors[0][0, 0, 0, :3], source, "x"),
        (view_heads(tensors, source, target), tensors[0][0, 0, 0, :3], source, "x"),
        (head_viewer(given.encoder[0][0, 0], source), given.encoder[0][0, 0, 0, :3], source, "a"),
        (
            head_viewer(given.encoder[0][0].requires_grad_(), source, head=1),
            given.encoder[0][0, 1, 0, :3].detach(),
            source,
            "a",
        ),
    ]
    for viewer, expected, columns, looks in cases:
        seen = Reader(viewer.html().split("<script>")[0])
        check_table(seen.rows, columns, expected.tolist())
        assert f"“{looks}”" in seen.caption


@pytest.mark.parametrize(
    "wrong, words",
    [
        (
            lambda: head_viewer(np.ones(3), list("abc")),
            r"weights must have the shape \(layers, h, m, n\)",
        ),
        (
            lambda: head_viewer(np.full((1, 1, 2, 3), 0.1), list("abc")),
            "weights must cover 3 rows and 3 columns",
        ),
        (
            lambda: head_viewer(np.full((1, 1, 3, 3), 2.0), list("abc")),
            "weights must lie between 0 and 1, got 2 to 2: are these scores",
        ),
        (lambda: head_viewer(np.full((3, 3), np.nan), list("abc")), "weights must be finite"),
        (lambda: head_viewer(np.eye(3), []), "rows must hold at least one token"),
        (
            lambda: head_viewer(np.eye(3), ["a"] * 3, "a b c"),
            "columns must hold at least one token, got 'a b c'",
        ),
        (
            lambda: head_viewer(np.eye(3), ["a"] * 3, layer=1),
            r"layer must be an integer in 0\.\.0, got 1",
        ),
        (lambda: head_viewer(np.eye(3), ["a"] * 3, head=-1), "head must be an integer"),
        (
            lambda: head_viewer(np.eye(3), ["a"] * 3, row=3),
            r"row must be an integer in 0\.\.2, got 3",
        ),
        (
            lambda: view_heads(np.ones((1, 1, 3, 3)), ["a"] * 3, index=1),
            r"index must lie in 0\.\.0",
        ),
        (lambda: view_heads([None], ["a"]), "need_weights=True"),
        (lambda: view_heads([], ["a"]), "weights of encoder must hold a tensor for each layer"),
        (
            lambda: view_heads([np.ones((1, 1, 2, 2)), np.ones((1, 2, 2, 2))], ["a"]),
            "one shape in all layers",
        ),
        (lambda: view_heads({"cross": np.ones((1, 1, 2, 1))}, ["a"]), "target must be given"),
        (
            lambda: view_heads({"self": np.ones((1, 1, 1, 1))}, ["a"]),
            "weights must be named encoder, decoder, cross, got self",
        ),
        (
            lambda: view_heads(np.ones((1, 1, 1, 1)), ["a"], part="cross"),
            "part must be one of encoder, got 'cross'",
        ),
    ],
)
def test_mistakes_are_named(wrong, words):
    with pytest.raises(ValueError, match=words):
        wrong()


PASSING = ["div", "img", "table", "caption", "thead", "tbody", "tr", "th", "td"]


def test_sanitised_it_keeps_still_and_table():
    """Cleaned of scripts as JupyterLab cleans what it does not trust: embedded pictures pass.
    nbconvert's sanitiser drops these too; the table and the words for the picture stay, and the
    picture beside the HTML."""
    bleach = pytest.importorskip("bleach")
    array = weights(1, 2, 6, 6)
    bundle = head_viewer(array, WORDS)._repr_mimebundle_()
    kept = bleach.clean(
        bundle["text/html"],
        tags=PASSING,
        attributes=["class", "alt", "src", "scope"],
        protocols=["data"],
        strip=True,
    )
    output = nbformat.v4.new_output("display_data", data=bundle)
    nb = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1", outputs=[output])])
    sanitize = pytest.importorskip("nbconvert.preprocessors.sanitize").SanitizeHTML(
        tags=PASSING,
        strip=True,
        attributes={"*": ["class"], "img": ["alt", "src"], "th": ["scope"]},
    )
    data = sanitize.preprocess(nb, {})[0].cells[0].outputs[0].data
    for html in (kept, data["text/html"]):
        seen = Reader(html.split("(function")[0])
        check_table(seen.rows, WORDS, array[0, 0, 0])
        assert "<script" not in html and len(seen.alts) == 1
    assert 'src="data:image/png;base64,iVBOR' in kept and data["image/png"] == bundle["image/png"]


# -- in a browser


@pytest.fixture(scope="module")
def browser():
    api = pytest.importorskip("playwright.sync_api")
    path = chromium_path()
    with api.sync_playwright() as playwright:
        running = launch(playwright, path)
        yield running
        running.close()


@pytest.fixture()
def page_of(tmp_path):
    def write(*viewers):
        body = "<p>Some text.</p>".join(viewer.html() for viewer in viewers)
        path = tmp_path / "page.html"
        path.write_text(
            f"<!doctype html><html><head><meta "
            f"charset='utf-8'><title>t</title></head><body>{body}</body></html>",
            encoding="utf-8",
        )
        return path.as_uri()

    return write


def shown_table(page, which=0):
    return (
        page.locator("table")
        .nth(which)
        .evaluate("t => [...t.rows].map(r => [...r.cells].map(c => c.textContent))")
    )


@pytest.mark.slow
def test_layer_head_and_word_are_chosen_by_keyboard_and_the_table_follows(browser, page_of):
    array = weights(2, 3, 6, 6)
    with Look(browser) as look:
        page = look.open(page_of(head_viewer(array, WORDS)))
        check_table(shown_table(page), WORDS, array[0, 0, 0])
        for key in ("Tab", "ArrowDown", "Tab", "ArrowDown", "ArrowDown", "Tab", "ArrowDown"):
            page.keyboard.press(key)
        check_table(shown_table(page), WORDS, array[1, 2, 1])
        assert [
            page.get_by_role("combobox", name=name).input_value() for name in ("Layer", "Head")
        ] == ["1", "2"]
        assert "layer 2, head 3" in page.locator("caption").inner_text()
        assert page.evaluate(
            "document.activeElement.parentElement.textContent.startsWith('Word that looks')"
        )
        most = int(array[1, 2, 1].argmax())
        assert WORDS[most] in page.locator("[aria-live=polite]").inner_text()
        assert (
            not page.locator(".hv-still img").is_visible()
            and page.locator("svg[role=img]").is_visible()
        )
        cells = (
            page.locator("svg g.hv-row")
            .nth(1)
            .locator("rect")
            .evaluate_all("rs => rs.slice(1).map(r => r.getAttribute('fill'))")
        )
        darkness = [-int(re.findall(r"\d+", fill)[0]) for fill in cells]
        assert np.argsort(darkness)[-1] == most and len(cells) == 6
        page.locator("svg g.hv-row").nth(4).click()
        check_table(shown_table(page), WORDS, array[1, 2, 4])
        assert page.evaluate("window.broken") is None and page.locator("b").count() == 0
        assert not look.faults(), look.faults()


@pytest.mark.slow
def test_two_viewers_on_a_page_and_no_names_left_behind(browser, page_of):
    a, b = weights(2, 2, 3, 3, seed=1), [weights(2, 2, 3, 3, seed=s)[:1] for s in (2, 3)]
    viewers = (
        head_viewer(a, list("abc")),
        view_heads({"encoder": b, "cross": [w[:, :, :2] for w in b]}, list("xyz"), ["w"]),
    )
    with Look(browser) as look:
        empty = set(look.open(page_of()).evaluate("Object.getOwnPropertyNames(window)"))
        page = look.open(page_of(*viewers))
        assert set(page.evaluate("Object.getOwnPropertyNames(window)")) <= empty
        page.get_by_role("combobox", name="Layer").nth(0).select_option(index=1)
        # the first viewer has one attention and does not ask
        page.get_by_role("combobox", name="Attention").select_option(index=1)
        page.get_by_role("combobox", name="Layer").nth(1).select_option(index=1)
        page.get_by_role("combobox", name="Word that looks").nth(1).select_option(label="2 ⟨/s⟩")
        check_table(shown_table(page, 0), "abc", a[1, 0, 0])
        check_table(shown_table(page, 1), "xyz", b[1][0, 0, 1])
        ids = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
        assert len(ids) == len(set(ids)) and not look.faults(), look.faults()


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_and_reads_on_both_faces(browser, page_of, scheme):
    words = [f"word{i}" for i in range(20)]
    with Look(browser, scheme, 390, 844) as look:
        page = look.open(page_of(head_viewer(weights(4, 4, 20, 20), words)))
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        ink, face = (
            page.evaluate(f"getComputedStyle(document.querySelector('{where}')).{what}")
            for where, what in (("td", "color"), ("[data-attnbook-heads]", "backgroundColor"))
        )
        assert (ink, face) == ("rgb(34, 34, 34)", "rgb(251, 251, 248)")
        assert not look.faults()


@pytest.mark.slow
def test_the_style_of_a_page_does_not_reach_in(browser, tmp_path):
    """Bootstrap, which the website has, gives the children of a .row all the width."""
    style = "<style>.row > * { width: 100% } .map, .numbers, .top { display: none }</style>"
    path = tmp_path / "page.html"
    path.write_text(style + head_viewer(weights(1, 2, 4, 4), list("abcd")).html(), encoding="utf-8")
    with Look(browser) as look:
        page = look.open(path.as_uri())
        widths = page.locator("svg g rect").evaluate_all(
            "rs => rs.map(r => r.getBoundingClientRect().width)"
        )
        assert (
            len(widths) == 20 and max(widths[1:5]) < 1.05 * min(widths[1:5]) and max(widths) < 120
        )
        assert page.locator("svg").is_visible() and page.locator("table").is_visible()


@pytest.mark.slow
def test_with_scripts_switched_off_still_and_table_stay(browser, page_of):
    array = weights(2, 3, 6, 6)
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(page_of(head_viewer(array, WORDS, head=1)))
    assert (
        page.locator("img").is_visible()
        and page.locator("table").is_visible()
        and page.locator("select").count() == 0
    )
    assert page.locator("img").bounding_box()["height"] > 100 and page.locator("td").count() == 6
    assert "querySelectorAll" not in page.locator("body").inner_text()
    context.close()
