"""Checks of the section on global and local attention: a weight on paper, a prediction, the window,
its weights, a decoder with input feeding.
"""

import numpy as np
import torch
from torch import Tensor

from ..context import HARD_SCORES, array, softmax
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import Slips, on_paper


def _window(
    position, half_width, ends, n, round_to=lambda p: np.floor(p + 0.5), left=None, right=None
):
    """Where |j − centre| ≤ D and j < length, (batch, n)."""
    left, right = half_width if left is None else left, half_width if right is None else right
    away = np.arange(n)[None] - round_to(position)[:, None]
    return (away >= -left) & (away <= right) & (np.arange(n)[None] < ends[:, None])


def _sources(ctx, widest):
    """(positions, lengths, n, D), with up to `widest` places on each side of the centre.

    The positions take turns: in the middle of a source, rounded down; half-way where floor(p + 1/2)
    is not the even place; in the last word, rounded up to the place behind it; in a source of one
    word; half-way where the even place is the right one; at the far end of a source; at its
    beginning.
    """
    batch, n, half_width = ctx.sizes(batch=(1, 13), n=(1, 15), D=(1, widest))
    pairs = []
    for row in range(batch):
        tenths, even = ctx.integers(1, 4) / 10, 2 * ctx.integers(1, 3)
        position, length = (
            (n // 2 + tenths, n),
            (even + 0.5, even + ctx.integers(2, 4)),
            (n - 1 - tenths, n - 1),
            (tenths, 1),
            (even + 1.5, even + 5),
            (n, n),
            (0.0, n),
        )[row % 7]
        length = max(1, min(length, n))
        pairs.append((min(max(position, 0.0), length), length))
    position, lengths = zip(*(pairs[i] for i in ctx.order(batch)))
    return torch.tensor(position), torch.tensor(lengths), n, half_width


@on_paper(
    "03.at_the_edge",
    "the weight",
    title="A window at the edge",
    difficulty=2,
    minutes=5,
    within=0.0006,
)
def at_the_edge():
    near, far = np.exp(-1 / 2), np.exp(-2)
    right = far / 3
    return right, {
        "the window is cut off at the end of the source: only three of its places are words": far
        / 5,
        "the softmax runs over the window, not over all eight words": far / 8,
        "σ is D/2, not D": near / 3,
        "the weights are not made to sum to 1 again after the Gaussian": far / (1 + near + far),
        "the Gaussian is missing": 1 / 3,
        "that is the Gaussian alone: the softmax is missing": far,
        "the distance is squared in the Gaussian": np.exp(-1) / 3,
        "the 2 below the fraction of the Gaussian is missing": np.exp(-4) / 3,
    }


@exercise(
    "03.untrained_window",
    title="Predict: Where an untrained window stands",
    difficulty=1,
    minutes=2,
)
def untrained_window(answer, ctx):
    return ctx.predicted(answer, "near the front", "near the middle", "all over")


@exercise("03.window", title="The places of a window", difficulty=2, minutes=8)
def window(answer, ctx):
    for _ in range(2):
        position, lengths, n, half_width = _sources(ctx, 3)
        batch, ends = len(position), array(lengths)
        got = ctx.call(answer, position, half_width, lengths, n)
        got = ctx.tensor(
            got,
            "the window",
            (batch, n),
            dtype=torch.bool,
            mention="one row a source, one column a place",
        )
        p = array(position)

        def make(**options):
            return _window(p, half_width, ends, n, **options)

        expected = make()
        wrong = {
            "padding is in the window: places from the length on are no words": _window(
                p, half_width, np.full(batch, n), n
            ),
            "the last word of a source counts as padding: words are at 0 … length - 1": _window(
                p, half_width, ends - 1, n
            ),
            "one padding place counts as a word: words are at 0 … length - 1": _window(
                p, half_width, ends + 1, n
            ),
            "the window has 2D places: its right end, centre + D, belongs to it": make(
                right=half_width - 1
            ),
            "the window has 2D places: its left end, centre - D, belongs to it": make(
                left=half_width - 1
            ),
            "the window is too narrow at both ends: centre - D and centre + D belong to it": make(
                left=half_width - 1, right=half_width - 1
            ),
            "the window is one place too wide on each side": make(
                left=half_width + 1, right=half_width + 1
            ),
            "the centre is cut off: round it to the nearest place": make(round_to=np.floor),
            "the centre is rounded up: round it to the nearest place": make(round_to=np.ceil),
            "a half is rounded down: floor(position + 1/2) rounds it up": make(
                round_to=lambda x: np.ceil(x - 0.5)
            ),
            "a half is rounded to the even place (torch.round does that): the centre is "
            "floor(position + 1/2)": make(round_to=np.round),
            "the centre is moved into the source: it stays where it is, and what of the window "
            "lies outside is left out": make(
                round_to=lambda x: np.minimum(np.floor(x + 0.5), ends - 1)
            ),
            "the position is not rounded: the window has 2D places unless the position is "
            "whole": make(round_to=lambda x: x),
            "the window is upside down: True where it may look": ~expected,
        }
        ctx.close(got, expected, "the window", wrong)


@exercise("03.gaussian_weights", title="Weights under the Gaussian", difficulty=3, minutes=10)
def gaussian_weights(answer, ctx):
    position, lengths, n, half_width = _sources(ctx, 5)
    batch, ends = len(position), array(lengths)
    for factor, shift in HARD_SCORES:
        scores = factor * 1.5 * ctx.normal(batch, n) + shift
        got = ctx.call(answer, scores, position, half_width, lengths)
        got = ctx.floats(
            got,
            "the weights",
            (batch, n),
            nan="every window has a word in it, so all weights are finite"
            if (factor, shift) == HARD_SCORES[0]
            else "exp overflows for large scores and is 0 for low ones: torch.softmax subtracts "
            "the largest",
        )
        s, p = array(scores), array(position)
        inside = _window(p, half_width, ends, n)
        away = np.arange(n)[None] - p[:, None]

        def gaussian(sigma, away=away):
            return np.exp(-(away**2) / (2 * sigma**2))

        shares = softmax(np.where(inside, s, -np.inf))
        sigma = half_width / 2
        expected = shares * gaussian(sigma)
        wide = softmax(np.where(np.arange(n)[None] < ends[:, None], s, -np.inf))
        wrong = {
            "the Gaussian is missing": shares,
            "sigma is D: expected D / 2": shares * gaussian(half_width),
            "the Gaussian lacks its 1/2: exp(-(j - p)² / (2 sigma²))": shares
            * np.exp(-(away**2) / sigma**2),
            "sigma is not squared: exp(-(j - p)² / (2 sigma²))": shares
            * np.exp(-(away**2) / (2 * sigma)),
            "the distance is not squared: exp(-(j - p)² / (2 sigma²))": shares
            * np.exp(-np.abs(away) / (2 * sigma**2)),
            "the Gaussian stands around the rounded centre: it takes the position itself": shares
            * gaussian(sigma, np.arange(n)[None] - np.floor(p + 0.5)[:, None]),
            "the weights are normalised again after the Gaussian: this attention leaves them as "
            "they are": expected / expected.sum(-1, keepdims=True),
            "the Gaussian is added to the scores, so that the softmax shares it out again: "
            "multiply the weights": softmax(np.where(inside, s + gaussian(sigma), -np.inf)),
            "the Gaussian multiplies the scores: it belongs after the softmax": softmax(
                np.where(inside, s * gaussian(sigma), -np.inf)
            ),
            "the window is cut out after the softmax: the softmax must run over the window "
            "alone": wide * gaussian(sigma) * inside,
            "there is no window: the softmax runs over the whole source": wide * gaussian(sigma),
            "padding in the window gets weight": softmax(
                np.where(_window(p, half_width, np.full(batch, n), n), s, -np.inf)
            )
            * gaussian(sigma),
            "these are the bare Gaussian: the softmax of the scores is missing": np.where(
                inside, gaussian(sigma), 0.0
            ),
            "the Gaussian is normalised over the window: this attention leaves it as it is": shares
            * gaussian(sigma)
            / np.where(inside, gaussian(sigma), 0.0).sum(-1, keepdims=True),
            "the Gaussian is divided by sigma √(2π): its top is 1 here, it is no density": expected
            / (sigma * np.sqrt(2 * np.pi)),
        }
        ctx.recognize(got, expected, wrong)
        outside = np.where(inside, 0.0, np.abs(array(got)))
        if outside.any():
            ctx.fail(
                f"a place outside the window gets weight {outside.max():.2g}: expected exactly 0"
            )
        rough = 0.0 if (factor, shift) == HARD_SCORES[0] else np.abs(s).max()
        ctx.close(got, expected, "the weights", size=rough)

    def oracle(scores, position):
        bell = np.exp(-((np.arange(n)[None] - position[:, None]) ** 2) / (2 * sigma**2))
        return softmax(np.where(_window(position, half_width, ends, n), scores, -np.inf)) * bell

    scores = 1.5 * ctx.normal(batch, n)
    position = position - 0.2 * (position % 1 == 0.5)  # not half-way, where the window jumps
    check_gradients(
        ctx,
        answer,
        (scores, position, half_width, lengths),
        {0: "the scores", 1: "the position"},
        oracle,
    )


def _decode(e, s, h, w, w_c, w_x, w_s):
    v, outputs = np.zeros_like(s), []
    for x in e:
        s = np.tanh(np.concatenate((x, v), -1) @ w_x + s @ w_s)
        weights = softmax(np.einsum("bd,de,bne->bn", s, w, h))
        c = np.einsum("bn,bnd->bd", weights, h)
        v = np.tanh(np.concatenate((c, s), -1) @ w_c.T)
        outputs.append(v)
    return np.stack(outputs)


_DECODE = Slips(
    _decode,
    {
        "the scores are made with s_{t-1}: this decoder moves first and asks with the new state": (
            "s = np.tanh( → before, s = s, np.tanh(",
            "s, w, h → before, w, h",
        ),
        "the tanh of the attention vector is missing": "v = np.tanh( → v = (",
        "[s; c] stands where [c; s] should: W_c meets the context first": "(c, s) → (s, c)",
        "[h̃; embedding] goes into the cell: expected [embedding; h̃]": "(x, v) → (v, x)",
        "the context is fed into the next step: feed "
        "h̃": "outputs.append(v) → outputs.append(v)\n        v = c",
        "the state is fed into the next step: feed "
        "h̃": "outputs.append(v) → outputs.append(v)\n        v = s",
        "zeros are fed at every step: feed h̃ of the step before": "(x, v) → (x, 0 * v)",
        "the start state is fed at the first step: expected zeros": "np.zeros_like(s) → s",
        "W is transposed: the score is sᵀ W h": "s, w, h → s, w.T, h",
        "W is not used in the score: it is sᵀ W h": "s, w, h → s, np.eye(len(w)), h",
        "the scores are divided by √d: "
        "the general score is not scaled": "s, w, h) → s, w, h) / np.sqrt(len(w))",
        "the weights are equal: the scores are not used": "s, w, h → 0 * s, w, h",
        "every step starts from s_0: pass on the state that the cell returns": (
            "v, outputs = → start, v, outputs = s,",
            "s @ w_s → start @ w_s",
        ),
        "the steps come back in reverse order: "
        "the first one comes first": "(outputs) → (outputs[::-1])",
    },
)


@exercise("03.input_feeding", title="A decoder with input feeding", difficulty=4, minutes=13)
def input_feeding(answer, ctx):
    m, batch, n, d_e, d = ctx.sizes(m=(1, 6), batch=(1, 3), n=(1, 6), d_e=(1, 3), d=(1, 5))
    embedded, start, annotations = (
        ctx.normal(m, batch, d_e),
        ctx.normal(batch, d),
        ctx.normal(batch, n, d),
    )
    w, w_c = 0.4 * ctx.normal(d, d), 0.4 * ctx.normal(d, 2 * d)
    w_x, w_s = 0.5 * ctx.normal(d_e + d, d), 0.5 * ctx.normal(d, d)

    def cell(x, s):
        if isinstance(x, Tensor) and x.shape[-1] != d_e + d:
            ctx.fail(
                f"the cell got inputs of width {x.shape[-1]}, expected {d_e + d}: the "
                f"embedding and h̃ of the step before"
            )
        return torch.tanh(x @ w_x + s @ w_s)

    got = ctx.call(answer, cell, embedded, start, annotations, w, w_c)
    got = ctx.floats(got, "the attention vectors", (m, batch, d), mention="one a step and source")
    cells = {"w_x": array(w_x), "w_s": array(w_s)}
    given = embedded, start, annotations, w, w_c
    right, wrong = _DECODE(*map(array, given), *cells.values())
    ctx.close(got, right, "the attention vectors", wrong)
    name = "the attention vectors where scores are large"
    nan = (
        "exp overflows for large scores and is 0 for low ones: torch.softmax subtracts the largest"
    )
    # a state of 1 and -1, and whole numbers elsewhere: no score is rounded
    whole, large = ctx.integers(-3, 4, batch, n, d).float(), 100.0 * ctx.integers(-3, 4, d, d)
    hard = 1e6 * embedded[:1].sign(), start, whole, large, w_c
    got = ctx.floats(ctx.call(answer, cell, *hard), name, (1, batch, d), nan=nan)
    ctx.close(got, _decode(*map(array, hard), **cells), name)
    at = dict(enumerate(("embedded", "start", "annotations", "W", "W_c"), 1))
    check_gradients(ctx, answer, (cell, *given), at, lambda *now: _decode(*now, **cells))
