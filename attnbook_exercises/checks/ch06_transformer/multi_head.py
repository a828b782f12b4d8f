"""Checks of the section on multi-head attention: two looks by hand, padding for every head, a
prediction, and heads that are taken out of a layer.
"""

import numpy as np
import torch

from ..context import array, softmax
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import Slips, on_paper


@on_paper(
    "06.two_looks_by_hand",
    "the output",
    title="Two looks by hand",
    difficulty=2,
    minutes=5,
    within=0.005,
    otherwise="begin with the two weights of each head",
)
def two_looks_by_hand():
    expected = 2 * 0.8 - 0.2
    return expected, {
        "the heads are added as they are: each goes through its own entry of W^O": 1.0,
        "the heads are averaged as they are: each goes through its own entry of W^O": 0.5,
        "half of the sum: W^O adds what the heads return and divides by nothing": 0.7,
        "only head 1 is there: head 2 returns a number too, and W^O takes it off": 1.6,
        "the signs in W^O are lost: its second entry is -1": 1.8,
        "the heads are joined in the wrong order: head 1 meets the first entry of W^O": -0.4,
        "the scores are taken for weights, each row divided by its sum: the exponential of "
        "0 is 1, so the other word has a weight too": 2.0,
        "the scores are taken for weights: the softmax is missing": 2 * float(np.log(4)),
        "the weights do not sum to 1: divide the exponentials 4 and 1 by their sum": 2 * 4 - 1,
    }


def _attended(y, x, lengths, w_q, w_k, w_v, w_o, h):
    def heads(rows, w):
        return np.stack(np.split(rows @ w, h, -1), 1)

    q, k, v = heads(y, w_q), heads(x, w_k), heads(x, w_v)
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    real = np.arange(x.shape[1]) < lengths[:, None]
    weights = softmax(np.where(real[:, None, None], scores, -np.inf))
    return np.concatenate([*np.moveaxis(weights @ v, 1, 0)], -1) @ w_o


_ATTENDED = Slips(
    _attended,
    {
        "it runs, but heads have the masks of other texts: with as many heads as texts, "
        "broadcasting gives that of text b to head b of every "
        "text": "real[:, None, None] → real[None, :, None]",
        "it runs, but the mask of text b hides keys from query b of every text": (
            "real[:, None, None] → np.resize(real, (y.shape[1], x.shape[1]))"
        ),
        "the mask hides nothing: padding has weights": "real[:, None, None], scores → True, scores",
        "all texts have the mask of the first": "real[:, None, None] → real[:1, None, None]",
        "the mask is the wrong way round: it hides the real tokens": "< lengths → >= lengths",
        "the mask comes after the softmax: the weights of a row no longer sum to 1": (
            "softmax(np.where(real[:, None, None], scores, -np.inf)) → softmax(scores) * "
            "real[:, None, None]"
        ),
        "masked scores become 0, and exp(0) is 1: padding still has weights": "-np.inf → 0.0",
        "the heads are not put side by side: transpose before you flatten": (
            "np.concatenate([*np.moveaxis(weights @ v, 1, 0)], -1) → (weights @ v).reshape(y.shape)"
        ),
    },
)


@exercise("06.padded_heads", title="Shape error: Padding for every head", difficulty=2, minutes=8)
def padded_heads(answer, ctx):
    batch, m, n, heads, d_head = ctx.sizes(
        batch=(1, 4), m=(1, 5), n=(1, 7), heads=(1, 5), d_head=(1, 3)
    )
    for h in (batch, heads):  # as many heads as texts first, as in the printed example
        d = h * d_head
        y, x, lengths = ctx.normal(batch, m, d), ctx.normal(batch, n, d), ctx.lengths(batch, n)
        weights = [ctx.normal(d, d) / d**0.5 for _ in range(4)]
        given = y, x, lengths, *weights, h
        got = ctx.floats(ctx.call(answer, *given), "the result", (batch, m, d))
        right, wrong = _ATTENDED(*map(array, given[:-1]), h)
        ctx.close(got, right, "the result", wrong)
    # scores far below any finite fill, or so high that their exponentials overflow
    signs, steep = torch.ones(batch, 1, 1), 200 * torch.eye(d)
    signs[::2] = -1
    hard = signs * y.abs(), x.abs(), lengths, steep, steep, *weights[2:], h
    got = ctx.floats(ctx.call(answer, *hard), "the result for large scores", (batch, m, d))
    ctx.close(got, _ATTENDED(*map(array, hard[:-1]), h)[0], "the result for large scores")
    names = {0: "Y", 1: "X", 3: "W_Q", 4: "W_K", 5: "W_V", 6: "W_O"}
    check_gradients(
        ctx,
        answer,
        given,
        names,
        lambda y, x, w_q, w_k, w_v, w_o: _attended(y, x, array(lengths), w_q, w_k, w_v, w_o, h),
    )


@exercise("06.one_noun_twice", title="Predict: One noun twice", difficulty=2, minutes=5)
def one_noun_twice(answer, ctx):
    return ctx.predicted(answer, "nearly always", "about as often", "hardly ever")


