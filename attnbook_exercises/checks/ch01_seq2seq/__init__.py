"""Checks of chapter 1, sequence to sequence."""
