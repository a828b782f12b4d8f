"""Checks of the section on modifications: a gated layer, luck on paper and by a test that makes no
assumption, three bugs.
"""

from itertools import combinations
from math import erf

import numpy as np
import torch

from ..context import HARD_SCORES, array, softmax
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import Slips, on_paper


def _sigmoid(s):
    return (1 + np.tanh(s / 2)) / 2


def _gelu(s):
    return s * (1 + np.vectorize(erf)(s / np.sqrt(2))) / 2


@exercise(
    "06.shifted_norm", title="Predict: a norm that subtracts no mean", difficulty=1, minutes=2
)
def shifted_norm(answer, ctx):
    return ctx.predicted(answer, "both", "layer norm only", "RMSNorm only", "neither")


def _layer(x, gate, value, output):
    s, v = x @ gate, x @ value
    return (s * _sigmoid(s) * v) @ output


_LAYER = Slips(
    _layer,
    {
        "gate and value are exchanged: swish belongs to x gate": "s, v = x → v, s = x",
        "this is GLU: its gate goes through a sigmoid, "
        "that of SwiGLU through swish(s) = s · sigmoid(s)": "s * _sigmoid(s) → _sigmoid(s)",
        "this is ReGLU: "
        "the gate of SwiGLU goes through swish, not relu": "s * _sigmoid(s) → np.maximum(s, 0)",
        "this is GeGLU: "
        "the gate of SwiGLU goes through swish, not GELU": "s * _sigmoid(s) → _gelu(s)",
        "this is LiGLU: "
        "the gate of SwiGLU goes through swish before the product": "s * _sigmoid(s) → s",
        "the gate "
        "goes through tanh, expected swish(s) = s · sigmoid(s)": "s * _sigmoid(s) → np.tanh(s)",
        "the gate goes through a softmax, "
        "expected swish(s) = s · sigmoid(s), each number by itself": "s * _sigmoid(s) → softmax(s)",
        "gate and value are added: a gate multiplies": "* v) → + v)",
        "there is no gate: "
        "x value is to be multiplied by swish(x gate)": "s * _sigmoid(s) → _sigmoid(v)",
        "the value is missing: swish(x gate) is to be multiplied by x value": "* v) →)",
        "swish is taken of the product: "
        "it belongs to the gate alone": "s * _sigmoid(s) → s * _sigmoid(s * v)",
        "both go through swish: the value stays as it is": "* v) → * v * _sigmoid(v))",
    },
)


@exercise("06.swiglu", title="A gate in the feed-forward layer", difficulty=1, minutes=5)
def swiglu(answer, ctx):
    batch, n, d, hidden = ctx.sizes(batch=(1, 3), n=(1, 5), d=(1, 5), hidden=(1, 6))
    x, output = ctx.normal(batch, n, d), ctx.normal(hidden, d)
    gate, value = ctx.normal(d, hidden), ctx.normal(d, hidden)
    names = {0: "x", 1: "gate", 2: "value", 3: "output"}
    for given, what in (
        ((x, gate, value, output), "the result"),
        ((x, 300 * gate, value / 300, output), "the result for large products with gate"),
    ):
        got = ctx.call(answer, *given)
        mention = "one row a position, as wide as x"
        got = ctx.floats(got, what, (batch, n, d), mention=mention)
        right, wrong = _LAYER(*map(array, given))
        ctx.close(got, right, what, wrong)
        check_gradients(ctx, answer, given, names, _layer)


@on_paper(
    "06.seeds_enough",
    "the number of seeds",
    title="how many seeds?",
    difficulty=2,
    minutes=4,
    within=0.01,
)
def seeds_enough():
    return 72, {
        "two means differ, and both have luck: there is a 2 under the root": 36,
        "three standard errors are asked for, and this is enough for one": 8,
        "three standard errors are asked for, and this is enough for two": 32,
        "the root is lost: the seeds grow with the square of 3 σ divided by the gain": 12,
        "that is the number of runs of both models together": 144,
        "that is enough for a gain of 0.01: the gain is half of σ": 18,
        "with one seed less the gain is below three standard errors, with this one it is more "
        "than enough: three standard errors exactly are allowed": 73,
        "the gain is divided by 3 σ, expected 3 σ divided by the gain": 2 / 36,
    }


