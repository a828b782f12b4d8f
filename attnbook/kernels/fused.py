"""Attention with a score that is an inner product, through PyTorch's fused kernels."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from ..validate import is_transforming
from .double_backward import check_once
from .hidden import rows_that_see

__all__ = ["fused_attention", "has_fused_kernel"]


def has_fused_kernel(tensor: torch.Tensor) -> bool:
    """Tell whether PyTorch has a kernel for this device and dtype that does not store the m×n
    matrix.
    """
    kind = tensor.device.type
    return kind == "cpu" or (kind == "cuda" and tensor.dtype != torch.float64)


def fused_attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None = None,
    scale: float = 1.0,
    sink: torch.Tensor | None = None,
) -> torch.Tensor:
    """Context of attention with ``e_tj = scale · query_t·key_j``, by
    ``scaled_dot_product_attention``.

    The kernels want four dimensions and one width for queries, keys and values, and promise nothing
    for a query that may attend to nothing. So leading dimensions are brought to two, the narrower
    tensors padded with zeros, and such a query may attend to everything inside and gets its zeros
    afterwards. A mask that differs from query to query is kept as numbers for the backward pass, in
    its own shape: what it broadcasts over is not written out.

    Args:
        query: ``(…, m, d)``.
        key: ``(…, n, d)``.
        value: ``(…, n, d_v)``; leading dimensions broadcast.
        mask: boolean, broadcastable to ``(…, m, n)``; True = may attend.
        scale: factor of the inner product.
        sink: numbers broadcastable to ``(…, m)``, a score for each query that belongs to no key:
            here of one more key, whose value is zero.

    Returns:
        Context ``(…, m, d_v)``; zeros, with zero gradients, for a query that may attend to nothing.
        Differentiable once: ``create_graph=True`` is a ``RuntimeError``.

    Source: the kernel after Dao et al. 2022.
    """
    batch = query.shape[:-2]
    if not batch == key.shape[:-2] == value.shape[:-2]:
        batch = torch.broadcast_shapes(batch, key.shape[:-2], value.shape[:-2])
    if sink is not None:
        # finite, as ∞ · 0 is NaN: beyond what this allows no key, or no sink, has any weight
        largest = torch.finfo(query.dtype).max / 2
        column = (sink / scale).clamp(-largest, largest).to(query.dtype)
        column = column.unsqueeze(-1).expand(*batch, query.shape[-2], 1)
        query = torch.cat([query.expand(*batch, -1, -1), column], dim=-1)
        end = F.pad(key.new_ones(1, 1), (key.shape[-1], 0)).expand(*key.shape[:-2], 1, -1)
        key = torch.cat([F.pad(key, (0, 1)), end], dim=-2)
        value = F.pad(value, (0, 0, 0, 1))
        if mask is not None:
            mask = F.pad(mask.expand(*mask.shape[:-1], key.shape[-2] - 1), (0, 1), value=True)
    m, d_value = query.shape[-2], value.shape[-1]
    width = max(query.shape[-1], d_value)
    if query.device.type != "cpu":
        width += -width % 8  # GPU kernels want multiples of 8
    ready = []
    for tensor in (query, key, value):
        if tensor.shape[-1] < width:
            tensor = F.pad(tensor, (0, width - tensor.shape[-1]))
        if tensor.stride(-1) != 1:  # the kernels read whole rows
            tensor = tensor.contiguous()
        if len(batch) == 2 and tensor.shape[:-2] == batch:
            ready.append(tensor)
        else:
            ready.append(_four(tensor, batch))
    q, k, v = ready
    alive = allowed = None
    if mask is not None:
        # what was three dimensions and more cannot broadcast
        written_out = len(batch) > 2 and mask.shape[:-2].numel() > 1
        if mask.dim() != 4 or written_out:
            mask = _four(mask, batch if written_out or len(batch) < 3 else (), expand=written_out)
        alive = rows_that_see(mask)
        alive = alive if alive is None else alive.unsqueeze(-1)
        if mask.shape[-1] > 1:  # else a row allows everything or nothing
            allowed = mask if alive is None else mask | ~alive
    context = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed, scale=scale)[..., :d_value]
    if alive is not None:
        context = context.masked_fill(~alive, 0.0)
    if context.requires_grad and not (torch.compiler.is_compiling() or is_transforming()):
        context.register_hook(_differentiated_once)
    return context.reshape(*batch, m, d_value)


def _differentiated_once(_: torch.Tensor) -> None:
    check_once("attention with need_weights=False")


def _four(tensor, batch, *, expand=True):
    """``(…, i, j)`` with two leading dimensions."""
    tensor = tensor[(None,) * (len(batch) + 2 - tensor.dim())]
    if expand:
        tensor = tensor.expand(*batch, -1, -1)
    leading = tensor.shape[:-2]
    two = (
        (1, 1)
        if not leading
        else (leading[0], 1)
        if len(leading) == 1
        else (leading[:-1].numel(), leading[-1])
    )
    return tensor.reshape(*two, *tensor.shape[-2:])
