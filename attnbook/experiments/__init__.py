"""Recorded runs: each experiment of the book by name, remade by ``attnbook reproduce NAME``."""

from .registry import EXPERIMENTS, Experiment, reproduce

__all__ = ["EXPERIMENTS", "Experiment", "reproduce"]
