"""Checks of chapter 10, the projects."""
