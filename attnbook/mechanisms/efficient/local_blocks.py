"""Local attention in blocks: stretches of one length, each of which attends to itself alone."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...kernels.visible import Visible
from ...validate import check_integer, require
from ..attention.multi_head import MultiHeadAttention
from ..attention.soft_attention import Attended, attend_unchecked
from ..caches.key_value import ProjectedSource
from ..scores.base import Score

__all__ = ["LocalAttention"]


class LocalAttention(MultiHeadAttention):
    """Multi-head self-attention inside blocks of ``block_length`` positions, never across.

    ``head(query_t) = attend(query_t, {(k_j, v_j) : ⌊j / L⌋ = ⌊t / L⌋})``, with positions counted
    from 0 and L = ``block_length``

    The blocks do not move with the query: under a causal mask the first position of a block attends
    to itself alone. No n×n matrix is made, in time or in memory, unless the weights are asked for:
    n/L matrices of L×L are.

    The queries are the last m of the n positions, so that a decoder may run with a cache. Blocks
    are counted from the first position of the cache; texts that go on after prompts of different
    lengths should begin with one length.

    Args:
        d_model, num_heads, d_head, score, bias, dropout, rotary: as in
            :class:`~attnbook.mechanisms.attention.multi_head.MultiHeadAttention`.
        block_length: L; 256 in the paper.

    Shapes: as :class:`~attnbook.mechanisms.attention.multi_head.MultiHeadAttention` with m ≤ n; the
    mask ``(…, m, n)`` says who may attend to whom as ever, and what it allows beyond a block is not
    used. Weights ``(…, h, m, n)``, zero beyond the block.

    Source: Liu et al. 2018, section 4.2.4, "local attention".
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        block_length: int,
        d_head: int | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        score: Score | None = None,
        rotary: nn.Module | None = None,
    ) -> None:
        super().__init__(
            d_model,
            num_heads,
            d_head=d_head,
            bias=bias,
            dropout=dropout,
            score=score,
            rotary=rotary,
        )
        self.block_length = check_integer("block_length", block_length)

    def attend_heads(
        self, query: Tensor, source: ProjectedSource, visible: Visible, need_weights: bool
    ) -> Attended:
        m, n, length = query.shape[-2], source.length, self.block_length
        require(
            n >= m,
            f"key must have at least as many positions as query ({m}: they are the last of the "
            f"text), got {n}",
        )
        first, before, blocks = _reach(m, n, length)
        query = _cut(query, before, blocks, length)  # (…, h, blocks, L, d_head)
        # the keys of the full text are scored: a score may count positions
        scored = source.key if source.scored is None else source.scored
        if self.score.depends_on_position:
            scored = self.score.project_keys(source.key)
        scored, value = (_cut(t[..., first:, :], 0, blocks, length) for t in (scored, source.value))
        inside = _inside(visible, m, n, length)
        # what fills up the last block is not there, and after all that is
        if visible.reach is None and blocks * length > n - first:
            place = torch.arange(blocks * length, device=query.device).view(blocks, 1, length)
            there = place < n - first
            inside = Visible(there if inside.mask is None else inside.mask & there)
        context, weights = attend_unchecked(
            self.score, query, scored, value, inside, need_weights, self.dropout
        )
        context = context.flatten(-3, -2)[..., before : before + m, :]
        if weights is None:
            return Attended(context, None)
        # (…, h, blocks, L, L) -> (…, h, m, n): the blocks on the diagonal of a matrix of zeros
        full = torch.diag_embed(weights.movedim(-3, -1)).movedim((-2, -1), (-4, -2))
        full = full.flatten(-4, -3).flatten(-2)[..., before : before + m, : n - first]
        return Attended(context, F.pad(full, (first, 0)))

    def rows_that_see(
        self, visible: Visible, m: int, n: int, positions: Tensor | None = None
    ) -> Tensor | None:
        length = self.block_length
        if positions is not None:  # (…, blocks, L)
            positions = _diagonal(positions.unsqueeze(-2), m, n, length).squeeze(-2)
        seen = _inside(visible, m, n, length).rows(length, length, positions)
        if seen is None:
            return None
        _, before, blocks = _reach(m, n, length)
        seen = seen.expand(*seen.shape[:-2], blocks, length)
        return seen.flatten(-2)[..., before : before + m]


def _reach(m: int, n: int, length: int) -> tuple[int, int, int]:
    """The first position of the blocks that m last queries of n positions stand in, how many
    positions of these blocks stand before the first query, and the number of blocks."""
    first = (n - m) // length * length
    return first, n - m - first, -(-(n - first) // length)


def _cut(rows: Tensor, before: int, blocks: int, length: int) -> Tensor:
    """``(…, positions, width)`` → ``(…, blocks, length, width)``, after ``before`` zeros."""
    after = blocks * length - before - rows.shape[-2]
    rows = F.pad(rows, (0, 0, before, after)) if before or after else rows
    return rows.unflatten(-2, (blocks, length))


def _inside(visible: Visible, m: int, n: int, length: int) -> Visible:
    """What is visible inside of the blocks, whose queries and keys have the same places."""
    mask = visible.mask
    return Visible(None if mask is None else _diagonal(mask, m, n, length), visible.reach)


def _diagonal(mask: Tensor, m: int, n: int, length: int) -> Tensor:
    """A mask ``(…, m or 1, n or 1)`` inside of the blocks: ``(…, blocks, L or 1, L or 1)``."""
    first, before, blocks = _reach(m, n, length)
    rows_cut, columns_cut = mask.shape[-2] > 1, mask.shape[-1] > 1
    # (…, blocks or 1, L or 1, columns)
    mask = _cut(mask, before, blocks, length) if rows_cut else mask.unsqueeze(-3)
    if not columns_cut:
        return mask
    # (…, blocks or 1, L or 1, blocks, L)
    mask = _cut(mask[..., first:].mT, 0, blocks, length).movedim(-1, -3)
    if not rows_cut:
        return mask.squeeze(-4).movedim(-2, -3)
    return mask.diagonal(dim1=-4, dim2=-2).movedim(-1, -3)
