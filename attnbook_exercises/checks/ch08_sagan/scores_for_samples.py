"""Checks of the section on scores for samples: a distance by hand, digits of which every second is
noisy, the inception-style score, and the distance of two clouds of features.
"""

import numpy as np

from ...answers.flop_counter import largest
from ..context import array, softmax
from ..registry import exercise
from ..slips import Slips, on_paper


@on_paper(
    "08.two_features", "the distance", title="two features", difficulty=1, minutes=4, within=0.01
)
def two_features():
    return 13, {
        "the variances are compared: take their roots, the standard deviations, first": 213,
        "the differences of the variances are added up: the standard deviations are "
        "subtracted, and that is squared": 25,
        "5 is what the means alone give, and what the first feature alone gives: means and "
        "spreads of both features count": 5,
        "the means are left out: the middle has to be moved, too": 8,
        "the root of the whole is taken: FID is the squared distance": np.sqrt(13),
        "the differences are not squared: FID is a mean squared move": 7,
        "the distances of the means are not squared": 11,
        "the differences of the standard deviations are not squared": 9,
        "that is the mean over the features: FID is their sum": 6.5,
        "the product of the standard deviations is subtracted once: the formula has it twice": 24,
        "the variances are multiplied without a root": 5 + 30 - 2 * 73,
    }


@exercise("08.every_second", title="Predict: every second digit is noisy", difficulty=1, minutes=3)
def every_second(answer, ctx):
    return ctx.predicted(answer, "halfway", "nearer to clean", "nearer to noisy")


def _log(p):
    return np.log(np.maximum(p, 1e-300))


def _score(z):
    p = softmax(z)
    q = p.mean(0)
    logs = _log(p) - _log(q)
    return np.exp((p * logs).sum(1).mean())


_SCORE = Slips(
    _score,
    {
        "the sign is turned round: the ratio is p(y | x) over p(y)": "(p * → (-p *",
        "the exponential is missing": "np.exp( → (",
        "the divergence is the other way round: "
        "p(y | x) stands before the logarithm and above the line": "(p * → (-q *",
        "the mean is taken of the logits: "
        "average the probabilities": "p.mean(0) → softmax(z.mean(0))",
        "the exponential is taken of every picture: "
        "first the mean, then exp": ".sum(1).mean()) → .sum(1)).mean()",
        "the softmax runs over the pictures: "
        "expected over the classes (dim=1)": "softmax(z) → softmax(z, 0)",
        "it is a sum over the pictures: expected the mean": ".sum(1).mean() → .sum()",
        "the sum over the classes is a mean: expected a sum": ".sum(1).mean() → .mean()",
        "this is how sure the classifier is, and not how varied the pictures are: "
        "p(y) is missing": "- _log(q) →",
        "this is how unsure the classifier is, and not how varied the pictures are: "
        "p(y) is missing": "_log(p) - _log(q) → -_log(p)",
        "the mean is taken of log p(y | x): "
        "average the probabilities, then take the logarithm": "_log(q) → _log(p).mean(0)",
        "only the likeliest class of each picture counts: "
        "all probabilities do": "p = softmax(z) → p = np.eye(z.shape[1])[z.argmax(1)]",
        "this is how varied the pictures are, and not how sure the classifier is: the entropy of "
        "each picture has to be subtracted": "p * logs → -q * _log(q) + 0 * p",
        "the logarithm is to base 2, "
        "but exp undoes the natural one": ".mean()) → .mean() / np.log(2))",
        "p(y) is taken to be the same for all classes: "
        "it is the mean over the pictures": "_log(q) → _log(1 / len(q))",
    },
)


@exercise("08.sure_and_varied", title="Sure and varied", difficulty=2, minutes=8)
def sure_and_varied(answer, ctx):
    pictures, classes = ctx.sizes(pictures=(1, 40), classes=(1, 7))
    logits = 2 * ctx.normal(pictures, classes)
    if ctx.integers(0, 2):
        logits[0] = 0.0
    right, wrong = _SCORE(array(logits))
    ctx.close(ctx.number(ctx.call(answer, logits), "the score"), right, "the score", wrong)
    reason = (
        "a probability that rounds to 0 has no logarithm: take log_softmax, and keep the logarithm "
        "of the mean finite"
    )
    for far in (60 * ctx.normal(max(12, pictures), 4), 60 * ctx.normal(3, 201)):
        far[:, 3] = -300.0  # nobody names this class
        name = "the score of logits that are far apart"
        got = ctx.number(ctx.call(answer, far), name, nan=reason)
        ctx.close(got, _score(array(far)), name)


def _square(x, less=1):
    return x.T @ x / (len(x) - less)


def _cov(x, less=1):
    return _square(x - x.mean(0), less)


