"""Dependency trees: each word at its place in the sentence and at its depth, joined to its head."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from ...validate import require
from ..canvas import axes_of, centred, figure_of, line, plain
from ..styling import COLORS

__all__ = ["dependency_tree"]


def dependency_tree(
    words: Sequence[str],
    heads: Sequence[int],
    *,
    notes: Sequence[object] | None = None,
    marked: Sequence[int] = (),
) -> Figure:
    """Draw a dependency tree: from left to right the sentence, from top to bottom the depth.

    Args:
        words: The sentence.
        heads: For each word the position of its head, −1 for the root.
        notes: Something to write under each word, such as its distance from a marked one.
        marked: Positions of words in an orange frame.

    Source: the usual drawing; depth as in Wang, Tu, Wang and Shi 2019.
    """
    n = len(words)
    require(
        n == len(heads) > 0 and (notes is None or len(notes) == n),
        f"heads and notes must hold one entry per word ({n}), got {len(heads)} and "
        f"{None if notes is None else len(notes)}",
    )
    depth = _depths([int(head) for head in heads])
    deepest = max(depth)
    ax = axes_of(None, min(8.2, 0.56 * n + 0.9), 0.62 * (deepest + 1) + 0.5)
    for level in range(deepest + 1):
        ax.axhline(-level, color="#e3e3dd", linewidth=0.8, linestyle="-", zorder=0)
    for word, head in enumerate(heads):
        if head >= 0:
            line(ax, ((head, word), (-depth[head], -depth[word])), COLORS[0], 1.1, zorder=1)
    for k, word in enumerate(words):
        edge, width = (COLORS[1], 1.6) if k in marked else ("#bbbbbb", 0.7)
        box = dict(boxstyle="round,pad=0.2", facecolor="#ffffff", edgecolor=edge, linewidth=width)
        centred(ax, k, -depth[k], plain(word), 9, zorder=3, bbox=box)
        if notes is not None:
            style = dict(zorder=4, bbox=dict(facecolor="#fbfbf8", edgecolor="none", pad=0.6))
            centred(ax, k, -depth[k] - 0.36, notes[k], 8.5, color=COLORS[1], **style)
    ax.set(xlim=(-0.7, n - 0.3), ylim=(-deepest - 0.6, 0.45), ylabel="depth")
    ax.set_yticks(range(-deepest, 1), [str(level) for level in range(deepest, -1, -1)])
    ax.set_xticks([])
    ax.grid(False)
    ax.tick_params(length=0)
    ax.spines[["left", "bottom"]].set_visible(False)
    return figure_of(ax)


def _depths(heads: list[int]) -> list[int]:
    """The number of steps from each word to the root."""
    depths = []
    for word in range(len(heads)):
        steps = 0
        while heads[word] >= 0 and heads[word] < len(heads) and steps <= len(heads):
            word, steps = heads[word], steps + 1
        depths.append(steps if heads[word] < 0 else len(heads))
    one_root = depths.count(0) == 1 and max(depths) < len(heads)
    require(one_root, f"heads must lead to one root (−1), got {heads}")
    return depths
