"""Layers that look back: what is coloured is what the target depends on."""

import numpy as np
from assertions import refusals
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle

from attnbook.figures import COLORS
from attnbook.figures.diagrams.receptive_field import layers_back, reached


def back(size, *steps):
    """Each position reads itself and those so many steps back."""
    return sum(np.eye(size, k=-step) for step in (0, *steps))


def test_what_is_reached_is_a_product_of_what_is_read():
    layers = [back(8, 1), back(8, 2), back(8, 4)]
    levels = reached(layers)
    assert len(levels) == 4 and all(levels[0]) and levels[-1].nonzero()[0].tolist() == [7]
    listed = reached([back(8, 2), back(8, 4), back(8, 8)])
    assert listed[0].nonzero()[0].tolist() == [1, 3, 5, 7]
    layers[1] = back(8, 3)
    product = (layers[2] @ layers[1] @ layers[0] > 0)[-1]
    assert np.array_equal(reached(layers)[0], product) and not product.all()


def test_lines_dots_names_and_bars():
    fig = layers_back(
        [back(4, 1), np.tril(np.ones((4, 4)))],
        ["one back", "look"],
        ["convolution", "attention"],
        widths=[3, 5, 9],
    )
    ax = fig.axes[0]
    lines = [line for line in ax.lines if len(line.get_xdata()) == 2]
    colours = [to_hex(line.get_color()) for line in lines]
    # the target alone looks
    assert colours.count(COLORS[0]) == 7 and colours.count(COLORS[1]) == 4 and len(lines) == 7 + 10
    assert {"one back", "look", "1", "4", "3", "5", "9"} <= {text.get_text() for text in ax.texts}
    bars = [patch.get_width() for patch in ax.patches if isinstance(patch, Rectangle)]
    assert len(bars) == 1 + 2 + 3
    assert np.allclose(np.array(bars[3:]) / sum(bars[3:]), [3 / 9, 2 / 9, 4 / 9])


test_bad_input_is_named = refusals(
    ("reads must hold at", lambda: reached([])),
    ("reads must hold square", lambda: reached([np.eye(3), np.eye(4)])),
    ("kinds", lambda: layers_back([np.eye(3)], ["a"], ["pooling"])),
    ("names, kinds and", lambda: layers_back([np.eye(3)], ["a", "b"], ["attention"])),
    ("names, kinds and", lambda: layers_back([np.eye(3)], ["a"], ["attention"], widths=[3])),
)
