"""Figures of numbers: training curves, and curves with bands over seeds."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ..validate import require
from .canvas import as_array, axes_of, figure_of, numbers
from .styling import COLORS

__all__ = ["curves", "training"]


def curves(
    x, lines: Mapping[str, object], *, xlabel: str, ylabel: str, ax: Axes | None = None
) -> Figure:
    """Draw named lines over ``x``; of several seeds the mean as a line and the range as a band.

    Args:
        x: ``(k,)``.
        lines: Name → ``(k,)`` values, or ``(seeds, k)``.
        xlabel: The label of the axis, with units.
        ylabel: The same.
    """
    places = as_array("x", x, 1)
    ax = axes_of(ax)
    for k, (name, values) in enumerate(lines.items()):
        array = np.atleast_2d(numbers(values))
        require(
            array.ndim == 2 and array.shape[1] == len(places),
            f"line {name!r} must hold {len(places)} values, or that many per seed, got shape "
            f"{array.shape}",
        )
        (curve,) = ax.plot(places, array.mean(0), marker="os^Dv"[k % 5], markersize=4, label=name)
        if len(array) > 1:
            band = {"color": curve.get_color(), "alpha": 0.18, "linewidth": 0}
            ax.fill_between(places, array.min(0), array.max(0), **band)
    ax.set(xlabel=xlabel, ylabel=ylabel)
    if len(lines) > 1:
        ax.legend()
    return figure_of(ax)


def training(
    runs,
    *,
    baseline: float | None = None,
    baseline_name: str = "baseline",
    ylabel: str = "loss (nats per token)",
    ax: Axes | None = None,
) -> Figure:
    """Draw losses over steps: raw values faint, on top a running mean over a twentieth of the run.

    Args:
        runs: A list of losses or a History (anything with ``losses``), or several by name.
        baseline: A loss to compare with, as a horizontal line.
    """
    named = runs if isinstance(runs, Mapping) else {"": runs}
    ax = axes_of(ax)
    for k, (name, run) in enumerate(named.items()):
        losses = as_array("losses", getattr(run, "losses", run), 1)
        require(len(losses) > 0, f"losses of {name or 'the run'} must not be empty")
        width = max(1, len(losses) // 20)
        total = np.cumsum(np.insert(losses, 0, 0.0))
        ends = np.arange(1, len(losses) + 1)
        starts = np.maximum(0, ends - width)
        smooth = (total[ends] - total[starts]) / (ends - starts)
        color = COLORS[k % len(COLORS)]
        ax.plot(ends, losses, color=color, alpha=0.25, linewidth=0.8, linestyle="-")
        ax.plot(ends, smooth, color=color, label=name or "running mean")
    if baseline is not None:
        ax.axhline(baseline, color="#444444", linestyle=":", linewidth=1.4, label=baseline_name)
    ax.set(xlabel="step", ylabel=ylabel)
    if ax.dataLim.y0 >= 0:
        ax.set_ylim(bottom=0)
    if len(named) > 1 or baseline is not None:
        ax.legend()
    return figure_of(ax)
