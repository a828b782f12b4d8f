"""Attention to fewer keys than there are positions: memory-compressed attention, and Linformer."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...kernels.visible import Visible, join_nonfinite
from ...validate import check_choice, check_integer, require
from ..attention.multi_head import MultiHeadAttention, split_heads
from ..attention.soft_attention import Attended, attend_unchecked
from ..caches.key_value import ProjectedSource
from ..scores.base import Score

__all__ = ["CompressedSource", "LengthProjection", "LinformerAttention"]
__all__ += ["MemoryCompressedAttention"]


class CompressedSource(NamedTuple):
    """The cache of a :class:`MemoryCompressedAttention`.

    ``key``, ``value`` ``(…, h, c, d_head)`` of the c stretches that are compressed already;
    ``waiting``, the keys and values ``(…, h, w, d_head)`` of the positions from the next stretch
    on; ``length``, the number of positions n; ``layer``, which compresses; ``nonfinite (…, n)``, as
    of any source."""

    key: Tensor
    value: Tensor
    waiting: tuple[Tensor, Tensor]
    length: int
    layer: MemoryCompressedAttention
    nonfinite: Tensor | None = None

    def extend(self, more: CompressedSource) -> CompressedSource:
        """The text with further positions after it, just projected: a cache, one step on."""
        settled = self.settled()
        waiting = tuple(torch.cat([a, b], dim=-2) for a, b in zip(settled.waiting, more.waiting))
        return settled._replace(
            waiting=waiting,
            length=settled.length + more.length,
            nonfinite=join_nonfinite(self, more),
        )

    def with_nonfinite(self, nonfinite: Tensor) -> CompressedSource:
        """The source with what is known of its positions."""
        return self._replace(nonfinite=nonfinite)

    def nonfinite_rows(self) -> Tensor:
        """:attr:`nonfinite`, written out."""
        if self.nonfinite is not None:
            return self.nonfinite
        return self.key.new_zeros(*self.key.shape[:-3], self.length, dtype=torch.bool)

    def settled(self) -> CompressedSource:
        """The same text with every stretch compressed that is complete."""
        count = self.layer.stretches(self.waiting[0].shape[-2])
        if count == 0:
            return self
        layers = self.layer.key_compression, self.layer.value_compression
        key, value = (
            torch.cat([done, _convolve(layer, waiting)], dim=-2)
            for done, layer, waiting in zip(self[:2], layers, self.waiting)
        )
        waiting = tuple(t[..., count * self.layer.stride :, :] for t in self.waiting)
        return self._replace(key=key, value=value, waiting=waiting)


class MemoryCompressedAttention(MultiHeadAttention):
    """Multi-head self-attention to keys and values that a strided convolution has made fewer.

    ``k'_c = b_K + Σ_{i<w} W_K,i k_{sc+i}``, ``v'_c`` likewise,
    ``head(query_t) = attend(query_t, {(k'_c, v'_c) : allowed})``

    with positions counted from 0, a kernel of w = ``kernel_size`` positions and a stride of s, both
    3 in the paper. The convolution runs over all heads at once and only over whole kernels, so
    there are c = ⌊(n − w) / s⌋ + 1 stretches, none if n < w. The queries stay as many as they are.

    A query may attend to a stretch if the mask allows it **every** position in it. So under a
    causal mask nothing comes back from a later position: query t sees the stretches with sc + w − 1
    ≤ t. The paper does not say what the first w − 1 queries see, which stand before the end of the
    first stretch; here they see nothing and get zeros. Nor does anybody see the newest positions
    before their stretch is complete: a layer of local attention has to tell of them.

    With a cache the stretches are counted from its first position. Texts that go on after prompts
    of different lengths should begin with one length, since a stretch with padding in it is seen by
    nobody.

    Args:
        d_model, num_heads, d_head, score, bias, dropout: as in
            :class:`~attnbook.mechanisms.attention.multi_head.MultiHeadAttention`.
        kernel_size, stride: w and s ≤ w.

    Shapes: as :class:`~attnbook.mechanisms.attention.multi_head.MultiHeadAttention`, with a mask
    ``(…, m, n)`` over the positions, and weights ``(…, h, m, c)`` over the stretches.

    Source: Liu et al. 2018, section 4.2.4, "memory-compressed attention".
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        kernel_size: int = 3,
        stride: int = 3,
        d_head: int | None = None,
        bias: bool = True,
        dropout: float = 0.0,
        score: Score | None = None,
    ) -> None:
        super().__init__(d_model, num_heads, d_head=d_head, bias=bias, dropout=dropout, score=score)
        self.kernel_size = check_integer("kernel_size", kernel_size)
        self.stride = check_integer("stride", stride)
        require(
            stride <= kernel_size,
            f"stride must be at most kernel_size = {kernel_size}, else positions are left out, "
            f"got {stride}",
        )
        keys, values = self.key_projection.out_features, self.value_projection.out_features
        self.key_compression = nn.Conv1d(keys, keys, kernel_size, stride)  # W_K, b_K
        self.value_compression = nn.Conv1d(values, values, kernel_size, stride)

    def stretches(self, n: int) -> int:
        """How many whole stretches n positions make."""
        return (n - self.kernel_size) // self.stride + 1 if n >= self.kernel_size else 0

    def project_heads(self, key: Tensor, value: Tensor, position: int | Tensor) -> CompressedSource:
        """Keys and values of all heads, to be compressed when they are read."""
        keys = split_heads(self.key_projection(key), self.num_heads)
        values = split_heads(self.value_projection(value), self.num_heads)
        return CompressedSource(
            keys[..., :0, :], values[..., :0, :], (keys, values), key.shape[-2], self
        )

    def attend_heads(
        self, query: Tensor, source: CompressedSource, visible: Visible, need_weights: bool
    ) -> Attended:
        source = source.settled()
        if source.key.shape[-2] == 0:
            batch = torch.broadcast_shapes(query.shape[:-2], source.value.shape[:-2])
            nothing = source.value.new_zeros(*batch, query.shape[-2], source.value.shape[-1])
            return Attended(nothing, nothing[..., :0] if need_weights else None)
        scored, value = self.score.project_keys(source.key), source.value
        m, n = query.shape[-2], source.length
        allowed = self._visible_stretches(visible, m, n)
        attend = partial(attend_unchecked, need_weights=need_weights, dropout=self.dropout)
        if allowed.reach is None:
            return attend(self.score, query, scored, value, allowed)
        # A query sees the stretches up to the last one that is complete. Of s queries that see as
        # many each goes to another turn, in which the queries are the last of the stretches.
        skipped, before, behind = self._turns(m, n)
        query = F.pad(query[..., skipped:, :], (0, 0, before, behind))
        query = query.unflatten(-2, (-1, self.stride)).movedim(-2, -4)  # (…, s, h, turns, d)
        scored, value = scored.unsqueeze(-4), value.unsqueeze(-4)
        if allowed.mask is not None and allowed.mask.dim() > 2:
            allowed = Visible(allowed.mask.unsqueeze(-4), allowed.reach)
        context, weights = attend(self.score, query, scored, value, allowed)

        def of_all(turns: Tensor) -> Tensor:
            rows = turns.movedim(-4, -2).flatten(-3, -2)
            return F.pad(rows[..., before : before + m - skipped, :], (0, 0, skipped, 0))

        return Attended(of_all(context), None if weights is None else of_all(weights))

    def _turns(self, m: int, n: int) -> tuple[int, int, int]:
        """How many of the last m of n queries see nothing, and what stands before and after the
        others so that they are whole groups of s that see the same stretches.
        """
        place = n - m - self.kernel_size + 1  # of the first, from the one that sees a stretch on
        skipped, before = min(m, max(0, -place)), max(0, place) % self.stride
        return skipped, before, -(m - skipped + before) % self.stride

    def _over_stretches(self, mask: Tensor | None) -> Tensor | None:
        """A mask ``(…, m, n)`` as one over stretches, ``(…, m, c)``: all positions allowed."""
        if mask is None or mask.shape[-1] == 1:
            return mask
        return mask.unfold(-1, self.kernel_size, self.stride).all(-1)

    def _visible_stretches(self, visible: Visible, m: int, n: int) -> Visible:
        mask = visible.mask
        if mask is None or mask.shape[-2] == 1:  # with the rule, over stretches too
            return Visible(self._over_stretches(mask), visible.reach)
        return Visible(self._over_stretches(visible.matrix(m, n, mask.device)))

    def rows_that_see(
        self, visible: Visible, m: int, n: int, positions: Tensor | None = None
    ) -> Tensor | None:
        stretches = self.stretches(n)
        if stretches == 0:
            return torch.zeros(m, dtype=torch.bool, device=self.output_projection.weight.device)
        if positions is not None:
            positions = positions.unfold(-1, self.kernel_size, self.stride).any(-1)
        allowed = self._visible_stretches(visible, m, n)
        if allowed.reach is None:
            return allowed.rows(m, stretches, positions)
        skipped, before, behind = self._turns(m, n)
        turns = (m - skipped + before + behind) // self.stride
        seen = allowed.rows(turns, stretches, positions)
        if seen is None:
            seen = torch.ones(turns, dtype=torch.bool, device=self.output_projection.weight.device)
        seen = seen.expand(*seen.shape[:-1], turns).repeat_interleave(self.stride, -1)
        return F.pad(seen[..., before : before + m - skipped], (skipped, 0))


