"""Checks of the section on attention as explanation: a model without attention, leave-one-out,
agreement of rankings, a look-up for batches, gradient times input.
"""

import numpy as np
import torch
from torch import Tensor

from ..context import array, softmax
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import Slips


def _small_network(ctx, d):
    """A prediction that reads any number of rows: n matters, so that a row of zeros is not a row
    left out.
    """
    first, second, last = ctx.normal(d, 3), ctx.normal(d), ctx.normal(3)

    def predict(inputs):
        if type(inputs) is Tensor and inputs.dim() == 1:
            ctx.fail(
                "predict got a single row, inputs[i]: it reads a matrix of rows, here those that "
                "are left"
            )
        w, v, u = (weight.to(inputs.dtype) for weight in (first, second, last))
        order = 1 + torch.arange(inputs.shape[-2]) % 3  # it matters where a row stands
        return ((torch.tanh(inputs @ w + 0.3) @ u + inputs @ v) * order).mean(-1)

    return predict


@exercise("00.no_attention", title="Predict: Without attention", difficulty=1, minutes=2)
def no_attention(answer, ctx):
    return ctx.predicted(answer, "about half", "about 80 %", "nearly all")


def _effects(predict, inputs):
    full, n = float(predict(inputs)), len(inputs)
    without = np.array([float(predict(torch.cat((inputs[:i], inputs[i + 1 :])))) for i in range(n)])
    return np.abs(full - without)


_EFFECTS = Slips(
    _effects,
    {
        "the row is set to zero: a row of zeros is still a row. Take it out": (
            "torch.cat((inputs[:i], inputs[i + 1 :])) → inputs * (torch.arange(n) != i)[:, None]"
        ),
        "the effects have a sign: expected how large the change is, its absolute "
        "value": "np.abs(full - without) → full - without",
        "the effects have a sign, and the wrong one: "
        "expected the absolute value of the change": "np.abs(full - without) → without - full",
        "only row i is kept: "
        "expected all rows but i": "torch.cat((inputs[:i], inputs[i + 1 :])) → inputs[i : i + 1]",
        "these are the predictions from row i alone: expected how far the prediction moves when "
        "row i is left out": (
            "torch.cat((inputs[:i], inputs[i + 1 :])) → inputs[i : i + 1]",
            "np.abs(full - without) → without",
        ),
        "these are the predictions without row i: "
        "expected how far they are from the full one": "np.abs(full - without) → without",
        "the changes are squared: "
        "expected their absolute values": "np.abs(full - without) → (full - without) ** 2",
        "the effects are those of the row after: check which row is taken "
        "out": "np.abs(full - without) → np.roll(np.abs(full - without), -1)",
    },
)


@exercise("00.leave_one_out", title="Make it fast: leave each word out", difficulty=2, minutes=7)
def leave_one_out(answer, ctx):
    for _ in range(2):
        n, d = ctx.sizes(n=(2, 7), d=(1, 4))  # of one row nothing is left to predict from
        predict, inputs, calls = _small_network(ctx, d), ctx.normal(n, d), []
        if n > 2:
            inputs[-1] = inputs[0]  # a word may come twice: one of the two goes

        def counted(rows):
            calls.append(rows)
            return predict(rows)

        got = ctx.floats(
            ctx.call(answer, counted, inputs),
            "the effects",
            (n,),
            mention="one number a row of inputs",
        )
        right, wrong = _EFFECTS(predict, inputs.double())
        ctx.close(got, right, "the effects", wrong)
        if len(calls) > 2:
            ctx.fail(
                f"the effects are right, but predict was called {len(calls)} times for {n} rows: "
                f"call it once with all rows, and once with all shortened matrices in one tensor"
            )


def _tau(a, b):
    i, j = np.triu_indices(len(a), 1)
    signs = np.sign((a[i] - a[j]) * (b[i] - b[j]))
    return signs.sum() / len(i)


