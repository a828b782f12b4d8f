"""Checks of the section on reading heads: heads that tell the sentences of a pair apart, a
prediction, the sublayer without each head.
"""

import numpy as np
import torch
from torch import Tensor

from ..context import CheckContext, array
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import Slips


def _floats(ctx, value, name, shape, mention):
    """A tensor of floats of this shape; other floating types, NumPy arrays and lists of numbers
    are as good.
    """
    if type(value) is np.ndarray or (
        type(value) in (list, tuple)
        and all(type(v) in (int, float) or np.ndim(v) == 0 for v in value)
    ):
        try:
            value = torch.tensor(
                np.array([float(v) for v in value]) if np.ndim(value) == 1 else np.asarray(value)
            )
        except (TypeError, ValueError):
            ctx.fail(f"{name}: expected a tensor of numbers")
    if type(value) is Tensor and value.is_floating_point():
        value = value.double() if ctx.case else value.float()
    return ctx.floats(value, name, shape, mention=mention)


def _stacked(value):
    """Tensors of one shape in a list are as good as one tensor."""
    if (
        type(value) in (list, tuple)
        and value
        and all(type(part) is Tensor for part in value)
        and len({p.shape for p in value}) == 1
    ):
        return torch.stack(list(value))
    return value


def _telling(weights, looks, antecedent, other):
    at = np.arange(len(looks))
    on_it, beside = weights[at, :, looks, antecedent], weights[at, :, looks, other]
    more = on_it > beside
    both = more[0::2] & more[1::2]
    return both.mean(0)


_TELLING = Slips(
    _telling,
    {
        "this counts sentences: "
        "a pair counts when both of its sentences are right": "both.mean(0) → more.mean(0)",
        "one right sentence is enough here: a pair counts when both are": "] & more → ] | more",
        "a tie counts as more: equal weights tell nothing, expected >": "on_it > → on_it >=",
        "this asks for the largest weight of the row: expected more weight on the antecedent "
        "than on the other "
        "noun": "on_it > beside → weights[at, :, looks].argmax(-1) == antecedent[:, None]",
        "this counts sentences whose largest weight lies on the antecedent": (
            "on_it > beside → weights[at, :, looks].argmax(-1) == antecedent[:, None]",
            "both.mean(0) → more.mean(0)",
        ),
        "the sentences of a pair stand one after the other: 0 and 1, 2 and 3, not in two "
        "halves": "more[0::2] & more[1::2] → np.logical_and(*np.split(more, 2))",
        "it is turned around: "
        "this counts pairs with more weight on the other noun": "on_it > → on_it <",
        "the weights of a pair are added up before they are compared: compare in each "
        "sentence": "more[0::2] & more[1::2] → (on_it - beside)[0::2] + (on_it - beside)[1::2] > 0",
        "rows and columns are swapped: the word that looks is the row, what it looks at the "
        "column": (
            "at = → weights = weights[:, :, np.minimum(np.arange(weights.shape[3]), "
            "weights.shape[2] - 1)].swapaxes(2, 3)\n    at =",
        ),
        "this is a number of pairs: divide by how many there are": "both.mean(0) → both.sum(0)",
        "the number of right pairs is divided by the number of "
        "sentences": "both.mean(0) → both.mean(0) / 2",
        "the words that look are not used: "
        "take row looks[b] of sentence b": "at = → looks = 0 * looks\n    at =",
        "this takes the last row: "
        "take row looks[b] of sentence b": "at = → looks = 0 * looks - 1\n    at =",
    },
)


@exercise("06.telling_pairs", title="Heads that tell a pair apart", difficulty=2, minutes=8)
def telling_pairs(answer, ctx):
    for far, near in ((201, 9), (9, 201)):  # long in turn: all at once takes seconds
        # the antecedent, the other noun, and one word more
        pairs, h, m, n = ctx.sizes(pairs=(1, 7, far), h=(1, 7), m=(1, 11, near), n=(3, 14, near))
        b, every = 2 * pairs, max(4, h)
        weights = ctx.weights(b, every, m, n)
        pronouns = ctx.integers(0, m, b)
        two = torch.tensor([ctx.order(n)[:2] for _ in range(b)])
        antecedent, other = two[:, 0], two[:, 1]
        rows = torch.arange(b)
        # Head 0 ties always; head 1 follows in all sentences but one; head 2 in one sentence of
        # each pair.
        weights[rows, 0, pronouns] = 1 / n
        for k in range(b):
            right = (k != 1, k % 2 == 0)
            for head, first in zip((1, 2), right):
                high, low = (antecedent, other) if first else (other, antecedent)
                # so that a sum over the first pair is positive; the last ones differ by little
                little = 1e-10 if ctx.case else 5e-7
                margin = 0.15 if k == 0 else 0.1 if k < 6 else little
                row = weights.new_full((n,), (0.7 - margin) / (n - 2))
                row[high[k]], row[low[k]] = 0.15 + margin, 0.15
                weights[k, head, pronouns[k]] = row
            # head 3 follows, but its largest weight is elsewhere
            row = torch.full((n,), 0.1 / max(1, n - 3))
            row[antecedent[k]], row[other[k]] = 0.2, 0.1
            row[next(j for j in range(n) if j not in (int(antecedent[k]), int(other[k])))] = 0.6
            weights[k, 3, pronouns[k]] = row
        weights = weights[:, ctx.order(every)[:h]]
        given = weights, pronouns, antecedent, other
        expected, wrong = _TELLING(*map(array, given))
        got = _floats(ctx, ctx.call(answer, *given), "the shares", (h,), "one number a head")
        # shares of whole numbers are as good in float32
        near = np.abs(array(got) - expected) < 1e-6
        got = np.where(near, expected, array(got))
        ctx.close(got, expected, "the shares", wrong)


