"""What a reader sees of `make lab`: a fresh clone in a real JupyterLab, an evening's work, the next
`git pull`, and the next start.
"""

import contextlib
import io
import json
import os
import secrets
import shutil
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import numpy as np
import pytest
from book import chromium_path
from patience import HANGS
from PIL import Image
from processes import free_port

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.lab, pytest.mark.slow]

FIRST, LIVE = "00_attention/0.01_soft_lookup.ipynb", "06_transformer/6.01_scaled_dot_product.ipynb"
CHAPTER = "06_transformer/6.00_overview.md"
NEEDED = (".gitignore", "_config.yml", "_toc.yml", "chapters", "tools/lab_settings")
NEEDED += ("tools/lab.py", "tools/working_copy.py")
WHERE = "() => window.jupyterapp?.shell.currentWidget?.context?.path"
NUMBERED = ':is(mjx-container[width="full"], .katex-display)'  # of MathJax, or of MyST
RENDERED = "() => document.querySelector('.jp-NotebookPanel:not(.lm-mod-hidden) summary')"


def git(folder, *arguments):
    who = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    command = ["git", "-C", str(folder), *who, *arguments]
    made = subprocess.run(command, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    return made.stdout


@pytest.fixture(scope="module")
def upstream(tmp_path_factory):
    """A repository with what `make lab` needs, as it is in this working tree."""
    folder = tmp_path_factory.mktemp("up") / "the book"
    for name in NEEDED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copyfile
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        copy(ROOT / name, folder / name)
    git(folder.parent, "init", "-q", "-b", "main", str(folder))
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "the book")
    return folder


@contextlib.contextmanager
def make_lab(clone: Path, home: Path, log: Path):
    """`python tools/lab.py` as somebody runs it who never had a Jupyter; gives its address."""
    port = free_port()
    token = secrets.token_hex(8)
    command = [sys.executable, str(clone / "tools" / "lab.py"), "--no-browser", "--allow-root"]
    command += [f"--port={port}", "--port-retries=0", f"--IdentityProvider.token={token}"]
    command += ["--LabApp.expose_app_in_browser=True"]
    env = {k: v for k, v in os.environ.items() if not k.startswith(("JUPYTER", "IPYTHON"))}
    env |= {"HOME": str(home), "PYTHONUNBUFFERED": "1", "ATTNBOOK_PRESET": "quick"}
    with open(log, "wb") as file:
        process = subprocess.Popen(command, env=env, stdout=file, stderr=file, cwd=home)
    try:
        end = time.monotonic() + HANGS
        while time.monotonic() < end:
            assert process.poll() is None, log.read_text(encoding="utf-8")
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://127.0.0.1:{port}/api?token={token}").close()
                break
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}/?token={token}"
    finally:
        process.terminate()
        process.wait(HANGS)


def opened(browser, address: str, path: str):
    """A page on which JupyterLab shows this file, with a kernel that rests."""
    page = browser.new_page(viewport={"width": 1400, "height": 1000})
    page.set_default_timeout(HANGS * 1000)
    page.goto(address)
    page.wait_for_function(f"({WHERE})() === {json.dumps(path)}")
    page.wait_for_function("() => window.jupyterapp.shell.currentWidget.context.isReady")
    page.wait_for_function(
        "() => window.jupyterapp.shell.currentWidget.sessionContext.session?.kernel?.status"
        " === 'idle'"
    )
    page.wait_for_function(RENDERED)
    return page


def ink(page, box) -> np.ndarray:
    """Which pixels of a box (x, y, width, height) are dark."""
    x, y, width, height = box
    clip = {"x": x, "y": y, "width": width, "height": height}
    return np.asarray(Image.open(io.BytesIO(page.screenshot(clip=clip))).convert("L")) < 128


def groups(dark: np.ndarray, gap: int) -> int:
    """How many groups of ink stand side by side, with at least so many empty columns between."""
    columns = np.flatnonzero(dark.any(0))
    return int(len(columns) > 0) + int((np.diff(columns) > gap).sum())


