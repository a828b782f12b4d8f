"""Pointer networks, and the fixed dictionaries that they are compared with."""

from .fixed_dictionary import FixedDictionary
from .network import PointerNetwork

__all__ = ["FixedDictionary", "PointerNetwork"]
