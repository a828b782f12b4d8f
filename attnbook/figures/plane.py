"""Points of the plane and answers that point at them: hulls, tours, triangulations."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..validate import require
from .canvas import arrow, as_array, axes_of, figure_of, line, outline, panels, shade
from .styling import COLORS

__all__ = ["plane_walk", "pointer_steps", "triangulation", "tour_ring"]

_DOT, _GREY = "#222222", "#999999"


def _points(points: Any) -> np.ndarray:
    array = as_array("points", points, 2)
    fits = array.shape[1] == 2 and len(array) > 0
    require(fits, f"points must be (n, 2) with n >= 1, got shape {array.shape}")
    return array


def _positions(name: str, walk: Sequence[int], n: int) -> list[int]:
    inside = all(0 <= i < n and int(i) == i for i in walk)
    require(inside, f"{name} must hold positions from 0 to {n - 1}, got {list(walk)}")
    return [int(i) for i in walk]


def _axes(points: np.ndarray, ax: Axes | None) -> Axes:
    ax = axes_of(ax, 3.0, 3.0)
    low, high = points.min(0), points.max(0)
    # points of the unit square get all of it: planes side by side have one scale
    if low.min() >= 0 and 0.5 < high.max() <= 1:
        low, high = np.zeros(2), np.ones(2)
    margin = 0.09 * max(*(high - low), 1e-9)
    (left, bottom), (right, top) = low - margin, high + margin
    ax.set(xlim=(left, right), ylim=(bottom, top), aspect="equal", xticks=[], yticks=[])
    outline(ax, "#cccccc")
    return ax


def _closed(xy: np.ndarray, walk: list[int]) -> np.ndarray:
    """The coordinates ``(2, m + 1)`` of a walk that returns to its first point."""
    return xy[walk + walk[:1]].T


def _circle(ax: Axes, point: np.ndarray, size: float, linewidth: float = 1.6) -> None:
    style = dict(facecolors="none", edgecolors=COLORS[1], linewidths=linewidth, zorder=4)
    ax.scatter(*point, s=size, **style)


def _weighted_dots(ax: Axes, xy: np.ndarray, share: np.ndarray, least: float, grow: float) -> None:
    """Points as large and as dark as their weights."""
    colors = [shade(0.15 + 0.85 * s) for s in share]
    style = dict(c=colors, edgecolors=_DOT, linewidths=0.6, zorder=3)
    ax.scatter(*xy.T, s=least + grow * share, **style)


def _number(ax, points: np.ndarray) -> None:
    """The position of each point in the input, beside it, on the side away from the middle."""
    middle = points.mean(0)
    for i, (x, y) in enumerate(points):
        right, ha = (4, "left") if x >= middle[0] else (-4, "right")
        up, va = (3, "bottom") if y >= middle[1] else (-3, "top")
        style = dict(textcoords="offset points", fontsize=8, color=_DOT, ha=ha, va=va)
        ax.annotate(str(i), (x, y), xytext=(right, up), **style)


def plane_walk(
    points: Any,
    walk: Sequence[int] = (),
    *,
    truth: Sequence[int] = (),
    numbers: bool = True,
    title: str = "",
    ax: Axes | None = None,
) -> Figure:
    """Draw points and a closed walk, orange from its first point on, over the true one in grey.

    Args:
        points: ``(n, 2)``.
        walk: Positions in the order of the walk: a hull, a tour.
        truth: The true walk.
        numbers: Write the position of each point beside it.
    """
    xy = _points(points)
    walk, truth = _positions("walk", walk, len(xy)), _positions("truth", truth, len(xy))
    ax = _axes(xy, ax)
    if truth:
        style = dict(solid_joinstyle="round", solid_capstyle="round", zorder=1)
        line(ax, _closed(xy, truth), "#c9c9c9", 6, **style)
    if walk:
        line(ax, _closed(xy, walk), COLORS[1], 1.6, zorder=2)
    ax.scatter(*xy.T, s=18 if len(xy) <= 60 else 8, color=_DOT, zorder=3)
    if walk:
        _circle(ax, xy[walk[0]], 70)
    if len(walk) > 1:  # the direction, in the middle of the first step
        a, b = xy[walk[0]], xy[walk[1]]
        ends = a + 0.35 * (b - a), a + 0.65 * (b - a)
        style = dict(mutation_scale=11, linewidth=0, zorder=4, shrinkA=2, shrinkB=2)
        arrow(ax, *ends, COLORS[1], **style)
    if numbers:
        _number(ax, xy)
    ax.set_title(title, fontsize=9.5)
    return figure_of(ax)


def triangulation(
    points: Any,
    triangles: Sequence[Sequence[int]],
    *,
    truth: Sequence[Sequence[int]] | None = None,
    title: str = "",
    ax: Axes | None = None,
) -> Figure:
    """Draw triangles: right ones light blue, wrong ones hatched orange, missing ones dashed grey.

    Args:
        points: ``(n, 2)``.
        triangles: Triples of positions.
        truth: The true triples; without them every triangle is drawn as right.
    """
    xy = _points(points)
    drawn = [tuple(sorted(_positions("triangles", t, len(xy)))) for t in triangles]
    true = drawn
    if truth is not None:
        true = [tuple(sorted(_positions("truth", t, len(xy)))) for t in truth]
    others = [t for t in drawn + true if len(t) != 3]
    require(not others, f"triangles must be triples of positions, got {others[:1]}")
    ax = _axes(xy, ax)
    right: dict[str, Any] = dict(facecolor="#cfe0f3", edgecolor=COLORS[0], zorder=1)
    wrong: dict[str, Any] = dict(facecolor="none", edgecolor=COLORS[1], hatch="///", zorder=2)
    for t in dict.fromkeys(drawn):
        style = right if t in true else wrong
        ax.fill(*xy[list(t)].T, linewidth=1.3, linestyle="-", **style)
    for t in true:
        if t not in drawn:
            line(ax, _closed(xy, list(t)), _GREY, 1.2, linestyle="--", zorder=1)
    ax.scatter(*xy.T, s=18, color=_DOT, zorder=3)
    _number(ax, xy)
    ax.set_title(title, fontsize=9.5)
    return figure_of(ax)


def pointer_steps(points: Any, walk: Sequence[int], weights: Any, *, columns: int = 4) -> Figure:
    """Draw a plane per step: points as large and dark as their weight, the walk and its next step.

    Args:
        points: ``(n, 2)``.
        walk: The positions pointed at, m of them, in order.
        weights: ``(m, n)``, ``(m, n + 1)`` or ``(m + 1, n + 1)``: a row per step; column n is END,
            and so is step m.
        columns: Planes per line.

    Source: the idea of figure 13 of Weng 2018.
    """
    xy, matrix = _points(points), as_array("weights", weights, 2)
    n, walk = len(xy), _positions("walk", walk, len(points))
    steps, width = matrix.shape
    require(
        width in (n, n + 1) and len(walk) <= steps <= len(walk) + (width == n + 1),
        f"weights must be ({len(walk)}, {n}), or with END ({len(walk)} or {len(walk) + 1}, "
        f"{n + 1}), got shape {matrix.shape}",
    )
    fig, axes = panels(steps, min(columns, steps), 1.9, 2.15)
    for k, ax in enumerate(axes):
        _axes(xy, ax)
        past = walk[:k]
        if len(past) > 1:
            line(ax, xy[past].T, _GREY, 1.4, zorder=1)
        _weighted_dots(ax, xy, matrix[k, :n], 14, 150)
        if k == len(walk):
            line(ax, _closed(xy, walk), _GREY, 1.4, zorder=1)
            ax.set_title(f"{k + 1}: END, {matrix[k, n]:.2f}", fontsize=9)
            continue
        if past:
            style = dict(mutation_scale=10, linewidth=1.5, shrinkA=3, shrinkB=6)
            arrow(ax, xy[past[-1]], xy[walk[k]], COLORS[1], **style)
        else:
            _circle(ax, xy[walk[k]], 230, 1.5)
            _number(ax, xy)
        ax.set_title(f"{k + 1}: to {walk[k]}, {matrix[k, walk[k]]:.2f}", fontsize=9)
    return fig


def tour_ring(places: Sequence[int], *, title: str = "", ax: Axes | None = None) -> Figure:
    """Draw a tour over the shortest one without a map: cities stand on a ring in its order.

    The ring, a wide grey line, is the shortest tour. The other tour is orange: where both go the
    same way it follows the ring, elsewhere it cuts across. The length of a chord says how far apart
    two cities are *along* the shortest tour, not on a map.

    Args:
        places: For each city of the tour, in its order, the place of that city in the shortest
            tour: a permutation of 0 … n − 1, n ≥ 3.
    """
    places = [int(k) for k in places]
    n = len(places)
    require(
        n >= 3 and sorted(places) == list(range(n)),
        f"places must hold each of 0 … {max(0, n - 1)} once, at least three, got {places}",
    )
    angle = np.pi / 2 - 2 * np.pi * np.arange(n) / n
    xy = np.stack([np.cos(angle), np.sin(angle)], 1)
    ax = _axes(xy, ax)
    ax.spines[:].set_visible(False)
    circle = np.linspace(0, 2 * np.pi, 361)
    line(ax, (np.cos(circle), np.sin(circle)), "#c9c9c9", 6, zorder=1)
    for a, b in zip(places, places[1:] + places[:1]):
        if (a - b) % n in (1, n - 1):  # the same step as in the shortest tour, along the ring
            low = a if (b - a) % n == 1 else b
            part = np.linspace(angle[low], angle[low] - 2 * np.pi / n, 9)
            line(ax, (np.cos(part), np.sin(part)), COLORS[1], 1.6, zorder=2)
        else:
            line(ax, xy[[a, b]].T, COLORS[1], 1.6, zorder=3)
    ax.scatter(*xy.T, s=12, color=_DOT, zorder=4)
    ax.set_title(title, fontsize=9.5)
    return figure_of(ax)
