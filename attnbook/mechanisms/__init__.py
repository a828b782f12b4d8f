"""What attention is made of."""

from .addressing import Addressed, address
from .attend import Attended, attend
from .dropout import Dropout
from .feed_forward import FeedForward, GatedFeedForward
from .heads import MultiHeadAttention, ProjectedSource
from .masks import causal_mask, masked_softmax, padding_mask
from .norms import LayerNorm, RMSNorm
from .positions import LearnedPositions, NoPositions, SinusoidalPositions, shift_matrix, sinusoids
from .relative import RelativeMultiHeadAttention, relative_index
from .residual import NoResidual, PostNorm, PreNorm, ReZero, Wiring
from .score import SCORES, Score
from .scores import (AdditiveScore, ContentScore, DotScore, GeneralScore, LocationScore, ReducedRankScore, ScaledDotScore,
                     make_score)
from .syntactic import StructuralPositions, SyntacticMultiHeadAttention, tree_depth, tree_distance, tree_offset
from .windows import PredictedPosition, WindowedSource, attend_window, monotonic_position, window_index

__all__ = ["SCORES", "AdditiveScore", "Addressed", "Attended", "ContentScore", "DotScore", "Dropout", "FeedForward",
           "GatedFeedForward", "GeneralScore", "LayerNorm", "LearnedPositions", "LocationScore", "MultiHeadAttention",
           "NoPositions", "NoResidual", "PostNorm", "PreNorm", "PredictedPosition", "ProjectedSource", "RMSNorm", "ReZero",
           "ReducedRankScore", "RelativeMultiHeadAttention", "ScaledDotScore", "Score", "SinusoidalPositions",
           "StructuralPositions", "SyntacticMultiHeadAttention", "WindowedSource", "Wiring", "address", "attend",
           "attend_window", "causal_mask", "make_score", "masked_softmax", "monotonic_position", "padding_mask",
           "relative_index", "shift_matrix", "sinusoids", "tree_depth", "tree_distance", "tree_offset", "window_index"]
