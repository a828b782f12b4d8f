"""Checks of the section on score functions: the divisor of a dot product, content-based weights
with a strength, a bilinear form of low rank, and keys that all move.
"""

import numpy as np
import torch

from ..context import array, shape_of, softmax
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import on_paper


@on_paper(
    "03.divisor",
    "the divisor",
    title="The right divisor",
    difficulty=1,
    minutes=4,
    within=0.01,
    otherwise="add up the variances of the sixteen products, and take the root",
)
def divisor():
    return 12, {
        "4 is the root of the width: right if query and key both have variance 1, and here the "
        "query has more": 4.0,
        "144 is the variance of the dot product: divide by its standard deviation": 144.0,
        "you count the standard deviations of the sixteen products: what adds up are their "
        "variances": 48.0,
        "3 is a standard deviation: its square is the variance of a component": 48**0.5,
        "16 is the width, and the variance only where each product has variance 1": 16.0,
        "3 is what is left after dividing by the root of the width: you need both": 3.0,
        "this is by what you multiply: asked is by what you divide": 1 / 12,
    }


@exercise("03.content_weights", title="Content-based weights", difficulty=2, minutes=8)
def content_weights(answer, ctx):
    batch, n, d = ctx.sizes(batch=(1, 3), n=(1, 7), d=(1, 5))
    # no vector is short, but for one of zeros: nothing is written there yet
    query, key = (x + 0.5 * x.sign() for x in (ctx.normal(batch, d), ctx.normal(batch, n, d)))
    key[0, ctx.integers(0, n)] = 0.0
    beta = 2.0 + ctx.integers(0, 5, batch) / 2
    got = ctx.call(answer, query, key, beta)
    hint = "one of the keys is a vector of zeros: its norm is 0, and its cosine counts as 0"
    got = ctx.floats(got, "weights", (batch, n), mention="one weight per key", nan=hint)
    q, k, b = array(query), array(key), array(beta)[:, None]
    dots = np.einsum("bd,bnd->bn", q, k)
    norm_q, norm_k = np.sqrt((q**2).sum(-1))[:, None], np.sqrt((k**2).sum(-1))
    norm_n = np.sqrt((k**2).sum(1, keepdims=True))

    def divide(x, by):
        return np.divide(x, by, out=np.zeros_like(x), where=by != 0)

    cosine = divide(dots, norm_q * norm_k)
    expected = softmax(b * cosine)
    without = softmax(cosine)
    wrong = {
        "the strength β is not used, or it cancels after the softmax: multiply the cosine by it "
        "before the softmax": without,
        "β comes after the softmax: it belongs inside, on the cosine": b * without,
        "β divides: a larger strength makes the weights sharper, so it multiplies": softmax(
            cosine / b
        ),
        "this is the dot product: divide by both norms": softmax(b * dots),
        "the norm of the key is missing: long keys win whatever their direction": softmax(
            b * dots / norm_q
        ),
        "the norm of the query is missing: the cosine divides by both": softmax(
            b * divide(dots, norm_k)
        ),
        "these are cosines times β: a softmax over the keys is missing": b * cosine,
        "these are cosines: β and the softmax are missing": cosine,
        "the products of query and key are divided by squared norms: the cosine divides by "
        "norms": softmax(b * divide(dots, norm_q**2 * norm_k**2)),
        "the keys are normed over the positions: each key has a norm of its own (dim=-1)": softmax(
            b * np.einsum("bd,bnd->bn", q, divide(k, norm_q[..., None] * norm_n))
        ),
        "the absolute value of the cosine is used: opposite directions score -1": softmax(
            b * np.abs(cosine)
        ),
        "the softmax runs over the batch (dim=0): expected over the keys (dim=-1)": softmax(
            b * cosine, 0
        ),
        "the key of zeros gets no weight: its cosine is 0, which is a score like others": softmax(
            np.where(norm_k == 0, -np.inf, b * cosine)
        ),
        "the dot products are averaged over the width: add them up": softmax(b * cosine / d),
        "the norms are sums of absolute values: expected roots of sums of squares": softmax(
            b * divide(dots, np.abs(q).sum(-1)[:, None] * np.abs(k).sum(-1))
        ),
        "these are distances, 1 − cosine: near keys get little weight": softmax(b * (1 - cosine)),
        "the cosine is squared: opposite directions score -1": softmax(b * cosine**2),
    }
    ctx.close(got, expected, "weights", wrong)

    def oracle(query, key, beta):
        norms = np.sqrt((query**2).sum(-1))[:, None] * np.sqrt((key**2).sum(-1))
        return softmax(beta[:, None] * np.einsum("bd,bnd->bn", query, key) / norms)

    nan = (
        "exp overflows for large scores and is 0 for low ones: torch.softmax subtracts the largest"
    )
    for size, strength, name in (
        (0.03, 1.0, "weights of short keys"),
        (1.0, 200.0, "weights at a large β"),
    ):
        got = ctx.call(answer, query, size * key, strength * beta)
        got = ctx.floats(got, name, (batch, n), nan=nan if strength > 1 else hint)
        ctx.close(got, softmax(strength * b * cosine), name)

    def beside_zeros(query, beta):
        norms = np.sqrt((query**2).sum(-1))[:, None] * norm_k
        return softmax(beta[:, None] * divide(np.einsum("bd,bnd->bn", query, k), norms))

    check_gradients(ctx, answer, (query, key, beta), {0: "query", 2: "beta"}, beside_zeros)

    # at a vector of zeros the cosine has no gradient
    key = key + 0.5 * (key == 0).all(-1, keepdim=True)
    check_gradients(ctx, answer, (query, key, beta), {0: "query", 1: "key", 2: "beta"}, oracle)


