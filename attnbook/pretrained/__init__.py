"""Published weights: a folder as it is downloaded becomes a model and a tokenizer, and a model
becomes such a folder.
"""

from .decoders import load_decoder, save_decoder
from .tokenizer import Tokenizer, load_tokenizer

__all__ = ["Tokenizer", "load_decoder", "load_tokenizer", "save_decoder"]
