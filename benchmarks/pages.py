"""How long until a page of the website shows something, on a phone of the slow kind.

    make book
    python benchmarks/pages.py          # every page; or name some: chapters/06_transformer/cost

Chromium renders each page with an empty cache, a processor four times slower than this one, and a
line of 1.6 Mbit/s with 150 ms each way, from a server that packs texts with gzip. The table gives
the first contentful paint and what was loaded until the page stood; pictures further down are
loaded later. Nothing else should run meanwhile.
"""

from __future__ import annotations

import argparse
import functools
import gzip
import http.server
import shutil
import sys
import threading
from pathlib import Path

from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[1]
LINE = {"offline": False, "latency": 150, "downloadThroughput": 2e5, "uploadThroughput": 1e5}
"""Bytes a second, and milliseconds."""
SLOWER = 4
SEEN = """() => {
  const files = performance.getEntriesByType('resource');
  const page = performance.getEntriesByType('navigation')[0];
  return [
    performance.getEntriesByName('first-contentful-paint')[0].startTime / 1000,
    page.loadEventEnd / 1000,
    [page, ...files].reduce((sum, file) => sum + file.transferSize, 0) / 1000,
  ];
}"""


class Packing(http.server.SimpleHTTPRequestHandler):
    """Files as a host of static pages sends them."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path = Path(self.translate_path(self.path))
        if not path.is_file():
            return self.send_error(404)
        kind, data = self.guess_type(path), path.read_bytes()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        if kind.startswith("text") or "javascript" in kind or "json" in kind:
            data = gzip.compress(data)
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args):
        pass


def measure(browser, address: str) -> list[float]:
    """Seconds to the first paint, seconds until all is there, and kilobytes."""
    with browser.new_context(viewport={"width": 390, "height": 844}, device_scale_factor=2) as one:
        page = one.new_page()
        wire = one.new_cdp_session(page)
        wire.send("Network.enable")
        wire.send("Network.emulateNetworkConditions", LINE)
        wire.send("Emulation.setCPUThrottlingRate", {"rate": SLOWER})
        page.goto(address, wait_until="load", timeout=120_000)
        page.wait_for_function(
            "performance.getEntriesByName('first-contentful-paint').length && "
            "performance.getEntriesByType('navigation')[0].loadEventEnd"
        )
        return page.evaluate(SEEN)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="pages, without .html; all if none is named")
    parser.add_argument("--site", type=Path, default=ROOT / "_build" / "html")
    args = parser.parse_args()
    if not (args.site / "intro.html").is_file():
        sys.exit(f"{args.site} holds no website; build it with: make book")
    names = args.names or sorted(
        str(page.relative_to(args.site).with_suffix(""))
        for page in args.site.rglob("*.html")
        if 'http-equiv="Refresh"' not in page.read_text(encoding="utf-8")
    )
    handler = functools.partial(Packing, directory=str(args.site))
    rows = {}
    with (
        http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server,
        sync_playwright() as playwright,
    ):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium") or shutil.which("google-chrome"),
            args=["--no-sandbox"],
        )
        print(f"{'page':52} first paint   all there       size")
        for name in names:
            rows[name] = measure(browser, f"http://127.0.0.1:{server.server_port}/{name}.html")
            paint, loaded, size = rows[name]
            print(f"{name:52} {paint:8.2f} s  {loaded:8.2f} s  {size:6.0f} kB", flush=True)
        browser.close()
        server.shutdown()
    slowest = max(rows, key=lambda name: rows[name][0])
    print(f"slowest first paint {rows[slowest][0]:.2f} s ({slowest}), goal 2.5 s")


if __name__ == "__main__":
    main()
