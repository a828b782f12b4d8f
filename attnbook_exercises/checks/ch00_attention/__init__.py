"""Checks of chapter 0, attention."""
