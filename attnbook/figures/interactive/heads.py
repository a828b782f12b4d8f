"""Every head of a model to look at: one sentence, a map for each head, the weights of a word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from ..canvas import as_array, plain
from ..styling import CMAP
from .figure import InteractiveFigure

__all__ = ["head_viewer", "view_heads"]

START, END = "⟨s⟩", "⟨/s⟩"


class _Part(NamedTuple):
    name: str
    weights: np.ndarray  # (layers, h, m, n)
    rows: tuple[str, ...]
    columns: tuple[str, ...]


def head_viewer(
    weights,
    rows: Sequence[str],
    columns: Sequence[str] | None = None,
    *,
    name: str = "self-attention",
    layer: int = 0,
    head: int = 0,
    row: int = 0,
) -> InteractiveFigure:
    """Show the weights of one sentence, a head at a time: a map, and for one word the numbers, to
    three digits. The reader chooses layer, head and word.

    Args:
        weights: ``(layers, h, m, n)``, or ``(h, m, n)``, or ``(m, n)``, each between 0 and 1. More
            rows and columns than tokens (padding) are cut off.
        rows: the m tokens that look.
        columns: the n tokens that are looked at; the rows again when not given.
        name: what the attention is called.
        layer, head, row: what is shown first, counted from 0. (The viewer itself counts from 1.)

    Source: the idea of figures 3 to 5 of Vaswani et al. 2017, and of the tools after it.
    """
    part = _part("weights", name, weights, rows, rows if columns is None else columns)
    return _figure([part], _first([part], 0, layer, head, row))


def view_heads(
    weights,
    source: Sequence[str],
    target: Sequence[str] | None = None,
    *,
    index: int = 0,
    part: str | None = None,
    layer: int = 0,
    head: int = 0,
    row: int = 0,
) -> InteractiveFigure:
    """Show the weights that a model returns, one sentence of its batch.

    Args:
        weights: what came with ``need_weights=True``: one tensor ``(batch, h, m, n)``; or a
            sequence of them, one a layer; or several such sequences by name, as the fields of
            :class:`~attnbook.models.transformer.encoder_decoder.HeadWeights` (encoder, decoder,
            cross) or a dict.
        source: the tokens of the source. With one tensor or sequence and no target, these look and
            are looked at.
        target: the tokens of the target, without begin and end. A row of the decoder is named for
            the token that it writes; what it looks at, of its own sentence, for the token that was
            read.
        index: which sentence of the batch.
        part: which attention is shown first, by name; the first one when not given.
        layer, head, row: as in :func:`head_viewer`.
    """
    named = weights._asdict() if hasattr(weights, "_asdict") else weights
    if not isinstance(named, Mapping):
        named = {"encoder" if target is None else "cross": named}
    titles = {
        "encoder": "encoder",
        "decoder": "decoder, over the target",
        "cross": "decoder, over the source",
    }
    if not named or set(named) - set(titles):
        raise ValueError(
            f"weights must be named {', '.join(titles)}, got {', '.join(map(str, named)) or 'none'}"
        )
    if target is None and set(named) - {"encoder"}:
        raise ValueError(
            f"target must be given for weights named "
            f"{', '.join(sorted(set(named) - {'encoder'}))}, got None"
        )
    written, read = [*(target or ()), END], [START, *(target or ())]
    tokens = {"encoder": (source, source), "decoder": (written, read), "cross": (written, source)}
    parts = [
        _part(f"weights of {key}", titles[key], _of_sentence(key, value, index), *tokens[key])
        for key, value in named.items()
    ]
    if part is not None and part not in named:
        raise ValueError(f"part must be one of {', '.join(named)}, got {part!r}")
    first = 0 if part is None else list(named).index(part)
    return _figure(parts, _first(parts, first, layer, head, row))


def _figure(parts: Sequence[_Part], first: tuple[int, int, int, int]) -> InteractiveFigure:
    shown = "; ".join(
        f"{p.name}: {_many(p.weights.shape[0], 'layer')} of {_many(p.weights.shape[1], 'head')}, "
        f"{len(p.rows)} by {len(p.columns)} words"
        for p in parts
    )
    label = f"Attention weights of every head as small maps, darker is more weight. {shown}."
    data = {
        "parts": [
            {
                "name": p.name, "rows": p.rows, "columns": p.columns,
                "weights": np.rint(1000 * p.weights).astype(int),
            }
            for p in parts
        ],
        "first": first,
    }  # fmt: skip
    return InteractiveFigure("heads", label, data, _still(parts))


def _of_sentence(key: str, value, index: int) -> np.ndarray:
    layers = [value] if hasattr(value, "shape") else list(value)
    if not layers or any(one is None for one in layers):
        raise ValueError(
            f"weights of {key} must hold a tensor for each layer, got "
            f"{'none' if not layers else 'None'}: ask the model "
            "with need_weights=True"
        )
    arrays = [as_array(f"weights of {key}", one, 4) for one in layers]
    if len({array.shape for array in arrays}) != 1:
        raise ValueError(
            f"weights of {key} must have one shape in all layers, got "
            f"{[array.shape for array in arrays]}"
        )
    if not 0 <= index < len(arrays[0]):
        raise ValueError(f"index must lie in 0..{len(arrays[0]) - 1}, got {index!r}")
    return np.stack([array[index] for array in arrays])


def _part(argument: str, name: str, weights, rows: Sequence[str], columns: Sequence[str]) -> _Part:
    shape = np.shape(weights.detach().cpu() if hasattr(weights, "detach") else weights)
    if len(shape) not in (2, 3, 4):
        raise ValueError(
            f"{argument} must have the shape (layers, h, m, n), (h, m, n) or (m, n), got {shape}"
        )
    array = as_array(argument, weights, len(shape))
    array = array.reshape((1,) * (4 - len(shape)) + shape)
    for said, words in (("rows", rows), ("columns", columns)):
        if isinstance(words, str) or not len(words):
            raise ValueError(
                f"{said} must hold at least one token, got {words!r}; split a sentence first"
            )
    rows, columns = tuple(map(str, rows)), tuple(map(str, columns))
    if 0 in array.shape or array.shape[2] < len(rows) or array.shape[3] < len(columns):
        raise ValueError(
            f"{argument} must cover {len(rows)} rows and {len(columns)} columns, got shape {shape}"
        )
    array = array[:, :, : len(rows), : len(columns)]
    if array.min() < -1e-3 or array.max() > 1 + 1e-3:
        raise ValueError(
            f"{argument} must lie between 0 and 1, got {array.min():g} to {array.max():g}: are "
            f"these scores?"
        )
    return _Part(name, array.clip(0, 1), rows, columns)


def _first(
    parts: Sequence[_Part], part: int, layer: int, head: int, row: int
) -> tuple[int, int, int, int]:
    sizes = parts[part].weights.shape
    for name, value, size in (
        ("layer", layer, sizes[0]),
        ("head", head, sizes[1]),
        ("row", row, sizes[2]),
    ):
        if (
            isinstance(value, bool)
            or not isinstance(value, (int, np.integer))
            or not 0 <= value < size
        ):
            raise ValueError(f"{name} must be an integer in 0..{size - 1}, got {value!r}")
    return part, int(layer), int(head), int(row)


def _many(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _still(parts: Sequence[_Part]) -> Figure:
    """A map of each head, a row of maps a layer."""
    lines = [(p, layer) for p in parts for layer in range(p.weights.shape[0])]
    across = max(p.weights.shape[1] for p in parts)
    figure = Figure(
        figsize=(7.2, 0.3 + 1.75 * len(lines) * min(1.0, 4 / across)), layout="constrained"
    )
    axes = figure.subplots(len(lines), across, squeeze=False)
    for (p, layer), line in zip(lines, axes):
        for head, ax in enumerate(line):
            ax.axis("off")
            if head >= p.weights.shape[1]:
                continue
            ax.axis("on")
            ax.imshow(
                p.weights[layer, head],
                cmap=CMAP,
                vmin=0,
                vmax=1,
                aspect="auto",
                interpolation="nearest",
            )
            ax.set_title(f"layer {layer + 1}, head {head + 1}", fontsize=7, pad=2)
            ax.grid(False)
            ax.tick_params(
                length=0, labelsize=5 if max(len(p.rows), len(p.columns)) > 12 else 6, pad=1
            )
            ax.set_xticks([])
            ax.set_yticks([])
            if head == 0:
                if len(p.rows) <= 26:
                    ax.set_yticks(range(len(p.rows)), list(map(_math_free, p.rows)))
                ax.set_ylabel(_math_free(p.name, 26), fontsize=6.5)
            if (layer == p.weights.shape[0] - 1) and len(p.columns) <= 26:
                ax.set_xticks(range(len(p.columns)), list(map(_math_free, p.columns)), rotation=90)
    return figure


def _math_free(text: str, most: int = 12) -> str:
    """A token as Matplotlib draws it: a dollar begins no formula, and a long one is cut."""
    return plain(text if len(text) <= most else text[: most - 1] + "…")
