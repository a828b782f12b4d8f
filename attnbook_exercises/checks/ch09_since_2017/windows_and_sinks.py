"""Checks of the section on windows and sinks: a bill on paper, a prediction, a sink for a kernel
that has none, a cache that forgets in its second round.
"""

import numpy as np
import torch

from ..context import array, softmax
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import on_paper


@on_paper(
    "09.every_second_layer",
    "the number of mebibytes",
    title="a window in every second layer",
    difficulty=1,
    minutes=4,
    within=0.01,
)
def every_second_layer():
    return 3075, {
        "those are the layers that see everything: the windowed ones hold 128 tokens each, too": (
            3072
        ),
        "those are the windowed layers alone": 3,
        "that is the cache of 24 layers that see everything: every second one has a window": 6144,
        "that is the cache of 24 layers with a window: every second one sees everything": 6,
        "that is the bill of one layer of each kind: there are twelve of each": 256.25,
        "all 24 layers are counted as of either kind: there are twelve of each": 6150,
        "those are the keys alone: values are cached, too": 1537.5,
        "those are gibibytes: a gibibyte has 1,024 mebibytes": 3075 / 1024,
        "those are bytes: divide them by 2**20": 3075 * 2**20,
        "those are megabytes, of a million bytes: a mebibyte has 2**20": 3075 * 2**20 / 1e6,
        "that is how many numbers are cached, not mebibytes": 3075 * 2**19,
        "that is one head of keys and values: there are 8": 3075 / 8,
    }


@exercise("09.second_mark", title="Predict: a second start mark", difficulty=1, minutes=3)
def second_mark(answer, ctx):
    return ctx.predicted(answer, "for good", "for 63 letters", "not at all")


def _share(L, s):
    """e^L / (e^s + e^L), row by row; 0 where L is -inf."""
    return 1 / (1 + np.exp(np.clip(s - L, -700, 700)))


@exercise("09.sink_afterwards", title="A sink for a kernel that has none", difficulty=2, minutes=7)
def sink_afterwards(answer, ctx):
    m, n, d_v = ctx.sizes(m=(1, 8), n=(1, 6), d_v=(1, 4))
    for level, sink, words in (
        (0.0, 0.7, "for scores of ordinary size"),
        (0.0, -1.3, "for scores of ordinary size"),
        (300.0, 299.0, "for scores near 300"),
        (-300.0, -301.0, "for scores near -300"),
        (300.0, -300.0, "where the sink is far below the scores"),
        (-300.0, 300.0, "where the sink is far above the scores"),
    ):
        scores, V = 1.5 * array(ctx.normal(m, n)) + level, array(ctx.normal(n, d_v))
        logs = np.logaddexp.reduce(scores, axis=1)
        contexts = softmax(scores) @ V
        context, L = (torch.tensor(part, dtype=torch.float32) for part in (contexts, logs))
        s = torch.tensor(sink)
        where = f"{words}: the context"
        got = ctx.floats(
            ctx.call(answer, context, L, s),
            where,
            (m, d_v),
            nan="an exponential overflows: bring the ratio into a form with L - s",
        )
        context, L = array(context), array(L)
        wrong = {
            "the context comes back as it was: the sink takes a share of the weight": context,
            "one more in the denominator is s = 0: expected the learned s": (
                context * _share(L, 0.0)[:, None]
            ),
            "that is the share of the sink: the keys keep the rest": (
                context * (1 - _share(L, sink))[:, None]
            ),
            "s is added to the denominator: expected its exponential": (
                context * (1 / (1 + sink * np.exp(np.clip(-L, -50, 50))))[:, None]
            ),
            "the logarithms are compared, not the sums: take their exponentials": (
                context * (L / (L + sink))[:, None]
            ),
        }
        ctx.close(got, context * _share(L, sink)[:, None], where, wrong)

    context, L, s = ctx.normal(m, d_v), ctx.normal(m), torch.tensor(0.4)
    context[0], L[0] = 0.0, -torch.inf
    L[1:3] += torch.tensor([300.0, -300.0])[: m - 1]
    where = "where a query sees nothing: the context"
    nan = "a -inf is subtracted from a -inf, a 0 is divided by 0, or an exponential overflows"
    got = ctx.floats(ctx.call(answer, context, L, s), where, (m, d_v), nan=nan)
    ctx.close(got, array(context) * _share(array(L), 0.4)[:, None], where)
    check_gradients(
        ctx,
        answer,
        (context, L, s),
        {0: "context", 1: "L", 2: "s"},
        lambda context, L, s: context * _share(L, s)[:, None],
        nan=nan,
    )


def _attended(Q, K, V, seen, scale=None):
    """Attention of all tokens at once, under a mask (n, n); zeros where nothing is seen."""
    scores = Q @ K.T * (Q.shape[1] ** -0.5 if scale is None else scale)
    return softmax(np.where(seen, scores, -np.inf)) @ V


def _in_rows(n, size, row):
    """Which tokens each one sees that is written to `row` of its number once the rows are full."""
    rows, seen = [-1] * size, np.zeros((n, n), bool)
    for t in range(n):
        rows[t if t < size else row(t)] = t
        seen[t, [k for k in rows if k >= 0]] = True
    return seen


@exercise(
    "09.second_round", title="Find the bug: a cache that rolls and keeps", difficulty=3, minutes=9
)
def second_round(answer, ctx):
    n, few, window, d, d_v = ctx.sizes(
        tokens=(1, 26), sinks=(0, 5), window=(1, 6), d=(1, 5), d_v=(1, 4)
    )
    # exponentials of scores a hundred times as large overflow
    for factor, sinks in ((1.0, few), (100.0, few + 1)):
        where = f"for {n} tokens, sinks = {sinks}, window = {window}: the contexts"
        given = factor * ctx.normal(n, d), ctx.normal(n, d), ctx.normal(n, d_v)
        got = ctx.floats(ctx.call(answer, *given, sinks, window), where, (n, d_v))
        Q, K, V = (array(part) for part in given)
        token = np.arange(n)
        distance = token[:, None] - token
        past, first = distance >= 0, token < sinks
        right = past & ((distance < window) | first)
        wrong = {
            "the first tokens are written over when the cache begins its second round": (
                past & (distance < sinks + window)
            ),
            "the first tokens are forgotten": past & (distance < window),
            "the window has one token too few: a token sees itself and window - 1 before it": (
                past & ((distance < window - 1) | first)
            ),
            "the window has one token too many": past & ((distance < window + 1) | first),
            "a token does not see itself: write it to the cache before you look": (
                (distance > 0) & ((distance <= window) | first)
            ),
            "a new token behind a full cache overwrites one that is still in the window: the row "
            "of the oldest one is free": _in_rows(
                n, sinks + window, lambda t, first=sinks: first + t % window
            ),
            "a new token behind a full cache overwrites one of the window and not its oldest: at "
            "t = sinks + window that is the one in row sinks": _in_rows(
                n, sinks + window, lambda t, first=sinks: first + (t - first + 1) % window
            ),
            "everything stays in view: what has left the window is forgotten": past,
            "a token sees what comes after it": (distance < window) | first,
        }
        masks = {words: _attended(Q, K, V, seen) for words, seen in wrong.items()}
        masks["the scores are not divided by the root of the width"] = _attended(
            Q, K, V, right, scale=1.0
        )
        ctx.close(got, _attended(Q, K, V, right), where, masks)