def _sqrt(m):
    values, vectors = np.linalg.eigh(m)
    return (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T


def _roots(squares):
    """The sum of the roots of what is not below 0."""
    return np.sqrt(np.maximum(squares, 0)).sum()


def _distance(x, y):
    a, b, gap = _cov(x), _cov(y), x.mean(0) - y.mean(0)
    roots = _roots(np.linalg.eigvalsh(_sqrt(a) @ b @ _sqrt(a)))
    return gap @ gap + np.trace(a) + np.trace(b) - 2 * roots


_OF_BOTH = "_roots(np.linalg.eigvalsh(_sqrt(a) @ b @ _sqrt(a))) →"
_DISTANCE = Slips(
    _distance,
    {
        "the root is missing: "
        "the roots of the eigenvalues of the product are summed": f"{_OF_BOTH} np.trace(a @ b)",
        "the root is taken of every entry of the product: what is meant is a matrix whose square "
        "is the product": f"{_OF_BOTH} _roots(np.diag(a @ b))",
        "each covariance has its root taken first: only where they commute is that the root of "
        "the product": f"{_OF_BOTH} np.trace(_sqrt(a) @ _sqrt(b))",
        "the product of two covariances is not symmetric: eigvalsh is for symmetric matrices, "
        "take eigvals": f"{_OF_BOTH} _roots(np.linalg.eigvalsh(a @ b))",
        "the singular values of the product are not its "
        "eigenvalues": f"{_OF_BOTH} _roots(np.linalg.svd(a @ b, compute_uv=False))",
        "the covariances are compared entry by entry: expected their traces and the "
        "roots of the eigenvalues of the "
        "product": "np.trace(a) + np.trace(b) - 2 * roots → ((a - b) ** 2).sum()",
        "only the variances are used, or the product is taken entry by entry: expected whole "
        "covariances, multiplied by @": f"{_OF_BOTH} _roots(np.diag(a) * np.diag(b))",
        "the means are left out": "gap @ gap + →",
        "the distance of the means is not squared": "gap @ gap → np.sqrt(gap @ gap)",
        "the differences of the means are averaged: "
        "expected their sum": "gap @ gap → (gap**2).mean()",
        "the root stands once: it is subtracted twice": "2 * roots → roots",
        "the root is added: it is subtracted": "- 2 * → + 2 *",
        "the covariances are left out": "+ np.trace(a) + np.trace(b) - 2 * roots →",
        "the covariances are divided by n: "
        "expected n − 1": "_cov(x), _cov(y) → _cov(x, 0), _cov(y, 0)",
        "the covariances are not divided by n − 1": "_cov(x), _cov(y) → _cov(x) * (len(x) - 1), "
        "_cov(y) * (len(y) - 1)",
        "the covariances are not centred: "
        "subtract the mean of each column first": "_cov(x), _cov(y) → _square(x), _square(y)",
        "the mean of all numbers is subtracted: each column has "
        "its own": "_cov(x), _cov(y) → _square(x - x.mean()), _square(y - y.mean())",
        "the root of the whole is taken: FID is the squared distance": (
            "return gap → return np.sqrt(gap",
            "2 * roots → 2 * roots)",
        ),
        "it is divided by the number of features": (
            "return gap → return (gap",
            "2 * roots → 2 * roots) / len(gap)",
        ),
        "the trace of the difference of the covariances is all that is "
        "compared": "+ np.trace(b) - 2 * roots → - np.trace(b)",
    },
)


@exercise("08.two_clouds", title="Make it fast: two clouds of few points", difficulty=3, minutes=12)
def two_clouds(answer, ctx):
    d, first, second = ctx.sizes(d=(1, 6), first=(1, 30), second=(1, 50))
    # which eigenvalues of few rows come out below 0 hangs on rounding: so there are several sets
    few = [(max(2, d - 1), 12), (2, 2)] * 6
    for n, m in ((2 * d + first, 2 * d + second), *few):
        x = ctx.normal(n, d) @ ctx.normal(d, d) + 2.0
        y = 1.5 * ctx.normal(m, d) @ ctx.normal(d, d) - 0.7
        nan = "an eigenvalue that should be 0 comes out a little below it. Put it to 0 before the "
        got = ctx.number(ctx.call(answer, x, y), "the distance", nan=f"{nan}root")
        right, wrong = _DISTANCE(array(x), array(y))
        scale = float(array(x).var(0).sum() + array(y).var(0).sum())
        off = abs(got - right)
        if n <= d and off <= 1e-4 * right + 2e-5 * scale:
            continue
        # what is wrong in kind was seen in the first, larger sets
        if n <= d and off < 2e-3 * (right + scale):
            ctx.fail(
                "with fewer rows than columns the distance is off by rounding: bring both sets "
                "to float64 first"
            )
        if n > d and (1e-9 if ctx.case else 2e-7) < off / (right + scale) < 2e-5:
            ctx.fail(
                "the distance is right to some digits only: bring both sets to float64 first, and "
                "take no roots of eigenvalues that should be 0"
            )
        ctx.close(got, right, "the distance", wrong)
    for n, m, d in ((5, 7, 300), (30, 4, 200)):
        x, y, watch = ctx.normal(n, d) + 2.0, 1.5 * ctx.normal(m, d), largest()

        def watched(*given):
            with watch:
                return answer(*given)

        ctx.number(ctx.call(watched, x, y), "the distance")
        if watch.count > 8 * (n + m) * d:
            ctx.fail(
                f"for {n} and {m} rows of {d} features a tensor of {watch.count // 8:,} numbers is "
                f"made: both sets together have {(n + m) * d:,}, and none should be larger"
            )
