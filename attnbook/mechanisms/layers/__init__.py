"""What stands beside attention: embeddings, norms, residual connections, feed-forward layers."""

from ...kernels.layers import Dropout
from . import low_rank, mixture_of_experts, norms, residual
from .conditional_norm import ConditionalBatchNorm
from .feed_forward import FeedForward, GatedFeedForward
from .low_rank import *  # noqa: F403
from .mixture_of_experts import *  # noqa: F403
from .norms import *  # noqa: F403
from .residual import *  # noqa: F403
from .spectral_norm import add_spectral_norm, largest_singular_values
from .temporal import AttentionBlock, CausalConvolution, DenseBlock, TCBlock

__all__ = ["AttentionBlock", "CausalConvolution", "ConditionalBatchNorm", "DenseBlock", "Dropout"]
__all__ += ["FeedForward", "GatedFeedForward", "TCBlock"]
__all__ += ["add_spectral_norm", "largest_singular_values"]
__all__ += low_rank.__all__
__all__ += mixture_of_experts.__all__
__all__ += norms.__all__
__all__ += residual.__all__
