"""Normalisation of every position on its own: layer norm and RMS norm."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from .errors import check_positive, check_tensor, require

__all__ = ["LayerNorm", "RMSNorm"]


class _Norm(nn.Module):
    def __init__(self, d_model: int, eps: float) -> None:
        super().__init__()
        self.d_model = check_positive("d_model", d_model)
        require(isinstance(eps, float) and eps >= 0, f"eps must be a number of at least 0, got {eps!r}")
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))  # g

    def extra_repr(self) -> str:
        return f"{self.d_model}, eps={self.eps}"


class LayerNorm(_Norm):
    """Bring the features of every position to mean 0 and variance 1, then scale and shift each feature.

    ``y = g ⊙ (x − μ) / √(σ² + ε) + b``,  ``μ = Σ_i x_i / d``,  ``σ² = Σ_i (x_i − μ)² / d``

    The variance is the biased one (divided by d, not d − 1), and ε stands inside the root. No position knows of another
    one, nor of the other rows of the batch. Computed in float32 under autocast.

    Args:
        d_model: d, the width of x.
        eps: ε.

    Shapes: ``(…, d)`` → ``(…, d)``.

    Raises:
        ValueError: if the width or ε is out of range, or x has another width.

    Source: Ba, Kiros and Hinton 2016, section 3.
    """

    def __init__(self, d_model: int, eps: float = 1e-5) -> None:
        super().__init__(d_model, eps)
        self.bias = nn.Parameter(torch.zeros(d_model))  # b

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # PyTorch's kernel for the formula above: one pass over x.
        return F.layer_norm(check_tensor("x", x, width=self.d_model), (self.d_model,), self.weight, self.bias, self.eps)


class RMSNorm(_Norm):
    """Divide the features of every position by their root mean square, then scale each feature.

    ``y = g ⊙ x / √(Σ_i x_i² / d + ε)``

    The layer norm without the subtraction of the mean and without a shift.

    Args:
        d_model: d, the width of x.
        eps: ε.

    Shapes: ``(…, d)`` → ``(…, d)``.

    Raises:
        ValueError: if the width or ε is out of range, or x has another width.

    Source: Zhang and Sennrich 2019, section 4.
    """

    def __init__(self, d_model: int, eps: float = 1e-6) -> None:
        super().__init__(d_model, eps)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.rms_norm(check_tensor("x", x, width=self.d_model), (self.d_model,), self.weight, self.eps)