@exercise("06.chance_of_better", title="Better, or better by chance?", difficulty=3, minutes=10)
def chance_of_better(answer, ctx):
    rounded = [[round(float(v), 1) for v in ctx.normal(k) + 3] for k in (3, 4)]
    cases = [
        tuple(rounded),
        ([3.5, 3.75, 3.25], [3.0, 3.75, 3.375]),
        ([3.1, 3.2, 3.0], [3.6, 3.5, 3.7]),
        ([3.6, 3.5, 3.7], [3.1, 3.2, 3.0]),
        ([3.25, 3.5, 3.0, 3.125], [3.375, 3.25, 3.75]),
        ([2.0, 2.0], [2.0, 2.0, 2.0]),
        (rounded[1], rounded[0][:2]),
        tuple([round(float(v), 1) for v in ctx.normal(5) + 3] for _ in range(2)),
        ([3.0], [3.5, 3.25, 3.75, 4.0]),
    ]
    many = [float(v) for v in ctx.normal(ctx.sizes(losses=(1, 6, 12))) + 3]
    # of few choices: torch.combinations takes n to the power of their length
    cases += [([many[0] + 1e-10], many), (many[-2:], many), (many[:6], many[-1:])]
    for count, others in ((3, 4), (4, 2)):  # some differences within 1e-9 and some beyond it

        def tiny(count=count, total=count + others):
            values = [6e-9 * float(v) for v in torch.rand(total, generator=ctx.generator)]
            return values[:count], values[count:]

        cases.append(ctx.draw(tiny, lambda case: _clear(*case), 1000))
    named = []
    for index, (changed, plain) in enumerate(cases):
        name = f"the chance for {changed} and {plain}"
        if index >= len(cases) - 2:
            name = f"with differences up to 1e-9 taken as equal, {name}"
        got = ctx.number(ctx.call(answer, list(changed), list(plain)), name)
        right = _chance(changed, plain)
        wrong = {
            "the split that was really found is not counted: it is one of all": _chance(
                changed, plain, itself=False
            ),
            "splits with the same difference are not counted: at least as good, not "
            "better": _chance(changed, plain, ties=False),
            "this is the chance of being worse: a loss is better when it is lower": _chance(
                plain, changed
            ),
            "this counts splits whose difference is as large in either direction: only those "
            "in favour of the first list": _chance(changed, plain, either=True),
            "this is the difference of the means, expected a share of all splits": float(
                np.mean(changed) - np.mean(plain)
            ),
            "this is how many splits there are, expected their share among all": _chance(
                changed, plain
            )
            * _number(changed, plain),
            "this is 1 minus the chance": 1 - right,
            "the chosen values are compared with one number, as the mean of all: compare them "
            "with the mean of the rest": _chance(changed, plain, rest="all"),
            "a value that equals a chosen one is missing from the rest: choose places, not "
            "values": _chance(changed, plain, rest="unequal"),
            "this is the share of pairs, one of each list, in which the first is lower: "
            "expected splits of all values": float(
                np.mean([a < b for a in changed for b in plain])
            ),
        }
        named.append((name, got, right, wrong))
        # a mistake has its name by the first two: of few splits several have the same share, and
        # equal values that rounding tells apart look like a split that is left out
        if index == 1:
            ctx.close_everywhere(named)
        elif index > 1:
            ctx.close(got, right, name)


def _clear(changed, plain):
    """Whether 1e-9 is told from 3e-10 and 3e-9, and no difference lies so near to 1e-9 from the one
    found that rounding decides.
    """
    smaller, near, far, larger = (
        _chance(changed, plain, within=within) for within in (3e-10, 0.9e-9, 1.1e-9, 3e-9)
    )
    return smaller < near == far < larger


def _number(changed, plain):
    return len(list(combinations(range(len(changed) + len(plain)), len(changed))))


