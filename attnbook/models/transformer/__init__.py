"""The Transformer, its blocks and parts, and its relatives."""

from .attention_only_model import attention_only
from .decoder import decoder_parts, gemma_parts, gpt2_parts
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
    "attention_only",
    "decoder_parts",
    "gemma_parts",
    "gpt2_parts",
    "paper_parts",
]
