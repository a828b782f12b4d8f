"""Recorded runs on pictures."""