_TAU = Slips(
    _tau,
    {
        "these are the positions that argsort gives, not ranks: compare the numbers themselves, or "
        "argsort twice": "signs = → a, b = np.argsort(a), np.argsort(b)\n    signs =",
        "this is the share of pairs in the same order: count those in the other order against "
        "them": "signs.sum() / len(i) → (signs.mean() + 1) / 2",
        "the difference of the counts is not divided by the number of pairs": "/ len(i) →",
        "every pair is counted twice but divided by n(n-1)/2": "signs.sum() → 2 * signs.sum()",
        "every pair is counted once but divided by n(n-1): "
        "the number of pairs is n(n-1)/2": "/ len(i) → / len(i) / 2",
        "the number of pairs is n(n-1)/2: "
        "n² counts every pair twice, and each position with itself": "/ len(i) → / len(a) ** 2",
        "the sum is divided by n²: that counts each position with itself. Of ordered pairs there "
        "are n(n-1)": "/ len(i) → / len(a) ** 2 * 2",
        "the sign is forgotten: "
        "a pair counts +1 or -1, however far apart its numbers are": "np.sign( → (",
        "this is the correlation of the numbers: "
        "only their order may count": "signs.sum() / len(i) → np.corrcoef(a, b)[0, 1]",
        "this is the correlation of the ranks: expected pairs in the same order minus pairs in the "
        "other": (
            "signs.sum() / len(i) → np.corrcoef(a.argsort().argsort(), b.argsort().argsort())[0, 1]"
        ),
        "the sign is lost: rankings in opposite orders agree less than not at all, the result is "
        "negative": "signs.sum() → abs(signs.sum())",
    },
)


@exercise("00.rank_agreement", title="Do two rankings agree?", difficulty=3, minutes=8)
def rank_agreement(answer, ctx):
    n = ctx.sizes(n=(2, 9))  # one number has no order

    def differ(numbers):  # the results of all mistakes
        first, other = numbers
        tau, wrong = _TAU(array(0.5 * first + other), array(first**3))
        results = [tau, 0.0, 1.0, *(value for value in wrong.values() if value != tau)]
        return np.diff(np.sort(results)).min() > 1e-3

    first, other = ctx.draw(
        lambda: (ctx.normal(n), ctx.normal(n)), differ, 1 if ctx.far or n == 2 else 200
    )
    near = (1e-6 * torch.tensor([ctx.order(n), ctx.order(n)])).unbind()
    cases = [
        ("of two rankings", 0.5 * first + other, first**3),
        ("of opposite rankings", first, -first),
        ("of a ranking with itself", first, first.clone()),
        ("of two rankings", first, ctx.normal(n)),
        ("of two rankings of small numbers", *near),
        ("of numbers that are alike in float32", *(1 + 1e-6 * one.double() for one in near)),
    ]
    for k, (what, one, other) in enumerate(cases):
        got = ctx.number(ctx.call(answer, one, other), "the agreement")
        tau, wrong = _TAU(array(one), array(other))
        ctx.close(np.array(got), np.array(tau), f"the agreement {what}", wrong if k < 4 else None)


def _pool_weights(words, query, real):
    scores = words @ query
    return softmax(np.where(real, scores, -np.inf))


_POOL_WEIGHTS = Slips(
    _pool_weights,
    {
        "the weights of a text depend on the texts beside it: the softmax runs over the batch "
        "(dim=0), so the columns add up to 1. Expected one softmax for each "
        "row": "-np.inf)) → -np.inf), 0)",
        "all weights of the batch together add up to 1: the texts share one softmax. Expected one "
        "for each row": "-np.inf)) → -np.inf).reshape(1, -1)).reshape(real.shape)",
        "each row is divided by its sum of a softmax over the batch: the weights still depend on "
        "the other texts": (
            "return → shares =",
            "-np.inf)) → -np.inf), 0)\n    return shares / np.maximum(shares.sum(-1, "
            "keepdims=True), 1e-300)",
        ),
        "the padding is not masked: it gets weight": "np.where(real, scores, -np.inf) → scores",
        "the mask comes after the softmax: the weights of a text no longer add up to "
        "1": "np.where(real, scores, -np.inf)) → scores) * real",
        "padding has a finite score, which still gets weight, as exp(0) is 1: it has to be "
        "−∞": "np.where(real, scores, -np.inf) → scores * real",
        "the mask is upside down: True is a word": "scores, -np.inf → -1e9, scores",
        "the weights are equal: the scores are not used": "words @ query → 0 * (words @ query)",
        "the scores are divided by the root of their width: "
        "here they are not": "words @ query → words @ query / np.sqrt(len(query))",
    },
)


