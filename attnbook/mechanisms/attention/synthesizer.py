"""Synthesizers: attention whose scores are not a comparison of queries with keys."""

import torch
from torch import Tensor, nn

from ...kernels.visible import Visible
from ...validate import check_choice, check_integer, common_shape, require
from ..caches.key_value import ProjectedSource
from .masks import softmax_over_allowed
from .multi_head import MultiHeadAttention, split_heads
from .soft_attention import Attended, attend_in_rows

__all__ = ["SYNTHESIZERS", "SynthesizerAttention"]


class _Dense(nn.Module):
    """``F(q) = W_2 relu(q) + b``, a score for each of L places, from the query alone."""

    def __init__(self, num_heads: int, d_head: int, length: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(num_heads, d_head, length))  # W_2 of all heads
        self.bias = nn.Parameter(torch.zeros(num_heads, 1, length))
        nn.init.normal_(self.weight, std=d_head**-0.5)

    def forward(self, query: Tensor, places: slice, n: int) -> Tensor:
        return query.relu() @ self.weight[..., :n] + self.bias[..., :n]  # (…, h, m, n)


class _FactorisedDense(nn.Module):
    """``F(q)_{j} = A(q)_{j div b} B(q)_{j mod b}``: two short rows of a·b ≥ L places instead of a
    long one.
    """

    def __init__(self, num_heads: int, d_head: int, length: int) -> None:
        super().__init__()
        b = max(1, round(length**0.5))
        self.coarse = _Dense(num_heads, d_head, -(-length // b))
        self.fine = _Dense(num_heads, d_head, b)

    def forward(self, query: Tensor, places: slice, n: int) -> Tensor:
        a, b = self.coarse.bias.shape[-1], self.fine.bias.shape[-1]
        # (…, h, m, a, b)
        coarse, fine = self.coarse(query, places, a), self.fine(query, places, b)
        product = coarse[..., :, None] * fine[..., None, :]
        return product.flatten(-2)[..., :n]


class _Random(nn.Module):
    """``R``, a learned L×L matrix in each head: the same for every input."""

    def __init__(self, num_heads: int, d_head: int, length: int) -> None:
        super().__init__()
        self.scores = nn.Parameter(torch.randn(num_heads, length, length))

    def forward(self, query: Tensor, places: slice, n: int) -> Tensor:
        return self.scores[:, places, :n]


class _FactorisedRandom(nn.Module):
    """``R_1 R_2ᵀ``, learned matrices of rank k."""

    def __init__(self, num_heads: int, d_head: int, length: int, rank: int = 8) -> None:
        super().__init__()
        self.rows = nn.Parameter(torch.randn(num_heads, length, rank) * rank**-0.25)
        self.columns = nn.Parameter(torch.randn(num_heads, length, rank) * rank**-0.25)

    def forward(self, query: Tensor, places: slice, n: int) -> Tensor:
        return self.rows[:, places] @ self.columns[:, :n].mT


class _UnusedProjection(nn.Module):
    """Takes the part of the query projection where the scores ignore the queries: the right shape,
    without parameters or cost.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width

    def forward(self, x: Tensor) -> Tensor:
        return x.detach()[..., :1].expand(*x.shape[:-1], self.width)


SYNTHESIZERS: dict[str, type[nn.Module]] = {
    "dense": _Dense,
    "factorised-dense": _FactorisedDense,
    "random": _Random,
    "factorised-random": _FactorisedRandom,
}
"""Where the scores of a :class:`SynthesizerAttention` come from."""


class SynthesizerAttention(MultiHeadAttention):
    """Multi-head self-attention with synthesised scores.

    ``α_t = softmax(S_t)`` over the positions that the mask allows, with

    - dense: ``S_t = W_2 relu(W_1 x_t) + b``, one number for each of the L places there may be; the
      word itself decides where it looks, whatever stands there;
    - random: ``S = R``, learned and the same for every input;
    - factorised-dense, factorised-random: the same with fewer parameters,
      ``S_tj = A(x_t)_{j div b} B(x_t)_{j mod b}`` and ``S = R_1 R_2ᵀ``.

    ``mix`` puts the scores of the dot product beside them: ``"plus"`` adds both, ``"alpha"`` takes
    ``(1 − σ(a)) q·k/√d_head + σ(a) S`` with a learned number a, 0 at the start.

    Args:
        d_model, num_heads, d_head, d_head_value, bias, dropout: as in
            :class:`~attnbook.mechanisms.attention.multi_head.MultiHeadAttention`. W_1 is the
            projection of the queries.
        length: L, the largest number of positions.
        kind: a name in :data:`SYNTHESIZERS`.
        mix: None, ``"plus"`` or ``"alpha"``.

    Unless the weights are asked for, queries are read in blocks, in the backward pass again.

    Source: Tay et al. 2021, section 3; the mixtures as Narang et al. 2021 compare them.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        length: int,
        kind: str = "dense",
        mix: str | None = None,
        d_head: int | None = None,
        d_head_value: int | None = None,
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__(
            d_model, num_heads, d_head=d_head, d_head_value=d_head_value, bias=bias, dropout=dropout
        )
        check_choice("kind", kind, SYNTHESIZERS)
        check_choice("mix", mix, (None, "plus", "alpha"))
        self.length, self.kind, self.mix = check_integer("length", length), kind, mix
        self.synthesizer = SYNTHESIZERS[kind](num_heads, self.d_head, length)
        self.share = nn.Parameter(torch.zeros(())) if mix == "alpha" else None  # a
        if mix is None:  # no keys, and no queries where the scores ignore the word
            self.key_projection = None
            if "random" in kind:
                self.query_projection = _UnusedProjection(num_heads * self.d_head)

    def project_heads(self, key: Tensor, value: Tensor, position: int | Tensor) -> ProjectedSource:
        """Keys and values of all heads; without a mixture nobody reads the keys."""
        if self.key_projection is not None:
            return super().project_heads(key, value, position)
        values = split_heads(self.value_projection(value), self.num_heads)
        return ProjectedSource(values[..., :0], values)

    def attend_heads(
        self, query: Tensor, source: ProjectedSource, visible: Visible, need_weights: bool
    ) -> Attended:
        m, n = query.shape[-2], source.value.shape[-2]
        require(
            m <= n <= self.length,
            f"there must be at most length = {self.length} keys, and the queries are the last of "
            f"them; "
            f"got {m} queries and {n} keys",
        )
        batch = common_shape(query.shape[:-2], source.value.shape[:-2])

        def read(rows: slice, query: Tensor, key: Tensor, value: Tensor) -> Attended:
            seen = slice(0, visible.reached(rows, m, n).stop)
            q, value = query[..., rows, :], value[..., seen, :]
            # the queries are the last m of n positions
            places = slice(rows.start + n - m, rows.stop + n - m)
            scores = self.synthesizer(q, places, seen.stop)
            if self.mix is not None:
                compared = self.score.compare(q, key[..., seen, :])
                by = None if self.share is None else self.share.sigmoid()
                scores = compared + scores if by is None else (1 - by) * compared + by * scores
            scores = scores.expand(*batch, *scores.shape[-2:])
            mask = visible.block(rows, seen, m, n, query.device)
            weights = softmax_over_allowed(scores, mask).to(value.dtype)
            dropped = weights if self.dropout is None else self.dropout(weights)
            return Attended(dropped @ value, weights)

        learned = [*self.synthesizer.parameters(), *self.score.parameters()]
        return attend_in_rows(
            read,
            (query, source.key, source.value),
            (*batch, m, n),
            need_weights,
            self.dropout,
            learned if self.share is None else [*learned, self.share],
        )
