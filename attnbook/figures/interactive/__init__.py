"""Figures to touch, for notebooks and pages: a file of Python and one of JavaScript for each."""

from .attention import (
    alignment_steps,
    mask_painter,
    position_products,
    rotary_scores,
    softmax_of_products,
)
from .decoding import beam_steps, tour_steps
from .figure import InteractiveFigure
from .heads import head_viewer, view_heads
from .memory import addressing_steps, delta_rule_steps, machine_steps

__all__ = [
    "InteractiveFigure",
    "addressing_steps",
    "alignment_steps",
    "beam_steps",
    "delta_rule_steps",
    "head_viewer",
    "machine_steps",
    "mask_painter",
    "position_products",
    "rotary_scores",
    "softmax_of_products",
    "tour_steps",
    "view_heads",
]
