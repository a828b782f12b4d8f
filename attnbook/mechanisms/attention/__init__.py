"""From scores to context: `attend`, masks, heads, and the fast paths that never store the m×n
matrix.
"""

from .attend import Attended, attend
from .masks import causal_mask, masked_softmax, padding_mask
from .multi_head import MultiHeadAttention, ProjectedSource
from .picture_attention import PictureAttention, PooledPictureAttention

__all__ = [
    "Attended",
    "MultiHeadAttention",
    "PictureAttention",
    "PooledPictureAttention",
    "ProjectedSource",
    "attend",
    "causal_mask",
    "masked_softmax",
    "padding_mask",
]
