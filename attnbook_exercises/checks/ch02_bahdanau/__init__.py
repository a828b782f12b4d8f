"""Checks of chapter 2, Bahdanau's model."""
