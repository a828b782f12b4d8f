"""The website, built once for all tests from the committed notebooks, and a headless Chromium."""

import functools
import http.server
import shutil
import threading
from pathlib import Path

import pytest
from book import ROOT, build, chromium_path, launch
from filelock import FileLock


@pytest.fixture(scope="session")
def site(tmp_path_factory, worker_id) -> Path:
    """The folder with the built pages; the first worker that asks builds it for all."""
    if worker_id == "master":
        return _built(ROOT / "build" / "site")
    shared = tmp_path_factory.getbasetemp().parent  # one folder for all workers of this run
    with FileLock(shared / "site.lock"):
        target = shared / "site"
        if not (shared / "site.done").exists():
            _built(target)
            (shared / "site.done").touch()
    return target / "_build" / "html"


def _built(target: Path) -> Path:
    shutil.rmtree(target, ignore_errors=True)
    done = build(ROOT, target)
    warnings = [
        line
        for line in (done.stdout + done.stderr).splitlines()
        if "WARNING" in line or "ERROR" in line
    ]
    assert done.returncode == 0, "the book does not build:\n" + (
        "\n".join(warnings) or done.stderr[-3000:]
    )
    return target / "_build" / "html"


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture(scope="session")
def url(site):
    """Where the site is served, on this machine only."""
    handler = functools.partial(_Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.fixture(scope="module")
def browser():
    """One Chromium for a file of tests.

    It closes with them: only one such session may be open in a process.
    """
    api = pytest.importorskip("playwright.sync_api")
    path = chromium_path()
    with api.sync_playwright() as playwright:
        running = launch(playwright, path)
        yield running
        running.close()


@pytest.fixture(scope="module")
def context(browser):
    """One context for all pages of a file: what they share is loaded and compiled once."""
    size = {"width": 1400, "height": 1000}
    with browser.new_context(viewport=size, reduced_motion="reduce") as shared:
        yield shared
