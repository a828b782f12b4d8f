"""Multi-head attention: several attentions side by side, each in a narrow space of its own."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import nn

from ...validate import (
    check_integer,
    check_mask,
    check_number,
    check_tensor,
    check_value,
    common_shape,
    require,
)
from ..dropout import Dropout
from ..linear import Linear
from ..scores.base import Score
from ..scores.functions import ScaledDotScore
from .attend import Attended, attend_unchecked
from .masks import rows_that_see
from .nonfinite import attend_despite

__all__ = ["MultiHeadAttention", "ProjectedSource"]


class ProjectedSource(NamedTuple):
    """Keys and values of one source in every head: what a decoder computes once and reads at each
    step.

    ``key (…, h, n, d_head)``, ``value (…, h, n, d_head_value)``, and ``scored``, what the score
    makes of the keys, or None where it takes them as they are, or where that depends on where in
    the source a key stands (``counts_positions``), which the next :meth:`extend` would change: then
    it is made when the source is read."""

    key: torch.Tensor
    value: torch.Tensor
    scored: torch.Tensor | None = None

    @property
    def length(self) -> int:
        """n, the number of positions that a mask covers."""
        return self.key.shape[-2]

    def extend(self, more: ProjectedSource) -> ProjectedSource:
        """The source with further positions at its end: the cache of a decoder, one step on."""
        key, value = (torch.cat(pair, dim=-2) for pair in zip(self[:2], more[:2]))
        if self.scored is None or more.scored is None:
            return ProjectedSource(key, value)
        return ProjectedSource(key, value, torch.cat([self.scored, more.scored], dim=-2))


class MultiHeadAttention(nn.Module):
    """h attentions at once, each on its own projections of queries, keys and values.

    ``head_i = attend(score, Q W_q,i, K W_k,i, V W_v,i)`` for i = 1 … h,
    ``output = [head_1; …; head_h] W_o``

    One matrix holds the W of all heads side by side: head i has the columns from (i − 1)·d_head on.
    (``nn.Linear`` keeps the transpose, so these are rows of ``weight``.) Biases are added to all
    four products unless ``bias`` is False.

    Args:
        d_model: width of the output, and of the inputs unless said otherwise.
        num_heads: h.
        d_query, d_key, d_value: widths of the inputs; ``d_model``, ``d_model`` and ``d_key`` when
            not given.
        d_head: width of queries and keys in a head; ``d_model / h`` when not given.
        d_head_value: width of values in a head; ``d_head`` when not given.
        score: how a query matches a key, for widths d_head; :class:`ScaledDotScore` when not given,
            so that the scale is √d_head. A score with parameters shares them between the heads.
        bias: whether the four projections have one; the paper's formula has none, PyTorch's layer
            has.
        dropout: of the weights, while training; the paper says nothing of it, PyTorch's layer has
            it.

    Raises:
        ValueError: if a width is below 1, ``d_model`` does not divide by ``num_heads`` (and no
            ``d_head`` is given), or the score was made for another width.

    Source: Vaswani et al. 2017, section 3.2.2.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        d_query: int | None = None,
        d_key: int | None = None,
        d_value: int | None = None,
        d_head: int | None = None,
        d_head_value: int | None = None,
        score: Score | None = None,
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.d_model = check_integer("d_model", d_model)
        self.num_heads = check_integer("num_heads", num_heads)
        require(
            d_head is not None or d_model % num_heads == 0,
            f"d_model must divide by num_heads, got {d_model} and {num_heads}: give d_head, or "
            f"another number",
        )
        self.d_head = check_integer("d_head", d_model // num_heads if d_head is None else d_head)
        self.d_head_value = check_integer(
            "d_head_value", self.d_head if d_head_value is None else d_head_value
        )
        self.query_width = check_integer("d_query", d_model if d_query is None else d_query)
        self.key_width = check_integer("d_key", d_model if d_key is None else d_key)
        self.value_width = check_integer("d_value", self.key_width if d_value is None else d_value)
        self.score = ScaledDotScore() if score is None else score
        require(isinstance(self.score, Score), f"score must be a Score, got {type(score).__name__}")
        for name in ("query_width", "key_width"):
            width = getattr(self.score, name)
            require(
                width in (None, self.d_head),
                f"score must be made for the width of a head, {self.d_head}; its {name} is {width}",
            )
        # W_q of all heads
        self.query_projection = Linear(self.query_width, num_heads * self.d_head, bias=bias)
        self.key_projection = Linear(self.key_width, num_heads * self.d_head, bias=bias)
        self.value_projection = Linear(self.value_width, num_heads * self.d_head_value, bias=bias)
        self.output_projection = Linear(num_heads * self.d_head_value, d_model, bias=bias)  # W_o
        dropout = check_number("dropout", dropout, least=0, below=1)
        self.dropout = Dropout(dropout) if dropout else None
        for layer in (
            self.query_projection,
            self.key_projection,
            self.value_projection,
            self.output_projection,
        ):
            nn.init.xavier_uniform_(layer.weight)
            if bias:
                nn.init.zeros_(layer.bias)

    def project(self, key: torch.Tensor, value: torch.Tensor | None = None) -> ProjectedSource:
        """Project a source ``(…, n, d_key)`` into all heads, once for any number of queries; value
        as in :meth:`forward`.
        """
        value = self._check_source(key, value)
        keys = self._split(self.key_projection(key))
        scored = keys if self.score.counts_positions else self.score.project_keys(keys)
        return ProjectedSource(
            keys, self._split(self.value_projection(value)), None if scored is keys else scored
        )

    def _check_source(self, key: torch.Tensor, value: torch.Tensor | None) -> torch.Tensor:
        """Return the value of a source ``(…, n, d_key)``, the key when not given, or raise
        ``ValueError`` where one does not fit.
        """
        check_tensor("key", key, width=self.key_width)
        return check_value(key if value is None else value, key, width=self.value_width)

    def forward(
        self,
        query: torch.Tensor,
        key: torch.Tensor | None = None,
        value: torch.Tensor | None = None,
        mask: torch.Tensor | None = None,
        *,
        need_weights: bool = True,
        projected: ProjectedSource | None = None,
    ) -> Attended:
        """Attend with every head.

        Args:
            query: ``(…, m, d_query)``.
            key: ``(…, n, d_key)``; the query itself when not given, which is self-attention.
            value: ``(…, n, d_value)``; the keys when not given.
            mask: boolean, True = may attend. Broadcastable to ``(…, m, n)``, the same for all
                heads; or, with one dimension more than that, to ``(…, h, m, n)``.
            need_weights: when False the m×n matrices are not returned and never stored, as in
                :func:`attnbook.attend`.
            projected: ``project(key, value)``, instead of key and value.

        Returns:
            :class:`Attended`: ``context (…, m, d_model)`` and ``weights (…, h, m, n)`` or None. A
            query that may attend to nothing in any head gets a row of zeros, without the output's
            bias; with gradient zero.

        Raises:
            ValueError: for a wrong shape, width or dtype, no keys at all, or a mask that is not
                boolean or does not fit.
        """
        check_tensor("query", query, width=self.query_width)
        require(
            projected is None or (key is None and value is None),
            "give key and value, or projected, not both",
        )
        if projected is not None:
            leading = projected.key.shape[:-3]
            mask, dims = self._check_mask(query, leading, projected.length, mask)
            return self._run(query, projected, mask, need_weights, dims)
        key = query if key is None else key
        value = self._check_source(key, value)
        mask, dims = self._check_mask(query, key.shape[:-2], key.shape[-2], mask)

        def run(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> Attended:
            return self._run(query, self.project(key, value), mask, need_weights, dims)

        if mask is None:
            return run(query, key, value)
        return attend_despite(run, query, key, value, mask)

    def _check_mask(
        self, query: torch.Tensor, leading: torch.Size, n: int, mask: torch.Tensor | None
    ) -> tuple[torch.Tensor | None, int]:
        """The mask for a source of n positions, with two dimensions at least, and the number of
        leading dimensions of the problem; or a ``ValueError``.
        """
        require(n >= 1, f"key must have at least one position, got {n}: an empty source")
        try:
            batch = common_shape(query.shape[:-2], leading)
        except RuntimeError:
            raise ValueError(
                "query and key must have leading dimensions that broadcast, got "
                f"{tuple(query.shape[:-2])} and {tuple(leading)}"
            ) from None
        m = query.shape[-2]
        with_heads = isinstance(mask, torch.Tensor) and mask.dim() == len(batch) + 3
        check_mask(mask, (*batch, self.num_heads, m, n) if with_heads else (*batch, m, n))
        return mask if mask is None or mask.dim() > 1 else torch.atleast_2d(mask), len(batch)

    def _run(
        self,
        query: torch.Tensor,
        source: ProjectedSource,
        mask: torch.Tensor | None,
        need_weights: bool,
        leading: int,
    ) -> Attended:
        """:meth:`forward` for arguments that are checked, with so many leading dimensions."""
        m, n, everywhere = query.shape[-2], source.length, mask
        if mask is not None and 3 <= mask.dim() <= leading + 2:  # the same for all heads
            everywhere = mask.unsqueeze(-3)  # (…, 1, m, n)
        context, weights = self._attend(
            self._split(self.query_projection(query)), source, everywhere, need_weights
        )
        output = self._join(context)
        if self._joined_zeros_differ:
            some = self._rows_that_see(mask, m, n)
            if some is not None and some.dim() > leading + 1:  # (…, h, m)
                some = some.any(-2)
            output = output if some is None else output.masked_fill(~some.unsqueeze(-1), 0.0)
        return Attended(output, weights)

    def _rows_that_see(self, mask: torch.Tensor | None, m: int, n: int) -> torch.Tensor | None:
        """Which of m queries attend to anything under a mask ``(…, m, n)``: ``(…, m)``, or None
        where all do. The dimension of the heads, if the mask has one, stays."""
        return rows_that_see(mask)

    def _attend(
        self,
        query: torch.Tensor,
        source: ProjectedSource,
        mask: torch.Tensor | None,
        need_weights: bool,
    ) -> Attended:
        """Attend in all heads: query ``(…, h, m, d_head)``, context ``(…, h, m, d_head_value)``."""
        scored = self._scored(source)
        return attend_unchecked(
            self.score, query, scored, source.value, mask, need_weights, self.dropout
        )

    def _scored(self, source: ProjectedSource) -> torch.Tensor:
        """The projected keys of a source, ``(…, h, n, width)``."""
        if source.scored is not None:
            return source.scored
        return self.score.project_keys(source.key) if self.score.counts_positions else source.key

    def _join(self, context: torch.Tensor) -> torch.Tensor:
        """Make one vector of those of the heads, ``(…, h, m, d_head_value)`` →
        ``(…, m, d_model)``."""
        # heads side by side, then W_o
        return self.output_projection(context.transpose(-3, -2).flatten(-2))

    @property
    def _joined_zeros_differ(self) -> bool:
        """Whether heads that found nothing would be joined to something else than zeros."""
        return self.output_projection.bias is not None

    def _split(self, projected: torch.Tensor) -> torch.Tensor:
        """``(…, n, h·w)`` → ``(…, h, n, w)``: cut every row into heads, then let the heads be a
        batch dimension.
        """
        return projected.unflatten(-1, (self.num_heads, -1)).transpose(-3, -2)
