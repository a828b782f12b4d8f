"""Figures of an addressed memory: the machine, the four stages of a head, its shift kernels."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from ...validate import require
from ..canvas import arrow, as_array, axes_of, centred, figure_of, rectangle, shade
from ..styling import COLORS
from .encoder_decoder import labelled_box

__all__ = ["addressing_flow", "memory_machine", "shift_kernels"]


def memory_machine(memory: Any, read_weights: Any, write_weights: Any) -> Figure:
    """Draw a controller with a read and a write head, and the memory: a row per slot, with arrows
    as thick as the weights of the heads.

    Args:
        memory: ``(N, M)``, any numbers; darker = larger.
        read_weights: ``(N,)``.
        write_weights: ``(N,)``.

    Source: figure 1 of Graves, Wayne and Danihelka 2014.
    """
    numbers = as_array("memory", memory, 2)
    n, width = numbers.shape
    heads = {
        "read": as_array("read_weights", read_weights, (n,)),
        "write": as_array("write_weights", write_weights, (n,)),
    }
    ax = axes_of(None, 7.4, 3.5)
    left, cell, top = 5.6, 0.32, 3.1
    height, right = top / n, left + width * cell
    low = numbers.min()
    span = max(numbers.max() - low, 1e-12)
    for i in range(n):
        y = top - (i + 1) * height
        for j in range(width):
            color = shade(0.05 + 0.75 * (numbers[i, j] - low) / span)
            style = dict(facecolor=color, edgecolor="#ffffff", linewidth=1)
            rectangle(ax, left + j * cell, y, cell, height, **style)
        centred(ax, right + 0.1, y + height / 2, f"$M({i})$", 9.5, ha="left", color="#444444")
    centred(ax, (left + right) / 2, top + 0.12, f"memory, {n} slots", 10, va="bottom")
    labelled_box(ax, 1.1, 1.55, "controller", COLORS[0], width=1.5, height=0.8)
    text = "$h_t$ tells every head\nwhere and what"
    centred(ax, 1.0, 0.72, text, 9.5, va="top", color="#444444")
    arrow(ax, (0.0, 1.35), (0.33, 1.35))
    ax.text(-0.06, 1.35, "$x_t$", ha="right", va="center")
    arrow(ax, (0.33, 1.75), (0.0, 1.75))
    ax.text(-0.06, 1.75, "$y_t$", ha="right", va="center")
    for (name, row), y, color in zip(heads.items(), (2.35, 0.75), (COLORS[2], COLORS[1])):
        labelled_box(ax, 3.3, y, f"{name} head", color, width=1.3, height=0.5)
        # an arrow between head and slot, as thick as the weight, in the direction of the data
        for i in range(n):
            start, end = (3.98, y), (left - 0.06, top - (i + 0.5) * height)
            if name == "read":
                start, end = end, start
            style = dict(linewidth=0.3 + 3.5 * row[i], alpha=0.2 + 0.8 * min(1.0, float(row[i])))
            arrow(ax, start, end, color, **style)
        sign = 0.12 if name == "read" else -0.12
        arrow(ax, (1.9, 1.55 + 2 * sign), (2.62, y - sign), color)
    arrow(ax, (2.62, 2.45), (1.1, 1.98), COLORS[2], connectionstyle="arc3,rad=0.25")
    centred(ax, 1.55, 2.5, "$r_t$, for $y_t$ and\nthe next step", 9.5, va="bottom", color=COLORS[2])
    centred(ax, 2.3, 0.7, "$e_t, a_t$", 9.5, va="top", color=COLORS[1])
    ax.set(xlim=(-0.5, right + 0.75), ylim=(-0.1, top + 0.5))
    ax.axis("off")
    return figure_of(ax)


def addressing_flow(
    stages: Mapping[str, Any], *, notes: Sequence[str] = (), values: bool = False
) -> Figure:
    """Draw weights over the slots stage by stage, from top to bottom, one row of bars each.

    Args:
        stages: Name → ``(N,)`` weights.
        notes: What leads from each stage to the next, written between the rows.
        values: Write each weight over its bar, with two digits; for few slots.

    Source: figure 2 of Graves, Wayne and Danihelka 2014; figure 12 of Weng 2018.
    """
    rows = {name: as_array(name, weights, 1) for name, weights in stages.items()}
    lengths = sorted({len(row) for row in rows.values()})
    require(len(lengths) == 1, f"stages must hold as many weights each, got {lengths}")
    gaps, came = len(rows) - 1, len(notes)
    require(came in (0, gaps), f"notes must be one fewer than the stages, {gaps}, got {came}")
    fig = plt.figure(figsize=(6.6, 0.4 + 0.98 * len(rows)), layout="constrained")
    axes = fig.subplots(len(rows), 1, sharex=True, squeeze=False)[:, 0]
    slots = range(lengths[0])
    for k, (ax, (name, row)) in enumerate(zip(axes, rows.items())):
        ax.bar(slots, row, color=COLORS[1 if k == len(rows) - 1 else 0], width=0.7)
        ax.set(ylim=(0, 1.3 if values else 1.05), yticks=(0, 1))
        if values:
            for slot, weight in zip(slots, row):
                ax.text(slot, weight + 0.04, f"{weight:.2f}", ha="center", va="bottom", fontsize=10)
        ax.set_ylabel(name, rotation=0, ha="right", va="center")
        ax.grid(axis="x", visible=False)
        if k and notes:
            ax.set_title(f"↓ {notes[k - 1]}", fontsize=10, color="#444444", loc="left", pad=3)
    axes[-1].set_xticks(slots, map(str, slots))
    axes[-1].set_xlabel("slot")
    return fig


def shift_kernels(kernels: Mapping[str, Any]) -> Figure:
    """Draw kernels over the shifts −R … R side by side, each ``(2R + 1,)``, with their numbers.

    Source: figure 11 of Weng 2018.
    """
    rows = {name: as_array(name, kernel, 1) for name, kernel in kernels.items()}
    for name, n in ((name, len(row)) for name, row in rows.items()):
        require(n % 2 == 1, f"kernel {name!r} must have an odd number of shifts, −R … R, got {n}")
    fig = plt.figure(figsize=(3.7 * len(rows), 2.7), layout="constrained")
    axes = fig.subplots(1, len(rows), sharey=True, squeeze=False)[0]
    for k, (ax, (name, row)) in enumerate(zip(axes, rows.items())):
        shifts = np.arange(len(row)) - len(row) // 2
        ax.bar(shifts, row, color=COLORS[k % len(COLORS)], width=0.55)
        for at, value, right in zip(shifts, row, (*row[1:], 0)):
            # among many narrow bars a number gives way to a higher one at its right
            crowded = len(row) > 9 and right > value
            if value > 0.004:
                ha = "right" if crowded else "center"
                ax.text(at + 0.3 * crowded, value + 0.02, f"{value:.2f}", ha=ha, fontsize=9)
        ax.set(title=name, xlabel="shift $m$", xticks=shifts, ylim=(0, 1.1))
        ax.grid(axis="x", visible=False)
    axes[0].set_ylabel("$s(m)$")
    return fig
