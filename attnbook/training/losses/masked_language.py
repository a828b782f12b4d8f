"""The loss of masked prediction."""

from __future__ import annotations

import torch

from attnbook.tasks.text.vocabulary import PAD

from .token_loss import device_of, full_precision

__all__ = ["hidden_logits", "masked_loss"]


def hidden_logits(model, batch) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits ``(hidden, V)`` of the tokens that are to be told, and what they are ``(hidden,)``. No
    others are computed.

    `model` has `encode(tokens, lengths)` to states and `output` from states to logits; `batch` has
    `tokens`, `lengths` and a `target` that is PAD where nothing is asked."""
    device = device_of(model)
    target = batch.target.to(device)
    chosen = target != PAD
    return full_precision(
        model.output(model.encode(batch.tokens.to(device), batch.lengths.to(device))[chosen])
    ), target[chosen]


def masked_loss(model, batch) -> tuple[torch.Tensor, torch.Tensor]:
    """Cross-entropy of the hidden tokens given all that is not hidden: the sum in nats, and their
    number.

    ``total = −Σ_{t hidden} log p(w_t | the text with its tokens hidden)``

    Source: Devlin et al. 2019, section 3.1.
    """
    logits, wanted = hidden_logits(model, batch)
    return torch.nn.functional.cross_entropy(logits, wanted, reduction="sum"), torch.tensor(
        len(wanted), device=wanted.device
    )
