"""Figures from plain arrays, drawn or to touch: nothing here knows a model."""

from ..extras import extra

with extra("book", "drawing"):
    from .diagrams.addressing import addressing_flow, memory_machine, shift_kernels
    from .diagrams.encoder_decoder import encoder_decoder
    from .diagrams.receptive_field import layers_back
    from .diagrams.transformer_blocks import draw_block, draw_model
    from .episodes import episode_rows
    from .interactive import (
        InteractiveFigure,
        addressing_steps,
        alignment_steps,
        beam_steps,
        delta_rule_steps,
        head_viewer,
        machine_steps,
        mask_painter,
        position_products,
        rotary_scores,
        softmax_of_products,
        tour_steps,
        view_heads,
    )
    from .legends import legend
    from .line_plots import curves, training
    from .plane import plane_walk, pointer_steps, tour_ring, triangulation
    from .styling import CMAP, COLORS, LINES, style
    from .weights.alignment import alignment, text_heat, word_arcs
    from .weights.captioned_pictures import picture, picture_words
    from .weights.documents import document_heat, memory_hops
    from .weights.heads import bit_panels, head_weights
    from .weights.staircase import word_staircase
    from .weights.trees import dependency_tree

__all__ = [
    "CMAP",
    "COLORS",
    "InteractiveFigure",
    "LINES",
    "addressing_flow",
    "addressing_steps",
    "alignment",
    "alignment_steps",
    "beam_steps",
    "bit_panels",
    "curves",
    "delta_rule_steps",
    "dependency_tree",
    "document_heat",
    "draw_block",
    "draw_model",
    "encoder_decoder",
    "episode_rows",
    "head_viewer",
    "head_weights",
    "layers_back",
    "legend",
    "machine_steps",
    "mask_painter",
    "memory_hops",
    "memory_machine",
    "picture",
    "picture_words",
    "plane_walk",
    "pointer_steps",
    "position_products",
    "rotary_scores",
    "shift_kernels",
    "softmax_of_products",
    "style",
    "text_heat",
    "tour_ring",
    "tour_steps",
    "training",
    "triangulation",
    "view_heads",
    "word_arcs",
    "word_staircase",
]
