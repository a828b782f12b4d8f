"""Checks of chapter 9, attention since 2017."""
