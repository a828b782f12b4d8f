"""Positional encodings: absolute, relative, and in a dependency tree."""

from .absolute import LearnedPositions, NoPositions, SinusoidalPositions, shift_matrix, sinusoids
from .relative import RelativeMultiHeadAttention, relative_index
from .syntactic import (
    StructuralPositions,
    SyntacticMultiHeadAttention,
    tree_depth,
    tree_distance,
    tree_offset,
)

__all__ = [
    "LearnedPositions",
    "NoPositions",
    "RelativeMultiHeadAttention",
    "SinusoidalPositions",
    "StructuralPositions",
    "SyntacticMultiHeadAttention",
    "relative_index",
    "shift_matrix",
    "sinusoids",
    "tree_depth",
    "tree_distance",
    "tree_offset",
]
