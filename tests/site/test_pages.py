"""Every page of the website in a real browser: on desktop and phone, in light and in dark."""

import os
import re
from itertools import product

import pytest
from axe_playwright_python.sync_playwright import Axe
from book import JUDGE, ROOT, Look, toc_files

pytestmark = [pytest.mark.site, pytest.mark.slow]

SIZES = {"desktop": (1280, 1000), "phone": (390, 844)}
SHOTS = ROOT / "build" / "screenshots"
KEEP_SHOTS = bool(os.environ.get("SCREENSHOTS"))
"""Pictures of all pages for a person to look at: each takes as long as all that is judged."""


@pytest.mark.parametrize("name", toc_files())
def test_page_loads_renders_and_fits(browser, context, url, name):
    """No console error, no request to the outside, equations set and on a desktop whole, pictures
    there and described, nothing wider than a phone, in light and in dark.
    """
    with Look(browser, context=context) as look:
        page = look.open(f"{url}/{name}.html")
        # what a scheme changes has no width: each is looked at on one size
        looks = product(("light", "dark"), SIZES) if KEEP_SHOTS else zip(("light", "dark"), SIZES)
        for scheme, size in looks:
            page.emulate_media(color_scheme=scheme)
            page.wait_for_selector(f'html[data-theme="{scheme}"]', state="attached")
            page.set_viewport_size(dict(zip(("width", "height"), SIZES[size])))
            look.settle()
            seen = page.evaluate(JUDGE)
            assert seen["overflow"] <= 1, f"{name} is {seen['overflow']} px wider than a {size}"
            if size == "desktop":
                assert not seen["cut"], f"{name} cuts equations on a desktop: {seen['cut']}"
            if KEEP_SHOTS:
                SHOTS.mkdir(parents=True, exist_ok=True)
                file = f"{name.replace('/', '__')}.{size}.{scheme}.png"
                page.screenshot(path=SHOTS / file, full_page=True)
        assert not look.faults(), "\n".join(look.faults())
        assert seen["rendered"] >= seen["maths"] and not seen["broken"], (
            f"{seen['maths']} equations, {seen['rendered']} set"
        )
        for image in seen["images"]:
            assert image["width"] > 0, f"{image['src']} does not show"
            assert len(image["alt"]) >= 20, image
            assert not re.search(r"\.(png|svg|ipynb)|^_images", image["alt"]), image


OF_EACH_KIND = (
    "intro search chapters/06_transformer/reading_heads api/training appendix/what_held"
).split()


OTHERS = [name for name in [*toc_files(), "genindex", "404"] if name not in OF_EACH_KIND]
AT_NIGHT = [pytest.param(name, marks=pytest.mark.nightly) for name in OTHERS]


@pytest.mark.parametrize("name", OF_EACH_KIND + AT_NIGHT)
def test_no_barriers(browser, context, url, name):
    """Nothing that axe finds fault with, in light and dark: a page of each kind, all at night."""
    with Look(browser, context=context) as look:
        page = look.open(f"{url}/{name}.html")
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            page.wait_for_selector(f'html[data-theme="{scheme}"]', state="attached")
            barriers = Axe().run(page).response["violations"]
            assert not barriers, [(b["id"], b["nodes"][0]["html"]) for b in barriers]


FORMULAS = """() => [...document.querySelectorAll('article div.math')].map(box => {
  const edges = element => element.getBoundingClientRect();
  const parts = [...box.querySelectorAll('.katex-html > *')].map(edges);
  const left = Math.min(...parts.map(r => r.left)), right = Math.max(...parts.map(r => r.right));
  const top = Math.min(...parts.map(r => r.top)), bottom = Math.max(...parts.map(r => r.bottom));
  const number = box.querySelector('.eqno');
  const column = edges(box.parentElement), frame = box.querySelector('.katex-display');
  const beside = (other, gap) => (other?.tagName === 'P' ? gap(edges(other)) : null);
  return {
    text: box.innerText,
    off: (left + right) / 2 - (column.left + column.right) / 2,
    above: beside(box.previousElementSibling, r => top - r.bottom),
    // not where the number has a line of its own
    below: number && edges(number).top >= bottom - 1 ? null
      : beside(box.nextElementSibling, r => r.top - bottom),
    number: number && column.right - edges(number).right,
    covers: number && parts.some(r => r.right > edges(number).left + 1
      && r.bottom > edges(number).top + 1 && r.top < edges(number).bottom - 1),
    tall: frame.scrollHeight - frame.clientHeight,
    wide: frame.scrollWidth - frame.clientWidth,
    begin: left - edges(frame).left,
  };
})"""


