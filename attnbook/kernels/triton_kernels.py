"""Whether kernels in Triton are to be used."""

import os
from importlib.util import find_spec

import torch
from torch import Tensor

from ..validate import is_transforming
from .double_backward import under_double_backward

__all__ = ["use_triton"]


def use_triton(*tensors: Tensor) -> bool:
    """Whether the kernels for CUDA compute with these tensors.

    They are for who asks, by ATTNBOOK_TRITON=1. On an H200 they gave the numbers of the other path
    in 1/2 to 1/7 of its time forward and in 1/1.2 to 1/4 of it with the backward pass, in 1/2 to
    1/44 of its memory (``benchmarks/additive_triton.py``); for GPUs from sm_75 on they
    have been compiled, and under Triton's interpreter (TRITON_INTERPRET=1) they run on a CPU.
    """
    if os.environ.get("ATTNBOOK_TRITON") != "1":
        return False
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    return (
        # a subclass, such as that of a transform or of a simulated device, has no memory of its
        # own, and CUDA launches no grid of no blocks
        all(type(t) in (Tensor, torch.nn.Parameter) and t.numel() for t in tensors)
        and all(t.is_cuda or interpreted for t in tensors)
        and not (under_double_backward() or is_transforming() or torch.compiler.is_compiling())
        and find_spec("triton") is not None
    )
