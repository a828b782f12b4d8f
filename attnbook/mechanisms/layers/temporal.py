"""Blocks over the past: gated causal convolutions, causal attention; each widens its input."""

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...kernels.visible import zero_nonfinite
from ...validate import check_integer, check_number, check_tensor, require
from ..attention.soft_attention import attend
from ..scores.base import ScaledDotScore

__all__ = ["AttentionBlock", "CausalConvolution", "DenseBlock", "BlockOutput", "PastKeys"]
__all__ += ["TCBlock", "blocks_for"]


class BlockOutput(NamedTuple):
    """``output (…, m, width)``, the ``past`` for the next call, ``weights (…, m, n)`` or None."""

    output: Tensor
    past: Any
    weights: Tensor | None = None


class PastKeys(NamedTuple):
    """The cache of an :class:`AttentionBlock`: ``key (…, n, d_key)``, ``value (…, n, d_value)``."""

    key: Tensor
    value: Tensor


def blocks_for(length: int) -> int:
    """``⌈log2 T⌉``: how many kernels of 2, dilations 1, 2, 4, …, let the last of T see the first.

    Source: Mishra et al. 2018, section 3.
    """
    return (check_integer("length", length) - 1).bit_length()


class CausalConvolution(nn.Module):
    """A convolution that reads no later position, with steps of R between those that it reads.

    ``y_t = Σ_k W_k x_{t − (K − 1 − k) R} + b``, k = 0 … K − 1; for K = 2:
    ``y_t = W_0 x_{t−R} + W_1 x_t + b``

    What lies before the first position counts as zeros.

    Args:
        d_in, d_out: widths of x and y.
        dilation: ``R``.
        kernel_size: ``K``.

    Shapes: x ``(…, m, d_in)``, past, right before it, ``(…, (K − 1) R, d_in)`` → ``(…, m, d_out)``.

    Source: van den Oord et al. 2016, section 2.1; kernel 2: Mishra et al. 2018, section 3.
    """

    def __init__(self, d_in: int, d_out: int, dilation: int = 1, kernel_size: int = 2) -> None:
        super().__init__()
        self.d_in, self.d_out = check_integer("d_in", d_in), check_integer("d_out", d_out)
        self.dilation = check_integer("dilation", dilation)
        self.kernel_size = check_integer("kernel_size", kernel_size)
        # [W_0, …, W_{K−1}], the farthest position first
        self.linear = nn.Linear(kernel_size * d_in, d_out)

    @property
    def reach(self) -> int:
        """How many positions back the farthest one lies: ``(K − 1) R``."""
        return (self.kernel_size - 1) * self.dilation

    def with_past(self, x: Tensor, past: Tensor | None = None) -> Tensor:
        """x after the ``reach`` positions before it, or zeros: ``(…, reach + m, d_in)``."""
        check_tensor("x", x, width=self.d_in)
        if past is None:
            return F.pad(x, (0, 0, self.reach, 0))
        shape = (*x.shape[:-2], self.reach, self.d_in)
        require(past.shape == shape, f"past must be {shape} for this x, got {tuple(past.shape)}")
        return torch.cat([past, x], dim=-2)

    def forward(self, x: Tensor, past: Tensor | None = None) -> Tensor:
        return self.read(self.with_past(x, past))

    def read(self, padded: Tensor) -> Tensor:
        """The outputs for all but the first ``reach`` positions of ``(…, reach + m, d_in)``."""
        m, starts = padded.shape[-2] - self.reach, range(0, self.reach + 1, self.dilation)
        taps = [padded[..., start : start + m, :] for start in starts]
        return self.linear(torch.cat(taps, dim=-1))


class DenseBlock(nn.Module):
    """A gated causal convolution, its result concatenated to its input.

    ``a_t = tanh(f_t) ⊙ σ(g_t)``, f and g causal convolutions of x with kernel 2 and dilation R;
    ``output_t = [x_t; a_t]``

    Args:
        d_in: width of x.
        filters: D, the width of a.
        dilation: ``R``.

    Shapes: x ``(…, m, d_in)``, past ``(…, R, d_in)`` → output ``(…, m, d_in + D)``.

    Source: Mishra et al. 2018, section 3; the gate: van den Oord et al. 2016, equation 2.
    """

    def __init__(self, d_in: int, filters: int, dilation: int) -> None:
        super().__init__()
        # f and g in one product
        self.convolution = CausalConvolution(d_in, 2 * check_integer("filters", filters), dilation)
        self.d_out = d_in + filters

    def forward(
        self, x: Tensor, past: Tensor | None = None, *, need_weights: bool = False
    ) -> BlockOutput:
        padded = self.convolution.with_past(x, past)
        f, g = self.convolution.read(padded).chunk(2, dim=-1)
        output = torch.cat([x, f.tanh() * g.sigmoid()], dim=-1)
        return BlockOutput(output, padded[..., x.shape[-2] :, :])