def _pool(words, query, real):
    return (_pool_weights(words, query, real)[..., None] * words).sum(1)


_POOL = Slips(
    _pool,
    {
        "the weights are right, but the context is made with those of a softmax over the batch": (
            "_pool_weights(words, query, real) → softmax(np.where(real, words @ query, -np.inf), 0)"
        ),
        "the context is the mean of weight times word: "
        "the weights add up to 1, so add up": ".sum( → .mean(",
        "the context is the mean of weight times word over the real words: "
        "the weights add up to 1, so add up": "* words) → * words / real.sum(-1)[:, None, None])",
        "the weights are right, but the context does not use "
        "them": "_pool_weights(words, query, real)[..., None] * →",
        "the contexts of the texts are added up: "
        "expected one for each": ".sum(1) → .sum((0, 1)) + 0 * words[:, 0]",
    },
)


@exercise("00.pool_a_batch", title="Find the bug: many texts at once", difficulty=2, minutes=6)
def pool_a_batch(answer, ctx):
    for hard in ("", "huge", "low"):
        batch, n, d = ctx.sizes(batch=(1, 4), n=(1, 7), d=(1, 5))
        words, query = ctx.normal(batch, n, d), ctx.normal(d)
        if hard == "huge":  # exponentials overflow
            query = 1e3 * query
        if hard == "low":  # a finite fill lies above every score
            words, query = words.abs(), -1e4 * query.abs()
        real = torch.arange(n) < ctx.lengths(batch, n)[:, None]
        got_context, got = ctx.parts(
            ctx.call(answer, words, query, real), ("context", "weights"), ((batch, d), (batch, n))
        )
        got = ctx.floats(
            got,
            "weights",
            (batch, n),
            nan="each text has a word, so a softmax over its own scores is finite",
            mention="one row a text, one column a word",
        )
        got_context = ctx.floats(
            got_context, "context", (batch, d), mention="one row a text, as wide as a word vector"
        )
        w, q, there = array(words), array(query), array(real)
        rough = np.abs(np.where(there, w @ q, 0)).max() if hard else 0.0  # of float32
        right, wrong = _POOL_WEIGHTS(w, q, there)
        ctx.close(got, right, "weights", wrong, size=rough)
        right, wrong = _POOL(w, q, there)
        ctx.close(got_context, right, "context", wrong, size=rough * np.abs(w).max())
        if not hard:
            check_gradients(
                ctx,
                answer,
                (words, query, real),
                {0: "words", 1: "query"},
                lambda w, q: _pool(w, q, there),
                part=0,
            )


def _saliency(gradient, inputs):
    return np.abs((gradient * inputs).sum(-1))


_SALIENCY = Slips(
    _saliency,
    {
        "this is the length of the gradient: multiply it by the input "
        "first": "np.abs((gradient * inputs).sum(-1)) → np.sqrt((gradient**2).sum(-1))",
        "the gradient is not multiplied by the input": "* inputs →",
        "the absolute value comes before the sum: add up over the width, then take "
        "it": "np.abs((gradient * inputs).sum(-1)) → np.abs(gradient * inputs).sum(-1)",
        "the saliency has a sign: expected its absolute value": "np.abs( → (",
        "the products are averaged over the width: expected their sum": ".sum( → .mean(",
    },
)


@exercise("00.gradient_times_input", title="Gradient times input", difficulty=2, minutes=5)
def gradient_times_input(answer, ctx):
    for needed in (False, True):
        n, d = ctx.sizes(n=(1, 7), d=(1, 7))
        predict = _small_network(ctx, d)
        while True:  # one sum is negative, so that its sign shows
            inputs = ctx.normal(n, d)
            leaf = inputs.double().requires_grad_()
            (gradient,) = torch.autograd.grad(predict(leaf), leaf)
            g, x = array(gradient), array(inputs)
            if (g * x).sum(-1).min() < -1e-3:
                break
        got = ctx.call(answer, predict, inputs.requires_grad_(needed))
        got = ctx.floats(
            got, "the saliency", (n,), mention="the products are added up over the width"
        )
        right, wrong = _SALIENCY(g, x)
        ctx.close(got, right, "the saliency", wrong)
