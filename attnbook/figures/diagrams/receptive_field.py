"""A network over a sequence: which positions each layer reads, and how its vectors grow."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from ...validate import check_choice, require
from ..canvas import as_array, axes_of, centred, figure_of, line, rectangle
from ..styling import COLORS

__all__ = ["layers_back", "reached"]

_KINDS = {"convolution": COLORS[0], "attention": COLORS[1]}
_REST, _INK = "#cfcfca", "#333333"


def reached(reads: Sequence) -> list[np.ndarray]:
    """Which positions of each level, inputs first, the last position of the last level depends on.

    ``at_L = {T − 1}``, ``at_{l−1} = {j : some t of at_l reads j}``

    Args:
        reads: For each layer, the first one first, ``(T, T)``: entry (t, j) says whether position t
            reads position j.

    Returns:
        L + 1 boolean arrays ``(T,)``.
    """
    require(len(reads) > 0, "reads must hold at least one layer, got none")
    matrices = [as_array(f"reads[{k}]", layer, 2) > 0 for k, layer in enumerate(reads)]
    size, shapes = len(matrices[0]), [m.shape for m in matrices]
    square = set(shapes) == {(size, size)}
    require(square, f"reads must hold square matrices of one size, got {shapes}")
    levels = [np.arange(size) == size - 1]
    for matrix in reversed(matrices):
        levels.insert(0, matrix[levels[0]].any(0))
    return levels


def layers_back(
    reads, names: Sequence[str], kinds: Sequence[str], *, widths: Sequence[int] | None = None
) -> Figure:
    """Draw positions over layers, with a line from each position to those that it reads.

    Coloured is what the last position of the last layer depends on. With ``widths`` the vector of
    each level is drawn at its right, as a bar with one field for each layer that has added to it.

    Args:
        reads: For each layer ``(T, T)``, see :func:`reached`.
        names: One for each layer.
        kinds: "convolution" or "attention" for each layer, which differ in colour.
        widths: L + 1 numbers, that of the inputs first.

    Source: figure 18 of Weng 2018, after figure 2 of Mishra et al. 2018.
    """
    levels, size = reached(reads), len(reads[0])
    counts = [len(names), len(kinds), None if widths is None else len(widths)]
    require(
        counts[:2] == [len(reads)] * 2 and counts[2] in (None, len(levels)),
        f"names, kinds and widths must have {len(reads)}, {len(reads)} and {len(levels)} entries, "
        f"got {counts}",
    )
    colors = [_KINDS[check_choice("kinds", kind, _KINDS)] for kind in kinds]
    bars = 0.0 if widths is None else 4.2
    room = 0.16 * max(map(len, names)) + 0.5
    ax = axes_of(None, min(8.4, 0.46 * (size + bars + room) + 0.6), 0.56 * len(levels) + 0.7)
    for level, (layer, name, color) in enumerate(zip(reads, names, colors), start=1):
        for t, j in zip(*(as_array("reads", layer, 2) > 0).nonzero()):
            used = bool(levels[level][t])
            style = dict(zorder=2 if used else 1, solid_capstyle="round")
            ends = (j, t), (level - 1, level)
            line(ax, ends, color if used else _REST, 1.5 if used else 0.5, **style)
        centred(ax, size - 0.3, level - 0.5, name, 9, ha="left", color=color)
    for level, on in enumerate(levels):
        for t in range(size):
            face, edge = (_INK, _INK) if on[t] else ("#ffffff", "#aaaaaa")
            ax.plot(t, level, "o", color=face, markeredgecolor=edge, markersize=7, zorder=3)
    for t in range(size):
        centred(ax, t, -0.35, t + 1, 9.5, va="top", color=_INK)
    if widths is not None:
        scale = bars / widths[-1]
        for level, width in enumerate(widths):
            edge = size + room - 0.2
            for k in range(level + 1):
                part = (widths[k] - (widths[k - 1] if k else 0)) * scale
                face = "#8d8d88" if k == 0 else colors[k - 1]
                style = dict(facecolor=face, edgecolor="#ffffff", linewidth=0.8, zorder=3)
                rectangle(ax, edge, level - 0.17, part, 0.34, **style)
                edge += part
            centred(ax, edge + 0.12, level, width, 8.5, ha="left", color=_INK)
        bars += room + 0.9
    ax.set(xlim=(-0.6, size - 0.4 + max(bars, room)), ylim=(-0.95, len(levels) - 0.6))
    ax.axis("off")
    return figure_of(ax)