@pytest.mark.parametrize(
    "name", ["07_snail/bandits", "06_transformer/multi_head", "09_since_2017/patches_and_latents"]
)
def test_formulas_stand_in_the_middle_with_air(browser, url, name):
    """Short and long, aligned, with and without number; a long one scrolls on a phone."""
    with Look(browser) as look:
        page = look.open(f"{url}/chapters/{name}.html")
        found = page.evaluate(FORMULAS)
        assert len(found) >= 2 and any(f["number"] is not None for f in found)
        for formula in found:
            assert abs(formula["off"]) <= 4 and formula["wide"] <= 0 >= formula["tall"], formula
            assert abs(formula["number"] or 0) <= 4 and not formula["covers"], formula
            for air in ("above", "below"):
                assert formula[air] is None or 12 <= formula[air] <= 24, formula
        page.set_viewport_size({"width": 390, "height": 844})
        look.settle()
        found = page.evaluate(FORMULAS)
        assert any(f["wide"] > 0 for f in found)
        for formula in found:
            assert not formula["covers"], formula
            assert formula["begin"] >= -1 and (formula["wide"] > 0 or abs(formula["off"]) <= 4)


@pytest.mark.parametrize("name", ["06_transformer/multi_head", "02_bahdanau/translation"])
def test_code_is_whole_and_begins_where_text_and_figures_do(browser, url, name):
    with Look(browser) as look:
        page = look.open(f"{url}/chapters/{name}.html")
        edges, cut = page.evaluate(
            """() => [
              [...document.querySelectorAll('article section > p, article figure img, figcaption p,'
                + 'article .cell_input, article section > .pst-scrollable-table-container')]
                .filter(e => e.checkVisibility()).map(e => e.getBoundingClientRect().left),
              [...document.querySelectorAll('article .cell_input pre')]
                .filter(e => e.checkVisibility() && e.scrollWidth > e.clientWidth)
                .map(e => e.innerText)]"""
        )
        assert max(edges) - min(edges) <= 2 and not cut


def test_tables_have_no_empty_strip_and_show_every_column_on_a_phone(browser, url):
    """A table ends where its last column ends. On a phone the notation fits."""
    last = """() => [...document.querySelectorAll('article table')].map(table => {
      const cells = [...table.rows].map(row => row.cells[row.cells.length - 1]);
      return [table.getBoundingClientRect().right,
              Math.max(...cells.map(cell => cell.getBoundingClientRect().right))]; })"""
    with Look(browser) as look:
        page = look.open(f"{url}/chapters/06_transformer/multi_head.html")
        ends = page.evaluate(last)
        assert ends and all(abs(table - cell) <= 2 for table, cell in ends), ends
        page.set_viewport_size({"width": 390, "height": 844})
        page = look.open(f"{url}/appendix/notation.html")
        assert max(cell for _, cell in page.evaluate(last)) <= 390


def test_the_ledger_counts_when_it_is_filtered(browser, url):
    with Look(browser) as look:
        page = look.open(f"{url}/appendix/ledger.html")
        rows = page.locator("#ledger tbody tr").count()
        count = page.locator(".ledger-filter output")
        assert count.inner_text() == ""
        page.get_by_label("Kind of line").select_option("P")
        shown = page.locator("#ledger tbody tr:visible").count()
        assert 0 < shown < rows and count.inner_text() == f"{shown} of {rows} lines"
