"""The problems of the book: generators with exact answers, and loaders of real data."""

from .make import make_task
from .sequences.batches import Batch, SequenceBatches, collate
from .sequences.pairs import Pair
from .sequences.task import Task
from .sequences.vocabulary import BOS, EOS, PAD, TOKEN_IDS, UNK, Vocabulary
from .text.characters import (
    CharacterWindows,
    Window,
    character_vocabulary,
    encode_text,
    split_text,
    to_text,
)

__all__ = [
    "BOS",
    "EOS",
    "PAD",
    "UNK",
    "Batch",
    "CharacterWindows",
    "Pair",
    "SequenceBatches",
    "TOKEN_IDS",
    "Task",
    "Vocabulary",
    "Window",
    "character_vocabulary",
    "collate",
    "encode_text",
    "make_task",
    "split_text",
    "to_text",
]
