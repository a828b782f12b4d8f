"""Scores for the samples of a generator: Fréchet distance of features, the same by class, and
the inception-style score.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

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
    """What the Fréchet distance keeps of a set of features, in float64.

    mean        (d,)
    covariance  (d, d), divided by n − 1
    count       n
    """

    mean: torch.Tensor
    covariance: torch.Tensor
    count: int


def statistics(features: torch.Tensor) -> Statistics:
    """Mean and covariance of features ``(n, d)``, n ≥ 2.

    ``μ = Σ_i f_i / n``,  ``Σ = Σ_i (f_i − μ)(f_i − μ)ᵀ / (n − 1)``

    Raises ValueError for another shape, fewer than two rows, or features that are not finite.
    """
    if (
        not isinstance(features, torch.Tensor)
        or features.dim() != 2
        or len(features) < 2
        or not features.is_floating_point()
    ):
        raise ValueError(
            "features must be a tensor of floats (n, d) with two rows at least, got "
            + (
                f"{features.dtype} {tuple(features.shape)}"
                if isinstance(features, torch.Tensor)
                else type(features).__name__
            )
        )
    wide = features.detach().double()
    if not torch.isfinite(wide).all():
        raise ValueError("features must be finite")
    mean = wide.mean(0)
    apart = wide - mean
    return Statistics(mean, apart.T @ apart / (len(wide) - 1), len(wide))


def frechet_distance(one: Statistics, other: Statistics) -> float:
    """How far apart two normal distributions are: the squared 2-Wasserstein distance.

    ``‖μ₁ − μ₂‖² + tr(Σ₁ + Σ₂ − 2 (Σ₁ Σ₂)^½)``

    The trace of the root is ``Σ_k √λ_k`` with the eigenvalues λ of ``Σ₁^½ Σ₂ Σ₁^½``, which is
    symmetric: no root of a matrix that is not, no imaginary rest, and a covariance of less than
    full rank does no harm.

    Raises:
        ValueError: for features of two widths.

    Source: Dowson and Landau 1982; Heusel et al. 2017, equation 6.
    """
    if one.mean.shape != other.mean.shape:
        raise ValueError(f"features must have one width, got {len(one.mean)} and {len(other.mean)}")
    values, vectors = torch.linalg.eigh(one.covariance)
    root = (vectors * values.clamp_min(0).sqrt()) @ vectors.T
    overlap = torch.linalg.eigvalsh(root @ other.covariance @ root).clamp_min(0).sqrt().sum()
    apart = (
        (one.mean - other.mean).square().sum()
        + one.covariance.trace()
        + other.covariance.trace()
        - 2 * overlap
    )
    return float(apart.clamp_min(0))  # rounding may leave −1e-13 for equal sets


def fid(one: torch.Tensor, other: torch.Tensor) -> float:
    """Fréchet distance of two sets of features ``(n, d)`` and ``(m, d)``, see
    :func:`frechet_distance`.

    It depends on the feature network and, for small n, on n: figures of two networks or of two
    sizes of sample are not to be compared."""
    return frechet_distance(statistics(one), statistics(other))


def intra_fid(
    one: torch.Tensor, one_labels: torch.Tensor, other: torch.Tensor, other_labels: torch.Tensor
) -> float:
    """The mean over the classes of the FID within a class.

    Shapes: features ``(n, d)``, ``(m, d)``, labels ``(n,)``, ``(m,)``. Raises ValueError for other
    shapes, and unless both sets hold
    the same classes, two pictures each at least. Source: Miyato and Koyama 2018, section 4.
    """
    for name, features, labels in (
        ("one_labels", one, one_labels),
        ("other_labels", other, other_labels),
    ):
        if labels.shape != features.shape[:1]:
            raise ValueError(
                f"{name} must have shape {tuple(features.shape[:1])}, a label for each row of "
                f"features, "
                f"got {tuple(labels.shape)}"
            )
    classes = [sorted(set(labels.tolist())) for labels in (one_labels, other_labels)]
    if classes[0] != classes[1] or not classes[0]:
        raise ValueError(
            f"both sets must hold the same classes, at least one, got {classes[0]} and {classes[1]}"
        )
    each = [fid(one[one_labels == k], other[other_labels == k]) for k in classes[0]]
    return sum(each) / len(each)


def fid_without_bias(
    one: torch.Tensor,
    real: torch.Tensor,
    *,
    sizes: int = 8,
    least: float = 0.5,
    repeats: int = 8,
    seed: int = 0,
) -> float:
    """The FID that endless samples would have, from the line through FIDs of random parts: FID ≈ a
    + b / n, and a is the answer.

    Args:
        one: features of samples ``(n, d)``.
        real: features of real data, all used each time; their own bias stays.
        sizes: how many sizes of parts, evenly from ``least · n`` to n.
        least: share of the smallest parts, between 0 and 1.
        repeats: parts of a size, whose FIDs are averaged.
        seed: of the parts.

    Source: Chong and Forsyth 2020, section 4.
    """
    if not 0 < least < 1 or sizes < 2 or repeats < 1:
        raise ValueError(
            f"least must lie between 0 and 1, sizes be 2 and repeats 1 at least, got {least!r}, "
            f"{sizes!r}, {repeats!r}"
        )
    generator, target = torch.Generator().manual_seed(seed), statistics(real)
    counts = torch.linspace(least * len(one), len(one), sizes).round().long()
    found = []
    for count in counts.tolist():
        parts = (
            one[torch.randperm(len(one), generator=generator)[:count].to(one.device)]
            for _ in range(repeats)
        )
        found.append(sum(frechet_distance(statistics(part), target) for part in parts) / repeats)
    design = torch.stack([torch.ones(sizes, dtype=torch.float64), 1 / counts.double()], 1)
    return float(
        torch.linalg.lstsq(design, torch.tensor(found, dtype=torch.float64)[:, None]).solution[0]
    )


def inception_score(logits: torch.Tensor, *, splits: int = 1) -> float:
    """How sure a classifier is of each picture, and how evenly it names the classes: from 1 to the
    number of classes.

    ``exp( 1/n Σ_i KL(p(y | x_i) ‖ p(y)) )``,  ``p(y) = 1/n Σ_i p(y | x_i)``; the mean over
    ``splits`` equal parts, in order

    It never looks at real data. With a classifier other than the Inception network it is an
    inception-*style* score, and comparable only with itself.

    Shapes: logits ``(n, K)``, before the softmax. Raises ValueError for fewer rows than splits, or
    logits that are not finite.
    Source: Salimans et al. 2016, section 4; 10 splits of 5,000 there.
    """
    if (
        not isinstance(logits, torch.Tensor)
        or logits.dim() != 2
        or not torch.isfinite(logits).all()
    ):
        raise ValueError(
            f"logits must be finite, (n, K), got {tuple(getattr(logits, 'shape', ()))}"
        )
    if isinstance(splits, bool) or not isinstance(splits, int) or not 1 <= splits <= len(logits):
        raise ValueError(f"splits must be an integer from 1 to {len(logits)}, got {splits!r}")
    scores = []
    for part in logits.detach().double().tensor_split(splits):
        log_p = part.log_softmax(-1)
        log_mean = (
            log_p.logsumexp(0)
            - torch.tensor(len(part), dtype=torch.float64, device=part.device).log()
        )
        scores.append((log_p.exp() * (log_p - log_mean)).sum(-1).mean().exp())
    return float(torch.stack(scores).mean())
