"""Multi-head attention: several attentions side by side, each in a narrow space of its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import torch
from torch import nn

from ...kernels.dropout import Dropout
from ...kernels.hidden import attend_despite, rows_that_see
from ...kernels.linear import Linear
from ...validate import (
    check_integer,
    check_maker,
    check_number,
    check_tensor,
    check_value,
    describe,
    require,
)
from ..caches.key_value import ProjectedSource, check_reading
from ..caches.window import NearSinks, RollingSource, join_masks, window_mask
from ..scores.base import Score
from ..scores.functions import ScaledDotScore
from .grouped import attend_in_groups
from .head_options import Rotary, check_heads, place_heads
from .soft_attention import Attended

__all__ = ["MultiHeadAttention"]


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
        output_bias: whether that of the output has one, as ``bias`` says when not given; Qwen2 has
            biases in the other three alone.
        dropout: of the weights, while training; the paper says nothing of it, PyTorch's layer has
            it.
        num_kv_heads: g, a divisor of h: so many heads of keys and values, each read by h/g heads of
            queries that stand side by side. A cache holds g heads. h when not given; 1 is
            multi-query attention.
        rotary: turns queries and keys by their positions, keys before they are cached; for widths
            d_head.
        normalise: from a width to a norm: one for the queries and one for the keys of a head,
            shared by the heads, before they are turned.
        learned_sink: whether each head learns a number ``sink``, whose exponential is one more term
            in the denominator of its softmax. It starts at 0; held there it is "softmax with one
            more". Weights then sum to less than 1.
        window: each position sees itself and window − 1 before it, none after it, so that no causal
            mask is needed; a cache keeps no others. Through L layers L·(window − 1) are reached.
        sinks: so many first positions stay visible and cached, for a text that goes on without end.
            Rotary positions are then those in the cache: a query is never further from the sinks
            than sinks + window − 1, as far as it was in the training, while keys in the window keep
            their distance. (Without sinks both are those in the text, as nothing is far.) Then the
            m×n weights are stored where a query has come further.

    Source: Vaswani et al. 2017, section 3.2.2; one head of keys and values, Shazeer 2019; several,
    Ainslie et al. 2023; rotary positions, Su et al. 2021; norms, Dehghani et al. 2023; learned
    sink, Agarwal et al. 2025 (gpt-oss); window, Jiang et al. 2023 (Mistral 7B); sinks, Xiao et al.
    2024, section 3.2.
    """

    options: ClassVar[tuple[str, ...]] = (
        "num_kv_heads",
        "rotary",
        "normalise",
        "learned_sink",
        "window",
    )
    """Which of these a class takes; one with a formula of its own for the heads takes fewer."""

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
        output_bias: bool | None = None,
        dropout: float = 0.0,
        num_kv_heads: int | None = None,
        rotary: Rotary | None = None,
        normalise: Callable[[int], nn.Module] | None = None,
        learned_sink: bool = False,
        window: int | None = None,
        sinks: int = 0,
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
        require(isinstance(self.score, Score), f"score must be a Score, got {describe(score)}")
        for name, given in (
            ("num_kv_heads", num_kv_heads is not None),
            ("rotary", rotary is not None),
            ("normalise", normalise is not None),
            ("learned_sink", learned_sink),
            ("window", window is not None or sinks > 0),
        ):
            if given:
                self.check_option(name)
        self.sink = nn.Parameter(torch.zeros(num_heads)) if learned_sink else None
        heads = num_heads if num_kv_heads is None else num_kv_heads
        heads, self.window, self.sinks = check_heads(
            num_heads, heads, self.d_head, self.score, rotary, window, sinks
        )
        self.num_kv_heads, self.rotary = heads, rotary
        if normalise is not None:
            check_maker("normalise", normalise)
        self.query_norm = None if normalise is None else normalise(self.d_head)
        self.key_norm = None if normalise is None else normalise(self.d_head)
        # W_q of all heads
        self.query_projection = Linear(self.query_width, num_heads * self.d_head, bias=bias)
        self.key_projection = Linear(self.key_width, heads * self.d_head, bias=bias)
        self.value_projection = Linear(self.value_width, heads * self.d_head_value, bias=bias)
        output_bias = bias if output_bias is None else output_bias
        # W_o
        self.output_projection = Linear(num_heads * self.d_head_value, d_model, bias=output_bias)
        dropout = check_number("dropout", dropout, least=0, below=1)
        self.dropout = Dropout(dropout) if dropout else None
        for layer in (
            self.query_projection,
            self.key_projection,
            self.value_projection,
            self.output_projection,
        ):
            nn.init.xavier_uniform_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)

    def check_option(self, name: str) -> None:
        """Raise ``ValueError`` unless this class takes the option of that name."""
        require(
            name in self.options,
            f"{name} cannot be chosen: {type(self).__name__} is not defined with it",
        )

    @property
    def takes_position(self) -> bool:
        """Whether :meth:`forward` and :meth:`project` make use of a position."""
        return self.rotary is not None or self.window is not None

    def project(
        self,
        key: torch.Tensor,
        value: torch.Tensor | None = None,
        *,
        position: int | torch.Tensor = 0,
    ) -> ProjectedSource:
        """Project a source ``(…, n, d_key)`` into all heads, once for any number of queries; value
        and position, that of its first row, as in :meth:`forward`.
        """
        value = self._check_source(key, value)
        keys = self._split(self.key_projection(key), self.num_kv_heads)
        keys = place_heads(keys, self.key_norm, self.rotary, position)
        values = self._split(self.value_projection(value), self.num_kv_heads)
        scored = keys if self.score.counts_positions else self.score.project_keys(keys)
        source = ProjectedSource(keys, values, None if scored is keys else scored)
        if self.window is None:
            return source
        return RollingSource.of(source, position, self.window, self.sinks)

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
        position: int | torch.Tensor = 0,
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
            position: of the first query, an integer or one for each row of a batch, ``(batch,)``;
                only ``rotary`` and ``window`` ask for it. In self-attention the keys have the same;
                keys that are given begin at 0, and those of a projected source have theirs.

        Returns:
            :class:`Attended`: ``context (…, m, d_model)`` and ``weights (…, h, m, n)`` or None. A
            query that may attend to nothing in any head gets a row of zeros, without the output's
            bias; with gradient zero.
        """
        check_tensor("query", query, width=self.query_width)
        require(
            projected is None or (key is None and value is None),
            "give key and value, or projected, not both",
        )
        if projected is not None:
            require(
                hasattr(projected, "key") and hasattr(projected, "length"),
                f"projected must be what `project` returns, got {type(projected).__name__}",
            )
            require(
                projected.key.shape[-3] == self.num_kv_heads,
                f"projected must have {self.num_kv_heads} heads of keys, got shape "
                f"{tuple(projected.key.shape)}",
            )
            require(
                self.window is None or isinstance(projected, RollingSource),
                f"projected must be a RollingSource for an attention with a window, as `project` "
                f"makes it, got {type(projected).__name__}",
            )
            leading, n = projected.key.shape[:-3], projected.length
            mask, dims = check_reading(query, leading, n, mask, self.num_heads)
            if isinstance(projected, RollingSource):
                projected.check_end(position, query.shape[-2])
                mask = projected.visible(mask, query.shape[-2])
            return self._run(query, projected, mask, need_weights, dims, position)
        own = key is None
        key_position = {"position": position} if own and self.takes_position else {}
        key = query if key is None else key
        value = self._check_source(key, value)
        leading, n = key.shape[:-2], key.shape[-2]
        mask, dims = check_reading(query, leading, n, mask, self.num_heads)
        if self.window is not None:
            seen = window_mask(query, n, position, own=own, window=self.window, sinks=self.sinks)
            mask = join_masks(mask, seen)

        def run(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> Attended:
            source = self.project(key, value, **key_position)
            return self._run(query, source, mask, need_weights, dims, position)

        if mask is None:
            return run(query, key, value)
        return attend_despite(run, query, key, value, mask)

    def _run(
        self,
        query: torch.Tensor,
        source: ProjectedSource,
        mask: torch.Tensor | None,
        need_weights: bool,
        leading: int,
        position: int | torch.Tensor,
    ) -> Attended:
        """:meth:`forward` for arguments that are checked, with so many leading dimensions."""
        m, n, everywhere = query.shape[-2], source.length, mask
        if mask is not None and 3 <= mask.dim() <= leading + 2:  # the same for all heads
            everywhere = mask.unsqueeze(-3)  # (…, 1, m, n)
        heads = self._split(self.query_projection(query))
        placed = place_heads(heads, self.query_norm, self.rotary, position)
        if self.window is not None and self.sinks and self.rotary is not None:
            last = self.sinks + self.window - 1  # the last place in a full cache
            if isinstance(position, torch.Tensor) or position + m - 1 > last:
                near = place_heads(heads, self.query_norm, self.rotary, position, last)
                placed = torch.cat([placed, near], dim=-1)
        context, weights = self._attend(placed, source, everywhere, need_weights)
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
        scored, score, stored = self._scored(source), self.score, need_weights
        if isinstance(source, RollingSource) and query.shape[-1] > self.d_head:
            score, stored = NearSinks(score, source), True
        sink = None if self.sink is None else self.sink.unsqueeze(-1)  # (h, 1)
        context, weights = attend_in_groups(
            score, query, scored, source.value, mask, stored, self.dropout, sink
        )
        return Attended(context, weights if need_weights else None)

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

    def _split(self, projected: torch.Tensor, heads: int | None = None) -> torch.Tensor:
        """``(…, n, h·w)`` → ``(…, h, n, w)``: cut every row into heads, h when not given, then let
        the heads be a batch dimension.
        """
        return projected.unflatten(-1, (heads or self.num_heads, -1)).transpose(-3, -2)
