"""FID and inception-style score: known answers, SciPy as the oracle, properties, wrong versions."""

import math

import numpy as np
import pytest
import scipy.linalg
import torch
from assertions import refusals
from hypothesis import given, settings
from hypothesis import strategies as st

from attnbook.training.evaluation import sample_scores as scores


def normal(n, d, seed, scale=1.0, shift=0.0):
    """Correlated features whose dimensions have different spreads."""
    rng = np.random.default_rng(seed)
    return torch.from_numpy(rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) * scale + shift)


def oracle(one, other):
    """The formula as it stands in the paper, with SciPy's root of a matrix."""
    x, y = np.asarray(one), np.asarray(other)
    a, b = (np.cov(z, rowvar=False) for z in (x, y))
    root = scipy.linalg.sqrtm(a @ b)
    return float(((x.mean(0) - y.mean(0)) ** 2).sum() + np.trace(a + b - 2 * np.real(root)))


@pytest.mark.parametrize("seed", range(4))
def test_the_fid_is_scipys(seed):
    one, other = normal(60, 8, seed), normal(90, 8, 10 + seed, 1.5, 0.7)
    assert scores.fid(one, other) == pytest.approx(oracle(one, other), rel=1e-9)
    assert scores.fid(one.float(), other.float()) == pytest.approx(oracle(one, other), rel=1e-5)


def test_two_normal_distributions_with_known_means_and_covariances():
    """Independent dimensions: Σ (μ − ν)² + Σ (σ − τ)². Turned by any rotation it stays the same."""
    mu, nu = torch.tensor([1.0, -2.0, 0.5]).double(), torch.tensor([0.0, 1.0, 0.5]).double()
    tau = torch.tensor([3.0, 0.5, 1.0]).double()
    turn = torch.linalg.qr(normal(3, 3, 0))[0]
    # a variance of 0 comes back from the eigenvalues of a turned matrix as 1e-16, its root as 1e-8
    for q, least, tolerance in (
        (torch.eye(3).double(), 0.0, 1e-10),
        (turn, 0.1, 1e-10),
        (turn, 0.0, 2e-7),
    ):
        sigma = torch.tensor([1.0, 2.0, least]).double()
        exact = float((mu - nu).square().sum() + (sigma - tau).square().sum())
        pair = [
            scores.Statistics(q @ m, q @ s.square().diag() @ q.T, 10)
            for m, s in ((mu, sigma), (nu, tau))
        ]
        assert scores.frechet_distance(*pair) == pytest.approx(exact, abs=tolerance)
    shifted = scores.Statistics(mu + 2, sigma.square().diag(), 10)
    assert scores.frechet_distance(
        shifted, scores.Statistics(mu, sigma.square().diag(), 10)
    ) == pytest.approx(12, abs=1e-10)


@settings(deadline=None, derandomize=True, max_examples=40)
@given(st.integers(0, 2**31), st.integers(2, 30), st.integers(1, 6))
def test_properties_of_the_fid(seed, n, d):
    """Zero for a set with itself; symmetric; blind to order; never negative; quadratic in scale."""
    one, other = normal(n, d, seed), normal(n + 3, d, seed + 1)
    apart = scores.fid(one, other)
    size = float(one.var(0).sum() + other.var(0).sum()) + 1
    assert scores.fid(one, one) == pytest.approx(0, abs=1e-6 * size)
    assert apart >= 0 and scores.fid(other, one) == pytest.approx(apart, abs=1e-6 * size)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(0))
    assert scores.fid(one[order], other) == pytest.approx(apart, abs=1e-6 * size)
    assert scores.fid(3 * one, 3 * other) == pytest.approx(9 * apart, abs=1e-5 * size)
    assert scores.fid(one + 7, other + 7) == pytest.approx(apart, abs=1e-6 * size)


def plain(
    one,
    other,
    root=lambda m: np.real(scipy.linalg.sqrtm(m)),
    cov=lambda z: np.cov(z, rowvar=False),
    square=True,
    twice=2,
):
    x, y = np.asarray(one), np.asarray(other)
    a, b = cov(x), cov(y)
    gap = np.abs(x.mean(0) - y.mean(0))
    return float((gap**2 if square else gap).sum() + np.trace(a + b - twice * root(a @ b)))


