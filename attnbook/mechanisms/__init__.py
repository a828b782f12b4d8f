"""What attention is made of."""

from .addressing import Addressed, address
from .attend import Attended, attend
from .heads import MultiHeadAttention, ProjectedSource
from .masks import causal_mask, masked_softmax, padding_mask
from .score import SCORES, Score
from .scores import (AdditiveScore, ContentScore, DotScore, GeneralScore, LocationScore, ReducedRankScore, ScaledDotScore,
                     make_score)
from .windows import PredictedPosition, WindowedSource, attend_window, monotonic_position, window_index

__all__ = ["SCORES", "AdditiveScore", "Addressed", "Attended", "ContentScore", "DotScore", "GeneralScore", "LocationScore",
           "MultiHeadAttention", "PredictedPosition", "ProjectedSource", "ReducedRankScore", "ScaledDotScore", "Score",
           "WindowedSource", "address", "attend", "attend_window", "causal_mask", "make_score", "masked_softmax", "monotonic_position", "padding_mask", "window_index"]
