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


def _window(p, D, ends, n):
    places, centre = np.arange(n), np.floor(p + 0.5)[:, None]
    return (places >= centre - D) & (places <= centre + D) & (places < ends[:, None])


_WINDOW = Slips(
    _window,
    {
        "padding is in the window: "
        "places from the length on are no words": "& (places < ends[:, None]) →",
        "the last word of a source counts as padding: "
        "words are at 0 … length - 1": "ends[:, None] → ends[:, None] - 1",
        "one padding place counts as a word: "
        "words are at 0 … length - 1": "ends[:, None] → ends[:, None] + 1",
        "the window has 2D places: "
        "its right end, centre + D, belongs to it": "<= centre + D → < centre + D",
        "the window has 2D places: "
        "its left end, centre - D, belongs to it": ">= centre - D → > centre - D",
        "the window is too narrow at both ends: centre - D and centre + D belong to it": (
            "<= centre + D → < centre + D",
            ">= centre - D → > centre - D",
        ),
        "the window is one place too wide on each side": (
            "centre + D → centre + D + 1",
            "centre - D → centre - D - 1",
        ),
        "the centre is cut off: round it to the nearest place": "np.floor(p + 0.5) → np.floor(p)",
        "the centre is rounded up: round it to the nearest place": "np.floor(p + 0.5) → np.ceil(p)",
        "a half is rounded down: "
        "floor(position + 1/2) rounds it up": "np.floor(p + 0.5) → np.ceil(p - 0.5)",
        "a half is rounded to the even place (torch.round does that): the centre is "
        "floor(position + 1/2)": "np.floor(p + 0.5) → np.round(p)",
        "the centre is moved into the source: it stays where it is, and what of the window lies "
        "outside is left out": "np.floor(p + 0.5) → np.minimum(np.floor(p + 0.5), ends - 1)",
        "the position is not rounded: "
        "the window has 2D places unless the position is whole": "np.floor(p + 0.5) → p",
        "the window is upside down: True where it may look": (
            "return ( → return ~((",
            "ends[:, None]) → ends[:, None]))",
        ),
    },
)


def _local(s, p, D, ends):
    inside = _window(p, D, ends, s.shape[1])
    shares = softmax(np.where(inside, s, -np.inf))
    away = np.arange(s.shape[1]) - p[:, None]
    bell = np.exp(-(away**2) / (2 * (D / 2) ** 2))
    return shares * bell


_LOCAL = Slips(
    _local,
    {
        "the Gaussian is missing": "* bell →",
        "sigma is D: expected D / 2": "(D / 2) → D",
        "the Gaussian lacks its 1/2: exp(-(j - p)² / (2 sigma²))": "(2 * (D → (1 * (D",
        "sigma is not squared: exp(-(j - p)² / (2 sigma²))": "(D / 2) ** 2 → (D / 2)",
        "the distance is not squared: exp(-(j - p)² / (2 sigma²))": "away**2 → np.abs(away)",
        "the Gaussian stands around the rounded centre: "
        "it takes the position itself": "- p[:, None] → - np.floor(p + 0.5)[:, None]",
        "the weights are normalised again after the Gaussian: this attention leaves them as they "
        "are": "shares * bell → shares * bell / (shares * bell).sum(-1, keepdims=True)",
        "the Gaussian is added to the scores, so that the softmax shares it out again: multiply "
        "the weights": "shares * bell → softmax(np.where(inside, s + bell, -np.inf))",
        "the Gaussian multiplies the scores: it belongs after the "
        "softmax": "shares * bell → softmax(np.where(inside, s * bell, -np.inf))",
        "the window is cut out after the softmax: the softmax must run over the window alone": (
            "np.where(inside, → np.where(np.arange(s.shape[1]) < ends[:, None],",
            "* bell → * bell * inside",
        ),
        "there is no window: the softmax runs over the whole "
        "source": "np.where(inside, → np.where(np.arange(s.shape[1]) < ends[:, None],",
        "padding in the window gets weight": "D, ends, s → D, ends + s.shape[1], s",
        "these are the bare Gaussian: the softmax of the scores is missing": "shares * → inside *",
        "the Gaussian is normalised over the window: this attention leaves it as it "
        "is": "* bell → * bell / (inside * bell).sum(-1, keepdims=True)",
        "the Gaussian is divided by sigma √(2π): "
        "its top is 1 here, it is no density": "* bell → * bell / (D / 2 * np.sqrt(2 * np.pi))",
    },
)


def _sources(ctx, widest):
    """(positions, lengths, n, D), with up to `widest` places on each side of the centre.

    The positions take turns: in the middle of a source, rounded down; half-way where floor(p + 1/2)
    is not the even place; in the last word, rounded up to the place after it; in a source of one
    word; half-way where the even place is the right one; at the far end of a source; at its
    beginning; just before half-way.
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
            (even + 0.5 - 2**-21, even + 3),
        )[row % 8]
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
        right, wrong = _WINDOW(array(position), half_width, ends, n)
        ctx.close(got, right, "the window", wrong)


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
        right, wrong = _LOCAL(s, p, half_width, ends)
        ctx.recognize(got, right, wrong)
        outside = np.where(_window(p, half_width, ends, n), 0.0, np.abs(array(got)))
        if outside.any():
            ctx.fail(
                f"a place outside the window gets weight {outside.max():.2g}: expected exactly 0"
            )
        rough = 0.0 if (factor, shift) == HARD_SCORES[0] else np.abs(s).max()
        ctx.close(got, right, "the weights", size=rough)

    scores = 1.5 * ctx.normal(batch, n)
    position = position - 0.2 * (
        (position % 1 - 0.5).abs() < 0.01
    )  # not half-way, where the window jumps
    check_gradients(
        ctx,
        answer,
        (scores, position, half_width, lengths),
        {0: "the scores", 1: "the position"},
        lambda s, p: _local(s, p, half_width, ends),
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
    m, batch, n, d_e, d = ctx.sizes(m=(1, 6), batch=(1, 3), n=(1, 6, 40), d_e=(1, 3), d=(1, 5))
    embedded, start, annotations = (
        ctx.normal(m, batch, d_e),
        ctx.normal(batch, d),
        ctx.normal(batch, n, d),
    )
    narrow = min(1.0, 5 / d)  # no score is so large that central differences are rough
    w, w_c = 0.4 * narrow * ctx.normal(d, d), 0.4 * narrow**0.5 * ctx.normal(d, 2 * d)
    w_x, w_s = (0.5 * narrow**0.5 * ctx.normal(rows, d) for rows in (d_e + d, d))

    def cell(x, s):
        if isinstance(x, Tensor) and x.shape[-1] != d_e + d:
            ctx.fail(
                f"the cell got inputs of width {x.shape[-1]}, expected {d_e + d}: the "
                f"embedding and h̃ of the step before"
            )
        return torch.tanh(x @ w_x.to(x) + s @ w_s.to(x))

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
