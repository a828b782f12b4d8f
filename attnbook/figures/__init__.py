"""Figures from plain arrays: nothing here knows a model."""

from .curves import bars, curves, training
from .diagrams import encoder_decoder
from .style import CMAP, COLORS, LINES, style
from .weights import alignment, text_heat, word_arcs

__all__ = ["CMAP", "COLORS", "LINES", "alignment", "bars", "curves", "encoder_decoder", "style", "text_heat",
           "training", "word_arcs"]
