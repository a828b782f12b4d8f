"""What a browser page says while it loads: errors, and requests that would leave the machine."""

from urllib.parse import urlsplit

from patience import HANGS

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
    return parts.scheme in ("http", "https", "ws", "wss") and parts.hostname not in (
        "127.0.0.1",
        "localhost",
    )


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
