"""A network over a sequence, layer by layer: which positions each layer reads, and how its
vectors grow.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ..style import COLORS
from ..weights.alignment import as_array

__all__ = ["layers_back", "reached"]

_KINDS = {"convolution": COLORS[0], "attention": COLORS[1]}
_REST, _INK = "#cfcfca", "#333333"


def reached(reads: Sequence, target: int = -1) -> list[np.ndarray]:
    """Which positions of each level, inputs first, one position of the last level depends on.

    ``at_L = {target}``, ``at_{l−1} = {j : some t of at_l reads j}``

    Args:
        reads: for each layer, the first one first, ``(T, T)``: entry (t, j) says whether position t
            reads position j.
        target: position of the last level, from 0, or from −1 backwards.

    Returns:
        L + 1 boolean arrays ``(T,)``.

    Raises:
        ValueError: for no layers, matrices that are not square or not of one size, or a target that
            is no position.
    """
    if not len(reads):
        raise ValueError("reads must hold at least one layer, got none")
    matrices = [as_array(f"reads[{k}]", layer, 2) > 0 for k, layer in enumerate(reads)]
    size = len(matrices[0])
    if any(m.shape != (size, size) for m in matrices):
        raise ValueError(
            f"reads must hold square matrices of one size, got {[m.shape for m in matrices]}"
        )
    if not -size <= target < size:
        raise ValueError(f"target must be one of the {size} positions, got {target!r}")
    levels = [np.arange(size) == target % size]
    for matrix in reversed(matrices):
        levels.insert(0, matrix[levels[0]].any(0))
    return levels


def layers_back(
    reads: Sequence,
    names: Sequence[str],
    kinds: Sequence[str],
    *,
    widths: Sequence[int] | None = None,
    inputs: Sequence[str] | None = None,
    target: int = -1,
    ax=None,
) -> Figure:
    """Draw positions from left to right and layers from bottom to top, with a line from each
    position to those that it reads.

    Coloured is what the target position of the last layer depends on. Give ``widths`` to draw,
    right of each level, its vector as a bar with one field for each layer that has added to it.

    Args:
        reads: for each layer ``(T, T)``, see :func:`reached`.
        names: one a layer.
        kinds: "convolution" or "attention", one a layer; they differ in colour.
        widths: L + 1 numbers, that of the inputs first.
        inputs: T short texts under the inputs; 1 … T when not given.
        target: position of the last layer.

    Raises:
        ValueError: for another kind, or lengths that do not fit.

    Source: figure 18 of Weng 2018, after figure 2 of Mishra et al. 2018.
    """
    levels, size = reached(reads, target), len(np.asarray(reads[0]))
    if not len(names) == len(kinds) == len(reads) or (
        widths is not None and len(widths) != len(levels)
    ):
        raise ValueError(
            f"names and kinds must have {len(reads)} entries and widths {len(levels)}, got "
            f"{len(names)}, {len(kinds)} and "
            f"{None if widths is None else len(widths)}"
        )
    if unknown := sorted(set(kinds) - set(_KINDS)):
        raise ValueError(f"kinds must be convolution or attention, got {', '.join(unknown)}")
    under = [str(t + 1) for t in range(size)] if inputs is None else list(inputs)
    if len(under) != size:
        raise ValueError(f"inputs must hold {size} texts, got {len(under)}")
    right = 0.0 if widths is None else 4.2
    room = 0.16 * max(map(len, names)) + 0.5
    if ax is None:
        _, ax = plt.subplots(
            figsize=(min(8.4, 0.46 * (size + right + room) + 0.6), 0.56 * len(levels) + 0.7),
            layout="constrained",
        )
    for level, (layer, kind) in enumerate(zip(reads, kinds), start=1):
        matrix = np.asarray(as_array("reads", layer, 2)) > 0
        for t, j in zip(*matrix.nonzero()):
            used = levels[level][t]
            ax.plot(
                (j, t),
                (level - 1, level),
                color=_KINDS[kind] if used else _REST,
                linewidth=1.5 if used else 0.5,
                linestyle="-",
                zorder=2 if used else 1,
                solid_capstyle="round",
            )
        ax.text(
            size - 0.3,
            level - 0.5,
            names[level - 1],
            va="center",
            ha="left",
            fontsize=9,
            color=_KINDS[kind],
        )
    for level, on in enumerate(levels):
        for t in range(size):
            ax.plot(
                t,
                level,
                marker="o",
                markersize=7,
                color=_INK if on[t] else "#ffffff",
                markeredgecolor=_INK if on[t] else "#aaaaaa",
                zorder=3,
                linestyle="none",
            )
    for t, text in enumerate(under):
        ax.text(t, -0.35, text, ha="center", va="top", fontsize=9.5, color=_INK)
    if widths is not None:
        left, scale = size + room - 0.2, right / widths[-1]
        for level, width in enumerate(widths):
            edge = left
            for k in range(level + 1):
                part = (widths[k] - (widths[k - 1] if k else 0)) * scale
                ax.add_patch(
                    Rectangle(
                        (edge, level - 0.17),
                        part,
                        0.34,
                        facecolor="#8d8d88" if k == 0 else _KINDS[kinds[k - 1]],
                        edgecolor="#ffffff",
                        linewidth=0.8,
                        zorder=3,
                    )
                )
                edge += part
            ax.text(
                edge + 0.12, level, str(width), va="center", ha="left", fontsize=8.5, color=_INK
            )
        right += room + 0.9
    ax.set(xlim=(-0.6, size - 0.4 + max(right, room)), ylim=(-0.95, len(levels) - 0.6))
    ax.axis("off")
    return ax.figure
