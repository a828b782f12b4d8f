"""Checks of the section on summaries of long texts: a count on paper, a prediction, who sees which
stretch, gates of the k best experts.
"""

import numpy as np
import torch

from ..context import HARD_SCORES, array, softmax
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import on_paper


@on_paper(
    "06.stretches_on_paper",
    "the number of stretches",
    title="what word 50 may see",
    difficulty=1,
    minutes=2,
)
def stretches_on_paper():
    return 12, {
        "stretch 12 has begun, but its last word comes after word 50": 13,
        "that is the number of the last stretch that it may see: they are counted from 0": 11,
        "that is a part of a stretch too many: only whole stretches count": 50 / 4,
        "these are the words in the stretches, four in each": 48,
        "these are words, not stretches": 51,
        "these are the words before it, not stretches": 50,
        "these are words up to the end of its own stretch": 52,
    }


@exercise("06.harder_squeezed", title="Predict: squeezed twice as hard", difficulty=1, minutes=2)
def harder_squeezed(answer, ctx):
    return ctx.predicted(answer, "more", "about as many", "fewer")


@exercise("06.stretch_mask", title="Who may see which stretch", difficulty=2, minutes=6)
def stretch_mask(answer, ctx):
    long, plain = ctx.integers(3, 6), ctx.integers(5, 9)
    half = 2 * long - ctx.integers(1, 3)  # one complete stretch, and a part of a second
    for n, width, stride in (
        (ctx.integers(10, 14), 3, 3),
        (ctx.integers(9, 14), 4, 2),
        (plain, 1, 1),
        (half, long, long),
        (6, 6, 2),
    ):
        got = ctx.call(answer, n, width, stride)
        count = (n - width) // stride + 1
        got = ctx.tensor(
            got,
            "the mask",
            (n, count),
            dtype=torch.bool,
            mention=f"n = {n}, width {width}, stride {stride}: a row a query, a column for each "
            f"of the {count} whole stretches",
        ).numpy()
        t, start = np.arange(n)[:, None], stride * np.arange(count)
        right = start + width - 1 <= t
        wrong = {
            "a query may see a stretch that has only begun: its last position must not lie "
            "behind the query": start <= t,
            "the mask is upside down: True means may attend": ~right,
            "the newest stretch is hidden from the query at its end: a stretch that ends at t "
            "may be seen by t": start + width - 1 < t,
            "a query sees one position too far: the last position of stretch c is c·stride + "
            "width - 1": start + width - 2 <= t,
            "the stretches are counted by the width: stretch c begins at c·stride": width
            * np.arange(count)
            + width
            - 1
            <= t,
            "the end of stretch c is taken for the place before stretch c + 1: its last position "
            "is c·stride + width - 1": start + stride - 1 <= t,
            "every query may see every stretch: the future is in the keys": np.ones_like(right),
            "a query sees the newest stretch alone, not those before it": right
            & ~(start + stride + width - 1 <= t),
        }
        ctx.recognize(got, right, wrong)
        ctx.close(got, right, "the mask")


@exercise("06.top_k_gates", title="Gates of the best experts", difficulty=3, minutes=8)
def top_k_gates(answer, ctx):
    cases = ((5, 6, 2), (4, 5, 3), (3, 4, 1), (4, 3, 3), (1, 5, 3), (4, 1, 1), (2, 5, 2), (2, 5, 3))
    hard = (*[HARD_SCORES[0]] * 6, *HARD_SCORES[1:])
    for (count, experts, k), (factor, shift) in zip(cases, hard):
        scores = factor * ctx.normal(count, experts) + shift
        got = ctx.floats(
            ctx.call(answer, scores, k),
            "the gates",
            (count, experts),
            mention="a row a position, a column an expert",
        )
        e = array(scores)

        def gates(e, best=None, *, axis=-1):
            best = np.sort(e, -1)[:, -k:].min(-1, keepdims=True) <= e if best is None else best
            return softmax(np.where(best, e, -np.inf), axis)

        by_rows = np.sort(e, -1)
        along = np.sort(e, 0)[-min(k, count) :].min(0, keepdims=True) <= e
        best = by_rows[:, -k][:, None] <= e
        fewer = best & (e > by_rows[:, -k][:, None])
        wrong = {
            "the softmax runs over all experts and the rest is cut off: the gates of a position "
            "no longer add up to 1": softmax(e) * best,
            "all experts have a gate: those that are not among the k best get exactly 0": softmax(
                e
            ),
            "the k worst experts are chosen": gates(e, by_rows[:, k - 1][:, None] >= e),
            "the best are chosen along the positions: every position chooses among its experts "
            "(dim=-1)": gates(e, along),
            "best and softmax are those along the positions: every position chooses among its "
            "experts (dim=-1)": gates(e, along, axis=0),
            "only k - 1 experts are chosen: the k-th largest score belongs to them": gates(
                e, fewer
            ),
            "the softmax runs over the positions: expected over the experts (dim=-1)": gates(
                e, best, axis=0
            ),
            "every chosen expert has the same gate: the softmax of the scores weighs them": best
            / k,
            "the others get a finite score, above those that are far below 0: set it to -inf"
            if shift
            else "the scores of the others are set to 0, which is a score like any other: set them "
            "to -inf": softmax(np.where(best, e, 0.0)),
            "these are the scores of the best: the gates are their softmax": np.where(best, e, 0.0),
        }
        ctx.close(got, gates(e), "the gates", wrong)
        fixed = best
        check_gradients(
            ctx,
            answer,
            (scores, k),
            {0: "scores"},
            lambda e, fixed=fixed: gates(e, fixed),
            step=1e-6,
        )
