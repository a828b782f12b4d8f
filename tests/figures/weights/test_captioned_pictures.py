import numpy as np
import pytest
import torch
from assertions import refusals
from matplotlib.patches import Rectangle

from attnbook import figures


def gray(height=4, width=6):
    return torch.full((3, height, width), 200, dtype=torch.uint8)


def test_a_picture_shows_its_pixels_regions_and_boxes():
    image = gray()
    image[:, 1, 2] = torch.tensor([255, 0, 51])
    ax = figures.picture(image, grid=(2, 3), boxes=[(1, 0, 3, 2)], title="t").axes[0]
    shown = np.asarray(ax.images[0].get_array())
    assert shown.shape == (4, 6, 3) and shown[1, 2] == pytest.approx([1, 0, 0.2])
    assert len(ax.lines) == 1 + 2
    (box,) = [p for p in ax.patches if isinstance(p, Rectangle)]
    assert (*box.get_xy(), box.get_width(), box.get_height()) == (0.5, -0.5, 2, 2)
    again = figures.picture(image.float() / 255).axes[0]
    np.testing.assert_allclose(np.asarray(again.images[0].get_array()), shown, atol=1e-7)


def test_each_word_lights_the_regions_by_weight_row_by_row():
    weights = torch.tensor(
        [[0.0, 0.0, 0.0, 0.0, 0.0, 1.0], [0.2, 0.4, 0.1, 0.1, 0.1, 0.1], [1.0, 0, 0, 0, 0, 0]]
    )
    fig = figures.picture_words(gray(), ["a", "dog"], weights, (2, 3), boxes=[(), [(0, 0, 2, 2)]])
    first, second = fig.axes[1], fig.axes[2]
    light = np.asarray(first.images[0].get_array())[..., 0] / (200 / 255)
    expected = np.full((4, 6), 0.22)
    expected[2:, 4:] = 1  # region 5: second row, third column
    np.testing.assert_allclose(light, expected, atol=1e-6)
    light = np.asarray(second.images[0].get_array())[..., 0] / (200 / 255)
    assert light[0, 0] == pytest.approx(0.22 + 0.78 * 0.5) and light[1, 3] == pytest.approx(1)
    assert (first.get_title(), second.get_title()) == ("a  1.00", "dog  0.40")
    assert len(second.patches) == 1 and not first.patches
    assert len(fig.axes) == 4 and not fig.axes[3].images


test_bad_input_is_named = refusals(
    ("image must have", lambda: figures.picture(torch.zeros(4, 4))),
    ("image must be", lambda: figures.picture(torch.zeros(4, 4, 3))),
    ("image must be", lambda: figures.picture(torch.full((3, 2, 2), 7.0))),
    ("weights", lambda: figures.picture_words(gray(), ["a", "b"], np.ones((1, 6)), (2, 3))),
    ("weights", lambda: figures.picture_words(gray(), ["a"], np.ones((1, 5)), (2, 3))),
    ("grid", lambda: figures.picture_words(gray(), ["a"], np.ones((1, 8)), (2, 4))),
)
