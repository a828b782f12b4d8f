"""Draws what people see first, as contact sheets in build/look: python tools/look.py [SHEET ...]

    site     front page, a section, an exercise, search (found and not), the map: a wide window and
             a phone, light and dark
    lab      the first view of `make lab` and a section with its exercises, light and dark, and
             the first view in a narrow window
    github   a notebook with what GitHub leaves of it: as the website
    paper    ten pages of the PDF

Whoever changes a page, a template or a figure looks at them. `make look` builds the website first;
the paper sheet shows build/pdf/attnbook.pdf, which `make pdf` makes.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import html
import http.server
import io
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

import lab

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / "_build" / "html"
BOOK = ROOT / "build" / "pdf" / "attnbook.pdf"
OUT = ROOT / "build" / "look"

WINDOWS = {"desktop": (1400, 1000), "phone": (390, 844)}
SCHEMES = ("light", "dark")
PLACES = {
    "front": ("index.html", None),
    "section": ("chapters/06_transformer/multi_head.html", None),
    "formulas": ("chapters/06_transformer/scaled_dot_product.html", "div.math"),
    "exercise": ("chapters/06_transformer/multi_head.html", "section[id^=exercise]"),
    "search-found": ("search.html?q=multihead+atention", None),
    "search-not-found": ("search.html?q=quxblorf", None),
    "map": ("appendix/map.html", None),
}
"""What a sheet of the website shows: a page, and what is scrolled to."""
PATIENCE = 120
"""Seconds after which a page hangs."""
GAP, LABEL = 16, 28


def sheet(name: str, pictures: list[tuple[str, Image.Image]], width: int) -> Path:
    """Put pictures with their labels into rows of at most `width` pixels, and write them."""
    rows: list[list[tuple[str, Image.Image]]] = [[]]
    for label, picture in pictures:
        used = sum(one.width + GAP for _, one in rows[-1])
        if rows[-1] and used + picture.width > width:
            rows.append([])
        rows[-1].append((label, picture))
    heights = [max(one.height for _, one in row) + LABEL + GAP for row in rows]
    made = Image.new("RGB", (width, sum(heights) + GAP), "#777777")
    draw, y = ImageDraw.Draw(made), GAP
    font = ImageFont.load_default(18)
    for row, height in zip(rows, heights):
        x = GAP
        for label, picture in row:
            draw.text((x, y), label, fill="white", font=font)
            made.paste(picture, (x, y + LABEL))
            x += picture.width + GAP
        y += height
    OUT.mkdir(parents=True, exist_ok=True)
    path = OUT / f"{name}.png"
    made.save(path)
    return path


def picture_of(page) -> Image.Image:
    return Image.open(io.BytesIO(page.screenshot())).convert("RGB")


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format, *args):
        pass


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address at which this machine serves the files of a folder."""
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


def look_at_site(browser) -> list[Path]:
    """One sheet for each place of the website."""
    if not (SITE / "index.html").is_file():
        sys.exit("there is no website in _build/html; make it with: make book")
    made = []
    with served(SITE) as url:
        for name, (address, selector) in PLACES.items():
            pictures = []
            for window, (width, height) in WINDOWS.items():
                for scheme in SCHEMES:
                    size = {"width": width, "height": height}
                    page = browser.new_page(
                        viewport=size, color_scheme=scheme, reduced_motion="reduce"
                    )
                    page.goto(f"{url}/{address}", wait_until="networkidle")
                    if selector:
                        page.locator(selector).first.evaluate(
                            "e => window.scrollBy(0, e.getBoundingClientRect().top - 80)"
                        )
                    page.wait_for_timeout(500)
                    pictures.append((f"{window}, {scheme}", picture_of(page)))
                    page.close()
            pictures.sort(key=lambda one: one[1].width, reverse=True)
            made.append(sheet(name, pictures, 2 * WINDOWS["desktop"][0] + 3 * GAP))
    return made


