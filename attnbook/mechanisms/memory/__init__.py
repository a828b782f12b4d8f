"""Addressing of an external memory, as in the neural Turing machine."""
