"""The loss and the perplexity of a language model: a model that scores the word after each
token.
"""

from __future__ import annotations

import math

import torch

from attnbook.tasks.text.vocabulary import PAD

from ..loop.temporary_state import temporary_mode
from .token_loss import check_smoothing, device_of, summed_cross_entropy

__all__ = ["language_loss", "perplexity"]


def language_loss(model, batch, label_smoothing: float = 0.0) -> tuple[torch.Tensor, torch.Tensor]:
    """Cross-entropy of every word given the words before it, summed over all that are not PAD, and
    their number.

    total = −Σ_{b,t : y_bt ≠ PAD} Σ_v q_btv log p(v | y_b,<t),   q_btv = (1 − ε) [v = y_bt] + ε / V,
    count = number of (b, t) with y_bt ≠ PAD.

    `batch` is one of `SequenceBatches`: target_in (B, n), which begins with BOS, and target_out (B,
    n), which ends with EOS. The model maps tokens and their lengths to logits (B, n, V).
    `label_smoothing` is ε in [0, 1); without it the loss is the sum of −log p(y_bt | y_b,<t).
    Returns (total, count), both of shape (), in nats.

    Raises ValueError when ε is out of range or the logits do not have the shape (B, n, V).
    Source: Bengio et al. 2003, section 2; smoothing: Szegedy et al. 2016, section 7.
    """
    check_smoothing(label_smoothing)
    device = device_of(model)
    target = batch.target_out
    lengths = (target != PAD).sum(-1)
    logits = model(batch.target_in.to(device), lengths).logits
    return summed_cross_entropy(
        model, logits, target.to(device), label_smoothing
    ), lengths.sum().to(device)


def perplexity(model, batches) -> float:
    """exp of the mean loss a word over one epoch of `batches` (EOS counts as a word), without
    gradients or dropout.

    Infinite where exp is beyond a float. Raises ValueError for batches without a word.
    """
    total, count = 0.0, 0
    with torch.no_grad(), temporary_mode(model, False):
        for k in range(len(batches)):
            summed, terms = language_loss(model, batches.batch(k))
            total, count = total + float(summed), count + int(terms)
    if count == 0:
        raise ValueError("batches: got no word in one epoch, expected at least one")
    try:
        return math.exp(total / count)
    except OverflowError:
        return math.inf
