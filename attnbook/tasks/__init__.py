"""The problems of the book: generators with exact answers and known alignments, and loaders of
real data.
"""

from .sequences.batches import Batch, SequenceBatches, collate
from .sequences.pairs import Pair
from .sequences.task import Task, make_task
from .sequences.vocabulary import BOS, EOS, PAD, TOKEN_IDS, UNK, Vocabulary

__all__ = [
    "BOS",
    "EOS",
    "PAD",
    "UNK",
    "Batch",
    "Pair",
    "SequenceBatches",
    "TOKEN_IDS",
    "Task",
    "Vocabulary",
    "collate",
    "make_task",
]
