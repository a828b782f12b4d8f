"""Relative positions: keys and values that also depend on how far away they are."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from ...kernels.precision import wide_dtype, wide_product
from ...kernels.visible import Visible
from ...validate import check_integer, check_last, common_shape
from ..attention.masks import softmax_over_allowed
from ..attention.multi_head import MultiHeadAttention
from ..attention.soft_attention import Attended, attend_in_rows
from ..caches.key_value import ProjectedSource

__all__ = ["RelativeMultiHeadAttention"]


class RelativeMultiHeadAttention(MultiHeadAttention):
    """Multi-head self-attention in which keys and values carry learned vectors of their distance.

    ``e_ij = q_i·(k_j + a^K_{clip(j − i)}) / √d_head``,  ``α_i = softmax_j(e_i)``,
    ``z_i = Σ_j α_ij (v_j + a^V_{clip(j − i)})``

    with distances clipped to −K … K, so that there are 2K + 1 vectors of either kind, shared by the
    heads. Neither sum builds a vector for each pair: ``q_i·a_r`` is one product
    ``(m, d)(d, 2K + 1)`` from which each pair picks its number, and the second sum first adds up
    the weights of each distance, ``(m, 2K + 1)``. Without weights memory grows with m + n:
    queries are read in blocks, in the backward pass again.

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
        relations = [(self.distances(query, source), self.key_distance, self.value_distance)]
        return attend_with_relations(
            query * self.d_head**-0.5, source, relations, visible, self.dropout, need_weights
        )

    def distances(self, query: Tensor, source: ProjectedSource) -> Callable[[slice, int], Tensor]:
        """The index of the distance of some of the queries, which are the last m of n positions,
        and the first keys: ``clip(j − i, −K, K) + K``.
        """
        m, n, most = query.shape[-2], source.key.shape[-2], self.max_distance
        check_last(m, n)

        def index(rows: slice, seen: int) -> Tensor:
            i = torch.arange(rows.start + n - m, rows.stop + n - m, device=query.device)
            j = torch.arange(seen, device=query.device)
            return (j - i[:, None]).clamp(-most, most) + most

        return index


def attend_with_relations(
    query: Tensor,
    source: ProjectedSource,
    relations: Sequence[tuple[Callable[[slice, int], Tensor], Tensor, Tensor]],
    visible: Visible,
    dropout: nn.Module | None,
    need_weights: bool,
) -> Attended:
    """Attend where every pair has vectors of its relation, looked up in tables of R rows.

    Args:
        query: ``(…, h, m, d_head)``, scaled.
        relations: of each kind what gives the index of every pair of some of the m queries and the
            first of the n keys, broadcastable to ``(…, h, rows, keys)``, and the tables for keys
            ``(R, d_head)`` and values ``(R, d_head_value)``. Several add up.
    """
    m, n = query.shape[-2], source.key.shape[-2]

    def read(rows: slice, query: Tensor, key: Tensor, value: Tensor, *tables: Tensor) -> Attended:
        seen = slice(0, visible.reached(rows, m, n).stop)
        q, value = query[..., rows, :], value[..., seen, :]
        found = [
            (index(rows, seen.stop), *pair)
            for (index, *_), pair in zip(relations, zip(tables[::2], tables[1::2]))
        ]
        scores = wide_product(q, key[..., seen, :].mT)  # (…, h, rows, keys)
        # sums over many pairs are kept in it: a GPU rounds them after each addition
        wide = wide_dtype(scores)
        for index, keys, _ in found:
            by_relation = wide_product(q, keys.T).expand(*scores.shape[:-1], -1)  # (…, h, rows, R)
            # Its gradient is such a sum.
            picked = by_relation.to(wide).gather(-1, index.expand(scores.shape))
            scores = scores + picked.to(scores.dtype)
        mask = visible.block(rows, seen, m, n, query.device)
        weights = softmax_over_allowed(scores, mask).to(value.dtype)
        used = weights if dropout is None else dropout(weights)
        context = used @ value  # (…, h, rows, d_head_value)
        for index, _, values in found:
            shares = used.new_zeros(*used.shape[:-1], len(values), dtype=wide)
            # the weight of each relation
            shares = shares.scatter_add(-1, index.expand(used.shape), used.to(wide))
            context = context + shares.to(used.dtype) @ values.to(used.dtype)
        return Attended(context, weights)

    batch = common_shape(query.shape[:-2], source.key.shape[:-2])
    tables = [table for _, *pair in relations for table in pair]
    tensors = query, source.key, source.value, *tables
    return attend_in_rows(read, tensors, (*batch, m, n), need_weights, dropout)


def relation_table(rows: int, width: int) -> nn.Parameter:
    """A learned vector for each of so many relations."""
    return nn.Parameter(nn.init.xavier_uniform_(torch.empty(rows, width)))
