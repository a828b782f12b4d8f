"""A legend under a figure: what its frames, fields, dots and lines mean, where no caption is
shown.
"""

from __future__ import annotations

from collections.abc import Mapping

from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

__all__ = ["legend"]

_MARKS = {
    "frame": lambda color: Patch(facecolor="none", edgecolor=color, linewidth=1.8),
    "field": lambda color: Patch(facecolor=color, edgecolor="#888888", linewidth=0.6),
    "dot": lambda color: Line2D([], [], color=color, marker="o", markersize=5, linestyle="none"),
    "circle": lambda color: Line2D(
        [], [], color=color, marker="o", markersize=7, markerfacecolor="none", linestyle="none"
    ),
    "number": lambda color: Line2D(
        [], [], color=color, linestyle="none", marker=r"$0.5$", markersize=15, markeredgewidth=0.2
    ),
    "line": lambda color: Line2D([], [], color=color, linestyle="-"),
    "dashed": lambda color: Line2D([], [], color=color, linestyle="--"),
    "hatched": lambda color: Patch(facecolor="none", edgecolor=color, hatch="///", linewidth=1.3),
    "dotted": lambda color: Line2D([], [], color=color, linestyle=":"),
    "arrow": lambda color: Line2D(
        [], [], color=color, linestyle="-", linewidth=1.4, marker=">", markersize=6, markevery=[-1]
    ),
    "word": lambda color: Line2D(
        [],
        [],
        color=color,
        linestyle="none",
        marker=r"$\mathbf{word}$",
        markersize=26,
        markeredgewidth=0.2,
    ),
}


def legend(figure: Figure, entries: Mapping[str, tuple[str, str]], *, columns: int = 2) -> Legend:
    """Put a legend below a figure. JupyterLab and Colab show no captions, so the marks have to
    explain themselves.

    Args:
        figure: one with constrained layout, which makes room.
        entries: what a mark means -> (kind, colour), with kind one of "frame", "field", "hatched",
            "dot", "circle", "line", "dashed", "dotted", "arrow", "number", "word".
        columns: entries side by side.

    Raises:
        ValueError: for another kind, or where there is nothing to explain.
    """
    unknown = sorted({kind for kind, _ in entries.values()} - set(_MARKS))
    if not entries or unknown:
        raise ValueError(
            f"entries must have marks of the kinds {sorted(_MARKS)}, got {unknown or 'none'}"
        )
    wide = any(kind == "word" for kind, _ in entries.values())
    marks = [_MARKS[kind](color) for kind, color in entries.values()]
    return figure.legend(
        marks,
        list(entries),
        loc="outside lower center",
        ncols=min(columns, len(entries)),
        fontsize=9.5,
        handlelength=2.8 if wide else 1.8,
        columnspacing=1.4,
        frameon=False,
    )
