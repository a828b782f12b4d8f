"""Checks of the section on self-attention: a look on paper, a prediction, attending to the words
before, and one step of the LSTMN with its tapes.
"""

from functools import partial

import numpy as np
import torch

from ..context import array, softmax
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import Slips, on_paper


@on_paper(
    "03.fourth_word",
    "the context",
    title="The fourth word looks back",
    difficulty=1,
    minutes=4,
    within=0.02,
)
def fourth_word():
    shares = np.log([1, 2, 5])
    return 2, {
        "the fourth word is in the sum: it may look only at the words before it": 9,
        "the exponential of the fourth word is in the sum that you divide by": 1,
        "that is the sum before it is divided by that of the exponentials": 16,
        "these are the scores divided by their sum: take their exponentials first": shares[1]
        * 4
        / shares.sum(),
        "that is the plain mean of the values": 4,
        "that is the plain mean of all four values": 7,
        "that is the value of the word with the largest weight: expected the weighted sum": 0,
    }


@exercise("03.longer_trained", title="Predict: The longer trained one", difficulty=1, minutes=2)
def longer_trained(answer, ctx):
    return ctx.predicted(answer, "lower", "about the same", "higher")


@exercise("03.words_before", title="Attend to the words before", difficulty=2, minutes=8)
def words_before(answer, ctx):
    batch, n, d, d_a = ctx.sizes(batch=(1, 3), n=(1, 7), d_x=(1, 3), d=(1, 7))
    words = ctx.normal(batch, n, d)
    matrices = [ctx.normal(d_a, d) for _ in range(3)]
    got_context, got = ctx.parts(
        ctx.call(answer, words, *matrices), ("context", "weights"), ((batch, n, d_a), (batch, n, n))
    )
    hint = (
        "the first word has nothing before it: a softmax over nothing but -inf is NaN, and 0 "
        "was asked for"
    )
    got = ctx.floats(
        got, "weights", (batch, n, n), nan=hint, mention="one row a word, one column a word"
    )
    x, (w_q, w_k, w_v) = array(words), [array(matrix) for matrix in matrices]
    query, key, value = x @ w_q.T, x @ w_k.T, x @ w_v.T
    scores = query @ key.transpose(0, 2, 1) / np.sqrt(d_a)
    earlier, later = np.tri(n, k=-1, dtype=bool), ~np.tri(n, dtype=bool)

    def weigh(scores, allowed, axis=-1):
        return softmax(np.where(allowed, scores, -np.inf), axis)

    expected, unmasked = weigh(scores, earlier), softmax(scores)
    flat = expected.copy()
    flat[:, 0] = 1 / n
    itself = expected.copy()
    itself[:, 0, 0] = 1
    wrong = {
        "a word attends to itself too: expected the words before it alone": weigh(
            scores, np.tri(n, dtype=bool)
        ),
        "a word attends to the words after it: the mask is upside down": weigh(scores, later),
        "a word attends to itself and to the words after it: the mask is upside down": weigh(
            scores, ~earlier
        ),
        "there is no mask: every word attends to all words": unmasked,
        "the mask comes after the softmax: the weights of a row no longer add up to 1": unmasked
        * earlier,
        "masked scores become 0, and exp(0) is 1: the words after still get weight": softmax(
            scores * earlier
        ),
        "the first row is a flat share of all words, those after it too: it has nothing to "
        "attend to, expected zeros": flat,
        "the first word attends to itself: it has nothing to attend to, expected zeros": itself,
        "the scores are not divided by the root of the width of the keys": weigh(
            scores * np.sqrt(d_a), earlier
        ),
        "the scores are divided by the root of the width of the words: expected that of the "
        "keys": weigh(scores * np.sqrt(d_a / d), earlier),
        "the scores are divided by the width of the keys: expected its root": weigh(
            scores / np.sqrt(d_a), earlier
        ),
        "the softmax runs over the words that look (dim=-2): expected over those that are looked "
        "at": weigh(scores, earlier, -2),
        "queries and keys are swapped": weigh(scores.transpose(0, 2, 1), earlier),
        "the queries are made with W_k: expected W_q": weigh(
            key @ key.transpose(0, 2, 1) / np.sqrt(d_a), earlier
        ),
    }
    ctx.close(got, expected, "weights", wrong)
    got_context = ctx.floats(got_context, "context", (batch, n, d_a), nan=hint)
    wrong = {
        "the context adds up keys: expected values, the words times W_v": expected @ key,
        "the context is made with weights that do not know the mask": unmasked @ value,
        "the context is the mean of the values before: use the weights": weigh(0 * scores, earlier)
        @ value,
    }
    ctx.close(got_context, expected @ value, "context", wrong)

    def oracle(x, w_q, w_k, w_v):
        e = x @ w_q.T @ (x @ w_k.T).transpose(0, 2, 1) / np.sqrt(d_a)
        return weigh(e, earlier) @ (x @ w_v.T)

    if n > 1:  # the context of one word depends on nothing
        at = dict(enumerate(("x", "W_q", "W_k", "W_v")))
        check_gradients(ctx, answer, (words, *matrices), at, oracle, part=0)

    # small whole numbers, so that no score is rounded: all of them below a finite fill
    whole = [ctx.integers(1, 4, *tensor.shape).float() for tensor in (words, *matrices)]
    whole[1] *= -(2.0**12)
    got_context, _ = ctx.parts(ctx.call(answer, *whole), ("context", "weights"))
    name = "context where all scores are very low"
    got_context = ctx.floats(got_context, name, (batch, n, d_a), nan=hint)
    ctx.close(got_context, oracle(*map(array, whole)), name)


