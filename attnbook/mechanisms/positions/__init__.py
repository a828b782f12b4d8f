"""Positional encodings: absolute, relative, rotary, and in a dependency tree."""

from .absolute import LearnedPositions, NoPositions, SinusoidalPositions, shift_matrix, sinusoids
from .relative import RelativeMultiHeadAttention, relative_index
from .rotary import RotaryPositions, convert_rotary_layout
from .rotary_scaling import NTK, Interpolation, Llama3, YaRN
from .syntactic import (
    StructuralPositions,
    SyntacticMultiHeadAttention,
    tree_depth,
    tree_distance,
    tree_offset,
)

__all__ = [
    "Interpolation",
    "LearnedPositions",
    "Llama3",
    "NTK",
    "NoPositions",
    "RelativeMultiHeadAttention",
    "RotaryPositions",
    "SinusoidalPositions",
    "StructuralPositions",
    "SyntacticMultiHeadAttention",
    "YaRN",
    "convert_rotary_layout",
    "relative_index",
    "shift_matrix",
    "sinusoids",
    "tree_depth",
    "tree_distance",
    "tree_offset",
]
