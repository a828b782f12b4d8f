"""Checks of the section on the soft look-up: a context on paper, a question from far away,
weighted sums, from soft to hard, and the softmax under a mask.
"""

import numpy as np
import torch

from ..context import array, softmax
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import Slips, on_paper


@on_paper(
    "00.three_keys",
    "the context",
    title="Three keys",
    difficulty=1,
    minutes=5,
    within=0.02,
    otherwise="write down the three scores, their exponentials, and the sum of these",
)
def three_keys():
    scores, values = np.log([1.0, 2.0, 5.0]), np.array([16.0, 8.0, 0.0])
    return softmax(scores) @ values, {
        "the scores themselves are used as weights: they go through a softmax first": scores
        @ values,
        "the scores are divided by their sum, without exp": scores @ values / scores.sum(),
        "the exponentials are not divided by their sum": np.exp(scores) @ values,
        "all three values count the same: the average has to use the weights": values.mean(),
        "only the key with the largest score answers: that is the hard look-up": values[2],
        "the scores are divided by √2: here the score is the plain dot product": softmax(
            scores / 2**0.5
        )
        @ values,
        "the weights are turned around: the third key has the largest score": softmax(scores)[::-1]
        @ values,
    }


@exercise("00.far_away", title="Predict: A question from far away", difficulty=1, minutes=5)
def far_away(answer, ctx):
    return ctx.predicted(answer, "average", "last note", "zero")


def _weighted(weights, values):
    return weights @ values


_WEIGHTED = Slips(
    _weighted,
    {
        "every value counts the same: "
        "the weights are not used": "weights @ → np.full_like(weights, 1 / weights.shape[-1]) @",
        "the values are added up without their weights": "weights @ → np.ones_like(weights) @",
        "the weights go through another softmax: "
        "they add up to 1 already": "weights @ → softmax(weights) @",
        "only the value with the largest weight is used: "
        "that is the hard look-up": "weights @ → (weights == weights.max(-1, keepdims=True)) @",
        "the sum is divided by the number of keys: "
        "the weights add up to 1 already": "@ values → @ values / values.shape[-2]",
        "the weights are transposed: "
        "row i of the weights belongs to query i": "weights @ → np.swapaxes(weights, -1, -2) @",
    },
)


@exercise("00.weighted_sum", title="A weighted sum", difficulty=1, minutes=5)
def weighted_sum(answer, ctx):
    for shape in ((), (2,), (1, 2, 2), (1,), (2, 3)):
        other = ctx.sizes(m=(1, 2), n=(1, 6), d=(1, 4))
        m, n, d = other if shape else (3, 3, 4)
        weights, values = ctx.weights(*shape, m, n), ctx.normal(*shape, n, d)
        got = ctx.call(answer, weights, values)
        got = ctx.floats(
            got, "the context", (*shape, m, d), mention="one row a query, as wide as a value"
        )
        right, wrong = _WEIGHTED(array(weights), array(values))
        ctx.close(got, right, "the context", wrong)
    check_gradients(ctx, answer, (weights, values), {0: "weights", 1: "values"}, _weighted)
    ctx.without_loop(answer, ctx.weights(600, 2, 3), ctx.normal(600, 3, 2), over="problems")


OVERFLOW = (
    "exp overflows for large scores, or when scores are divided by a low temperature, or all of "
    "a row become 0: subtract the largest score of each row first"
)


def _soft(scores, values, temperature):
    return softmax(scores / temperature) @ values


def _hard(scores, values):
    return values[scores.argmax(-1)]


_SOFT = Slips(
    _soft,
    {
        "the softmax runs over the queries (dim=0): "
        "the weights of one query must add up to 1": "temperature) → temperature, 0)",
        "the scores are not put through a softmax": "softmax(scores / temperature) → scores",
        "only the best value comes back: the look-up is hard too "
        "early": "softmax(scores / temperature) @ values → _hard(scores, values)",
        "the scores are multiplied by the temperature: "
        "a high one must make the look-up softer": "/ temperature → * temperature",
        "the temperature is not used, or the weights are divided by it after the softmax and "
        "normalized again, which changes nothing": "/ temperature →",
        "the weights are divided after the softmax: "
        "then they do not add up to 1": "/ temperature) → ) / temperature",
    },
)
_HARD = Slips(
    _hard,
    {
        "at temperature 0 all queries get the same value: argmax runs over the keys of each query "
        "(dim=-1)": "scores.argmax(-1) → 0 * scores.argmax(-1) + scores.argmax() % len(values)",
        "at temperature 0 the context is the mean of all values: "
        "expected the value of the best key": "values[ → (0 * values + values.mean(0))[",
        "at temperature 0 the look-up is as soft as at 1: expected the value of the best "
        "key": "values[scores.argmax(-1)] → _soft(scores, values, 1.0)",
    },
)