class TCBlock(nn.Module):
    """Temporal convolutions over T positions: ``⌈log2 T⌉`` dense blocks of doubling dilations.

    Dilations ``first, 2 first, 4 first, …``. With first = 1 the last position sees every one of the
    T. The listing in the paper runs over 2^i from i = 1, which is first = 2: then no output depends
    on a position an odd number of steps back.

    Args:
        d_in: width of x.
        length: ``T``.
        filters: D, what each dense block adds to the width.
        first: the dilation of the first dense block.

    Shapes: x ``(…, m, d_in)`` → output ``(…, m, d_in + D ⌈log2 T⌉)``; a past for each dense block.

    Source: Mishra et al. 2018, section 3 (TCBlock).
    """

    def __init__(self, d_in: int, length: int, filters: int, first: int = 1) -> None:
        super().__init__()
        check_integer("first", first)
        self.d_out, blocks = check_integer("d_in", d_in), []
        for i in range(blocks_for(length)):
            blocks.append(DenseBlock(self.d_out, filters, first * 2**i))
            self.d_out = blocks[-1].d_out
        self.blocks = nn.ModuleList(blocks)

    def forward(
        self, x: Tensor, past: tuple | None = None, *, need_weights: bool = False
    ) -> BlockOutput:
        pasts = []
        for block, before in zip(self.blocks, past or [None] * len(self.blocks), strict=True):
            x, now, _ = block(x, before)
            pasts.append(now)
        return BlockOutput(x, tuple(pasts))


def _projected(x: Tensor, *layers: nn.Module) -> list[Tensor]:
    """x ``(…, n, d)`` through each layer; rows that are not finite give NaN, as a constant."""
    clean, _, _, nonfinite = zero_nonfinite(x, x, x)
    made = [layer(clean) for layer in layers]
    if nonfinite is None:
        return made
    return [rows.masked_fill(nonfinite.query.unsqueeze(-1), math.nan) for rows in made]


class AttentionBlock(nn.Module):
    """Self-attention over the positions so far, its result concatenated to its input.

    ``α_tj = softmax_{j ≤ t}(W_q x_t · W_k x_j / √d_key)``,  ``read_t = Σ_j α_tj W_v x_j``,
    ``output_t = [x_t; read_t]``

    The products have biases. The softmax runs over the keys j ≤ t, its own position included.

    Args:
        d_in: width of x.
        d_key: width of queries and keys.
        d_value: width of the values.
        alike: how W_q and W_k start. None: each on its own, from PyTorch's start. A number: as one
            matrix, so many times PyTorch's start, so that a score begins as a measure of how much
            two positions resemble each other. (The book's addition: it shortens the plateau at
            chance level while a network learns both the similarity and its use.)

    Shapes: x ``(…, m, d_in)`` → output ``(…, m, d_in + d_value)``, weights ``(…, m, n)`` with n = m
    and what is past.

    Source: Mishra et al. 2018, section 3 (AttentionBlock).
    """

    def __init__(self, d_in: int, d_key: int, d_value: int, alike: float | None = None) -> None:
        super().__init__()
        self.d_in = check_integer("d_in", d_in)
        self.query_projection = nn.Linear(d_in, check_integer("d_key", d_key))
        self.key_projection = nn.Linear(d_in, d_key)
        self.value_projection = nn.Linear(d_in, check_integer("d_value", d_value))
        self.score = ScaledDotScore()
        self.d_out = d_in + d_value
        if alike is not None:
            check_number("alike", alike, above=0)
            with torch.no_grad():
                self.query_projection.weight.mul_(alike)
            self.key_projection.load_state_dict(self.query_projection.state_dict())

    def forward(
        self, x: Tensor, past: PastKeys | None = None, *, need_weights: bool = False
    ) -> BlockOutput:
        check_tensor("x", x, width=self.d_in)
        query, key, value = _projected(
            x, self.query_projection, self.key_projection, self.value_projection
        )
        if past is not None:
            key, value = torch.cat([past.key, key], dim=-2), torch.cat([past.value, value], dim=-2)
        read, weights = attend(
            self.score, query, key, value, is_causal=True, need_weights=need_weights
        )
        return BlockOutput(torch.cat([x, read], dim=-1), PastKeys(key, value), weights)
