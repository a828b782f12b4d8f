"""The website: its pages, how it is built, which Chromium opens it, and what a page says while it
loads: errors, and requests that would leave the machine.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml
from patience import HANGS

ROOT = Path(__file__).resolve().parents[2]
CI = os.environ.get("CI", "").lower() in ("1", "true")


def toc_files() -> list[str]:
    """Every page of the table of contents, in order, as a path without extension."""
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text(encoding="utf-8"))
    found = [toc["root"]]
    for chapter in (chapter for part in toc["parts"] for chapter in part["chapters"]):
        found += [chapter["file"], *(section["file"] for section in chapter.get("sections", []))]
    return found


def chromium_path() -> str:
    """The system's Chromium; skips with an instruction where there is none, and fails in CI."""
    for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"):
        if found := shutil.which(name):
            return found
    message = "no Chromium on this machine; install it with: bash tools/install_system.sh"
    pytest.fail(message) if CI else pytest.skip(message)


def build(source: Path, target: Path) -> subprocess.CompletedProcess:
    """What `make book` runs, into another folder."""
    program = Path(sys.executable).with_name("jupyter-book")
    command = [program, "build", source, "--path-output", target, "--all", "-W", "--keep-going"]
    return subprocess.run(command, capture_output=True, text=True, timeout=HANGS)


JUDGE = """async () => {
  const article = document.querySelector('article') || document.body;
  const images = [...article.querySelectorAll('img')];
  images.forEach(i => { i.loading = 'eager'; });
  await Promise.allSettled(images.map(i => i.decode()));
  return {
    maths: document.querySelectorAll('article .math').length,
    rendered: document.querySelectorAll('article .katex').length,
    broken: document.querySelectorAll('article .katex-error').length,
    images: images.map(i => (
      {src: i.getAttribute('src'), alt: i.getAttribute('alt') || '', width: i.naturalWidth})),
    overflow: document.documentElement.scrollWidth - window.innerWidth,
    cut: [...article.querySelectorAll('.katex-display')]
      .filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.textContent),
    theme: document.documentElement.dataset.theme,
  };
}"""


NOWHERE = "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"


def launch(playwright, path: str):
    """A Chromium that reaches this machine alone. (Routes of Playwright would do that too, but
    they switch its cache off: every page would load and compile all scripts again.)
    """
    return playwright.chromium.launch(executable_path=path, args=["--no-sandbox", NOWHERE])


def is_outside(url: str) -> bool:
    """Whether a request goes to another machine."""
    parts = urlsplit(url)
    here = parts.hostname in ("127.0.0.1", "localhost")
    return parts.scheme in ("http", "https", "ws", "wss") and not here


class Look:
    """A page in a fresh context, or in one with its cache that others have used: `errors`,
    `outside` requests and `missing` files gather while it is used.
    """

    def __init__(self, browser, scheme="light", width=1400, height=1000, context=None):
        self.context = context or browser.new_context(
            color_scheme=scheme, viewport={"width": width, "height": height}
        )
        self.close = self.context.close if context is None else lambda: self.page.close()
        self.context.set_default_timeout(HANGS * 1000)
        self.page = self.context.new_page()
        self.errors, self.outside, self.missing = [], [], []
        self.page.on("pageerror", lambda e: self.errors.append(str(e)))
        self.page.on("console", lambda m: self.errors.append(m.text) if m.type == "error" else None)
        self.page.on(
            "response",
            lambda r: self.missing.append(f"{r.status} {r.url}") if r.status >= 400 else None,
        )
        self.page.on("request", self._request)

    def _request(self, request):
        if is_outside(request.url):
            self.outside.append(request.url)

    def open(self, url):
        """Load a page, with its equations set."""
        self.page.goto(url, wait_until="load")
        return self.page

    def settle(self):
        """Wait until the page has been laid out and drawn."""
        self.page.evaluate(
            "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )

    def faults(self):
        """Everything that went wrong so far, in words."""
        return (
            [f"console error: {e}" for e in self.errors]
            + [f"outside request: {u}" for u in self.outside]
            + [f"missing: {m}" for m in self.missing]
        )

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.close()
