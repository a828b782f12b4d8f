"""Figures to touch as HTML: the same bytes for the same input, nothing that a word could break,
small scripts, and errors for input that does not fit. What they compute is tested in a browser.
"""

import json
import re
from importlib import resources

import pytest
from assertions import refusals
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
    assert page == again.html() and page.count("<script>") == page.count("</script>") == 1
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


def shown(kind, *given, **named):
    return getattr(figures, kind)(*given, **named, still=still())


ODD = ("odd", [1, 2], [1, 2], [1, 0.1])

test_what_does_not_fit_is_named = refusals(
    ("words", lambda: shown("mask_painter", [])),
    ("inputs, outputs and titles", lambda: shown("machine_steps", **MACHINE | {"titles": ["a"]})),
    ("step", lambda: shown("machine_steps", **MACHINE, step=2)),
    ("count", lambda: shown("machine_steps", **MACHINE, count=3)),
    ("still", lambda: figures.mask_painter(["a"], still=None)),
    ("keys", lambda: shown("softmax_of_products", [[1.0, 2]], [[[1.0]]], width=1)),
    ("width", lambda: shown("softmax_of_products", [[1.0, 2]], [[[1.0, 2]]], width=3)),
    ("widths", lambda: shown("position_products", [5], 9, first=0, second=1)),
    ("second", lambda: shown("position_products", [4], 9, first=0, second=9)),
    ("weights", lambda: shown("alignment_steps", [([[1.0]], ["a", "b"], ["c"])])),
    ("word", lambda: shown("alignment_steps", [([[1.0]], ["a"], ["c"])], word=1)),
    ("gamma", lambda: shown("addressing_steps", **MEMORY | {"gamma": 0.5})),
    ("previous", lambda: shown("addressing_steps", **MEMORY | {"gamma": 1, "previous": [1.0]})),
    ("names", lambda: shown("addressing_steps", **MEMORY, gamma=1, names=["x"])),
    ("examples", lambda: shown("rotary_scores", [], 9, query=1, key=0)),
    ("query must", lambda: shown("rotary_scores", [TURNED], 9, query=9, key=0)),
    ("query and key", lambda: shown("rotary_scores", [ODD], 9, query=1, key=0)),
    ("values", lambda: shown("delta_rule_steps", **PAIRS | {"entries": ["a"]})),
    ("names", lambda: shown("delta_rule_steps", **PAIRS | {"names": [("a", "x")]})),
    ("keys of one name", lambda: shown("delta_rule_steps", **PAIRS | {"names": [("a", "x")] * 2})),
    ("read", lambda: shown("delta_rule_steps", **PAIRS | {"read": "c"})),
    ("written", lambda: shown("delta_rule_steps", **PAIRS, written=3)),
    ("beam_size", lambda: shown("beam_steps", following, end=END, beam_size=0, longest=3)),
    ("following", lambda: shown("beam_steps", lambda words: {"a": 0.0}, end=END, longest=3)),
    ("best", lambda: shown("tour_steps", **TOUR, best=[0, 1, 1])),
    ("weights", lambda: shown("tour_steps", **TOUR | {"weights": [[1.0]] * 3}, best=[0, 1, 2])),
)
