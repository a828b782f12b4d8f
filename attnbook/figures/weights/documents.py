"""Documents and stories: sentences with words shaded by weight, and the weights of each hop."""

from collections.abc import Collection, Sequence
from typing import Any

from matplotlib.figure import Figure

from ...validate import require
from ..canvas import as_array, axes_of, centred, figure_of, frame, heat, plain, rectangle, shade
from ..styling import COLORS

__all__ = ["document_heat", "memory_hops"]


def document_heat(
    sentences: Sequence[Sequence[str]],
    word_weights: Any,
    sentence_weights: Any,
    *,
    marked: Collection[tuple[int, int]] = (),
) -> Figure:
    """Write a document, one sentence per line: a bar in front for the weight of the sentence, and
    each word on a rectangle as dark as the weight of the word within it times the root of the
    sentence's, so that words of unimportant sentences stay pale.

    Args:
        sentences: n sequences of words.
        word_weights: ``(n, words)``, rows at least as long as their sentence.
        sentence_weights: ``(n,)``.
        marked: (sentence, word) places to frame.

    Source: the idea of figures 5 and 6 of Yang et al. 2016.
    """
    words = as_array("word_weights", word_weights, 2)
    rows = as_array("sentence_weights", sentence_weights, 1)
    n, longest = len(sentences), max((len(row) for row in sentences), default=0)
    require(
        0 < n <= min(len(rows), words.shape[0]) and longest <= words.shape[1],
        f"weights must cover {n} sentences of up to {longest} words, got shapes {words.shape} and "
        f"{rows.shape}",
    )
    widths = [[0.095 * len(word) + 0.14 for word in row] for row in sentences]
    across = 1.15 + max(sum(row) for row in widths)
    ax = axes_of(None, min(7.6, across), 0.36 * n + 0.2)
    for i, row in enumerate(sentences):
        rectangle(ax, 0, -i - 0.34, 0.7 * rows[i], 0.68, color=COLORS[1], lw=0)
        centred(ax, 1.0, -i, f"{rows[i]:.2f}", 8.5, ha="right", color="#333333")
        x = 1.12
        for j, (word, width) in enumerate(zip(row, widths[i])):
            weight = words[i, j] * rows[i] ** 0.5
            rectangle(ax, x, -i - 0.38, width, 0.76, color=shade(0.85 * weight), lw=0)
            if (i, j) in marked:
                frame(ax, x, -i - 0.38, width, 0.76, zorder=3)
            ink = "#ffffff" if weight > 0.6 else "#222222"
            centred(ax, x + width / 2, -i, plain(word), 9, family="monospace", color=ink)
            x += width
    ax.set(xlim=(-0.05, across), ylim=(-n + 0.4, 0.6))
    ax.axis("off")
    return figure_of(ax)


def memory_hops(
    sentences: Sequence[str], weights: Any, *, supporting: Collection[int] = (), title: str = ""
) -> Figure:
    """Write a story, one sentence per line, with a column per hop: the darker, the more weight.

    Args:
        sentences: n lines of text.
        weights: ``(hops, n)`` or more columns, which are cut off.
        supporting: The sentences that the answer needs, which are framed.
        title: The question and its answer.

    Source: the idea of figure 2 of Sukhbaatar et al. 2015.
    """
    array, n = as_array("weights", weights, 2), len(sentences)
    require(0 < n <= array.shape[1], f"weights must cover {n} sentences, got shape {array.shape}")
    array, hops = array[:, :n], len(array)
    ax = axes_of(None, 3.4 + 0.75 * hops, 0.32 * n + 0.8)
    heat(ax, array.T)
    for k, row in enumerate(array):
        for i, weight in enumerate(row):
            if weight >= 0.005:
                ink = "#ffffff" if weight > 0.6 else "#222222"
                centred(ax, k, i, f"{weight:.2f}", 8.5, color=ink)
    for i in supporting:
        frame(ax, -0.5, i - 0.5, hops, 1, clip_on=False)
    ax.set_xticks(range(hops), [f"hop {k + 1}" for k in range(hops)])
    ax.set_yticks(range(n), list(map(plain, sentences)))
    ax.tick_params(length=0)
    ax.grid(False)
    if title:
        ax.set_title(plain(title), loc="left", fontsize=10)
    return figure_of(ax)
