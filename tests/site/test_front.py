"""The front page, the map, and what a link to a page says elsewhere, as an eye sees them: on a wide
screen and on a phone, in light and in dark.
"""

import io
import re
from urllib.parse import urlsplit

import numpy as np
import pytest
import yaml
from book import ROOT, Look
from bs4 import BeautifulSoup
from PIL import Image

pytestmark = [pytest.mark.site, pytest.mark.slow]
CHAPTERS = sorted(p.name for p in (ROOT / "chapters").glob("[0-9]*") if p.is_dir())
WIDTHS = [390, 768, 1400]


@pytest.mark.parametrize("width", WIDTHS)
def test_each_line_of_the_phrase_ends_at_its_words_and_strikes_through_none(browser, url, width):
    with Look(browser, width=width) as look:
        page = look.open(f"{url}/intro.html")
        page.wait_for_selector("#front-alignment svg line", state="attached")
        boxes = """es => es.map(e => e.getBoundingClientRect())
            .map(b => [b.left, b.top, b.right, b.bottom])"""
        words = page.locator(".looking-row > *")
        assert words.count() == 22
        for button in page.locator(".looking-row button").all():
            button.click()
            around = np.array(words.evaluate_all(boxes))
            assert (around[:, 0] >= 0).all() and (around[:, 2] <= width).all()
            ends = page.locator("#front-alignment line").evaluate_all(
                """lines => lines.map(l => { const b = l.ownerSVGElement.getBoundingClientRect();
                return ['x1', 'y1', 'x2', 'y2'].map(
                  (k, i) => +l.getAttribute(k) + (i % 2 ? b.top : b.left)) })"""
            )
            assert ends
            for x1, y1, x2, y2 in ends:
                along = np.linspace(0, 1, 200)[:, None]
                x, y = (x1 + along * (x2 - x1)), (y1 + along * (y2 - y1))
                inside = (
                    (x > around[:, 0] + 1) & (x < around[:, 2] - 1)
                    & (y > around[:, 1] + 1) & (y < around[:, 3] - 1)
                )  # fmt: skip
                assert not inside.any(), "a line runs through a word"
                for place in ((x1, y1), (x2, y2)):
                    off = np.maximum(around[:, :2] - place, place - around[:, 2:]).max(1)
                    assert off.min() < 2, "a line ends beside the words"


@pytest.mark.parametrize("width", WIDTHS)
def test_the_front_page_is_whole(browser, url, width):
    """Nothing is cut off, nothing scrolls sideways, and pictures lie in their cards."""
    with Look(browser, width=width) as look:
        page = look.open(f"{url}/intro.html")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        sides = page.locator("article").evaluate(
            """article => [...article.querySelectorAll(
                 '.chapter-card, .chapter-card *, .front-door, #front-alignment *')]
                 .map(e => e.getBoundingClientRect()).map(b => [b.left, b.right])"""
        )
        assert min(left for left, _ in sides) >= 0 and max(right for _, right in sides) <= width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_each_chapter_has_a_numbered_card_with_a_picture_that_fills_it(browser, url, scheme):
    with Look(browser, scheme=scheme) as look:
        page = look.open(f"{url}/intro.html")
        titles = page.locator(".chapter-card .chapter-title").all_inner_texts()
        assert len(titles) == len(CHAPTERS)
        for number, title in enumerate(titles):
            head = (ROOT / "chapters" / CHAPTERS[number] / "index.md").read_text(encoding="utf-8")
            assert title == f"{number} {re.search(r'^# (.+)$', head, re.MULTILINE)[1]}"
        for title, svg in zip(titles, page.locator(".chapter-card > svg").all()):
            frame, ink = svg.evaluate(
                """svg => { const b = svg.getBBox(), v = svg.viewBox.baseVal;
                return [[v.width, v.height], [b.x, b.y, b.x + b.width, b.y + b.height]] }"""
            )
            assert min(ink[:2]) >= 0 and ink[2] <= frame[0] and ink[3] <= frame[1], title
            assert ink[2] - ink[0] > 0.88 * frame[0] and ink[3] - ink[1] > 0.7 * frame[1], title
            assert svg.locator("text").count() == 0 and svg.get_attribute("aria-label"), title
            pixels = np.asarray(Image.open(io.BytesIO(svg.screenshot())).convert("L")) / 255
            ground = 0.05 + pixels[0, 0] ** 2.2
            seen = 0.05 + pixels**2.2
            contrast = np.maximum(seen / ground, ground / seen)
            assert (contrast > 2.5).mean() > 0.01, f"{title} can hardly be seen"
            # all four quarters of the picture hold something
            h, w = pixels.shape[0] // 2, pixels.shape[1] // 2
            for part in (contrast[:h, :w], contrast[:h, w:], contrast[h:, :w], contrast[h:, w:]):
                assert (part > 1.3).mean() > 0.005, f"a quarter of {title} is empty"


