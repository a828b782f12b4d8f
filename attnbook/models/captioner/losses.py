"""The losses of a captioner: likelihood, coverage for soft attention, REINFORCE for hard."""

import torch
from torch import Tensor

from ...modules import counted_targets
from .network import Captioner, HardAttention

__all__ = ["caption_loss", "coverage_penalty", "reinforce_loss"]


def coverage_penalty(weights: Tensor, real: Tensor) -> Tensor:
    """The doubly stochastic penalty of each caption: every region should get weight 1 in all.

    ``Σ_i (1 − Σ_t α_ti)²``, t over the real steps only

    Shapes: weights ``(batch, m, L)``, real boolean ``(batch, m)`` → ``(batch,)``.
    Source: Xu et al. 2015, section 4.2.1 and equation 14.
    """
    return (1 - (weights * real[..., None]).sum(1)).square().sum(-1)


def reinforce_loss(
    log_p: Tensor,
    log_choice: Tensor,
    entropy: Tensor,
    baseline: Tensor | float,
    reward_weight: float = 1.0,
    entropy_weight: float = 0.0,
) -> Tensor:
    """The number that hard attention is trained on, one per caption.

    ``−log p(y|s) − λ_r (log p(y|s) − b) · log p(s) − λ_e H``; the factor in brackets is a constant.

    With λ_r = 1 the gradient of the first two terms estimates that of −E_s[log p(y | s)]. That of
    the third is the gradient of the entropies of the steps along the choices that were drawn. It
    pushes every α_t towards even weights, as in the paper; it is not the gradient of the entropy of
    the whole sequence of choices, to which an early choice also counts through the later entropies.

    Shapes: log_p, log_choice (a sum over steps), entropy ``(batch,)``, a number → ``(batch,)``.
    Source: Xu et al. 2015, equation 12 and the lines after it; Williams 1992.
    """
    advantage = (log_p - baseline).detach()
    return -log_p - reward_weight * advantage * log_choice - entropy_weight * entropy


def caption_loss(
    model: Captioner,
    batch,
    *,
    coverage: float = 0.0,
    reward_weight: float = 0.3,
    entropy_weight: float = 0.003,
    expected_share: float = 0.5,
) -> tuple[Tensor, Tensor]:
    """The loss of a captioner for :func:`attnbook.training.fit`: its sum, and the number of tokens.

    ``Σ_b [−log p(y_b) + λ Σ_i (1 − Σ_t α_ti)²]``, λ = ``coverage``; for hard attention in training
    mode :func:`reinforce_loss` replaces −log p, with the moving baseline
    ``b ← 0.9 b + 0.1 mean log p``, and a caption takes the expected context with probability
    ``expected_share``.

    ``batch`` holds pictures, target_in, target_out and target_lengths as
    :class:`attnbook.tasks.images.captioned_pictures.PictureBatch`."""
    pictures, target_in, target = (t.to(model.output.weight.device) for t in batch[:3])
    hard = isinstance(model.attention, HardAttention) and model.training
    expected = torch.rand(len(target), device=target.device) < expected_share if hard else None
    out = model(pictures, target_in, expected=expected)
    real = counted_targets(batch).to(target.device)
    log_p = out.logits.float().log_softmax(-1).gather(-1, target[..., None])[..., 0]
    log_p = log_p.masked_fill(~real, 0.0).sum(1)
    if hard:
        # b starts at the first mean: from 0 the first advantages would all be large and negative
        with torch.no_grad():
            mean = log_p.mean().to(model.baseline)
            baseline = torch.where(model.baseline == 0, mean, model.baseline)
            model.baseline.copy_(0.9 * baseline + 0.1 * mean)
        entropy = -(out.weights * out.weights.clamp_min(1e-12).log()).sum(-1)
        per_caption = reinforce_loss(
            log_p,
            (out.log_choice * real).sum(1),
            (entropy * real).sum(1),
            baseline,
            reward_weight,
            entropy_weight,
        )
    else:
        per_caption = -log_p
    if coverage and out.weights is not None:
        per_caption = per_caption + coverage * coverage_penalty(out.weights, real)
    return per_caption.sum(), real.sum()
