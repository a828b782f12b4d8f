"""Losses that return a sum and a count."""