@exercise("00.temperature", title="From soft to hard", difficulty=2, minutes=5)
def temperature(answer, ctx):
    m, n, d = ctx.sizes(m=(1, 3), n=(1, 6), d=(1, 4))
    scores = ctx.draw(
        lambda: ctx.normal(m, n),
        lambda drawn: len(drawn.argmax(-1).unique()) > 1,
        50 if min(m, n) > 1 else 1,
    )
    values = ctx.normal(n, d)
    s, v = array(scores), array(values)
    for t in (1.0, 0.25, 4.0):
        got = ctx.floats(ctx.call(answer, scores, values, t), "the context", (m, d))
        right, wrong = _SOFT(s, v, t)
        ctx.close(got, right, f"at temperature {t:g} the context", wrong)
    check_gradients(
        ctx, answer, (scores, values, t), {0: "scores", 1: "values"}, lambda s, v: _soft(s, v, t)
    )
    for factor, t in ((300.0, 1.0), (1.0, 80.0), (300.0, 80.0), (3e4, 1e4), (10.0, 0.01)):
        large = factor * scores
        name = f"at temperature {t:g} and with scores to {large.abs().max():.0f} the context"
        got = ctx.floats(ctx.call(answer, large, values, t), name, (m, d), nan=OVERFLOW)
        ctx.close(got, _soft(array(large), v, t), name)
    hard, wrong = _HARD(s, v)
    for t in (2**-7, 2**-20):  # exact
        name = f"at temperature {t:.2g} and with close scores the context"
        got = ctx.floats(ctx.call(answer, t * scores, values, t), name, (m, d))
        early = f"at temperature {t:.2g} the look-up is hard already: only 0 is a case of its own"
        ctx.close(got, _soft(s, v, 1.0), name, {early: hard})
    zero = ctx.call(answer, scores, values, 0.0)
    zero = ctx.floats(
        zero,
        "at temperature 0 the context",
        (m, d),
        nan="0 is its own case: return the value of the best key",
        mention="one best key a query: argmax runs over the keys, dim=-1",
    )
    ctx.close(zero, hard, "at temperature 0 the context", wrong)
    zero = ctx.floats(ctx.call(answer, 1e-3 * scores, values, 0.0), "the context", (m, d))
    if not ctx.same(zero, hard):
        ctx.fail(
            "at temperature 0 and with close scores the context is a mixture: expected the value "
            "of the best key, however small its lead"
        )
    ties = ctx.call(answer, 0 * scores, values, 0.0)  # any of the best is right, no mixture is
    ties = array(ctx.floats(ties, "at temperature 0 and with equal scores the context", (m, d)))
    for row, one in enumerate(ties):
        if np.abs(v - one).max(-1).min() > 1e-5:
            ctx.fail(
                f"at temperature 0 and with equal scores context[{row}] is none of the values: "
                f"return that of one of the best keys"
            )
    check_gradients(ctx, answer, (scores, values, 0.0), {1: "values"}, lambda v: _hard(s, v))


def _masked(scores, mask):
    return softmax(np.where(mask, scores, -np.inf))


_MASKED = Slips(
    _masked,
    {
        "the mask is not used": "np.where(mask, scores, -np.inf) → scores",
        "the mask comes after the softmax: "
        "the rows no longer add up to 1": "np.where(mask, scores, -np.inf)) → scores) * mask",
        "masked scores become 0 before the softmax, and exp(0) is 1: "
        "they still get weight": "np.where(mask, scores, -np.inf) → scores * mask",
        "the softmax is over the wrong axis, the queries: "
        "the weights of a query add up to 1 along the keys (dim=-1)": "inf) → inf), -2",
        "the mask is upside down: True means that the key may be attended to": "(mask, → (~mask,",
    },
)


