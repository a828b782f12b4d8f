"""Attention to fewer keys: windows, blocks, sparse patterns, compressed keys, Linformer."""

from .block_patterns import bigbird_mask, receptive_field
from .compressed import LengthProjection, LinformerAttention, MemoryCompressedAttention
from .local_blocks import LocalAttention
from .windows import (
    PredictedPosition,
    WindowedSource,
    attend_window,
    monotonic_position,
    window_index,
)

__all__ = [
    "LengthProjection",
    "LinformerAttention",
    "LocalAttention",
    "MemoryCompressedAttention",
    "PredictedPosition",
    "WindowedSource",
    "attend_window",
    "bigbird_mask",
    "monotonic_position",
    "receptive_field",
    "window_index",
]
