"""The Transformer, its blocks and parts, and its relatives."""

from .encoder_decoder import Transformer
from .language_model import TransformerEncoderModel, TransformerLM
from .parts import Parts, alternating, paper_parts
from .syntactic import SyntacticEncoderModel

__all__ = [
    "Parts",
    "SyntacticEncoderModel",
    "Transformer",
    "TransformerEncoderModel",
    "TransformerLM",
    "alternating",
    "paper_parts",
]