@exercise("00.masked_softmax", title="A softmax under a mask", difficulty=3, minutes=10)
def masked_softmax(answer, ctx):
    # two keys at least: one that may be attended to, one that may not
    batch, m, n = ctx.sizes(batch=(1, 3), m=(1, 4), n=(2, 7))
    scores = 1.5 * ctx.normal(batch, m, n)
    mask = ctx.integers(0, 2, batch, m, n).bool()
    mask[..., 0], mask[..., 1] = True, False
    s, allowed = array(scores), array(mask)
    expected, wrong = _MASKED(s, allowed)
    got = ctx.floats(ctx.call(answer, scores, mask), "weights", (batch, m, n))
    ctx.recognize(got, expected, wrong)
    sums = array(got).sum(-1)
    if not np.allclose(sums, 1.0, atol=1e-4):
        at = np.unravel_index(np.abs(sums - 1).argmax(), sums.shape)
        ctx.fail(
            f"the weights do not add up to 1 along the keys (dim=-1): row {at[1]} adds up to "
            f"{sums[at]:.4g}"
        )
    leaked = np.where(allowed, 0.0, array(got))
    if leaked.any():
        ctx.fail(f"a masked key gets weight {leaked.max():.2g}: expected exactly 0")
    ctx.close(got, expected, "weights")
    check_gradients(ctx, answer, (scores, mask), {0: "scores"}, lambda s: _masked(s, allowed))

    # Each of the three shows one mistake with exp that the later ones survive.
    row, masked = np.zeros((batch, m, 1)), np.where(allowed, 0.0, 300.0)
    row[0, 0] = 300.0
    for lift, message in (
        (200.0, "exp overflows for large scores: subtract the largest score of a row first"),
        (
            row,
            "one maximum is subtracted from several rows, and exp underflows to 0 in the others: "
            "each row has its own largest score",
        ),
        (
            masked,
            "the maximum is taken over all keys, and exp underflows to 0 for the allowed ones: "
            "take it over the allowed keys",
        ),
    ):
        lifted = scores + torch.as_tensor(lift, dtype=torch.float32)
        got = ctx.floats(ctx.call(answer, lifted, mask), "weights", (batch, m, n), nan=message)
        if (array(got).sum(-1) < 0.5).any():
            ctx.fail(message)
        ctx.close(got, _masked(array(lifted), allowed), "weights")

    got = ctx.floats(ctx.call(answer, scores[0], mask[0]), "weights without a batch", (m, n))
    ctx.close(got, expected[0], "weights without a batch")

    low = "where all allowed scores are very low, a masked key wins: put −∞ there, no finite number"
    lowered = scores - 3e4
    got = ctx.floats(ctx.call(answer, lowered, mask), "weights", (batch, m, n), nan=low)
    if (array(got).sum(-1) < 0.5).any() or np.where(allowed, 0.0, array(got)).any():
        ctx.fail(low)
    rough = np.abs(array(lowered)).max()  # a softmax by the logarithm of the sum is right, too
    ctx.close(got, _masked(array(lowered), allowed), "weights", size=rough)

    raised = scores + torch.as_tensor(masked, dtype=torch.float32)
    check_gradients(ctx, answer, (raised, mask), {0: "scores"}, lambda s: _masked(s, allowed))

    lifted = 3e4 * scores
    large = ctx.call(answer, lifted, mask)
    nan = "exp overflows for large scores: subtract the largest score of a row first"
    ctx.close(
        ctx.floats(large, "weights", (batch, m, n), nan=nan),
        _masked(array(lifted), allowed),
        "weights",
        size=np.abs(array(lifted)).max(),
    )

    for leading in ((), (2, 2), (2, 1, 2)):
        name = f"of scores with {2 + len(leading)} dimensions the weights"
        shape = (*leading, m, ctx.integers(1, 4))
        some, few = ctx.normal(*shape), ctx.integers(0, 2, *shape).bool()
        few[..., 0] = True
        for seen, what in ((few, ""), (few | True, "where every key may be attended to: ")):
            got = ctx.floats(ctx.call(answer, some, seen), f"{what}{name}", shape)
            ctx.close(got, _masked(array(some), array(seen)), f"{what}{name}")

    mask[0, -1] = False
    nan = "in a row with nothing to attend to all weights are 0"
    got = ctx.floats(ctx.call(answer, scores, mask), "weights", (batch, m, n), nan=nan)
    if array(got)[0, -1].any():
        total = array(got)[0, -1].sum()
        ctx.fail(
            f"a row with nothing to attend to gets weights that add up to {total:.3g}: all of "
            f"them must be 0"
        )
    allowed = array(mask)
    ctx.close(got, _masked(s, allowed), "weights")
    check_gradients(ctx, answer, (scores, mask), {0: "scores"}, lambda s: _masked(s, allowed))
