"""What attention is made of."""

from .attend import Attended, attend
from .heads import MultiHeadAttention, ProjectedSource
from .masks import causal_mask, masked_softmax, padding_mask
from .scores import (SCORES, AdditiveScore, ContentScore, DotScore, GeneralScore, LocationScore, ReducedRankScore,
                     ScaledDotScore, Score, make_score)

__all__ = ["SCORES", "AdditiveScore", "Attended", "ContentScore", "DotScore", "GeneralScore", "LocationScore",
           "MultiHeadAttention", "ProjectedSource", "ReducedRankScore", "ScaledDotScore", "Score", "attend",
           "causal_mask", "make_score", "masked_softmax", "padding_mask"]
