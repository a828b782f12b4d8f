"""Checks of the section on summaries of long texts: who sees which stretch, a prediction, a loss
for even loads, gates of the k best experts.
"""

import numpy as np
import torch

from ..context import HARD_SCORES, array, softmax
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import Slips


def _stretches(n, width, stride):
    ends = stride * np.arange((n - width) // stride + 1) + width - 1
    t = np.arange(n)[:, None]
    return ends <= t


_STRETCHES = Slips(
    _stretches,
    {
        "a query may see a stretch that has only begun: "
        "its last position must not lie after the query": "ends <= t → ends - width + 1 <= t",
        "the mask is upside down: True means may attend": "ends <= t → ends > t",
        "the newest stretch is hidden from the query at its end: "
        "a stretch that ends at t may be seen by t": "ends <= t → ends < t",
        "a query sees one position too far: "
        "the last position of stretch c is c·stride + width - 1": "ends <= t → ends <= t + 1",
        "the stretches are counted by the width: "
        "stretch c begins at c·stride": "ends = stride → ends = width",
        "the end of stretch c is taken for the place before stretch c + 1: "
        "its last position is c·stride + width - 1": "+ width - 1 → + stride - 1",
        "every query may see every stretch: the future is in the keys": "ends <= t → ends <= t + n",
        "a query sees the newest "
        "stretch alone, not those before it": "ends <= t → (ends <= t) & (t < ends + stride)",
    },
)


@exercise("06.stretch_mask", title="Who may see which stretch", difficulty=2, minutes=6)
def stretch_mask(answer, ctx):
    more, wider, step = ctx.sizes(positions=(0, 9), width_beyond_stride=(0, 3), stride=(1, 4, 3))
    long, plain = ctx.integers(3, 6), ctx.integers(5, 9)
    half = 2 * long - ctx.integers(1, 3)  # one complete stretch, and a part of a second
    for n, width, stride in (
        (ctx.integers(10, 14), 3, 3),
        (ctx.integers(9, 14), 4, 2),
        (plain, 1, 1),
        (half, long, long),
        (6, 6, 2),
        (step + wider + more, step + wider, step),
    ):
        got = ctx.call(answer, n, width, stride)
        right, wrong = _STRETCHES(n, width, stride)
        mention = (
            f"n = {n}, width {width}, stride {stride}: a row a query, a column for each of the "
            f"{right.shape[1]} whole stretches"
        )
        got = ctx.tensor(got, "the mask", right.shape, dtype=torch.bool, mention=mention)
        ctx.close(got, right, "the mask", wrong)


@exercise("06.harder_squeezed", title="Predict: squeezed twice as hard", difficulty=1, minutes=2)
def harder_squeezed(answer, ctx):
    return ctx.predicted(answer, "more", "about as many", "fewer")


def _loads(scores, real, alpha):
    p = softmax(scores)[real]
    chosen = np.eye(p.shape[-1])[p.argmax(-1)]
    return alpha * p.shape[-1] * (chosen.mean(0) * p.mean(0)).sum()


_LOADS = Slips(
    _loads,
    {
        "padding counts as words: only those that are real do": "[real] → .reshape(-1, scores"
        ".shape[-1])",
        "padding is left out of the sums, but it is counted in T: divide by the number of words": (
            "return → return real.mean() ** 2 *"
        ),
        "the factor is not N, the number of experts, or the sum over them is a mean: even "
        "loads cost α, "
        "however many experts there are": "* p.shape[-1] * → *",
        "the factor α is missing": "alpha * →",
        "f and P are sums over the words: expected means": (
            "chosen.mean(0) → chosen.sum(0)",
            "p.mean(0) → p.sum(0)",
        ),
        "f or P is a sum over the words: both are means": "chosen.mean(0) → chosen.sum(0)",
        "this is the sum of P²: f counts the words of each expert": "chosen.mean(0) → p.mean(0)",
        "this is the sum of f²: nothing is learned through f": "p.mean(0) → chosen.mean(0)",
        "the product is made for each word, and then the mean: expected the product of two means": (
            "(chosen.mean(0) * p.mean(0)) → (chosen * p).mean(0)"
        ),
        "the scores are not made probabilities: expected their softmax": (
            "softmax(scores)[real] → scores[real]"
        ),
        "the softmax runs over the words: expected over the experts": (
            "softmax(scores)[real] → softmax(scores[real], 0)"
        ),
    },
)


@exercise("06.even_loads", title="From the formula: A loss for even loads", difficulty=2, minutes=8)
def even_loads(answer, ctx):
    batch, n, experts = ctx.sizes(batch=(1, 4), n=(1, 7), experts=(1, 6))
    real, one = torch.arange(n) < ctx.lengths(batch, n)[:, None], torch.zeros(batch, n).bool()
    one[ctx.integers(0, batch), ctx.integers(0, n)] = True
    alpha = 0.5 + ctx.integers(1, 9) / 10
    for size, there, name in (
        (1e3, real, "the loss for large scores"),
        (2.0, one, "the loss of a single word"),
        (2.0, real, "the loss"),
    ):
        scores = size * ctx.normal(batch, n, experts)
        got = ctx.floats(ctx.call(answer, scores, there, alpha), name, ())
        right, wrong = _LOADS(array(scores), array(there), alpha)
        ctx.close(got, right, name, wrong)
    given, words = (scores, real, alpha), array(real)
    check_gradients(ctx, answer, given, {0: "scores"}, lambda s: _loads(s, words, alpha), step=1e-7)


def _gates(e, k):
    ranked = np.sort(e, -1)
    best = ranked[:, -k][:, None] <= e
    return softmax(np.where(best, e, -np.inf))


_GATES = Slips(
    _gates,
    {
        "the softmax runs over all experts and the rest is cut off: the gates of a "
        "position no longer add up to 1": "softmax(np.where(best, e, -np.inf)) → softmax(e) * best",
        "all experts have a gate: "
        "those that are not among the k best get exactly 0": "np.where(best, e, -np.inf) → e",
        "the k "
        "worst experts are chosen": "ranked[:, -k][:, None] <= e → ranked[:, k - 1][:, None] >= e",
        "the best are chosen along the positions: every position chooses "
        "among its experts (dim=-1)": "ranked[:, -k][:, None] → np.sort(e, 0)[-min(k, len(e))]",
        "best and softmax are those along the positions: every position chooses among its "
        "experts (dim=-1)": (
            "ranked[:, -k][:, None] → np.sort(e, 0)[-min(k, len(e))]",
            "-np.inf)) → -np.inf), 0)",
        ),
        "only k - 1 experts are chosen: the k-th largest score belongs to them": "<= e → < e",
        "the softmax runs over the positions: "
        "expected over the experts (dim=-1)": "-np.inf)) → -np.inf), 0)",
        "every chosen expert has the same gate: "
        "the softmax of the scores weighs them": "softmax(np.where(best, e, -np.inf)) → best / k",
        "the scores of the others are set to a number, which is a score like any other: "
        "set them to -inf": "-np.inf → 0.0",
        "these are the scores of the best: the "
        "gates are their softmax": "softmax(np.where(best, e, -np.inf)) → np.where(best, e, 0.0)",
    },
)


@exercise("06.top_k_gates", title="Gates of the best experts", difficulty=3, minutes=8)
def top_k_gates(answer, ctx):
    count, experts = ctx.sizes(words=(1, 6), experts=(1, 6))
    drawn = count, experts, ctx.integers(1, experts + 1)
    cases = ((5, 6, 2), drawn, (4, 5, 3), (3, 4, 1), (4, 3, 3), (2, 5, 2), (2, 5, 3))
    hard = (*[HARD_SCORES[0]] * 5, *HARD_SCORES[1:])
    for (count, experts, k), (factor, shift) in zip(cases, hard):
        while True:  # without ties, which float32 makes of numbers far from 0
            scores = factor * ctx.normal(count, experts) + shift
            if bool((scores.sort().values.diff() > 0).all()):
                break
        if factor == 1 and not shift:  # the best may have the score 0
            scores = scores - scores.max()
        if factor == 1 and not shift and k < experts:  # no tie, but nearly one
            ranked = scores[0].argsort(descending=True)
            scores[0, ranked[k]] = scores[0, ranked[k - 1]] - 2e-5
        got = ctx.call(answer, scores, k)
        mention = "a row a position, a column an expert"
        got = ctx.floats(got, "the gates", (count, experts), mention=mention)
        e = array(scores)
        right, wrong = _GATES(e, k)
        ctx.close(got, right, "the gates", wrong, size=float(np.abs(e).max()))
        best = np.sort(e)[:, -k][:, None] <= e

        def fixed(e, best=best):
            return softmax(np.where(best, e, -np.inf))

        if factor == 1 and not shift:  # of the others float32 has too few digits
            check_gradients(ctx, answer, (scores, k), {0: "scores"}, fixed, step=1e-6)
