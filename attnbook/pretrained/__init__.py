"""Published weights: a folder as downloaded becomes a model and a tokenizer, and the way back."""

from .adapters import load_lora, save_lora
from .decoders import load_decoder, save_decoder
from .tokenizer import Tokenizer, load_tokenizer

__all__ = ["Tokenizer", "load_decoder", "load_lora", "load_tokenizer", "save_decoder", "save_lora"]
