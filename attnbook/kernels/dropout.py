"""Dropout that a CPU can afford: one random word of 64 bits decides over four elements."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from ..validate import check_number, is_transforming

__all__ = ["Dropout"]

_LEVELS = 2**16


class Dropout(nn.Module):
    """Set elements to zero at random while training, and scale the others so that the mean stays.

    ``y = x ⊙ b / q``,  b_i = 1 with probability q = 1 − p, else 0, drawn anew for every element;
    ``y = x`` in evaluation.

    PyTorch draws the b_i on a CPU one after the other, which takes a third of the training step of
    a small Transformer. Here 16 bits of a random word are compared with a threshold, so that q is
    the multiple of 2⁻¹⁶ nearest to 1 − p, and it is this q that ``y`` is divided by: the mean is
    exact. Elsewhere than on a CPU, where PyTorch compiles and under ``torch.func``, this is
    ``torch.nn.functional.dropout``. The random numbers are those of PyTorch's generator: a seed
    repeats them.

    Args:
        p: share of the elements that are set to zero, 0 ≤ p < 1.

    Attributes:
        keep: q, exactly as it is used on a CPU.

    Shapes: any → the same; floating point.

    Source: Srivastava et al. 2014; scaled while training, not afterwards.
    """

    def __init__(self, p: float = 0.1) -> None:
        super().__init__()
        self.p = float(check_number("p", p, least=0, below=1))

    @property
    def keep(self) -> float:
        return max(1, round((1 - self.p) * _LEVELS)) / _LEVELS

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.training or self.p == 0:
            return x
        if x.device.type != "cpu" or torch.compiler.is_compiling() or is_transforming():
            return F.dropout(x, self.p)
        return _Drop.apply(x, self.keep)

    def extra_repr(self) -> str:
        return f"p={self.p}"


class _Drop(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, keep):
        words = torch.empty(-(-x.numel() // 4), dtype=torch.int64, device=x.device).random_(
            -(2**63), None
        )
        bits = words.view(torch.int16)[: x.numel()].view(x.shape)  # uniform from −2¹⁵ to 2¹⁵ − 1
        # ≤ and −1: the limit must be an int16 itself
        keep_mask = bits <= round(keep * _LEVELS) - _LEVELS // 2 - 1
        ctx.keep = keep
        ctx.save_for_backward(keep_mask)
        return (x * keep_mask).mul_(1 / keep)

    @staticmethod
    def backward(ctx, grad):
        (keep_mask,) = ctx.saved_tensors
        return (grad * keep_mask).mul_(1 / ctx.keep), None
