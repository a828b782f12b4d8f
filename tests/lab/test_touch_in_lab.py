"""A figure to touch in a real JupyterLab: run there it can be operated by the keys, opened from a
file that nobody trusts it stays a still.
"""

import nbformat
import numpy as np
import pytest
from book import chromium_path
from patience import HANGS

import lab
from attnbook.figures import head_viewer

pytestmark = [pytest.mark.lab, pytest.mark.slow]

ONE = [[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]]
OTHER = [[0.1, 0.1, 0.8], [0.3, 0.3, 0.4], [0.0, 1.0, 0.0]]
WEIGHTS, WORDS = [[ONE, OTHER]], ["a", "b", "<i>c</i>"]
CODE = f"from attnbook import figures\nfigures.head_viewer({WEIGHTS}, {WORDS})"
SAID = ".jp-OutputArea .said"


def test_it_works_where_it_ran_and_stays_readable_where_it_is_not_trusted(tmp_path):
    path = chromium_path()
    from playwright.sync_api import sync_playwright

    folder = tmp_path / "root"
    folder.mkdir()
    cell = nbformat.v4.new_code_cell(CODE)
    kernel = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
    bundle = head_viewer(np.array(WEIGHTS), WORDS)._repr_mimebundle_()
    shown = nbformat.v4.new_output("execute_result", bundle, execution_count=1)
    stored = nbformat.v4.new_code_cell(CODE, execution_count=1, outputs=[shown])
    for name, one in (("run", cell), ("stored", stored)):
        nb = nbformat.v4.new_notebook(cells=[one], metadata={"kernelspec": kernel})
        nbformat.write(nb, folder / f"{name}.ipynb")
    with lab.server(folder, tmp_path) as (url, token):
        lab.in_browser(path, url, token, "run.ipynb")  # leaves the outputs in the file
        assert "data-attnbook-figure" in (folder / "run.ipynb").read_text(encoding="utf-8")
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
            page = browser.new_page()
            page.set_default_timeout(HANGS * 1000)
            page.goto(f"{url}/lab/tree/stored.ipynb?token={token}&reset")
            page.wait_for_selector(".jp-OutputArea .still img")
            assert page.locator(".jp-OutputArea select").count() == 0
            page.wait_for_function(
                "() => document.querySelector('.jp-OutputArea img').naturalWidth > 300"
            )
            assert page.locator(".jp-OutputArea img").is_visible()
            page.goto(f"{url}/lab/tree/run.ipynb?token={token}&reset")
            page.wait_for_selector(".jp-OutputArea .live svg")
            page.get_by_role("combobox", name="head").focus()
            page.keyboard.press("ArrowDown")
            page.get_by_role("combobox", name="query word").focus()
            page.keyboard.press("ArrowDown")
            page.keyboard.press("ArrowDown")
            assert "“<i>c</i>” attends most to “b” (1.000)" in page.locator(SAID).inner_text()
            assert not page.locator(".jp-OutputArea .still img").is_visible()
            assert page.locator(".jp-OutputArea i").count() == 0
            browser.close()
