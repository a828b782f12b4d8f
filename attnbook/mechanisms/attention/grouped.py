"""Grouped queries: several heads of queries read one head of keys and values."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

from ...validate import check_integer, require
from ..linear import Linear
from ..scores.base import Score
from .attend import Attended, attend_unchecked

if TYPE_CHECKING:
    from .multi_head import MultiHeadAttention  # which imports this file

__all__ = ["attend_in_groups", "group_by_means"]


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
    """:func:`~attnbook.mechanisms.attention.attend.attend_unchecked` for h heads of queries and g
    heads of keys and values: ``head_i = attend(query_i, key_j, value_j)``, ``j = ⌊i g / h⌋``.

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


def group_by_means(layer: MultiHeadAttention, num_kv_heads: int) -> MultiHeadAttention:
    """Make of a trained multi-head layer one with fewer heads of keys and values: those of a group
    become their mean.

    ``W_k,j = (1/r) Σ_{i in group j} W_k,i``, ``W_v,j`` likewise, biases too; a group is
    r = h / num_kv_heads heads side by side. Queries and W_o stay. The result is no longer the same
    function; the paper trains it on for 5% of the original steps ("uptraining").

    Args:
        layer: any number of heads of keys and values; it is left as it is.
        num_kv_heads: how many are kept, a divisor of those of the layer; 1 is multi-query
            attention.

    Raises:
        ValueError: if the number does not divide, or the layer cannot group queries.

    Source: Ainslie et al. 2023, section 2.1.
    """
    check_integer("num_kv_heads", num_kv_heads)
    had = layer.num_kv_heads
    require(
        had % num_kv_heads == 0,
        f"num_kv_heads must divide the {had} heads of keys and values of the layer, got "
        f"{num_kv_heads}",
    )
    layer.check_option("num_kv_heads")
    grouped = copy.deepcopy(layer)
    grouped.num_kv_heads = num_kv_heads
    grouped.key_projection = _mean(layer.key_projection, had, num_kv_heads)
    grouped.value_projection = _mean(layer.value_projection, had, num_kv_heads)
    return grouped


def _mean(linear: Linear, had: int, kept: int) -> Linear:
    """A linear map whose heads are means of groups of those of another."""

    def mean(rows: torch.Tensor) -> torch.Tensor:
        heads = rows.detach().unflatten(0, (kept, had // kept, -1))
        return heads.mean(1).flatten(0, 1)

    made = Linear(
        linear.in_features,
        linear.out_features // had * kept,
        bias=linear.bias is not None,
        device=linear.weight.device,
        dtype=linear.weight.dtype,
    )
    with torch.no_grad():
        made.weight.copy_(mean(linear.weight))
        if linear.bias is not None:
            made.bias.copy_(mean(linear.bias))
    return made
