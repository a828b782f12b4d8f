"""The Transformer, its blocks and parts, and its relatives."""

from .decoder import decoder_parts, gemma_parts, gpt2_parts
from .encoder_decoder import Transformer
from .language_model import TransformerEncoderModel, TransformerLM
from .parts import Parts, alternating, attention_only, paper_parts
from .syntactic import SyntacticEncoderModel

__all__ = ["SyntacticEncoderModel", "Transformer", "TransformerEncoderModel", "TransformerLM"]
__all__ += ["Parts", "alternating", "attention_only", "paper_parts"]
__all__ += ["decoder_parts", "gemma_parts", "gpt2_parts"]
