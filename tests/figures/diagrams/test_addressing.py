import numpy as np
import pytest
from assertions import assert_refused
from matplotlib.patches import FancyArrowPatch, Rectangle

from attnbook import figures

WEIGHTS = np.array([0.1, 0.7, 0.2])


def test_the_machine_has_a_field_an_entry_and_a_line_from_each_head_to_each_slot():
    ax = figures.memory_machine(np.arange(6.0).reshape(3, 2), WEIGHTS, WEIGHTS[::-1]).axes[0]
    fields = [p for p in ax.patches if isinstance(p, Rectangle)]
    assert len(fields) == 6 and sum(fields[0].get_facecolor()) > sum(fields[-1].get_facecolor())
    lines = [p for p in ax.patches if isinstance(p, FancyArrowPatch)]
    thick = [p.get_linewidth() for p in lines if max(end[0] for end in p._posA_posB) > 5]
    np.testing.assert_allclose(thick, 0.3 + 3.5 * np.concatenate([WEIGHTS, WEIGHTS[::-1]]))
    assert_refused("write_weights", figures.memory_machine, np.zeros((3, 2)), WEIGHTS, WEIGHTS[1:])


def test_the_flow_has_a_row_of_bars_a_stage_with_the_weights_as_heights():
    fig = figures.addressing_flow({"before": WEIGHTS, "after": WEIGHTS[::-1]}, notes=["turned"])
    for ax, row in zip(fig.axes, (WEIGHTS, WEIGHTS[::-1])):
        np.testing.assert_allclose([bar.get_height() for bar in ax.patches], row)
    assert [ax.get_ylabel() for ax in fig.axes] == ["before", "after"]
    assert "turned" in fig.axes[1].get_title(loc="left")
    assert [t.get_text() for t in fig.axes[1].get_xticklabels()] == ["0", "1", "2"]
    numbered = figures.addressing_flow({"only": WEIGHTS}, values=True).axes[0]
    assert [text.get_text() for text in numbered.texts] == ["0.10", "0.70", "0.20"]
    assert_refused("stages", figures.addressing_flow, {"before": WEIGHTS, "after": WEIGHTS[1:]})
    assert_refused("notes", figures.addressing_flow, {"only": WEIGHTS}, notes=["a", "b"])


def test_kernels_stand_over_their_shifts():
    fig = figures.shift_kernels({"one": WEIGHTS, "two": [0.0, 0.0, 0.3, 0.7, 0.0]})
    one, two = fig.axes
    middles = [bar.get_x() + bar.get_width() / 2 for bar in two.patches]
    np.testing.assert_allclose(middles, [-2, -1, 0, 1, 2])
    assert [t.get_text() for t in two.texts] == ["0.30", "0.70"] and one.get_title() == "one"
    # more than there are colours
    assert len(figures.shift_kernels({str(k): WEIGHTS for k in range(7)}).axes) == 7
    with pytest.raises(ValueError, match="odd number of shifts"):
        figures.shift_kernels({"one": WEIGHTS[1:]})
