"""Pointer networks, and the fixed dictionaries that they are compared with."""
