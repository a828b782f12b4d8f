"""Figures to touch as HTML: the same bytes for the same input, nothing that a word could break,
small scripts, and errors for input that does not fit. What they compute is tested in a browser.
"""

import json
import re
from importlib import resources

import pytest
from touching import END, following, one_of_each, still

from attnbook import figures

KINDS = [
    "softmax", "mask", "positions", "alignment", "addressing", "beam", "tour", "rotary", "delta",
    "machine", "heads",
]  # fmt: skip
TOUR = dict(points=[[0, 0], [1, 0], [0, 1]], walk=[0, 1, 2], weights=[[1, 0, 0]] * 3)
MEMORY = dict(memory=[[1, 0], [0, 1]], key=[1, 0], previous=[1, 0], strength=1, gate=1, shift=0)
TURNED = ("a pair", [1.0, 0.0], [0.0, 1.0], [0.1])
MACHINE = dict(
    memory=[[[1, 0], [0, 1]]] * 2, weights=[[[1, 0]]] * 2, inputs=[[1]] * 2, outputs=[[0]] * 2,
    names=["read"], titles=["a", "b"],
)  # fmt: skip
PAIRS = dict(
    keys=[[1, 0], [0, 1]], values=[[1, 0], [0, 1]], names=[("a", "x"), ("b", "y")],
    entries=["x", "y"], read="a",
)  # fmt: skip


@pytest.fixture(scope="module")
def made():
    figures.style()
    return one_of_each(), one_of_each()


@pytest.mark.parametrize("kind", KINDS)
def test_html_is_whole_and_the_same_each_time(made, kind):
    figure, again = (each[kind] for each in made)
    page = figure.html()
    assert page == again.html()
    assert page.count("<script>") == page.count("</script>") == 1
    script = re.search(r"<script>(.*)</script>", page, re.DOTALL)[1]
    data = re.search(r"^const data = (.*);$", script, re.MULTILINE)[1]
    assert not set("<>&") & set(data)
    json.loads(data)
    assert len(script) - len(data) < 30_000, "a script of at most 30 kB"
    assert "http" not in script.replace("http://www.w3.org/2000/svg", "")
    bundle = figure._repr_mimebundle_()
    assert set(bundle) == {"text/html", "image/png", "text/plain"}
    assert bundle["image/png"] in page


def test_the_style_names_only_the_figure_itself():
    style = (resources.files(figures.interactive) / "page.css").read_text(encoding="utf-8")
    rules = re.sub(r"@media print\{(.*)\}", r"\1", style)
    assert all(rule.startswith("@ID") for rule in re.findall(r"[^{}\n]+(?=\{)", rules))


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: figures.mask_painter([], still=still()), "words must hold at least one"),
        (
            lambda: figures.machine_steps(**{**MACHINE, "titles": ["a"]}, still=still()),
            r"needs weights \(2, 1, 2\), inputs, outputs and titles of 2 steps, got .* and 1",
        ),
        (
            lambda: figures.machine_steps(**MACHINE, step=2, still=still()),
            "step must be an integer from 0 to 1",
        ),
        (
            lambda: figures.machine_steps(**MACHINE, count=3, still=still()),
            "count must be an integer from 1 to 2",
        ),
        (lambda: figures.mask_painter(["a"], still=None), "still must be a Matplotlib figure"),
        (
            lambda: figures.softmax_of_products([[1.0, 2]], [[[1.0]]], width=1, still=still()),
            r"keys must be \(draws, n, d\)",
        ),
        (
            lambda: figures.softmax_of_products([[1.0, 2]], [[[1.0, 2]]], width=3, still=still()),
            r"width must be one of \[1, 2\], got 3",
        ),
        (
            lambda: figures.position_products([5], 9, first=0, second=1, still=still()),
            "widths must be even",
        ),
        (
            lambda: figures.position_products([4], 9, first=0, second=9, still=still()),
            "second must be between 0 and 8, got 9",
        ),
        (
            lambda: figures.alignment_steps([([[1.0]], ["a", "b"], ["c"])], still=still()),
            r"weights must be \(1, 2\)",
        ),
        (
            lambda: figures.alignment_steps([([[1.0]], ["a"], ["c"])], word=1, still=still()),
            "word must be between 0 and 0, got 1",
        ),
        (
            lambda: figures.addressing_steps(**MEMORY | {"gamma": 0.5}, still=still()),
            "gamma must be between 1 and 10, got 0.5",
        ),
        (
            lambda: figures.addressing_steps(
                **MEMORY | {"gamma": 1, "previous": [1.0]}, still=still()
            ),
            "must fit, got shapes",
        ),
        (
            lambda: figures.addressing_steps(**MEMORY, gamma=1, names=["x"], still=still()),
            "names must be one for each of the 2 slots, got 1",
        ),
        (
            lambda: figures.rotary_scores([], 9, query=1, key=0, still=still()),
            "examples must hold at least one",
        ),
        (
            lambda: figures.rotary_scores([TURNED], 9, query=9, key=0, still=still()),
            "query must be between 0 and 8, got 9",
        ),
        (
            lambda: figures.rotary_scores(
                [("odd", [1, 2], [1, 2], [1, 0.1])], 9, query=1, key=0, still=still()
            ),
            r"must be \(d,\) for d / 2 frequencies",
        ),
        (
            lambda: figures.delta_rule_steps(**PAIRS | {"entries": ["a"]}, still=still()),
            "entries must be one for each of the 2 numbers of a value, got 1",
        ),
        (
            lambda: figures.delta_rule_steps(**PAIRS | {"names": [("a", "x")]}, still=still()),
            "one for each pair, got 2, 2 and 1",
        ),
        (
            lambda: figures.delta_rule_steps(**PAIRS | {"names": [("a", "x")] * 2}, still=still()),
            "keys of one name must be equal, got two of a",
        ),
        (
            lambda: figures.delta_rule_steps(**PAIRS | {"read": "c"}, still=still()),
            "read must be one of a, b, got c",
        ),
        (
            lambda: figures.delta_rule_steps(**PAIRS, written=3, still=still()),
            "written must be between 0 and 2, got 3",
        ),
        (
            lambda: figures.delta_rule_steps(**PAIRS, strength=1.5, still=still()),
            "strength must be between 0 and 1, got 1.5",
        ),
        (
            lambda: figures.beam_steps(following, end=END, beam_size=0, longest=3, still=still()),
            "beam_size must be 1 or more",
        ),
        (
            lambda: figures.beam_steps(lambda words: {"a": 0.0}, end=END, longest=3, still=still()),
            "some word a probability above 0",
        ),
        (
            lambda: figures.tour_steps(**TOUR, best=[0, 1, 1], still=still()),
            "best must visit each of the 3 cities once",
        ),
        (
            lambda: figures.tour_steps(
                **TOUR | {"weights": [[1.0]] * 3}, best=[0, 1, 2], still=still()
            ),
            r"weights must be \(3, 3\) or \(3, 4\)",
        ),
    ],
)
def test_what_does_not_fit_is_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
