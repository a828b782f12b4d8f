"""Pictures, and attention over them: one small picture a word, bright where the weight lies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ..style import COLORS
from .alignment import as_array, plain

__all__ = ["picture", "picture_words"]


def _pixels(image) -> np.ndarray:
    """A picture ``(3, H, W)``, whole numbers up to 255 or shares of 1, as ``(H, W, 3)`` between
    0 and 1.
    """
    whole = not getattr(image, "is_floating_point", lambda: np.asarray(image).dtype.kind == "f")()
    array = as_array("image", image, 3) / (255 if whole else 1)
    if array.shape[0] != 3 or array.min() < 0 or array.max() > 1:
        raise ValueError(
            f"image must be (3, height, width), 0 to 255 or 0 to 1, got shape {array.shape} up "
            f"to {array.max():g}"
        )
    return array.transpose(1, 2, 0)


def _frame(ax, boxes, color):
    for left, top, right, bottom in boxes:
        ax.add_patch(
            Rectangle(
                (left - 0.5, top - 0.5),
                right - left,
                bottom - top,
                fill=False,
                edgecolor=color,
                linewidth=1.6,
            )
        )


def picture(
    image, *, grid: tuple[int, int] | None = None, boxes: Sequence = (), title: str = "", ax=None
) -> Figure:
    """Draw a picture, with the lines of its regions and frames around objects if asked for.

    Args:
        image: ``(3, H, W)``, uint8 or shares of 1.
        grid: rows and columns of regions; None: no lines.
        boxes: (left, top, right, bottom) in pixels.
    """
    pixels = _pixels(image)
    height, width = pixels.shape[:2]
    across = min(7.2, 3.2 * width / height)
    ax = (
        ax
        if ax is not None
        else plt.subplots(figsize=(across, across * height / width + 0.3), layout="constrained")[1]
    )
    ax.imshow(pixels, interpolation="nearest")
    for count, size, line in (
        ((grid[0], height, ax.axhline), (grid[1], width, ax.axvline)) if grid else ()
    ):
        for k in range(1, count):
            line(k * size / count - 0.5, color="#888888", linewidth=0.6)
    _frame(ax, boxes, COLORS[1])
    ax.set_title(title, fontsize=10)
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    ax.grid(False)
    return ax.figure


def picture_words(
    image,
    words: Sequence[str],
    weights,
    grid: tuple[int, int],
    *,
    boxes: Sequence[Sequence] | None = None,
    columns: int = 4,
) -> Figure:
    """Draw the picture once a word, each region as bright as its weight at that word; the largest
    weight stands beside the word.

    Args:
        image: ``(3, H, W)``, uint8 or shares of 1.
        words: the caption.
        weights: ``(m, rows · columns)`` with m ≥ len(words), a row a word; each is drawn relative
            to its largest weight.
        grid: rows and columns of regions.
        boxes: for each word the (left, top, right, bottom) of what it names; framed.
        columns: small pictures a line; the first one is the picture as it is.

    Raises:
        ValueError: if weights, grid and words do not fit.

    Source: figure 2 of Xu et al. 2015; figure 7 of Weng 2018.
    """
    pixels, matrix = _pixels(image), as_array("weights", weights, 2)
    height, width = pixels.shape[:2]
    if matrix.shape[0] < len(words) or matrix.shape[1] != grid[0] * grid[1]:
        raise ValueError(
            f"weights must be at least ({len(words)}, {grid[0] * grid[1]}), a row a word and a "
            f"column a region, "
            f"got shape {matrix.shape}"
        )
    if height % grid[0] or width % grid[1]:
        raise ValueError(f"grid must divide a picture of {height} by {width} pixels, got {grid}")
    rows = -(-(len(words) + 1) // columns)
    fig, axes = plt.subplots(
        rows,
        columns,
        figsize=(1.85 * columns, (1.75 * height / width + 0.35) * rows),
        squeeze=False,
        layout="constrained",
    )
    for ax in axes.flat:
        ax.axis("off")
    axes.flat[0].imshow(pixels, interpolation="nearest")
    axes.flat[0].set_title("the picture", fontsize=9.5, color="#555555", style="italic")
    for k, word in enumerate(words):
        ax, share = axes.flat[k + 1], matrix[k].reshape(grid)
        light = np.kron(
            share / max(share.max(), 1e-12), np.ones((height // grid[0], width // grid[1]))
        )[..., None]
        ax.imshow(pixels * (0.22 + 0.78 * light), interpolation="nearest")
        ax.set_title(f"{plain(word)}  {share.max():.2f}", fontsize=9.5)
        _frame(ax, boxes[k] if boxes is not None else (), COLORS[1])
    return fig
