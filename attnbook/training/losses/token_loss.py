"""Losses that return a sum and a count, so that `fit` can divide by the count of all processes."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from attnbook.tasks.sequences.vocabulary import PAD

from ...validate import check_number
from .cross_entropy import smoothed_cross_entropy


def token_loss(model, batch, label_smoothing: float = 0.0) -> tuple[torch.Tensor, torch.Tensor]:
    """Cross-entropy of the target tokens under teacher forcing, summed over all that are not PAD.

    total = -Σ_{b,t : y_bt ≠ PAD} Σ_v q_btv log p(v | y_b,<t, x_b), q_btv = (1 - ε) [v = y_bt] + ε /
    V,   count = number of (b, t) with y_bt ≠ PAD.

    `batch` holds source (B, n), lengths (B,), target_in (B, m) and target_out (B, m); it is moved
    to the device of the model. `label_smoothing` is ε in [0, 1), spread over all V classes as in
    `torch.nn.functional.cross_entropy`. Returns (total, count), both of shape (), total in nats.

    Raises ValueError when ε is out of range or the logits do not have the shape (B, m, V).
    Source: Sutskever et al. 2014, equation 1; smoothing: Szegedy et al. 2016, section 7.
    """
    check_number("label_smoothing", label_smoothing, least=0, below=1)
    device = device_of(model)
    target = batch.target_out.to(device)
    logits = model(
        batch.source.to(device), batch.lengths.to(device), batch.target_in.to(device)
    ).logits
    return summed_cross_entropy(model, logits, target, label_smoothing), (target != PAD).sum()


def summed_cross_entropy(
    model, logits: torch.Tensor, target: torch.Tensor, label_smoothing: float = 0.0
) -> torch.Tensor:
    """The sum over all targets (B, n) that are not PAD; a ValueError names the model when its
    logits are not (B, n, V).
    """
    if logits.dim() != 3 or logits.shape[:2] != target.shape:
        raise ValueError(
            f"logits must have shape {(*target.shape, 'V')} as in target_out, got "
            f"{tuple(logits.shape)} from {type(model).__name__}"
        )
    rows, wanted = full_precision(logits).flatten(0, 1), target.flatten()
    if label_smoothing:
        return smoothed_cross_entropy(rows, wanted, label_smoothing, ignore_index=PAD)
    return F.cross_entropy(rows, wanted, ignore_index=PAD, reduction="sum")


def full_precision(logits: torch.Tensor) -> torch.Tensor:
    """Half-precision logits as float32; float32 and float64 as they are. Any shape."""
    return logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits


def device_of(model: torch.nn.Module) -> torch.device:
    """The device of the first parameter of `model`; the CPU for a model without parameters."""
    for parameter in model.parameters():
        return parameter.device
    return torch.device("cpu")