def test_the_map_is_drawn_with_years_and_arrows_that_meet_their_boxes(browser, url):
    with Look(browser) as look:
        page = look.open(f"{url}/appendix/map.html")
        svg = page.locator(".book-map svg.columns")
        assert svg.is_visible() and not page.locator(".book-map svg.lines").is_visible()
        years = svg.locator("text.year").all_text_contents()
        assert years == sorted(set(years)) and {"1964", "2017", "2024"} <= set(years)
        boxes, texts, arrows = svg.evaluate(
            """svg => {
              const box = e => {
                const b = e.getBBox();
                return [b.x, b.y, b.x + b.width, b.y + b.height];
              };
              const at = (p, k) => {
                const q = p.getPointAtLength(k * p.getTotalLength());
                return [q.x, q.y];
              };
              const ideas = [...svg.querySelectorAll('.idea')];
              return [
                Object.fromEntries(ideas.map(a => [a.dataset.id, box(a.querySelector('rect'))])),
                ideas.flatMap(
                  a => [...a.querySelectorAll('text')].map(t => [a.dataset.id, box(t)])),
                [...svg.querySelectorAll('.took')].map(
                  p => [p.dataset.from, p.dataset.to, at(p, 0), at(p, 1)]),
              ] }"""
        )
        for name, (left, top, right, bottom) in texts:
            box = boxes[name]
            assert box[0] <= left and right <= box[2] and box[1] <= top and bottom <= box[3], name
        names = list(boxes)
        for k, one in enumerate(names):
            for other in names[:k]:
                a, b = boxes[one], boxes[other]
                assert a[0] > b[2] or b[0] > a[2] or a[1] > b[3] or b[1] > a[3], (one, other)
        assert len(arrows) >= 30
        for source, target, begin, end in arrows:
            for name, (x, y) in ((source, begin), (target, end)):
                a = boxes[name]
                outside = max(a[0] - x, x - a[2], a[1] - y, y - a[3])
                assert -1 < outside < 3, f"an arrow of {source} to {target} misses {name}"


def test_the_map_is_a_list_on_a_phone(browser, url):
    with Look(browser, width=390) as look:
        page = look.open(f"{url}/appendix/map.html")
        svg = page.locator(".book-map svg.lines")
        assert svg.is_visible() and not page.locator(".book-map svg.columns").is_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        frame = svg.bounding_box()
        for box in svg.locator("text").evaluate_all(
            "ts => ts.map(t => { const b = t.getBoundingClientRect(); return [b.right, b.height] })"
        ):
            assert box[0] <= frame["x"] + frame["width"] and box[1] >= 12
        svg.locator("a[data-id=transformer]").click()
        page.wait_for_url("**/06_transformer/full_model.html")


def _told(path) -> dict[str, str]:
    head = BeautifulSoup(path.read_text(encoding="utf-8").partition("</head>")[0], "html.parser")
    tags = head.find_all("meta", content=True)
    told = {tag.get("property") or tag.get("name") or "": tag["content"] for tag in tags}
    return {name: said for name, said in told.items() if name.startswith(("og:", "desc"))}


def test_a_link_shows_a_picture_and_says_what_the_page_is_about(site):
    base = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["html"]["baseurl"]
    front = _told(site / "intro.html")
    assert _told(site / "index.html") == front, "the address of the book alone says the same"
    assert front["og:title"] == "Attention, Cell by Cell"
    assert len(front["og:description"]) > 100 and "Start reading" not in front["og:description"]
    pages = [p for part in ("chapters", "appendix") for p in (site / part).rglob("*.html")]
    assert len(pages) > 70
    for path in [site / "intro.html", *pages]:
        told = _told(path)
        assert told["description"] == told["og:description"] and told["og:title"], path.name
        assert told["og:image"].startswith(base), "an image needs its whole address"
        picture = site / urlsplit(told["og:image"].removeprefix(base)).path
        with Image.open(picture) as image:
            size = str(image.width), str(image.height)
        assert size == ("1200", "630") == (told["og:image:width"], told["og:image:height"])


def test_a_description_is_the_beginning_of_the_page(site):
    for path in (site / "chapters").rglob("*.html"):
        said = _told(path)["og:description"]
        assert 50 <= len(said) <= 200 and said[-1] in ".?!…”", f"{path.name}: {said}"
        begin = path.read_text(encoding="utf-8").partition("<article")[2][:30_000]
        article = BeautifulSoup(f"<article{begin}", "html.parser")
        first = next(p for p in article.find_all("p") if len(p.get_text()) > 60)
        for citation in first.select("a.reference"):
            citation.decompose()
        letters = lambda text: re.sub(r"[^a-z]", "", text.lower())  # noqa: E731
        assert letters(first.get_text())[:25] == letters(said)[:25], path.name
