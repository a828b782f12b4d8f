"""Checks of chapter 4, neural Turing machines."""
