"""Checks of the section on score functions: keys that all move, the divisor of a dot product, a
bilinear form of low rank.
"""

import numpy as np
import torch

from ..context import array, shape_of
from ..registry import exercise
from ..slips import Slips, on_paper


@exercise("03.move_keys", title="Predict: Move all the keys", difficulty=1, minutes=3)
def move_keys(answer, ctx):
    return ctx.predicted(answer, "dot product", "cosine", "additive")


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


def _reduced(w, k):
    a, sizes, b = np.linalg.svd(w, full_matrices=False)
    return (a[:, :k] * sizes[:k]) @ b[:k]


_REDUCED = Slips(
    _reduced,
    {
        "the singular values are not used: UᵀV has the right directions, but not their "
        "sizes": "* sizes[:k] →",
        "the singular values are used twice: "
        "give them to U or to V, or their roots to both": "sizes[:k] → sizes[:k] ** 2",
        "only the root of the singular values is in UᵀV: multiply both U and V by it, or one by "
        "the values": "sizes[:k] → sizes[:k] ** 0.5",
        "the smallest singular values are kept: keep the largest": (
            "a[:, :k] * sizes[:k] → a[:, -k:] * sizes[-k:]",
            "b[:k] → b[-k:]",
        ),
        "UᵀV takes the first rows of W and no more: that is of low rank, but not the "
        "nearest": "(a[:, :k] * sizes[:k]) @ b[:k] → w * (np.arange(len(w))[:, None] < k)",
        "UᵀV is the transpose: U belongs to the query (the rows of W), V to the "
        "key": "(a[:, :k] * sizes[:k]) @ b[:k] → ((a[:, :k] * sizes[:k]) @ b[:k]).T",
    },
)


@exercise("03.reduced_rank", title="A score of low rank", difficulty=3, minutes=10)
def reduced_rank(answer, ctx):
    d_q, d_k, k = ctx.sizes(d_s=(1, 6), d_h=(1, 6), k=(1, 3))
    top = min(d_q, d_k)
    left, _, right = torch.linalg.svd(ctx.normal(d_q, d_k), full_matrices=False)
    # well apart: the best answer is the only one
    sizes = 3 * (0.6 if top < 9 else 0.9) ** torch.arange(top)
    sizes = sizes * (1 - 0.05 * torch.rand(top, generator=ctx.generator))
    full = (left * sizes) @ right
    poor = left[:, :1] * sizes[:1] @ right[:1]  # of rank 1, whatever k is
    cases = (full, min(k, top), 1), (full, top, 1), (full, top, 1e-6), (poor, top, 1)
    for w, rank, scale in cases:
        got_u, got_v = ctx.parts(ctx.call(answer, scale * w, rank), ("U", "V"))
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
        got = array(got_u).T @ array(got_v) / scale
        expected, wrong = _REDUCED(array(w), rank)
        ctx.recognize(got, expected, {} if w is poor else wrong)
        error, best = (np.sqrt(((uv - array(w)) ** 2).sum()) for uv in (got, expected))
        if not np.allclose(got, expected, rtol=1e-4, atol=2e-5):
            ctx.fail(
                f"UᵀV is {error:.3g} away from W (root of the summed squares), and a matrix of "
                f"rank {rank} can be as near as {best:.3g}"
            )
        ctx.close(got, expected, "UᵀV")
