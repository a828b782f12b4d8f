"""Every page of the website in a real browser: on a desktop and on a phone, in light and in
dark.
"""

import os
import re
from itertools import product

import pytest
from axe_playwright_python.sync_playwright import Axe
from book import ROOT, toc_files
from looking import JUDGE, Look

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
            assert len(image["alt"]) >= 20 and not re.search(
                r"\.(png|svg|ipynb)|^_images", image["alt"]
            ), image


OF_EACH_KIND = [
    "intro",
    "search",
    "chapters/06_transformer/reading_heads",
    "api/training",
    "appendix/what_held",
    "references",
]


@pytest.mark.parametrize(
    "name",
    OF_EACH_KIND
    + [
        pytest.param(name, marks=pytest.mark.nightly)
        for name in [*toc_files(), "genindex", "404"]
        if name not in OF_EACH_KIND
    ],
)
def test_no_barriers(browser, context, url, name):
    """Nothing that axe finds fault with, in light and in dark: in `make test` for a page of each
    kind, at night for all.
    """
    with Look(browser, context=context) as look:
        page = look.open(f"{url}/{name}.html")
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            page.wait_for_selector(f'html[data-theme="{scheme}"]', state="attached")
            barriers = Axe().run(page).response["violations"]
            assert not barriers, [(b["id"], b["nodes"][0]["html"]) for b in barriers]


def test_equations_are_there_and_numbered(browser, url):
    """A labelled equation shows its number."""
    with Look(browser) as look:
        page = look.open(f"{url}/chapters/02_bahdanau/alignment_model.html")
        assert page.evaluate(JUDGE)["rendered"] >= 20 and page.locator("article .eqno").count() >= 1