def _convolve(layer: nn.Conv1d, heads: Tensor) -> Tensor:
    """``(…, h, n, w)`` → ``(…, h, c, w)``, with the heads side by side in the convolution."""
    *batch, h, n, w = heads.shape
    compressed = layer(heads.transpose(-3, -2).reshape(-1, n, h * w).mT)  # (batch, h·w, c)
    return compressed.mT.reshape(*batch, compressed.shape[-1], h, w).transpose(-3, -2)


class LengthProjection(nn.Module):
    """A matrix over positions, ``rows' = E rows``: n ≤ ``length`` rows to k = ``rank`` mixtures.

    A text shorter than ``length`` meets the first n columns of E, as if zeros filled it up. The
    entries start with variance 1 / ``length``, so that a mixture is as large as what it is a
    mixture of; the paper is silent on the start.

    Args:
        length: the largest n.
        rank: k ≤ ``length``.
        num_heads: h, for a matrix of its own in every head.

    Shapes: ``(…, h, n, d)`` → ``(…, h, k, d)``.

    Source: Wang et al. 2020, section 4.
    """

    def __init__(self, length: int, rank: int, num_heads: int | None = None) -> None:
        super().__init__()
        self.length, self.rank = check_integer("length", length), check_integer("rank", rank)
        require(rank <= length, f"rank must be at most length = {length}, got {rank}")
        heads = () if num_heads is None else (check_integer("num_heads", num_heads),)
        self.weight = nn.Parameter(torch.randn(*heads, rank, length) * length**-0.5)  # E

    def forward(self, rows: Tensor) -> Tensor:
        n = rows.shape[-2]
        require(
            n <= self.length,
            f"key must have at most length = {self.length} positions, for which the projection "
            f"was made, got {n}",
        )
        return self.weight[..., :n] @ rows