WRONG_FID = {
    "no root": lambda x, y: plain(x, y, root=lambda m: m),
    "root of every entry": lambda x, y: plain(x, y, root=lambda m: np.sqrt(np.maximum(m, 0))),
    "covariance over the wrong axis": lambda x, y: plain(x, y, cov=np.cov),
    "covariance not centred": lambda x, y: plain(x, y, cov=lambda z: z.T @ z / (len(z) - 1)),
    "variances alone": lambda x, y: plain(x, y, cov=lambda z: np.diag(z.var(0, ddof=1))),
    "means not squared": lambda x, y: plain(x, y, square=False),
    "means alone": lambda x, y: float(((np.asarray(x).mean(0) - np.asarray(y).mean(0)) ** 2).sum()),
    "one root too few": lambda x, y: plain(x, y, twice=1),
}


@pytest.mark.parametrize("name", WRONG_FID)
def test_wrong_versions_of_the_fid_are_told_apart(name):
    one, other = normal(60, 5, 1, shift=3.0), normal(60, 5, 2, 1.5)
    assert plain(one, other) == pytest.approx(scores.fid(one, other), rel=1e-9)
    wrong = WRONG_FID[name](np.asarray(one), np.asarray(other))
    assert abs(wrong - scores.fid(one, other)) > 0.02 * scores.fid(one, other)


def test_the_fid_of_equal_distributions_falls_as_one_over_n_and_the_line_takes_it_out():
    d, real = 10, torch.from_numpy(np.random.default_rng(0).normal(size=(20_000, 10)))
    rng, means = np.random.default_rng(1), []
    for n in (100, 400):
        drawn = (torch.from_numpy(rng.normal(size=(n, d))) for _ in range(20))
        means.append(np.mean([scores.fid(sample, real) for sample in drawn]))
    # d/n from the means and about d²/4n from the covariances, to first order
    assert means[0] == pytest.approx((d + d * (d + 1) / 4) / 100, rel=0.15)
    assert means[0] / means[1] == pytest.approx(4, rel=0.15)
    sample = torch.from_numpy(rng.normal(size=(400, d)))
    assert abs(scores.fid_without_bias(sample, real)) < 0.35 * scores.fid(sample, real)
    off = sample + torch.tensor([2.0] + [0.0] * 9)
    assert scores.fid_without_bias(off, real) == pytest.approx(4, rel=0.1)
    assert scores.fid_without_bias(off, real) == scores.fid_without_bias(off, real)


def test_intra_fid_is_the_mean_over_classes_and_sees_a_generator_that_mixes_them_up():
    one, other = normal(40, 3, 0), normal(60, 3, 1)
    a, b = torch.arange(40) % 2, torch.arange(60) % 2
    expected = np.mean([oracle(one[a == k], other[b == k]) for k in (0, 1)])
    assert scores.intra_fid(one, a, other, b) == pytest.approx(expected, rel=1e-8)
    classes = torch.cat([normal(50, 3, 2), normal(50, 3, 2) + 9])
    labels = torch.arange(100) // 50
    assert scores.fid(classes, classes) < 1e-6
    assert scores.intra_fid(classes, labels, classes, labels) < 1e-6
    # FID cannot tell: the pictures are the same
    assert scores.intra_fid(classes, 1 - labels, classes, labels) > 100
    with pytest.raises(ValueError, match="same classes"):
        scores.intra_fid(one, a, other, b + 1)
    with pytest.raises(ValueError, match=r"at least one, got \[\] and \[\]"):
        scores.intra_fid(one[:0], a[:0], other[:0], b[:0])


