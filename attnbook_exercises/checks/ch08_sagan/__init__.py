"""Checks of chapter 8, self-attention GANs."""
