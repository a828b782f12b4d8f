"""Every page of the website in a real browser: on a desktop and on a phone, in light and in
dark.
"""

import os
import re
from itertools import product

import pytest
from book import ROOT, toc_files
from looking import JUDGE, Look

pytestmark = [pytest.mark.site, pytest.mark.slow]

SIZES = {"desktop": (1400, 1000), "phone": (390, 844)}
SHOTS = ROOT / "build" / "screenshots"
KEEP_SHOTS = bool(os.environ.get("SCREENSHOTS"))
"""Pictures of all pages for a person to look at: each takes as long as all that is judged."""


@pytest.mark.parametrize("name", toc_files())
def test_page_loads_renders_and_fits(browser, context, url, name):
    """No console error, no request to the outside, equations set, pictures there and described,
    nothing wider than a phone, in light and in dark.
    """
    with Look(browser, context=context) as look:
        page = look.open(f"{url}/{name}.html")
        # what a scheme changes has no width: each is looked at on one size
        looks = product(("light", "dark"), SIZES) if KEEP_SHOTS else zip(("light", "dark"), SIZES)
        for scheme, size in looks:
            page.emulate_media(color_scheme=scheme)
            page.wait_for_function(f"document.documentElement.dataset.theme === '{scheme}'")
            page.set_viewport_size(dict(zip(("width", "height"), SIZES[size])))
            look.settle()
            seen = page.evaluate(JUDGE)
            assert seen["overflow"] <= 1, f"{name} is {seen['overflow']} px wider than a {size}"
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
            assert len(image["alt"]) >= 20 and not re.search(
                r"\.(png|svg|ipynb)|^_images", image["alt"]
            ), image


def test_equations_are_there_and_numbered(browser, url):
    """A labelled equation shows its number."""
    with Look(browser) as look:
        page = look.open(f"{url}/chapters/02_bahdanau/alignment_model.html")
        assert page.evaluate(JUDGE)["rendered"] >= 20 and page.locator("article .eqno").count() >= 1


def test_search_finds_alignment(browser, url):
    """Somebody types a word into the search box and gets to a page that has it."""
    with Look(browser) as look:
        page = look.open(f"{url}/intro.html")
        page.locator("button.search-button__button, button.search-button").first.click()
        page.locator("#search-input, input[name=q]").first.fill("alignment")
        page.keyboard.press("Enter")
        page.wait_for_url("**/search.html?q=alignment**")
        page.wait_for_selector("#search-results ul.search li a")
        hits = page.locator("#search-results ul.search li a").evaluate_all(
            "links => links.map(a => a.getAttribute('href'))"
        )
        assert any("02_bahdanau" in hit for hit in hits), hits
        assert not look.faults(), look.faults()


def test_the_reader_can_switch_to_dark(browser, url):
    """The theme button changes the page, and figures keep a light face there."""
    with Look(browser, "light") as look:
        page = look.open(f"{url}/chapters/00_attention/soft_lookup.html")
        before = page.evaluate("getComputedStyle(document.body).backgroundColor")
        for _ in range(3):
            page.locator("button.theme-switch-button").first.click()
            if page.evaluate("document.documentElement.dataset.theme") == "dark":
                break
        assert page.evaluate("document.documentElement.dataset.theme") == "dark"
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") != before
        assert not look.faults(), look.faults()


def test_hints_unfold(browser, url):
    """A hint is folded until somebody asks for it."""
    with Look(browser) as look:
        page = look.open(f"{url}/chapters/00_attention/soft_lookup.html")
        hint = page.locator("article details:has(> summary:text('hint'))").first
        inside = hint.locator("p").first
        assert not inside.is_visible()
        hint.locator("summary").click()
        assert inside.is_visible()


def test_the_browser_tests_see_faults(browser, url, site):
    """Planted: a script error, an outside request, a picture without alt text, a page too wide.

    Each is reported.
    """
    bad = site / "planted.html"
    bad.write_text(
        "<html><body><article><img src='_static/book/logo.svg'><div "
        "style='width:3000px'>wide</div></article>"
        "<img src='https://example.org/x.png'><script>throw new "
        "Error('planted')</script></body></html>"
    )
    try:
        with Look(browser) as look:
            page = look.open(f"{url}/planted.html")
            look.settle()
            seen = page.evaluate(JUDGE)
            said = " ".join(look.faults())
            assert "planted" in said and "outside request: https://example.org/x.png" in said
            assert seen["overflow"] > 1 and seen["images"][0]["alt"] == ""
    finally:
        bad.unlink()
