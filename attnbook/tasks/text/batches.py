"""Pairs to padded tensors, in an order that depends on the seed and the step alone."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

import torch

from ..translation.pairs import Pair, check_step
from .vocabulary import BOS, EOS, PAD, Vocabulary


class Batch(NamedTuple):
    """B pairs as CPU tensors of int64, batch first, padded with PAD=0.

    source      (B, n)  source tokens, without BOS or EOS: column i is token i of the source
    lengths     (B,)    how many tokens of each source are real, at least 1
    target_in   (B, m)  BOS, then the target: what the decoder reads
    target_out  (B, m)  the target, then EOS: what it should say
    """

    source: torch.Tensor
    lengths: torch.Tensor
    target_in: torch.Tensor
    target_out: torch.Tensor


def collate(pairs: Sequence[Pair], source_vocab: Vocabulary, target_vocab: Vocabulary) -> Batch:
    """One batch of pairs.

    Raises ValueError for no pairs, an empty source, or unknown tokens (named).
    """
    return _pad(*_encode(pairs, source_vocab, target_vocab))


def _encode(pairs: Sequence[Pair], source_vocab: Vocabulary, target_vocab: Vocabulary):
    if not pairs:
        raise ValueError("pairs must hold at least one pair, got none")
    sources, targets = [], []
    for index, pair in enumerate(pairs):
        if not pair.source:
            raise ValueError(
                f"pairs[{index}] has an empty source; every source needs at least one token"
            )
        sources.append(source_vocab.encode(pair.source))
        targets.append(target_vocab.encode(pair.target))
    return sources, targets


def _pad(sources: list[list[int]], targets: list[list[int]]) -> Batch:
    n, m = max(map(len, sources)), max(map(len, targets)) + 1
    return Batch(
        torch.tensor([ids + [PAD] * (n - len(ids)) for ids in sources]),
        torch.tensor([len(ids) for ids in sources]),
        torch.tensor([[BOS, *ids] + [PAD] * (m - 1 - len(ids)) for ids in targets]),
        torch.tensor([[*ids, EOS] + [PAD] * (m - 1 - len(ids)) for ids in targets]),
    )


class SequenceBatches:
    """Endless batches of pairs: `batch(step)` depends on the arguments and the step, not on earlier
    calls.

    Each epoch shows every pair once, in an order of its own. `len()` is the number of batches of an
    epoch; its last batch is smaller when batch_size does not divide the number of pairs.

    pairs       what to learn from
    batch_size  pairs a batch
    seed        of the orders
    bucket      put sources of like length together (less padding): each stretch of 64 batches of
                the shuffled pairs is sorted by length before it is cut into batches, which are then
                shuffled

    Raises ValueError for no pairs, an empty source, unknown tokens, batch_size < 1 or step < 0.
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
        if not isinstance(batch_size, int) or batch_size < 1:
            raise ValueError(f"batch_size must be an integer >= 1, got {batch_size!r}")
        self._sources, self._targets = _encode(pairs, source_vocab, target_vocab)
        self.batch_size, self.seed, self.bucket = batch_size, seed, bucket
        self._epoch: tuple[int, list[list[int]]] | None = None

    def __len__(self) -> int:
        return -(-len(self._sources) // self.batch_size)

    def batch(self, step: int) -> Batch:
        """The batch of a step, counted from 0 over all epochs."""
        return _pad(*zip(*[(self._sources[i], self._targets[i]) for i in self.indices(step)]))

    def indices(self, step: int) -> list[int]:
        """Which pairs make the batch of a step."""
        check_step(step)
        epoch, position = divmod(step, len(self))
        # a memory of the last epoch, for speed only
        if self._epoch is None or self._epoch[0] != epoch:
            self._epoch = epoch, self._order(epoch)
        return self._epoch[1][position]

    def _order(self, epoch: int) -> list[list[int]]:
        # text seeds are hashed with SHA-512: the same everywhere
        generator = random.Random(f"{self.seed}/{epoch}")
        order = list(range(len(self._sources)))
        generator.shuffle(order)
        if self.bucket:
            stretch = self.STRETCH * self.batch_size
            order = [
                index
                for start in range(0, len(order), stretch)
                for index in sorted(order[start : start + stretch], key=self._length)
            ]
        batches = [
            order[start : start + self.batch_size]
            for start in range(0, len(order), self.batch_size)
        ]
        if self.bucket:
            generator.shuffle(batches)
        return batches

    def _length(self, index: int) -> tuple[int, int]:
        return len(self._sources[index]), len(self._targets[index])
