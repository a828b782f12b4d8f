"""From scores to context: `attend`, masks, heads, and what is built of them."""

from ...kernels.streaming import PartialContext, merge_contexts, partial_context
from .conversion import group_by_means
from .masks import causal_mask, document_mask, masked_softmax, padding_mask
from .multi_head import MultiHeadAttention
from .picture_attention import PictureAttention, PooledPictureAttention
from .soft_attention import Attended, attend

__all__ = [
    "Attended",
    "MultiHeadAttention",
    "PartialContext",
    "PictureAttention",
    "PooledPictureAttention",
    "attend",
    "causal_mask",
    "document_mask",
    "group_by_means",
    "masked_softmax",
    "merge_contexts",
    "padding_mask",
    "partial_context",
]