@contextlib.contextmanager
def running_lab(book: Path) -> Iterator[tuple[str, str]]:
    """The address and the token of JupyterLab on a fresh copy of the book."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments, env = lab.prepare(ROOT, book)
    env |= {"JUPYTERLAB_SETTINGS_DIR": str(book.with_name("settings"))}  # not those of who looks
    token = secrets.token_hex(8)
    command = [sys.executable, "-m", "jupyterlab", *arguments, "--no-browser", "--allow-root"]
    command += [f"--port={port}", "--port-retries=0", f"--IdentityProvider.token={token}"]
    command += ["--LabApp.expose_app_in_browser=True"]
    process = subprocess.Popen(
        command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and process.poll() is None:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/api?token={token}").close()
                break
            time.sleep(0.3)
        yield f"http://127.0.0.1:{port}", token
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:  # it asks before it ends its kernels
            process.kill()


def look_at_lab(browser) -> list[Path]:
    """What `make lab` opens, a section further on, and its exercises."""
    pictures = []
    with tempfile.TemporaryDirectory() as work:
        book = Path(work) / "my_book"
        with running_lab(book) as (url, token):
            page = browser.new_page(viewport={"width": 1400, "height": 1000})
            page.set_default_timeout(PATIENCE * 1000)
            page.goto(f"{url}/?token={token}")
            page.wait_for_selector(".jp-Notebook .jp-Cell")
            page.wait_for_timeout(3000)
            pictures.append(("first view", picture_of(page)))
            for label, text in (("exercises", "## Exercises"), ("end", "Next: [")):
                page.evaluate(
                    """async text => {
                      const content = window.jupyterapp.shell.currentWidget.content;
                      const has = c => c.model.sharedModel.getSource().includes(text);
                      const at = content.widgets.findIndex(has);
                      await content.scrollToItem(at, 'start');
                    }""",
                    text,
                )
                page.wait_for_timeout(2500)
                pictures.append((label, picture_of(page)))
            other = next(book.rglob("6.01_*.ipynb")).relative_to(book).as_posix()
            page.goto(f"{url}/lab/tree/{other}?token={token}")
            page.wait_for_selector("[data-attnbook-figure]", state="attached")
            page.locator("[data-attnbook-figure]").first.evaluate("e => e.scrollIntoView()")
            page.wait_for_timeout(2500)
            pictures.append(("a figure to touch, as opened", picture_of(page)))
            start = next(book.glob("*start*")).relative_to(book).as_posix()
            page.goto(f"{url}/lab/tree/{start}?token={token}")
            page.wait_for_selector(".jp-MarkdownViewer:visible h1")
            page.wait_for_timeout(1000)
            pictures.append(("the start page", picture_of(page)))
            page.evaluate(
                """() => window.jupyterapp.commands.execute(
                  'apputils:change-theme', {theme: 'JupyterLab Dark'})"""
            )
            page.wait_for_timeout(1500)
            pictures.append(("the start page, dark", picture_of(page)))
            page.goto(f"{url}/lab/tree/{other}?token={token}")
            page.wait_for_selector(".jp-Notebook .jp-Cell:visible")
            page.wait_for_timeout(2500)
            pictures.append(("a section, dark", picture_of(page)))
            page.set_viewport_size(dict(zip(("width", "height"), WINDOWS["phone"])))
            page.wait_for_timeout(1500)
            pictures.append(("a narrow window", picture_of(page)))
    return [sheet("lab", pictures, 2 * 1400 + 3 * GAP)]


ALLOWED = (
    "a b blockquote br code del details div em h1 h2 h3 h4 h5 h6 hr i img kbd li ol p pre span "
    "strong sub summary sup table tbody td th thead tr ul"
).split()
"""The elements that GitHub leaves in a notebook."""
PAGE = """<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="katex.min.css">
<style>:root{{color-scheme:light dark}}
body{{font:16px/1.5 sans-serif;max-width:900px;margin:20px auto;padding:0 16px}}
pre{{background:#f6f8fa;padding:12px;overflow:auto;font-size:13px}} img{{max-width:100%}}
table{{border-collapse:collapse}} td,th{{border:1px solid #d0d7de;padding:4px 10px}}
@media (prefers-color-scheme:dark){{
body{{background:#0d1117;color:#e6edf3}} pre{{background:#161b22}} a{{color:#4493f8}}
}}</style>
<script src="katex.min.js"></script>{body}
<script>for (const m of document.querySelectorAll('[data-tex]')) katex.render(
  m.dataset.tex, m, {{displayMode: m.tagName === 'DIV', throwOnError: false}});</script>"""


def as_github_shows_it(notebook: Path) -> str:
    """A page with what GitHub shows of a notebook: Markdown without roles, HTML without scripts
    and styles, code always open, pictures and text as output.
    """
    import bleach
    import nbformat
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    parts = []

    def tex(found: re.Match) -> str:
        tag = "div" if found[1] else "span"
        parts_of_formula.append(
            f'<{tag} data-tex="{html.escape((found[1] or found[2]).strip())}"></{tag}>'
        )
        return f"FORMULA{len(parts_of_formula) - 1}END"

    for cell in nbformat.read(notebook, as_version=4).cells:
        if cell.cell_type == "markdown":
            parts_of_formula: list[str] = []
            text = re.sub(r"\$\$(.+?)\$\$|\$([^$\n]+)\$", tex, cell.source, flags=re.DOTALL)
            attributes = {"a": ["href"], "img": ["src", "alt"]}
            clean = bleach.clean(parser.render(text), ALLOWED, attributes, strip=True)
            parts.append(
                re.sub(r"FORMULA(\d+)END", lambda m, p=parts_of_formula: p[int(m[1])], clean)
            )
            continue
        parts.append(f"<pre>{html.escape(cell.source)}</pre>")
        for output in cell.outputs:
            data = output.get("data", {})
            if "image/png" in data:
                parts.append(f'<img src="data:image/png;base64,{data["image/png"]}">')
            elif output.get("text") or "text/plain" in data:
                parts.append(f"<pre>{html.escape(output.get('text') or data['text/plain'])}</pre>")
    return PAGE.format(body="\n".join(parts))


def look_at_github(browser) -> list[Path]:
    """The beginning, the middle and the exercises of a notebook on GitHub."""
    with tempfile.TemporaryDirectory() as work:
        shutil.copytree(ROOT / "_vendor" / "katex", work, dirs_exist_ok=True)
        notebook = ROOT / "chapters" / "06_transformer" / "multi_head.ipynb"
        Path(work, "notebook.html").write_text(as_github_shows_it(notebook), encoding="utf-8")
        pictures = []
        with served(Path(work)) as url:
            for window, (width, height) in {**WINDOWS, "desktop": (1000, 1400)}.items():
                for scheme in SCHEMES:
                    size = {"width": width, "height": height}
                    page = browser.new_page(viewport=size, color_scheme=scheme)
                    page.goto(f"{url}/notebook.html", wait_until="networkidle")
                    for part in (0, 0.2, 0.7, 0.95):
                        page.evaluate(
                            "part => window.scrollTo(0, part * "
                            "(document.documentElement.scrollHeight - innerHeight))",
                            part,
                        )
                        page.wait_for_timeout(200)
                        label = f"{window}, {scheme}, {part:.0%} down"
                        pictures.append((label, picture_of(page)))
                    page.close()
    return [sheet("github", pictures, 4 * 1000 + 5 * GAP)]


def look_at_paper() -> list[Path]:
    """The first pages of the PDF, and others from all over it."""
    from pypdf import PdfReader

    if not BOOK.is_file() or not shutil.which("pdftoppm"):
        print("no sheet of the paper: it needs build/pdf/attnbook.pdf (make pdf) and pdftoppm")
        return []
    count = len(PdfReader(BOOK).pages)
    wanted = [1, 3, 5, 6, *(round(count * part) for part in (0.15, 0.3, 0.45, 0.6, 0.75, 0.95))]
    pictures = []
    with tempfile.TemporaryDirectory() as work:
        for number in wanted:
            page = ["-f", str(number), "-l", str(number), "-r", "70", "-png", "-singlefile"]
            target = Path(work, str(number))
            subprocess.run(["pdftoppm", *page, str(BOOK), str(target)], check=True)
            picture = Image.open(target.with_suffix(".png")).convert("RGB")
            pictures.append((f"page {number} of {count}", picture))
    return [sheet("paper", pictures, 5 * (pictures[0][1].width + GAP) + GAP)]


def main(argv: list[str] | None = None) -> int:
    sheets = {"site": look_at_site, "lab": look_at_lab, "github": look_at_github}
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sheets", nargs="*", metavar="SHEET", help=", ".join([*sheets, "paper"]))
    chosen = parser.parse_args(argv).sheets or [*sheets, "paper"]
    if unknown := set(chosen) - {*sheets, "paper"}:
        parser.error(f"no such sheet: {', '.join(sorted(unknown))}")
    made = []
    if set(chosen) - {"paper"}:
        chromium = next(filter(None, map(shutil.which, lab.CHROMIUM)), None)
        if chromium is None:
            print("no Chromium on this machine; install it with: bash tools/install_system.sh")
            return 1
        from playwright.sync_api import sync_playwright

        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(
                executable_path=chromium, args=["--no-sandbox", "--hide-scrollbars"]
            )
            for name in (name for name in sheets if name in chosen):
                made += sheets[name](browser)
            browser.close()
    if "paper" in chosen:
        made += look_at_paper()
    for path in made:
        print(os.path.relpath(path, ROOT))
    return 0


if __name__ == "__main__":
    sys.exit(main())
