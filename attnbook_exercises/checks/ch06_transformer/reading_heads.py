"""Checks of the section on reading heads: a count on paper, a prediction, heads that tell the
sentences of a pair apart, the sublayer without each head.
"""

import numpy as np
import torch
from torch import Tensor

from ..context import CheckContext, array
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import on_paper


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
        value = value.float()
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


@on_paper(
    "06.pairs_by_hand", "the share", title="count a head", difficulty=1, minutes=3, within=1e-06
)
def pairs_by_hand():
    return 0.2, {
        "this counts sentences: a pair is right if both of its sentences are": 0.5,
        "a tie counts as more: in the fourth pair the weights 0.05 and 0.05 are equal": 0.4,
        "one right sentence is enough: a pair is right if both are": 0.8,
        "that is the number of right pairs: the share is wanted": 1,
        "that is in percent: the share is a number from 0 to 1": 20,
    }


@exercise(
    "06.all_at_once", title="Predict: all heads of the encoder at once", difficulty=1, minutes=2
)
def all_at_once(answer, ctx: CheckContext):
    return ctx.predicted(answer, "nearly all", "about three in four", "about half")


@exercise("06.telling_pairs", title="Heads that tell a pair apart", difficulty=2, minutes=8)
def telling_pairs(answer, ctx):
    for _ in range(2):
        # the antecedent, the other noun, and one word more
        pairs, h, m, n = ctx.sizes(pairs=(1, 7), h=(1, 7), m=(1, 11), n=(3, 14))
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
                margin = 0.15 if k == 0 else 0.1  # so that a sum over the first pair is positive
                row = torch.full((n,), (0.7 - margin) / (n - 2))
                row[high[k]], row[low[k]] = 0.15 + margin, 0.15
                weights[k, head, pronouns[k]] = row
            # head 3 follows, but its largest weight is elsewhere
            row = torch.full((n,), 0.1 / max(1, n - 3))
            row[antecedent[k]], row[other[k]] = 0.2, 0.1
            row[next(j for j in range(n) if j not in (int(antecedent[k]), int(other[k])))] = 0.6
            weights[k, 3, pronouns[k]] = row
        weights = weights[:, ctx.order(every)[:h]]
        w, q, a, o = array(weights), pronouns.numpy(), antecedent.numpy(), other.numpy()
        at = np.arange(b)

        def share(more, both=np.logical_and, axis=0):
            return both(more[0::2], more[1::2]).mean(axis)

        def weight(of, rows=q):
            return w[at, :, rows, of]

        more = weight(a) > weight(o)
        expected = share(more)
        got = _floats(
            ctx,
            ctx.call(answer, weights, pronouns, antecedent, other),
            "the shares",
            (h,),
            "one number a head",
        )
        largest = w[at, :, q].argmax(-1) == a[:, None]
        halves = np.logical_and(more[:pairs], more[pairs:]).mean(0)
        column = np.minimum(q, n - 1)
        swapped = w[at, :, np.minimum(a, m - 1), column] > w[at, :, np.minimum(o, m - 1), column]
        sums = (weight(a)[0::2] + weight(a)[1::2]) > (weight(o)[0::2] + weight(o)[1::2])
        wrong = {
            "this counts sentences: a pair counts when both of its sentences are right": more.mean(
                0
            ),
            "one right sentence is enough here: a pair counts when both are": share(
                more, np.logical_or
            ),
            "a tie counts as more: equal weights tell nothing, expected >": share(
                weight(a) >= weight(o)
            ),
            "this asks for the largest weight of the row: expected more weight on the antecedent "
            "than on the other noun": share(largest),
            "this counts sentences whose largest weight lies on the antecedent": largest.mean(0),
            "the sentences of a pair stand one after the other: 0 and 1, 2 and 3, not in two "
            "halves": halves,
            "it is turned around: this counts pairs with more weight on the other noun": share(
                weight(o) > weight(a)
            ),
            "the weights of a pair are added up before they are compared: compare in each "
            "sentence": sums.mean(0),
            "rows and columns are swapped: the word that looks is the row, what it looks at the "
            "column": share(swapped),
            "this is a number of pairs: divide by how many there are": expected * pairs,
            "the number of right pairs is divided by the number of sentences": expected / 2,
            "the words that look are not used: take row looks[b] of sentence b": share(
                w[at, :, 0, a] > w[at, :, 0, o]
            ),
            "this takes the last row: take row looks[b] of sentence b": share(
                w[at, :, -1, a] > w[at, :, -1, o]
            ),
        }
        ctx.close(got, expected, "the shares", wrong)


