"""Checks of the section on far parts that agree: agreement above chance by hand, a generator whose
attention is shut, what an exchange changes, agreement above chance, attention over places.
"""

import numpy as np
import torch
from torch import Tensor

from ..context import array, overflows, softmax
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import Slips, on_paper


@on_paper("08.kappa_by_hand", "κ", title="above chance", difficulty=1, minutes=4, within=0.002)
def kappa_by_hand():
    return 0.5, {
        "that is the agreement itself: take chance off": 0.84,
        "that is what comes by chance, and also what ½ for chance would give: chance is 0.8 · 0.8 "
        "+ 0.2 · 0.2, and κ what lies above it": 0.68,
        "it is not divided by 1 − e: how far is it from chance to perfection?": 0.16,
        "it is divided by e: expected 1 − e": 0.16 / 0.68,
        "they agree in green by chance, too": 0.2 / 0.36,
        "chance is taken to be ⅛: it depends on how often each colour comes": (0.84 - 1 / 8)
        / (1 - 1 / 8),
        "chance is the share of red: left and right are drawn independently": 0.2,
        "κ is a share of 1, not of 100": 50,
    }


@exercise(
    "08.shut_the_forger", title="Predict: shut the forger's attention", difficulty=1, minutes=3
)
def shut_the_forger(answer, ctx):
    return ctx.predicted(answer, "far above chance", "a little above chance", "at chance")


def _join(left, right, at, axis=-1):
    """The part before `at` of the one, and the part from there on of the other."""
    first, second = np.split(left, [at], axis)[0], np.split(right, [at], axis)[1]
    return np.concatenate([first, second], axis)


def _gap(score, a, b):
    m = a.shape[-1] // 2
    one, two = score(_join(a, b, m)), score(_join(b, a, m))
    return score(a) + score(b) - (one + two)


_GAP = Slips(
    _gap,
    {
        "the sign is wrong: the scores as they are come "
        "first": "score(a) + score(b) - (one + two) → one + two - (score(a) + score(b))",
        "only one of the two new pictures is scored: an exchange makes two": "(one + two) → one",
        "only the other one of the two new pictures is scored: "
        "an exchange makes two": "(one + two) → two",
        "both new pictures have the left half of a: "
        "the second one has the left half of b": "(one + two) → 2 * one",
        "both new pictures have the left half of b: "
        "the first one has the left half of a": "(one + two) → 2 * two",
        "nothing is exchanged: each picture comes out as it was. Where is the middle of this "
        "width?": "score(a) + score(b) - (one + two) → 0 * one",
        "the lower halves are exchanged: the width is the last dimension": (
            "m = a.shape[-1] → m = a.shape[2]",
            "_join(a, b, m) → _join(a, b, m, 2)",
            "_join(b, a, m) → _join(b, a, m, 2)",
        ),
        "the scores of the new pictures are not subtracted": "- (one + two) →",
        "the scores of the pictures as they are are "
        "missing": "score(a) + score(b) - (one + two) → one + two",
        "the scores are added up: subtract those of the new pictures": "- (one → + (one",
        "the change of the first picture is all that counts: the second one changes too, with the "
        "right half that a had": ("+ score(b) →", "(one + two) → one"),
        "the change of the second picture is all that counts: the first one changes too": (
            "score(a) + →",
            "(one + two) → two",
        ),
        "the halves of one picture are exchanged: each gives its right half to the other picture": (
            "_join(a, b, m) → np.roll(a, m, -1)",
            "_join(b, a, m) → np.roll(b, m, -1)",
        ),
        "the absolute value is taken: the sign "
        "counts": "score(a) + score(b) - (one + two) → abs(score(a) + score(b) - (one + two))",
        "it is a mean of the scores: expected their "
        "sum": "score(a) + score(b) - (one + two) → (score(a) + score(b) - (one + two)) / 2",
        "the halves stand in the wrong places: left halves stay left": (
            "_join(a, b, m) → np.roll(_join(a, b, m), m, -1)",
            "_join(b, a, m) → np.roll(_join(b, a, m), m, -1)",
        ),
    },
)


