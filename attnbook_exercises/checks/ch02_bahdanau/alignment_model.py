"""Checks of the section on the alignment model: annotations, additive scores, masked contexts,
one projection a source.
"""

import numpy as np
import torch

from ...answers.flop_counter import Products
from ..context import HARD_SCORES, array, softmax
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import Slips, on_paper


@on_paper(
    "02.by_hand",
    ("entry 1 of the context", "entry 2 of the context"),
    title="one step of attention",
    difficulty=1,
    minutes=4,
    within=0.01,
)
def by_hand():
    return (5, 7), {
        "the weights do not add up to 1: divide by the sum of the exponentials": (40, 56),
        "the scores stand where the weights should: take their exponentials first": (11.09, 19.88),
        "the scores are divided by their sum: the softmax takes their exponentials": (4.46, 8.0),
        "that is the plain mean of the annotations": (5.33, 5.33),
        "the two entries are swapped": (7, 5),
    }


@exercise("02.backwards", title="Predict: dates from right to left", difficulty=1, minutes=2)
def backwards(answer, ctx):
    return ctx.predicted(answer, "nearly all", "about half", "nearly none")


def _scores(state, annotations, w, u, v):
    inside = (state @ w.T)[..., None, :] + annotations @ u.T
    return np.tanh(inside) @ v


_SCORES = Slips(
    _scores,
    {
        "the tanh is missing: without it the state shifts all scores alike, and the weights forget "
        "it": "np.tanh(inside) → inside",
        "tanh comes after v: "
        "it belongs inside, before the product with v": "np.tanh(inside) @ v → np.tanh(inside @ v)",
        "a ReLU stands where tanh should": "np.tanh(inside) → np.maximum(inside, 0)",
        "a sigmoid stands where tanh should": "np.tanh(inside) → (1 / (1 + np.exp(-inside)))",
        "v is not used: the hidden units are added up": "@ v → .sum(-1)",
        "the two parts go through tanh one by one: add them first": (
            "(state @ w.T)[..., None, :] + annotations @ u.T → np.tanh(state @ w.T)[..., None, :] "
            "+ np.tanh(annotations @ u.T)",
            "np.tanh(inside) → inside",
        ),
        "the two parts are multiplied: "
        "this score adds them": "+ annotations @ u.T → * (annotations @ u.T)",
        "the state is not used": "(state @ w.T)[..., None, :] + →",
        "these are weights: the scores before the softmax were asked "
        "for": "np.tanh(inside) @ v → softmax(np.tanh(inside) @ v)",
        "W_s and W_h are swapped: W_s belongs to the state, W_h to the annotations": (
            "w.T → W.T",
            "u.T → w.T",
            "W.T → u.T",
        ),
        "W_s and W_h are transposed: they have one row a hidden unit": ("w.T → w", "u.T → u"),
    },
)


@exercise("02.additive_score", title="The additive score", difficulty=2, minutes=6)
def additive_score(answer, ctx):
    other = ctx.sizes(batch=(1, 3), n=(1, 6), d_s=(1, 4), d_h=(1, 5), d_a=(1, 3))
    for batch, n, d_s, d_h, d_a in ((2, 3, 4, 4, 4), other):
        state, annotations = ctx.normal(batch, d_s), ctx.normal(batch, n, d_h)
        parameters = ctx.normal(d_a, d_s), ctx.normal(d_a, d_h), ctx.normal(d_a)
        got = ctx.call(answer, state, annotations, *parameters)
        got = ctx.floats(got, "the scores", (batch, n), mention="one score an annotation")
        right, wrong = _SCORES(*(array(t) for t in (state, annotations, *parameters)))
        ctx.close(got, right, "the scores", wrong)
    at = dict(enumerate(("state", "annotations", "W_s", "W_h", "v")))
    check_gradients(ctx, answer, (state, annotations, *parameters), at, _scores)


def _weights(scores, lengths):
    real = np.arange(scores.shape[-1]) < lengths[:, None]
    return softmax(np.where(real, scores, -np.inf))


_WEIGHTS = Slips(
    _weights,
    {
        "the padding gets weight: "
        "the lengths are not used": "np.where(real, scores, -np.inf) → scores",
        "the weights of the padding are set to 0 after the softmax: those of the words no longer "
        "add up to 1": "np.where(real, scores, -np.inf)) → scores) * real",
        "masked scores become 0, and exp(0) is 1: "
        "the padding still gets weight": "np.where(real, scores, -np.inf) → scores * real",
        "one padding position is left in: the words are at positions 0 … length - 1": "< → <=",
        "the last word is masked too: "
        "the words are at positions 0 … length - 1": "lengths[:, None] → lengths[:, None] - 1",
        "the mask is upside down: "
        "only the padding gets weight": "scores, -np.inf → -np.inf, scores",
        "the softmax runs over the batch (dim=0): "
        "expected over the positions (dim=-1)": "-np.inf)) → -np.inf), 0)",
    },
)


