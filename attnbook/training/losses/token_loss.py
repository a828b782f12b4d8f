"""Losses that return a sum and a count, so that `fit` can divide by the count of all processes."""

from torch import Tensor
from torch.nn import functional as F

from ...modules import counted_targets, device_of, fields_of, full_precision
from ...validate import check_number
from .cross_entropy import smoothed_cross_entropy

__all__ = ["summed_cross_entropy", "token_loss"]

IGNORED = -100
"""The target that PyTorch's cross-entropy leaves out unless it is told another."""


def token_loss(
    model, batch, label_smoothing: float = 0.0, *, ignore_index: int = IGNORED
) -> tuple[Tensor, Tensor]:
    """Cross-entropy of the target tokens under teacher forcing, summed over all that count.

    total = -Σ_{b,t counted} Σ_v q_btv log p(v | y_b,<t, x_b), q_btv = (1 - ε) [v = y_bt] + ε / V,
    count = number of (b, t) that count.

    Args:
        model: maps source, lengths and target_in to logits (B, m, V).
        batch: with source (B, n), lengths (B,), target_in (B, m) and target_out (B, m), moved to
            the device of the model. Where it has target_lengths (B,), as
            :class:`~attnbook.tasks.Batch` has, only what lies within them counts.
        label_smoothing: ε in [0, 1), spread over all V classes as in
            `torch.nn.functional.cross_entropy`.
        ignore_index: a target that does not count.

    Returns:
        (total, count), both of shape (), total in nats.

    Source: Sutskever et al. 2014, equation 1; smoothing: Szegedy et al. 2016, section 7.
    """
    check_number("label_smoothing", label_smoothing, least=0, below=1)
    device = device_of(model)
    batch = fields_of(batch, "source", "lengths", "target_in", "target_out")
    counted = counted_targets(batch, ignore_index).to(device)
    read = batch.source, batch.lengths, batch.target_in
    logits = model(*(tensor.to(device) for tensor in read)).logits
    target = batch.target_out.to(device)
    total = summed_cross_entropy(model, logits, target, counted, label_smoothing)
    return total, counted.sum()


def summed_cross_entropy(
    model, logits: Tensor, target: Tensor, counted: Tensor, label_smoothing: float = 0.0
) -> Tensor:
    """The sum over the targets (B, n) that count, by a model with logits (B, n, V)."""
    if logits.dim() != 3 or logits.shape[:2] != target.shape:
        raise ValueError(
            f"logits must have shape {(*target.shape, 'V')} as in target_out, got "
            f"{tuple(logits.shape)} from {type(model).__name__}"
        )
    rows = full_precision(logits).flatten(0, 1)
    wanted = target.masked_fill(~counted, IGNORED).flatten()
    if label_smoothing:
        return smoothed_cross_entropy(rows, wanted, label_smoothing, ignore_index=IGNORED)
    return F.cross_entropy(rows, wanted, ignore_index=IGNORED, reduction="sum")
