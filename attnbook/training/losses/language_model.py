"""Loss and perplexity of a language model, which scores the word after each token."""

import math
from collections.abc import Iterable

import torch
from torch import Tensor

from ...modules import counted_targets, device_of, fields_of, temporary_mode
from .token_loss import IGNORED, summed_cross_entropy

__all__ = ["language_loss", "perplexity"]


def language_loss(model, batch, *, ignore_index: int = IGNORED) -> tuple[Tensor, Tensor]:
    """Cross-entropy of every word given the words before it.

    total = −Σ_{b,t counted} log p(y_bt | y_b,<t),   count = number of (b, t) that count.

    Args:
        model: maps tokens and their lengths to logits (B, n, V).
        batch: a NamedTuple, or a mapping as a DataLoader gives, with target_in (B, n), the words
            that are read, and target_out (B, n), the word after each of them. Where it has
            target_lengths (B,), as :class:`~attnbook.tasks.Batch` may have, only what lies within
            them is read and counts; otherwise all of it is. Where it has documents (B, n), as
            :class:`~attnbook.tasks.text.packing.PackedText`, no token attends to another document.
        ignore_index: a target that does not count.

    Returns:
        (total, count), both of shape (), total in nats.

    Source: Bengio et al. 2003, section 2.
    """
    device, batch = device_of(model), fields_of(batch, "target_in", "target_out")
    counted = counted_targets(batch, ignore_index).to(device)
    lengths = getattr(batch, "target_lengths", None)
    if lengths is None:
        lengths = torch.full((len(counted),), counted.shape[1])
    packed = {}
    if (documents := getattr(batch, "documents", None)) is not None:
        documents = documents.to(device)
        packed["mask"] = documents[:, :, None] == documents[:, None, :]
    logits = model(batch.target_in.to(device), lengths, **packed).logits
    target = batch.target_out.to(device)
    return summed_cross_entropy(model, logits, target, counted), counted.sum()


def perplexity(model, batches, *, ignore_index: int = IGNORED) -> float:
    """exp of the mean :func:`language_loss` per word over one epoch of `batches` (an end counts as
    a word), without gradients or dropout.

    Args:
        model, ignore_index: as in :func:`language_loss`.
        batches: with a length, the number of batches in an epoch, and ``batch(k)``, as
            :class:`~attnbook.tasks.CharacterWindows` and :class:`~attnbook.tasks.SequenceBatches`,
            or a ``DataLoader`` or a list of batches.

    Returns:
        The perplexity, infinite where exp is beyond a float.
    """
    if hasattr(batches, "batch") and hasattr(batches, "__len__"):
        batches = map(batches.batch, range(len(batches)))
    elif isinstance(batches, Tensor) or not isinstance(batches, Iterable):
        raise ValueError(
            "batches must have a length and a method batch(k), or be a DataLoader or a list of "
            f"batches, got {type(batches).__name__}"
        )
    total, count = 0.0, 0
    with torch.no_grad(), temporary_mode(model, False):
        for batch in batches:
            summed, terms = language_loss(model, batch, ignore_index=ignore_index)
            total, count = total + float(summed), count + int(terms)
    if count == 0:
        raise ValueError("batches must have at least one word in an epoch, got none")
    try:
        return math.exp(total / count)
    except OverflowError:
        return math.inf