def _context(scores, annotations, lengths):
    return np.einsum("bn,bnd->bd", _weights(scores, lengths), annotations)


_CONTEXT = Slips(
    _context,
    {
        "the context is made with weights that do not know the "
        "padding": "_weights(scores, lengths) → softmax(scores)",
        "the context is a plain mean of the "
        "annotations": "_weights(scores, lengths) → np.full_like(scores, 1 / scores.shape[-1])",
        "the context is the mean of the weighted annotations: the weights add up to 1, add them "
        "up": "_weights(scores, lengths) → _weights(scores, lengths) / scores.shape[-1]",
    },
)


@exercise("02.masked_context", title="A context without padding", difficulty=2, minutes=8)
def masked_context(answer, ctx):
    for hard, (factor, shift) in enumerate(HARD_SCORES):
        batch, n, d = ctx.sizes(batch=(1, 4), n=(1, 7), d=(1, 5))
        scores, annotations = factor * ctx.normal(batch, n) + shift, ctx.normal(batch, n, d)
        most = n if hard or n == 1 else n - 1  # padding in every row, first of all
        lengths = ctx.lengths(batch, most, min(2, most))
        s, h, ends = array(scores), array(annotations), array(lengths)
        got_context, got = ctx.parts(
            ctx.call(answer, scores, annotations, lengths),
            ("context", "weights"),
            ((batch, d), (batch, n)),
        )
        got = ctx.floats(
            got,
            "weights",
            (batch, n),
            nan="exp overflows or is 0 at every word: subtract the largest first" if hard else None,
        )
        got_context = ctx.floats(got_context, "context", (batch, d))
        right, wrong = _WEIGHTS(s, ends)
        ctx.recognize(got, right, {} if hard else wrong)
        padding = np.where(np.arange(n) < ends[:, None], 0.0, array(got))
        if padding.any():
            ctx.fail(f"a padding position gets weight {padding.max():.2g}: expected exactly 0")
        rough = np.abs(s).max() if hard else 0.0  # by the logarithm of the sum, for one
        ctx.close(got, right, "weights", size=rough)
        right, wrong = _CONTEXT(s, h, ends)
        ctx.close(got_context, right, "context", wrong, size=rough * np.abs(h).max())
        if not hard:
            given = (scores, annotations, lengths)
            check_gradients(
                ctx,
                answer,
                given,
                {0: "scores", 1: "annotations"},
                lambda s, h: _context(s, h, ends),
                part=0,
            )
            check_gradients(ctx, answer, given, {0: "scores"}, lambda s: _weights(s, ends), part=1)


def _look_all(states, annotations, w, u, v):
    inside = (states @ w.T)[:, :, None] + annotations @ u.T
    return softmax(np.tanh(inside) @ v)


_LOOK_ALL = Slips(
    _look_all,
    {
        "these are scores: a softmax over the positions is "
        "missing": "softmax(np.tanh(inside) @ v) → np.tanh(inside) @ v",
        "the softmax runs over the steps (dim=0): "
        "expected over the positions (dim=-1)": "@ v → @ v, 0",
        "the softmax runs over the batch (dim=1): "
        "expected over the positions (dim=-1)": "@ v → @ v, 1",
        "the tanh is missing: all steps get the same weights": "np.tanh(inside) → inside",
        "every step gets the weights of the first: "
        "score each state": "states @ → (0 * states + states[:1]) @",
        "a ReLU stands where tanh should": "np.tanh(inside) → np.maximum(inside, 0)",
    },
)