@exercise("03.reduced_rank", title="A score of low rank", difficulty=3, minutes=10)
def reduced_rank(answer, ctx):
    d_q, d_k, k = ctx.sizes(d_s=(1, 6), d_h=(1, 6), k=(1, 3))
    top = min(d_q, d_k)
    left = torch.linalg.qr(ctx.normal(d_q, top))[0]
    right = torch.linalg.qr(ctx.normal(d_k, top))[0]
    # well apart: the best answer is the only one
    sizes = torch.tensor([3.0, 2.0, 1.2, 0.7, 0.4, 0.2])[:top]
    sizes = sizes * (0.9 + 0.2 * torch.rand(top, generator=ctx.generator))
    w = (left * sizes) @ right.T
    for rank in (min(k, top), top):
        got_u, got_v = ctx.parts(ctx.call(answer, w, rank), ("U", "V"))
        shapes = [(rank, d_q), (rank, d_k)]
        if [shape_of(got_u), shape_of(got_v)] == [shape[::-1] for shape in shapes] != shapes:
            ctx.fail(
                f"U and V are transposed: expected ({rank}, {d_q}) and ({rank}, {d_k}), one row "
                f"for each of the {rank} numbers"
            )
        got_u = ctx.floats(
            got_u, "U", shapes[0], mention="one row for each of the k numbers, as wide as a query"
        )
        got_v = ctx.floats(
            got_v, "V", shapes[1], mention="one row for each of the k numbers, as wide as a key"
        )
        a, s, b = array(left), array(sizes), array(right)
        got = array(got_u).T @ array(got_v)

        def product(which, power=1.0):
            return (a[:, which] * s[which] ** power) @ b[:, which].T

        first, last = slice(0, rank), slice(top - rank, top)
        expected = product(first)
        wrong = {
            "the singular values are not used: UᵀV has the right directions, but not their "
            "sizes": product(first, 0.0),
            "the singular values are used twice: give them to U or to V, or their roots to "
            "both": product(first, 2.0),
            "only the root of the singular values is in UᵀV: multiply both U and V by it, or one "
            "by the values": product(first, 0.5),
            "the smallest singular values are kept: keep the largest": product(last),
            "UᵀV takes the first rows of W and no more: that is of low rank, but not the "
            "nearest": np.concatenate([array(w)[:rank], np.zeros((d_q - rank, d_k))]),
        }
        if d_q == d_k:
            wrong["UᵀV is the transpose: U belongs to the query (the rows of W), V to the key"] = (
                expected.T
            )
        ctx.recognize(got, expected, wrong)
        error, best = np.sqrt(((got - array(w)) ** 2).sum()), np.sqrt((s[rank:] ** 2).sum())
        if not ctx.same(got, expected):
            ctx.fail(
                f"UᵀV is {error:.3g} away from W (root of the summed squares), and a matrix of "
                f"rank {rank} can be as near as {best:.3g}"
            )


@exercise("03.move_keys", title="Predict: Move all the keys", difficulty=1, minutes=3)
def move_keys(answer, ctx):
    return ctx.predicted(answer, "dot product", "cosine", "additive")
