"""Diagrams: the encoder-decoder unrolled in time, without and with attention."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from ...validate import check_integer, require
from ..canvas import arrow, as_array, axes_of, centred, figure_of
from ..styling import COLORS

__all__ = ["encoder_decoder", "labelled_box"]


def labelled_box(
    ax: Axes, x: float, y: float, text: str, color: str, width: float = 0.72, height: float = 0.5
) -> None:
    """A white box with round corners and a text, its centre at (x, y)."""
    style: dict[str, Any] = dict(facecolor="#ffffff", edgecolor=color, linewidth=1.5, zorder=3)
    corner = x - width / 2, y - height / 2
    ax.add_patch(FancyBboxPatch(corner, width, height, boxstyle="round,pad=0.02", **style))
    centred(ax, x, y, text, 10, zorder=4)


def encoder_decoder(
    source: Sequence[str], target: Sequence[str], *, attention: Any = None, step: int = 0
) -> Figure:
    """Draw an encoder-decoder unrolled in time: a box per state, words under and over them.

    Args:
        source: Words of the source.
        target: Words of the target; the decoder reads them one step late.
        attention: ``(len(source),)``, the weights of decoder step ``step`` over the encoder states,
            drawn with the query, which is the state before it; without it the last state is the
            only connection of encoder and decoder.
        step: A decoder step, counted from 0.

    Source: figures 3 and 4 of Weng 2018.
    """
    n, m = len(source), len(target)
    require(n > 0 and m > 0, f"source and target must hold at least one word each, got {n} and {m}")
    ax = axes_of(None, min(8.0, 0.72 * (n + m) + 0.8), 3.3)
    shift = n + 0.5  # the decoder stands right of the encoder
    tilt = 30 if max(map(len, (*source, *target))) > 2 else 0
    for i, word in enumerate(source):
        labelled_box(ax, i, 0, f"$h_{{{i + 1}}}$", COLORS[0])
        centred(ax, i, -0.95, word, 9.5, rotation=tilt)
        arrow(ax, (i, -0.68), (i, -0.28))
        if i:
            arrow(ax, (i - 0.63, 0), (i - 0.37, 0))
    ha = "left" if tilt else "center"
    above = dict(va="bottom", rotation=tilt, rotation_mode="anchor", ha=ha)
    for t, word in enumerate(target):
        x, read = shift + t, "start" if t == 0 else target[t - 1]
        labelled_box(ax, x, 0, f"$s_{{{t + 1}}}$", COLORS[1])
        arrow(ax, (x, 0.28), (x, 0.62))
        centred(ax, x - 0.12 * bool(tilt), 0.68, word, 9.5, **above)
        centred(ax, x, -0.95, read, 9.5, rotation=tilt, color="#555555", style="italic")
        arrow(ax, (x, -0.68), (x, -0.28))
        if t:
            arrow(ax, (x - 0.63, 0), (x - 0.37, 0))
    arrow(ax, (n - 0.63, 0), (shift - 0.37, 0), COLORS[1], linewidth=2.4)
    if attention is None:
        text = "all that\npasses"
        centred(ax, (n - 1 + shift) / 2, 0.42, text, 8.5, va="bottom", color=COLORS[1])
    else:
        weights = as_array("attention", attention, (n,))
        check_integer("step", step, 0, m - 1)
        middle = (n - 1) / 2
        labelled_box(ax, middle, 1.75, f"$c_{{{step + 1}}}$", COLORS[2], width=0.8)
        behind = dict(facecolor="#fbfbf8", edgecolor="none", pad=0.5)
        for i, weight in enumerate(weights):
            end = (middle + (i - middle) * 0.12, 1.47)
            style = dict(linewidth=0.4 + 4.5 * weight, alpha=0.3 + 0.7 * min(1.0, float(weight)))
            arrow(ax, (i, 0.28), end, COLORS[2], **style)
            text = f"{weight:.2f}"
            centred(ax, i + 0.06, 0.5, text, 8, color="#333333", zorder=5, bbox=behind)
        bent = dict(linewidth=2.0, connectionstyle="angle,angleA=0,angleB=90,rad=6")
        arrow(ax, (middle + 0.43, 1.88), (shift + step + 0.3, 0.28), COLORS[2], **bent)
        asks = dict(linewidth=1.4, linestyle="--", connectionstyle="angle,angleA=90,angleB=0,rad=6")
        asking = shift + step - 1.3 if step else shift - 0.6  # the state before, or the start
        arrow(ax, (asking, 0.28 if step else 0.05), (middle + 0.43, 1.6), COLORS[1], **asks)
        centred(ax, (middle + 0.43 + asking) / 2, 1.4, "query", 8.5, color=COLORS[1])
    ax.set(xlim=(-0.7, shift + m - 0.3), ylim=(-1.35, 1.2 if attention is None else 2.3))
    ax.set_aspect("equal")
    ax.axis("off")
    return figure_of(ax)
