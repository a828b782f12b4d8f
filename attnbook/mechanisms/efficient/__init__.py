"""Attention to fewer keys: windows, blocks, compressed keys, Linformer."""

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
    "monotonic_position",
    "window_index",
]
