"""The loss and the perplexity of a language model: a model that scores the word after each token."""

from __future__ import annotations

import math

import torch
from torch.nn import functional as F

from attnbook.tasks.vocabulary import PAD

from .losses import device_of, full_precision

__all__ = ["language_loss", "perplexity"]


def language_loss(model, batch) -> tuple[torch.Tensor, torch.Tensor]:
    """Cross-entropy of every word given the words before it, summed over all that are not PAD, and their number.

    total = −Σ_{b,t : y_bt ≠ PAD} log p(y_bt | y_b,<t),   count = number of (b, t) with y_bt ≠ PAD.

    `batch` is one of `SequenceBatches`: target_in (B, n), which begins with BOS, and target_out (B, n), which ends with
    EOS. The model maps tokens and their lengths to logits (B, n, V). Returns (total, count), both of shape (), in nats.
    Source: Bengio et al. 2003, section 2.
    """
    device = device_of(model)
    target = batch.target_out
    lengths = (target != PAD).sum(-1)
    logits = model(batch.target_in.to(device), lengths).logits
    if logits.dim() != 3 or logits.shape[:2] != target.shape:
        raise ValueError(f"logits: got the shape {tuple(logits.shape)} from {type(model).__name__}, "
                         f"expected {(*target.shape, 'V')} as in target_out")
    total = F.cross_entropy(full_precision(logits).flatten(0, 1), target.to(device).flatten(), ignore_index=PAD,
                            reduction="sum")
    return total, lengths.sum().to(device)


def perplexity(model, batches) -> float:
    """exp of the mean loss a word over one epoch of `batches` (EOS counts as a word), without gradients or dropout."""
    training, total, count = model.training, 0.0, 0
    model.eval()
    with torch.no_grad():
        for k in range(len(batches)):
            summed, terms = language_loss(model, batches.batch(k))
            total, count = total + float(summed), count + int(terms)
    model.train(training)
    return math.exp(total / count)