def show(page, selector: str) -> None:
    page.evaluate(
        """selector => window.jupyterapp.shell.currentWidget.content.node
             .querySelector(selector).scrollIntoView({block: 'center'})""",
        selector,
    )
    page.wait_for_timeout(500)


def see_the_first_view(page):
    """Section 0.1 in front, the whole book behind it, nothing in the way."""
    tabs = page.locator("#jp-main-dock-panel .lm-TabBar-tabLabel").all_inner_texts()
    assert tabs == ["start_here.md", "0.01_soft_lookup.ipynb"]
    assert page.locator(".jp-Launcher, .jp-Dialog, .Toastify__toast").count() == 0
    title = page.locator(".jp-NotebookPanel h1").first
    assert title.is_visible() and "soft look-up" in title.inner_text()
    assert title.bounding_box()["y"] < 200
    files = page.locator(".jp-DirListing-itemName").all_inner_texts()
    assert files[:2] == ["0.00_overview.md", "0.01_soft_lookup.ipynb"] and files == sorted(files)
    menus = page.locator("#jp-MainMenu .lm-MenuBar-itemLabel").all_inner_texts()
    assert menus == "File Edit View Run Kernel Tabs Settings Help".split()
    tools = page.locator(".jp-NotebookPanel-toolbar").inner_text()
    assert "Validate" not in tools and "Notebook" not in tools


def see_a_fold(page):
    """Its triangle stands before its words, and a click opens it."""
    show(page, "details > summary")
    summary = page.locator(".jp-NotebookPanel details > summary").first
    box = summary.bounding_box()
    words = summary.evaluate(
        """node => { const range = document.createRange(); range.selectNodeContents(node);
                     return range.getBoundingClientRect().x }"""
    )
    assert words - box["x"] > 8
    before = ink(page, (box["x"], box["y"], words - box["x"] - 1, box["height"]))
    assert before.sum() > 15, "no triangle"
    text = page.locator(".jp-NotebookPanel details").first.locator("p").first
    assert not text.is_visible()
    summary.click()
    assert text.is_visible()


def see_one_number(page):
    """A numbered formula has one number, at its right end."""
    page.wait_for_function(f"() => document.querySelector({json.dumps(NUMBERED)})")
    show(page, NUMBERED)
    formula = page.locator(f".jp-NotebookPanel {NUMBERED}").first
    line = formula.bounding_box()
    text = formula.evaluate(
        """node => { const box = node.closest('.jp-Cell').getBoundingClientRect();
                     return {x: box.x, width: box.width} }"""
    )
    right = text["x"] + 0.85 * text["width"]
    assert groups(ink(page, (right, line["y"], 0.15 * text["width"], line["height"])), gap=5) == 1


def see_a_live_figure(page):
    """It answers, though no cell has run."""
    show(page, ".live")
    live = page.locator(".jp-OutputArea .live").first
    assert live.is_visible() and live.bounding_box()["height"] > 150
    assert not page.locator(".jp-OutputArea .still img").first.is_visible()
    before = live.inner_text()
    live.locator("input[type=range], select").first.focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowDown")
    page.wait_for_timeout(300)
    assert live.inner_text() != before


def follow(page, path: str) -> None:
    """Click the link to this file on the page of text that is in front."""
    page.locator(f'.jp-MarkdownViewer:visible a[href*="{path}"]').first.click()
    page.wait_for_function(f"({WHERE})() === {json.dumps(path)}")


def work_for_an_evening(page):
    """Runs the first cell, answers something in the last, saves."""
    page.evaluate(
        """async () => {
          const {content, context} = window.jupyterapp.shell.currentWidget;
          const code = content.widgets.filter(cell => cell.model.type === 'code');
          code.at(-1).model.sharedModel.setSource('print(6 * 7)  # my answer');
          for (const cell of [code[1], code.at(-1)]) {
            content.activeCellIndex = content.widgets.indexOf(cell);
            await window.jupyterapp.commands.execute('notebook:run-cell');
          }
          await window.jupyterapp.commands.execute('docmanager:save');
        }"""
    )
    page.wait_for_function("() => !window.jupyterapp.shell.currentWidget.context.model.dirty")


