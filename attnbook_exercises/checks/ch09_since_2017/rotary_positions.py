"""Checks of the section on rotary positions: two arrows on paper, a prediction, ALiBi's penalty for
a model that decodes, and a cache whose keys are turned again and again.
"""

import numpy as np
import torch

from ..context import array, shape_of, softmax
from ..registry import exercise
from ..slips import on_paper


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


def _penalty(slopes, distance, future=-np.inf):
    added = -slopes[:, None, None] * distance
    return np.where(distance < 0, future, added)


@exercise("09.penalty_with_a_cache", title="ALiBi's penalty with a cache", difficulty=2, minutes=8)
def penalty_with_a_cache(answer, ctx):
    heads, new, cached = ctx.sizes(H=(1, 8), m=(1, 6), tokens_in_the_cache=(0, 8))
    power_of_two = 1 << (heads.bit_length() - 1)
    for H, m, n in [(power_of_two, new, new + cached), (2, new + 1, new + 1), (4, 1, cached + 1)]:
        where = f"for H = {H}, m = {m}, n = {n}: the penalty"
        got = ctx.call(answer, H, m, n)
        h = np.arange(1, H + 1)
        slopes = 2.0 ** (-8 * h / H)
        distance = np.arange(n - m, n)[:, None] - np.arange(n)
        early = np.arange(m)[:, None] - np.arange(n)
        expected = _penalty(slopes, distance, -1e9)
        if shape_of(got) == (H, m, n):
            if (got[:, torch.from_numpy(distance < 0)] > -torch.inf).any():
                ctx.fail(f"{where} has to be -inf where a key comes after its query")
            got = got.masked_fill(got == -torch.inf, -1e9)
        got = ctx.floats(got, where, (H, m, n), nan="is 0 multiplied by -inf?")
        wrong = {
            "the queries are counted from 0: they are the last m of n positions": _penalty(
                slopes, early, -1e9
            ),
            "the sign is wrong: what is far loses": _penalty(-slopes, distance, -1e9),
            "heads are counted from 0: the first slope is 2^(-8/H)": _penalty(
                2.0 ** (-8 * (h - 1) / H), distance, -1e9
            ),
            "the slopes grow with the number of the head: the exponent is negative": _penalty(
                2.0 ** (8 * h / H), distance, -1e9
            ),
            "the slopes are 2^(-h): the exponent is -8h/H": _penalty(2.0**-h, distance, -1e9),
        }
        ctx.recognize(got, expected, wrong)
        lost = ((got == -1e9) & torch.from_numpy(distance >= 0)).nonzero()
        if len(lost):
            i, j = lost[0, 1:].tolist()
            ctx.fail(
                f"{where} is -inf for query {i} and key {j}: this query stands at position "
                f"{n - m + i}, and it may attend to all keys up to its own position"
            )
        ctx.close(got, expected, where)


def _turned(x, position):
    half = x.shape[-1] // 2
    angle = np.asarray(position)[..., None] * 10_000.0 ** (-np.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    return np.concatenate(
        [a * np.cos(angle) - b * np.sin(angle), a * np.sin(angle) + b * np.cos(angle)], axis=-1
    )


def _context(q, k, v, query_place, key_places):
    scores = _turned(k, key_places) @ _turned(q, query_place) / len(q) ** 0.5
    return softmax(scores) @ v


@exercise(
    "09.third_token", title="Find the bug: wrong from the third token on", difficulty=3, minutes=10
)
def third_token(answer, ctx):
    n, half, d_v = ctx.sizes(n=(1, 8), half=(1, 3), d_v=(1, 4))
    for factor, text in ((2, ""), (200, "where scores are so large that exp overflows: ")):
        Q, K = factor * ctx.normal(n, 2 * half), ctx.normal(n, 2 * half)
        V, cache, found = ctx.normal(n, d_v), None, []
        for t in range(n):
            # whose cache it is may change it
            step = ctx.call(answer, Q[t], K[t], V[t], cache, own=(3,))
            got, cache = ctx.parts(step, ("context", "cache"))
            name = f"{text}token {t + 1}: the context"
            got = ctx.floats(got, name, (d_v,), nan="does exp overflow?")
            found.append(array(got))
        _look_at_contexts(ctx, found, array(Q), array(K), array(V), text)
    texts = [(ctx.normal(n, 2 * half), ctx.normal(n, 2 * half), ctx.normal(n, d_v)) for _ in "ab"]
    caches, place = [None, None], np.arange(n)
    name = "right for one text, but of two that are read in turns (is all that counts in the cache?"
    for t in range(n):
        for b, (Q, K, V) in enumerate(texts):
            step = ctx.call(answer, Q[t], K[t], V[t], caches[b], own=(3,))
            got, caches[b] = ctx.parts(step, ("context", "cache"))
            what = f"{name}) token {t + 1}: the context"
            past = array(K)[: t + 1], array(V)[: t + 1], t, place[: t + 1]
            ctx.close(ctx.floats(got, what, (d_v,)), _context(array(Q)[t], *past), what)


def _look_at_contexts(ctx, found, q, k, v, text):
    """Compare the contexts of a text: what a mistake is, its first tokens do not tell."""

    def contexts(query_place, key_places, factor=1.0):
        return np.stack(
            [
                _context(factor * q[t], k[: t + 1], v[: t + 1], query_place(t), key_places(t))
                for t in range(len(q))
            ]
        )

    def place(t):
        return np.arange(t + 1)

    expected = contexts(lambda t: t, place)
    wrong = {
        "the keys in the cache are turned once more at each token": contexts(
            lambda t: t, lambda t: place(t) * (t - place(t) + 1)
        ),
        "nothing is turned, or all by the same angle": contexts(
            lambda t: 0, lambda t: 0 * place(t)
        ),
        "the keys are turned and the query is not": contexts(lambda t: 0, place),
        "the query is turned and the keys are not": contexts(lambda t: t, lambda t: 0 * place(t)),
        "query and new key stand at different positions": contexts(lambda t: t + 1, place),
        "a key stands one position behind the query of its token": contexts(
            lambda t: t, lambda t: place(t) + 1
        ),
        "the new key is not turned, and those from the cache are": contexts(
            lambda t: t, lambda t: place(t) * (place(t) < t)
        ),
        "the new key is turned, and those from the cache are not": contexts(
            lambda t: t, lambda t: place(t) * (place(t) == t)
        ),
        "the new token alone is seen: the cache is not read": v,
        "the scores are not divided by the root of the width": contexts(
            lambda t: t, place, q.shape[1] ** 0.5
        ),
    }
    ctx.recognize(np.stack(found), expected, wrong)
    for t, (got, right) in enumerate(zip(found, expected)):
        ctx.close(got, right, f"{text}token {t + 1}: the context")
