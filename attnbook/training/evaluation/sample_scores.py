"""Scores for samples of a generator: Fréchet distance, per class too, inception-style score."""

from typing import NamedTuple

import torch
from torch import Tensor

from ...validate import describe, require

__all__ = [
    "Statistics",
    "fid",
    "fid_without_bias",
    "frechet_distance",
    "inception_score",
    "intra_fid",
    "statistics",
]


class Statistics(NamedTuple):
    """Mean ``(d,)`` and covariance ``(d, d)``, over n − 1, of n features in float64, and n."""

    mean: Tensor
    covariance: Tensor
    count: int


def statistics(features: Tensor) -> Statistics:
    """Mean and covariance of features ``(n, d)``, n ≥ 2.

    ``μ = Σ_i f_i / n``,  ``Σ = Σ_i (f_i − μ)(f_i − μ)ᵀ / (n − 1)``
    """
    matrix = isinstance(features, Tensor) and features.dim() == 2
    require(
        matrix and len(features) >= 2 and features.is_floating_point(),
        f"features must be a tensor of floats (n, d) with two rows at least, got "
        f"{describe(features)}",
    )
    wide = features.detach().double()
    require(bool(wide.isfinite().all()), "features must be finite, got NaN or infinity")
    mean = wide.mean(0)
    apart = wide - mean
    return Statistics(mean, apart.T @ apart / (len(wide) - 1), len(wide))


def frechet_distance(one: Statistics, other: Statistics) -> float:
    """How far apart two normal distributions are: the squared 2-Wasserstein distance.

    ``‖μ₁ − μ₂‖² + tr(Σ₁ + Σ₂ − 2 (Σ₁ Σ₂)^½)``

    The trace of the root is ``Σ_k √λ_k`` with the eigenvalues λ of ``Σ₁^½ Σ₂ Σ₁^½``, which is
    symmetric: no root of a matrix that is not, no imaginary rest, and a covariance of less than
    full rank does no harm.

    Source: Dowson and Landau 1982; Heusel et al. 2017, equation 6.
    """
    if one.mean.shape != other.mean.shape:
        raise ValueError(f"features must have one width, got {len(one.mean)} and {len(other.mean)}")
    values, vectors = torch.linalg.eigh(one.covariance)
    root = (vectors * values.clamp_min(0).sqrt()) @ vectors.T
    overlap = torch.linalg.eigvalsh(root @ other.covariance @ root).clamp_min(0).sqrt().sum()
    apart = (one.mean - other.mean).square().sum()
    apart = apart + one.covariance.trace() + other.covariance.trace() - 2 * overlap
    return float(apart.clamp_min(0))  # rounding may leave −1e-13 for equal sets


def fid(one: Tensor, other: Tensor) -> float:
    """The :func:`frechet_distance` of two sets of features ``(n, d)`` and ``(m, d)``.

    It depends on the feature network and, for small n, on n: figures of two networks or of two
    sizes of sample are not to be compared."""
    return frechet_distance(statistics(one), statistics(other))


def intra_fid(one: Tensor, one_labels: Tensor, other: Tensor, other_labels: Tensor) -> float:
    """The mean over the classes of the FID within a class.

    Shapes: features ``(n, d)``, ``(m, d)``, labels ``(n,)``, ``(m,)``. Both sets hold the same
    classes, two pictures each at least. Source: Miyato and Koyama 2018, section 4.
    """
    sets = {"one_labels": (one, one_labels), "other_labels": (other, other_labels)}
    for name, (features, labels) in sets.items():
        shape, came = tuple(features.shape[:1]), tuple(labels.shape)
        wanted = f"shape {shape}, a label for each row of features"
        require(came == shape, f"{name} must have {wanted}, got {came}")
    classes, others = (sorted(set(labels.tolist())) for labels in (one_labels, other_labels))
    require(
        classes == others and bool(classes),
        f"both sets must hold the same classes, at least one, got {classes} and {others}",
    )
    each = [fid(one[one_labels == k], other[other_labels == k]) for k in classes]
    return sum(each) / len(each)


def fid_without_bias(one: Tensor, real: Tensor) -> float:
    """The FID of infinitely many samples, extrapolated from random subsets.

    ``FID ≈ a + b / n`` is fitted by least squares to subsets of 8 sizes n, from half of the samples
    to all of them, with the mean of 8 subsets per size; a is the result.

    Args:
        one: features of samples ``(n, d)``.
        real: features of real data, all used each time; their own bias stays.

    Source: Chong and Forsyth 2020, section 4.
    """
    generator, target = torch.Generator().manual_seed(0), statistics(real)
    counts = torch.linspace(0.5 * len(one), len(one), 8).round().long()
    distances = []
    for count in counts.tolist():
        chosen = (torch.randperm(len(one), generator=generator)[:count] for _ in range(8))
        parts = (statistics(one[rows.to(one.device)]) for rows in chosen)
        distances.append(sum(frechet_distance(part, target) for part in parts) / 8)
    design = torch.stack([torch.ones(8, dtype=torch.float64), 1 / counts.double()], 1)
    target = torch.tensor(distances, dtype=torch.float64)[:, None]
    return float(torch.linalg.lstsq(design, target).solution[0])


def inception_score(logits: Tensor) -> float:
    """How certain a classifier is, and how evenly it predicts the K classes: from 1 to K.

    ``exp( 1/n Σ_i KL(p(y | x_i) ‖ p(y)) )``,  ``p(y) = 1/n Σ_i p(y | x_i)``

    It uses no real data. With a classifier other than the Inception network it is an
    inception-*style* score, and comparable only with itself. The paper averages over 10 splits of
    5,000 pictures.

    Args:
        logits: ``(n, K)``, before the softmax.

    Source: Salimans et al. 2016, section 4.
    """
    matrix = isinstance(logits, Tensor) and logits.dim() == 2 and len(logits) > 0
    require(
        matrix and bool(logits.isfinite().all()),
        "logits must be finite, (n, K), with at least one row, got "
        f"{tuple(getattr(logits, 'shape', ()))}",
    )
    log_p = logits.detach().double().log_softmax(-1)
    count = torch.tensor(len(log_p), dtype=torch.float64, device=log_p.device)
    log_mean = log_p.logsumexp(0) - count.log()
    return float((log_p.exp() * (log_p - log_mean)).sum(-1).mean().exp())
