"""Checks of the section on encoder and decoder: batches, the last real state, a GRU step, log
p(y|x).
"""

from functools import partial

import numpy as np
import torch

from ...answers.guarded import StudentError
from ..context import HARD_SCORES, array
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import on_paper


def _padded(rows, width, pad):
    return np.array([row + [pad] * (width - len(row)) for row in rows])


def _padded_left(rows, width, pad):
    return np.array([[pad] * (width - len(row)) + row for row in rows])


def _sigmoid(x):
    return (1 + np.tanh(x / 2)) / 2


def _gru(
    x,
    h,
    w_x,
    w_h,
    b_x,
    b_h,
    *,
    order="rzn",
    candidate=np.tanh,
    swap=False,
    reset="product",
    bias=True,
):
    """One GRU step, with switches for the variants of books and programs and for known mistakes."""
    size = h.shape[-1]
    from_x, from_h = x @ w_x.T + b_x, h @ w_h.T + (b_h if bias else 0.0)
    part = {name: slice(i * size, (i + 1) * size) for i, name in enumerate(order)}
    r = _sigmoid(from_x[:, part["r"]] + from_h[:, part["r"]])
    z = _sigmoid(from_x[:, part["z"]] + from_h[:, part["z"]])
    inner = {
        "product": r * from_h[:, part["n"]],
        "matrix": r * (h @ w_h[part["n"]].T) + (b_h[part["n"]] if bias else 0.0),
        "state": (r * h) @ w_h[part["n"]].T + b_h[part["n"]],
        "none": from_h[:, part["n"]],
    }[reset]
    n = candidate(from_x[:, part["n"]] + inner)
    return z * n + (1 - z) * h if swap else (1 - z) * n + z * h


@on_paper(
    "01.answer_by_hand",
    "the probability",
    title="the probability of an answer",
    difficulty=1,
    minutes=3,
    within=0.001,
)
def answer_by_hand():
    return 0.06, {
        "the answer ends with EOS, which is a factor, too": 0.3,
        "that is the answer 400 and more: after 4 and 0 comes EOS": 0.24,
        "the probabilities of the steps are added up: they multiply": 1.3,
        "that is the mean of the steps: p(y | x) is their product": 1.3 / 3,
        "a probability lies between 0 and 1; is this its logarithm?": float(np.log(0.06)),
        "that is percent: a probability lies between 0 and 1": 6.0,
        "the first digit is 4, not 5": 0.04,
    }


@exercise("01.eight_digits", title="Predict: a number that is too long", difficulty=1, minutes=2)
def eight_digits(answer, ctx):
    return ctx.predicted(answer, "eight", "seven", "at most six")