@exercise("08.exchange_gap", title="What an exchange changes", difficulty=2, minutes=8)
def exchange_gap(answer, ctx):
    n, c, h, m = ctx.sizes(batch=(1, 5), C=(1, 3), height=(1, 5), half=(1, 6))
    a, b = ctx.normal(n, c, h, 2 * m), ctx.normal(n, c, h, 2 * m)
    one, two = ctx.normal(c, h, 2 * m), ctx.normal(c, h, 2 * m)

    def score(x):
        """A score that depends on left and right together: a product of two sums."""
        if not isinstance(x, Tensor) or x.dim() != 4 or tuple(x.shape[1:]) != (c, h, 2 * m):
            what = tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__
            ctx.fail(f"score was called with {what}, expected pictures (n, {c}, {h}, {2 * m})")
        first, second = one.to(x) * x, two.to(x) * x
        sums = second[..., :m].sum((1, 2, 3)), x[..., m:].sum((1, 2, 3))
        return torch.tanh(first.sum((1, 2, 3))) + sums[0] * sums[1]

    turned = [
        torch.cat([p[: n // 2], torch.cat([p[n // 2 :, ..., :m], q[n // 2 :, ..., m:]], -1)])
        for p, q in ((a, b), (b, a))
    ]
    # the gaps of pictures that were exchanged before have the other sign
    for first, second in ((a, b), turned):
        got = ctx.call(answer, score, first, second)
        got = ctx.floats(got, "the gap", (n,), mention="one number a pair of pictures")
        right, wrong = _GAP(
            lambda x: array(score(torch.from_numpy(x))), array(first), array(second)
        )
        ctx.close(got, right, "the gap", wrong)


def _shares(side, size):
    return np.bincount(side[side >= 0], minlength=size) / (side >= 0).sum()


def _kappa(x, y):
    both = (x >= 0) & (y >= 0)
    l, r = x[both], y[both]
    size = max(l.max(), r.max()) + 1
    p, q = _shares(l, size), _shares(r, size)
    a, e = (l == r).sum() / len(x), p @ q
    return (a - e) / (1 - e)


_ALL_SIZES = "max(l.max(), r.max()) → max(x.max(), y.max())"
_KAPPA = Slips(
    _kappa,
    {
        "two missing figures count as agreement: "
        "−1 is no colour": "(l == r).sum() / len(x) → (x == y).mean()",
        "pictures without both figures are left out of a: "
        "it is a share of all pictures": "(l == r).sum() / len(x) → (l == r).mean()",
        "this is the agreement itself: chance has to be taken off": "(a - e) / (1 - e) → a",
        "it is not divided by 1 − e": "/ (1 - e) →",
        "it is divided by e: expected 1 − e": "/ (1 - e) → / e",
        "chance is taken to be 1 over the number of colours: "
        "frequent colours meet more often": "p @ q → 1 / size",
        "chance is the sum of the squares of the left side alone: "
        "multiply left by right": "p @ q → p @ p",
        "chance is the sum of the squares of the right side alone: "
        "multiply left by right": "p @ q → q @ q",
        "chance is taken from both sides thrown together: "
        "multiply the shares of left by those of right": "p @ q → (p + q) @ (p + q) / 4",
        "chance is made from pictures with one figure too: only where both were found": (
            _ALL_SIZES,
            "_shares(l, size), _shares(r, size) → _shares(x, size), _shares(y, size)",
        ),
        "the shares of the colours are shares of all pictures: "
        "only those count in which both were found": (
            _ALL_SIZES,
            "_shares(l, size), _shares(r, size) → _shares(x, size) * (x >= 0).mean(), "
            "_shares(y, size) * (y >= 0).mean()",
        ),
        "chance is taken from pictures in which both were found, but as shares of all n: "
        "divide by their number": "p @ q → p @ q * both.mean() ** 2",
        "chance is taken to be 1/8: it depends on how often each colour comes": "p @ q → 1 / 8",
        "what is below 0 is cut off: figures may agree less than by "
        "chance": "(a - e) / (1 - e) → max(0.0, (a - e) / (1 - e))",
        "colour 0 is a colour: "
        "only −1 says that no figure was found": "(x >= 0) & (y >= 0) → (x > 0) & (y > 0)",
        "what was not found counts as a colour: "
        "only pictures with both figures count": "both = (x >= 0) & (y >= 0) → x, y = x + 1, y + "
        "1\n    both = x >= 0",
        "the last colour is left out of chance: "
        "the sum runs to the largest colour": "p @ q → p[:-1] @ q[:-1]",
        "chance is the largest share: "
        "expected the sum over the colours of the products": "p @ q → (p * q).max()",
    },
)


@exercise("08.above_chance", title="Agreement above chance", difficulty=3, minutes=10)
def above_chance(answer, ctx):
    # as many as tell the mistakes apart
    n, colours = ctx.sizes(pictures=(39, 60), colours=(3, 6))
    left = ctx.integers(0, colours, n) * ctx.integers(0, 2, n)  # 0 is frequent
    right = torch.where(ctx.integers(0, 3, n) > 0, left, ctx.integers(0, colours, n))
    left[:3], right[2:5] = -1, -1  # one picture has neither
    right[5:9] = (left[5:9] + 1) % colours
    matched = torch.arange(n) >= 5
    apart = left[matched], (left[matched] + (torch.arange(n - 5) > 0)) % colours
    left[9], fewer = colours - 1, right.clamp(max=colours - 2)
    # the last ones agree in one picture only
    for given in (
        (left, right),
        (left[matched], right[matched]),
        (left, fewer),
        (fewer, left),
        apart,
    ):
        got = ctx.number(ctx.call(answer, *given), "the agreement above chance")
        expected, wrong = _KAPPA(*map(array, given))
        ctx.close(got, expected, "the agreement above chance", wrong)
    red = torch.full((n,), ctx.integers(0, 3))
    one, few, none = red.clone(), red[:1], torch.full((n,), -1)
    one[n // 2], none[0] = -1, 1
    name, nan = "where all figures have one colour", "chance is 1 there: expected 0, not 0/0"
    for words, expected, *given in (
        (name, 0, red, red),
        (f"{name} and one was not found", 0, red, one),
        (f"{name} and one was not found", 0, one, red),
        ("of one picture of one colour", 0, few, few),
        ("of one picture of two colours", 0, few, few + 1),
        ("where no picture has both figures", 0, none, none.flip(0)),
        ("where no figure was found", 0, none[1:], none[1:]),
        ("where all but one are red", 1, *(torch.arange(400) == 17).long().expand(2, -1)),
    ):
        got = ctx.number(ctx.call(answer, *given), f"the agreement {words}", nan=nan)
        ctx.close(got, float(expected), f"the agreement {words}")


def _scores(x, w_f, w_g):
    flat = x.reshape(*x.shape[:2], -1)
    return (w_g @ flat).swapaxes(1, 2) @ (w_f @ flat)


def _places(x, w_f, w_g, w_h, w_v, gamma):
    values = w_h @ x.reshape(*x.shape[:2], -1)
    weights = softmax(_scores(x, w_f, w_g))
    read = (w_v @ np.einsum("bdi,bji->bdj", values, weights)).reshape(x.shape)
    return x + gamma * read


_PLACES = Slips(
    _places,
    {
        "the weights are used the wrong way round: row j says where place j looks, so o_j sums "
        "over the columns i of row j. Here the sum runs over the places that look, and its weights "
        "do not add up to 1": "bdi,bji->bdj → bdj,bji->bdi",
        "the place that looks is compared by f(x_j), and what it looks at by g(x_i): f and g are "
        "exchanged, or the softmax was moved to the other places instead of the weights "
        "turned": "w_f, w_g) → w_g, w_f)",
        "the softmax runs over the places that look: "
        "expected over those they look at": "w_g)) → w_g), 1)",
        "the softmax runs over the batch": "w_g)) → w_g), 0)",
        "gamma multiplies x: it belongs to what was read": "x + gamma * read → gamma * x + read",
        "gamma multiplies both: x stays as it is": "x + gamma * read → gamma * (x + read)",
        "gamma is not used": "x + gamma * read → x + read",
        "x is not added": "x + gamma * read → gamma * read",
        "x and gamma · o take shares of 1 − gamma and gamma: "
        "expected x + gamma · o": "x + gamma → (1 - gamma) * x + gamma",
        "the scores are divided by the root of their width: "
        "this layer does not scale": "w_g)) → w_g) / np.sqrt(len(w_f)))",
        "the places come back in another order: height and width are exchanged when o gets its "
        "sides again": ".reshape(x.shape) → .reshape(x.swapaxes(2, 3).shape).swapaxes(2, 3)",
        "all places read the mean: the scores are not used": "w_g)) → w_g) * 0)",
    },
)


@exercise("08.who_looks_at_whom", title="Find the bug: who looks at whom", difficulty=3, minutes=10)
def who_looks_at_whom(answer, ctx):
    batch, height, width, d, d_h = ctx.sizes(
        batch=(1, 3), height=(1, 3), width=(1, 5), d=(1, 4), d_h=(1, 3)
    )
    c = ctx.integers(3, 6)
    width = 1 if ctx.case == "long" else width  # or there are a million scores
    x, gamma = ctx.normal(batch, c, height, width), 0.5 + ctx.normal(1)[0].abs()
    w_f, w_g, w_h, w_v = (
        0.6 * ctx.normal(d, c),
        0.6 * ctx.normal(d, c),
        ctx.normal(d_h, c),
        ctx.normal(c, d_h),
    )
    given = x, w_f, w_g, w_h, w_v, gamma
    large = ctx.draw(
        lambda: [ctx.integers(-3, 4, *part.shape).float() for part in given[:3]],
        lambda drawn: overflows(_scores(*map(array, drawn))),
        200,
    )
    for name, now in (
        ("the result", given),
        ("the result", (*given[:5], torch.zeros(()))),
        ("for large scores, whose exponentials overflow: the result", (*large, *given[3:])),
    ):
        got = ctx.floats(
            ctx.call(answer, *now), name, (batch, c, height, width), mention="as large as x"
        )
        right, wrong = _PLACES(*map(array, now))
        ctx.close(got, right, name, wrong)

    def begins(x, gamma):
        f, g, h, v = map(array, given[1:5])
        return _places(x, f, g, h, v, gamma)

    names = dict(enumerate(("x", "W_f", "W_g", "W_h", "W_v", "gamma")))
    check_gradients(ctx, answer, given, names, _places)
    # training begins with a γ of 0
    check_gradients(ctx, answer, (*given[:5], torch.zeros(())), {0: "x", 5: "gamma"}, begins)
