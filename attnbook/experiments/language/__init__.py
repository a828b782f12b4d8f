"""Recorded runs on texts."""