@exercise("06.take_heads_out", title="Take heads out", difficulty=3, minutes=10)
def take_heads_out(answer, ctx):
    half, width = ctx.sizes(heads_kept_of_twice_as_many=(1, 4), width_of_a_head=(1, 3))
    # half of them, with the last two: neither the first ones nor the neighbours of those that go
    keep = [*sorted(ctx.order(2 * half - 2)[: half - 2]), 2 * half - 2, 2 * half - 1][-half:]
    _take(answer, ctx, 2 * half, width, keep)
    for every in (False, True):
        heads, width = ctx.sizes(heads=(1, 5), width=(1, 4))
        keep = sorted(ctx.order(heads)[: heads if every else 1])
        _take(answer, ctx, heads, width, keep)


def _take(answer, ctx, heads, width, keep):
    d, remaining = heads * width, len(keep)
    given = [ctx.normal(d, d) for _ in range(4)]
    names = ("W_q", "W_k", "W_v", "W_o")
    got = ctx.parts(ctx.call(answer, *given, heads, list(keep)), names)
    shapes = [(d, remaining * width)] * 3 + [(remaining * width, d)]
    given = [array(w) for w in given]
    shape = getattr(got[0], "shape", None)
    if shape == (d, d) != shapes[0]:
        zeros = array(ctx.floats(got[0], "W_q", (d, d)))
        ctx.fail(
            "W_q is as large as before"
            + (", with zeros in it" if (zeros == 0).any() else "")
            + ": a head that is out has no columns at all"
        )
    if shape == (remaining * width, d) != shapes[0]:
        ctx.fail(
            "rows of W_q were taken out: inputs multiply from the left, so a head is a group of "
            "columns of W_q"
        )
    if shape == (d, remaining) != shapes[0]:
        ctx.fail(f"W_q has one column a head: a head has d / num_heads = {width} of them")
    where = ["a group of columns a head"] * 3 + [
        "W_o multiplies the joined heads: a head is a group of its rows"
    ]
    got = [
        array(ctx.floats(g, name, s, mention=m)) for g, name, s, m in zip(got, names, shapes, where)
    ]

    def layer(w_q, w_k, w_v, w_o, count):
        cut = lambda y: y.reshape(len(y), count, -1).swapaxes(0, 1)  # noqa: E731
        q, k, v = cut(x @ w_q), cut(x @ w_k), cut(x @ w_v)
        context = softmax(q @ k.swapaxes(1, 2) / np.sqrt(q.shape[-1])) @ v
        return context.swapaxes(0, 1).reshape(len(x), -1) @ w_o

    x = array(ctx.normal(6, d)) / 2
    columns = np.concatenate([np.arange(i * width, (i + 1) * width) for i in keep])
    expected = layer(*(w[:, columns] for w in given[:3]), w_o=given[3][columns], count=remaining)
    if ctx.same(layer(*got, count=remaining), expected):
        return

    sources = []
    for name, small, full in zip(names, got, given):
        small, full = (small.T, full.T) if name == "W_o" else (small, full)
        sources.append(
            [
                _which(ctx, small[:, i * width : (i + 1) * width], full, width, name)
                for i in range(remaining)
            ]
        )
        if ctx.same(small, np.concatenate([full[:, i::heads] for i in keep], 1)):
            ctx.fail(
                f"{name}: every num_heads-th column was taken: head i has the columns i·d/h … "
                f"(i+1)·d/h - 1, one after the other"
            )
        if None in sources[-1]:
            ctx.fail(
                f"{name}: block {sources[-1].index(None)} is no head of the layer: head i has the "
                f"{'rows' if name == 'W_o' else 'columns'} "
                "i·d/h … (i+1)·d/h - 1"
            )
    for name, which in zip(names, sources):
        gone = [i for i in range(heads) if i not in keep]
        if which == gone:
            ctx.fail(
                f"{name} holds the heads {which}: these were to go, `keep` lists those that "
                f"stay, {keep}"
            )
        if which == [(i - 1) % heads for i in keep]:
            ctx.fail(f"{name} holds the heads {which}, expected {keep}: heads are counted from 0")
        if sorted(which) != sorted(keep):
            ctx.fail(f"{name} holds the heads {which}, expected {keep}")
    first = next(i for i in range(4) if sources[i] != sources[0])
    ctx.fail(
        f"W_q holds the heads in the order {sources[0]} and {names[first]} in the order "
        f"{sources[first]}: one order for all four"
    )


def _which(ctx, block, full, width, name):
    """The head whose columns a block is; a multiple of them is named at once."""
    for i in range(full.shape[1] // width):
        head = full[:, i * width : (i + 1) * width]
        if ctx.same(block, head):
            return i
        factor = (block * head).sum() / (head * head).sum()
        if abs(factor) > 1e-3 and np.abs(block - factor * head).max() < 1e-4:
            why = (
                "the output is a sum over heads, and the heads that stay keep their share"
                if name == "W_o"
                else "the width of a head stays, and with it the scale of its scores"
            )
            ctx.fail(f"{name} is multiplied by {factor:.3g}: {why}")
    return None
