"""Masked prediction: texts with some tokens hidden, to predict from the tokens on both sides."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ...validate import check_integer, check_number, require
from ..endless_batches import GeneratedBatches, drawn
from ..sequences.batches import pad_rows
from ..sequences.vocabulary import UNK

MASK = UNK
"""The id that hides a token. Where the vocabulary leaves no word unknown, that of <unk> is free."""
NOT_HIDDEN = -100
"""The target of a token that is not hidden: the number that PyTorch's cross-entropy leaves out."""


class Masked(NamedTuple):
    """tokens ``(B, n)``, lengths ``(B,)``, target ``(B, n)``: :data:`NOT_HIDDEN` or the token."""

    tokens: Tensor
    lengths: Tensor
    target: Tensor


@drawn
def pad(rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Texts of different lengths as ``(batch, n)``, and their lengths."""
    return pad_rows(rows), torch.tensor([len(row) for row in rows])


@drawn
def hide(
    tokens: Tensor, lengths: Tensor, size: int, generator: torch.Generator, share: float = 0.15
) -> Masked:
    """Hide a share of the tokens of each text, at least one.

    Of the tokens to predict 80 % are replaced by :data:`MASK`, 10 % by a random token, and 10 %
    stay, as in BERT, so that the states of tokens that are not hidden are trained too.

    Args:
        tokens: ``(batch, n)``, padded after their lengths.
        lengths: ``(batch,)``.
        size: of the vocabulary; random tokens are none of its special ones.

    Source: Devlin et al. 2019, section 3.1.
    """
    check_number("share", share, above=0, below=1)
    check_integer("size", size, UNK + 2)
    real = torch.arange(tokens.shape[1]) < lengths[:, None]
    chance = torch.rand(tokens.shape, generator=generator).masked_fill(~real, 2.0)
    hidden = real & ((chance < share) | (chance == chance.min(dim=1, keepdim=True).values))
    target = tokens.masked_fill(~hidden, NOT_HIDDEN)
    kind = torch.rand(tokens.shape, generator=generator)
    other = torch.randint(UNK + 1, size, tokens.shape, generator=generator)
    read = torch.where(hidden & (kind < 0.9), other, tokens)
    return Masked(read.masked_fill(hidden & (kind < 0.8), MASK), lengths, target)


class MaskedBatches(GeneratedBatches[Masked]):
    """Endless batches of texts of token ids, of about one length, masked by :func:`hide`."""

    def __init__(
        self, texts: Sequence[Sequence[int]], vocabulary_size: int, batch_size: int, seed: int = 0
    ):
        whole = bool(texts) and all(texts)
        require(whole, "texts must hold at least one text, and none that is empty")
        texts = sorted(texts, key=len)

        def draw(count: int, generator: torch.Generator) -> Masked:
            at = int(torch.randint(len(texts), (1,), generator=generator))
            # Texts of about one length: drawn from a stretch around a random text.
            low = max(0, min(at - 16 * count, len(texts) - 32 * count))
            stretch = min(32 * count, len(texts))
            chosen = torch.randint(stretch, (count,), generator=generator).tolist()
            return hide(*pad([texts[low + i] for i in chosen]), vocabulary_size, generator)

        super().__init__(draw, batch_size, seed)
