"""ALiBi: no position vectors, but a penalty that grows with the distance, at a head's own pace."""

import math

import torch
from torch import Tensor

from ...kernels.fused import fused_attention, has_fused_kernel
from ...kernels.precision import finest_dtype, wide_product
from ...kernels.streaming import BlockKernel
from ...kernels.visible import Visible
from ...validate import check_integer, check_last, is_readable, require
from ..attention.soft_attention import STORED_WEIGHTS
from ..scores.base import Score

__all__ = ["ALiBi", "alibi_slopes"]

_FINE = 256  # half precision counts so far: positions are 256·coarse + fine


def alibi_slopes(
    num_heads: int, *, dtype: torch.dtype = torch.float32, device: torch.device | str | None = None
) -> Tensor:
    """How fast each head forgets what is far: ``2^(−8h/H)`` for h = 1 … H.

    Where H is no power of two, the heads get the slopes of the next smaller power P, then every
    second one, from the first on, of those of 2P.

    Returns:
        ``(num_heads,)``, from 2^(−8/H) down to 2^−8 for a power of two.

    Source: Press, Smith and Lewis 2022, section 3; other numbers of heads as in its published code.
    """
    finest = finest_dtype(torch.empty(0, device=device).device)
    power = 1 << (check_integer("num_heads", num_heads).bit_length() - 1)  # P

    def slopes(h: int) -> Tensor:
        return torch.exp2(torch.arange(1, h + 1, dtype=finest, device=device) * (-8 / h))

    return torch.cat([slopes(power), slopes(2 * power)[::2][: num_heads - power]]).to(dtype)


class ALiBi(Score):
    """Attention with linear biases: the scaled inner product less a penalty for the distance.

    ``score(q_i, k_j) = q_i·k_j / √d − slope_h · |i − j|``, see :func:`alibi_slopes`.

    It stands where a score does, ``MultiHeadAttention(d_model, H, score=ALiBi(H))``, and the model
    then needs no positions at its input. The queries are the last m of the n positions, as in
    :func:`~attnbook.mechanisms.attention.masks.causal_mask` and with a cache; padding in a cache
    counts as distance.

    Under a causal mask ``−slope·(i − j)`` is ``slope·j`` up to a number that all of a row share and
    the softmax drops. So the penalty is a column more in queries and keys, and PyTorch's fused
    kernels can be used; with ``causal=False``, large problems are streamed.

    Args:
        num_heads: H, the dimension of queries and keys before the last two.
        causal: whether no query attends to a later position, which the mask has yet to say.

    Shapes: query ``(…, H, m, d)``, key ``(…, H, n, d)``, m ≤ n. No parameters.

    Source: Press, Smith and Lewis 2022, section 3; the distance without its sign, for attention
    that is not causal, is not of the paper.
    """

    formula = r"s^\top h / \sqrt{d} - \text{slope}\,|i - j|"
    source = "Press, Smith and Lewis 2022"
    depends_on_position = True

    def __init__(self, num_heads: int, *, causal: bool = True) -> None:
        super().__init__()
        self.num_heads, self.causal = check_integer("num_heads", num_heads), causal

    def check(self, query: Tensor, key: Tensor) -> None:
        self._check_equal_widths(query, key)
        self._check_heads(query, key.shape[-2])

    def _check_heads(self, query: Tensor, n: int) -> None:
        require(
            query.dim() > 2 and query.shape[-3] == self.num_heads,
            f"query must have num_heads = {self.num_heads} heads, (…, {self.num_heads}, m, d), got "
            f"shape {tuple(query.shape)}",
        )
        check_last(query.shape[-2], n)

    def project_keys(self, key: Tensor) -> Tensor:
        # (…, n, d + 2): how far before the end, so that numbers are small where it matters
        return torch.cat([key, _before_the_end(key)], dim=-1)

    def compare(self, query: Tensor, projected: Tensor) -> Tensor:
        self._check_heads(query, projected.shape[-2])
        slope = alibi_slopes(self.num_heads, dtype=finest_dtype(query.device), device=query.device)
        return self._compare(query, projected, slope.view(-1, 1, 1), _before_the_end(query))

    def _compare(self, query, projected, slope, place) -> Tensor:
        product = wide_product(query * query.shape[-1] ** -0.5, projected[..., :-2].mT)
        i, j = (_count(p).to(product.dtype) for p in (place, projected[..., -2:]))
        return product - slope.to(product.dtype) * (i - j.mT).abs()

    def _with_slopes(self, query: Tensor, *factors: float) -> Tensor:
        slope = alibi_slopes(self.num_heads, dtype=finest_dtype(query.device), device=query.device)
        columns = torch.stack([slope * factor for factor in factors], dim=-1).unsqueeze(-2)
        return torch.cat([query, columns.to(query.dtype).expand(*query.shape[:-1], -1)], dim=-1)

    def block_kernel(self, query: Tensor) -> BlockKernel:
        # a block has to know its heads and its positions
        query = torch.cat([self._with_slopes(query, 1.0), _before_the_end(query)], dim=-1)
        return BlockKernel(
            lambda q, p: self._compare(q[..., :-3], p, q[..., -3:-2], q[..., -2:]), query, ()
        )

    def fused_attention(
        self, query: Tensor, projected: Tensor, value: Tensor, visible: Visible
    ) -> Tensor | None:
        m, n = query.shape[-2], projected.shape[-2]
        size = torch.broadcast_shapes(query.shape[:-2], projected.shape[:-2]).numel() * m * n
        if not self.causal or not has_fused_kernel(value) or m == 1 or size <= STORED_WEIGHTS:
            return None
        # else the distance would need its absolute value
        if visible.reach is None and not _may_be_causal(visible.mask, m, n):
            return None
        self._check_heads(query, n)
        root = math.sqrt(query.shape[-1])
        query = self._with_slopes(query, root * _FINE, root)  # the kernel divides by the root
        return fused_attention(query, projected, value, visible, 1 / root)


def _may_be_causal(mask: Tensor | None, m: int, n: int) -> bool:
    """Whether a mask hides what is later than the first query, or cannot be read here."""
    if mask is None or mask.dim() < 2 or mask.shape[-2] == 1 or mask.shape[-1] == 1:
        return False
    return not is_readable(mask) or not mask[..., 0, n - m + 1 :].any()


def _before_the_end(rows: Tensor) -> Tensor:
    """Minus how many of n rows ``(…, n, d)`` follow each, ``256·coarse + fine``: ``(…, n, 2)``."""
    n = rows.shape[-2]
    after = torch.arange(n - 1, -1, -1, device=rows.device)
    pair = -torch.stack([after // _FINE, after % _FINE], dim=-1).to(rows.dtype)
    return pair.expand(*rows.shape[:-2], n, 2)


def _count(pair: Tensor) -> Tensor:
    """The number ``(…, n, 1)`` that :func:`_before_the_end` wrote as two."""
    wide = pair.float() if pair.dtype.itemsize < 4 else pair
    return wide[..., :1] * _FINE + wide[..., 1:]
