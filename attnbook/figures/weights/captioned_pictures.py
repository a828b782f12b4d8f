"""Pictures, and attention over them: one small picture per word, bright where the weight is."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from ...validate import require
from ..canvas import as_array, axes_of, figure_of, frame, panels, plain

__all__ = ["picture", "picture_words"]


def _pixels(image: Any) -> np.ndarray:
    """A picture ``(3, H, W)``, up to 255 or shares of 1, as ``(H, W, 3)`` from 0 to 1."""
    floating = getattr(image, "is_floating_point", lambda: np.asarray(image).dtype.kind == "f")()
    array = as_array("image", image, 3) / (1 if floating else 255)
    require(
        array.shape[0] == 3 and array.min() >= 0 and array.max() <= 1,
        f"image must be (3, height, width), 0 to 255 or 0 to 1, got shape {array.shape} up to "
        f"{array.max():g}",
    )
    return array.transpose(1, 2, 0)


def _frames(ax: Axes, boxes: Sequence) -> None:
    for left, top, right, bottom in boxes:
        frame(ax, left - 0.5, top - 0.5, right - left, bottom - top)


def picture(
    image: Any,
    *,
    grid: tuple[int, int] | None = None,
    boxes: Sequence = (),
    title: str = "",
    ax: Axes | None = None,
) -> Figure:
    """Draw a picture, with the lines of its regions and frames around objects.

    Args:
        image: ``(3, H, W)``, uint8 or shares of 1.
        grid: rows and columns of regions; None: no lines.
        boxes: (left, top, right, bottom) in pixels.
    """
    pixels = _pixels(image)
    height, width = pixels.shape[:2]
    across = min(7.2, 3.2 * width / height)
    ax = axes_of(ax, across, across * height / width + 0.3)
    ax.imshow(pixels, interpolation="nearest")
    for count, size, line in zip(grid or (), (height, width), (ax.axhline, ax.axvline)):
        for k in range(1, count):
            line(k * size / count - 0.5, color="#888888", linewidth=0.6)
    _frames(ax, boxes)
    ax.set_title(title, fontsize=10)
    ax.set(xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    ax.grid(False)
    return figure_of(ax)


def picture_words(
    image, words: Sequence[str], weights, grid: tuple[int, int], *, boxes: Sequence | None = None
) -> Figure:
    """Draw the picture once per word of its caption, bright where the weight at that word is; the
    largest weight is written beside the word.

    Args:
        image: ``(3, H, W)``, uint8 or shares of 1.
        words: The caption.
        weights: ``(m, rows · columns)`` with m ≥ len(words), a row per word; each is drawn relative
            to its largest weight.
        grid: Rows and columns of regions.
        boxes: For each word the (left, top, right, bottom) of what it names; framed.

    Source: figure 2 of Xu et al. 2015; figure 7 of Weng 2018.
    """
    pixels, matrix = _pixels(image), as_array("weights", weights, 2)
    height, width = pixels.shape[:2]
    regions = grid[0] * grid[1]
    require(
        matrix.shape[0] >= len(words) and matrix.shape[1] == regions,
        f"weights must be at least ({len(words)}, {regions}), a row per word and a column per "
        f"region, got shape {matrix.shape}",
    )
    divides = height % grid[0] == width % grid[1] == 0
    require(divides, f"grid must divide a picture of {height} by {width} pixels, got {grid}")
    fig, axes = panels(len(words) + 1, 4, 1.85, 1.75 * height / width + 0.35)
    axes[0].axis("off")
    axes[0].imshow(pixels, interpolation="nearest")
    axes[0].set_title("the picture", fontsize=9.5, color="#555555", style="italic")
    region = np.ones((height // grid[0], width // grid[1]))
    for k, (ax, word) in enumerate(zip(axes[1:], words)):
        ax.axis("off")
        weight = matrix[k].reshape(grid)
        light = np.kron(weight / max(weight.max(), 1e-12), region)[..., None]
        ax.imshow(pixels * (0.22 + 0.78 * light), interpolation="nearest")
        ax.set_title(f"{plain(word)}  {weight.max():.2f}", fontsize=9.5)
        _frames(ax, boxes[k] if boxes is not None else ())
    return fig
