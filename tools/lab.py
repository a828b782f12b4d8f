"""Opens the book in JupyterLab: python tools/lab.py. All options but these go to JupyterLab; in a
container, where you are root: python tools/lab.py --allow-root --ip=0.0.0.0

    python tools/lab.py [OPTION OF JUPYTERLAB ...]
    python tools/lab.py --headless [NOTEBOOK]
    python tools/lab.py --help

What opens is my_book, your copy of the chapters: at first section 0.1, later what you read last.
start_here.md lists the whole book. Each start brings what you have not changed up to date with the
book, and leaves what you have changed; git sees nothing of it. tools/lab_settings is how this
JupyterLab differs from yours: no question about news, no menus of the grader, texts rendered.

The headless run starts the server on a copy of the notebook, opens it in Chromium, chooses "Restart
Kernel and Run All Cells", and reads what JupyterLab saved: exit status 0 when every cell ran, in
order, without an error. Without a Chromium it runs the notebook through the server's kernels
instead, and says so."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SETTINGS = ROOT / "tools" / "lab_settings"
PATIENCE = 3600
"""Seconds after which JupyterLab or a cell hangs, and is not slow."""
CHROMIUM = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")

IDLE = """() => {
  const kernel = window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel;
  return kernel && kernel.connectionStatus === 'connected' && kernel.status === 'idle';
}"""
DONE = """() => {
  const widget = window.jupyterapp.shell.currentWidget;
  const code = widget.content.widgets.filter(
    c => c.model.type === 'code' && c.model.sharedModel.getSource().trim());
  const failed = code.some(c => c.model.outputs.toJSON().some(o => o.output_type === 'error'));
  const ran = code.length && code.every(
    c => c.model.executionCount > 0 && c.model.executionState !== 'running');
  return (failed || ran) && widget.sessionContext.session?.kernel?.status === 'idle';
}"""


FOLDERS = (
    "JUPYTER_CONFIG_DIR",
    "JUPYTER_DATA_DIR",
    "JUPYTER_RUNTIME_DIR",
    "JUPYTERLAB_SETTINGS_DIR",
    "IPYTHONDIR",
)
"""Variables that say where Jupyter writes; else it does in the home folder."""


def with_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment in which Jupyter finds tools/lab_settings before all other settings."""
    others = environment.get("JUPYTER_CONFIG_PATH")
    path = os.pathsep.join(filter(None, [str(SETTINGS), others]))
    return {**environment, "JUPYTER_CONFIG_PATH": path}


def prepare(root: Path, book: Path) -> tuple[list[str], dict[str, str]]:
    """Bring the reader's copy up to date; returns what JupyterLab needs to open it: arguments and
    environment.

    Says in one line each what it did and what it left."""
    import working_copy

    did = working_copy.refresh(root, book)
    if did.first:
        print(f"{book}: your copy of the book, which git does not see")
    elif did.new or did.refreshed or did.moved:
        print(f"{book}: {len({*did.new, *did.refreshed, *did.moved})} files are new")
    if did.outdated:
        print(
            f"kept as you changed them, though the book has newer ones: {', '.join(did.outdated)} "
            "(delete or rename yours, and the next start brings the new one)"
        )
    opened = working_copy.last_read(root, book)
    spaces = working_copy.workspaces(book, opened)
    arguments = [
        f"--ServerApp.root_dir={book}",
        f"--LabApp.workspaces_dir={spaces}",
        f"--LabApp.default_url=/lab/tree/{urllib.parse.quote(opened)}",
        *(f"--NotebookNotary.{k}={v}" for k, v in working_copy.signatures(book).items()),
    ]
    env = with_settings(os.environ)
    if not home_can_be_written():
        env |= {name: str(book / working_copy.OWN / name.lower()) for name in FOLDERS}
    return arguments, env


def home_can_be_written() -> bool:
    from jupyter_core import paths

    folders = (paths.jupyter_config_dir(), paths.jupyter_data_dir(), paths.jupyter_runtime_dir())
    try:
        for folder in folders:
            os.makedirs(folder, exist_ok=True)
    except OSError:
        return False
    return all(os.access(folder, os.W_OK) for folder in folders)


def open_book(root: Path, options: list[str]) -> int:
    """JupyterLab on the reader's copy of the book, until it ends."""
    for name, package in (("jupyterlab", "jupyterlab"), ("yaml", "pyyaml")):
        if importlib.util.find_spec(name) is None:
            sys.exit(
                f"{sys.executable} has no {package}: type  make lab  or, in an environment of "
                "your own,  pip install -e '.[lab]'"
            )
    import working_copy

    try:
        arguments, env = prepare(root, root / working_copy.NAME)
    except working_copy.CannotCopy as error:
        sys.exit(
            f"{error}\nJupyterLab opens a copy of the book there: clone the book to a folder "
            "that you may write to"
        )
    os.environ.update(env)
    from jupyterlab.labapp import main as jupyterlab  # reads the environment as it is imported

    return jupyterlab([*arguments, *options]) or 0


