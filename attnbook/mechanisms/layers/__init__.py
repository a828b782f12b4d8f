"""What stands beside attention: embeddings, norms, residual connections, feed-forward layers."""

from ...kernels.layers import Dropout
from .conditional_norm import ConditionalBatchNorm
from .feed_forward import FeedForward, GatedFeedForward
from .mixture_of_experts import MixtureOfExperts, Switch, balance_loss
from .norms import BatchNorm, LayerNorm, RMSNorm
from .residual import NoResidual, PostNorm, PreNorm, ResidualConnection, ReZero, SandwichNorm
from .spectral_norm import add_spectral_norm, largest_singular_values
from .temporal import AttentionBlock, CausalConvolution, DenseBlock, TCBlock

__all__ = ["AttentionBlock", "BatchNorm", "CausalConvolution", "ConditionalBatchNorm", "DenseBlock"]
__all__ += ["Dropout", "FeedForward", "GatedFeedForward", "LayerNorm", "MixtureOfExperts"]
__all__ += ["NoResidual", "PostNorm", "PreNorm", "RMSNorm", "ReZero", "ResidualConnection"]
__all__ += ["SandwichNorm", "Switch", "TCBlock", "add_spectral_norm", "balance_loss"]
__all__ += ["largest_singular_values"]
