"""From scores to context: `attend`, masks, heads, and the fast paths that never store the m×n
matrix.
"""

from .attend import Attended, attend
from .conversion import group_by_means
from .masks import causal_mask, masked_softmax, padding_mask
from .multi_head import MultiHeadAttention
from .online_softmax import PartialContext, merge_contexts, partial_context
from .paged_cache import PagedCache, PagedSource
from .picture_attention import PictureAttention, PooledPictureAttention
from .source import ProjectedSource
from .window import RollingSource, sliding_window_mask

__all__ = [
    "Attended",
    "MultiHeadAttention",
    "PagedCache",
    "PagedSource",
    "PartialContext",
    "PictureAttention",
    "PooledPictureAttention",
    "ProjectedSource",
    "RollingSource",
    "attend",
    "causal_mask",
    "group_by_means",
    "masked_softmax",
    "merge_contexts",
    "padding_mask",
    "partial_context",
    "sliding_window_mask",
]
