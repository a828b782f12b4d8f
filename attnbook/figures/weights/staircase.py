"""A figure of self-attention: the sentence again and again, one word longer each time."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ..style import CMAP, COLORS
from .alignment import as_array

__all__ = ["word_staircase"]


def word_staircase(
    words: Sequence[str],
    weights,
    *,
    gold: Sequence[Collection[int]] | None = None,
    first: int = 1,
    ax=None,
) -> Figure:
    """Draw what each word attends to among the earlier ones: a line a word, the word in orange at
    its end, earlier words on fields as dark as their weight.

    Args:
        words: the sentence, n words.
        weights: ``(n, n)``, row t the weights of word t over the words before it; what lies on or
            above the diagonal must be 0.
        gold: for every word the positions that it should look at; framed.
        first: the first line to draw.
        ax: axes to draw on; a new figure when not given.

    Raises:
        ValueError: for another shape, or weight on a word itself or on a later one.

    Source: the idea of figure 1 of Cheng, Dong and Lapata 2016, which is figure 6 of Weng 2018.
    """
    matrix, n = as_array("weights", weights, 2), len(words)
    if matrix.shape != (n, n):
        raise ValueError(
            f"weights must be ({n}, {n}), a row and a column a word, got shape {matrix.shape}"
        )
    if any(matrix[t, j] != 0 for t in range(n) for j in range(t, n)):
        raise ValueError(
            "weights must be 0 on the diagonal and above it: a word looks at earlier words only"
        )
    if not 0 <= first < n:
        raise ValueError(f"first must be a line from 0 to {n - 1}, got {first}")
    widths = [0.13 * len(word) + 0.22 for word in words]
    places = [sum(widths[:j]) for j in range(n)]
    scale = min(0.8, 7.4 / sum(widths))  # inches a unit
    ax = (
        ax
        if ax is not None
        else plt.subplots(
            figsize=(scale * sum(widths) + 0.2, 0.29 * (n - first) + 0.2), layout="constrained"
        )[1]
    )
    size = min(10.0, 8.4 * scale / 0.62)
    colors = plt.get_cmap(CMAP)
    for t in range(first, n):
        y = first - t
        for j in range(t + 1):
            weight = matrix[t, j]
            ink = COLORS[1] if j == t else "#ffffff" if weight > 0.6 else "#222222"
            if j < t:
                ax.add_patch(
                    Rectangle(
                        (places[j] + 0.02, y - 0.42),
                        widths[j] - 0.04,
                        0.84,
                        color=colors(0.9 * weight),
                        lw=0,
                    )
                )
            ax.text(
                places[j] + widths[j] / 2,
                y,
                words[j],
                ha="center",
                va="center",
                fontsize=size,
                family="monospace",
                color=ink,
                weight="bold" if j == t else "normal",
            )
        for j in gold[t] if gold else ():
            ax.add_patch(
                Rectangle(
                    (places[j] + 0.03, y - 0.41),
                    widths[j] - 0.06,
                    0.82,
                    fill=False,
                    edgecolor=COLORS[1],
                    linewidth=1.5,
                )
            )
    ax.set(xlim=(-0.05, sum(widths) + 0.05), ylim=(first - n + 0.45, 0.55))
    ax.axis("off")
    return ax.figure
