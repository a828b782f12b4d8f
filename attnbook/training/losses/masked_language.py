"""The loss of masked prediction."""

import torch
from torch import Tensor

from ...modules import device_of, full_precision
from .token_loss import IGNORED

__all__ = ["hidden_logits", "masked_loss"]


def hidden_logits(model, batch) -> tuple[Tensor, Tensor]:
    """Logits ``(hidden, V)`` of the masked tokens alone, and their ids ``(hidden,)``.

    Args:
        model: with `encode(tokens, lengths)` to states and `output` from states to logits.
        batch: `tokens`, `lengths` and a `target` that is −100 at the tokens that are not masked.
    """
    device = device_of(model)
    target = batch.target.to(device)
    chosen = target != IGNORED
    states = model.encode(batch.tokens.to(device), batch.lengths.to(device))
    return full_precision(model.output(states[chosen])), target[chosen]


def masked_loss(model, batch) -> tuple[Tensor, Tensor]:
    """Cross-entropy of the masked tokens given the others: the sum in nats, and their number.

    ``total = −Σ_{t masked} log p(w_t | the masked text)``

    Source: Devlin et al. 2019, section 3.1.
    """
    logits, wanted = hidden_logits(model, batch)
    total = torch.nn.functional.cross_entropy(logits, wanted, reduction="sum")
    return total, torch.tensor(len(wanted), device=wanted.device)
