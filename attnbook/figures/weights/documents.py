"""Figures of documents and stories: sentences with their words shaded by weight, and where each
hop looks.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from ..style import CMAP, COLORS
from .alignment import as_array, plain

__all__ = ["document_heat", "memory_hops"]


def document_heat(
    sentences: Sequence[Sequence[str]],
    word_weights,
    sentence_weights,
    *,
    marked: Collection[tuple[int, int]] = (),
    ax=None,
) -> Figure:
    """Write a document, one sentence a line: a bar in front for the weight of the sentence, and
    each word on a field as dark as the weight of the word within it times the root of the
    sentence's, so that words of unimportant sentences stay pale.

    Args:
        sentences: n sequences of words.
        word_weights: ``(n, words)``, rows at least as long as their sentence.
        sentence_weights: ``(n,)``.
        marked: (sentence, word) places to frame.
        ax: axes to draw on; a new figure when not given.

    Raises:
        ValueError: if there are fewer weights than words or sentences.

    Source: the idea of figures 5 and 6 of Yang et al. 2016.
    """
    words, rows = (
        as_array("word_weights", word_weights, 2),
        as_array("sentence_weights", sentence_weights, 1),
    )
    longest = max((len(row) for row in sentences), default=0)
    if (
        len(sentences) == 0
        or len(rows) < len(sentences)
        or words.shape[0] < len(sentences)
        or words.shape[1] < longest
    ):
        raise ValueError(
            f"weights must cover {len(sentences)} sentences of up to {longest} words, got shapes "
            f"{words.shape} and {rows.shape}"
        )
    widths = [[0.095 * len(word) + 0.14 for word in row] for row in sentences]
    across = 1.15 + max(sum(row) for row in widths)
    ax = (
        ax
        if ax is not None
        else plt.subplots(
            figsize=(min(7.6, across), 0.36 * len(sentences) + 0.2), layout="constrained"
        )[1]
    )
    for i, row in enumerate(sentences):
        ax.add_patch(Rectangle((0, -i - 0.34), 0.7 * rows[i], 0.68, color=COLORS[1], lw=0))
        ax.text(1.0, -i, f"{rows[i]:.2f}", ha="right", va="center", fontsize=8.5, color="#333333")
        x = 1.12
        for j, word in enumerate(row):
            shade = words[i, j] * rows[i] ** 0.5
            ax.add_patch(
                Rectangle(
                    (x, -i - 0.38), widths[i][j], 0.76, color=plt.get_cmap(CMAP)(0.85 * shade), lw=0
                )
            )
            if (i, j) in marked:
                ax.add_patch(
                    Rectangle(
                        (x, -i - 0.38),
                        widths[i][j],
                        0.76,
                        fill=False,
                        edgecolor=COLORS[1],
                        lw=1.6,
                        zorder=3,
                    )
                )
            ax.text(
                x + widths[i][j] / 2,
                -i,
                plain(word),
                ha="center",
                va="center",
                fontsize=9,
                family="monospace",
                color="#ffffff" if shade > 0.6 else "#222222",
            )
            x += widths[i][j]
    ax.set(xlim=(-0.05, across), ylim=(-len(sentences) + 0.4, 0.6))
    ax.axis("off")
    return ax.figure


def memory_hops(
    sentences: Sequence[str], weights, *, supporting: Collection[int] = (), title: str = "", ax=None
) -> Figure:
    """Write a story, one sentence a line, with a column a hop: the darker, the more weight.
    Supporting sentences framed.

    Args:
        sentences: n lines of text.
        weights: ``(hops, n)`` or more columns, which are cut off.
        supporting: which sentences the answer needs.
        title: the question and its answer.

    Raises:
        ValueError: if there are fewer weights than sentences.

    Source: the idea of figure 2 of Sukhbaatar et al. 2015.
    """
    array = as_array("weights", weights, 2)
    if len(sentences) == 0 or array.shape[1] < len(sentences):
        raise ValueError(f"weights must cover {len(sentences)} sentences, got shape {array.shape}")
    hops, n = len(array), len(sentences)
    ax = (
        ax
        if ax is not None
        else plt.subplots(figsize=(3.4 + 0.75 * hops, 0.32 * n + 0.8), layout="constrained")[1]
    )
    ax.imshow(array[:, :n].T, cmap=CMAP, vmin=0, vmax=1, aspect="auto")
    for k in range(hops):
        for i in range(n):
            if array[k, i] >= 0.005:
                ax.text(
                    k,
                    i,
                    f"{array[k, i]:.2f}",
                    ha="center",
                    va="center",
                    fontsize=8.5,
                    color="#ffffff" if array[k, i] > 0.6 else "#222222",
                )
    for i in supporting:
        ax.add_patch(
            Rectangle(
                (-0.5, i - 0.5),
                hops,
                1,
                fill=False,
                edgecolor=COLORS[1],
                linewidth=1.6,
                clip_on=False,
            )
        )
    ax.set_xticks(range(hops), [f"hop {k + 1}" for k in range(hops)])
    ax.set_yticks(range(n), list(map(plain, sentences)))
    ax.tick_params(length=0)
    ax.grid(False)
    if title:
        ax.set_title(plain(title), loc="left", fontsize=10)
    return ax.figure
