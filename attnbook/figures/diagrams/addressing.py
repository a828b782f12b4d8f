"""Figures of a memory that is addressed: the machine, the four stages of a head, the kernels of
its shift.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ..style import CMAP, COLORS
from ..weights.alignment import as_array
from .encoder_decoder import _arrow, _box

__all__ = ["addressing_flow", "memory_machine", "shift_kernels"]


def memory_machine(memory, read_weights, write_weights) -> Figure:
    """Draw a controller with a read and a write head, and the memory: a row a slot, each head's
    weights as bars beside it.

    Args:
        memory: ``(N, M)``, any numbers; darker = larger.
        read_weights, write_weights: ``(N,)``.

    Source: figure 1 of Graves, Wayne and Danihelka 2014.
    """
    numbers = as_array("memory", memory, 2)
    n, width = numbers.shape
    heads = {
        "read": as_array("read_weights", read_weights, 1),
        "write": as_array("write_weights", write_weights, 1),
    }
    for name, row in heads.items():
        if len(row) != n:
            raise ValueError(
                f"{name}_weights must hold {n} numbers, one a slot of memory, got {len(row)}"
            )
    _, ax = plt.subplots(figsize=(7.4, 3.5), layout="constrained")
    left, cell, top = 5.6, 0.32, 3.1
    height = top / n
    shade, low = plt.get_cmap(CMAP), numbers.min()
    span = max(numbers.max() - low, 1e-12)
    for i in range(n):
        y = top - (i + 1) * height
        for j in range(width):
            ax.add_patch(
                Rectangle(
                    (left + j * cell, y),
                    cell,
                    height,
                    facecolor=shade(0.05 + 0.75 * (numbers[i, j] - low) / span),
                    edgecolor="#ffffff",
                    linewidth=1,
                )
            )
        ax.text(
            left + width * cell + 0.1,
            y + height / 2,
            f"$M({i})$",
            va="center",
            fontsize=8.5,
            color="#444444",
        )
    ax.text(
        left + width * cell / 2,
        top + 0.12,
        f"memory, {n} slots",
        ha="center",
        va="bottom",
        fontsize=10,
    )
    _box(ax, 1.1, 1.55, "controller", COLORS[0], width=1.5, height=0.8)
    ax.text(
        1.1,
        0.62,
        "$h_t$ says to every head\nwhere and what",
        ha="center",
        va="top",
        fontsize=8,
        color="#444444",
    )
    _arrow(ax, (0.0, 1.35), (0.33, 1.35))
    ax.text(-0.06, 1.35, "$x_t$", ha="right", va="center")
    _arrow(ax, (0.33, 1.75), (0.0, 1.75))
    ax.text(-0.06, 1.75, "$y_t$", ha="right", va="center")
    for (name, row), y, color in zip(heads.items(), (2.35, 0.75), (COLORS[2], COLORS[1])):
        _box(ax, 3.3, y, f"{name} head", color, width=1.3, height=0.5)
        # a line between head and slot, as thick as the weight; it points where numbers go
        for i in range(n):
            ends = [(3.98, y), (left - 0.06, top - (i + 0.5) * height)]
            _arrow(
                ax,
                *(ends[::-1] if name == "read" else ends),
                color=color,
                linewidth=0.3 + 3.5 * row[i],
                alpha=0.2 + 0.8 * min(1.0, float(row[i])),
            )
        sign = 0.12 if name == "read" else -0.12
        _arrow(ax, (1.9, 1.55 + 2 * sign), (2.62, y - sign), color=color)
    _arrow(ax, (2.62, 2.45), (1.1, 1.98), color=COLORS[2], connectionstyle="arc3,rad=0.25")
    ax.text(
        1.55,
        2.5,
        "$r_t$, for the\nnext step",
        ha="center",
        va="bottom",
        fontsize=8.5,
        color=COLORS[2],
    )
    ax.text(2.25, 0.66, "$e_t, a_t$", ha="center", va="top", fontsize=8.5, color=COLORS[1])
    ax.set(xlim=(-0.5, left + width * cell + 0.75), ylim=(-0.1, top + 0.5))
    ax.axis("off")
    return ax.figure


def addressing_flow(
    stages: Mapping[str, object], *, notes: Sequence[str] = (), slots: Sequence[str] = ()
) -> Figure:
    """Draw weights over the slots stage by stage, from top to bottom, one row of bars each.

    Args:
        stages: name → ``(N,)`` weights.
        notes: what leads from each stage to the next, written between the rows; one fewer than
            there are stages.
        slots: names of the slots, under the last row.

    Source: figure 2 of Graves, Wayne and Danihelka 2014; figure 12 of Weng 2018.
    """
    rows = {name: as_array(name, weights, 1) for name, weights in stages.items()}
    lengths = {len(row) for row in rows.values()}
    if len(lengths) != 1:
        raise ValueError(f"stages must hold as many weights each, got {sorted(lengths)}")
    if notes and len(notes) != len(rows) - 1:
        raise ValueError(
            f"notes must be one fewer than the stages, {len(rows) - 1}, got {len(notes)}"
        )
    (n,) = lengths
    fig, axes = plt.subplots(
        len(rows),
        1,
        figsize=(6.6, 0.4 + 0.98 * len(rows)),
        sharex=True,
        layout="constrained",
        squeeze=False,
    )
    for k, (ax, (name, row)) in enumerate(zip(axes[:, 0], rows.items())):
        ax.bar(range(n), row, color=COLORS[1 if k == len(rows) - 1 else 0], width=0.7)
        ax.set(ylim=(0, 1.05), yticks=(0, 1))
        ax.set_ylabel(name, rotation=0, ha="right", va="center")
        ax.grid(axis="x", visible=False)
        if k and notes:
            ax.set_title(f"↓ {notes[k - 1]}", fontsize=9, color="#444444", loc="left", pad=3)
    axes[-1, 0].set_xticks(range(n), slots if len(slots) else [str(i) for i in range(n)])
    axes[-1, 0].set_xlabel("slot")
    return fig


def shift_kernels(kernels: Mapping[str, object]) -> Figure:
    """Draw kernels over the shifts −R … R side by side, each ``(2R + 1,)``, with their numbers.

    Source: figure 11 of Weng 2018.
    """
    rows = {name: as_array(name, kernel, 1) for name, kernel in kernels.items()}
    for name, row in rows.items():
        if len(row) % 2 == 0:
            raise ValueError(
                f"kernel {name!r} must have an odd number of shifts, −R … R, got {len(row)}"
            )
    fig, axes = plt.subplots(
        1,
        len(rows),
        figsize=(3.7 * len(rows), 2.7),
        sharey=True,
        layout="constrained",
        squeeze=False,
    )
    for k, (ax, (name, row)) in enumerate(zip(axes[0], rows.items())):
        shifts = np.arange(len(row)) - len(row) // 2
        ax.bar(shifts, row, color=COLORS[k % len(COLORS)], width=0.55)
        for at, value, right in zip(shifts, row, (*row[1:], 0)):
            # among many narrow bars a number gives way to a higher one at its right
            if value > 0.004:
                crowded = len(row) > 9 and right > value
                ax.text(
                    at + 0.3 * crowded,
                    value + 0.02,
                    f"{value:.2f}",
                    ha="right" if crowded else "center",
                    fontsize=9,
                )
        ax.set(title=name, xlabel="shift $k$", xticks=shifts, ylim=(0, 1.1))
        ax.grid(axis="x", visible=False)
    axes[0, 0].set_ylabel("$s(k)$")
    return fig
