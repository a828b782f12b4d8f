"""Dependency trees: each word at its place in the sentence and at its depth, joined to its head."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from ..style import COLORS
from .alignment import plain

__all__ = ["dependency_tree"]


def dependency_tree(
    words: Sequence[str],
    heads: Sequence[int],
    *,
    notes: Sequence[object] | None = None,
    marked: Sequence[int] = (),
    ax=None,
) -> Figure:
    """Draw a dependency tree: from left to right the sentence, from top to bottom the depth.

    Args:
        words: the sentence.
        heads: of each word the position of its head, −1 for the root.
        notes: something to write under each word, such as its distance from a marked one.
        marked: positions of words in an orange frame.
        ax: axes to draw on; a new figure when not given.

    Raises:
        ValueError: for no words, numbers of heads or notes that do not fit, or heads that do not
            lead to one root.

    Source: the usual drawing; depth as in Wang, Tu, Wang and Shi 2019.
    """
    n = len(words)
    if not n or len(heads) != n or (notes is not None and len(notes) != n):
        raise ValueError(
            f"heads and notes must hold one entry a word ({n}), got {len(heads)} and "
            f"{None if notes is None else len(notes)}"
        )
    depth = _depths([int(head) for head in heads])
    deepest = max(depth)
    ax = (
        ax
        if ax is not None
        else plt.subplots(
            figsize=(min(8.2, 0.56 * n + 0.9), 0.62 * (deepest + 1) + 0.5), layout="constrained"
        )[1]
    )
    for level in range(deepest + 1):
        ax.axhline(-level, color="#e3e3dd", linewidth=0.8, linestyle="-", zorder=0)
    for word, head in enumerate(heads):
        if head >= 0:
            ax.plot(
                [head, word],
                [-depth[head], -depth[word]],
                color=COLORS[0],
                linewidth=1.1,
                linestyle="-",
                zorder=1,
            )
    for k, word in enumerate(words):
        edge = COLORS[1] if k in marked else "#bbbbbb"
        ax.text(
            k,
            -depth[k],
            plain(word),
            ha="center",
            va="center",
            fontsize=9,
            zorder=3,
            bbox=dict(
                boxstyle="round,pad=0.2",
                facecolor="#ffffff",
                edgecolor=edge,
                linewidth=1.6 if k in marked else 0.7,
            ),
        )
        if notes is not None:
            ax.text(
                k,
                -depth[k] - 0.36,
                str(notes[k]),
                ha="center",
                va="center",
                fontsize=8.5,
                color=COLORS[1],
                zorder=4,
                bbox=dict(facecolor="#fbfbf8", edgecolor="none", pad=0.6),
            )
    ax.set(xlim=(-0.7, n - 0.3), ylim=(-deepest - 0.6, 0.45), ylabel="depth")
    ax.set_yticks(range(-deepest, 1), [str(level) for level in range(deepest, -1, -1)])
    ax.set_xticks([])
    ax.grid(False)
    ax.tick_params(length=0)
    for side in ("left", "bottom"):
        ax.spines[side].set_visible(False)
    return ax.figure


def _depths(heads: list[int]) -> list[int]:
    found = []
    for word in range(len(heads)):
        steps = 0
        while heads[word] >= 0:
            if heads[word] >= len(heads) or steps > len(heads):
                raise ValueError(f"heads must lead to one root (−1), got {heads}")
            word, steps = heads[word], steps + 1
        found.append(steps)
    if found.count(0) != 1:
        raise ValueError(f"heads must lead to one root (−1), got {heads}")
    return found
