"""What heads of attention may be given: checks of it, and where queries and keys stand."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import nn

from ...validate import check_integer, check_position, require
from ..scores.base import Score

__all__ = ["Rotary", "check_heads", "place_heads"]


class Rotary(Protocol):
    """What turns queries and keys by their positions:
    :class:`~attnbook.mechanisms.positions.rotary.RotaryPositions`, whose neighbours import the
    heads.
    """

    d_head: int

    def __call__(self, x: torch.Tensor, position: int | torch.Tensor) -> torch.Tensor: ...


def check_heads(
    num_heads: int,
    num_kv_heads: int,
    d_head: int,
    score: Score,
    rotary: Rotary | None,
    window: int | None,
    sinks: int,
) -> tuple[int, int | None, int]:
    """Return num_kv_heads, window and sinks, or raise ``ValueError`` unless these options of a
    multi-head layer fit one another.
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
    if window is not None:
        window = check_integer("window", window)
        require(
            not score.counts_positions,
            f"window needs a score that counts no positions, got {type(score).__name__}",
        )
    sinks = check_integer("sinks", sinks, 0)
    require(
        sinks == 0 or window is not None, f"sinks need a window, got sinks = {sinks} and no window"
    )
    return num_kv_heads, window, sinks


def place_heads(
    heads: torch.Tensor,
    norm: nn.Module | None,
    rotary: Rotary | None,
    position: int | torch.Tensor,
    last: int | None = None,
) -> torch.Tensor:
    """Queries or keys of all heads, normalised, then turned by their positions.

    Args:
        heads: ``(…, h, n, d_head)``.
        position: of the first, an integer or one for each row of the batch, ``(batch,)``, negative
            where padding stands in front.
        last: those that stand behind it are turned as if they stood there.
    """
    heads = heads if norm is None else norm(heads)
    if rotary is None:
        return heads
    check_position(position, heads.shape[:-3])
    if isinstance(position, torch.Tensor):
        rows = torch.arange(heads.shape[-2], device=heads.device)
        position = position.to(heads.device)[:, None, None] + rows  # (batch, 1, n)
    if last is not None:
        if not isinstance(position, torch.Tensor):
            position = position + torch.arange(heads.shape[-2], device=heads.device)
        position = position.clamp(max=last)
    return rotary(heads, position)
