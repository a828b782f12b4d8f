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
    matrix = as_array("weights", weights, 2)
    require(
        matrix.shape[0] >= len(target) and matrix.shape[1] >= len(source),
        f"weights must cover {len(target)} target and {len(source)} source tokens, got "
        f"{matrix.shape}",
    )
    framed = [list(positions) for positions in gold or ()]
    require(
        len(framed) <= len(target) and set().union(*framed) <= set(range(len(source))),
        f"gold must hold positions among {len(source)} source tokens for at most {len(target)} "
        f"target tokens, got {gold!r}",
    )
    matrix = matrix[: len(target), : len(source)]
    characters = max(map(len, source), default=1) == 1
    cell, above = (0.22, 0.6) if characters else (0.34, 1.3)
    ax = axes_of(ax, min(7.6, 1.8 + cell * len(source)), min(7.6, above + cell * len(target)))
    heat(ax, matrix, aspect="equal")
    turned: dict[str, Any] = dict(rotation=60, ha="left", rotation_mode="anchor")
    upright: dict[str, Any] = dict(rotation=0, ha="center", rotation_mode=None)
    labels = ["␣" if s == " " else plain(s) for s in source]
    ax.set_xticks(range(len(source)), labels, **(upright if characters else turned))
    ax.set_yticks(range(len(target)), list(map(plain, target)))
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
            bend = -0.45 if j > query else 0.45
            arrow(
                ax,
                (query, 0.16),
                (j, 0.16),
                COLORS[0],
                connectionstyle=f"arc3,rad={bend}",
                linewidth=0.4 + 6 * weight,
                alpha=0.25 + 0.75 * weight,
                shrinkA=2,
                shrinkB=2,
                zorder=1,
            )
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
    require(
        row.min() >= -1e-3 and row.max() <= 1 + 1e-3,
        f"weights must lie between 0 and 1, got {row.min():g} to {row.max():g}",
    )
    widths = [0.12 * len(word) + 0.28 for word in words]
    places, x, line = [], 0.0, 0
    for width in widths:
        if x + width > 7.0 and x > 0:
            x, line = 0.0, line + 1
        places.append((x, line))
        x += width
    ax = axes_of(None, 7.2, 0.62 * (line + 1) + 0.1)
    top = max(row.max(), 1e-12)
    for word, weight, (x, line), width in zip(words, row, places, widths):
        rectangle(ax, x, -line - 0.3, width - 0.06, 0.6, color=shade(0.75 * weight / top), lw=0)
        ink = "#ffffff" if weight > 0.7 * top else "#222222"  # legible on dark rectangles too
        middle = x + width / 2 - 0.03
        centred(ax, middle, -line + 0.08, plain(word), 10, family="monospace", color=ink)
        centred(ax, middle, -line - 0.19, f"{weight:.2f}", 8, color=ink)
    ax.set(xlim=(0, 7.05), ylim=(-line - 0.5, 0.5))
    ax.axis("off")
    return figure_of(ax)