def _sigmoid(a):
    return 0.5 + 0.5 * np.tanh(a / 2)


def _step(*given):
    """(h_t, c_t, h̃_t)."""
    x, h_tape, c_tape, summary, w_h, w_x, w_s, v, w, b = given
    inside = h_tape @ w_h.T + (x @ w_x.T + summary @ w_s.T)[:, None]
    scores = np.tanh(inside) @ v
    weights = softmax(scores, 1) if scores.size else scores
    h_tilde = np.einsum("bt,btd->bd", weights, h_tape)
    c_tilde = np.einsum("bt,btd->bd", weights, c_tape)
    i, f, o, candidate = np.split(np.concatenate((h_tilde, x), -1) @ w.T + b, 4, -1)
    c = _sigmoid(f) * c_tilde + _sigmoid(i) * np.tanh(candidate)
    return _sigmoid(o) * np.tanh(c), c, h_tilde


_STEP = Slips(
    _step,
    {
        "the rows of W are i, f, o, ĉ: "
        "yours are in PyTorch's order i, f, ĉ, o": "i, f, o, candidate = → i, f, candidate, o =",
        "the gates i and f are swapped": "i, f, o, → f, i, o,",
        "the gates are read in the order f, o, i": "i, f, o, → f, o, i,",
        "the tanh around c_t is missing: h_t = o ⊙ tanh(c_t)": "np.tanh(c), c → c, c",
        "W meets [h̃_t; x_t]: "
        "yours is joined the other way round, x first": "(h_tilde, x) → (x, h_tilde)",
        "the bias b is not added": "@ w.T + b → @ w.T",
        "the candidate ĉ goes through a sigmoid: expected "
        "tanh": "np.tanh(candidate) → _sigmoid(candidate)",
        "the third result is the new state h_t: expected the summary "
        "h̃_t": "np.tanh(c), c, h_tilde → np.tanh(c), c, _sigmoid(o) * np.tanh(c)",
        "c_t is made from the last row of the memory tape: expected c̃_t, the weighted sum of all "
        "its rows": 'np.einsum("bt,btd->bd", weights, c_tape) → c_tape[:, -1]',
        "h̃_t is the last row of the hidden tape: expected the weighted sum of all its "
        "rows": 'np.einsum("bt,btd->bd", weights, h_tape) → h_tape[:, -1]',
        "both summaries are the last rows of the tapes: that is an LSTM, without attention": (
            'np.einsum("bt,btd->bd", weights, h_tape) → h_tape[:, -1]',
            'np.einsum("bt,btd->bd", weights, c_tape) → c_tape[:, -1]',
        ),
        "c̃_t is the plain mean of the memory tape: both tapes are summed with the same "
        "weights": "weights, c_tape → 0 * weights + 1 / max(1, len(h_tape[0])), c_tape",
        "the score uses the last row of the hidden tape: "
        "expected the summary h̃_{t-1} that came in": "summary @ w_s.T → h_tape[:, -1] @ w_s.T",
        "the score has no tanh: "
        "without it x and the summary shift all scores alike": "np.tanh(inside) → inside",
        "the softmax runs over the batch (dim=0): "
        "expected over the rows of the tape": "(scores, 1) → (scores, 0)",
        "the softmax comes before v: first one score a row, tanh(…) · v, then the softmax over the "
        "rows": (
            "np.tanh(inside) → softmax(np.tanh(inside), 1)",
            "softmax(scores, 1) if scores.size else →",
        ),
        "the third result is the summary that came in: "
        "expected the one of this step, h̃_t": "np.tanh(c), c, h_tilde → np.tanh(c), c, summary",
        "the gates read the summary that came in: "
        "expected the one of this step, h̃_t": "(h_tilde, x) → (summary, x)",
        "the score does not use x_t": "x @ w_x.T + →",
        "the score does not use the summary h̃_{t-1}": "+ summary @ w_s.T →",
        "the forget gate is not used": "_sigmoid(f) * c_tilde + →",
    },
)


