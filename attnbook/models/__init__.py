"""Whole systems, one file each."""

from .bahdanau import Bahdanau
from .seq2seq import Seq2Seq

__all__ = ["Bahdanau", "Seq2Seq"]
