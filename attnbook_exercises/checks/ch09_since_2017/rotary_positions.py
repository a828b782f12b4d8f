"""Checks of the section on rotary positions: two arrows on paper, a prediction, ALiBi's penalty for
a model that decodes, and a cache whose keys are turned again and again.
"""

import numpy as np
import torch

from ..context import array, shape_of, softmax
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import Slips, on_paper


@on_paper(
    "09.turned_pair", "the inner product", title="two arrows", difficulty=1, minutes=3, within=0.01
)
def turned_pair():
    def product(degrees):
        return 6 * np.cos(np.radians(degrees))

    return 3, {
        "that is the product before anything is turned": product(45),
        "that is the angle of the turning alone: the arrows were 45 degrees apart before": product(
            15
        ),
        "the key is turned against the query: both turn the same way": product(140),
        "the distance has the wrong sign, since the query has turned further than the key; or that "
        "is the sine, and the inner product has the cosine": product(30),
        "the query alone is turned: the key stands at position 8 and turns, too": product(100),
        "the lengths are missing: the product is their product times the cosine": 0.5,
        "that is the angle between them, in degrees": 60,
        "the cosine was taken of 60 radians: the angles are degrees": 6 * np.cos(60),
        "the arrows do not lose their lengths, nor point the same way": 6,
    }


@exercise(
    "09.where_it_looks",
    title="Predict: where does the interpolated model look?",
    difficulty=1,
    minutes=3,
)
def where_it_looks(answer, ctx):
    return ctx.predicted(answer, "one or two before", "three before", "six before")


_HIDDEN = -1e9  # what is compared in the place of minus infinity


def _penalty(H, m, n):
    distance = np.arange(n - m, n)[:, None] - np.arange(n)
    slopes = 2.0 ** (-8 * np.arange(1, H + 1) / H)
    return np.where(distance < 0, _HIDDEN, -slopes[:, None, None] * distance)


_PENALTY = Slips(
    _penalty,
    {
        "the queries are counted from 0: "
        "they are the last m of n positions": "np.arange(n - m, n) → np.arange(m)",
        "the sign is wrong: what is far loses": "-slopes[ → slopes[",
        "heads are counted from 0: "
        "the first slope is 2^(-8/H)": "np.arange(1, H + 1) → np.arange(H)",
        "the slopes grow with the number of the head: the exponent is negative": "-8 → 8",
        "the slopes are 2^(-h): the exponent is -8h/H": "-8 * np.arange(1, H + 1) / H → "
        "-np.arange(1, H + 1)",
    },
)


@exercise("09.penalty_with_a_cache", title="ALiBi's penalty with a cache", difficulty=2, minutes=8)
def penalty_with_a_cache(answer, ctx):
    heads, new, cached = ctx.sizes(H=(1, 8), m=(1, 6), tokens_in_the_cache=(0, 8))
    power_of_two = 1 << (heads.bit_length() - 1)
    for H, m, n in [
        (power_of_two, new, new + cached),
        (2, new + 1, new + 1),
        (16, 3, cached + 3),
        (4, 1, cached + 1),
    ]:
        where = f"for H = {H}, m = {m}, n = {n}: the penalty"
        got = ctx.call(answer, H, m, n)
        future = torch.arange(n) > torch.arange(n - m, n)[:, None]
        if shape_of(got) == (H, m, n) and got.dtype in (torch.float32, torch.float64):
            got = ctx._dense(got, where)
            if (got[:, future] > -torch.inf).any():
                ctx.fail(f"{where} has to be -inf where a key comes after its query")
            got = got.masked_fill(got == -torch.inf, _HIDDEN)
        got = ctx.floats(got, where, (H, m, n), nan="is 0 multiplied by -inf?")
        right, wrong = _PENALTY(H, m, n)
        ctx.recognize(got, right, wrong)
        lost = ((got == _HIDDEN) & ~future).nonzero()
        if len(lost):
            i, j = lost[0, 1:].tolist()
            ctx.fail(
                f"{where} is -inf for query {i} and key {j}: this query stands at position "
                f"{n - m + i}, and it may attend to all keys up to its own position"
            )
        ctx.close(got, right, where)


