"""Figures of a machine with a memory: sequences of bits, where its heads look over time, and the
memory step by step.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from ..style import CMAP, COLORS
from .alignment import as_array

__all__ = ["bit_panels", "head_weights", "memory_animation"]


def _frame(ax) -> None:
    ax.grid(False)
    ax.tick_params(length=0)
    for spine in ax.spines.values():
        spine.set_visible(True)
        spine.set_color("#bbbbbb")


def _starts(marks, T) -> list[int]:
    marks = [int(m) for m in marks]
    if any(not 0 <= m < T for m in marks):
        raise ValueError(f"marks must lie between 0 and {T - 1}, got {marks}")
    return marks


def bit_panels(panels: Mapping[str, object], *, marks: Sequence[int] = (), axes=None) -> Figure:
    """Draw sequences of vectors under each other, one column a step, one row a channel, darker =
    nearer to 1.

    Args:
        panels: name → ``(T, channels)``, values from 0 to 1; all with the same T.
        marks: steps before which a line is drawn through all panels.
        axes: one axes a panel; a new figure when not given.

    Raises:
        ValueError: for panels of different lengths, or values outside 0 … 1.
    """
    arrays = {name: as_array(name, values, 2) for name, values in panels.items()}
    lengths = {len(array) for array in arrays.values()}
    if len(lengths) != 1:
        raise ValueError(
            f"panels must have one number of steps, got {[len(array) for array in arrays.values()]}"
        )
    (T,) = lengths
    for name, array in arrays.items():
        if array.min() < 0 or array.max() > 1:
            raise ValueError(
                f"{name} must lie between 0 and 1, got {array.min():g} to {array.max():g}"
            )
    marks = _starts(marks, T)
    if axes is None:
        heights = [array.shape[1] for array in arrays.values()]
        size = (min(7.4, 1.5 + 0.2 * T), 0.5 + sum(0.35 + 0.13 * h for h in heights))
        axes = np.atleast_1d(
            plt.subplots(
                len(arrays),
                1,
                figsize=size,
                sharex=True,
                height_ratios=heights,
                layout="constrained",
            )[1]
        )
    for ax, (name, array) in zip(axes, arrays.items(), strict=True):
        ax.imshow(array.T, cmap=CMAP, vmin=0, vmax=1, aspect="auto", interpolation="nearest")
        for mark in marks:
            ax.axvline(mark - 0.5, color=COLORS[1], linewidth=1.8, linestyle=":")
        ax.set_yticks([])
        ax.set_ylabel(name, rotation=0, ha="right", va="center")
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        _frame(ax)
    axes[-1].set_xlabel("step")
    return axes[0].figure


def head_weights(
    weights,
    names: Sequence[str],
    *,
    first: int = 0,
    count: int | None = None,
    marks: Sequence[int] = (),
    axes=None,
) -> Figure:
    """Draw where heads look over time: a panel a head, one column a step, one row a slot, darker =
    more weight.

    Args:
        weights: ``(T, heads, N)``.
        names: one a head.
        first, count: the slots that are shown, from ``first`` on and round the end of the memory;
            all when not given.
        marks: steps before which a line is drawn.
        axes: one axes a head; a new figure when not given.

    Raises:
        ValueError: if there is another number of names than heads, or fewer slots than are to be
            shown.

    Source: the idea of figure 6 of Graves, Wayne and Danihelka 2014.
    """
    array = as_array("weights", weights, 3)
    T, heads, N = array.shape
    slots = _window(first, count, N)
    if len(names) != heads:
        raise ValueError(f"names must hold one name a head ({heads}), got {len(names)}")
    marks = _starts(marks, T)
    if axes is None:
        size = (min(7.4, 1.2 + 0.2 * T), 0.6 + heads * min(3.2, 0.4 + 0.13 * len(slots)))
        axes = np.atleast_1d(
            plt.subplots(heads, 1, figsize=size, sharex=True, layout="constrained")[1]
        )
    for k, (ax, name) in enumerate(zip(axes, names, strict=True)):
        ax.imshow(
            array[:, k, slots].T, cmap=CMAP, vmin=0, vmax=1, aspect="auto", interpolation="nearest"
        )
        for mark in marks:
            ax.axvline(mark - 0.5, color=COLORS[1], linewidth=1.8, linestyle=":")
        shown = range(0, len(slots), max(1, len(slots) // 8))
        ax.set_yticks(list(shown), [str(slots[i]) for i in shown])
        ax.set(ylabel="slot", title=name)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        _frame(ax)
    axes[-1].set_xlabel("step")
    return axes[0].figure


def memory_animation(
    memory,
    weights,
    inputs,
    outputs,
    *,
    names: Sequence[str],
    titles: Sequence[str] | None = None,
    first: int = 0,
    count: int | None = None,
    milliseconds: int = 600,
    plays: int = 3,
    dpi: int = 90,
) -> bytes:
    """Draw a machine at work, one frame a step, as an animated PNG: input, heads, memory, output.

    An animated PNG is an ordinary picture: a browser plays it, on a page or in a notebook, without
    a script; where nothing
    moves, as in print, all steps stand in one still picture of the heads.
    ``IPython.display.Image(data, format="png")`` shows it.

    Args:
        memory: ``(T, N, M)``, the memory after each step.
        weights: ``(T, heads, N)``.
        inputs, outputs: ``(T, channels)``, between 0 and 1.
        names: one a head.
        titles: one a step.
        first, count: the slots that are shown, as in :func:`head_weights`.
        milliseconds: of each frame; the last one stays three times as long.
        plays: how often it plays; 0 for without end.

    Returns:
        The bytes of the file.

    Raises:
        ValueError: for parts that do not fit together.
    """
    from PIL import Image

    memory, array = as_array("memory", memory, 3), as_array("weights", weights, 3)
    given, said = as_array("inputs", inputs, 2), as_array("outputs", outputs, 2)
    T, N, width = memory.shape
    if (
        array.shape[0] != T
        or array.shape[2] != N
        or len(given) != T
        or len(said) != T
        or len(names) != array.shape[1]
    ):
        raise ValueError(
            f"memory of shape {memory.shape} needs weights ({T}, {len(names)}, {N}), inputs and "
            f"outputs of {T} steps, got "
            f"{array.shape}, {len(given)} and {len(said)}"
        )
    titles = [f"step {t}" for t in range(T)] if titles is None else list(titles)
    if len(titles) != T:
        raise ValueError(f"titles must hold one a step ({T}), got {len(titles)}")
    slots = _window(first, count, N)
    top = max(float(np.abs(memory[:, slots]).max()), 1e-9)
    heads = len(names)
    fig, axes = plt.subplots(
        1,
        3 + heads,
        figsize=(6.8, 0.9 + 0.16 * len(slots)),
        layout="constrained",
        width_ratios=[0.8, *[0.6] * heads, 0.34 * width, 0.8],
    )
    columns = [(given[0][:, None], "input", CMAP, 0, 1)]
    columns += [(array[0, k, slots][:, None], name, CMAP, 0, 1) for k, name in enumerate(names)]
    columns += [
        (memory[0, slots], "memory: blue below 0, red above", "RdBu_r", -top, top),
        (said[0][:, None], "output", CMAP, 0, 1),
    ]
    images = []
    for k, (ax, (values, label, cmap, low, high)) in enumerate(zip(axes, columns)):
        images.append(
            ax.imshow(
                values, cmap=cmap, vmin=low, vmax=high, aspect="auto", interpolation="nearest"
            )
        )
        ax.set_xticks([])
        ax.set_yticks(
            range(0, len(slots), 2) if k == 1 else [],
            [str(slots[i]) for i in range(0, len(slots), 2)] if k == 1 else [],
        )
        ax.set_xlabel(label, fontsize=9)
        _frame(ax)
    axes[1].tick_params(labelsize=8)
    head = fig.suptitle(titles[0], fontsize=10.5)
    frames = []
    for t in range(T):
        rows = [
            given[t][:, None],
            *(array[t, k, slots][:, None] for k in range(heads)),
            memory[t, slots],
            said[t][:, None],
        ]
        for image, values in zip(images, rows):
            image.set_data(values)
        head.set_text(titles[t])
        frames.append(_picture(fig, dpi, Image))
    plt.close(fig)
    still, axes = plt.subplots(
        1, heads, figsize=fig.get_size_inches(), layout="constrained", squeeze=False
    )
    head_weights(weights, names, first=first, count=count, axes=axes[0])
    axes[0, 0].set_xlabel("step")
    frames.insert(0, _picture(still, dpi, Image))
    plt.close(still)
    out = io.BytesIO()
    durations = [milliseconds] * (T - 1) + [3 * milliseconds]
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


def _picture(fig, dpi, Image):
    data = io.BytesIO()
    fig.savefig(data, format="png", dpi=dpi)
    return Image.open(data).convert("RGB")


def _window(first, count, N) -> list[int]:
    count = N if count is None else count
    if not 1 <= count <= N:
        raise ValueError(f"count must lie between 1 and the number of slots, {N}, got {count}")
    return [(first + k) % N for k in range(count)]
