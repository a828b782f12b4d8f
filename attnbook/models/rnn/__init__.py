"""Recurrent models, from sequence to sequence to the LSTMN."""

from .bahdanau import Bahdanau
from .lstm_language_model import LSTMLanguageModel
from .lstmn import LSTMN
from .luong import Luong
from .seq2seq import Seq2Seq

__all__ = ["Bahdanau", "LSTMLanguageModel", "LSTMN", "Luong", "Seq2Seq"]
