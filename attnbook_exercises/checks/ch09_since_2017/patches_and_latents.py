"""Checks of the section on patches and latents: a bill on paper, a prediction, patches joined to a
picture again, latents that are all alike.
"""

import numpy as np

from ..context import array
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import Slips, on_paper


@on_paper(
    "09.pixels_and_latents",
    "the number of times",
    title="pixels against latents",
    difficulty=1,
    minutes=4,
    within=0.06,
    otherwise="count one round first, a reading and six blocks",
)
def pixels_and_latents():
    n, m = 224**2, 512
    reading, block = m * n, m * m
    right = n * n / (8 * (reading + 6 * block))
    return right, {
        "that is one reading alone: there are eight, and blocks after each": n / m,
        "the blocks of the latents are missing": n * n / (8 * reading),
        "that is one round of eight": n * n / (reading + 6 * block),
        "there are six blocks after each reading, not one": n * n / (8 * (reading + block)),
        "there are six blocks after each reading, not six altogether": n
        * n
        / (8 * reading + 6 * block),
        "that is the share that remains: how many times fewer is asked for": 1 / right,
        "that is the number of weights of the Perceiver": 8 * (reading + 6 * block),
    }


@exercise("09.shuffled_patches", title="Predict: shuffled patches", difficulty=1, minutes=3)
def shuffled_patches(answer, ctx):
    return ctx.predicted(answer, "about as many", "about half", "hardly any")


def _joined(rows, C, P, across):
    B, N, _ = rows.shape
    down = N // across
    x = rows.reshape(B, down, across, C, P, P)
    x = x.transpose(0, 3, 1, 4, 2, 5)
    return x.reshape(B, C, down * P, across * P)


_JOINED = Slips(
    _joined,
    {
        "the numbers stand in the order of the patches, "
        "each of which should be a square": "x.transpose(0, 3, 1, 4, 2, 5) → x",
        "in a patch the colours come first, then rows, then columns": (
            "across, C, P, P) → across, P, P, C)",
            "0, 3, 1, 4, 2, 5 → 0, 5, 1, 3, 2, 4",
        ),
        "the patches stand column by column: they come row by row": (
            "B, down, across, C → B, across, down, C",
            "0, 3, 1, 4, 2, 5 → 0, 3, 2, 4, 1, 5",
        ),
        "across counts the patches below each other: "
        "it counts those side by side": "B, down, across, C → B, across, down, C",
        "each patch is turned over: "
        "its rows have become columns": "0, 3, 1, 4, 2, 5 → 0, 3, 1, 5, 2, 4",
        "the patches have become strips: the rows of pixels of a patch stand one below the "
        "other, beside those of its neighbour": "0, 3, 1, 4, 2, 5 → 0, 3, 1, 2, 4, 5",
    },
)


@exercise("09.squares_back", title="Put the squares back", difficulty=2, minutes=7)
def squares_back(answer, ctx):
    B, C, P, down, across = ctx.sizes(
        B=(1, 3), C=(1, 3), P=(1, 3, 5), down=(1, 7), across=(1, 3, 12)
    )
    where = f"{down * across} patches of {P} × {P}, {across} side by side: the pictures"
    given = ctx.normal(B, down * across, C * P * P), C, P, across
    got = ctx.floats(ctx.call(answer, *given), where, (B, C, down * P, across * P))
    right, wrong = _JOINED(array(given[0]), *given[1:])
    ctx.close(got, right, where, wrong)
    check_gradients(ctx, answer, given, {0: "patches"}, lambda rows: _joined(rows, C, P, across))


@exercise("09.one_opinion", title="Find the bug: what a loss curve hides", difficulty=3, minutes=8)
def one_opinion(answer, ctx):
    M, d = ctx.sizes(M=(1, 64), d=(1, 32))
    got = array(ctx.floats(ctx.call(answer, M, d), f"{M} latents of width {d}", (M, d)))
    if M > 1 and (got == got[:1]).all():
        ctx.fail(
            "all latents are alike: they ask the same, get the same gradient, and stay alike "
            "for ever"
        )
    gap = np.sqrt(((got[:, None] - got[None]) ** 2).mean(-1))[~np.eye(M, dtype=bool)]
    if (gap == 0).any():
        ctx.fail("two latents are alike, and stay so: expected all of them to differ")
    if M > 1 and np.median(gap) < 1e-4:
        ctx.fail(
            f"two latents differ by about {np.median(gap):.1g}: so little that they ask nearly "
            "the same and get nearly the same gradient"
        )
    if np.linalg.matrix_rank(got - got.mean(0)) < min(M - 1, d):
        ctx.fail(
            "the latents lie on a line or in a plane: let each number of each of them be drawn "
            "by itself"
        )
    size = np.sqrt((got**2).mean())
    if size > 0.5 + 1.5 / d:  # 1/√d is a usual start, too
        ctx.fail(
            f"numbers of about {size:.2g} are large for a start: what is read should count "
            "beside the latents, so begin near zero"
        )
    again = array(ctx.floats(ctx.call(answer, M, d), "a second call", (M, d)))
    if (got == again).all():
        ctx.fail("two calls give the same numbers: two layers would begin with one opinion")