def _turned(x, position):
    half = x.shape[-1] // 2
    angle = np.asarray(position)[..., None] * 10_000.0 ** (-np.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    return np.concatenate(
        [a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)], axis=-1
    )


def _decoded(q, k, v):
    contexts = []
    for t in range(len(q)):
        place = np.arange(t + 1)
        keys, query = _turned(k[: t + 1], place), _turned(q[t], t)
        weights = softmax(keys @ query / q.shape[1] ** 0.5)
        contexts.append(weights @ v[: t + 1])
    return np.stack(contexts)


_DECODED = Slips(
    _decoded,
    {
        "the keys in the cache are turned once more at each "
        "token": "place = np.arange(t + 1) → place = np.arange(t + 1) * np.arange(t + 1, 0, -1)",
        "nothing is turned, or all by the same angle": "_turned(k[: t + 1], place), _turned(q[t], "
        "t) → k[: t + 1], q[t]",
        "the keys are turned and the query is not": "_turned(q[t], t) → q[t]",
        "the query is turned and the keys are not": "_turned(k[: t + 1], place) → k[: t + 1]",
        "query and new key stand at different positions": "_turned(q[t], t) → _turned(q[t], t + 1)",
        "a key stands one position after the query of its "
        "token": "place = np.arange(t + 1) → place = np.arange(t + 1) + 1",
        "the new key is not turned, and those from the cache "
        "are": "place = np.arange(t + 1) → place = np.append(np.arange(t), 0)",
        "the new key is turned, and those from the cache are "
        "not": "place = np.arange(t + 1) → place = np.append(np.zeros(t), t)",
        "the new token alone is seen: the cache is not read": "weights @ v[: t + 1] → v[t]",
        "the scores are not divided by the root of the width": "/ q.shape[1] ** 0.5 →",
    },
)


@exercise(
    "09.third_token", title="Find the bug: wrong from the third token on", difficulty=3, minutes=10
)
def third_token(answer, ctx):
    n, half, d_v = ctx.sizes(n=(1, 8), half=(1, 3), d_v=(1, 4))

    def text(factor=2.0):
        return factor * ctx.normal(n, 2 * half), ctx.normal(n, 2 * half), ctx.normal(n, d_v)

    def read(texts, name):
        """The contexts of each text; of several a token of each in turn."""
        caches, found = [None for _ in texts], [[] for _ in texts]
        for t in range(n):
            for b, (Q, K, V) in enumerate(texts):
                # whose cache it is may change it
                step = ctx.call(answer, Q[t], K[t], V[t], caches[b], own=(3,))
                got, caches[b] = ctx.parts(step, ("context", "cache"))
                what = f"{name}token {t + 1}: the context"
                found[b].append(ctx.floats(got, what, (d_v,), nan="does exp overflow?"))
        return [torch.stack(contexts) for contexts in found]

    for factor, words in ((2.0, ""), (200.0, "where scores are so large that exp overflows: ")):
        one = text(factor)
        (got,), (right, wrong) = read([one], words), _DECODED(*map(array, one))
        ctx.recognize(got, right, wrong)  # what a mistake is, the first tokens do not tell
        for t in range(n):
            ctx.close(got[t], right[t], f"{words}token {t + 1}: the context")
    name = "right for one text, but of two that are read in turns (is all that counts in the cache?"
    texts = [text(1.0) for _ in "ab"]
    for one, got in zip(texts, read(texts, f"{name}) ")):
        right = _decoded(*map(array, one))
        for t in range(n):
            ctx.close(got[t], right[t], f"{name}) token {t + 1}: the context")

    def decode(Q, K, V):
        cache, contexts = None, []
        for q, k, v in zip(Q, K, V):
            context, cache = answer(q, k, v, cache)
            contexts.append(context)
        return torch.stack(contexts)

    ctx.differentiated.add(3)  # what is in the cache, by the whole text
    check_gradients(ctx, decode, texts[0], {0: "q", 1: "k", 2: "v"}, _decoded)
