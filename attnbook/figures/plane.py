"""Points of the plane and the answers that point at them: hulls, tours, triangulations, and the
pointer step by step.
"""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch

from .style import CMAP, COLORS
from .weights.alignment import as_array
from .weights.heads import _picture

__all__ = ["plane_walk", "pointer_animation", "pointer_steps", "triangulation", "tour_ring"]

_DOT, _GREY = "#222222", "#999999"


def _points(points) -> np.ndarray:
    array = as_array("points", points, 2)
    if array.shape[1] != 2 or not len(array):
        raise ValueError(f"points must be (n, 2) with n >= 1, got shape {array.shape}")
    return array


def _inside(name: str, walk, n: int) -> list[int]:
    walk = [int(i) for i in walk]
    if any(not 0 <= i < n for i in walk):
        raise ValueError(f"{name} must hold positions from 0 to {n - 1}, got {walk}")
    return walk


def _axes(points: np.ndarray, ax, size: float = 3.0):
    ax = ax if ax is not None else plt.subplots(figsize=(size, size), layout="constrained")[1]
    low, high = points.min(0), points.max(0)
    # points of the unit square show it whole: planes side by side are alike
    if low.min() >= 0 and 0.5 < high.max() <= 1:
        low, high = np.zeros(2), np.ones(2)
    margin = 0.09 * max(*(high - low), 1e-9)
    ax.set(
        xlim=(low[0] - margin, high[0] + margin),
        ylim=(low[1] - margin, high[1] + margin),
        aspect="equal",
        xticks=[],
        yticks=[],
    )
    ax.spines[:].set_visible(True)
    ax.spines[:].set_color("#cccccc")
    ax.grid(False)
    return ax


def _number(ax, points: np.ndarray) -> None:
    """The position of each point in the input, beside it, on the side away from the middle."""
    middle = points.mean(0)
    for i, (x, y) in enumerate(points):
        right, up = x >= middle[0], y >= middle[1]
        ax.annotate(
            str(i),
            (x, y),
            xytext=(4 if right else -4, 3 if up else -3),
            textcoords="offset points",
            fontsize=8,
            color=_DOT,
            ha="left" if right else "right",
            va="bottom" if up else "top",
        )


def plane_walk(
    points,
    walk: Sequence[int] = (),
    *,
    truth: Sequence[int] = (),
    closed: bool = True,
    numbers: bool = True,
    title: str = "",
    ax=None,
) -> Figure:
    """Draw points and a walk over them, orange from its first point on; the true walk lies beneath
    it as a wide grey band.

    Args:
        points: ``(n, 2)``.
        walk: positions in the order of the walk: a hull, a tour.
        truth: the true walk.
        closed: whether the walks go back to their first point.
        numbers: write each point's position beside it.

    Raises:
        ValueError: for points of another shape, and positions that there are not.
    """
    xy = _points(points)
    walk, truth = _inside("walk", walk, len(xy)), _inside("truth", truth, len(xy))
    ax = _axes(xy, ax)
    for line, style in (
        (
            truth,
            dict(
                color="#c9c9c9",
                linewidth=6,
                solid_joinstyle="round",
                solid_capstyle="round",
                zorder=1,
            ),
        ),
        (walk, dict(color=COLORS[1], linewidth=1.6, zorder=2)),
    ):
        if line:
            way = xy[line + line[:1]] if closed else xy[line]
            ax.plot(*way.T, linestyle="-", **style)
    ax.scatter(*xy.T, s=18 if len(xy) <= 60 else 8, color=_DOT, zorder=3)
    if walk:
        ax.scatter(
            *xy[walk[0]], s=70, facecolors="none", edgecolors=COLORS[1], linewidths=1.6, zorder=4
        )
    if len(walk) > 1:  # the direction, in the middle of the first step
        a, b = xy[walk[0]], xy[walk[1]]
        ax.add_patch(
            FancyArrowPatch(
                a + 0.35 * (b - a),
                a + 0.65 * (b - a),
                arrowstyle="-|>",
                mutation_scale=11,
                linewidth=0,
                color=COLORS[1],
                zorder=4,
            )
        )
    if numbers:
        _number(ax, xy)
    ax.set_title(title, fontsize=9.5)
    return ax.figure


