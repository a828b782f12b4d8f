"""Checks of the section on windows and sinks: a prediction, a bill on paper, a window for two
layers, a cache that forgets in its second round.
"""

import numpy as np
import torch
from torch.nn import functional as F

from ..context import array, softmax
from ..registry import exercise
from ..slips import Slips, on_paper


@exercise("09.second_mark", title="Predict: a second start mark", difficulty=1, minutes=3)
def second_mark(answer, ctx):
    return ctx.predicted(answer, "for good", "for 63 letters", "not at all")


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
        "those are the keys alone, or a byte for each number: values are cached, too, and each "
        "number takes two": 1537.5,
        "those are gibibytes: a gibibyte has 1,024 mebibytes": 3075 / 1024,
        "those are bytes: divide them by 2**20": 3075 * 2**20,
        "those are megabytes, of a million bytes: a mebibyte has 2**20": 3075 * 2**20 / 1e6,
        "that is how many numbers are cached, not mebibytes": 3075 * 2**19,
        "that is one head of keys and values: there are 8": 3075 / 8,
    }


def _copied_from(back, window, steps=100, n=48, letters=6):
    """The loss of two layers of windowed attention that have learned to copy from so far back. It
    is the same in every run of the check. (torch.optim would take seconds to import.)
    """
    generator = torch.Generator().manual_seed(0)
    scores = [torch.zeros(window, requires_grad=True) for _ in range(2)]
    W = (0.1 * torch.randn(letters, letters, generator=generator)).requires_grad_()

    def loss():
        texts = torch.randint(letters, (32, n), generator=generator)
        x = F.one_hot(texts, letters).float()
        for of_layer in scores:  # by distance, the farthest first
            x = F.pad(x, (0, 0, window - 1, 0)).unfold(1, window, 1) @ of_layer.softmax(0)
        said, truth = 10 * (x @ W)[:, back:], texts[:, :-back]
        return F.cross_entropy(said.flatten(0, 1), truth.flatten())

    for step in range(steps):
        slopes = torch.autograd.grad(loss(), [*scores, W])
        with torch.no_grad():
            for weight, slope in zip([*scores, W], slopes):
                weight -= 0.3 * (1 - step / steps) * slope / (slope.norm() + 1e-6)
    return loss().item()


@exercise(
    "09.smallest_window", title="Choose a setting: a window for two layers", difficulty=2, minutes=5
)
def smallest_window(answer, ctx):
    window = ctx.number(ctx.call(answer), "the window")
    if window != int(window) or not 1 <= window <= 24:
        ctx.fail(f"the window is {window:g}: expected a whole number from 1 to 24")
    if ctx.case:
        return "right."  # one training run is enough
    window = int(window)
    ended = f"with a window of {window} the loss ends at {_copied_from(13, window):.2f} nats"
    if window < 8:
        ctx.fail(f"{ended}, a guess among six letters: what stood 13 before does not arrive")
    if window > 8:
        ctx.fail(f"{ended}: the model learns, but it also does in a smaller window")
    return f"right: {ended}."


def _streamed(Q, K, V, sinks, window):
    token = np.arange(len(Q))
    distance = token[:, None] - token
    seen = (distance >= 0) & ((distance < window) | (token < sinks))
    scores = Q @ K.T / Q.shape[1] ** 0.5
    return softmax(np.where(seen, scores, -np.inf)) @ V


def _in_rows(n, size, row):
    """Which tokens each one sees that is written to `row` of its number once the rows are full."""
    rows, seen = [-1] * size, np.zeros((n, n), bool)
    for t in range(n):
        rows[t if t < size else row(t)] = t
        seen[t, [k for k in rows if k >= 0]] = True
    return seen


_SEEN = "(distance >= 0) & ((distance < window) | (token < sinks)) →"
_STREAMED = Slips(
    _streamed,
    {
        "the first tokens are written over when the cache begins its second "
        "round": f"{_SEEN} (distance >= 0) & (distance < sinks + window)",
        "the first tokens are forgotten": "| (token < sinks) →",
        "the window has one token too few: "
        "a token sees itself and window - 1 before it": "< window → < window - 1",
        "the window has one token too many": "< window → <= window",
        "a token does not see itself: write it to the cache before you look": (
            "distance >= 0 → distance > 0",
            "< window → <= window",
        ),
        "a new token after a full cache overwrites one that is still in the window: the row of the "
        "oldest one is free": f"{_SEEN} _in_rows(len(Q), sinks + window, lambda t: sinks + t % "
        "window)",
        "a new token after a full cache overwrites one of the window and not its oldest: at "
        "t = sinks + window that is the one in row sinks": f"{_SEEN} _in_rows(len(Q), sinks + "
        "window, lambda t: sinks + (t - sinks + 1) % window)",
        "everything stays in view: what has left the window is forgotten": f"{_SEEN} distance >= 0",
        "a token sees what comes after it": "(distance >= 0) & →",
        "the scores are not divided by the root of the width": "/ Q.shape[1] ** 0.5 →",
    },
)


@exercise(
    "09.second_round", title="Find the bug: a cache that rolls and keeps", difficulty=3, minutes=9
)
def second_round(answer, ctx):
    n, few, window, d, d_v = ctx.sizes(
        tokens=(1, 26, 301), sinks=(0, 5, 20), window=(1, 6, 70), d=(1, 5), d_v=(1, 4)
    )
    # exponentials of scores a hundred times as large overflow
    for factor, sinks in ((1.0, few), (100.0, few + 1)):
        where = f"for {n} tokens, sinks = {sinks}, window = {window}: the contexts"
        given = factor * ctx.normal(n, d), ctx.normal(n, d), ctx.normal(n, d_v)
        got = ctx.floats(ctx.call(answer, *given, sinks, window), where, (n, d_v))
        right, wrong = _STREAMED(*map(array, given), sinks, window)
        ctx.close(got, right, where, wrong)
