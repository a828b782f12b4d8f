"""Checks of the section on self-attention: four models to be told apart, attending to the words
before, the loss of each sentence, one step of the LSTMN with its tapes.
"""

from functools import partial

import numpy as np
import torch

from ..context import array, softmax
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import Slips, read_the_curve


@read_the_curve("03.four_models", title="four language models", difficulty=2, minutes=5)
def four_models():
    below = "its loss is below what the sentences have: it is told words that nobody can guess"
    sound = "it comes down to a little above the dotted line: nothing is wrong here"
    still = "it learns in a few updates which words there are, and then nothing more"
    wild = "its first steps throw it far above the loss of a guess"
    return {
        "the model with the wrong mask": ("C", {"A": still, "B": wild, "D": sound}),
        "the model whose head begins at 0": ("A", {"B": wild, "C": below, "D": sound}),
        "the model with the high rate": ("B", {"A": still, "C": below, "D": sound}),
    }


def _look_back(x, w_q, w_k):
    query, key = x @ w_q.T, x @ w_k.T
    scores = query @ key.swapaxes(1, 2) / np.sqrt(key.shape[-1])
    earlier = np.tri(x.shape[1], k=-1, dtype=bool)
    return softmax(np.where(earlier, scores, -np.inf))


_LOOK_BACK = Slips(
    _look_back,
    {
        "a word attends to itself too: expected the words before it alone": "k=-1 → k=0",
        "a word attends to the words after it: "
        "the mask is upside down": "np.tri(x.shape[1], k=-1 → ~np.tri(x.shape[1], k=0",
        "a word attends to itself and to the words after it: "
        "the mask is upside down": "np.tri( → ~np.tri(",
        "there is no mask: "
        "every word attends to all words": "np.where(earlier, scores, -np.inf) → scores",
        "the mask comes after the softmax: the weights of a row no longer add up to "
        "1": "np.where(earlier, scores, -np.inf)) → scores) * earlier",
        "masked scores become 0, and exp(0) is 1: "
        "the words after still get weight": "np.where(earlier, scores, -np.inf) → scores * earlier",
        "the first row is a flat share of all words, those after it too: it has nothing to attend "
        "to, expected zeros": "-np.inf → -1e9",
        "the first word attends to itself: it has nothing to attend to, expected "
        "zeros": "dtype=bool) → dtype=bool)\n    earlier[0, 0] = True",
        "the scores are not divided by the root of the width of the "
        "keys": "/ np.sqrt(key.shape[-1]) →",
        "the scores are divided by the root of the width of the words: "
        "expected that of the keys": "key.shape[-1] → x.shape[-1]",
        "the scores are divided by the width of the keys: "
        "expected its root": "np.sqrt(key.shape[-1]) → key.shape[-1]",
        "the softmax runs over the words that look (dim=-2): "
        "expected over those that are looked at": "-np.inf)) → -np.inf), -2)",
        "queries and keys are swapped": "query, key = → key, query =",
        "the queries are made with W_k: expected W_q": "w_q.T → w_k.T",
    },
)


def _read_back(x, w_q, w_k, w_v):
    weights = _look_back(x, w_q, w_k)
    return weights @ (x @ w_v.T)


_READ_BACK = Slips(
    _read_back,
    {
        "the context adds up keys: expected values, the words times W_v": "w_v.T → w_k.T",
        "the context is made with weights that do not know the mask": (
            "_look_back(x, w_q, w_k) → softmax(x @ w_q.T @ (x @ w_k.T).swapaxes(1, 2) / "
            "np.sqrt(len(w_k)))"
        ),
        "the context is the mean of the values before: use the weights": "x, w_q → x, 0 * w_q",
    },
)


@exercise("03.words_before", title="Attend to the words before", difficulty=2, minutes=8)
def words_before(answer, ctx):
    batch, n, d, d_a = ctx.sizes(batch=(1, 3), n=(1, 7), d_x=(1, 3), d=(1, 7))
    words = ctx.normal(batch, n, d)
    words[-1, 0] = 0  # a score of 0 hides nothing
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
    inputs = [*map(array, (words, *matrices))]
    right, wrong = _LOOK_BACK(*inputs[:3])
    ctx.close(got, right, "weights", wrong)
    got_context = ctx.floats(got_context, "context", (batch, n, d_a), nan=hint)
    right, wrong = _READ_BACK(*inputs)
    ctx.close(got_context, right, "context", wrong)
    if n > 1:  # the context of one word depends on nothing
        at = dict(enumerate(("x", "W_q", "W_k", "W_v")))
        check_gradients(ctx, answer, (words, *matrices), at, _read_back, part=0)

    # small whole numbers, so that no score is rounded: all of them below a finite fill
    whole = [ctx.integers(1, 4, *tensor.shape).float() for tensor in (words, *matrices)]
    whole[1] *= -(2.0**12)
    got_context, _ = ctx.parts(ctx.call(answer, *whole), ("context", "weights"))
    name = "context where all scores are very low"
    got_context = ctx.floats(got_context, name, (batch, n, d_a), nan=hint)
    ctx.close(got_context, _read_back(*map(array, whole)), name)


def _sentences(logits, words, ends):
    shifted = logits - logits.max(-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    costs = -np.take_along_axis(log_p, words[..., None], -1)[..., 0]
    real = np.arange(words.shape[1]) < ends[:, None]
    return (costs * real).sum(1) / ends


_SENTENCES = Slips(
    _sentences,
    {
        "the code runs now, but view and reshape leave the numbers in their order, so the logits "
        "of one word are scattered over all places: swap the two dimensions": (
            "shifted = → logits = logits.reshape(len(logits), logits.shape[2], -1).swapaxes(1, 2)"
            "\n    shifted ="
        ),
        "the padding is in the sums": "(costs * real) → costs",
        "these are sums over the words of a sentence: expected their means": "/ ends →",
        "the sums are divided by the padded length": "/ ends → / words.shape[1]",
        "the sums are divided by the number of sentences": "/ ends → / len(ends)",
        "these are log-probabilities: a loss is -log p": "costs = - → costs = ",
        "each sentence gets the words of the next one": "words[..., None] → words[::-1, :, None]",
    },
)


@exercise(
    "03.sentence_losses", title="Shape error: the loss of each sentence", difficulty=2, minutes=8
)
def sentence_losses(answer, ctx):
    for factor in (1.0, 1e3):
        batch, n, size = ctx.sizes(batch=(1, 4), n=(1, 6), vocabulary=(2, 7, 12))
        logits, words = factor * ctx.normal(batch, n, size), ctx.integers(0, size, batch, n)
        lengths = ctx.lengths(batch, n)
        got = ctx.call(answer, logits, words, lengths)
        got = ctx.floats(got, "the losses", (batch,), mention="one loss a sentence")
        right, wrong = _SENTENCES(array(logits), array(words), array(lengths))
        ctx.close(got, right, "the losses", wrong)
    targets, ends = array(words), array(lengths)
    given = logits / factor, words, lengths
    check_gradients(ctx, answer, given, {0: "logits"}, lambda x: _sentences(x, targets, ends))


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
        mentions = ("the old rows and a new one after them",) * 2 + ("h̃ of this step",)
        got = [
            array(ctx.floats(g, name, shape, mention=mention, nan=nan))
            for g, name, shape, mention in zip(got, names, shapes, mentions)
        ]
        if t and ctx.same(got[0][:, 1:], given[1]) and not ctx.same(got[0][:, :t], given[1]):
            ctx.fail("the new row stands in front of the old ones: expected after them")
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
