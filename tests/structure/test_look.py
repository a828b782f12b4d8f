"""The contact sheets of `make look`: what goes onto them."""

from pathlib import Path

import nbformat
import pytest
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def look(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    import look

    monkeypatch.setattr(look, "OUT", tmp_path)
    return look


def test_a_sheet_shows_every_picture_whole(look):
    sizes = [(300, 200), (300, 200), (300, 100), (100, 400)]
    colors = ["#ff0000", "#00ff00", "#0000ff", "#ffff00"]
    pictures = [(c, Image.new("RGB", s, c)) for s, c in zip(sizes, colors)]
    made = Image.open(look.sheet("all", pictures, 700)).convert("RGB")
    assert made.width == 700
    counted = {f"#{r:02x}{g:02x}{b:02x}": n for n, (r, g, b) in made.getcolors(10**6)}
    assert [counted.get(c) for c in colors] == [w * h for w, h in sizes]


def test_a_notebook_on_github_has_no_scripts_styles_or_forms(look, tmp_path):
    v4 = nbformat.v4
    text = "# T\n\n<details><summary>Hint</summary>\n\nIt is $x_1$ & $$y$$\n\n</details>"
    html = v4.new_output(
        "execute_result", {"text/html": "<b onclick=x>live</b>", "image/png": "AAAA"}
    )
    code = v4.new_code_cell("a < b", outputs=[html], metadata={"tags": ["hide-input"]})
    evil = v4.new_markdown_cell("<b style='x' onclick='y'>fat</b><script>no()</script>")
    cells = [v4.new_markdown_cell(text), code, evil]
    nbformat.write(v4.new_notebook(cells=cells), tmp_path / "n.ipynb")
    page = look.as_github_shows_it(tmp_path / "n.ipynb")
    assert "<summary>Hint</summary>" in page and 'data-tex="x_1"' in page
    assert '<div data-tex="y"></div>' in page and "a &lt; b" in page
    assert '<img src="data:image/png;base64,AAAA">' in page and "live" not in page
    assert "<b style" not in page and "onclick" not in page and "<script>no()" not in page
