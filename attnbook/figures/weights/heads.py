"""Figures of a machine with a memory: sequences of bits, the weights of its heads over time, and
the memory step by step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ...validate import check_integer, require
from ..canvas import animated_png, as_array, figure_of, heat, rendered
from ..style import COLORS

__all__ = ["bit_panels", "head_weights", "memory_animation"]


def _outline(ax: Axes) -> None:
    ax.grid(False)
    ax.tick_params(length=0)
    ax.spines[:].set_visible(True)
    ax.spines[:].set_color("#bbbbbb")


def _panel(ax: Axes, weights: np.ndarray, marks: Sequence[int]) -> None:
    """One column per step, with lines before the marked ones."""
    heat(ax, weights.T, interpolation="nearest")
    for mark in marks:
        ax.axvline(mark - 0.5, color=COLORS[1], linewidth=1.8, linestyle=":")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    _outline(ax)


def _check_marks(marks: Sequence[int], steps: int) -> None:
    inside = all(0 <= mark < steps for mark in marks)
    require(inside, f"marks must lie between 0 and {steps - 1}, got {list(marks)}")


def bit_panels(
    panels: Mapping[str, Any], *, marks: Sequence[int] = (), axes: Sequence[Axes] | None = None
) -> Figure:
    """Draw sequences of vectors under each other, one column per step, one row per channel; darker
    is nearer to 1.

    Args:
        panels: Name → ``(T, channels)``, values from 0 to 1; all with the same T.
        marks: Steps before which a line is drawn through all panels.
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
    """Draw the weights of heads over time: a panel per head, one column per step, one row per slot,
    darker = more weight.

    Args:
        weights: ``(T, heads, N)``.
        names: One for each head.
        first: The first slot that is shown; after the last one of the memory follows slot 0.
        count: Number of slots that are shown; by default all.
        marks: Steps before which a line is drawn.
        axes: One for each head; by default those of a new figure.

    Source: the idea of figure 6 of Graves, Wayne and Danihelka 2014.
    """
    array = as_array("weights", weights, 3)
    T, heads, N = array.shape
    slots = _window(first, count, N)
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


def memory_animation(
    memory: Any,
    weights: Any,
    inputs: Any,
    outputs: Any,
    *,
    names: Sequence[str],
    titles: Sequence[str] | None = None,
    first: int = 0,
    count: int | None = None,
) -> bytes:
    """Draw a machine at work, one frame per step, as an animated PNG: input, heads, memory, output.

    An animated PNG is an ordinary picture: a browser plays it, on a page or in a notebook, without
    a script. Where nothing moves, as in print, a still picture of the heads at all steps stands for
    it. ``IPython.display.Image(data, format="png")`` shows it.

    Args:
        memory: ``(T, N, M)``, the memory after each step.
        weights: ``(T, heads, N)``.
        inputs: ``(T, channels)``, between 0 and 1.
        outputs: ``(T, channels)``, between 0 and 1.
        names: One for each head.
        titles: One for each step.
        first: As in :func:`head_weights`.
        count: As in :func:`head_weights`.

    Returns:
        The bytes of the file.
    """
    memory, array = as_array("memory", memory, 3), as_array("weights", weights, 3)
    inputs, outputs = as_array("inputs", inputs, 2), as_array("outputs", outputs, 2)
    T, N, width = memory.shape
    heads = len(names)
    require(
        array.shape == (T, heads, N) and len(inputs) == len(outputs) == T,
        f"memory of shape {memory.shape} needs weights ({T}, {heads}, {N}), inputs and outputs of "
        f"{T} steps, got {array.shape}, {len(inputs)} and {len(outputs)}",
    )
    titles = [f"step {t}" for t in range(T)] if titles is None else list(titles)
    require(len(titles) == T, f"titles must hold one per step ({T}), got {len(titles)}")
    slots = _window(first, count, N)
    top = max(float(np.abs(memory[:, slots]).max()), 1e-9)

    def columns(t: int) -> list[np.ndarray]:
        each = (array[t, k, slots][:, None] for k in range(heads))
        return [inputs[t][:, None], *each, memory[t, slots], outputs[t][:, None]]

    fig, axes = plt.subplots(
        1,
        3 + heads,
        figsize=(6.8, 0.9 + 0.16 * len(slots)),
        layout="constrained",
        width_ratios=[0.8, *[0.6] * heads, 0.34 * width, 0.8],
    )
    labels = ["input", *names, "memory: blue below 0, red above", "output"]
    signed = dict(cmap="RdBu_r", vmin=-top, vmax=top)
    images = []
    for k, (ax, values, label) in enumerate(zip(axes, columns(0), labels)):
        style = signed if k == heads + 1 else {}
        images.append(heat(ax, values, interpolation="nearest", **style))
        ax.set(xticks=[], yticks=[])
        ax.set_xlabel(label, fontsize=9)
        _outline(ax)
    ticks = range(0, len(slots), 2)
    axes[1].set_yticks(ticks, [str(slots[i]) for i in ticks])
    axes[1].tick_params(labelsize=8)
    title = fig.suptitle("", fontsize=10.5)
    frames = []
    for t in range(T):
        for image, values in zip(images, columns(t)):
            image.set_data(values)
        title.set_text(titles[t])
        frames.append(rendered(fig))
    plt.close(fig)
    size = fig.get_size_inches()
    still, axes = plt.subplots(1, heads, figsize=size, layout="constrained", squeeze=False)
    head_weights(weights, names, first=first, count=count, axes=axes[0])
    axes[0, 0].set_xlabel("step")
    image = rendered(still)
    plt.close(still)
    return animated_png(image, frames, 600)


def _window(first: int, count: int | None, slots: int) -> list[int]:
    count = check_integer("count", slots if count is None else count, 1, slots)
    return [(first + k) % slots for k in range(count)]