def _chance(changed, plain, itself=True, ties=True, either=False, rest="others", within=1e-9):
    values = np.array([*changed, *plain], dtype=float)
    first = len(changed)

    def difference(chosen):
        one = values[list(chosen)]
        others = {
            "others": np.delete(values, list(chosen)),
            "all": values,
            "unequal": values[~np.isin(values, one)],
        }[rest]
        return one.mean() - (others.mean() if others.size else 0.0)

    observed = np.mean(changed) - np.mean(plain)
    count, splits = 0, list(combinations(range(len(values)), first))
    for chosen in splits:
        if not itself and chosen == tuple(range(first)):
            continue
        d = difference(chosen)
        equal = abs(d - observed) < within
        if either:
            count += abs(d) > abs(observed) - within
        else:
            count += (d < observed and not equal) or (equal and ties)
    return count / len(splits)


def _heads(x, w_in, w_o, h):
    def split(rows):  # (B, n, d) -> (B, h, n, d/h)
        return rows.reshape(len(x), x.shape[1], h, -1).swapaxes(1, 2)

    q, k, v = map(split, np.split(x @ w_in, 3, -1))
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    past = np.tri(x.shape[1], dtype=bool)
    context = softmax(np.where(past, scores, -np.inf)) @ v
    return context.swapaxes(1, 2).reshape(x.shape) @ w_o


_HEADS = Slips(
    _heads,
    {
        "the result mixes positions, and later words leak: reshape alone lays the contexts out "
        "head after head, so a row of the result is made of several rows of one head. Swap heads "
        "and positions back first": "context.swapaxes(1, 2).reshape → context.reshape",
        "queries, keys and values are cut by a view alone, which puts several positions into one "
        "head: cut each row into heads, then swap": (
            "rows.reshape(len(x), x.shape[1], h, -1).swapaxes(1, 2) → rows.reshape(len(x), h, "
            "x.shape[1], -1)"
        ),
        "queries, keys and values are cut, and contexts joined, by views alone: cut each row into "
        "heads and swap, and swap back before you join": (
            "rows.reshape(len(x), x.shape[1], h, -1).swapaxes(1, 2) → rows.reshape(len(x), h, "
            "x.shape[1], -1)",
            "context.swapaxes(1, 2).reshape → context.reshape",
        ),
        "a head has every h-th column: expected the i-th group of d/h columns": (
            "rows.reshape(len(x), x.shape[1], h, -1).swapaxes(1, 2) → rows.reshape(len(x), "
            "x.shape[1], -1, h).transpose(0, 3, 1, 2)"
        ),
        "a head has every h-th column, going in and coming out: expected the i-th group of d/h "
        "columns": (
            "rows.reshape(len(x), x.shape[1], h, -1).swapaxes(1, 2) → rows.reshape(len(x), "
            "x.shape[1], -1, h).transpose(0, 3, 1, 2)",
            "context.swapaxes(1, 2).reshape → context.transpose(0, 2, 3, 1).reshape",
        ),
        "the heads' contexts are interleaved, number by number: expected side by "
        "side": "context.swapaxes(1, 2).reshape → context.transpose(0, 2, 3, 1).reshape",
        "the heads' contexts stand side by side with the last head "
        "first": "context.swapaxes(1, 2).reshape → context[:, ::-1].swapaxes(1, 2).reshape",
        "there is no causal mask": "np.where(past, scores, -np.inf) → scores",
        "a row does not see itself, or sees the one after it: "
        "the mask is off by one": "np.tri(x.shape[1], → np.tri(x.shape[1], k=1,",
        "the mask comes after the softmax: the weights no longer add up to "
        "1": "softmax(np.where(past, scores, -np.inf)) → (softmax(scores) * past)",
        "the mask is upside down: a row sees itself and what comes after it": "(past, → (past.T,",
        "the softmax runs over the queries (dim=-2): "
        "expected over the keys": "-np.inf)) → -np.inf), -2)",
        "the scores are divided by the width of a head: "
        "expected its root": "np.sqrt(q.shape[-1]) → q.shape[-1]",
        "the scores are divided by √d: "
        "expected the root of the width of a head": "q.shape[-1] → x.shape[-1]",
        "the scores are not divided by the root of the width of a head": "/ np.sqrt(q.shape[-1]) →",
        "keys and values are exchanged": "q, k, v = → q, v, k =",
        "keys and queries are exchanged": "q, k, v = → k, q, v =",
        "W_o is not used": "@ w_o →",
    },
)


