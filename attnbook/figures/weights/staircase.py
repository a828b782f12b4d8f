"""A figure of self-attention: the sentence again and again, one word longer each time."""

from collections.abc import Collection, Sequence
from typing import Any

from matplotlib.figure import Figure

from ...validate import require
from ..canvas import as_array, axes_of, centred, figure_of, frame, rectangle, shade
from ..styling import COLORS

__all__ = ["word_staircase"]


def word_staircase(
    words: Sequence[str], weights: Any, *, gold: Sequence[Collection[int]] | None = None
) -> Figure:
    """Draw what each word attends to among the earlier ones: a line per word, the word in orange at
    its end, earlier words on rectangles as dark as their weight.

    Args:
        words: The sentence, n words.
        weights: ``(n, n)``, row t the weights of word t over the words before it; on and above the
            diagonal 0.
        gold: For every word the positions that it should attend to, which are framed.

    Source: the idea of figure 1 of Cheng, Dong and Lapata 2016, which is figure 6 of Weng 2018.
    """
    n = len(words)
    require(n > 1, f"words must be at least two, got {n}")
    matrix = as_array("weights", weights, (n, n))
    require(
        all(matrix[t, j] == 0 for t in range(n) for j in range(t, n)),
        "weights must be 0 on the diagonal and above it: a word attends to earlier words only",
    )
    widths = [0.13 * len(word) + 0.22 for word in words]
    places = [sum(widths[:j]) for j in range(n)]
    scale = min(0.8, 7.4 / sum(widths))  # inches per unit
    ax = axes_of(None, scale * sum(widths) + 0.2, 0.29 * (n - 1) + 0.2)
    size = min(10.0, 8.4 * scale / 0.62)
    for t in range(1, n):
        y = 1 - t
        for j in range(t):
            x, width = places[j] + 0.02, widths[j] - 0.04
            rectangle(ax, x, y - 0.42, width, 0.84, color=shade(0.9 * matrix[t, j]), lw=0)
        for j in range(t + 1):
            ink = COLORS[1] if j == t else "#ffffff" if matrix[t, j] > 0.6 else "#222222"
            style = dict(family="monospace", color=ink, weight="bold" if j == t else "normal")
            centred(ax, places[j] + widths[j] / 2, y, words[j], size, **style)
        for j in gold[t] if gold else ():
            frame(ax, places[j] + 0.03, y - 0.41, widths[j] - 0.06, 0.82, linewidth=1.5)
    ax.set(xlim=(-0.05, sum(widths) + 0.05), ylim=(1 - n + 0.45, 0.55))
    ax.axis("off")
    return figure_of(ax)
