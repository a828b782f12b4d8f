"""Checks of chapter 6, the Transformer."""
