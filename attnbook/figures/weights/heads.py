"""A machine with a memory: sequences of bits, and the weights of its heads over time."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ...validate import check_integer, require
from ..canvas import as_array, figure_of, heat, outline
from ..styling import COLORS

__all__ = ["bit_panels", "head_weights"]


def _panel(ax: Axes, weights: np.ndarray, marks: Sequence[int]) -> None:
    """One column per step, counted from 1 on the axis, with lines before the marked ones."""
    steps, rows = weights.shape
    heat(ax, weights.T, interpolation="nearest", extent=(0.5, steps + 0.5, rows - 0.5, -0.5))
    for mark in marks:
        ax.axvline(mark + 0.5, color=COLORS[1], linewidth=1.8, linestyle=":")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    outline(ax)
    ax.tick_params(length=0)


def _check_marks(marks: Sequence[int], steps: int) -> None:
    inside = all(0 <= mark < steps for mark in marks)
    require(inside, f"marks must lie between 0 and {steps - 1}, got {list(marks)}")


def bit_panels(
    panels: Mapping[str, Any], *, marks: Sequence[int] = (), axes: Sequence[Axes] | None = None
) -> Figure:
    """Draw sequences of vectors, one column per step, one row per channel; darker is nearer to 1.

    Args:
        panels: Name → ``(T, channels)``, values from 0 to 1; all with the same T.
        marks: Steps before which a line is drawn through all panels, as indices, from 0.
        axes: One for each panel; by default those of a new figure.
    """
    arrays = {name: as_array(name, values, 2) for name, values in panels.items()}
    lengths = [len(array) for array in arrays.values()]
    require(len(set(lengths)) == 1, f"panels must have one number of steps, got {lengths}")
    for name, array in arrays.items():
        low, high = array.min(), array.max()
        require(0 <= low <= high <= 1, f"{name} must lie between 0 and 1, got {low:g} to {high:g}")
    _check_marks(marks, lengths[0])
    if axes is None:
        heights = [array.shape[1] for array in arrays.values()]
        size = (min(7.4, 1.5 + 0.2 * lengths[0]), 0.5 + sum(0.35 + 0.13 * h for h in heights))
        axes = _column(len(arrays), size, height_ratios=heights)
    for ax, (name, array) in zip(axes, arrays.items(), strict=True):
        _panel(ax, array, marks)
        ax.set_yticks([])
        ax.set_ylabel(name, rotation=0, ha="right", va="center")
    axes[-1].set_xlabel("step")
    return figure_of(axes[0])


def _column(count: int, size: tuple[float, float], **options: Any) -> Sequence[Axes]:
    """Axes under each other in a new figure."""
    fig = plt.figure(figsize=size, layout="constrained")
    return fig.subplots(count, 1, sharex=True, squeeze=False, **options)[:, 0].tolist()


def head_weights(
    weights: Any,
    names: Sequence[str],
    *,
    first: int = 0,
    count: int | None = None,
    marks: Sequence[int] = (),
    axes: Sequence[Axes] | None = None,
) -> Figure:
    """Draw the weights of heads over time: a panel per head, a column per step, a row per slot.

    Args:
        weights: ``(T, heads, N)``.
        names: One for each head.
        first: The first slot that is shown; after the last one of the memory follows slot 0.
        count: Number of slots that are shown; by default all.
        marks: Steps before which a line is drawn, as indices, from 0.
        axes: One for each head; by default those of a new figure.

    Source: the idea of figure 6 of Graves, Wayne and Danihelka 2014.
    """
    array = as_array("weights", weights, 3)
    T, heads, N = array.shape
    slots = ring(first, count, N)
    require(len(names) == heads, f"names must hold one per head ({heads}), got {len(names)}")
    _check_marks(marks, T)
    if axes is None:
        size = (min(7.4, 1.2 + 0.2 * T), 0.6 + heads * min(3.2, 0.4 + 0.13 * len(slots)))
        axes = _column(heads, size)
    ticks = range(0, len(slots), max(1, len(slots) // 8))
    for k, (ax, name) in enumerate(zip(axes, names, strict=True)):
        _panel(ax, array[:, k, slots], marks)
        ax.set_yticks(list(ticks), [str(slots[i]) for i in ticks])
        ax.set(ylabel="slot", title=name)
    axes[-1].set_xlabel("step")
    return figure_of(axes[0])


def ring(first: int, count: int | None, slots: int) -> list[int]:
    """So many slots from the first on, all without a number; slot 0 follows the last one."""
    count = check_integer("count", slots if count is None else count, 1, slots)
    return [(first + k) % slots for k in range(count)]
