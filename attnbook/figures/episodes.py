"""Episodes of few-shot classification: examples with their labels, the picture to name, and
where it looks.
"""

from __future__ import annotations

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from .style import CMAP, COLORS
from .weights.alignment import as_array

__all__ = ["episode_rows"]


def episode_rows(support, labels, query, *, answers=None, weights=None, said=None) -> Figure:
    """Draw episodes, one a row: the examples with their labels, then the picture to name.

    Args:
        support: ``(R, S, size, size)``, grey, ink is large.
        labels: ``(R, S)``, whole numbers.
        query: ``(R, size, size)``.
        answers: ``(R,)``, the true classes; examples of that class get a frame.
        weights: ``(R, S + 1)``, where the query looks, itself last; a bar under each picture, as
            long as its weight.
        said: ``(R,)``, what a network answers; written under the query, which is marked where it is
            wrong.

    Raises:
        ValueError: for shapes that do not fit.
    """
    pictures, asked, classes = (
        as_array("support", support, 4),
        as_array("query", query, 3),
        as_array("labels", labels, 2).astype(int),
    )
    rows, examples = pictures.shape[:2]
    if asked.shape != (rows, *pictures.shape[2:]) or classes.shape != (rows, examples):
        raise ValueError(
            f"query and labels must be {(rows, *pictures.shape[2:])} and {(rows, examples)} for "
            f"this support, got "
            f"{asked.shape} and {classes.shape}"
        )
    true = None if answers is None else _one_a_row("answers", answers, rows)
    named = None if said is None else _one_a_row("said", said, rows)
    shares = None if weights is None else as_array("weights", weights, 2)
    if shares is not None and shares.shape != (rows, examples + 1):
        raise ValueError(
            f"weights must be {(rows, examples + 1)}, one for each example and one for the query "
            f"itself, got {shares.shape}"
        )
    fig, axes = plt.subplots(
        rows,
        examples + 1,
        figsize=(min(8.2, 0.98 * (examples + 1) + 0.4), (1.22 if shares is None else 1.4) * rows),
        squeeze=False,
        layout="constrained",
    )
    size = pictures.shape[-1]
    for r in range(rows):
        for s in range(examples + 1):
            ax, own = axes[r][s], s == examples
            ax.imshow(
                asked[r] if own else pictures[r, s],
                cmap="Greys",
                vmin=0,
                vmax=max(1.0, pictures.max()),
                interpolation="nearest",
            )
            ax.set(xticks=[], yticks=[])
            ax.grid(False)
            for side in ax.spines.values():
                side.set_visible(True)
                side.set_color("#bbbbbb")
            if true is not None and not own and classes[r, s] == true[r]:
                ax.add_patch(
                    Rectangle(
                        (-0.5, -0.5), size, size, fill=False, edgecolor=COLORS[1], linewidth=3
                    )
                )
            text, color = (
                str(classes[r, s]) if not own else "?" if named is None else f"says {named[r]}",
                "#222222",
            )
            if own and named is not None and true is not None and named[r] != true[r]:
                text, color = f"{text}, is {true[r]}", COLORS[1]
            ax.set_title(text, fontsize=10, color=color, pad=3)
            if shares is not None:
                share = shares[r, s]
                ax.add_patch(
                    Rectangle(
                        (-0.5, size + 1),
                        size * share,
                        0.14 * size,
                        clip_on=False,
                        color=plt.get_cmap(CMAP)(0.8),
                    )
                )
                inside = share > 0.45  # the number stands in a long bar, behind a short one
                ax.text(
                    0.3 if inside else size - 0.5,
                    size + 1 + 0.07 * size,
                    f"{share:.2f}",
                    ha="left" if inside else "right",
                    va="center",
                    fontsize=8,
                    clip_on=False,
                    color="#ffffff" if inside else "#222222",
                )
    return fig


def _one_a_row(name: str, values, rows: int) -> np.ndarray:
    array = as_array(name, values, 1).astype(int)
    if len(array) != rows:
        raise ValueError(f"{name} must hold {rows} numbers, one a row, got {len(array)}")
    return array