@exercise(
    "01.teacher_forcing", title="What the decoder reads, what it must say", difficulty=1, minutes=5
)
def teacher_forcing(answer, ctx):
    for bos, eos, pad in ((1, 2, 0), (1 + i for i in ctx.order(7)[:3])):
        batch, longest = ctx.sizes(batch=(1, 4), longest=(1, 6))
        lengths = ctx.lengths(batch, longest).tolist()
        targets = [ctx.integers(8, 20, k).tolist() for k in lengths]
        shape = (batch, max(lengths) + 1)
        got_in, got_out = ctx.parts(
            ctx.call(answer, targets, bos, eos, pad), ("target_in", "target_out")
        )
        hint = "a target of length m takes m + 1 steps, the last one says EOS"
        got_in = ctx.tensor(got_in, "target_in", shape, dtype=torch.long, mention=hint)
        got_out = ctx.tensor(got_out, "target_out", shape, dtype=torch.long, mention=hint)
        width = shape[1]
        right_in = _padded([[bos, *y] for y in targets], width, pad)
        right_out = _padded([[*y, eos] for y in targets], width, pad)
        ctx.close(
            got_in,
            right_in,
            "target_in",
            {
                "target_in is what the decoder must say: it reads the answer. Shift it by one, "
                "BOS first": right_out,
                f"target_in is padded with 0: expected pad, which is {pad} here": _padded(
                    [[bos, *y] for y in targets], width, 0
                ),
                "target_in is padded with EOS: the places after the last token are filled with "
                "pad": _padded([[bos, *y] for y in targets], width, eos),
                "target_in is padded at the left: the row begins with BOS, pad comes after the "
                "last token": _padded_left([[bos, *y] for y in targets], width, pad),
                "target_in holds EOS in the shorter rows: to cut off the last column takes it "
                "from the longest row alone": _padded(
                    [[bos, *y, eos] for y in targets], width + 1, pad
                )[:, :-1],
                "target_in does not begin with BOS": _padded([[*y] for y in targets], width, pad),
            },
        )
        ctx.close(
            got_out,
            right_out,
            "target_out",
            {
                "target_out is what the decoder reads: it must say the next token each "
                "time": right_in,
                "target_out does not end with EOS: the decoder never learns to stop": _padded(
                    targets, width, pad
                ),
                "EOS stands at the end of the padded row: it belongs right after the last "
                "token": np.array([y + [pad] * (width - 1 - len(y)) + [eos] for y in targets]),
                "target_out is padded at the left: the target comes first, pad after "
                "EOS": _padded_left([[*y, eos] for y in targets], width, pad),
                "target_out is padded with EOS: after the first EOS comes pad": _padded(
                    targets, width, eos
                ),
                f"target_out is padded with 0: expected pad, which is {pad} here": _padded(
                    [[*y, eos] for y in targets], width, 0
                ),
            },
        )


@exercise("01.last_states", title="The last real state", difficulty=2, minutes=5)
def last_states(answer, ctx):
    for shortest in (3, 1):
        batch, n, width = ctx.sizes(batch=(1, 4), n=(1, 8), width=(1, 4))
        outputs, lengths = ctx.normal(batch, n, width), ctx.lengths(batch, n, min(shortest, n))
        h, ends = array(outputs), array(lengths)
        try:
            got = ctx.call(answer, outputs, lengths)
        except StudentError as error:
            if f"index {n} is out of bounds" not in str(error):
                raise
            ctx.fail(
                f"{error}. This is one step after the last token: positions count from 0, so it "
                f"stands at length - 1"
            )
        got = ctx.floats(got, "the states", (batch, width), mention="one state a source")
        rows = np.arange(batch)
        real = np.arange(n)[None, :, None] < ends[:, None, None]
        wrong = {
            "these are the states at the end of the padded batch: the encoder has read padding "
            "by then": h[:, -1],
            "these are the states one step after the last token: positions count from 0": h[
                rows, ends % n
            ],
            "these are the states one step after the last token, cut off at the end: positions "
            "count from 0": h[rows, np.minimum(ends, n - 1)],
            "these are the states one step before the last token": h[rows, ends - 2],
            "these are the first states": h[:, 0],
            **{
                f"all sources are read up to position {k}: each has its own length": h[:, k]
                for k in range(1, n - 1)
            },
            "these are means over the source: expected the state after the last token": (
                h * real
            ).sum(1)
            / real.sum(1),
            "these are maxima over the source: expected the state after the last token": np.where(
                real, h, -np.inf
            ).max(1),
        }
        ctx.close(got, h[rows, ends - 1], "the states", wrong)
    check_gradients(ctx, answer, (outputs, lengths), {0: "outputs"}, lambda h: h[rows, ends - 1])


