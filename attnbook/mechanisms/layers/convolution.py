"""Convolutions in place of self-attention: weights over neighbours, compared with nothing."""

from __future__ import annotations

import math
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...kernels.layers import Dropout
from ...kernels.visible import join_nonfinite, zero_nonfinite
from ...validate import check_integer, check_number, check_tensor, require
from ..attention.masks import check_visible, masks_by_name
from ..attention.soft_attention import Attended
from ..caches.key_value import Read

__all__ = ["DynamicConvolution", "LightweightConvolution", "PastValues"]


class PastValues(NamedTuple):
    """The input of a convolution: ``value (…, n, d_model)``, after the gate, and ``nonfinite
    (…, n)`` as in :class:`~attnbook.mechanisms.caches.key_value.ProjectedSource`.
    """

    value: Tensor
    nonfinite: Tensor | None = None

    def extend(self, more: PastValues) -> PastValues:
        """The values with further positions after them: the cache of a decoder, one step on."""
        return PastValues(torch.cat([self.value, more.value], dim=-2), join_nonfinite(self, more))

    def nonfinite_rows(self) -> Tensor:
        """:attr:`nonfinite`, written out."""
        if self.nonfinite is not None:
            return self.nonfinite
        return self.value.new_zeros(self.value.shape[:-1], dtype=torch.bool)


