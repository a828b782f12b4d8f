"""Figures to touch: softmax, masks, positions added and turned, alignments."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from ...validate import check_choice, check_integer, require
from ..canvas import as_array
from .figure import InteractiveFigure

__all__ = [
    "alignment_steps",
    "mask_painter",
    "position_products",
    "rotary_scores",
    "softmax_of_products",
]


def softmax_of_products(query: Any, keys: Any, *, width: int, still: Figure) -> InteractiveFigure:
    r"""Show the scores of a query, :math:`q \cdot k_i`, and the softmax of them, while the reader
    changes the width of the vectors, the root and the temperature.

    Args:
        query: ``(draws, d)``: a few queries to choose from. Narrower vectors are their beginnings.
        keys: ``(draws, n, d)``: n keys for each.
        width: what is shown first, a power of two up to d.
    """
    q, k = as_array("query", query, 2), as_array("keys", keys, 3)
    require(
        k.shape[0] == q.shape[0] > 0 and k.shape[2] == q.shape[1],
        f"keys must be (draws, n, d) for queries of shape {q.shape}, got shape {k.shape}",
    )
    widths = [2**e for e in range(int(np.log2(q.shape[1])) + 1)]
    check_choice("width", width, widths)
    products = np.stack([np.einsum("bd,bnd->bn", q[:, :w], k[:, :, :w]) for w in widths], axis=1)
    data = {"products": products, "widths": widths, "width": width}
    label = "The scores of some keys as bars, and below them the weights"
    return InteractiveFigure("softmax", label, data, still)


def mask_painter(
    words: Sequence[str], *, real: int | None = None, still: Figure
) -> InteractiveFigure:
    """Show the causal mask of a sentence, for the reader to repaint: who may attend to whom, what
    comes in over several layers, and where an answer leaks.

    Args:
        words: of the sentence, padding included; each row has to guess the word after it.
        real: how many are not padding; all of them when not given.
    """
    words = [str(word) for word in words]
    require(len(words) > 0, "words must hold at least one word, got none")
    real = check_integer("real", len(words) if real is None else real, 1, len(words))
    data = {"words": words, "real": real}
    label = "A mask to paint: who may attend to whom in a sentence"
    return InteractiveFigure("mask", label, data, still)


def position_products(
    widths: Sequence[int], length: int, *, first: int, second: int, still: Figure
) -> InteractiveFigure:
    r"""Show the sinusoidal vectors of two positions as clocks, and their product by distance.

    The pair k of entries is :math:`\sin(p / 10000^{2k/d}), \cos(p / 10000^{2k/d})`.

    Args:
        widths: the widths d to choose from, even numbers; the first one is shown.
        length: positions are 0 … length − 1.
        first, second: the positions shown first.

    Source: section 3.5 of Vaswani et al. 2017.
    """
    widths = [int(width) for width in widths]
    even = len(widths) > 0 and all(w > 0 and w % 2 == 0 for w in widths)
    require(even, f"widths must be even numbers, got {widths}")
    for name, place in (("first", first), ("second", second)):
        check_integer(name, place, 0, length - 1)
    data = dict(widths=widths, width=widths[0], length=length, first=first, second=second)
    label = "Two positions as clocks, and the product of their vectors"
    return InteractiveFigure("positions", label, data, still)


def rotary_scores(
    examples: Sequence[tuple[str, Any, Any, Any]],
    length: int,
    *,
    query: int,
    key: int,
    still: Figure,
) -> InteractiveFigure:
    r"""Show a query and a key that are turned by their positions, the angle between them in each
    pair of components, and their score by distance.

    The pair :math:`(k, k + d/2)` of a vector at position p is turned by :math:`p ω_k`.

    Args:
        examples: what there is to choose from: a name, a query and a key ``(d,)``, and the
            frequencies :math:`ω_k` ``(d/2,)``, for d up to 8; the first is shown.
        length: positions are 0 … length − 1.
        query, key: their positions at first.

    Source: section 3.2.2 of Su et al. 2021, with the pairs in halves.
    """
    require(len(examples) > 0, "examples must hold at least one example, got none")
    for name, place in (("query", query), ("key", key)):
        check_integer(name, place, 0, length - 1)
    shown = []
    for name, *arrays in examples:
        q, k, omega = map(as_array, ("query", "key", "frequencies"), arrays, (1, 1, 1))
        require(
            q.shape == k.shape == (2 * len(omega),) and 0 < len(omega) <= 4,
            "query and key must be (d,) for d / 2 frequencies, d up to 8, got shapes "
            f"{q.shape}, {k.shape} and {omega.shape}",
        )
        shown.append({"name": str(name), "query": q, "key": k, "omega": omega})
    data = {"examples": shown, "length": length, "query_at": query, "key_at": key}
    label = "A query and a key as arrows that turn, and their score by distance"
    return InteractiveFigure("rotary", label, data, still)


def alignment_steps(
    sentences: Sequence[tuple[Any, Sequence[str], Sequence[str]]], *, word: int = 0, still: Figure
) -> InteractiveFigure:
    """Show a translation word by word: what each attended to, how much each source word got so far.

    Args:
        sentences: the weights ``(m, n)`` of each, a row for each word that was written; the n words
            that were read; and the m words that were written.
        word: the one shown first, counted from 0.
    """
    require(len(sentences) > 0, "sentences must hold at least one sentence, got none")
    data = {"sentences": [_sentence(*one) for one in sentences], "t": word}
    words = min(len(one["target"]) for one in data["sentences"])
    check_integer("word", word, 0, words - 1)
    label = "A translation, word by word, and what each word attended to"
    return InteractiveFigure("alignment", label, data, still)


def _sentence(weights: Any, source: Sequence[str], target: Sequence[str]) -> dict[str, Any]:
    matrix = as_array("weights", weights, (len(target), len(source)))
    require(matrix.size > 0, "source and target must hold at least one word each")
    return dict(weights=matrix, source=list(map(str, source)), target=list(map(str, target)))
