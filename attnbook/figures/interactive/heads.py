"""Every head of a model to look at: one sentence, a map for each head, the weights of a word."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from ...validate import check_choice, check_integer, require
from ..canvas import as_array, heat, numbers, plain
from .figure import InteractiveFigure

__all__ = ["head_viewer", "view_heads"]

START, END = "⟨s⟩", "⟨/s⟩"


class _Part(NamedTuple):
    name: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    weights: np.ndarray  # (layers, h, m, n)


def head_viewer(
    weights, rows: Sequence[str], *, layer: int = 0, head: int = 0, row: int = 0
) -> InteractiveFigure:
    """Show the weights of one sentence, a head at a time: a map, and for one word the numbers, to
    three digits. The reader chooses layer, head and word.

    Args:
        weights: ``(layers, h, n, n)``, or ``(h, n, n)``, or ``(n, n)``, each between 0 and 1. More
            rows and columns than tokens (padding) are cut off.
        rows: the tokens, which attend and are attended to.
        layer, head, row: what is shown first, counted from 0. (The viewer itself counts from 1.)

    Source: the idea of figures 3 to 5 of Vaswani et al. 2017, and of the tools after it.
    """
    part = _part("weights", "self-attention", weights, rows, rows)
    return _figure([part], _first(part, 0, layer, head, row))


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
        source: the tokens of the source. With one tensor or sequence and no target, these attend
            and are attended to.
        target: the tokens of the target, without begin and end. A row of the decoder is named for
            the token that it writes; what it attends to, of its own sentence, for the token that
            was read.
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
    require(
        len(named) > 0 and not set(named) - set(titles),
        f"weights must be named {', '.join(titles)}, got {', '.join(map(str, named)) or 'none'}",
    )
    known = target is not None or set(named) == {"encoder"}
    require(known, f"target must be given for weights named {', '.join(named)}, got None")
    written, read = [*(target or ()), END], [START, *(target or ())]
    tokens = {"encoder": (source, source), "decoder": (written, read), "cross": (written, source)}
    parts = [
        _part(f"weights of {key}", titles[key], _of_sentence(key, value, index), *tokens[key])
        for key, value in named.items()
    ]
    first = 0 if part is None else list(named).index(check_choice("part", part, named))
    return _figure(parts, _first(parts[first], first, layer, head, row))


def _figure(parts: Sequence[_Part], first: Sequence[int]) -> InteractiveFigure:
    shown = "; ".join(
        f"{p.name}: {_many(p.weights.shape[0], 'layer')} of {_many(p.weights.shape[1], 'head')}, "
        f"{len(p.rows)} by {len(p.columns)} words"
        for p in parts
    )
    label = f"Attention weights of every head as small maps, darker is more weight. {shown}."
    whole = [p._asdict() | {"weights": np.rint(1000 * p.weights).astype(int)} for p in parts]
    return InteractiveFigure("heads", label, {"parts": whole, "first": first}, _still(parts))


def _of_sentence(key: str, value, index: int) -> np.ndarray:
    name, layers = f"weights of {key}", [value] if hasattr(value, "shape") else list(value)
    require(
        len(layers) > 0 and all(one is not None for one in layers),
        f"{name} must hold a tensor for each layer: ask the model with need_weights=True",
    )
    first = as_array(name, layers[0], 4)
    check_integer("index", index, 0, len(first) - 1)
    return np.stack([as_array(name, one, first.shape)[index] for one in layers])


def _part(argument: str, name: str, weights, rows: Sequence[str], columns: Sequence[str]) -> _Part:
    array = numbers(weights)
    fits, shape = array.ndim in (2, 3, 4), "(layers, h, m, n), (h, m, n) or (m, n)"
    require(fits, f"{argument} must have the shape {shape}, got {array.shape}")
    array = as_array(argument, array.reshape((1,) * (4 - array.ndim) + array.shape), 4)
    for said, words in (("rows", rows), ("columns", columns)):
        tokens = not isinstance(words, str) and len(words) > 0
        came = f"got {words!r}; split a sentence first"
        require(tokens, f"{said} must hold at least one token, {came}")
    (_, _, high, wide), m, n = array.shape, len(rows), len(columns)
    covers = array.size > 0 and high >= m and wide >= n
    require(covers, f"{argument} must cover {m} rows and {n} columns, got {array.shape}")
    array = array[:, :, :m, :n]
    low, top = array.min(), array.max()
    came = f"got {low:g} to {top:g}: are these scores?"
    require(-1e-3 <= low <= top <= 1 + 1e-3, f"{argument} must lie between 0 and 1, {came}")
    return _Part(name, tuple(map(str, rows)), tuple(map(str, columns)), array.clip(0, 1))


def _first(part: _Part, number: int, *places: int) -> list[int]:
    named = zip(("layer", "head", "row"), places, part.weights.shape)
    return [number, *(check_integer(name, place, 0, size - 1) for name, place, size in named)]


def _many(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _still(parts: Sequence[_Part]) -> Figure:
    """A map of each head, a row of maps a layer."""
    lines = [(p, layer) for p in parts for layer in range(p.weights.shape[0])]
    across = max(p.weights.shape[1] for p in parts)
    height = 0.3 + 1.75 * len(lines) * min(1.0, 4 / across)
    figure = Figure(figsize=(7.2, height), layout="constrained")
    axes = figure.subplots(len(lines), across, squeeze=False)
    for (p, layer), line in zip(lines, axes):
        for head, ax in enumerate(line):
            if head >= p.weights.shape[1]:
                ax.axis("off")
                continue
            heat(ax, p.weights[layer, head], interpolation="nearest")
            ax.set_title(f"layer {layer + 1}, head {head + 1}", fontsize=7, pad=2)
            ax.grid(False)
            size = 5 if max(len(p.rows), len(p.columns)) > 12 else 6
            ax.tick_params(length=0, labelsize=size, pad=1)
            ax.set(xticks=[], yticks=[])
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
