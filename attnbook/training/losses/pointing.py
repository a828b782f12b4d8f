"""The loss of models that answer with positions of their input."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from ...modules import device_of, full_precision

__all__ = ["pointing_loss"]


def pointing_loss(model, batch) -> tuple[torch.Tensor, torch.Tensor]:
    """Cross-entropy of the positions (and END) of an answer under teacher forcing, for `fit`.

    total = -Σ_{b,i : C_bi ≠ -1} log p(C_bi | C_b,<i, x_b),   count = number of terms, both of shape
    (), in nats.

    Args:
        model: maps inputs, lengths and targets to logits (B, m, n + 1).
        batch: inputs (B, n, d), lengths (B,), targets (B, m), moved to the device of the model.

    Source: Vinyals et al. 2015, equations 1 and 2.
    """
    device = device_of(model)
    targets = batch.targets.to(device)
    logits = model(batch.inputs.to(device), batch.lengths, targets).logits
    if logits.shape != (*targets.shape, batch.inputs.shape[1] + 1):
        raise ValueError(
            f"logits must have shape {(*targets.shape, batch.inputs.shape[1] + 1)}, got shape "
            f"{tuple(logits.shape)} from {type(model).__name__}"
        )
    total = F.cross_entropy(
        full_precision(logits).flatten(0, 1), targets.flatten(), ignore_index=-1, reduction="sum"
    )
    return total, (targets >= 0).sum()