class LightweightConvolution(nn.Module):
    """A convolution over neighbours with one softmax-normalised kernel per head.

    ``v = (W_a x) ⊙ σ(W_b x)``,  ``z_t,c = Σ_k softmax(w_h)_k v_{t + k − left, c}``,
    ``output_t = W_o z_t``

    Channel c belongs to head h = ⌊c H / d⌋. The K places of the kernel are those from ``left``
    before the position on: ``left = K − 1`` if it is causal, else ``⌊(K − 1)/2⌋``. What lies
    outside the sequence or masked counts as a zero; the kernel is not normalised again. A
    position whose mask allows nothing gets zeros.

    It has the interface of :class:`~attnbook.mechanisms.attention.multi_head.MultiHeadAttention`
    that the blocks of a Transformer expect.

    Args:
        d_model: width of x and of the result.
        num_heads: ``H``.
        kernel_size: ``K``.
        causal: whether the kernel ends at the position itself.
        dropout: of the kernel, while training. The weights returned are those before it.

    Shapes: x ``(…, m, d_model)``, masks as in :func:`attnbook.attend` → context
    ``(…, m, d_model)``, weights ``(…, H, m, n)`` or None.

    Source: Wu et al. 2019, section 3.
    """

    reads_itself: ClassVar[bool] = False
    """Whether the kernel of a position is made of what stands there."""

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        kernel_size: int,
        *,
        causal: bool = False,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.d_model = check_integer("d_model", d_model)
        self.num_heads = check_integer("num_heads", num_heads)
        require(
            d_model % num_heads == 0,
            f"d_model must divide by num_heads, got {d_model} and {num_heads}",
        )
        self.kernel_size = check_integer("kernel_size", kernel_size)
        self.causal = causal
        self.left = kernel_size - 1 if causal else (kernel_size - 1) // 2
        self.input_projection = nn.Linear(d_model, 2 * d_model)  # W_a, W_b
        self.output_projection = nn.Linear(d_model, d_model)  # W_o
        for layer in (self.input_projection, self.output_projection):
            nn.init.xavier_uniform_(layer.weight)
            nn.init.zeros_(layer.bias)
        self.dropout = Dropout(check_number("dropout", dropout, least=0, below=1))
        self._make_kernel()

    def _make_kernel(self) -> None:
        self.weight = nn.Parameter(torch.empty(self.num_heads, self.kernel_size))  # w
        nn.init.xavier_uniform_(self.weight)

    def kernel(self, value: Tensor) -> Tensor:
        """The K weights ``(…, m, H, K)`` for values ``(…, m, d_model)``; they sum to 1."""
        return self.weight.softmax(-1).expand(*value.shape[:-1], -1, -1)

    def project(self, x: Tensor) -> PastValues:
        """The gated values of positions ``(…, n, d_model)``."""
        check_tensor("x", x, width=self.d_model)
        x, _, _, nonfinite = zero_nonfinite(x, x, x, self)
        value = F.glu(self.input_projection(x), -1)
        return PastValues(value, None if nonfinite is None else nonfinite.source)

    def read(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        is_causal: bool = False,
        cache: PastValues | None = None,
        position: int | Tensor = 0,
        need_weights: bool = False,
    ) -> Read:
        """As :meth:`attnbook.MultiHeadAttention.read`; the cache counts the positions."""
        past = self.project(x) if cache is None else cache.extend(self.project(x))
        context, weights = self(
            x, mask=mask, is_causal=is_causal, projected=past, need_weights=need_weights
        )
        return Read(context, past, weights)

    @masks_by_name("mask")
    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        key_mask: Tensor | None = None,
        is_causal: bool = False,
        projected: PastValues | None = None,
        need_weights: bool = True,
    ) -> Attended:
        """Convolve; x are the last m positions of ``projected`` (``project(x)`` when not given)."""
        check_tensor("x", x, width=self.d_model)
        past = self.project(x) if projected is None else projected
        value = past.value
        m, n = x.shape[-2], value.shape[-2]
        require(n >= m, f"projected must hold at least the {m} positions of x, got {n}")
        visible = check_visible(mask, key_mask, is_causal, x.shape[:-2], m, n)
        mask, place = visible.mask, torch.arange(n - m, n, device=x.device)[:, None]
        places = place - self.left + torch.arange(self.kernel_size, device=x.device)
        inside = (places >= 0) & (places <= (place if is_causal else n - 1))  # (m, K)
        places = places.clamp(0, n - 1)
        if mask is not None:  # (…, m, K)
            batch = mask.shape[:-2]
            inside = inside & mask.expand(*batch, m, n).gather(-1, places.expand(*batch, -1, -1))
        # (…, m, H, K)
        kernel = self.kernel(value[..., n - m :, :]).masked_fill(~inside.unsqueeze(-2), 0.0)
        seen = value[..., places, :]
        if mask is not None or is_causal:  # not even a masked NaN has influence
            seen = seen.where(inside.unsqueeze(-1), 0.0)
        seen = seen.unflatten(-1, (self.num_heads, -1))  # (…, m, K, H, d/H)
        convolved = torch.einsum("...mhk,...mkhc->...mhc", self.dropout(kernel), seen).flatten(-2)
        weights = None
        if need_weights:
            at = places.unsqueeze(-2).expand(kernel.shape)
            weights = kernel.new_zeros(*kernel.shape[:-1], n).scatter_add(-1, at, kernel)
            weights = weights.transpose(-3, -2)
        output = self.output_projection(convolved)
        if past.nonfinite is not None:  # who sees such a row, or makes a kernel of it
            met = (past.nonfinite[..., places] & inside).any(-1)
            if self.reads_itself:
                met = met | past.nonfinite[..., n - m :]
            output = output.masked_fill(met.unsqueeze(-1), math.nan)
            if weights is not None:
                met = met[..., None, :, None]
                weights = weights.masked_fill(met & (weights != 0), math.nan)
        some = visible.rows(m, n)
        if some is not None:
            output = output.masked_fill(~some.unsqueeze(-1), 0.0)
        return Attended(output, weights)


class DynamicConvolution(LightweightConvolution):
    """A :class:`LightweightConvolution` whose kernel each position makes: ``w_t = W_k v_t``.

    ``z_t,c = Σ_k softmax(W_k,h v_t)_k v_{t + k − left, c}``. The kernel follows the content of its
    own position and not, as in attention, that of the positions it reads.

    Source: Wu et al. 2019, section 4; the kernel from the gated value, as in the authors' code.
    """

    reads_itself = True

    def _make_kernel(self) -> None:
        rows = self.num_heads * self.kernel_size
        self.kernel_projection = nn.Linear(self.d_model, rows, bias=False)  # W_k
        nn.init.xavier_uniform_(self.kernel_projection.weight)

    def kernel(self, value: Tensor) -> Tensor:
        return self.kernel_projection(value).unflatten(-1, (self.num_heads, -1)).softmax(-1)
