"""Checks of what heads of attention are made with and given."""

from __future__ import annotations

import torch
from torch import nn

from ...validate import check_integer, check_mask, require
from ..scores.base import Score

__all__ = ["check_heads", "check_reading"]


def check_heads(
    num_heads: int, num_kv_heads: int, d_head: int, score: Score, rotary: nn.Module | None
) -> int:
    """Return num_kv_heads, or raise ``ValueError`` unless these parts of a multi-head layer fit one
    another.
    """
    for name in ("query_width", "key_width"):
        width = getattr(score, name)
        require(
            width in (None, d_head),
            f"score must be made for the width of a head, {d_head}; its {name} is {width}",
        )
    num_kv_heads = check_integer("num_kv_heads", num_kv_heads)
    require(
        num_heads % num_kv_heads == 0,
        f"num_kv_heads must divide num_heads = {num_heads}, got {num_kv_heads}",
    )
    require(
        rotary is None or getattr(rotary, "d_head", None) == d_head,
        f"rotary must be RotaryPositions for the width of a head, {d_head}, got {rotary!r}",
    )
    return num_kv_heads


def check_reading(
    query: torch.Tensor, leading: torch.Size, n: int, mask: torch.Tensor | None, num_heads: int
) -> tuple[torch.Tensor | None, int]:
    """The mask under which queries ``(…, m, d)`` read a source of n positions, with two dimensions
    at least, and the number of leading dimensions of the problem; or a ``ValueError``.
    """
    if n < 1:
        raise ValueError(f"key must have at least one position, got {n}: an empty source")
    batch = query.shape[:-2]
    if batch != leading:
        try:
            batch = torch.broadcast_shapes(batch, leading)
        except RuntimeError:
            raise ValueError(
                "query and key must have leading dimensions that broadcast, got "
                f"{tuple(query.shape[:-2])} and {tuple(leading)}"
            ) from None
    m = query.shape[-2]
    with_heads = isinstance(mask, torch.Tensor) and mask.dim() == len(batch) + 3
    check_mask(mask, (*batch, num_heads, m, n) if with_heads else (*batch, m, n))
    return mask if mask is None or mask.dim() > 1 else torch.atleast_2d(mask), len(batch)
