"""Positional encodings: absolute, relative, rotary, as a bias, in a dependency tree."""

from .absolute import LearnedPositions, NoPositions, SinusoidalPositions, shift_matrix, sinusoids
from .alibi import ALiBi, alibi_slopes
from .relative import RelativeMultiHeadAttention, relative_index
from .rotary import RotaryPositions, convert_rotary_layout
from .rotary_scaling import NTK, DynamicNTK, Interpolation, Llama3, LongRoPE, YaRN
from .syntactic import (
    StructuralPositions,
    SyntacticMultiHeadAttention,
    tree_depth,
    tree_distance,
    tree_offset,
)

__all__ = [
    "ALiBi",
    "DynamicNTK",
    "Interpolation",
    "LearnedPositions",
    "Llama3",
    "LongRoPE",
    "NTK",
    "NoPositions",
    "RelativeMultiHeadAttention",
    "RotaryPositions",
    "SinusoidalPositions",
    "StructuralPositions",
    "SyntacticMultiHeadAttention",
    "YaRN",
    "alibi_slopes",
    "convert_rotary_layout",
    "relative_index",
    "shift_matrix",
    "sinusoids",
    "tree_depth",
    "tree_distance",
    "tree_offset",
]
