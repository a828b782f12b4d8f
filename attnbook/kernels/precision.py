"""In which dtype sums are kept, also under autocast."""

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import Tensor

__all__ = [
    "autocast_as",
    "autocast_state",
    "finest_dtype",
    "under_autocast",
    "wide_dtype",
    "wide_product",
    "without_autocast",
]


def wide_dtype(*tensors: Tensor) -> torch.dtype:
    """Return float64 if any of the tensors is float64, else float32: no sum is kept in less."""
    for tensor in tensors:
        if tensor.dtype == torch.float64:
            return torch.float64
    return torch.float32


def finest_dtype(device: torch.device) -> torch.dtype:
    """Return the dtype in which positions become angles: float64, which Apple's GPUs lack."""
    return torch.float32 if device.type == "mps" else torch.float64


def without_autocast(tensor: Tensor) -> AbstractContextManager:
    """Return a context in which products are taken in the dtype that they are given in."""
    kind = tensor.device.type
    return torch.autocast(kind, enabled=False) if under_autocast(tensor) else nullcontext()


def under_autocast(tensor: Tensor) -> bool:
    """Return whether autocast chooses the dtype of products on the device of ``tensor``."""
    kind = tensor.device.type
    return kind != "meta" and torch.is_autocast_enabled(kind)  # meta: shapes without numbers


def wide_product(a: Tensor, b: Tensor) -> Tensor:
    """Return ``a @ b``, in float32 at least: the scores of vectors that float16 holds go beyond its
    65,504, and a softmax needs their differences.
    """
    if a.dtype.itemsize >= 4 and not under_autocast(a):
        return a @ b
    wide = wide_dtype(a, b)
    with without_autocast(a):
        return a.to(wide) @ b.to(wide)


def autocast_state(tensor: Tensor) -> tuple[str, bool, torch.dtype]:
    """Return what :func:`autocast_as` takes, so that a backward pass can recompute as the forward
    pass computed.
    """
    kind = tensor.device.type
    return kind, torch.is_autocast_enabled(kind), torch.get_autocast_dtype(kind)


def autocast_as(state: tuple[str, bool, torch.dtype]) -> AbstractContextManager:
    """Return a context with the autocast of ``state``."""
    kind, enabled, dtype = state
    return torch.autocast(kind, dtype=dtype) if enabled else nullcontext()
