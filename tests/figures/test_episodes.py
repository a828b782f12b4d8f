"""Episodes drawn: labels over pictures, frames round the class that is meant, bars for weights."""

import numpy as np
import torch
from assertions import refusals
from matplotlib.colors import to_hex
from matplotlib.patches import Rectangle
from task_data import seeded

from attnbook.figures import COLORS, episode_rows


def drawn(**options):
    pictures = torch.randint(256, (2, 3, 8, 8), dtype=torch.uint8, generator=seeded())
    return episode_rows(pictures, torch.tensor([[0, 2, 1], [1, 0, 2]]), pictures[:, 0], **options)


def titles(fig):
    return [ax.get_title() for ax in fig.axes]


def test_each_row_is_an_episode():
    fig = drawn()
    assert titles(fig) == ["0", "2", "1", "?", "1", "0", "2", "?"] and len(fig.axes) == 8
    assert not any(isinstance(p, Rectangle) for ax in fig.axes for p in ax.patches)


def test_frames_bars_and_what_is_said():
    weights = torch.tensor([[0.1, 0.6, 0.2, 0.1], [0.0, 0.9, 0.0, 0.1]])
    fig = drawn(answers=torch.tensor([2, 0]), weights=weights, said=[2, 1])
    assert titles(fig)[3] == "says 2" and titles(fig)[7] == "says 1, is 0"
    patches = [(k, p) for k, ax in enumerate(fig.axes) for p in ax.patches]
    frames = [(k, to_hex(p.get_edgecolor())) for k, p in patches if not p.get_fill()]
    assert frames == [(1, COLORS[1]), (5, COLORS[1])]
    bars = [p.get_width() / 8 for _, p in patches if p.get_fill()]
    assert np.allclose(bars, weights.flatten())


THREE = torch.zeros(2, 3, 8, 8)

test_bad_input_is_named = refusals(
    ("weights", lambda: drawn(weights=torch.ones(2, 3))),
    ("answers", lambda: drawn(answers=[1])),
    ("labels", lambda: episode_rows(THREE, torch.ones(2, 2), torch.ones(2, 8, 8))),
    ("query", lambda: episode_rows(THREE, torch.ones(2, 3), torch.ones(2, 8, 7))),
)