@exercise("01.sequence_log_prob", title="How likely is this target?", difficulty=2, minutes=5)
def sequence_log_prob(answer, ctx):
    for first, (factor, shift) in zip((True, False, False), HARD_SCORES):
        batch, m, size = ctx.sizes(batch=(1, 4), m=(1, 6), vocabulary=(2, 6))  # pad and a token
        pad = ctx.integers(1, size) if first else 0
        logits = factor * 2 * ctx.normal(batch, m, size) + shift
        targets = (pad + ctx.integers(1, size, batch, m)) % size
        targets[0, 0] = 0 if pad else 1  # where 0 is not padding, it is a token like others
        lengths = ctx.lengths(batch, m)
        targets[torch.arange(m) >= lengths[:, None]] = pad
        raw, ids = array(logits), array(targets)[..., None]
        real = array(targets) != pad
        name = "log p" if first else f"where a logit is {raw.max():.0f} log p"
        got = ctx.call(answer, logits, targets, pad)
        got = ctx.floats(
            got, name, (batch,), mention="one number a sequence: add up over its steps"
        )

        def log_p(raw, axis=-1):
            raw = raw - raw.max(axis, keepdims=True)
            raw = raw - np.log(np.exp(raw).sum(axis, keepdims=True))
            return np.take_along_axis(raw, ids, -1)[..., 0]

        steps = log_p(raw)
        expected = (steps * real).sum(-1)
        if not first:
            ctx.close(got, expected, name)
            continue
        wrong = {
            "the padding is counted: what comes after EOS is not part of the sequence": steps.sum(
                -1
            ),
            "these are means over the steps: p is a product, so log p is a sum": expected
            / real.sum(-1),
            "this is -log p: the loss, not the log-probability": -expected,
            "these are probabilities, expected their logarithm": np.exp(expected),
            "probabilities are added up: they multiply, so their logarithms add up": (
                np.exp(steps) * real
            ).sum(-1),
            "the softmax runs over the steps (dim=1): expected over the vocabulary (dim=-1)": (
                log_p(raw, 1) * real
            ).sum(-1),
            "the logits are added up as if they were log-probabilities: a softmax is missing": (
                np.take_along_axis(raw, ids, -1)[..., 0] * real
            ).sum(-1),
            "tokens with id 0 are left out: expected those equal to pad": (
                steps * (array(targets) != 0)
            ).sum(-1),
        }
        ctx.close(got, expected, name, wrong)

        def oracle(raw):
            return (log_p(raw) * real).sum(-1)

        check_gradients(ctx, answer, (logits, targets, pad), {0: "logits"}, oracle)


@exercise("01.gru_step", title="One step of a GRU", difficulty=3, minutes=10)
def gru_step(answer, ctx):
    for factor in (1.0, 100.0):
        batch, d, size = ctx.sizes(batch=(1, 4), d=(1, 5), size=(1, 4))
        x, h = factor * ctx.normal(batch, d), torch.tanh(ctx.normal(batch, size))
        w_x, w_h = ctx.normal(3 * size, d), ctx.normal(3 * size, size)
        b_x, b_h = ctx.normal(3 * size), ctx.normal(3 * size)
        nan = "the exponentials of a sigmoid or a tanh overflow where their arguments are large"
        got = ctx.call(answer, x, h, w_x, w_h, b_x, b_h)
        got = ctx.floats(got, "the new state", (batch, size), nan=nan if factor > 1 else None)
        inputs = [array(t) for t in (x, h, w_x, w_h, b_x, b_h)]
        if factor > 1:
            ctx.close(got, _gru(*inputs), "where the gates are saturated the new state")
            continue
        result = partial(_gru, *inputs)
        wrong = {
            "the update gate is the wrong way round: z keeps the old state, 1 - z takes the "
            "candidate": result(swap=True),
            "reset and update gate are swapped: the rows of the matrices are r, z, n in this "
            "order": result(order="zrn"),
            "the candidate goes through a ReLU: expected tanh": result(
                candidate=lambda a: np.maximum(a, 0)
            ),
            "the candidate goes through a sigmoid: expected tanh": result(candidate=_sigmoid),
            "the reset gate multiplies the state before the matrix: here it multiplies U h + b', "
            "after the matrix": result(reset="state"),
            "the bias of h stands outside the reset gate: r multiplies U h + b', the bias "
            "included": result(reset="matrix"),
            "the reset gate is not used": result(reset="none"),
            "bias_hh is not added": result(bias=False),
        }
        ctx.close(got, _gru(*inputs), "the new state", wrong)
        at = dict(enumerate(("x", "h", "weight_ih", "weight_hh", "bias_ih", "bias_hh")))
        check_gradients(ctx, answer, (x, h, w_x, w_h, b_x, b_h), at, _gru)
