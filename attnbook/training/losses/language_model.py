"""The loss and the perplexity of a language model: a model that scores the word after each
token."""

from __future__ import annotations

import math

import torch

from attnbook.tasks.sequences.vocabulary import PAD

from ..loop.temporary_state import temporary_mode
from .token_loss import device_of, summed_cross_entropy

__all__ = ["language_loss", "perplexity"]


def language_loss(model, batch) -> tuple[torch.Tensor, torch.Tensor]:
    """Cross-entropy of every word given the words before it.

    total = −Σ_{b,t : y_bt ≠ PAD} log p(y_bt | y_b,<t),   count = number of (b, t) with y_bt ≠ PAD.

    Args:
        model: maps tokens and their lengths to logits (B, n, V).
        batch: of `SequenceBatches`: target_in (B, n), which begins with BOS, and target_out (B, n),
            which ends with EOS.

    Returns:
        (total, count), both of shape (), total in nats.

    Raises:
        ValueError: if the logits do not have the shape (B, n, V).

    Source: Bengio et al. 2003, section 2.
    """
    device = device_of(model)
    target = batch.target_out
    lengths = (target != PAD).sum(-1)
    logits = model(batch.target_in.to(device), lengths).logits
    return summed_cross_entropy(model, logits, target.to(device)), lengths.sum().to(device)


def perplexity(model, batches) -> float:
    """exp of the mean loss per word over one epoch of `batches` (EOS counts as a word), without
    gradients or dropout.

    Infinite where exp is beyond a float. Raises ValueError for batches without a word.
    """
    total, count = 0.0, 0
    with torch.no_grad(), temporary_mode(model, False):
        for k in range(len(batches)):
            summed, terms = language_loss(model, batches.batch(k))
            total, count = total + float(summed), count + int(terms)
    if count == 0:
        raise ValueError("batches must have at least one word in an epoch, got none")
    try:
        return math.exp(total / count)
    except OverflowError:
        return math.inf
