"""In which precision a model is trained, by name."""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager, nullcontext

import torch

from ...validate import check_choice, require

__all__ = ["PRECISIONS", "autocast", "usable_precision"]

PRECISIONS = {"no": None, "bf16": torch.bfloat16, "fp16": torch.float16}


def usable_precision(precision: str, device: torch.device) -> str:
    """The precision that ``device`` can train in: ``precision``, or "fp16" for "bf16" on an NVIDIA
    GPU without arithmetic for it, such as a T4, with a warning.

    Raises:
        ValueError: for a name that is not in :data:`PRECISIONS`, and for "fp16" on the CPU.
    """
    check_choice("precision", precision, PRECISIONS)
    require(
        precision != "fp16" or device.type != "cpu",
        "precision must be 'no' or 'bf16' on the CPU, which cannot scale gradients, got 'fp16'",
    )
    if (
        precision == "bf16"
        and device.type == "cuda"
        and torch.cuda.get_device_capability(device) < (8, 0)
    ):
        name = torch.cuda.get_device_name(device)
        warnings.warn(f"{name} computes no bf16: it trains in fp16 instead", stacklevel=3)
        return "fp16"
    return precision


def autocast(precision: str, device: torch.device) -> AbstractContextManager:
    """Return the context in which a model and its loss are computed in ``precision``."""
    dtype = PRECISIONS[precision]
    return nullcontext() if dtype is None else torch.autocast(device.type, dtype)