@exercise(
    "06.without_each_head", title="The layer without each of its heads", difficulty=3, minutes=10
)
def without_each_head(answer, ctx):
    for square in (True, False):
        # two heads at least: something is left without each
        b, h, m = ctx.sizes(batch=(1, 3), h=(2, 5), m=(1, 5))
        width, d = ctx.sizes(w=(1, 4), d=(1, 9))
        d = h * width if square else d
        heads, w_o, b_o = ctx.normal(b, h, m, width), ctx.normal(h * width, d), ctx.normal(d)
        got = ctx.call(answer, heads, w_o, b_o)
        got = _stacked(got)
        if type(got) is Tensor and tuple(got.shape) == (b, h, m, d) != (h, b, m, d):
            ctx.fail(
                f"the shape is {(b, h, m, d)}: the head that is left out comes first, "
                f"{(h, b, m, d)}"
            )
        got = _floats(
            ctx,
            got,
            "the outputs",
            (h, b, m, d),
            "one output (batch, m, d) for each head that is left out",
        )

        def oracle(x, w, bias, keep=None, join=None):
            keep = 1 - np.eye(h) if keep is None else keep
            left = x[None] * keep[:, None, :, None, None]  # (h, B, h, m, w)
            joined = (left.swapaxes(2, 3) if join is None else join(left)).reshape(h, b, m, -1)
            return joined @ w + bias

        x, w, bias = array(heads), array(w_o), array(b_o)
        expected, eye = oracle(x, w, bias), np.eye(h)
        full = oracle(x, w, bias, np.ones((h, h)))
        wrong = {
            "only head k is kept: expected all heads but head k": oracle(x, w, bias, eye),
            "this is what head k adds to the output: expected the output without it": full
            - expected,
            "the bias is missing": oracle(x, w, 0 * bias),
            "the bias is taken away with the head: it belongs to the layer and stays": expected
            - bias / h,
            "the bias is there more than once: it is added a single time, behind the "
            "product": oracle(x, w, (h - 1) * bias),
            "the bias is added with each head: it is added a single time, behind the sum": oracle(
                x, w, h * bias
            ),
            "the other heads are made larger to make up for the one that is gone: leave them as "
            "they are": ((expected - bias) * h / (h - 1) + bias),
            "this is the mean over the heads that are left: they are added up": (expected - bias)
            / (h - 1)
            + bias,
            "heads are left out one after the other and stay out: put each back before the "
            "next": oracle(x, w, bias, np.triu(np.ones((h, h)), 1)),
            "nothing is left out": full,
            "the heads are joined without swapping positions and heads: head k has the entries "
            "k·w … (k+1)·w - 1 of each row": oracle(x, w, bias, join=lambda left: left),
            "the entries of the heads are interleaved: head k has the entries k·w … (k+1)·w - 1, "
            "side by side": oracle(x, w, bias, join=lambda left: left.transpose(0, 1, 3, 4, 2)),
            "W_o is used transposed: rows are vectors, so it is H W_o": oracle(
                x, w.T if square else w, bias
            ),
            "the columns of W_o are cut, not its rows: head k meets the rows k·w … (k+1)·w "
            "- 1": np.stack(
                [(full[0] - bias) * (np.arange(d) // width != k) + bias for k in range(h)]
            ),
            "the order of the heads is turned around: entry k leaves out head k": expected[::-1],
            "entry k leaves out the head after it: heads count from 0": np.roll(expected, -1, 0),
        }
        ctx.close(got, expected, "the outputs", wrong)
        check_gradients(
            ctx,
            lambda *given: _stacked(answer(*given)),
            (heads, w_o, b_o),
            {0: "heads", 1: "W_o", 2: "b_o"},
            oracle,
        )
