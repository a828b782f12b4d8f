"""Source and target as one text, for decoder-only models: the loss on the target, or on all."""

from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from ...modules import counted_targets, device_of
from .token_loss import summed_cross_entropy

FILLING = 0  # after the end of a text, where nothing looks and nothing counts

__all__ = ["OneText", "one_text", "prompted_loss", "whole_text_loss"]


class OneText(NamedTuple):
    """B texts ``source, BOS, target, EOS`` with padding at the end.

    Attributes:
        input_ids: ``(B, n + m)``, source, BOS, target.
        labels: ``(B, n + m)``, the token after each of them; 0 after the EOS.
        loss_mask: ``(B, n + m)``, True where the label belongs to the target or is its EOS.
        lengths: ``(B,)``, the number of tokens in ``input_ids`` that are not padding.
    """

    input_ids: Tensor
    labels: Tensor
    loss_mask: Tensor
    lengths: Tensor


def one_text(batch) -> OneText:
    """Concatenate source and target of each row of a batch: BOS, the first token of ``target_in``,
    separates them. What counts of a target is as for
    :func:`~attnbook.training.token_loss`.
    """
    source, lengths, target_in, target_out = batch[:4]
    n, m = source.shape[1], target_in.shape[1]
    counted = counted_targets(batch).to(source.device)
    target_lengths = getattr(batch, "target_lengths", None)
    if target_lengths is None:
        target_lengths = lengths.new_full(lengths.shape, m)
    target_lengths = target_lengths.to(source.device)[:, None]
    position = torch.arange(n + m, device=source.device)[None]  # (1, n + m)
    # below 0 in the source
    in_target = position - lengths[:, None].to(source.device)
    is_source, is_target = in_target < 0, (in_target >= 0) & (in_target < target_lengths)
    source_ids = source.gather(1, position.clamp(max=n - 1).expand(len(source), -1))
    index = in_target.clamp(0, m - 1)
    target_ids = torch.where(is_target, target_in.gather(1, index), FILLING)
    input_ids = torch.where(is_source, source_ids, target_ids)
    target_labels = torch.where(is_target, target_out.gather(1, index), FILLING)
    labels = torch.where(is_source, input_ids.roll(-1, 1), target_labels)
    loss_mask = is_target & counted.gather(1, index)
    return OneText(input_ids, labels, loss_mask, (is_source | is_target).sum(1))


def prompted_loss(model, batch, everything: bool = False) -> tuple[Tensor, Tensor]:
    """Cross-entropy of the target given the source, by a model that reads both as one text.

    total = −Σ_{b,t counted} log p(y_bt | x_b, BOS, y_b,<t),   count = the number of its terms

    Args:
        model: maps tokens and their lengths to logits (B, n + m, V).
        batch: source, lengths, target_in and target_out, as for `token_loss`.
        everything: also predict, and count, the tokens of the source.

    Returns:
        (total, count), both of shape ().

    Source: Liu et al. 2018, section 4.2.3, which trains on all of the text.
    """
    device = device_of(model)
    text = one_text(batch)
    logits = model(text.input_ids.to(device), text.lengths).logits
    counted = text.loss_mask
    if everything:
        position = torch.arange(counted.shape[1], device=counted.device)
        counted = counted | (position < batch.lengths.to(counted.device)[:, None])
    counted, labels = counted.to(device), text.labels.to(device)
    number = counted.sum()
    if not everything:  # only the rows that count
        logits, labels, counted = (part[counted][None] for part in (logits, labels, counted))
    return summed_cross_entropy(model, logits, labels, counted), number


whole_text_loss = partial(prompted_loss, everything=True)
