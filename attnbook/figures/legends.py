"""A legend under a figure that explains its marks, since captions are not shown everywhere."""

from collections.abc import Callable, Mapping
from typing import Any

from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from ..validate import require

__all__ = ["legend"]


def _line(**style: Any) -> Callable[[str], Line2D]:
    return lambda color: Line2D([], [], color=color, **{"linestyle": "none", **style})


def _patch(**style: Any) -> Callable[[str], Patch]:
    return lambda color: Patch(facecolor="none", edgecolor=color, **style)


_MARKS: dict[str, Callable[[str], Artist]] = {
    "frame": _patch(linewidth=1.8),
    "field": lambda color: Patch(facecolor=color, edgecolor="#888888", linewidth=0.6),
    "hatched": _patch(hatch="///", linewidth=1.3),
    "dot": _line(marker="o", markersize=5),
    "cross": _line(marker="x", markersize=7, markeredgewidth=2),
    "circle": _line(marker="o", markersize=7, markerfacecolor="none"),
    "number": _line(marker=r"$0.5$", markersize=15, markeredgewidth=0.2),
    "word": _line(marker=r"$\mathbf{word}$", markersize=26, markeredgewidth=0.2),
    "line": _line(linestyle="-"),
    "dashed": _line(linestyle="--"),
    "dotted": _line(linestyle=":"),
    "arrow": _line(linestyle="-", linewidth=1.4, marker=">", markersize=6, markevery=[-1]),
}


def legend(figure: Figure, entries: Mapping[str, tuple[str, str]], *, columns: int = 2) -> Legend:
    """Put a legend below a figure. JupyterLab and Colab show no captions.

    Args:
        figure: One with constrained layout, which makes room.
        entries: Meaning of a mark → (kind, colour), with kind one of "frame", "field", "hatched",
            "dot", "cross", "circle", "line", "dashed", "dotted", "arrow", "number", "word".
        columns: Entries side by side.
    """
    unknown = sorted({kind for kind, _ in entries.values()} - set(_MARKS))
    require(
        bool(entries) and not unknown,
        f"entries must have marks of the kinds {sorted(_MARKS)}, got {unknown or 'none'}",
    )
    wide = any(kind == "word" for kind, _ in entries.values())
    marks = [_MARKS[kind](color) for kind, color in entries.values()]
    style: dict[str, Any] = dict(loc="outside lower center", ncols=min(columns, len(entries)))
    style |= dict(fontsize=9.5, columnspacing=1.4, frameon=False, handlelength=2.8 if wide else 1.8)
    return figure.legend(marks, list(entries), **style)
