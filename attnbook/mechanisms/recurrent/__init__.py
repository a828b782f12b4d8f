"""Attention as a recurrent network: a state of fixed size in place of a cache that grows."""

from .linear import RecurrentOutput, linear_attention, positive_features, unit_features
from .mamba2 import Mamba2Mixer
from .multi_head import LINEAR_ATTENTIONS, LinearAttention, RecurrentState
from .short_convolution import ShortConvolution

__all__ = ["LINEAR_ATTENTIONS", "LinearAttention", "Mamba2Mixer", "RecurrentOutput"]
__all__ += ["RecurrentState", "ShortConvolution", "linear_attention", "positive_features"]
__all__ += ["unit_features"]
