"""Checks of the section on the alignment model: one look at the source, what is kept for the
way back, one projection a source, annotations from both sides.
"""

from functools import partial

import numpy as np
import torch

from ...answers.flop_counter import Products
from ..context import array, softmax
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import Slips, on_paper


def _look(state, annotations, w, u, v, real):
    scores = np.tanh((state @ w.T)[:, None] + annotations @ u.T) @ v
    return softmax(np.where(real, scores, -np.inf))


_LOOK = Slips(
    _look,
    {
        "the padding gets weight": "np.where(real, scores, -np.inf) → scores",
        "the mask is upside down: True stands where there is a word": (
            "np.where(real, → np.where(~real,"
        ),
        "the softmax runs over the batch (dim=0): expected over the positions (dim=-1)": (
            "-np.inf)) → -np.inf), 0)"
        ),
        "the tanh is missing": "np.tanh( → (",
    },
)


def _reading(weights, annotations):
    return (weights[..., None] * annotations).sum(1)


_READING = Slips(
    _reading,
    {
        "the code runs now, but weight j multiplies entry j of every annotation: it belongs to "
        "annotation j, all of whose entries it multiplies": "weights[..., None] → weights[:, None]",
        "the sum runs over the entries of an annotation: expected over the positions": (
            "sum(1) → sum(2)"
        ),
        "each sentence gets the weights of all sentences: the batch has a dimension of its own": (
            "(weights[..., None] * annotations) → (weights.sum(0)[:, None] * annotations)"
        ),
        "this is the mean of the weighted annotations: the weights add up to 1, add them up": (
            "sum(1) → mean(1)"
        ),
    },
)


@exercise("02.one_look", title="Shape error: one look at the source", difficulty=2, minutes=8)
def one_look(answer, ctx):
    batch, n, d_s, d_h, d_a = ctx.sizes(batch=(1, 3), n=(1, 6), d_s=(1, 4), d_h=(1, 5), d_a=(1, 3))
    for factor, (rows, columns, width) in (
        (1.0, (3, 4, 4)),  # as many positions as entries: a wrong repair runs
        (1.0, (batch, n, d_h)),
        (1e5, (batch, n, d_h)),  # the exponentials overflow, and some scores lie very low
    ):
        state, annotations = ctx.normal(rows, d_s), ctx.normal(rows, columns, width)
        parameters = ctx.normal(d_a, d_s), ctx.normal(d_a, width), factor * ctx.normal(d_a)
        real = torch.arange(columns) < ctx.lengths(rows, max(1, columns - 1))[:, None]
        given = (state, annotations, *parameters, real)
        context, weights = ctx.parts(
            ctx.call(answer, *given), ("context", "weights"), ((rows, width), (rows, columns))
        )
        weights = ctx.floats(weights, "weights", (rows, columns), mention="one weight a position")
        right, wrong = _LOOK(*map(array, given))
        rough = factor * d_a if factor > 1 else 0.0
        ctx.close(weights, right, "weights", wrong, size=rough)
        context = ctx.floats(context, "context", (rows, width), mention="one context a sentence")
        right, wrong = _READING(right, array(annotations))
        ctx.close(context, right, "context", wrong, size=rough * float(annotations.abs().max()))
        if rough:
            continue
        at = dict(enumerate(("state", "annotations", "W_s", "W_h", "v")))
        seen = array(real)

        def oracle(s, h, w, u, v):
            return _reading(_look(s, h, w, u, v, seen), h)

        check_gradients(ctx, answer, given, at, oracle, part=0)
        check_gradients(ctx, answer, given, at, partial(_look, real=seen), part=1)


@exercise("02.backwards", title="Predict: dates from right to left", difficulty=1, minutes=2)
def backwards(answer, ctx):
    return ctx.predicted(answer, "nearly all", "about half", "nearly none")


@on_paper(
    "02.kept_for_the_way_back",
    ("the number of megabytes of the tanh outputs", "the number of megabytes of the weights"),
    title="what is kept for the way back",
    kind="Budget",
    difficulty=2,
    minutes=6,
    within=0.005,
)
def kept_for_the_way_back():
    return (640, 0.64), {
        "the tanh has an output for every pair of a target word and a source word: the target "
        "words are missing": (16, 0.64),
        "the target words are missing in both: each of them has scores of its own": (16, 0.016),
        "the tanh has an output for every pair of a target word and a source word: the source "
        "words are missing": (12.8, 0.64),
        "these are numbers: one in float32 has 4 bytes": (160, 0.16),
        "this is one sentence pair: a batch has 80": (8, 0.008),
        "the tanh is 1,000 wide, not as wide as an annotation": (768, 0.64),
        "these are bytes of float64: a number in float32 has 4": (1280, 1.28),
        "these are bytes of half precision: a number in float32 has 4": (320, 0.32),
        "a weight is one number for a pair of words, however wide the tanh is": (640, 640),
        "these are mebibytes, of 2²⁰ bytes: expected those of 10⁶": (610.35, 0.61035),
    }


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
    m, batch, n, d_s = ctx.sizes(m=(1, 6), batch=(1, 3), n=(1, 5, 40), d_s=(1, 3))
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
        return lambda x, h: torch.tanh(x @ w.to(x) + h @ u.to(x) + b.to(x))

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
