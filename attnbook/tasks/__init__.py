"""The problems of the book: generators with exact answers and known alignments, and loaders of
real data.
"""

from .text.batches import Batch, SequenceBatches, collate
from .text.vocabulary import BOS, EOS, PAD, UNK, Vocabulary
from .translation.pairs import Pair
from .translation.task import Task, make_task

__all__ = [
    "BOS",
    "EOS",
    "PAD",
    "UNK",
    "Batch",
    "Pair",
    "SequenceBatches",
    "Task",
    "Vocabulary",
    "collate",
    "make_task",
]
