"""Checks of chapter 3, the family of attention mechanisms."""