@exercise(
    "06.all_at_once", title="Predict: all heads of the encoder at once", difficulty=1, minutes=2
)
def all_at_once(answer, ctx: CheckContext):
    return ctx.predicted(answer, "nearly all", "about three in four", "about half")


def _without(heads, w_o, b_o):
    h, width = heads.shape[1], heads.shape[3]
    keep = 1 - np.eye(h)
    left = heads[None] * keep[:, None, :, None, None]  # (h, B, h, m, w)
    rows = left.swapaxes(2, 3)
    return rows.reshape(*rows.shape[:3], h * width) @ w_o + b_o


_WITHOUT = Slips(
    _without,
    {
        "only head k is kept: expected all heads but head k": "1 - np.eye(h) → np.eye(h)",
        "this is what head k adds to the output: expected the output without it": (
            "1 - np.eye(h) → np.eye(h)",
            "+ b_o →",
        ),
        "the bias is missing": "+ b_o →",
        "the bias is taken away with the head: "
        "it belongs to the layer and stays": "+ b_o → + (1 - 1 / h) * b_o",
        "the bias is there more than once: "
        "it is added a single time, after the product": "+ b_o → + (h - 1) * b_o",
        "the bias is added with each head: "
        "it is added a single time, after the sum": "+ b_o → + h * b_o",
        "the other heads are made larger to make up for the one that is gone: "
        "leave them as they are": "@ w_o → @ w_o * h / (h - 1)",
        "this is the mean over the heads that are left: "
        "they are added up": "@ w_o → @ w_o / (h - 1)",
        "heads are left out one after the other and stay out: "
        "put each back before the next": "1 - np.eye(h) → np.triu(np.ones((h, h)), 1)",
        "the head that is left out comes first, "
        "then the text of the batch": "left.swapaxes(2, 3) → left.swapaxes(2, 3).swapaxes(0, 1)",
        "nothing is left out": "1 - np.eye(h) → np.ones((h, h))",
        "the heads are joined without swapping positions and heads: head k has the entries k·w "
        "… (k+1)·w - 1 of each row": (
            "rows.reshape(*rows.shape[:3], h * width) → left.reshape(*rows.shape[:3], h * width)"
        ),
        "the entries of the heads are interleaved: head k has the entries "
        "k·w … (k+1)·w - 1, side by side": "left.swapaxes(2, 3) → left.transpose(0, 1, 3, 4, 2)",
        "W_o is used transposed: rows are vectors, so it is H W_o": "@ w_o → @ w_o.T",
        "the columns of W_o are cut, not its rows: head k meets the rows k·w … (k+1)·w - 1": (
            "1 - np.eye(h) → np.ones((h, h))",
            "@ w_o → @ w_o * (np.arange(w_o.shape[1]) // width != np.arange(h)[:, None])[:, None, "
            "None]",
        ),
        "the order of the heads is turned around: "
        "entry k leaves out head k": "1 - np.eye(h) → 1 - np.eye(h)[::-1]",
        "entry k leaves out the head after it: "
        "heads count from 0": "1 - np.eye(h) → 1 - np.roll(np.eye(h), 1, 1)",
    },
)


@exercise(
    "06.without_each_head", title="The layer without each of its heads", difficulty=3, minutes=10
)
def without_each_head(answer, ctx):
    for square in (True, False):
        # two heads at least: something is left without each
        b, h, m = ctx.sizes(batch=(1, 3), h=(2, 5), m=(1, 5))
        width, d = ctx.sizes(w=(1, 4), d=(1, 9))
        d = h * width if square else d
        given = ctx.normal(b, h, m, width), ctx.normal(h * width, d), ctx.normal(d)
        got = _stacked(ctx.call(answer, *given))
        if type(got) is Tensor and tuple(got.shape) == (b, h, m, d) != (h, b, m, d):
            ctx.fail(
                f"the shape is {(b, h, m, d)}: the head that is left out comes first, "
                f"{(h, b, m, d)}"
            )
        mention = "one output (batch, m, d) for each head that is left out"
        got = _floats(ctx, got, "the outputs", (h, b, m, d), mention)
        right, wrong = _WITHOUT(*map(array, given))
        ctx.close(got, right, "the outputs", wrong)
        names = {0: "heads", 1: "W_o", 2: "b_o"}
        check_gradients(ctx, lambda *now: _stacked(answer(*now)), given, names, _without)
