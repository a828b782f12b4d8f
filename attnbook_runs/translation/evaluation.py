"""Batches of a task's training pairs, and measures of a model on other pairs of it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from attnbook.decoding import greedy
from attnbook.tasks.sequences.batches import SequenceBatches, collate
from attnbook.tasks.sequences.pairs import Pair
from attnbook.tasks.sequences.task import Task
from attnbook.training import exact_match, token_loss

__all__ = ["exact_share", "greedy_outputs", "pair_loss", "training_batches"]


def training_batches(task: Task, batch_size: int, seed: int) -> SequenceBatches:
    """Batches of the training pairs of a task."""
    return SequenceBatches(task.train, task.source_vocab, task.target_vocab, batch_size, seed=seed)


def greedy_outputs(
    model: nn.Module, pairs: Sequence[Pair], task: Task
) -> tuple[list[list[int]], list[list[int]]]:
    """The greedy outputs for some pairs and their targets, as ids."""
    batch = collate(pairs, task.source_vocab, task.target_vocab)
    outputs = greedy(model, batch.source, batch.lengths, batch.target_out.shape[1] + 2).tokens
    return outputs, [task.target_vocab.encode(pair.target) for pair in pairs]


def exact_share(model: nn.Module, pairs: Sequence[Pair], task: Task) -> float:
    """The share of pairs whose greedy output is the target."""
    return round(exact_match(*greedy_outputs(model, pairs, task)), 4)


@torch.no_grad()
def pair_loss(model: nn.Module, pairs: Sequence[Pair], task: Task) -> float:
    """The mean loss of the target tokens (EOS included), in nats per token."""
    total, count = token_loss(model, collate(pairs, task.source_vocab, task.target_vocab))
    return float(total) / float(count)
