"""Checks of the section on encoder and decoder: batches, the last real state, what training costs,
log p(y|x), a GRU step.
"""

import numpy as np
import torch

from ...answers.guarded import StudentError
from ..context import HARD_SCORES, array
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import Slips, on_paper


def _target_in(targets, bos, eos, pad):
    rows, width = [[bos, *y] for y in targets], max(map(len, targets)) + 1
    return np.array([row + [pad] * (width - len(row)) for row in rows])


_TARGET_IN = Slips(
    _target_in,
    {
        "target_in is what the decoder must say: "
        "it reads the answer. Shift it by one, BOS first": "[bos, *y] → [*y, eos]",
        "target_in is padded with 0: expected pad": "[pad] → [0]",
        "target_in is padded with EOS: "
        "the positions after the last token are filled with pad": "[pad] → [eos]",
        "target_in is padded at the left: the row begins with BOS, pad comes after the last "
        "token": "row + [pad] * (width - len(row)) → [pad] * (width - len(row)) + row",
        "target_in holds EOS in the shorter rows: to cut off the last column takes it from the "
        "longest row "
        "alone": "row + [pad] * (width - len(row)) → (row + [eos] + [pad] * width)[:width]",
        "target_in does not begin with BOS": "bos, →",
    },
)


def _target_out(targets, bos, eos, pad):
    rows, width = [[*y, eos] for y in targets], max(map(len, targets)) + 1
    return np.array([row + [pad] * (width - len(row)) for row in rows])


_TARGET_OUT = Slips(
    _target_out,
    {
        "target_out is what the decoder reads: "
        "it must say the next token each time": "[*y, eos] → [bos, *y]",
        "target_out does not end with EOS: the decoder never learns to stop": ", eos →",
        "EOS stands at the end of the padded row: it belongs right after the last "
        "token": "row + [pad] * (width - len(row)) → row[:-1] + [pad] * (width - len(row)) + [eos]",
        "target_out is padded at the left: the target comes first, pad after "
        "EOS": "row + [pad] * (width - len(row)) → [pad] * (width - len(row)) + row",
        "target_out is padded with EOS: after the first EOS comes pad": "[pad] → [eos]",
        "target_out is padded with 0: expected pad": "[pad] → [0]",
    },
)


@exercise(
    "01.teacher_forcing", title="What the decoder reads, what it must say", difficulty=1, minutes=5
)
def teacher_forcing(answer, ctx):
    # the last but one: T5 begins with the padding; the last: one mark for both ends, and a target
    # may be empty
    for bos, eos, pad in ((1, 2, 0), (1 + i for i in ctx.order(7)[:3]), (0, 1, 0), (3, 3, 0)):
        batch, longest = ctx.sizes(batch=(1, 4), longest=(1, 6))
        lengths = ctx.lengths(batch, longest, int(bos != eos)).tolist()
        targets = [ctx.integers(8, 1000, k).tolist() for k in lengths]
        targets[0][:1] = [0 if pad else 8][: lengths[0]]
        shape = (batch, max(lengths) + 1)
        got_in, got_out = ctx.parts(
            ctx.call(answer, targets, bos, eos, pad), ("target_in", "target_out")
        )
        right_in, wrong_in = _TARGET_IN(targets, bos, eos, pad)
        right_out, wrong_out = _TARGET_OUT(targets, bos, eos, pad)
        hint = "a target of length m takes m + 1 steps, the last one says EOS"
        got_in = ctx.tensor(got_in, "target_in", shape, dtype=torch.long, mention=hint)
        got_out = ctx.tensor(got_out, "target_out", shape, dtype=torch.long, mention=hint)
        ctx.close(got_in, right_in, "target_in", wrong_in)
        ctx.close(got_out, right_out, "target_out", wrong_out)


@exercise("01.eight_digits", title="Predict: a number that is too long", difficulty=1, minutes=2)
def eight_digits(answer, ctx):
    return ctx.predicted(answer, "eight", "seven", "at most six")


def _last(outputs, lengths):
    rows = np.arange(len(outputs))
    return outputs[rows, lengths - 1]