@exercise(
    "06.heads_side_by_side", title="Find the bug: heads side by side", difficulty=3, minutes=10
)
def heads_side_by_side(answer, ctx):
    batch, n, h, width = ctx.sizes(batch=(1, 3), n=(1, 7), h=(1, 4), width=(1, 4))
    d = h * width
    x, w_in, w_o = ctx.normal(batch, n, d), 0.6 * ctx.normal(d, 3 * d), ctx.normal(d, d)
    got = ctx.floats(
        ctx.call(answer, x, w_in, w_o, h),
        "the result",
        (batch, n, d),
        mention="one row a position, as wide as x",
        nan="each row sees itself: mask later keys before the softmax",
    )
    right, wrong = _HEADS(array(x), array(w_in), array(w_o), h)
    ctx.close(got, right, "the result", wrong)
    at = {0: "x", 1: "W_in", 2: "W_o"}
    check_gradients(ctx, answer, (x, w_in, w_o, h), at, lambda *now: _heads(*now, h=h))

    # multiples of 2¹⁵, exact in float32: what is no tie is far apart
    x, w_in = ctx.integers(1, 4, batch, n, d).float(), w_in.clone()
    w_in[:, : 2 * d] = ctx.integers(1, 3, d, 2 * d) * torch.tensor(
        [2.0**15, -1.0]
    ).repeat_interleave(d)
    what = "the result, where all scores are far below 0 and masked ones at -inf,"
    got = ctx.floats(ctx.call(answer, x, w_in, w_o, h), what, (batch, n, d))
    ctx.close(got, _heads(array(x), array(w_in), array(w_o), h), what)


def _smoothed(z, y, pad, eps):
    real = y != pad
    top = z.max(-1, keepdims=True)
    cost = np.log(np.exp(z - top).sum(-1, keepdims=True)) + top - z
    hit = np.take_along_axis(cost, y[..., None], -1)[..., 0]
    spread = cost.mean(-1)
    total = (1 - eps) * (hit * real).sum() + eps * (spread * real).sum()
    return total / np.maximum(real.sum(), 1)


_SMOOTHED = Slips(
    _smoothed,
    {
        "the padding counts in the spread part: it is masked in the other part alone. "
        "Both parts are 0 where the target is padding": "spread * real → spread",
        "the padding counts in the part of the target: both parts are 0 where the target "
        "is padding": "hit * real → hit",
        "the padding counts as words that have to be said, and in what you divide "
        "by": "y != pad → y == y",
        "the loss of the padding is added up: what you divide by is right": (
            "hit * real → hit",
            "spread * real → spread",
        ),
        "the padding counts in what you divide by: expected the number of target "
        "words": "np.maximum(real.sum(), 1) → real.size",
        "the padding counts in the spread part and in what you divide by": (
            "spread * real → spread",
            "np.maximum(real.sum(), 1) → real.size",
        ),
        "the spread part is left out": "+ eps * (spread * real).sum() →",
        "there is no smoothing": "total = → eps = 0\n    total =",
        "the share ε is spread over the other V − 1 words: expected over all V "
        "alike": "cost.mean(-1) → (cost.sum(-1) - hit) / (z.shape[-1] - 1)",
        "the share ε is spread over all words but the padding: expected over all V "
        "alike": "cost.mean(-1) → np.delete(cost, pad, -1).mean(-1)",
        "the share ε is spread over V − 2 words, neither the target nor the padding: "
        "expected over all V alike": (
            "cost.mean(-1) → (np.delete(cost, pad, -1).sum(-1) - hit) / max(1, z.shape[-1] - 2)"
        ),
        "the target has 1 − ε alone: expected its share ε / V of the rest on "
        "top": "cost.mean(-1) → cost.mean(-1) - hit / z.shape[-1]",
        "words with id 0 are left out: expected those equal to pad": "y != pad → y != 0",
        "the logits go through a softmax before the loss takes its "
        "own": "top = z.max → z = softmax(z)\n    top = z.max",
        "the spread part is a sum over the vocabulary: "
        "expected its mean": "cost.mean(-1) → cost.sum(-1)",
        "ε and 1 − ε are exchanged": "total = → eps = 1 - eps\n    total =",
        "the loss is the sum over the words: "
        "expected their mean": "return total / np.maximum(real.sum(), 1) → return total",
        "the loss is divided by the number of sentences: "
        "expected the number of words": "np.maximum(real.sum(), 1) → len(y)",
        "the sentences' means are averaged: a word of a short sentence weighs more": (
            "return total / np.maximum(real.sum(), 1) → each = ((1 - eps) * hit + eps * spread) * "
            "real\n    return (each.sum(-1) / real.sum(-1)).mean()"
        ),
        "the sign is turned: a loss is above 0": "return → return -",
    },
)