@exercise("03.lstmn_step", title="One step of the LSTMN", difficulty=3, minutes=13)
def lstmn_step(answer, ctx):
    batch, most, d_x, d, d_a = ctx.sizes(batch=(1, 3), t=(1, 5), d_x=(1, 3), d=(1, 9), d_a=(1, 5))
    sizes = ((d_a, d), (d_a, d_x), (d_a, d), (d_a,), (4 * d, d + d_x), (4 * d,))
    numbers = [ctx.normal(*size) for size in sizes]
    for t, strength in ((most, 1.0), (most, 1e3), (1, 1.0), (0, 1.0)):
        given = [
            ctx.normal(batch, d_x),
            ctx.normal(batch, t, d),
            ctx.normal(batch, t, d),
            ctx.normal(batch, d),
        ]
        if t == 0:
            given[3] = 0 * given[3]
        numbers[0], numbers[3] = strength * ctx.normal(d_a, d), ctx.normal(d_a)
        if strength > 1:  # every tanh is 1 or -1: large scores without a rounding error
            numbers[3] = 100.0 * ctx.integers(1, 6, d_a)
        names = ("h_tape", "c_tape", "summary")
        got = ctx.parts(ctx.call(answer, *given, *numbers), names)
        nan = (
            "the tapes are empty at the first step: a softmax over nothing gives NaN, the "
            "summaries are 0 there"
            if t == 0
            else "exp overflows for large scores: torch.softmax subtracts the largest"
            if strength > 1
            else None
        )
        shapes = ((batch, t + 1, d), (batch, t + 1, d), (batch, d))
        mentions = ("the old rows and a new one behind them",) * 2 + ("h̃ of this step",)
        got = [
            array(ctx.floats(g, name, shape, mention=mention, nan=nan))
            for g, name, shape, mention in zip(got, names, shapes, mentions)
        ]
        if t and ctx.same(got[0][:, 1:], given[1]) and not ctx.same(got[0][:, :t], given[1]):
            ctx.fail("the new row stands in front of the old ones: expected behind them")
        ctx.close(got[0][:, :t], given[1], "the old rows of h_tape")
        ctx.close(got[1][:, :t], given[2], "the old rows of c_tape")
        arrays, known = [array(g) for g in given], [array(number) for number in numbers]
        expected, wrong = _STEP(*arrays, *known)
        ctx.recognize((got[0][:, -1], got[1][:, -1], got[2]), expected, wrong)
        ctx.close(got[2], expected[2], "summary")
        ctx.close(got[1][:, -1], expected[1], "the new row of c_tape")
        ctx.close(got[0][:, -1], expected[0], "the new row of h_tape")
        if strength == 1 and t in (most, 0):
            at = ("x", "h_tape", "c_tape", "summary", "W_h", "W_x", "W_s", "v", "W", "b")
            used = {i: name for i, name in enumerate(at) if t or name in ("x", "W", "b")}
            every = dict(enumerate(arrays + known))
            right = partial(_rows, every, used)
            check_gradients(ctx, partial(_joined, answer), (*given, *numbers), used, right)


def _joined(answer, *given):
    """All rows that a step returns, in one tensor: the next step needs each of them."""
    h_tape, c_tape, summary = answer(*given)
    return torch.cat((h_tape, c_tape, summary.unsqueeze(1)), dim=1)


def _rows(every, used, *now):
    """What `_joined` has to give, where the arguments at `used` are those of `now`."""
    given = list((every | dict(zip(used, now))).values())
    h, c, summary = (row[:, None] for row in _step(*given))
    return np.concatenate((given[1], h, given[2], c, summary), 1)
