"""Published weights: a folder as downloaded becomes a model and a tokenizer, and the way back."""

from .decoders import load_decoder, save_decoder
from .tokenizer import Tokenizer, load_tokenizer

__all__ = ["Tokenizer", "load_decoder", "load_tokenizer", "save_decoder"]
