"""Pairs to padded tensors, in an order that depends on the seed and the step alone."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ...validate import require
from ..endless_batches import EpochBatches, drawn
from .pairs import Pair
from .vocabulary import BOS, EOS, PAD, Vocabulary


class Batch(NamedTuple):
    """B pairs as CPU tensors of int64, batch first, padded after the lengths, here with PAD=0.

    Attributes:
        source: (B, n) source tokens, without BOS or EOS: column i is token i of the source
        lengths: (B,) how many tokens of each source are real, at least 1
        target_in: (B, m) BOS, then the target: what the decoder reads
        target_out: (B, m) the target, then EOS: what it predicts
        target_lengths: (B,) how many tokens of target_out are real, its EOS among them; None where
            all are
    """

    source: Tensor
    lengths: Tensor
    target_in: Tensor
    target_out: Tensor
    target_lengths: Tensor | None = None


def collate(pairs: Sequence[Pair], source_vocab: Vocabulary, target_vocab: Vocabulary) -> Batch:
    """One batch of pairs; a ValueError lists unknown tokens."""
    return pad_pairs(*_encode(pairs, source_vocab, target_vocab))


def _encode(pairs: Sequence[Pair], source_vocab: Vocabulary, target_vocab: Vocabulary):
    require(len(pairs) > 0, "pairs must hold at least one pair, got none")
    for index, pair in enumerate(pairs):
        require(len(pair.source) > 0, f"pairs[{index}] must have a source, got an empty one")
    sources = [source_vocab.encode(pair.source) for pair in pairs]
    return sources, [target_vocab.encode(pair.target) for pair in pairs]


@drawn
def pad_rows(rows: Sequence[Sequence[int]], fill: int = PAD) -> Tensor:
    """Rows of different lengths as ``(B, n)``, with ``fill`` after their ends."""
    width = max(map(len, rows))
    return torch.tensor([[*row, *[fill] * (width - len(row))] for row in rows])


@drawn
def pad_pairs(sources: Sequence[list[int]], targets: Sequence[list[int]]) -> Batch:
    """One batch of encoded pairs."""
    return Batch(
        pad_rows(sources),
        torch.tensor([len(ids) for ids in sources]),
        pad_rows([[BOS, *ids] for ids in targets]),
        pad_rows([[*ids, EOS] for ids in targets]),
        torch.tensor([len(ids) + 1 for ids in targets]),
    )


class SequenceBatches(EpochBatches[Batch]):
    """Endless batches of pairs.

    Args:
        bucket: put sources of like length together (less padding): each stretch of 64 batches of
            the shuffled pairs is sorted by length before it is cut into batches, which are then
            shuffled.
    """

    STRETCH = 64

    def __init__(
        self,
        pairs: Sequence[Pair],
        source_vocab: Vocabulary,
        target_vocab: Vocabulary,
        batch_size: int,
        seed: int = 0,
        bucket: bool = True,
    ):
        sources, targets = _encode(pairs, source_vocab, target_vocab)
        super().__init__(
            lambda indices: pad_pairs(*zip(*((sources[i], targets[i]) for i in indices))),
            len(sources),
            batch_size,
            seed,
            length=(lambda i: (len(sources[i]), len(targets[i]))) if bucket else None,
            stretch=self.STRETCH,
            shuffle_batches=bucket,
        )
