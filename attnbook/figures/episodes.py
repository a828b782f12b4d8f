"""Episodes of few-shot classification: examples with their labels, the query, and its weights."""

from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from .canvas import as_array, centred, frame, outline, rectangle, shade
from .styling import COLORS

__all__ = ["episode_rows"]


def episode_rows(support, labels, query, *, answers=None, weights=None, said=None) -> Figure:
    """Draw episodes, one per row: the examples with their labels, then the query.

    Args:
        support: ``(R, S, size, size)``, grey, ink is large.
        labels: ``(R, S)``, integers.
        query: ``(R, size, size)``.
        answers: ``(R,)``, the true classes; examples of that class get a frame.
        weights: ``(R, S + 1)``, those of the query over the examples and itself; a bar under each
            picture, as long as its weight.
        said: ``(R,)``, the answers of a network, written over the query; wrong ones are marked.
    """
    pictures = as_array("support", support, 4)
    rows, examples, size = pictures.shape[:3]
    queries = as_array("query", query, (rows, *pictures.shape[2:]))
    classes = as_array("labels", labels, (rows, examples)).astype(int)
    true = None if answers is None else as_array("answers", answers, (rows,)).astype(int)
    predicted = None if said is None else as_array("said", said, (rows,)).astype(int)
    shares = None if weights is None else as_array("weights", weights, (rows, examples + 1))
    columns, height = examples + 1, 1.22 if shares is None else 1.4
    figsize = (min(8.2, 0.98 * columns + 0.4), height * rows)
    fig, axes = plt.subplots(rows, columns, figsize=figsize, squeeze=False, layout="constrained")
    for r in range(rows):
        for s, ax in enumerate(axes[r]):
            image = pictures[r, s] if s < examples else queries[r]
            top = max(1.0, pictures.max())
            ax.imshow(image, cmap="Greys", vmin=0, vmax=top, interpolation="nearest")
            ax.set(xticks=[], yticks=[])
            outline(ax)
            color = "#222222"
            if s < examples:
                text = str(classes[r, s])
                if true is not None and classes[r, s] == true[r]:
                    frame(ax, -0.5, -0.5, size, size, linewidth=3)
            else:
                text = "?" if predicted is None else f"says {predicted[r]}"
                if predicted is not None and true is not None and predicted[r] != true[r]:
                    text, color = f"{text}, is {true[r]}", COLORS[1]
            ax.set_title(text, fontsize=10, color=color, pad=3)
            if shares is not None:
                share, y = shares[r, s], size + 1
                style = dict(clip_on=False, color=shade(0.8))
                rectangle(ax, -0.5, y, size * share, 0.14 * size, **style)
                # the number stands in a long bar, beside a short one
                inside = 0.3, "left", "#ffffff"
                x, ha, ink = inside if share > 0.45 else (size - 0.5, "right", "#222222")
                text = f"{share:.2f}"
                centred(ax, x, y + 0.07 * size, text, 8, ha=ha, clip_on=False, color=ink)
    return fig
