"""What attention is made of."""

from .addressing import Addressed, address
from .attend import Attended, attend
from .compressed import LengthProjection, LinformerAttention, MemoryCompressedAttention
from .conditional_norm import ConditionalBatchNorm
from .dropout import Dropout
from .experts import MixtureOfExperts, Switch, balance_loss
from .feed_forward import FeedForward, GatedFeedForward
from .heads import MultiHeadAttention, ProjectedSource
from .local import LocalAttention
from .masks import causal_mask, masked_softmax, padding_mask
from .norms import BatchNorm, LayerNorm, RMSNorm
from .picture_attention import PictureAttention, PooledPictureAttention
from .positions import LearnedPositions, NoPositions, SinusoidalPositions, shift_matrix, sinusoids
from .relative import RelativeMultiHeadAttention, relative_index
from .residual import NoResidual, PostNorm, PreNorm, ReZero, Wiring
from .score import SCORES, Score
from .scores import (AdditiveScore, ContentScore, DotScore, GeneralScore, LocationScore, ReducedRankScore, ScaledDotScore,
                     make_score)
from .spectral import add_spectral_norm, largest_singular_values
from .syntactic import StructuralPositions, SyntacticMultiHeadAttention, tree_depth, tree_distance, tree_offset
from .temporal import AttentionBlock, CausalConvolution, DenseBlock, TCBlock
from .windows import PredictedPosition, WindowedSource, attend_window, monotonic_position, window_index

__all__ = ["SCORES", "AdditiveScore", "Addressed", "Attended", "AttentionBlock", "BatchNorm", "CausalConvolution", "ConditionalBatchNorm", "ContentScore",
           "DenseBlock", "DotScore", "Dropout", "FeedForward", "GatedFeedForward", "GeneralScore", "LayerNorm", "LearnedPositions",
           "LengthProjection", "LinformerAttention", "LocalAttention", "LocationScore", "MemoryCompressedAttention",
           "MixtureOfExperts", "MultiHeadAttention", "NoPositions", "NoResidual", "PictureAttention",
           "PooledPictureAttention", "PostNorm", "PreNorm", "PredictedPosition", "ProjectedSource", "RMSNorm", "ReZero",
           "ReducedRankScore", "RelativeMultiHeadAttention", "ScaledDotScore", "Score", "SinusoidalPositions",
           "StructuralPositions", "Switch", "SyntacticMultiHeadAttention", "TCBlock", "WindowedSource", "Wiring", "add_spectral_norm",
           "address", "attend", "attend_window", "balance_loss", "causal_mask", "largest_singular_values", "make_score",
           "masked_softmax", "monotonic_position", "padding_mask", "relative_index", "shift_matrix", "sinusoids",
           "tree_depth", "tree_distance", "tree_offset", "window_index"]
