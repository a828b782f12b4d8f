"""Source and target as one text, for decoder-only models: the loss on the target alone, or on
all of the text.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import torch
from torch.nn import functional as F

from attnbook.tasks.text.vocabulary import PAD

from .token_loss import device_of, full_precision

__all__ = ["OneText", "one_text", "prompted_loss", "whole_text_loss"]


class OneText(NamedTuple):
    """B texts ``source, BOS, target, EOS`` with padding at the end, as ids.

    read     (B, n + m)  what the model reads: source, BOS, target
    said     (B, n + m)  the word after each of them; PAD behind the EOS
    asked    (B, n + m)  True where ``said`` belongs to the target or is its EOS
    lengths  (B,)        words read
    """

    read: torch.Tensor
    said: torch.Tensor
    asked: torch.Tensor
    lengths: torch.Tensor


def one_text(batch) -> OneText:
    """Lay source and target of a batch behind each other: BOS, the first token of ``target_in``,
    separates them.
    """
    source, lengths, target_in, target_out = batch
    n, m = source.shape[1], target_in.shape[1]
    place = torch.arange(n + m, device=source.device)[None]  # (1, n + m)
    # place in the target, below 0 in the source
    behind = place - lengths[:, None].to(source.device)
    in_source = behind < 0
    words = source.gather(1, place.clamp(max=n - 1).expand(len(source), -1))
    inside = behind.clamp(0, m - 1)
    there = behind < m
    read = torch.where(in_source, words, torch.where(there, target_in.gather(1, inside), PAD))
    asked_for = torch.where(~in_source & there, target_out.gather(1, inside), PAD)
    said = torch.where(in_source, torch.cat([read[:, 1:], read[:, :1]], 1), asked_for)
    return OneText(read, said, asked_for != PAD, (read != PAD).sum(1))


def prompted_loss(model, batch, everything: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """Cross-entropy of the target given the source, by a model that reads both as one text.

    total = −Σ_{b,t : y_bt ≠ PAD} log p(y_bt | x_b, BOS, y_b,<t),   count = the number of its terms;

    with ``everything`` the words of the source are predicted and counted, too. Returns (total,
    count), both of shape (). Source: Liu et al. 2018, section 4.2.3, which trains on all of the
    text."""
    device = device_of(model)
    text = one_text(batch)
    logits = model(text.read.to(device), text.lengths).logits
    said = text.said if everything else text.said.masked_fill(~text.asked, PAD)
    counted = said != PAD
    if not everything:  # only the rows that count
        logits, said = logits[counted.to(device)], said[counted]
    total = F.cross_entropy(
        full_precision(logits).flatten(0, -2),
        said.flatten().to(device),
        ignore_index=PAD,
        reduction="sum",
    )
    return total, counted.sum().to(device)


whole_text_loss = partial(prompted_loss, everything=True)
