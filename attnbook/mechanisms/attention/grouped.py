"""Grouped queries: several heads of queries read one head of keys and values."""

from __future__ import annotations

from collections.abc import Callable

import torch

from ..scores.base import Score
from .soft_attention import Attended, attend_unchecked

__all__ = ["attend_in_groups"]


def attend_in_groups(
    score: Score,
    query: torch.Tensor,
    projected_keys: torch.Tensor,
    value: torch.Tensor,
    mask: torch.Tensor | None,
    need_weights: bool,
    dropout: Callable[[torch.Tensor], torch.Tensor] | None = None,
    sink: torch.Tensor | None = None,
) -> Attended:
    """:func:`~attnbook.mechanisms.attention.soft_attention.attend_unchecked` for h heads of queries
    and g heads of keys and values: ``head_i = attend(query_i, key_j, value_j)``, ``j = ⌊i g / h⌋``.

    The queries of a group stand behind one another, as more queries of one head. So the keys are
    read where they lie, once for the group, and not copied for each head of queries.

    Args:
        query: ``(…, h, m, d)``.
        projected_keys, value: ``(…, g, n, d)`` and ``(…, g, n, d_v)``; g divides h.
        mask: broadcastable to ``(…, h, m, n)``, with two dimensions at least.
        sink: broadcastable to ``(…, h, m)``, with two dimensions at least.

    Returns:
        ``context (…, h, m, d_v)`` and ``weights (…, h, m, n)`` or None.
    """
    m, shared = query.shape[-2], query.shape[-3] // projected_keys.shape[-3]
    if shared > 1 and score.counts_positions:
        # it has to see where a query stands, and in which head
        projected_keys, value = (t.repeat_interleave(shared, -3) for t in (projected_keys, value))
        shared = 1
    if shared == 1:
        return attend_unchecked(
            score, query, projected_keys, value, mask, need_weights, dropout, sink
        )
    if sink is not None:
        sink = sink.expand(*sink.shape[:-2], query.shape[-3], m)
        sink = sink.unflatten(-2, (-1, shared)).flatten(-2)  # (…, g, h/g · m)
    query = query.unflatten(-3, (-1, shared)).flatten(-3, -2)  # (…, g, h/g · m, d)
    if mask is not None:
        mask = _for_groups(mask, shared, m)
    # of a step in decoding the weights are few, and quicker stored than not
    stored = need_weights or (m == 1 and query.device.type == "cpu")
    context, weights = attend_unchecked(
        score, query, projected_keys, value, mask, stored, dropout, sink
    )

    def of_heads(t: torch.Tensor) -> torch.Tensor:
        return t.unflatten(-2, (shared, m)).flatten(-4, -3)

    if weights is None or not need_weights:
        return Attended(of_heads(context), None)
    return Attended(of_heads(context), of_heads(weights))


def _for_groups(mask: torch.Tensor, shared: int, m: int) -> torch.Tensor:
    """A mask ``(…, h or 1, m or 1, n or 1)`` for queries in groups of h/g heads:
    ``(…, g or 1, h/g · m or 1, n or 1)``.
    """
    of_heads = mask.dim() > 2 and mask.shape[-3] > 1
    if mask.shape[-2] == 1 and not of_heads:
        return mask
    mask = mask.unflatten(-3, (-1, shared)) if of_heads else mask.unsqueeze(-3)
    return mask.expand(*mask.shape[:-3], shared, m, -1).flatten(-3, -2)
