"""Layers that a CPU can afford: dropout from one random word for four elements, and a linear layer
that is quick for a few rows, as in decoding.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..validate import check_number, is_transforming
from .precision import under_autocast

__all__ = ["Dropout", "Linear"]

_LEVELS = 2**16
_FEW = 4
_LARGE = 2**18  # numbers in W: below, a product is over before a second core has begun


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

    def forward(self, x: Tensor) -> Tensor:
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


class Linear(nn.Linear):
    """``torch.nn.Linear``, with another product where a decoder asks for one token of a few texts.

    ``x Wᵀ`` of one row reads all of W once, and the library that PyTorch calls for it on a CPU
    takes two to four times as long as the memory needs (W of 8,000 × 256, two cores: 0.68 ms, and
    0.17 as ``W xᵀ`` in two halves of a batched product). A small W is left to it: two halves are
    ready no sooner, and on a busy machine much later. Arguments, parameters and results are those
    of ``torch.nn.Linear``, up to rounding; an x of another dtype than the weights is a
    ``ValueError``, except under autocast.
    """

    def forward(self, x: Tensor) -> Tensor:
        weight, bias = self.weight, self.bias
        if (
            torch.is_grad_enabled()  # training has more rows
            or weight.numel() < _LARGE
            or not 1 <= (rows := x.numel() // max(1, self.in_features)) <= 2 * _FEW
            or x.device.type != "cpu"
            or weight.device.type != "cpu"
            or x.dtype != weight.dtype
            or x.dtype not in (torch.float32, torch.float64)
            or x.shape[-1] != self.in_features
            or (rows > _FEW and self.in_features > self.out_features)
            or torch.compiler.is_compiling()
            or is_transforming()
            or torch.is_autocast_enabled("cpu")
        ):
            if x.dtype != weight.dtype and not under_autocast(x):
                raise ValueError(
                    f"x must be of {weight.dtype}, as the weights of this layer are, got {x.dtype}"
                )
            return F.linear(x, weight, bias)
        halves = 2 if self.out_features % 2 == 0 else 1
        if rows == halves == 1:
            return F.linear(x, weight, bias)
        weight = weight.reshape(halves, -1, self.in_features)
        column = x.reshape(rows, self.in_features).T.expand(halves, -1, -1)
        product = torch.bmm(weight, column).permute(2, 0, 1).reshape(*x.shape[:-1], -1)
        return product if bias is None else product + bias
