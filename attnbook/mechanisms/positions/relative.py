"""Relative positions: keys and values that also depend on how far away they are."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from ...kernels.precision import wide_dtype, wide_product
from ...kernels.visible import Visible
from ...validate import check_integer, require
from ..attention.masks import softmax_over_allowed
from ..attention.multi_head import MultiHeadAttention
from ..attention.soft_attention import Attended
from ..caches.key_value import ProjectedSource

__all__ = ["RelativeMultiHeadAttention", "relative_index"]


def relative_index(
    m: int, n: int, max_distance: int, device: torch.device | str | None = None
) -> Tensor:
    """Which row of a table of 2K + 1 distances belongs to each pair:
    ``index[t, j] = clip(j − i, −K, K) + K``.

    Query t stands at position ``i = t + (n − m)``: with more keys than queries the queries are the
    last m positions, as in :func:`~attnbook.mechanisms.attention.masks.causal_mask`.

    Args:
        m, n: number of queries and of keys, m ≤ n.
        max_distance: K; with 0 no pair differs from another.

    Returns:
        int64 ``(m, n)``, from 0 (far before the query) to 2K (far behind it).

    Source: Shaw, Uszkoreit and Vaswani 2018, section 3.2.
    """
    check_integer("m", m)
    check_integer("max_distance", max_distance, 0)
    require(
        n >= m, f"n must be at least m = {m} (the queries are the last m of n positions), got {n}"
    )
    query, key = torch.arange(n - m, n, device=device), torch.arange(n, device=device)
    return (key - query[:, None]).clamp(-max_distance, max_distance) + max_distance


class RelativeMultiHeadAttention(MultiHeadAttention):
    """Multi-head self-attention in which keys and values carry learned vectors of their distance.

    ``e_ij = q_i·(k_j + a^K_{clip(j − i)}) / √d_head``,  ``α_i = softmax_j(e_i)``,
    ``z_i = Σ_j α_ij (v_j + a^V_{clip(j − i)})``

    with distances clipped to −K … K, so that there are 2K + 1 vectors of either kind, shared by the
    heads. Neither sum builds a vector for each pair: ``q_i·a_r`` is one product
    ``(m, d)(d, 2K + 1)`` from which each pair picks its number, and the second sum first adds up
    the weights of each distance, ``(m, 2K + 1)``. Memory is that of the weights, m×n.

    Args:
        d_model, num_heads, d_head, d_head_value, bias, dropout: as in
            :class:`~attnbook.mechanisms.attention.multi_head.MultiHeadAttention`.
        max_distance: K; with 0 there are no positions.

    Source: Shaw, Uszkoreit and Vaswani 2018, equations 3 to 5; the two products, section 3.3.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        max_distance: int,
        d_head: int | None = None,
        d_head_value: int | None = None,
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(
            d_model, num_heads, d_head=d_head, d_head_value=d_head_value, bias=bias, dropout=dropout
        )
        self.max_distance = check_integer("max_distance", max_distance, 0)
        self.key_distance = relation_table(2 * max_distance + 1, self.d_head)  # a^K
        self.value_distance = relation_table(2 * max_distance + 1, self.d_head_value)  # a^V

    def attend_heads(
        self, query: Tensor, source: ProjectedSource, visible: Visible, need_weights: bool
    ) -> Attended:
        m, n = query.shape[-2], source.key.shape[-2]
        index = relative_index(m, n, self.max_distance, query.device)
        relations = [(index, self.key_distance, self.value_distance)]
        return attend_with_relations(
            query * self.d_head**-0.5, source, relations, visible, self.dropout, need_weights
        )


def attend_with_relations(
    query: Tensor,
    source: ProjectedSource,
    relations: Sequence[tuple[Tensor, Tensor, Tensor]],
    visible: Visible,
    dropout: nn.Module | None,
    need_weights: bool,
) -> Attended:
    """Attend where every pair has vectors of its relation, looked up in tables of R rows.

    Args:
        query: ``(…, h, m, d_head)``, scaled.
        relations: of each kind the index of every pair, broadcastable to ``(…, h, m, n)``, and the
            tables for keys ``(R, d_head)`` and values ``(R, d_head_value)``. Several add up.
    """
    scores = wide_product(query, source.key.mT)  # (…, h, m, n)
    # sums over many pairs are kept in it: a GPU rounds them after each addition
    wide = wide_dtype(scores)
    for index, keys, _ in relations:
        by_relation = wide_product(query, keys.T).expand(*scores.shape[:-1], -1)  # (…, h, m, R)
        # Its gradient is such a sum.
        picked = by_relation.to(wide).gather(-1, index.expand(scores.shape))
        scores = scores + picked.to(scores.dtype)
    mask = visible.matrix(query.shape[-2], source.key.shape[-2], query.device)
    weights = softmax_over_allowed(scores, mask).to(source.value.dtype)
    used = weights if dropout is None else dropout(weights)
    context = used @ source.value  # (…, h, m, d_head_value)
    for index, _, values in relations:
        shares = used.new_zeros(*used.shape[:-1], len(values), dtype=wide)
        # the weight of each relation
        shares = shares.scatter_add(-1, index.expand(used.shape), used.to(wide))
        context = context + shares.to(used.dtype) @ values.to(used.dtype)
    return Attended(context, weights if need_weights else None)


def relation_table(rows: int, width: int) -> nn.Parameter:
    """A learned vector for each of so many relations."""
    return nn.Parameter(nn.init.xavier_uniform_(torch.empty(rows, width)))