def triangulation(
    points,
    triangles: Sequence[Sequence[int]],
    *,
    truth: Sequence[Sequence[int]] | None = None,
    numbers: bool = True,
    title: str = "",
    ax=None,
) -> Figure:
    """Draw triangles over points: those that are true light blue, the others hatched orange, edges
    that miss dashed grey.

    Args:
        points: ``(n, 2)``.
        triangles: triples of positions.
        truth: the true triples; without them every triangle counts as true.
    """
    xy = _points(points)
    said = [tuple(sorted(_inside("triangles", t, len(xy)))) for t in triangles]
    right = said if truth is None else [tuple(sorted(_inside("truth", t, len(xy)))) for t in truth]
    if any(len(t) != 3 for t in said + right):
        raise ValueError(
            f"triangles must be triples of positions, got "
            f"{[t for t in said + right if len(t) != 3][0]}"
        )
    ax = _axes(xy, ax)
    for t in dict.fromkeys(said):
        if t in right:
            ax.fill(
                *xy[list(t)].T,
                facecolor="#cfe0f3",
                edgecolor=COLORS[0],
                linewidth=1.3,
                linestyle="-",
                zorder=1,
            )
        else:
            ax.fill(
                *xy[list(t)].T,
                facecolor="none",
                edgecolor=COLORS[1],
                linewidth=1.3,
                linestyle="-",
                hatch="///",
                zorder=2,
            )
    for t in right:
        if t not in said:
            ax.plot(*xy[[*t, t[0]]].T, linestyle="--", color=_GREY, linewidth=1.2, zorder=1)
    ax.scatter(*xy.T, s=18, color=_DOT, zorder=3)
    if numbers:
        _number(ax, xy)
    ax.set_title(title, fontsize=9.5)
    return ax.figure


