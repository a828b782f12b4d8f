"""Axes, and the marks that several figures draw."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import FancyArrowPatch, Rectangle

from ..validate import require
from .styling import CMAP, COLORS

__all__ = [
    "arrow",
    "as_array",
    "axes_of",
    "centred",
    "figure_of",
    "frame",
    "heat",
    "line",
    "numbers",
    "plain",
    "rectangle",
    "shade",
]


def as_array(name: str, values: Any, dimensions: int) -> np.ndarray:
    """``values`` (a tensor, an array or a nested list) as float64 of so many dimensions, or a
    ``ValueError``.
    """
    array = numbers(values)
    require(
        array.ndim == dimensions,
        f"{name} must have {dimensions} dimension(s), got shape {array.shape}",
    )
    require(bool(np.isfinite(array).all()), f"{name} must be finite, got NaN or infinity")
    return array


def numbers(values: Any) -> np.ndarray:
    """A tensor, an array or a nested list as float64."""
    if hasattr(values, "detach"):
        values = values.detach().cpu().double().numpy()
    return np.asarray(values, dtype=float)


def plain(text: object) -> str:
    """A token for Matplotlib, in which a dollar does not begin a formula."""
    return str(text).replace("$", r"\$")


def axes_of(ax: Axes | None, width: float | None = None, height: float | None = None) -> Axes:
    """``ax``, or axes in a new figure of this size in inches."""
    if ax is not None:
        return ax
    size = None if width is None or height is None else (width, height)
    return plt.subplots(figsize=size, layout="constrained")[1]


def figure_of(ax: Axes) -> Figure:
    """The figure of some axes."""
    return cast(Figure, ax.figure)


def rectangle(ax: Axes, x: float, y: float, width: float, height: float, **style: Any) -> None:
    """A rectangle with its corner of the smallest coordinates at (x, y)."""
    ax.add_patch(Rectangle((x, y), width, height, **style))


def frame(ax: Axes, x: float, y: float, width: float, height: float, **style: Any) -> None:
    """An empty rectangle with an orange edge."""
    style = {"fill": False, "edgecolor": COLORS[1], "linewidth": 1.6, **style}
    rectangle(ax, x, y, width, height, **style)


def centred(ax: Axes, x: float, y: float, text: object, fontsize: float, **style: Any) -> None:
    """A text with its centre at (x, y)."""
    style = {"ha": "center", "va": "center", **style}
    ax.text(x, y, str(text), fontsize=fontsize, **style)


def line(ax: Axes, points: Any, color: Any, linewidth: float, **style: Any) -> None:
    """A solid line through points given as their x and their y, in any style of curves."""
    x, y = points
    ax.plot(x, y, color=color, linewidth=linewidth, **{"linestyle": "-", **style})


def arrow(ax: Axes, start: Any, end: Any, color: str = "#555555", **style: Any) -> None:
    """A straight arrow from start to end."""
    style = {
        "arrowstyle": "-|>",
        "mutation_scale": 9,
        "shrinkA": 0,
        "shrinkB": 0,
        "linewidth": 1.1,
        "zorder": 2,
        **style,
    }
    ax.add_patch(FancyArrowPatch(start, end, color=color, **style))


def shade(weight: Any) -> Any:
    """The colour of a weight between 0 and 1."""
    return plt.get_cmap(CMAP)(weight)


def heat(ax: Axes, weights: np.ndarray, **style: Any) -> AxesImage:
    """An image of weights between 0 and 1, darker = more."""
    style = {"cmap": CMAP, "vmin": 0, "vmax": 1, "aspect": "auto", **style}
    return ax.imshow(weights, **style)
