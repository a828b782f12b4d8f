"""Figures of attention weights: the alignment matrix, arcs between words, words shaded by
weight.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle

from ..style import CMAP, COLORS

__all__ = ["alignment", "as_array", "plain", "text_heat", "word_arcs"]


def as_array(name: str, values, dimensions: int) -> np.ndarray:
    """``values`` (a tensor, an array or a nested list) as float64 of so many dimensions, or a
    ``ValueError``.
    """
    if hasattr(values, "detach"):
        values = values.detach().cpu().double().numpy()
    array = np.asarray(values, dtype=float)
    if array.ndim != dimensions:
        raise ValueError(f"{name} must have {dimensions} dimension(s), got shape {array.shape}")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} must be finite, got NaN or infinity")
    return array


def plain(text: object) -> str:
    """A token as Matplotlib draws it as it is: a dollar begins no formula."""
    return str(text).replace("$", r"\$")


def _axes(ax, width: float, height: float):
    return ax if ax is not None else plt.subplots(figsize=(width, height), layout="constrained")[1]


def alignment(
    weights,
    source: Sequence[str],
    target: Sequence[str],
    *,
    gold: Sequence[Collection[int]] | None = None,
    ax=None,
) -> Figure:
    """Draw the alignment matrix: one row a target token, one column a source token, darker = more
    weight.

    Args:
        weights: ``(m, n)``, m target and n source tokens; more rows or columns (end, padding) are
            cut off.
        source, target: the tokens. Single characters stand upright, words are turned.
        gold: for every target token the source positions it comes from; framed in the picture.
        ax: axes to draw on; a new figure when not given.

    Raises:
        ValueError: if there are fewer weights than tokens.

    Source: figure 3 of Bahdanau, Cho and Bengio 2015.
    """
    matrix = as_array("weights", weights, 2)
    if matrix.shape[0] < len(target) or matrix.shape[1] < len(source):
        raise ValueError(
            f"weights must cover {len(target)} target and {len(source)} source tokens, got "
            f"{matrix.shape}"
        )
    matrix = matrix[: len(target), : len(source)]
    characters = max(map(len, source), default=1) == 1
    cell = 0.22 if characters else 0.34
    ax = _axes(
        ax,
        min(7.6, 1.8 + cell * len(source)),
        min(7.6, (0.6 if characters else 1.3) + cell * len(target)),
    )
    ax.imshow(matrix, cmap=CMAP, vmin=0, vmax=1, aspect="equal")
    ax.set_xticks(
        range(len(source)),
        ["␣" if s == " " else plain(s) for s in source],
        rotation=0 if characters else 60,
        ha="center" if characters else "left",
        rotation_mode=None if characters else "anchor",
    )
    ax.set_yticks(range(len(target)), list(map(plain, target)))
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    ax.grid(False)
    for side in ("left", "bottom", "top", "right"):
        ax.spines[side].set_visible(True)
        ax.spines[side].set_color("#bbbbbb")
    for row, positions in enumerate(gold or ()):
        for column in positions:
            ax.add_patch(
                Rectangle(
                    (column - 0.5, row - 0.5), 1, 1, fill=False, edgecolor=COLORS[1], linewidth=1.5
                )
            )
    return ax.figure


def word_arcs(words: Sequence[str], weights, query: int, ax=None) -> Figure:
    """Draw how one word attends to the words of its sentence: an arc to each, thicker = more
    weight.

    Args:
        words: the sentence.
        weights: ``(len(words),)``, the weights of the query word.
        query: position of the word that looks; it is boxed.
        ax: axes to draw on.

    Source: the idea of figure 2 of Weng 2018.
    """
    row = as_array("weights", weights, 1)
    if len(row) != len(words) or not 0 <= query < len(words):
        raise ValueError(
            f"weights must hold one number a word ({len(words)}) and query name one, got "
            f"{len(row)}, {query}"
        )
    ax = _axes(ax, min(7.6, 1.05 * len(words) + 0.4), 2.4)
    for j, weight in enumerate(row):
        if j != query and weight >= 0.005:
            ax.add_patch(
                FancyArrowPatch(
                    (query, 0.16),
                    (j, 0.16),
                    arrowstyle="-|>",
                    mutation_scale=9,
                    connectionstyle=f"arc3,rad={-0.45 if j > query else 0.45}",
                    linewidth=0.4 + 6 * weight,
                    color=COLORS[0],
                    alpha=0.25 + 0.75 * weight,
                )
            )
        ax.text(
            j,
            -0.32,
            f"{weight:.2f}",
            ha="center",
            va="center",
            fontsize=9,
            color="#333333",
            weight="bold" if weight == row.max() else "normal",
        )
    for j, word in enumerate(words):
        box = (
            dict(boxstyle="round,pad=0.25", fc="#ffffff", ec=COLORS[1], lw=1.6)
            if j == query
            else None
        )
        ax.text(j, 0, plain(word), ha="center", va="center", fontsize=11, bbox=box)
    reach = max(query, len(words) - 1 - query)
    ax.set(xlim=(-0.6, len(words) - 0.4), ylim=(-0.5, 0.35 + 0.24 * reach))
    ax.axis("off")
    return ax.figure


def text_heat(words: Sequence[str], weights, ax=None) -> Figure:
    """Write the words in lines, each on a field as dark as its weight, the number under it.

    Args:
        words: the text.
        weights: ``(len(words),)`` between 0 and 1.

    Raises:
        ValueError: for no words, another number of weights, or weights out of range.
    """
    row = as_array("weights", weights, 1)
    if len(row) != len(words) or not len(words):
        raise ValueError(
            f"weights must hold one number a word ({len(words)}, at least one), got {len(row)}"
        )
    if row.min() < -1e-3 or row.max() > 1 + 1e-3:
        raise ValueError(f"weights must lie between 0 and 1, got {row.min():g} to {row.max():g}")
    widths = [0.12 * len(word) + 0.28 for word in words]
    places, x, line = [], 0.0, 0
    for width in widths:
        if x + width > 7.0 and x > 0:
            x, line = 0.0, line + 1
        places.append((x, line))
        x += width
    ax = _axes(ax, 7.2, 0.62 * (line + 1) + 0.1)
    top = max(row.max(), 1e-12)
    for word, weight, (x, line), width in zip(words, row, places, widths):
        ax.add_patch(
            Rectangle(
                (x, -line - 0.3),
                width - 0.06,
                0.6,
                color=plt.get_cmap(CMAP)(0.75 * weight / top),
                lw=0,
            )
        )
        ink = "#ffffff" if weight > 0.7 * top else "#222222"  # readable on the dark fields too
        ax.text(
            x + width / 2 - 0.03,
            -line + 0.08,
            plain(word),
            ha="center",
            va="center",
            fontsize=10,
            family="monospace",
            color=ink,
        )
        ax.text(
            x + width / 2 - 0.03,
            -line - 0.19,
            f"{weight:.2f}",
            ha="center",
            va="center",
            fontsize=8,
            color=ink,
        )
    ax.set(xlim=(0, 7.05), ylim=(-line - 0.5, 0.5))
    ax.axis("off")
    return ax.figure
