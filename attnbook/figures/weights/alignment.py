"""Attention weights: the alignment matrix, arcs between words, words shaded by weight."""

from collections.abc import Collection, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...validate import check_integer, require
from ..canvas import (
    arrow,
    as_array,
    axes_of,
    centred,
    figure_of,
    frame,
    heat,
    outline,
    plain,
    rectangle,
    shade,
)
from ..styling import COLORS

__all__ = ["alignment", "text_heat", "word_arcs"]


def alignment(
    weights: Any,
    source: Sequence[str],
    target: Sequence[str],
    *,
    gold: Sequence[Collection[int]] | None = None,
    ax: Axes | None = None,
) -> Figure:
    """Draw the alignment matrix: a row per target token, a column per source token, dark = more.

    Args:
        weights: ``(m, n)``, m target and n source tokens; more rows or columns (end, padding) are
            cut off.
        source: The source tokens. Single characters are upright, words are turned.
        target: The target tokens.
        gold: For every target token the source positions it comes from, which are framed.
        ax: Axes to draw on; by default those of a new figure.

    Source: figure 3 of Bahdanau, Cho and Bengio 2015.
    """
    matrix, m, n = as_array("weights", weights, 2), len(target), len(source)
    covers = matrix.shape[0] >= m and matrix.shape[1] >= n
    require(covers, f"weights must cover {m} target and {n} source tokens, got {matrix.shape}")
    framed = [list(positions) for positions in gold or ()]
    require(
        len(framed) <= m and set().union(*framed) <= set(range(n)),
        f"gold must hold positions among {n} source tokens for at most {m} target tokens, got "
        f"{gold!r}",
    )
    characters = max(map(len, source), default=1) == 1
    cell, above = (0.22, 0.6) if characters else (0.34, 1.3)
    ax = axes_of(ax, min(7.6, 1.8 + cell * n), min(7.6, above + cell * m))
    heat(ax, matrix[:m, :n], aspect="equal")
    angle, ha, mode = (0, "center", None) if characters else (60, "left", "anchor")
    labels = ["␣" if s == " " else plain(s) for s in source]
    ax.set_xticks(range(n), labels, rotation=angle, ha=ha, rotation_mode=mode)
    ax.set_yticks(range(m), list(map(plain, target)))
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    outline(ax)
    for row, positions in enumerate(framed):
        for column in positions:
            frame(ax, column - 0.5, row - 0.5, 1, 1, linewidth=1.5)
    return figure_of(ax)


def word_arcs(words: Sequence[str], weights: Any, query: int, ax: Axes | None = None) -> Figure:
    """Draw how a word attends to the words of its sentence: an arc to each, thicker = more weight.

    Args:
        words: The sentence.
        weights: ``(len(words),)``, the weights of the query word.
        query: Position of the query word, which is framed.
        ax: Axes to draw on.

    Source: the idea of figure 2 of Weng 2018.
    """
    row = as_array("weights", weights, (len(words),))
    check_integer("query", query, 0, len(words) - 1)
    ax = axes_of(ax, min(7.6, 1.05 * len(words) + 0.4), 2.4)
    for j, weight in enumerate(row):
        if j != query and weight >= 0.005:
            bend = f"arc3,rad={-0.45 if j > query else 0.45}"
            style = dict(linewidth=0.4 + 6 * weight, alpha=0.25 + 0.75 * weight, zorder=1)
            ends = (query, 0.16), (j, 0.16)
            arrow(ax, *ends, COLORS[0], connectionstyle=bend, shrinkA=2, shrinkB=2, **style)
        bold = "bold" if weight == row.max() else "normal"
        centred(ax, j, -0.32, f"{weight:.2f}", 9, color="#333333", weight=bold)
    box = dict(boxstyle="round,pad=0.25", fc="#ffffff", ec=COLORS[1], lw=1.6)
    for j, word in enumerate(words):
        centred(ax, j, 0, plain(word), 11, bbox=box if j == query else None)
    reach = max(query, len(words) - 1 - query)
    ax.set(xlim=(-0.6, len(words) - 0.4), ylim=(-0.5, 0.35 + 0.24 * reach))
    ax.axis("off")
    return figure_of(ax)


def text_heat(words: Sequence[str], weights: Any) -> Figure:
    """Write words in lines, each on a rectangle as dark as its weight, the number under it.

    Args:
        words: The text.
        weights: ``(len(words),)`` between 0 and 1.
    """
    row = as_array("weights", weights, (len(words),))
    require(len(row) > 0, "words must hold at least one word, got none")
    low, high = row.min(), row.max()
    fits = -1e-3 <= low <= high <= 1 + 1e-3
    require(fits, f"weights must lie between 0 and 1, got {low:g} to {high:g}")
    widths = [0.12 * len(word) + 0.28 for word in words]
    places, x, line = [], 0.0, 0
    for width in widths:
        if x + width > 7.0 and x > 0:
            x, line = 0.0, line + 1
        places.append((x, line))
        x += width
    ax = axes_of(None, 7.2, 0.62 * (line + 1) + 0.1)
    top = max(high, 1e-12)
    for word, weight, (x, line), width in zip(words, row, places, widths):
        rectangle(ax, x, -line - 0.3, width - 0.06, 0.6, color=shade(0.75 * weight / top), lw=0)
        ink = "#ffffff" if weight > 0.7 * top else "#222222"  # legible on dark rectangles too
        middle = x + width / 2 - 0.03
        centred(ax, middle, -line + 0.08, plain(word), 10, family="monospace", color=ink)
        centred(ax, middle, -line - 0.19, f"{weight:.2f}", 8, color=ink)
    ax.set(xlim=(0, 7.05), ylim=(-line - 0.5, 0.5))
    ax.axis("off")
    return figure_of(ax)
