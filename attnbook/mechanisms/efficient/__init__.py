"""Attention to fewer keys: windows, blocks, sparse patterns, compressed keys, Linformer,
latent keys."""

from .block_patterns import bigbird_mask, receptive_field
from .compressed import LengthProjection, LinformerAttention, MemoryCompressedAttention
from .latent import LatentAttention, LatentSource, cache_bytes
from .local import (
    PredictedPosition,
    WindowedSource,
    attend_window,
    monotonic_position,
    window_index,
)
from .local_blocks import LocalAttention

__all__ = [
    "LatentAttention",
    "LatentSource",
    "LengthProjection",
    "LinformerAttention",
    "LocalAttention",
    "MemoryCompressedAttention",
    "PredictedPosition",
    "WindowedSource",
    "attend_window",
    "bigbird_mask",
    "cache_bytes",
    "monotonic_position",
    "receptive_field",
    "window_index",
]
