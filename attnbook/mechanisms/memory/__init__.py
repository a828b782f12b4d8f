"""Addressing of an external memory, as in the neural Turing machine."""

from .addressing import Addressed, address

__all__ = ["Addressed", "address"]
