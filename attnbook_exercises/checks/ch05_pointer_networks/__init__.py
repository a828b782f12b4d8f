"""Checks of chapter 5, pointer networks."""
