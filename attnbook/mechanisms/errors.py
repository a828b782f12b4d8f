"""Checks of arguments, so that every mechanism reports bad input in the same words."""

from __future__ import annotations

import torch

__all__ = ["require", "check_tensor", "check_mask", "check_positive", "check_whole", "common_shape"]


def require(condition: bool, message: str) -> None:
    """Raise ``ValueError(message)`` unless ``condition`` holds."""
    if not condition:
        raise ValueError(message)


def check_positive(name: str, value: int) -> int:
    """Return ``value``, a whole number of at least 1, or raise a ``ValueError`` that names it."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}")
    return value


def check_tensor(name: str, value: object, *, width: int | None = None) -> torch.Tensor:
    """Return ``value``, a floating point tensor ``(…, length, width)``, or raise a ``ValueError``."""
    if not isinstance(value, torch.Tensor):
        raise ValueError(f"{name} must be a tensor (…, length, width), got {type(value).__name__}")
    if value.dim() < 2:
        raise ValueError(f"{name} must have at least two dimensions (…, length, width), got shape {tuple(value.shape)}")
    if not value.is_floating_point():
        raise ValueError(f"{name} must hold floating point numbers, got {value.dtype}")
    if width is not None and value.shape[-1] != width:
        raise ValueError(f"{name} must have width {width} (its last dimension), got shape {tuple(value.shape)}")
    return value


def check_whole(name: str, value: object) -> torch.Tensor:
    """Return ``value``, a tensor of whole numbers, or raise a ``ValueError``."""
    if not isinstance(value, torch.Tensor) or value.is_floating_point() or value.is_complex() or value.dtype == torch.bool:
        came = value.dtype if isinstance(value, torch.Tensor) else type(value).__name__
        raise ValueError(f"{name} must be a tensor of whole numbers, got {came}")
    return value


def check_mask(mask: object, shape: tuple[int, ...]) -> torch.Tensor | None:
    """Return ``mask`` (boolean, broadcastable to ``shape``; True = may attend), or raise a ``ValueError``."""
    if mask is None:
        return None
    if not isinstance(mask, torch.Tensor) or mask.dtype != torch.bool:
        came = mask.dtype if isinstance(mask, torch.Tensor) else type(mask).__name__
        raise ValueError(f"mask must be a boolean tensor (True = may attend), got {came}")
    if mask.dim() > len(shape) or any(a not in (1, b) for a, b in zip(reversed(mask.shape), reversed(shape))):
        raise ValueError(
            f"mask must be broadcastable to (…, queries, keys) = {tuple(shape)}, got shape {tuple(mask.shape)}"
            + ("; a padding mask (batch, keys) needs a dimension for the queries: mask[:, None, :]"
               if mask.dim() == 2 and len(shape) == 3 else "")
        )
    return mask


def common_shape(*shapes: torch.Size) -> torch.Size:
    """What ``torch.broadcast_shapes`` gives, without its cost where all are equal: a decoder asks at every step."""
    return shapes[0] if all(shape == shapes[0] for shape in shapes) else torch.broadcast_shapes(*shapes)
