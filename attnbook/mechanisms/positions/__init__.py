"""Positional encodings: absolute, relative, and in a dependency tree."""