def revise(path: Path, words: str) -> None:
    made = json.loads(path.read_text(encoding="utf-8"))
    made["cells"][0]["source"] = words
    path.write_text(json.dumps(made), encoding="utf-8")


def test_the_first_evening_and_the_next(upstream, tmp_path):
    chromium = chromium_path()
    from playwright.sync_api import sync_playwright

    clone, home, log = tmp_path / "a clone", tmp_path / "home", tmp_path / "lab.log"
    home.mkdir()
    git(tmp_path, "clone", "-q", str(upstream), str(clone))
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        with make_lab(clone, home, log) as address:
            page = opened(browser, address, FIRST)
            see_the_first_view(page)
            picture = ROOT / "build" / "screenshots" / "first_view.png"
            picture.parent.mkdir(parents=True, exist_ok=True)
            page.screenshot(path=picture)
            see_a_fold(page)
            see_one_number(page)
            work_for_an_evening(page)
            page.get_by_text("start_here.md").first.click()
            follow(page, CHAPTER)
            page.locator('.jp-MarkdownViewer:visible h1:text("The Transformer")').wait_for()
            follow(page, LIVE)
            page.wait_for_selector(".jp-OutputArea .live")
            see_a_live_figure(page)
            saved = clone / "my_book" / ".lab" / "workspaces"
            page.wait_for_timeout(3000)  # JupyterLab notes its open tabs a moment later
            assert LIVE in next(saved.iterdir()).read_text(encoding="utf-8")
            page.close()
        mine = (clone / "my_book" / FIRST).read_text(encoding="utf-8")
        assert "my answer" in mine and "42" in mine
        assert git(clone, "status", "--porcelain") == ""

        revise(upstream / "chapters/00_attention/soft_lookup.ipynb", "# A new beginning")
        revise(upstream / "chapters/06_transformer/scaled_dot_product.ipynb", "# New words $x$")
        git(upstream, "commit", "-qam", "a second edition")
        git(clone, "pull", "-q", "--ff-only")
        with make_lab(clone, home, log) as address:
            assert f"the book has newer ones: {FIRST} (" in log.read_text(encoding="utf-8")
            assert (clone / "my_book" / FIRST).read_text(encoding="utf-8") == mine
            page = opened(browser, address, LIVE)
            title = page.locator(".jp-NotebookPanel h1:visible").inner_text()
            assert title.startswith("New words")
            page.wait_for_selector(".jp-OutputArea .live")  # trusted again
            see_a_live_figure(page)
        browser.close()
    assert git(clone, "status", "--porcelain") == ""


def test_what_is_missing_is_named(upstream, tmp_path):
    """A folder that cannot be written, and a Python without JupyterLab."""
    clone = tmp_path / "clone"
    git(tmp_path, "clone", "-q", str(upstream), str(clone))
    (clone / "my_book").write_text("in the way")
    command = [sys.executable, str(clone / "tools" / "lab.py"), "--no-browser"]
    made = subprocess.run(command, capture_output=True, text=True)
    assert made.returncode == 1 and "Traceback" not in made.stderr
    assert str(clone / "my_book") in made.stderr and "clone the book to a folder" in made.stderr
    bare = [sys.executable, "-I", "-S", *command[1:]]
    made = subprocess.run(bare, capture_output=True, text=True)
    assert made.returncode == 1 and "Traceback" not in made.stderr
    assert "has no jupyterlab" in made.stderr and "make lab" in made.stderr
    made = subprocess.run([*bare, "--help"], capture_output=True, text=True)
    assert made.returncode == 0 and "--headless" in made.stdout and "my_book" in made.stdout
