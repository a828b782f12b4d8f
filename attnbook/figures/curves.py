"""Figures of numbers: training curves, curves with bands over seeds, bars."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from .style import COLORS
from .weights.alignment import as_array

__all__ = ["bars", "curves", "training"]


def _numbers(values) -> np.ndarray:
    return np.asarray(values.detach().cpu() if hasattr(values, "detach") else values, dtype=float)


def curves(
    x: Sequence[float], lines: Mapping[str, object], *, xlabel: str, ylabel: str, ax=None
) -> Figure:
    """Draw named lines over ``x``; of several seeds the mean as a line and the range as a band.

    Args:
        x: ``(k,)``.
        lines: name → ``(k,)`` values, or ``(seeds, k)``.
        xlabel, ylabel: what the axes are, with units.

    Raises:
        ValueError: if a line has another length than ``x``.
    """
    places = as_array("x", x, 1)
    ax = ax if ax is not None else plt.subplots(layout="constrained")[1]
    for k, (name, values) in enumerate(lines.items()):
        array = _numbers(values)
        array = array[None] if array.ndim == 1 else array
        if array.ndim != 2 or array.shape[1] != len(places):
            raise ValueError(
                f"line {name!r} must hold {len(places)} values, or that many a seed, got shape "
                f"{array.shape}"
            )
        (line,) = ax.plot(places, array.mean(0), marker="os^Dv"[k % 5], markersize=4, label=name)
        if len(array) > 1:
            ax.fill_between(
                places, array.min(0), array.max(0), color=line.get_color(), alpha=0.18, linewidth=0
            )
    ax.set(xlabel=xlabel, ylabel=ylabel)
    if len(lines) > 1:
        ax.legend()
    return ax.figure


def training(
    runs,
    *,
    baseline: float | None = None,
    baseline_name: str = "baseline",
    ylabel: str = "loss (nats a token)",
    ax=None,
) -> Figure:
    """Draw losses over steps: the raw values faint, a running mean over a twentieth of the run on
    top.

    Args:
        runs: a list of losses or a History (anything with ``losses``), or a dict of several by
            name.
        baseline: a loss to compare with, as a horizontal line.
    """
    named = runs if isinstance(runs, Mapping) else {"": runs}
    ax = ax if ax is not None else plt.subplots(layout="constrained")[1]
    for k, (name, run) in enumerate(named.items()):
        losses = as_array("losses", getattr(run, "losses", run), 1)
        if len(losses) == 0:
            raise ValueError(f"losses of {name or 'the run'} must not be empty")
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
    ax.set(xlabel="step", ylabel=ylabel, ylim=(0, None))
    if len(named) > 1 or baseline is not None:
        ax.legend()
    return ax.figure


def bars(
    names: Sequence[str],
    values,
    *,
    xlabel: str = "",
    reference: float | None = None,
    reference_name: str = "",
    ax=None,
) -> Figure:
    """Draw horizontal bars with their numbers; ``values (k,)`` or ``(seeds, k)``, then mean and
    range.
    """
    array = np.atleast_2d(_numbers(values))
    if array.ndim != 2 or array.shape[1] != len(names):
        raise ValueError(
            f"values must hold one number a name ({len(names)}), or that many a seed, got shape "
            f"{array.shape}"
        )
    ax = (
        ax
        if ax is not None
        else plt.subplots(figsize=(6.4, 0.5 + 0.45 * len(names)), layout="constrained")[1]
    )
    mean = array.mean(0)
    error = np.stack([mean - array.min(0), array.max(0) - mean]) if len(array) > 1 else None
    ax.barh(
        range(len(names)),
        mean,
        xerr=error,
        color=COLORS[0],
        height=0.6,
        error_kw={"linewidth": 1.2},
    )
    right = array.max(0)
    for k, value in enumerate(mean):
        ax.annotate(
            f"{value:.3g}",
            (max(right[k], 0), k),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
        )
    if reference is not None:
        ax.axvline(reference, color=COLORS[1], linestyle="--", linewidth=1.4, label=reference_name)
        if reference_name:
            ax.legend(loc="lower right")
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    ax.set_xlabel(xlabel)
    ax.margins(x=0.12)
    ax.grid(axis="y", visible=False)
    return ax.figure
