"""Models that read documents and stories."""

from .feed_forward_attention import FeedForwardAttention
from .hierarchical import HierarchicalAttention
from .memory_network import MemoryNetwork

__all__ = ["FeedForwardAttention", "HierarchicalAttention", "MemoryNetwork"]