@exercise("06.smooth_and_padded", title="Find the bug: smooth and padded", difficulty=3, minutes=8)
def smooth_and_padded(answer, ctx):
    for epsilon in (0.4, 0.1):
        batch, m, size = ctx.sizes(batch=(1, 4), m=(1, 7), V=(2, 6))  # one word beside the padding
        pad = ctx.integers(1 if epsilon == 0.4 else 0, size)  # once another number than 0
        targets = ctx.integers(0, size - 1, batch, m)
        targets = targets + (targets >= pad).long()  # any word but the padding
        targets[torch.arange(m) >= ctx.lengths(batch, m)[:, None]] = pad
        logits, what = 4 * ctx.normal(batch, m, size), "the loss"
        rest = targets, pad, epsilon
        words = array(targets), pad, epsilon
        got = ctx.floats(ctx.call(answer, logits, *rest), what, (), mention="one number")
        right, wrong = _SMOOTHED(array(logits), *words)
        # with one sentence or one place several mistakes coincide
        ctx.close(got, right, what, {} if 1 in (batch, m) else wrong)
        check_gradients(
            ctx, answer, (logits, *rest), {0: "logits"}, lambda z, w=words: _smoothed(z, *w)
        )
        for factor, shift in HARD_SCORES[1:]:
            given, what = (
                factor * logits + shift,
                "the loss of logits that are large or far below 0",
            )
            got = ctx.floats(ctx.call(answer, given, *rest), what, ())
            right, _ = _SMOOTHED(array(given), *words)
            ctx.close(got, right, what, size=float(given.abs().max()))


def _extended(words, keys, values, places, w_q, w_k, w_v):
    """(context, keys, values) after a cache."""
    m, t = words.shape[1], keys.shape[1]
    x = words + places[t + np.arange(m)]
    q, k, v = x @ w_q, x @ w_k, x @ w_v
    keys, values = np.concatenate((keys, k), 1), np.concatenate((values, v), 1)
    scores = q @ keys.swapaxes(1, 2) / np.sqrt(words.shape[-1])
    seen = np.tri(m, t + m, t, dtype=bool)
    return softmax(np.where(seen, scores, -np.inf)) @ values, keys, values


