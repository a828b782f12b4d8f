"""Recorded runs: each experiment of the book by name, reproduced by ``attnbook reproduce NAME``."""

from .registry import Experiment, NoSettings, load_experiments, register, reproduce

__all__ = ["Experiment", "NoSettings", "load_experiments", "register", "reproduce"]
