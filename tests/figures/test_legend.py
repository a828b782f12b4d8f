import pytest
from assertions import assert_refused
from matplotlib import colors
from matplotlib import pyplot as plt

from attnbook import figures


def test_a_legend_stands_below_the_axes_and_names_every_mark():
    fig, axes = plt.subplots(1, 2, figsize=(7, 3), layout="constrained")
    for ax in axes:
        ax.set_xlabel("what")
    kinds = dict(window="frame", weight="field", p="dot", zero="line", s="arrow", read="word")
    made = figures.legend(fig, {what: (kind, "#3f7d20") for what, kind in kinds.items()}, columns=3)
    assert [text.get_text() for text in made.get_texts()] == list(kinds)
    frame, field = made.legend_handles[:2]
    assert not frame.get_fill() or frame.get_facecolor()[3] == 0
    assert frame.get_edgecolor()[:3] == field.get_facecolor()[:3] == colors.to_rgb("#3f7d20")
    fig.canvas.draw()
    box = made.get_window_extent()
    assert box.y0 >= 0 and box.x0 >= 0 and box.x1 <= fig.bbox.width
    assert all(box.y1 < ax.get_tightbbox().y0 for ax in axes), "it covers no axes"


def test_marks_of_their_own_form_and_colour():
    entries = {
        "lost": ("circle", "#3f7d20"),
        "chance": ("number", "#c2410c"),
        "won": ("dot", "#3f7d20"),
        "forbidden": ("cross", "#c2410c"),
    }
    circle, number, dot, cross = figures.legend(plt.figure(), entries).legend_handles
    assert circle.get_markerfacecolor() == "none" and circle.get_marker() == "o"
    assert circle.get_markeredgecolor() == dot.get_markerfacecolor() == "#3f7d20"
    assert number.get_marker() == "$0.5$" and cross.get_marker() == "x"
    assert number.get_color() == cross.get_color() == "#c2410c"


@pytest.mark.parametrize("entries", [{}, {"the window": ("fame", "#000000")}])
def test_what_cannot_be_drawn_is_named(entries):
    assert_refused("entries", lambda: figures.legend(plt.figure(), entries))
