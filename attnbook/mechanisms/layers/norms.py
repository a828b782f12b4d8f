"""Normalisation: layer norm and RMS norm of a position, batch norm of a feature over the batch."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...kernels.precision import wide_dtype
from ...validate import check_integer, check_mask, check_number, check_tensor, is_readable, require
from ..attention.masks import masks_by_name

__all__ = ["BatchNorm", "LayerNorm", "RMSNorm"]


class _Norm(nn.Module):
    def __init__(self, d_model: int, eps: float) -> None:
        super().__init__()
        self.d_model = check_integer("d_model", d_model)
        self.eps = float(check_number("eps", eps, least=0))
        self.weight = nn.Parameter(torch.ones(d_model))  # g

    def extra_repr(self) -> str:
        return f"{self.d_model}, eps={self.eps}"


class LayerNorm(_Norm):
    """Bring the features of every position to mean 0 and variance 1, then scale and shift them.

    ``y = g ⊙ (x − μ) / √(σ² + ε) + b``,  ``μ = Σ_i x_i / d``,  ``σ² = Σ_i (x_i − μ)² / d``

    The variance is the biased one (divided by d, not d − 1), and ε stands inside the root. No
    position knows of another one, nor of the rest of the batch. Under autocast in float32.

    Args:
        d_model: d, the width of x.
        eps: ε.

    Shapes: ``(…, d)`` → ``(…, d)``.

    Source: Ba, Kiros and Hinton 2016, section 3.
    """

    def __init__(self, d_model: int, eps: float = 1e-5) -> None:
        super().__init__(d_model, eps)
        self.bias = nn.Parameter(torch.zeros(d_model))  # b

    def forward(self, x: Tensor) -> Tensor:
        check_tensor("x", x, width=self.d_model, least=1)
        return F.layer_norm(x, (self.d_model,), self.weight, self.bias, self.eps)


class RMSNorm(_Norm):
    """Divide the features of every position by their root mean square, then scale each feature.

    ``y = g ⊙ x / √(Σ_i x_i² / d + ε)``

    The layer norm without the subtraction of the mean and without a shift.

    Args:
        d_model: d, the width of x.
        eps: ε.
        offset: o, so that ``weight`` holds g − o and starts at 1 − o: at 0, where weight decay
            draws it, with an offset of 1 as in Gemma. The sum is taken in float32 at least.

    Shapes: ``(…, d)`` → ``(…, d)``.

    Source: Zhang and Sennrich 2019, section 4.
    """

    def __init__(self, d_model: int, eps: float = 1e-6, *, offset: float = 0.0) -> None:
        super().__init__(d_model, eps)
        self.offset = float(check_number("offset", offset))
        nn.init.constant_(self.weight, 1 - self.offset)

    def forward(self, x: Tensor) -> Tensor:
        check_tensor("x", x, width=self.d_model, least=1)
        if not self.offset:
            return F.rms_norm(x, (self.d_model,), self.weight, self.eps)
        wide = wide_dtype(x, self.weight)
        weight = self.weight.to(wide) + self.offset
        return F.rms_norm(x.to(wide), (self.d_model,), weight, self.eps).to(x.dtype)

    def extra_repr(self) -> str:
        return super().extra_repr() + (f", offset={self.offset:g}" if self.offset else "")


class BatchNorm(_Norm):
    """Bring every feature to mean 0 and variance 1 over the batch, then scale and shift it.

    ``y = g ⊙ (x − μ) / √(σ² + ε) + b``,  mean μ_i, biased variance σ²_i over all counted positions

    So what one sentence becomes depends on the others beside it. In evaluation μ and σ² are running
    means over the batches of the training, ``m ← (1 − momentum) m + momentum · new``, with the
    unbiased variance, as in ``torch.nn.BatchNorm1d``.

    Padding counts like a word unless ``key_mask`` says where words are. A block hands none to its
    norm: in a :class:`~attnbook.mechanisms.layers.residual.ResidualConnection` this norm counts the
    padding.

    Args:
        d_model: d, the width of x.
        eps: ε.
        momentum: the share of the new statistics.

    Shapes: x ``(…, n, d)``, key_mask ``(…, n)``, True = counts → ``(…, n, d)``. All positions
    are normalised, those that do not count too. At least two have to count in training: one number
    has no variance.

    Source: Ioffe and Szegedy 2015, algorithm 1.
    """

    running_mean: Tensor
    running_var: Tensor

    def __init__(self, d_model: int, eps: float = 1e-5, momentum: float = 0.1) -> None:
        super().__init__(d_model, eps)
        self.momentum = float(check_number("momentum", momentum, least=0, most=1))
        self.bias = nn.Parameter(torch.zeros(d_model))  # b
        self.register_buffer("running_mean", torch.zeros(d_model))
        self.register_buffer("running_var", torch.ones(d_model))

    @masks_by_name("key_mask", mask="key_mask")
    def forward(self, x: Tensor, *, key_mask: Tensor | None = None) -> Tensor:
        check_tensor("x", x, width=self.d_model)
        check_mask(key_mask, x.shape[:-1], name="key_mask", axes="(…, positions)", true="counts")
        if key_mask is not None:
            x = x.where(key_mask.unsqueeze(-1), 0.0)  # what does not count may be NaN
        if self.training:
            variance, mean = self._moments(x.reshape(-1, self.d_model), key_mask, x.shape[:-1])
        else:
            variance, mean = self.running_var, self.running_mean
        return ((x - mean) * (variance + self.eps).rsqrt() * self.weight + self.bias).to(x.dtype)

    def _moments(
        self, rows: Tensor, mask: Tensor | None, shape: torch.Size
    ) -> tuple[Tensor, Tensor]:
        """Variance and mean of the rows that count, which move the running ones."""
        rows = rows.float() if rows.dtype.itemsize < 4 else rows
        if mask is None:
            count = seen = len(rows)
            variance, mean = torch.var_mean(rows, dim=0, correction=0)
        else:  # sums instead of a choice of rows, whose number a GPU would have to tell
            counts = mask.expand(shape).reshape(-1, 1)
            count = counts.sum()
            seen = int(count) if is_readable(count) else None
            mean = rows.where(counts, 0).sum(0) / count
            variance = (rows - mean).where(counts, 0).square().sum(0) / count
        require(
            seen is None or seen > 1,
            f"x must have two positions that count at least while training, got {seen}",
        )
        with torch.no_grad():
            self.running_mean.lerp_(mean.to(self.running_mean), self.momentum)
            unbiased = (variance * count / (count - 1)).to(self.running_var)
            self.running_var.lerp_(unbiased, self.momentum)
        return variance, mean
