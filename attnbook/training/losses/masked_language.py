"""The loss of masked prediction."""

from __future__ import annotations

import torch

from ...modules import device_of, full_precision
from .token_loss import IGNORED

__all__ = ["hidden_logits", "masked_loss"]


def hidden_logits(
    model, batch, *, ignore_index: int = IGNORED
) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits ``(hidden, V)`` of the masked tokens, and their ids ``(hidden,)``. No other logits are
    computed.

    Args:
        model: with `encode(tokens, lengths)` to states and `output` from states to logits.
        batch: `tokens`, `lengths` and a `target` that is `ignore_index` at the tokens that are not
            masked.
        ignore_index: see there.
    """
    device = device_of(model)
    target = batch.target.to(device)
    chosen = target != ignore_index
    return full_precision(
        model.output(model.encode(batch.tokens.to(device), batch.lengths.to(device))[chosen])
    ), target[chosen]


def masked_loss(model, batch, *, ignore_index: int = IGNORED) -> tuple[torch.Tensor, torch.Tensor]:
    """Cross-entropy of the masked tokens given the others: the sum in nats, and their number.

    ``total = −Σ_{t masked} log p(w_t | the masked text)``

    Source: Devlin et al. 2019, section 3.1.
    """
    logits, wanted = hidden_logits(model, batch, ignore_index=ignore_index)
    return torch.nn.functional.cross_entropy(logits, wanted, reduction="sum"), torch.tensor(
        len(wanted), device=wanted.device
    )
