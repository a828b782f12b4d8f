"""Checks of chapter 7, SNAIL."""
