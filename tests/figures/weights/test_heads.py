"""Figures of bits and heads: what is drawn where."""

import numpy as np
import torch
from assertions import refusals

from attnbook import figures


def test_panels_show_a_column_a_step_and_share_the_time():
    x, y = torch.randint(0, 2, (7, 3)).float(), torch.rand(7, 2)
    fig = figures.bit_panels({"input": x, "output": y}, marks=[3])
    assert [ax.get_ylabel() for ax in fig.axes] == ["input", "output"]
    for ax, values in zip(fig.axes, (x, y)):
        np.testing.assert_allclose(ax.images[0].get_array(), values.T.numpy())
        assert [line.get_xdata()[0] for line in ax.lines] == [3.5]
        assert ax.images[0].get_extent()[:2] == [0.5, 7.5]  # steps are counted from 1


def test_heads_have_a_panel_each_and_the_slots_go_round_the_end():
    weights = torch.rand(5, 2, 8)
    fig = figures.head_weights(weights, ["read", "write"], first=-3, count=5, marks=[2])
    order = [5, 6, 7, 0, 1]
    assert [ax.get_title() for ax in fig.axes] == ["read", "write"]
    for k, ax in enumerate(fig.axes):
        drawn = ax.images[0].get_array()
        np.testing.assert_allclose(drawn, weights[:, k, order].T.numpy(), rtol=1e-6)
        assert [t.get_text() for t in ax.get_yticklabels()] == [str(slot) for slot in order]
    assert figures.head_weights(weights, ["a", "b"]).axes[0].images[0].get_array().shape == (8, 5)


test_wrong_arguments_are_named = refusals(
    ("panels", lambda: figures.bit_panels({"a": torch.zeros(3, 2), "b": torch.zeros(4, 2)})),
    ("a", lambda: figures.bit_panels({"a": torch.full((3, 2), 2.0)})),
    ("marks", lambda: figures.bit_panels({"a": torch.zeros(3, 2)}, marks=[3])),
    ("names", lambda: figures.head_weights(torch.rand(3, 2, 4), ["read"])),
    ("count", lambda: figures.head_weights(torch.rand(3, 1, 4), ["read"], count=5)),
)
