"""Diagrams of architectures."""