def test_known_inception_scores():
    sure = 1000.0 * torch.eye(5)
    # sure, and all classes alike often
    assert scores.inception_score(sure.repeat(4, 1)) == pytest.approx(5)
    assert scores.inception_score(sure[:1].repeat(9, 1)) == pytest.approx(1)  # sure, one class
    assert scores.inception_score(torch.zeros(7, 5)) == pytest.approx(1)  # never sure
    assert scores.inception_score(sure[:2].repeat(3, 1)) == pytest.approx(2)


def softmax(z, axis=1):
    p = np.exp(z - z.max(axis, keepdims=True))
    return p / p.sum(axis, keepdims=True)


def kl(p, q):
    """One number a row."""
    return np.sum(p * (np.log(p) - np.log(q)), 1)


def test_the_inception_score_is_the_formula():
    logits = 3 * normal(50, 6, 0)
    p = softmax(logits.numpy())
    expected = np.exp(np.mean(kl(p, p.mean(0))))
    assert scores.inception_score(logits) == pytest.approx(expected, rel=1e-10)
    assert scores.inception_score(logits.float()) == pytest.approx(expected, rel=1e-5)


def without_softmax(z, p):
    share = np.abs(z) / np.abs(z).sum(1, keepdims=True)
    return np.exp(np.mean(kl(share, share.mean(0))))


def over_the_pictures(z, p):
    share = softmax(z, axis=0)
    return np.exp(np.mean(kl(share, share.mean(0))))


WRONG_IS = {
    "no softmax": without_softmax,
    "softmax over the pictures": over_the_pictures,
    "the other way round": lambda z, p: np.exp(np.mean(kl(p.mean(0, keepdims=True), p))),
    "no exponential": lambda z, p: np.mean(kl(p, p.mean(0))),
    "mean of the logits for p(y)": lambda z, p: np.exp(np.mean(kl(p, softmax(z.mean(0)[None])))),
    "mean of exponentials": lambda z, p: np.mean(np.exp(kl(p, p.mean(0)))),
    "entropy alone": lambda z, p: np.exp(-np.mean(np.sum(p * np.log(p), 1))),
    "summed, not averaged": lambda z, p: np.exp(np.sum(kl(p, p.mean(0)))),
}


@pytest.mark.parametrize("name", WRONG_IS)
def test_wrong_versions_of_the_inception_score_are_told_apart(name):
    logits = normal(40, 5, 3)
    p = softmax(logits.numpy())
    assert abs(WRONG_IS[name](logits.numpy(), p) - scores.inception_score(logits)) > 0.02


@settings(deadline=None, derandomize=True, max_examples=40)
@given(st.integers(0, 2**31), st.integers(2, 20), st.integers(2, 6))
def test_properties_of_the_inception_score(seed, n, k):
    logits = normal(n, k, seed)
    value = scores.inception_score(logits)
    assert 1 - 1e-9 <= value <= k + 1e-9
    assert scores.inception_score(logits.flip(0)) == pytest.approx(value, rel=1e-9)
    assert scores.inception_score(logits.flip(1)) == pytest.approx(value, rel=1e-9)
    assert scores.inception_score(logits + 5) == pytest.approx(value, rel=1e-9)


ZEROS = torch.zeros(4, 2)
test_errors_name_the_argument = refusals(
    ("features", lambda: scores.statistics(torch.zeros(1, 3))),
    ("features", lambda: scores.statistics(torch.zeros(3))),
    ("features", lambda: scores.statistics(torch.zeros(3, 3, dtype=torch.long))),
    ("features", lambda: scores.statistics(torch.tensor([[1.0], [math.nan]]))),
    ("features must have", lambda: scores.fid(torch.zeros(3, 2), torch.zeros(3, 4))),
    ("one_labels", lambda: scores.intra_fid(ZEROS, torch.zeros(3), ZEROS, torch.zeros(4))),
    ("other_labels", lambda: scores.intra_fid(ZEROS, torch.zeros(4), ZEROS, torch.zeros(4, 1))),
    ("logits", lambda: scores.inception_score(torch.zeros(3))),
    ("logits", lambda: scores.inception_score(torch.full((3, 2), math.inf))),
    ("logits", lambda: scores.inception_score(torch.zeros(0, 2))),
)