_EXTENDED = Slips(
    _extended,
    {
        "the new words are counted from place 0, as if there were no cache: after t old words "
        "they stand at the places t, …, t + m − 1": "[t + np.arange(m)] → [np.arange(m)]",
        "the new words stand one place too far: the first one after t old words is at place "
        "t": "[t + np.arange(m)] → [t + 1 + np.arange(m)]",
        "the new words stand one place too near: the first one after t old words is at place "
        "t": "[t + np.arange(m)] → [max(t - 1, 0) + np.arange(m)]",
        "all new words stand at place t: they follow one another": "[t + np.arange(m)] → [t]",
        "all new words stand at the last place, t + m − 1: "
        "they follow one another": "[t + np.arange(m)] → [t + m - 1]",
        "the new words get the last of all places: "
        "the first one after t old words is at place t": "[t + np.arange(m)] → [-m:]",
        "after a cache the new words get no places": "+ places[t + np.arange(m)] →",
        "the places are added to queries and keys alone: "
        "values are made of x, too": "x @ w_v → words @ w_v",
        "the places are added to keys and values alone: "
        "queries are made of x, too": "x @ w_q → words @ w_q",
        "the places are added to queries and values alone: "
        "keys are made of x, too": "x @ w_k → words @ w_k",
        "the places are added to the queries alone: keys and values are made of x, too": (
            "x @ w_k → words @ w_k",
            "x @ w_v → words @ w_v",
        ),
        "keys and values of the cache get the places again: they have had theirs": (
            "((keys, k) → ((keys + places[:t] @ w_k, k)",
            "((values, v) → ((values + places[:t] @ w_v, v)",
        ),
        "there is no mask within the block: "
        "a new word sees the new words after it": "np.where(seen, scores, -np.inf) → scores",
        "the mask counts from the first column: "
        "row i of the block stands at place t + i": "t + m, t, → t + m, 0,",
        "the new words do not see the cache": (
            "np.tri(m, t + m, t, dtype=bool) → np.tri(m, t + m, t, dtype=bool) & (np.arange(t + m) "
            ">= t)"
        ),
        "the scores are not divided by the root of d": "/ np.sqrt(words.shape[-1]) →",
    },
)


@exercise("06.places_behind_a_cache", title="Find the bug: word by word", difficulty=3, minutes=10)
def places_behind_a_cache(answer, ctx):
    for low in (False, True):
        # long in turn: of both the oracle takes seconds
        long, short = (257, 9) if low else (9, 257)
        batch, d, t, m = ctx.sizes(batch=(1, 3), d=(1, 6), t=(0, 5, short), m=(1, 4, long))
        d = 16 if low else d  # the root of the root is whole, too: exact in whatever order
        longest = t + m + ctx.integers(1, 6)
        shapes = (batch, m, d), (batch, t, d), (batch, t, d), (longest, d), (d, d), (d, d), (d, d)
        given = tuple(
            ctx.normal(*shape) / shape[0] ** (0.5 * (i > 3)) for i, shape in enumerate(shapes)
        )
        if low:  # multiples of 2¹⁵, exact in float32: what is no tie is far apart
            words, keys, values, places, w_q, w_k, w_v = given
            words, keys, places, w_q, w_k = (
                factor * ctx.integers(1, 4, *part.shape).float()
                for factor, part in zip((1, -5, 1, 2**15, -1), (words, keys, places, w_q, w_k))
            )
            given = words, keys, values, places, w_q, w_k, w_v
        arrays = [array(part) for part in given]
        parts = ctx.parts(ctx.call(answer, *given), ("context", "keys", "values"))
        got = [
            ctx.floats(
                part,
                name,
                (batch, rows, d),
                mention=f"with {m} new words after {t}",
                nan="all exponentials are 0: subtract the largest first"
                if low
                else "every new word sees itself",
            )
            for part, name, rows in zip(parts, ("context", "keys", "values"), (m, t + m, t + m))
        ]
        expected, slips = _EXTENDED(*arrays)
        for part, name, k in zip(got, ("context", "keys", "values"), range(3)):
            if low:
                what = f"{name}, where all scores are far below 0 and masked ones at -inf,"
                ctx.close(part, expected[k], what)
                continue
            wrong = {message: results[k] for message, results in slips.items()}
            if k:
                wrong[f"the new {name} stand before the old ones: expected after them"] = np.roll(
                    expected[k], m, 1
                )
            ctx.close(part, expected[k], name, wrong)
        if not low:
            at = dict(enumerate(("words", "keys", "values", "places", "W_q", "W_k", "W_v")))
            check_gradients(ctx, answer, given, at, lambda *now: _extended(*now)[0], part=0)
