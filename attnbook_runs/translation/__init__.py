"""Recorded runs on sequence pairs."""
