"""Checks of the section on far parts that agree: agreement above chance by hand, a generator whose
attention is shut, what an exchange changes, agreement above chance, attention over places.
"""

import numpy as np
import torch

from ..context import array, overflows, softmax
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import on_paper


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


@exercise("08.exchange_gap", title="What an exchange changes", difficulty=2, minutes=8)
def exchange_gap(answer, ctx):
    n, c, h, w = ctx.sizes(n=(1, 5), c=(1, 3), h=(1, 5), w=(1, 6))
    w *= 2
    a, b = ctx.normal(n, c, h, w), ctx.normal(n, c, h, w)
    one, two = ctx.normal(c, h, w), ctx.normal(c, h, w)

    def of(x):
        """A score that depends on left and right together: a product of two sums."""
        return np.tanh((array(one) * x).sum((1, 2, 3))) + (array(two) * x)[..., : w // 2].sum(
            (1, 2, 3)
        ) * x[..., w // 2 :].sum((1, 2, 3))

    def score(x):
        if not isinstance(x, torch.Tensor) or x.dim() != 4 or tuple(x.shape[1:]) != (c, h, w):
            ctx.fail(
                f"score was called with "
                f"{tuple(x.shape) if isinstance(x, torch.Tensor) else type(x).__name__}, "
                f"expected pictures (n, {c}, {h}, {w})"
            )
        return torch.tanh((one * x).sum((1, 2, 3))) + (two * x)[..., : w // 2].sum((1, 2, 3)) * x[
            ..., w // 2 :
        ].sum((1, 2, 3))

    m = w // 2
    turned = [
        torch.cat([p[: n // 2], q[n // 2 :]])
        for p, q in (
            (a, torch.cat([a[..., :m], b[..., m:]], -1)),
            (b, torch.cat([b[..., :m], a[..., m:]], -1)),
        )
    ]
    # the gaps of pictures that were exchanged before have the other sign
    for first, second in ((a, b), turned):
        _look_at_gap(ctx, answer, score, of, first, second, n, h, m)


def _look_at_gap(ctx, answer, score, of, a, b, n, h, m):
    got = ctx.floats(
        ctx.call(answer, score, a, b), "the gap", (n,), mention="one number a pair of pictures"
    )
    x, y = array(a), array(b)

    def join(left, right, axis=-1, at=m):
        first, second = np.split(left, [at], axis)[0], np.split(right, [at], axis)[1]
        return np.concatenate([first, second], axis)

    original, mixed = of(x) + of(y), of(join(x, y)) + of(join(y, x))
    right = original - mixed
    lower = of(join(x, y, 2, h // 2)) + of(join(y, x, 2, h // 2))
    ctx.close(
        got,
        right,
        "the gap",
        {
            "the sign is wrong: the scores as they are come first": -right,
            "only one of the two new pictures is scored: an exchange makes two": original
            - of(join(x, y)),
            "only the other one of the two new pictures is scored: an exchange makes two": original
            - of(join(y, x)),
            "both new pictures have the left half of a: the second one has the left half of b": (
                original - 2 * of(join(x, y))
            ),
            "both new pictures have the left half of b: the first one has the left half of a": (
                original - 2 * of(join(y, x))
            ),
            "nothing is exchanged: each picture is put together from its own halves": np.zeros_like(
                right
            ),
            "the lower halves are exchanged: the width is the last dimension": original - lower,
            "the scores of the new pictures are not subtracted": original,
            "the scores of the pictures as they are are missing": mixed,
            "the scores are added up: subtract those of the new pictures": original + mixed,
            "the change of the first picture is all that counts: the second one changes too, "
            "with the right half that a had": of(x) - of(join(x, y)),
            "the change of the second picture is all that counts: the first one changes too": of(y)
            - of(join(y, x)),
            "the halves of one picture are exchanged: each gives its right half to the other "
            "picture": original
            - of(np.concatenate([x[..., m:], x[..., :m]], -1))
            - of(np.concatenate([y[..., m:], y[..., :m]], -1)),
            "the absolute value is taken: the sign counts": np.abs(right),
            "it is a mean of the scores: expected their sum": right / 2,
            "the halves stand in the wrong places: left halves stay left": original
            - of(np.concatenate([y[..., m:], x[..., :m]], -1))
            - of(np.concatenate([x[..., m:], y[..., :m]], -1)),
        },
    )


@exercise("08.above_chance", title="Agreement above chance", difficulty=3, minutes=10)
def above_chance(answer, ctx):
    n, colours = ctx.integers(40, 60), ctx.integers(4, 7)
    left = ctx.integers(0, colours, n) * ctx.integers(0, 2, n)  # 0 is frequent
    right = torch.where(ctx.integers(0, 3, n) > 0, left, ctx.integers(0, colours, n))
    left[:3], right[2:5] = -1, -1  # one picture has neither
    right[5:9] = (left[5:9] + 1) % colours
    matched = torch.arange(n) >= 5
    apart = left[matched], (left[matched] + (torch.arange(n - 5) > 0)) % colours
    left[9], fewer = colours - 1, right.clamp(max=colours - 2)
    # the last ones agree in one picture only
    for l, r in (
        (left, right),
        (left[matched], right[matched]),
        (left, fewer),
        (fewer, left),
        apart,
    ):
        got = ctx.number(ctx.call(answer, l, r), "the agreement above chance")
        x, y = array(l), array(r)
        ctx.close(got, _kappa(x, y), "the agreement above chance", _kappa_slips(x, y, colours))
    same = torch.full((6,), 2)
    got = ctx.call(answer, same, same)
    value = (
        float(got)
        if isinstance(got, (int, float)) or (isinstance(got, torch.Tensor) and got.numel() == 1)
        else 0.0
    )
    if not np.isfinite(value):
        ctx.fail(
            "where all figures have one colour, chance is 1 and the division is by 0: expected 0"
        )
    ctx.close(
        ctx.number(got, "the agreement where all figures have one colour"),
        0.0,
        "the agreement where all figures have one colour",
    )
    other = torch.tensor([2]), torch.tensor([1])
    ctx.close(
        ctx.number(ctx.call(answer, *other), "the agreement of one picture, of two colours"),
        0.0,
        "the agreement of one picture, of two colours",
    )
    none = torch.tensor([-1, 2, -1]), torch.tensor([1, -1, -1])
    ctx.close(
        ctx.number(ctx.call(answer, *none), "the agreement where no picture has both figures"),
        0.0,
        "the agreement where no picture has both figures",
    )


def _parts(x, y):
    both = (x >= 0) & (y >= 0)
    l, r = x[both], y[both]
    size = max(l.max(), r.max()) + 1
    return l, r, np.bincount(l, minlength=size) / len(l), np.bincount(r, minlength=size) / len(r)


def _kappa(x, y, a=None, e=None):
    l, r, p, q = _parts(x, y)
    a = (l == r).sum() / len(x) if a is None else a
    e = (p * q).sum() if e is None else e
    return (a - e) / (1 - e)


def _kappa_slips(x, y, colours):
    l, r, p, q = _parts(x, y)
    a, e = (l == r).sum() / len(x), (p * q).sum()
    union = np.concatenate([l, r])
    share = np.bincount(union) / len(union)
    every = [np.bincount(side[side >= 0], minlength=colours) / (side >= 0).sum() for side in (x, y)]
    counted = [np.bincount(side[side >= 0], minlength=colours) / len(x) for side in (x, y)]
    return {
        "two missing figures count as agreement: −1 is no colour": _kappa(x, y, a=(x == y).mean()),
        "pictures without both figures are left out of a: it is a share of all pictures": _kappa(
            x, y, a=(l == r).mean()
        ),
        "this is the agreement itself: chance has to be taken off": a,
        "it is not divided by 1 − e": a - e,
        "it is divided by e: expected 1 − e": (a - e) / e,
        "chance is taken to be 1 over the number of colours: frequent colours meet more "
        "often": _kappa(x, y, e=1 / len(p)),
        "chance is the sum of the squares of the left side alone: multiply left by right": _kappa(
            x, y, e=(p * p).sum()
        ),
        "chance is the sum of the squares of the right side alone: multiply left by right": _kappa(
            x, y, e=(q * q).sum()
        ),
        "chance is taken from both sides thrown together: multiply the shares of left by those "
        "of right": _kappa(x, y, e=(share**2).sum()),
        "chance is made from pictures with one figure too: only where both were found": _kappa(
            x, y, e=(every[0] * every[1]).sum()
        ),
        "the shares of the colours are shares of all pictures: only those count in which both "
        "were found": _kappa(x, y, e=(counted[0] * counted[1]).sum()),
        "chance is taken from pictures in which both were found, but as shares of all n: divide "
        "by their number": _kappa(x, y, e=e * (len(l) / len(x)) ** 2),
        "chance is taken to be 1/8: it depends on how often each colour comes": _kappa(
            x, y, e=1 / 8
        ),
        "what is below 0 is cut off: figures may agree less than by chance": max(
            0.0, (a - e) / (1 - e)
        ),
        "colour 0 is a colour: only −1 says that no figure was found": _kappa(
            np.where(x == 0, -1, x), np.where(y == 0, -1, y)
        ),
        "what was not found counts as a colour: only pictures with both figures count": _kappa(
            x + 1, y + 1
        ),
        "the last colour is left out of chance: the sum runs to the largest colour": _kappa(
            x, y, e=(p * q)[:-1].sum()
        ),
        "chance is the largest share: expected the sum over the colours of the products": _kappa(
            x, y, e=(p * q).max()
        ),
    }


@exercise("08.who_looks_at_whom", title="Find the bug: who looks at whom", difficulty=3, minutes=10)
def who_looks_at_whom(answer, ctx):
    batch, height, width, d, d_h = ctx.sizes(
        batch=(1, 3), height=(1, 3), width=(1, 5), d=(1, 4), d_h=(1, 3)
    )
    c = ctx.integers(3, 6)
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
        values = [array(part) for part in now]
        ctx.close(
            got,
            _places(*values),
            name,
            {
                message: _places(*values, **slip)
                for message, slip in {
                    "the weights are used the wrong way round: row j says where place j looks, "
                    "so o_j sums over the columns i of row j. Here the sum runs "
                    "over the places that look, and its weights do not add up to 1": dict(
                        flip=True
                    ),
                    "the place that looks is compared by f(x_j), and what it looks at by g(x_i): f "
                    "and g are exchanged, or the softmax was moved to the other places instead of "
                    "the weights turned": dict(exchanged=True),
                    "the softmax runs over the places that look: expected over those they look "
                    "at": dict(axis=1),
                    "the softmax runs over the batch": dict(axis=0),
                    "gamma multiplies x: it belongs to what was read": dict(scaled="x"),
                    "gamma multiplies both: x stays as it is": dict(scaled="both"),
                    "gamma is not used": dict(scaled="none"),
                    "x is not added": dict(scaled="alone"),
                    "x and gamma · o take shares of 1 − gamma and gamma: expected x + gamma "
                    "· o": dict(scaled="shares"),
                    "the scores are divided by the root of their width: this layer does not "
                    "scale": dict(scale=d**-0.5),
                    "the places come back in another order: height and width are exchanged when "
                    "o gets its sides again": dict(turned=True),
                    "all places read the mean: the scores are not used": dict(scale=0.0),
                }.items()
            },
        )

    names = dict(enumerate(("x", "W_f", "W_g", "W_h", "W_v", "gamma")))
    check_gradients(ctx, answer, given, names, _places)


def _scores(x, w_f, w_g):
    flat = x.reshape(*x.shape[:2], -1)
    return (w_g @ flat).swapaxes(1, 2) @ (w_f @ flat)


def _places(
    x,
    w_f,
    w_g,
    w_h,
    w_v,
    gamma,
    *,
    flip=False,
    exchanged=False,
    axis=-1,
    scaled="o",
    scale=1.0,
    turned=False,
):
    """x + γ o over the places of feature maps, with options for known mistakes."""
    batch, c, height, width = x.shape
    flat = x.reshape(batch, c, -1)
    keys, queries, values = w_f @ flat, w_g @ flat, w_h @ flat
    if exchanged:
        keys, queries = queries, keys
    weights = softmax(scale * queries.swapaxes(1, 2) @ keys, axis)
    read = np.einsum("bdj,bji->bdi" if flip else "bdi,bji->bdj", values, weights)
    o = (
        (w_v @ read).reshape(batch, c, width, height).swapaxes(2, 3)
        if turned
        else (w_v @ read).reshape(x.shape)
    )
    return {
        "o": x + gamma * o,
        "x": gamma * x + o,
        "both": gamma * (x + o),
        "none": x + o,
        "alone": gamma * o,
        "shares": (1 - gamma) * x + gamma * o,
    }[scaled]
