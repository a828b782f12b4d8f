"""Metrics of sequences and of generated pictures, and the landscape of a loss."""
