"""Masked prediction: texts with some tokens hidden, to be told from the tokens on both sides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from ..translation.pairs import check_step
from .vocabulary import PAD, UNK

__all__ = ["MASK", "Masked", "MaskedBatches", "hide", "pad"]

MASK = UNK
"""The id that hides a token. Where the vocabulary leaves no word unknown, that of <unk> is free."""


class Masked(NamedTuple):
    """tokens ``(batch, n)`` as the model reads them, lengths ``(batch,)``, and ``target (batch,
    n)``: the hidden token, or PAD.
    """

    tokens: torch.Tensor
    lengths: torch.Tensor
    target: torch.Tensor


def pad(rows: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
    """Texts of different lengths as ``(batch, n)``, and their lengths."""
    lengths = torch.tensor([len(row) for row in rows])
    width = int(lengths.max())
    return torch.tensor([[*row, *[PAD] * (width - len(row))] for row in rows]), lengths


def hide(
    tokens: torch.Tensor,
    lengths: torch.Tensor,
    size: int,
    generator: torch.Generator,
    share: float = 0.15,
) -> Masked:
    """Hide a share of the tokens of each text, at least one.

    Of those to be told 80 % are replaced by :data:`MASK`, 10 % by a random token, and 10 % stay, as
    in BERT, so that tokens that are not hidden get a state of use too.

    Args:
        tokens: ``(batch, n)``, padded with PAD.
        lengths: ``(batch,)``.
        size: of the vocabulary; random tokens are none of its special ones.

    Raises:
        ValueError: for a share outside (0, 1) or a vocabulary of special tokens only.

    Source: Devlin et al. 2019, section 3.1.
    """
    if not 0 < share < 1:
        raise ValueError(f"share must lie between 0 and 1, got {share!r}")
    if not isinstance(size, int) or size <= UNK + 1:
        raise ValueError(f"size must be an integer above {UNK + 1}, got {size!r}")
    real = tokens != PAD
    chance = torch.rand(tokens.shape, generator=generator).masked_fill(~real, 2.0)
    hidden = (chance < share) | (chance == chance.min(dim=1, keepdim=True).values)
    target = tokens.masked_fill(~hidden, PAD)
    kind = torch.rand(tokens.shape, generator=generator)
    other = torch.randint(UNK + 1, size, tokens.shape, generator=generator)
    read = torch.where(
        hidden & (kind < 0.8), MASK, torch.where(hidden & (kind < 0.9), other, tokens)
    )
    return Masked(read, lengths, target)


class MaskedBatches:
    """Endless batches of texts of about one length with some tokens hidden (:func:`hide`);
    ``batch(step)`` depends on seed and step alone.

    Args:
        texts: token ids.
        vocabulary_size: of random tokens.
        batch_size: texts a batch.
        share: of the tokens that are to be told.
        seed: of texts and hidden places.

    Raises:
        ValueError: for no texts or an empty one, a batch below 1, a step below 0, and as
            :func:`hide`.
    """

    def __init__(
        self,
        texts: Sequence[Sequence[int]],
        vocabulary_size: int,
        batch_size: int,
        *,
        share: float = 0.15,
        seed: int = 0,
    ):
        if not texts or not all(texts):
            raise ValueError("texts must hold at least one text, and none that is empty")
        if isinstance(batch_size, bool) or not isinstance(batch_size, int) or batch_size < 1:
            raise ValueError(f"batch_size must be an integer >= 1, got {batch_size!r}")
        hide(*pad(texts[:1]), vocabulary_size, torch.Generator(), share)  # names a wrong argument
        self.texts = sorted(texts, key=len)
        self.size, self.batch_size, self.share, self.seed = vocabulary_size, batch_size, share, seed

    def batch(self, step: int) -> Masked:
        generator = torch.Generator().manual_seed(1_000_003 * self.seed + check_step(step))
        at = int(torch.randint(len(self.texts), (1,), generator=generator))
        # Texts of about one length: drawn from a stretch around a random text.
        low = max(0, min(at - 16 * self.batch_size, len(self.texts) - 32 * self.batch_size))
        stretch = min(32 * self.batch_size, len(self.texts))
        rows = [
            self.texts[low + int(i)]
            for i in torch.randint(stretch, (self.batch_size,), generator=generator)
        ]
        return hide(*pad(rows), self.size, generator, self.share)
