"""The problems of the book: generators with exact answers and known alignments, and loaders of real data."""

from .batches import Batch, SequenceBatches, collate
from .pairs import Pair
from .text import Task, make_task
from .vocabulary import BOS, EOS, PAD, UNK, Vocabulary

__all__ = ["BOS", "EOS", "PAD", "UNK", "Batch", "Pair", "SequenceBatches", "Task", "Vocabulary", "collate", "make_task"]
