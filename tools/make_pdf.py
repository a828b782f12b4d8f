"""The book as one PDF, printed by Chromium from the built website.

    python tools/make_pdf.py [--out build/attnbook.pdf] [PAGE ...]

Prints every page of `_toc.yml` (or those that are named), puts a contents with page numbers before
them, bookmarks on every page and heading, and a number under each sheet. Build the website first
(`make book`).
"""

from __future__ import annotations

import argparse
import functools
import html
import http.server
import io
import shutil
import sys
import threading
from pathlib import Path

import yaml
from playwright.sync_api import sync_playwright
from pypdf import PdfReader, PdfWriter

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / "_build" / "html"
SHEET = {"format": "A4", "prefer_css_page_size": True, "print_background": True}
LINKS = """base => {
  document.querySelectorAll('article a[href]').forEach(a => {
    const url = new URL(a.href, location.href);
    if (url.origin === location.origin) a.href = base + url.pathname.slice(1) + url.hash;
  });
  document.querySelectorAll('img').forEach(i => { i.loading = 'eager'; });
  return Promise.allSettled([...document.images].map(i => i.decode()));
}"""
"""Links to pages of the book lead to the website, and pictures that wait are fetched."""


def pages(toc: dict) -> list[str]:
    """The names of the pages, in the order of the book."""

    def walk(entry):
        found = [entry["file"]] if "file" in entry else []
        for key in ("parts", "chapters", "sections"):
            for child in entry.get(key, []):
                found += walk(child)
        return found

    return [toc["root"], *walk(toc)]


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


def printed(browser, url: str, names: list[str], base: str):
    """(title, PDF) of each page."""
    context = browser.new_context(color_scheme="light")
    page = context.new_page()
    for name in names:
        page.goto(f"{url}/{name}.html", wait_until="load")
        page.evaluate(LINKS, base)
        title = page.locator("article h1").first.inner_text().rstrip("#¶ \n")
        yield title, PdfReader(io.BytesIO(page.pdf(outline=True, tagged=True, **SHEET)))
    context.close()


def contents(browser, entries: list[tuple[str, int]], before: int):
    """The contents, with the number of the sheet on which each page begins."""
    rows = "".join(
        f"<li><span>{html.escape(title)}</span><b>{start + before}</b></li>"
        for title, start in entries
    )
    return _pdf(
        browser,
        "<style>@page {size: A4; margin: 20mm} body {font-family: sans-serif; font-size: 10pt}"
        "ul {padding: 0} li {display: flex; justify-content: space-between; gap: 1em;"
        "padding: 2px 0; border-bottom: 1px dotted #999; break-inside: avoid}</style>"
        f"<h1>Contents</h1><ul>{rows}</ul>",
    )


def numbers(browser, count: int):
    """Sheets that hold nothing but their number."""
    sheets = "".join(f"<p>{i + 1}</p>" for i in range(count))
    return _pdf(
        browser,
        "<style>@page {size: A4; margin: 0} body {margin: 0; font: 9pt sans-serif; color: #555}"
        "p {height: 297mm; margin: 0; box-sizing: border-box; padding-top: 284mm;"
        "text-align: center; break-after: page} p:last-child {break-after: auto}</style>" + sheets,
    )


def _pdf(browser, text: str) -> PdfReader:
    page = browser.new_page()
    page.set_content(text)
    made = PdfReader(io.BytesIO(page.pdf(prefer_css_page_size=True)))
    page.close()
    return made


def _copy_outline(writer: PdfWriter, reader: PdfReader, outline, start: int, parent) -> None:
    """The headings of a page, below its title."""
    last = parent
    for item in outline:
        if isinstance(item, list):
            _copy_outline(writer, reader, item, start, last)
        else:
            number = reader.get_destination_page_number(item)
            half = len(item.title) // 2  # Chromium says some headings twice
            twice = item.title[:half] == item.title[half:]
            last = writer.add_outline_item(
                title=item.title[:half] if twice else item.title,
                page_number=start + (number or 0),
                parent=parent,
            )


def make(site: Path, names: list[str], out: Path, browser, base: str) -> int:
    """Writes the PDF and returns its number of sheets."""
    handler = functools.partial(_Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        parts = list(printed(browser, url, names, base))
        server.shutdown()
    starts, total = [], 0
    for title, part in parts:
        starts.append((title, total + 1))
        total += len(part.pages)
    first = len(contents(browser, starts, 0).pages)
    listed = contents(browser, starts, first)
    writer = PdfWriter()
    writer.append(listed, outline_item="Contents", import_outline=False)
    for (title, start), (_, part) in zip(starts, parts):
        writer.append(part, import_outline=False)
        top = writer.add_outline_item(title=title, page_number=start + first - 1)
        below = part.outline[1:2]  # the first heading is the title
        _copy_outline(writer, part, below[0] if below else [], start + first - 1, top)
    for sheet, number in zip(writer.pages, numbers(browser, total + first).pages):
        sheet.merge_page(number)
    writer.add_metadata({"/Title": "Attention, Cell by Cell", "/Author": "The attnbook authors"})
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.with_suffix(".partial")
    with part.open("wb") as file:
        writer.write(file)
    part.replace(out)
    return total + first


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("pages", nargs="*", metavar="PAGE", help="as chapters/02_bahdanau/index")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "attnbook.pdf")
    parser.add_argument("--site", type=Path, default=SITE)
    args = parser.parse_args()
    if not (args.site / "intro.html").is_file():
        print(f"no website in {args.site}: run make book first", file=sys.stderr)
        return 2
    names = args.pages or pages(yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8")))
    if missing := [name for name in names if not (args.site / f"{name}.html").is_file()]:
        print(f"PAGE: the website has no {', '.join(missing)}", file=sys.stderr)
        return 2
    config = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    with sync_playwright() as playwright:
        found = filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome")))
        browser = playwright.chromium.launch(
            executable_path=next(found, None), args=["--no-sandbox"]
        )
        count = make(args.site, names, args.out, browser, config["html"]["baseurl"])
        browser.close()
    print(f"{args.out}: {count} sheets, {args.out.stat().st_size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
