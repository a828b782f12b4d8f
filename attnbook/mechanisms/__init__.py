"""What attention is made of."""

from .attention.attend import Attended, attend
from .attention.masks import causal_mask, masked_softmax, padding_mask
from .attention.multi_head import MultiHeadAttention, ProjectedSource
from .attention.picture_attention import PictureAttention, PooledPictureAttention
from .efficient.compressed import LengthProjection, LinformerAttention, MemoryCompressedAttention
from .efficient.local_blocks import LocalAttention
from .efficient.windows import (
    PredictedPosition,
    WindowedSource,
    attend_window,
    monotonic_position,
    window_index,
)
from .layers.conditional_norm import ConditionalBatchNorm
from .layers.dropout import Dropout
from .layers.feed_forward import FeedForward, GatedFeedForward
from .layers.mixture_of_experts import MixtureOfExperts, Switch, balance_loss
from .layers.norms import BatchNorm, LayerNorm, RMSNorm
from .layers.residual import NoResidual, PostNorm, PreNorm, ReZero, Wiring
from .layers.spectral_norm import add_spectral_norm, largest_singular_values
from .layers.temporal import AttentionBlock, CausalConvolution, DenseBlock, TCBlock
from .memory.addressing import Addressed, address
from .positions.absolute import (
    LearnedPositions,
    NoPositions,
    SinusoidalPositions,
    shift_matrix,
    sinusoids,
)
from .positions.relative import RelativeMultiHeadAttention, relative_index
from .positions.syntactic import (
    StructuralPositions,
    SyntacticMultiHeadAttention,
    tree_depth,
    tree_distance,
    tree_offset,
)
from .scores.base import SCORES, Score
from .scores.functions import (
    AdditiveScore,
    ContentScore,
    DotScore,
    GeneralScore,
    LocationScore,
    ReducedRankScore,
    ScaledDotScore,
    make_score,
)

__all__ = [
    "SCORES",
    "AdditiveScore",
    "Addressed",
    "Attended",
    "AttentionBlock",
    "BatchNorm",
    "CausalConvolution",
    "ConditionalBatchNorm",
    "ContentScore",
    "DenseBlock",
    "DotScore",
    "Dropout",
    "FeedForward",
    "GatedFeedForward",
    "GeneralScore",
    "LayerNorm",
    "LearnedPositions",
    "LengthProjection",
    "LinformerAttention",
    "LocalAttention",
    "LocationScore",
    "MemoryCompressedAttention",
    "MixtureOfExperts",
    "MultiHeadAttention",
    "NoPositions",
    "NoResidual",
    "PictureAttention",
    "PooledPictureAttention",
    "PostNorm",
    "PreNorm",
    "PredictedPosition",
    "ProjectedSource",
    "RMSNorm",
    "ReZero",
    "ReducedRankScore",
    "RelativeMultiHeadAttention",
    "ScaledDotScore",
    "Score",
    "SinusoidalPositions",
    "StructuralPositions",
    "Switch",
    "SyntacticMultiHeadAttention",
    "TCBlock",
    "WindowedSource",
    "Wiring",
    "add_spectral_norm",
    "address",
    "attend",
    "attend_window",
    "balance_loss",
    "causal_mask",
    "largest_singular_values",
    "make_score",
    "masked_softmax",
    "monotonic_position",
    "padding_mask",
    "relative_index",
    "shift_matrix",
    "sinusoids",
    "tree_depth",
    "tree_distance",
    "tree_offset",
    "window_index",
]