def pointer_steps(points, walk: Sequence[int], weights, *, columns: int = 4) -> Figure:
    """Draw one small plane a step: every point as large and as dark as its weight, the walk so far,
    and where it points next.

    Args:
        points: ``(n, 2)``.
        walk: the positions pointed at, m of them, in order.
        weights: ``(m, n)``, ``(m, n + 1)`` or ``(m + 1, n + 1)``: a row a step; column n is END,
            and so is step m.
        columns: planes a line.

    Raises:
        ValueError: if the shapes do not fit.

    Source: the idea of figure 13 of Weng 2018.
    """
    xy, matrix = _points(points), as_array("weights", weights, 2)
    n, walk = len(xy), _inside("walk", walk, len(points))
    if matrix.shape[1] not in (n, n + 1) or not len(walk) <= matrix.shape[0] <= len(walk) + (
        matrix.shape[1] == n + 1
    ):
        raise ValueError(
            f"weights must be ({len(walk)}, {n}), or with END ({len(walk)} or {len(walk) + 1}, "
            f"{n + 1}), "
            f"got shape {matrix.shape}"
        )
    steps = matrix.shape[0]
    columns = min(columns, steps)
    rows = -(-steps // columns)
    fig, axes = plt.subplots(
        rows, columns, figsize=(1.9 * columns, 2.15 * rows), squeeze=False, layout="constrained"
    )
    colors = plt.get_cmap(CMAP)
    for ax in axes.flat[steps:]:
        ax.axis("off")
    for k in range(steps):
        ax, share = _axes(xy, axes.flat[k]), matrix[k, :n]
        done = walk[:k]
        if len(done) > 1:
            ax.plot(*xy[done].T, linestyle="-", color=_GREY, linewidth=1.4, zorder=1)
        ax.scatter(
            *xy.T,
            s=14 + 150 * share,
            c=[colors(0.15 + 0.85 * s) for s in share],
            edgecolors=_DOT,
            linewidths=0.6,
            zorder=3,
        )
        if k < len(walk):
            a, b = xy[walk[k - 1]] if k else None, xy[walk[k]]
            if k:
                ax.add_patch(
                    FancyArrowPatch(
                        a,
                        b,
                        arrowstyle="-|>",
                        mutation_scale=10,
                        linewidth=1.5,
                        color=COLORS[1],
                        zorder=2,
                        shrinkA=3,
                        shrinkB=6,
                    )
                )
            else:
                ax.scatter(
                    *b, s=230, facecolors="none", edgecolors=COLORS[1], linewidths=1.5, zorder=4
                )
            ax.set_title(f"{k + 1}: to {walk[k]}, {matrix[k, walk[k]]:.2f}", fontsize=9)
        else:
            way = xy[walk + walk[:1]]
            ax.plot(*way.T, linestyle="-", color=_GREY, linewidth=1.4, zorder=1)
            ax.set_title(f"{k + 1}: END, {matrix[k, n]:.2f}", fontsize=9)
        if k == 0:
            _number(ax, xy)
    return fig


def pointer_animation(
    points,
    walk: Sequence[int],
    weights,
    *,
    truth: Sequence[int] = (),
    milliseconds: int = 700,
    plays: int = 3,
    dpi: int = 90,
) -> bytes:
    """Draw the pointer walking round the plane, one frame a step, as an animated PNG: a city is as
    large and dark as its weight.

    A browser plays it without a script. Where nothing moves, as in print, one still picture stands
    for it: the whole walk, each city as large and as dark as the weight with which it was chosen.
    ``IPython.display.Image(data, format="png")`` shows it.

    Args:
        points: ``(n, 2)``.
        walk: the positions pointed at, m of them, in order; the last frame goes back to the first.
        weights: ``(m, n)`` or ``(m, n + 1)``: a row a step.
        truth: the true walk, as a wide grey band.
        milliseconds: of each frame; the last one stays three times as long.
        plays: how often it plays; 0 for without end.

    Returns:
        The bytes of the file.

    Raises:
        ValueError: if the shapes do not fit, or the walk is empty.
    """
    from PIL import Image

    xy, matrix = _points(points), as_array("weights", weights, 2)
    n, walk, truth = (
        len(xy),
        _inside("walk", walk, len(points)),
        _inside("truth", truth, len(points)),
    )
    if not walk or matrix.shape[0] != len(walk) or matrix.shape[1] not in (n, n + 1):
        raise ValueError(
            f"weights must be ({len(walk)}, {n}) or ({len(walk)}, {n + 1}), with at least one "
            f"step, got shape {matrix.shape}"
        )
    frames, certain = [], np.zeros(n)
    np.maximum.at(certain, walk, matrix[np.arange(len(walk)), walk])
    for k in range(-1, len(walk) + 1):  # the still, a frame a step, the way back
        fig, ax = plt.subplots(figsize=(3.6, 3.9), layout="constrained")
        _axes(xy, ax)
        if truth:
            ax.plot(
                *xy[truth + truth[:1]].T,
                linestyle="-",
                color="#d9d9d9",
                linewidth=7,
                solid_joinstyle="round",
                zorder=0,
            )
        share = matrix[k, :n] if 0 <= k < len(walk) else certain
        done = walk + walk[:1] if k in (-1, len(walk)) else walk[:k]
        if len(done) > 1:
            ax.plot(*xy[done].T, linestyle="-", color=COLORS[1], linewidth=1.6, zorder=1)
        ax.scatter(
            *xy.T,
            s=16 + 190 * share,
            c=[plt.get_cmap(CMAP)(0.15 + 0.85 * s) for s in share],
            edgecolors=_DOT,
            linewidths=0.6,
            zorder=3,
        )
        if 0 < k < len(walk):
            ax.add_patch(
                FancyArrowPatch(
                    xy[walk[k - 1]],
                    xy[walk[k]],
                    arrowstyle="-|>",
                    mutation_scale=14,
                    linewidth=2.2,
                    color=COLORS[1],
                    zorder=2,
                    shrinkA=3,
                    shrinkB=6,
                )
            )
        ax.scatter(
            *xy[walk[0]], s=330, facecolors="none", edgecolors=COLORS[1], linewidths=1.6, zorder=4
        )
        said = (
            "the whole walk"
            if k == -1
            else "and back"
            if k == len(walk)
            else f"step {k + 1}: weight {share[walk[k]]:.2f}"
        )
        ax.set_title(said, fontsize=10.5)
        frames.append(_picture(fig, dpi, Image))
        plt.close(fig)
    out = io.BytesIO()
    durations = [milliseconds] * len(walk) + [3 * milliseconds]
    frames[0].save(
        out,
        format="PNG",
        save_all=True,
        append_images=frames[1:],
        default_image=True,
        duration=durations,
        loop=plays,
    )
    return out.getvalue()


def tour_ring(places: Sequence[int], *, title: str = "", ax=None) -> Figure:
    """Draw a tour over the shortest one without a map: the cities stand round a ring in the order
    of the shortest tour.

    The ring, a wide grey line, is the shortest tour. The other tour is orange: where both go the
    same way it lies on the ring, elsewhere it cuts across. The length of a chord says how far apart
    two cities are *along* the shortest tour, not on a map.

    Args:
        places: for each city of the tour, in its order, the place of that city in the shortest
            tour: 0 … n − 1, each once.

    Raises:
        ValueError: if it is not a permutation of 0 … n − 1 with n ≥ 3.
    """
    places = [int(k) for k in places]
    n = len(places)
    if n < 3 or sorted(places) != list(range(n)):
        raise ValueError(
            f"places must hold each of 0 … {max(0, n - 1)} once, at least three, got {places}"
        )
    angle = np.pi / 2 - 2 * np.pi * np.arange(n) / n
    xy = np.stack([np.cos(angle), np.sin(angle)], 1)
    ax = _axes(xy, ax)
    ax.spines[:].set_visible(False)
    round_angle = np.linspace(0, 2 * np.pi, 361)
    ax.plot(
        np.cos(round_angle),
        np.sin(round_angle),
        color="#c9c9c9",
        linewidth=6,
        linestyle="-",
        zorder=1,
    )
    for a, b in zip(places, places[1:] + places[:1]):
        if (a - b) % n in (1, n - 1):  # the same step as in the shortest tour, along the ring
            low = a if (b - a) % n == 1 else b
            part = np.linspace(angle[low], angle[low] - 2 * np.pi / n, 9)
            ax.plot(
                np.cos(part), np.sin(part), color=COLORS[1], linewidth=1.6, linestyle="-", zorder=2
            )
        else:
            ax.plot(*xy[[a, b]].T, color=COLORS[1], linewidth=1.6, linestyle="-", zorder=3)
    ax.scatter(*xy.T, s=12, color=_DOT, zorder=4)
    ax.set_title(title, fontsize=9.5)
    return ax.figure
