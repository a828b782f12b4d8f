"""Diagrams: the encoder-decoder unrolled in time, without and with attention."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch

from ..style import COLORS
from ..weights.alignment import as_array

__all__ = ["encoder_decoder"]


def _box(ax, x, y, text, color, width=0.72, height=0.5):
    ax.add_patch(
        FancyBboxPatch(
            (x - width / 2, y - height / 2),
            width,
            height,
            boxstyle="round,pad=0.02",
            facecolor="#ffffff",
            edgecolor=color,
            linewidth=1.5,
            zorder=3,
        )
    )
    ax.text(x, y, text, ha="center", va="center", fontsize=10, zorder=4)


def _arrow(ax, start, end, color="#555555", **options):
    ax.add_patch(
        FancyArrowPatch(
            start,
            end,
            arrowstyle="-|>",
            mutation_scale=9,
            shrinkA=0,
            shrinkB=0,
            **{"color": color, "linewidth": 1.1, "zorder": 2, **options},
        )
    )


def encoder_decoder(
    source: Sequence[str],
    target: Sequence[str],
    *,
    attention=None,
    step: int | None = None,
    ax=None,
) -> Figure:
    """Draw an encoder-decoder unrolled in time: a box a state, words under and over them.

    Args:
        source, target: the words; the decoder reads the target one step late.
        attention: ``(len(source),)``, the weights with which decoder step ``step`` looks at the
            encoder states; without it the only way from encoder to decoder is the last state.
        step: which decoder step looks, counted from 0; the first when not given.

    Source: figures 3 and 4 of Weng 2018.
    """
    n, m = len(source), len(target)
    if not n or not m:
        raise ValueError(f"source and target must hold at least one word each, got {n} and {m}")
    ax = (
        ax
        if ax is not None
        else plt.subplots(figsize=(min(8.0, 0.72 * (n + m) + 0.8), 3.3), layout="constrained")[1]
    )
    shift = n + 0.5  # the decoder stands right of the encoder
    for i, word in enumerate(source):
        _box(ax, i, 0, f"$h_{{{i + 1}}}$", COLORS[0])
        ax.text(i, -0.95, word, ha="center", va="center", fontsize=9.5, rotation=30)
        _arrow(ax, (i, -0.68), (i, -0.28))
        if i:
            _arrow(ax, (i - 0.63, 0), (i - 0.37, 0))
    for t, word in enumerate(target):
        x = shift + t
        _box(ax, x, 0, f"$s_{{{t + 1}}}$", COLORS[1])
        _arrow(ax, (x, 0.28), (x, 0.62))
        ax.text(
            x - 0.12,
            0.68,
            word,
            ha="left",
            va="bottom",
            fontsize=9.5,
            rotation=30,
            rotation_mode="anchor",
        )
        ax.text(
            x,
            -0.95,
            "start" if t == 0 else target[t - 1],
            ha="center",
            va="center",
            fontsize=9.5,
            rotation=30,
            color="#555555",
            style="italic",
        )
        _arrow(ax, (x, -0.68), (x, -0.28))
        if t:
            _arrow(ax, (x - 0.63, 0), (x - 0.37, 0))
    _arrow(ax, (n - 0.63, 0), (shift - 0.37, 0), color=COLORS[1], linewidth=2.4)
    top = 1.2
    if attention is not None:
        weights = as_array("attention", attention, 1)
        looking = 0 if step is None else step
        if len(weights) != n or not 0 <= looking < m:
            raise ValueError(
                f"attention must hold {n} weights and step lie in 0..{m - 1}, got "
                f"{len(weights)}, {looking}"
            )
        top = 2.3
        middle = (n - 1) / 2
        _box(ax, middle, 1.75, f"$c_{{{looking + 1}}}$", COLORS[2], width=0.8)
        for i, weight in enumerate(weights):
            _arrow(
                ax,
                (i, 0.28),
                (middle + (i - middle) * 0.12, 1.47),
                color=COLORS[2],
                linewidth=0.4 + 4.5 * weight,
                alpha=0.3 + 0.7 * min(1.0, float(weight)),
            )
            ax.text(
                i + 0.06,
                0.5,
                f"{weight:.2f}",
                fontsize=8,
                color="#333333",
                ha="center",
                va="center",
                zorder=5,
                bbox=dict(facecolor="#fbfbf8", edgecolor="none", pad=0.5),
            )
        _arrow(
            ax,
            (middle + 0.43, 1.75),
            (shift + looking - 0.26, 0.28),
            color=COLORS[2],
            linewidth=2.0,
            connectionstyle="angle,angleA=0,angleB=90,rad=6",
        )
    else:
        ax.text(
            (n - 1 + shift) / 2,
            0.42,
            "all that\npasses",
            ha="center",
            va="bottom",
            fontsize=8.5,
            color=COLORS[1],
        )
    ax.set(xlim=(-0.7, shift + m - 0.3), ylim=(-1.35, top))
    ax.set_aspect("equal")
    ax.axis("off")
    return ax.figure