@contextlib.contextmanager
def server(folder: Path, work: Path):
    """JupyterLab on `folder`, on this machine only, with settings of its own; gives (url,
    token).
    """
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    token = secrets.token_hex(16)
    own = {name: str(work / name.lower()) for name in (*FOLDERS, "JUPYTERLAB_WORKSPACES_DIR")}
    command = [
        sys.executable,
        "-m",
        "jupyterlab",
        "--no-browser",
        "--allow-root",
        "--ip=127.0.0.1",
        f"--port={port}",
        "--port-retries=0",
        f"--IdentityProvider.token={token}",
        f"--ServerApp.root_dir={folder}",
        "--LabApp.expose_app_in_browser=True",
    ]
    env = {**with_settings(os.environ), **own, "ATTNBOOK_PROGRESS": "0"}
    env.setdefault("ATTNBOOK_PRESET", "quick")
    with open(work / "lab.log", "wb") as log:
        process = subprocess.Popen(command, env=env, stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}"
    try:
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            with contextlib.suppress(urllib.error.URLError, OSError):
                urllib.request.urlopen(f"{url}/api?token={token}", timeout=PATIENCE).close()
                break
            if process.poll() is not None:
                raise RuntimeError(
                    "JupyterLab ended: " + (work / "lab.log").read_text(errors="replace")[-2000:]
                )
            time.sleep(0.5)
        else:
            raise RuntimeError("JupyterLab does not answer")
        yield url, token
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()


def in_browser(chromium: str, url: str, token: str, name: str, picture: Path | None = None) -> None:
    """Restart & Run All in JupyterLab, and save. No cell may have run before."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        try:
            page = browser.new_page(viewport={"width": 1400, "height": 1000})
            page.set_default_timeout(PATIENCE * 1000)
            page.goto(f"{url}/lab/tree/{name}?token={token}&reset")
            page.wait_for_selector(".jp-Notebook .jp-Cell")
            # The toolbar says "idle" before there is a kernel, and a restart is then lost without a
            # word: ask the model.
            page.wait_for_function(IDLE)
            page.click('.lm-MenuBar-itemLabel:text-is("Run")')
            page.click('.lm-Menu-itemLabel:text("Restart Kernel and Run All Cells")')
            page.click(".jp-Dialog .jp-mod-accept")
            # Cells that are off the screen are not in the page: ask the model again.
            page.wait_for_function(DONE)
            page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
            page.wait_for_function(
                "() => !window.jupyterapp.shell.currentWidget.context.model.dirty"
            )
            if picture is not None:
                picture.parent.mkdir(parents=True, exist_ok=True)
                page.screenshot(path=picture)
        finally:
            browser.close()


def through_kernels(path: Path) -> None:
    """The same without a browser: run the notebook in a kernel and save it."""
    import nbclient
    import nbformat

    nb = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(
        nb, timeout=PATIENCE, allow_errors=True, resources={"metadata": {"path": str(path.parent)}}
    ).execute()
    nbformat.write(nb, path)


def verdict(path: Path) -> list[str]:
    """What is wrong with the saved notebook: cells that did not run, or not in order, and
    errors.
    """
    cells = [
        c
        for c in json.loads(path.read_text(encoding="utf-8"))["cells"]
        if c["cell_type"] == "code" and "".join(c["source"]).strip()
    ]
    errors = [
        f"cell {i + 1}: {o['ename']}: {o['evalue']}"
        for i, c in enumerate(cells)
        for o in c["outputs"]
        if o["output_type"] == "error"
    ]
    counts = [c["execution_count"] for c in cells]
    return errors or (
        [] if counts == list(range(1, len(cells) + 1)) else [f"the cells ran as {counts}"]
    )


def headless(notebook: Path, picture: Path | None = None) -> list[str]:
    """Run a copy of `notebook` in JupyterLab; returns what went wrong, an empty list when
    nothing did.
    """
    chromium = next(filter(None, map(shutil.which, CHROMIUM)), None)
    with tempfile.TemporaryDirectory(prefix="attnbook-lab-") as name:
        work, folder = Path(name), Path(name) / "root"
        folder.mkdir()
        copy = folder / notebook.name
        clean = json.loads(notebook.read_text(encoding="utf-8"))
        for cell in clean["cells"]:
            if cell["cell_type"] == "code":
                cell["outputs"], cell["execution_count"] = [], None
        copy.write_text(json.dumps(clean), encoding="utf-8")
        with server(folder, work) as (url, token):
            if chromium:
                in_browser(chromium, url, token, notebook.name, picture)
            else:
                print(
                    "no Chromium here (bash tools/install_system.sh installs it): running in a "
                    "kernel, without the browser"
                )
                through_kernels(copy)
        return verdict(copy)


def main(arguments: list[str]) -> int:
    if "--headless" not in arguments and not {"-h", "--help"} & {*arguments}:
        return open_book(ROOT, arguments)
    parser = argparse.ArgumentParser(
        usage="lab.py [--headless [NOTEBOOK]] [OPTION OF JUPYTERLAB ...]",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--headless", action="store_true", help="run one notebook in JupyterLab and end"
    )
    parser.add_argument(
        "notebook",
        nargs="?",
        type=Path,
        default=ROOT / "chapters" / "00_attention" / "soft_lookup.ipynb",
    )
    options = parser.parse_args(arguments)
    begin = time.perf_counter()
    wrong = headless(options.notebook, picture=ROOT / "build" / "screenshots" / "lab.png")
    for line in wrong:
        print(line)
    print(
        f"{options.notebook.name}: {'stopped' if wrong else 'every cell ran'} in JupyterLab, "
        f"{time.perf_counter() - begin:.0f} s"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
