import pytest
from matplotlib import colors
from matplotlib import pyplot as plt
from refusing import assert_refused

from attnbook import figures


def test_a_legend_stands_below_the_axes_and_names_every_mark():
    fig, axes = plt.subplots(1, 2, figsize=(7, 3), layout="constrained")
    for ax in axes:
        ax.set_xlabel("what")
    made = figures.legend(
        fig,
        {
            "the window": ("frame", "#3f7d20"),
            "weight": ("field", "#0b5fa5"),
            "p": ("dot", "#3f7d20"),
            "0": ("line", "#222222"),
            "s": ("arrow", "#222222"),
            "read": ("word", "#c2410c"),
        },
        columns=3,
    )
    assert [text.get_text() for text in made.get_texts()] == [
        "the window",
        "weight",
        "p",
        "0",
        "s",
        "read",
    ]
    frame, field = made.legend_handles[:2]
    assert not frame.get_fill() or frame.get_facecolor()[3] == 0
    assert frame.get_edgecolor()[:3] == colors.to_rgb("#3f7d20")
    assert field.get_facecolor()[:3] == colors.to_rgb("#0b5fa5")
    fig.canvas.draw()
    box = made.get_window_extent()
    assert box.y0 >= 0 and box.x0 >= 0 and box.x1 <= fig.bbox.width
    assert all(box.y1 < ax.get_tightbbox().y0 for ax in axes), "it covers no axes"


def test_an_open_dot_is_open_and_a_number_is_no_dot():
    fig = plt.figure(layout="constrained")
    made = figures.legend(
        fig,
        {"lost": ("circle", "#3f7d20"), "chance": ("number", "#c2410c"), "won": ("dot", "#3f7d20")},
        columns=3,
    )
    circle, number, dot = made.legend_handles
    assert circle.get_markerfacecolor() == "none"
    assert circle.get_markeredgecolor() == "#3f7d20"
    assert circle.get_marker() == "o"
    assert dot.get_markerfacecolor() == "#3f7d20"
    assert number.get_marker() == "$0.5$"
    assert number.get_color() == "#c2410c"


def test_a_cross_is_a_cross_of_its_colour():
    fig = plt.figure(layout="constrained")
    (cross,) = figures.legend(fig, {"forbidden": ("cross", "#c2410c")}).legend_handles
    assert cross.get_marker() == "x" and cross.get_color() == "#c2410c"


@pytest.mark.parametrize("entries", [{}, {"the window": ("fame", "#000000")}])
def test_what_cannot_be_drawn_is_named(entries):
    assert_refused("entries", lambda: figures.legend(plt.figure(), entries))