@exercise("02.project_once", title="Project the keys once", difficulty=3, minutes=10)
def project_once(answer, ctx):
    m, batch, n, d_s = ctx.sizes(m=(1, 6), batch=(1, 3), n=(1, 5), d_s=(1, 3))
    d_h, d_a = 16, 8  # wide, so that the projection is what costs
    states, annotations = ctx.normal(m, batch, d_s), ctx.normal(batch, n, d_h)
    parameters = ctx.normal(d_a, d_s), 0.3 * ctx.normal(d_a, d_h), ctx.normal(d_a)
    with Products() as counter:
        got = ctx.call(answer, states, annotations, *parameters)
    got = ctx.floats(got, "weights", (m, batch, n), mention="one row of weights a step and source")
    s, h, w, u, v = (array(t) for t in (states, annotations, *parameters))
    right, wrong = _LOOK_ALL(s, h, w, u, v)
    ctx.close(got, right, "weights", wrong)
    once = 2 * batch * n * d_h * d_a  # multiplications and additions
    rest = 2 * m * batch * d_a * (d_s + n)
    times = 1 + (counter.count - rest - once) / once
    if times > 1.5 and m > 1:
        ctx.fail(
            f"the weights are right, but the matrix products cost as much as projecting the "
            f"annotations {times:.0f} times "
            f"(for {m} steps): W_h h does not depend on the step, compute it once"
        )

    sharp = (*parameters[:2], 100 * parameters[2])
    got = ctx.call(answer, states, annotations, *sharp)
    got = ctx.floats(got, "weights where v is large", (m, batch, n))
    ctx.close(got, _look_all(s, h, w, u, array(sharp[2])), "weights where v is large")

    at = dict(enumerate(("states", "annotations", "W_s", "W_h", "v")))
    check_gradients(ctx, answer, (states, annotations, *parameters), at, _look_all)

    def check_gradient(result, copies):
        upstream = 1e31 * ctx.normal(1, batch, n)
        (gradient,) = torch.autograd.grad(result, copies[1], torch.cat((upstream, -upstream)))
        if not torch.isfinite(gradient).all():
            ctx.fail(
                "the weights are right, but the annotations are projected anew in every step: W_h "
                "h does not depend on the step, compute it once"
            )

    # Two equal steps with opposite gradients: at keys that both share they add up to 0; each taken
    # back through a large U they overflow.
    w, u, v = parameters
    ctx.call(
        answer,
        states[:1].repeat(2, 1, 1),
        (1e-10 * annotations).requires_grad_(),
        w,
        1e10 * u,
        v,
        then=check_gradient,
    )


def _read(inputs, unit, start):
    """The states of one unit that reads a source; those it has not come to are 0."""
    w, u, b = unit
    state, states = np.zeros(len(b)), np.zeros((len(inputs), len(b)))
    for i in start:
        states[i] = state = np.tanh(inputs[i] @ w + state @ u + b)
    return states


def _both(inputs, lengths, left, right):
    rows = []
    for x, end in zip(inputs, lengths):
        forward, backward = _read(x, left, range(end)), _read(x, right, reversed(range(end)))
        rows.append(np.concatenate((forward, backward), -1))
    return np.stack(rows) * (np.arange(inputs.shape[1]) < lengths[:, None])[..., None]


_BOTH = Slips(
    _both,
    {
        "the backward states are in reading order, that of the flipped batch: "
        "flip them back along the positions": "(forward, backward) → (forward, backward[::-1])",
        "the backward states are in reading order, that of the flipped batch: flip them back along "
        "the positions, and start at the last word": (
            "reversed(range(end)) → reversed(range(len(x)))",
            "(forward, backward) → (forward, backward[::-1])",
        ),
        "the backward unit starts in the padding: it must start at the last word of each "
        "source": "reversed(range(end)) → reversed(range(len(x)))",
        "the backward states are in reading order: turn them round, so that position i holds what "
        "was read from the end to "
        "i": "(forward, backward) → (forward, np.roll(backward[::-1], end, 0))",
        "one unit runs in both directions: "
        "the backward one has its own": "_read(x, right → _read(x, left",
        "the two units are swapped: the forward states come first": (
            "_read(x, left → _read(x, other",
            "_read(x, right → _read(x, left",
            "(x, other → (x, right",
        ),
        "the backward states come first: "
        "expected [forward; backward]": "(forward, backward), → (backward, forward),",
        "the backward half repeats the forward one: "
        "it must read from the end": "(forward, backward), → (forward, forward),",
    },
)


@exercise("02.bidirectional", title="Annotations from both sides", difficulty=4, minutes=15)
def bidirectional(answer, ctx):
    batch, n, d, size = ctx.sizes(batch=(1, 4), n=(1, 6), d=(1, 3), hidden_size=(1, 3))
    inputs = ctx.normal(batch, n, d)
    lengths = ctx.lengths(batch, n)
    matrices = [(ctx.normal(d, size), ctx.normal(size, size), ctx.normal(size)) for _ in range(2)]

    def cell(number):
        w, u, b = matrices[number]
        return lambda x, h: torch.tanh(x @ w + h @ u + b)

    ends, units = array(lengths), [tuple(map(array, unit)) for unit in matrices]
    right, wrong = _BOTH(array(inputs), ends, *units)
    got = ctx.call(answer, cell(0), cell(1), inputs, lengths, size)
    hint = "forward and backward states side by side, 2 × hidden_size wide"
    got = ctx.floats(got, "the annotations", (batch, n, 2 * size), mention=hint)
    real = (np.arange(n) < ends[:, None])[..., None]
    ctx.recognize(array(got) * real, right, wrong)
    if ctx.same(array(got) * real, right) and (array(got) * ~real).any():
        ctx.fail("the annotations of padding positions are not 0")
    ctx.close(got, right, "the annotations")
    given = (cell(0), cell(1), inputs, lengths, size)
    check_gradients(ctx, answer, given, {2: "inputs"}, lambda x: _both(x, ends, *units))
