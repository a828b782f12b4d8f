"""A linear layer that is quick for a few rows on a CPU, as in decoding."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from ..validate import is_transforming
from .precision import under_autocast

__all__ = ["Linear"]

_FEW = 4
_LARGE = 2**18  # numbers in W: below, a product is over before a second core has begun


class Linear(nn.Linear):
    """``torch.nn.Linear``, with another product where a decoder asks for one token of a few texts.

    ``x Wᵀ`` of one row reads all of W once, and the library that PyTorch calls for it on a CPU
    takes two to four times as long as the memory needs (W of 8,000 × 256, two cores: 0.68 ms, and
    0.17 as ``W xᵀ`` in two halves of a batched product). A small W is left to it: two halves are
    ready no sooner, and on a busy machine much later. Arguments, parameters and results are those
    of ``torch.nn.Linear``, up to rounding; an x of another dtype than the weights is a
    ``ValueError``, except under autocast.
    """

    def forward(self, x: torch.Tensor) -> torch.Tensor:
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
