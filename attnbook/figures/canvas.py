"""Axes, and the marks that several figures draw."""

from typing import Any, cast

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.image import AxesImage
from matplotlib.patches import FancyArrowPatch, Rectangle

from ..validate import require
from .styling import CMAP, COLORS


def as_array(name: str, values: Any, dimensions: int | tuple[int, ...]) -> np.ndarray:
    """``values`` as float64 of so many dimensions or of this shape, or a ``ValueError``."""
    array = numbers(values)
    fits, wanted = array.shape == dimensions, f"be of shape {dimensions}"
    if isinstance(dimensions, int):
        fits, wanted = array.ndim == dimensions, f"have {dimensions} dimension(s)"
    require(fits, f"{name} must {wanted}, got shape {array.shape}")
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
    size = None if width is None or height is None else (width, height)
    return plt.subplots(figsize=size, layout="constrained")[1] if ax is None else ax


def panels(count: int, columns: int, width: float, height: float) -> tuple[Figure, list[Axes]]:
    """A figure of so many axes in lines, each of this size in inches; the rest is empty."""
    rows, size = -(-count // columns), (width * columns, height * -(-count // columns))
    fig, axes = plt.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    for ax in axes.flat[count:]:
        ax.axis("off")
    return fig, list(axes.flat[:count])


def figure_of(ax: Axes) -> Figure:
    """The figure of some axes."""
    return cast(Figure, ax.figure)


def outline(ax: Axes, color: str = "#bbbbbb") -> None:
    """A thin line around axes without a grid."""
    ax.grid(False)
    ax.spines[:].set_visible(True)
    ax.spines[:].set_color(color)


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
    usual = dict(arrowstyle="-|>", mutation_scale=9, shrinkA=0, shrinkB=0, linewidth=1.1, zorder=2)
    ax.add_patch(FancyArrowPatch(start, end, color=color, **{**usual, **style}))


def shade(weight: Any) -> Any:
    """The colour of a weight between 0 and 1."""
    return plt.get_cmap(CMAP)(weight)


def heat(ax: Axes, weights: np.ndarray, **style: Any) -> AxesImage:
    """An image of weights between 0 and 1, darker = more."""
    style = {"cmap": CMAP, "vmin": 0, "vmax": 1, "aspect": "auto", **style}
    return ax.imshow(weights, **style)