_LAST = Slips(
    _last,
    {
        "these are the states at the end of the padded batch: "
        "the encoder has read padding by then": "lengths - 1 → -1",
        "these are the states one step after the last token: "
        "positions count from 0": "lengths - 1 → lengths % outputs.shape[1]",
        "these are the states one step after the last token, cut off at the end: "
        "positions count from 0": "lengths - 1 → np.minimum(lengths, outputs.shape[1] - 1)",
        "these are the states one step before the last token": "- 1 → - 2",
        "these are the first states": "lengths - 1 → 0",
        "these are means over the source: expected the state after the last token": (
            "outputs[rows, lengths - 1] → np.stack([outputs[i, : lengths[i]].mean(0) for i in "
            "rows])"
        ),
        "these are maxima over the source: expected the state after the last token": (
            "outputs[rows, lengths - 1] → np.stack([outputs[i, : lengths[i]].max(0) for i in rows])"
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
        right, wrong = _LAST(h, ends)
        for k in range(1, n - 1):
            wrong[f"all sources are read up to position {k}: each has its own length"] = h[:, k]
        ctx.close(got, right, "the states", wrong)
    check_gradients(ctx, answer, (outputs, lengths), {0: "outputs"}, lambda h: _last(h, ends))


_EMBEDDINGS, _ENC = 18_000 * 256, 3 * 512 * (256 + 512)
_DEC, _OUTPUT = 3 * 512 * (256 + 1024), 1024 * 10_000
_CELLS = _ENC + _DEC + _OUTPUT


def _megabytes(weights, numbers=4):
    return weights * numbers * 4 / 1e6


def _minutes(weights, passes=3, each=2, pairs=5 * 500_000):
    """For weights that are used once for each of 20 tokens."""
    return pairs * 20 * weights * each * passes / 1e12 / 60


@on_paper(
    "01.cost_of_a_translator",
    ("the number of megabytes", "the number of minutes"),
    title="the cost of a translator",
    kind="Budget",
    difficulty=2,
    minutes=10,
    within=0.5,
)
def cost_of_a_translator():
    memory, time = _megabytes(_EMBEDDINGS + _CELLS), _minutes(_CELLS)
    one, narrow = (_ENC + _DEC) / 3 + _OUTPUT, 3 * 512 * 768
    return (memory, time), {
        "the megabytes are those of the weights alone": (_megabytes(_EMBEDDINGS + _CELLS, 1), time),
        "weights and gradients are there, Adam's two numbers a weight are missing": (
            _megabytes(_EMBEDDINGS + _CELLS, 2),
            time,
        ),
        "one of four is missing: the weight, its gradient, and Adam's two numbers": (
            _megabytes(_EMBEDDINGS + _CELLS, 3),
            time,
        ),
        "the embeddings take memory, too, though nothing is multiplied with them": (
            _megabytes(_CELLS),
            time,
        ),
        "a GRU has three matrices for its input and three for its state": (
            _megabytes(_EMBEDDINGS + one),
            _minutes(one),
        ),
        "the decoder's cell reads the context at every step, next to the token": (
            _megabytes(_EMBEDDINGS + _ENC + narrow + _OUTPUT),
            _minutes(_ENC + narrow + _OUTPUT),
        ),
        "the output layer reads state and context: its matrix has twice 512 columns": (
            _megabytes(_EMBEDDINGS + _ENC + _DEC + _OUTPUT / 2),
            _minutes(_ENC + _DEC + _OUTPUT / 2),
        ),
        "the minutes have the embeddings in them: those are looked up, not multiplied": (
            memory,
            _minutes(_EMBEDDINGS + _CELLS),
        ),
        "going back costs twice as much as going forward, and comes on top of it": (
            memory,
            _minutes(_CELLS, passes=2),
        ),
        "these are the minutes of going forward: the way back is missing": (
            memory,
            _minutes(_CELLS, passes=1),
        ),
        "a product with a matrix takes a multiplication and an addition for every weight": (
            memory,
            _minutes(_CELLS, each=1),
        ),
        "these are the minutes of one time through the pairs: there are 5": (
            memory,
            _minutes(_CELLS, pairs=500_000),
        ),
        "every weight is used for all 40 tokens here: the encoder reads 20, the decoder writes "
        "20": (memory, _minutes(2 * _CELLS)),
        "these are hours: expected minutes": (memory, time / 60),
        "these are seconds: expected minutes": (memory, time * 60),
    }


def _log_prob(logits, targets, pad):
    shifted, real = logits - logits.max(-1, keepdims=True), targets != pad
    log_p = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    steps = np.take_along_axis(log_p, targets[..., None], -1)[..., 0]
    return (steps * real).sum(-1)


_LOG_PROB = Slips(
    _log_prob,
    {
        "the padding is counted: what comes after EOS is not part of the sequence": "* real →",
        "these are means over the steps: p is a product, so log p is a "
        "sum": "(steps * real).sum(-1) → (steps * real).sum(-1) / real.sum(-1)",
        "this is -log p: the loss, not the log-probability": "return → return -",
        "these are probabilities, expected their "
        "logarithm": "(steps * real).sum(-1) → np.exp((steps * real).sum(-1))",
        "probabilities are added up: "
        "they multiply, so their logarithms add up": "(steps * → (np.exp(steps) *",
        "the softmax runs over the steps (dim=1): expected over the vocabulary (dim=-1)": (
            "logits.max(-1, → logits.max(1,",
            "np.exp(shifted).sum(-1, → np.exp(shifted).sum(1,",
        ),
        "the logits are added up as if they were log-probabilities: "
        "a softmax is missing": "(log_p, → (logits,",
        "tokens with id 0 are left out: expected those equal to pad": "!= pad → != 0",
    },
)


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
        raw, ids = array(logits), array(targets)
        name = "log p" if first else f"where a logit is {raw.max():.0f} log p"
        got = ctx.call(answer, logits, targets, pad)
        got = ctx.floats(
            got, name, (batch,), mention="one number a sequence: add up over its steps"
        )

        right, wrong = _LOG_PROB(raw, ids, pad)
        # a logarithm of a sum is as rough as the largest logit
        rough = 0 if first else m * np.abs(raw).max()
        ctx.close(got, right, name, wrong if first else None, size=rough)
        if first:
            given, at = (logits, targets, pad), {0: "logits"}
            check_gradients(ctx, answer, given, at, lambda raw: _log_prob(raw, ids, pad))


def _sigmoid(x):
    return (1 + np.tanh(x / 2)) / 2


def _gru(x, h, w_x, w_h, b_x, b_h):
    from_x, from_h = x @ w_x.T + b_x, h @ w_h.T + b_h
    (r_x, z_x, n_x), (r_h, z_h, n_h) = np.split(from_x, 3, -1), np.split(from_h, 3, -1)
    r, z = _sigmoid(r_x + r_h), _sigmoid(z_x + z_h)
    n = np.tanh(n_x + r * n_h)
    return (1 - z) * n + z * h


_GRU = Slips(
    _gru,
    {
        "the update gate is the wrong way round: z keeps the old state, 1 - z takes the "
        "candidate": "(1 - z) * n + z * h → z * n + (1 - z) * h",
        "reset and update gate are swapped: "
        "the rows of the matrices are r, z, n in this order": "r, z = → z, r =",
        "the candidate goes through a ReLU: expected "
        "tanh": "np.tanh(n_x + r * n_h) → np.maximum(n_x + r * n_h, 0)",
        "the candidate goes through a sigmoid: expected tanh": "np.tanh(n_x → _sigmoid(n_x",
        "the reset gate multiplies the state before the matrix: here it multiplies U h + b', after "
        "the matrix": "r * n_h → ((r * h) @ w_h.T + b_h)[:, 2 * h.shape[1] :]",
        "the bias of h stands outside the reset gate: r multiplies U h + b', the bias "
        "included": "r * n_h → r * (h @ w_h.T)[:, -h.shape[1] :] + b_h[-h.shape[1] :]",
        "the reset gate is not used": "r * n_h → n_h",
        "bias_hh is not added": "@ w_h.T + b_h → @ w_h.T",
    },
)


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
        right, wrong = _GRU(*inputs)
        ctx.close(got, right, "the new state", wrong)
        at = dict(enumerate(("x", "h", "weight_ih", "weight_hh", "bias_ih", "bias_hh")))
        check_gradients(ctx, answer, (x, h, w_x, w_h, b_x, b_h), at, _gru)