class _FixedSource(ProjectedSource):
    """Keys and values that cannot be extended."""

    __slots__ = ()

    def extend(self, more: ProjectedSource) -> ProjectedSource:
        raise ValueError(
            "a cache cannot be extended with LinformerAttention: its projection mixes all "
            "positions, the later ones too. It is for encoders"
        )


class LinformerAttention(MultiHeadAttention):
    """Multi-head attention to k learned mixtures of the keys, and of the values, instead of to n of
    them.

    ``head_i = softmax(Q W_q,i (E_i K W_k,i)ᵀ / √d_head) (F_i V W_v,i)``, E_i and F_i of shape k×n

    Time and memory are those of m×k scores, linear in n. Every key that is compared is a mixture of
    all positions, later ones too, so this is for encoders: a mask that differs from query to query,
    as a causal one does, is refused, and so is a cache. Padding is set to zero before it would
    enter a mixture.

    Args:
        d_model, num_heads, d_head, d_head_value, bias, dropout: as in
            :class:`~attnbook.mechanisms.attention.multi_head.MultiHeadAttention`.
        length: the largest n.
        rank: ``k``.
        sharing: ``"none"``: an E_i and an F_i for each head; ``"headwise"``: one E and one F;
            ``"key-value"``: E = F, one matrix for all heads.
        projection: a :class:`LengthProjection` to use for keys and values of all heads instead,
            with one matrix or ``num_heads``. Given to the attention of every block it is the
            paper's layerwise sharing.

    Shapes: as :class:`~attnbook.mechanisms.attention.multi_head.MultiHeadAttention` with n ≤
    ``length``; mask broadcastable to ``(…, 1, n)``, the same for all queries; weights
    ``(…, h, m, k)`` over the mixtures.

    Source: Wang et al. 2020, equation 7 and section 4.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        length: int | None = None,
        rank: int | None = None,
        sharing: str = "headwise",
        projection: LengthProjection | None = None,
        d_head: int | None = None,
        d_head_value: int | None = None,
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(
            d_model, num_heads, d_head=d_head, d_head_value=d_head_value, bias=bias, dropout=dropout
        )
        check_choice("sharing", sharing, ("none", "headwise", "key-value"))
        if projection is None:
            each = num_heads if sharing == "none" else None
            length, rank = check_integer("length", length), check_integer("rank", rank)
            self.key_mixture = self.value_mixture = LengthProjection(length, rank, each)  # E
            if sharing != "key-value":
                self.value_mixture = LengthProjection(length, rank, each)  # F
        else:
            require(
                isinstance(projection, LengthProjection) and length is None and rank is None,
                "give length and rank, or projection, a LengthProjection, which has them",
            )
            heads = projection.weight.shape[:-2]
            require(
                heads in ((), (1,), (num_heads,)),
                "projection must have one matrix for all heads or one for each of num_heads = "
                f"{num_heads}, got {heads.numel()}",
            )
            self.key_mixture = self.value_mixture = projection

    def project_heads(self, key: Tensor, value: Tensor, position: int | Tensor) -> ProjectedSource:
        """Keys and values of all heads, to be mixed when they are read and the mask is known."""
        source = super().project_heads(key, value, position)
        return _FixedSource(source.key, source.value)

    def attend_heads(
        self, query: Tensor, source: ProjectedSource, visible: Visible, need_weights: bool
    ) -> Attended:
        key, value = source.key, source.value
        mask = visible.matrix(query.shape[-2], source.length, query.device)
        if mask is not None:
            require(
                mask.shape[-2] == 1,
                f"mask must be the same for all queries, (…, 1, n), got shape {tuple(mask.shape)}: "
                "LinformerAttention mixes all positions before a query sees them, so that a "
                "causal mask could not keep the later ones out",
            )
            nothing = ~mask.transpose(-1, -2)  # (…, n, 1)
            key, value = key.masked_fill(nothing, 0.0), value.masked_fill(nothing, 0.0)
            # a row sees everything or, where there is nothing, nothing
            mask = mask.any(-1, keepdim=True)
        scored, value = self.score.project_keys(self.key_mixture(key)), self.value_mixture(value)
        visible = Visible(mask)
        return attend_unchecked(
            self.score, query, scored, value, visible, need_weights, self.dropout
        )
