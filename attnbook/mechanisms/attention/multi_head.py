"""Multi-head attention: several attentions side by side, each in a narrow space of its own."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from ...kernels.layers import Dropout, Linear
from ...kernels.visible import Visible, restore_nonfinite, zero_nonfinite, zero_nonfinite_query
from ...validate import (
    check_integer,
    check_maker,
    check_number,
    check_position,
    check_tensor,
    check_value,
    describe,
    require,
)
from ..caches.key_value import ProjectedSource, Read, positions_of, read_source
from ..scores.base import ScaledDotScore, Score
from .masks import check_reading, finite_sink, masks_by_name
from .soft_attention import Attended, attend_in_groups

__all__ = ["MultiHeadAttention"]


class MultiHeadAttention(nn.Module):
    """h attentions at once, each on its own projections of queries, keys and values.

    ``head_i = attend(score, Q W_q,i, K W_k,i, V W_v,i)`` for i = 1 … h,
    ``output = [head_1; …; head_h] W_o``

    One matrix holds the W of all heads side by side: head i has the columns from (i − 1)·d_head on.
    (``nn.Linear`` keeps the transpose, so these are rows of ``weight``.) Biases are added to all
    four products unless ``bias`` is False. ``load_state_dict`` takes the weights of a
    ``torch.nn.MultiheadAttention``, too, also within a larger model.

    Args:
        d_model: width of the output, and of the inputs unless said otherwise.
        num_heads: ``h``.
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
        window: a :class:`~attnbook.SlidingWindow`: each position sees so many before it and a few
            first ones, none after it, so that no causal mask is needed; a cache keeps no others.

    Source: Vaswani et al. 2017, section 3.2.2; one head of keys and values, Shazeer 2019; several,
    Ainslie et al. 2023; rotary positions, Su et al. 2021; norms, Dehghani et al. 2023; learned
    sink, Agarwal et al. 2025 (gpt-oss); window, Jiang et al. 2023 (Mistral 7B); sinks, Xiao et al.
    2024, section 3.2.
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
        output_bias: bool | None = None,
        dropout: float = 0.0,
        num_kv_heads: int | None = None,
        rotary: nn.Module | None = None,
        normalise: Callable[[int], nn.Module] | None = None,
        learned_sink: bool = False,
        window: nn.Module | None = None,
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
        self._of_one_width = self.query_width == self.key_width == self.value_width
        self.score = ScaledDotScore() if score is None else score
        require(isinstance(self.score, Score), f"score must be a Score, got {describe(score)}")
        self.sink = nn.Parameter(torch.zeros(num_heads)) if learned_sink else None
        heads = check_integer("num_kv_heads", num_heads if num_kv_heads is None else num_kv_heads)
        require(
            num_heads % heads == 0, f"num_kv_heads must divide num_heads = {num_heads}, got {heads}"
        )
        for name in ("query_width", "key_width"):
            width = getattr(self.score, name)
            require(
                width in (None, self.d_head),
                f"score must be made for the width of a head, {self.d_head}; its {name} is {width}",
            )
        require(
            rotary is None or getattr(rotary, "d_head", None) == self.d_head,
            f"rotary must be RotaryPositions for the width of a head, {self.d_head}, got "
            f"{rotary!r}",
        )
        require(
            window is None or (hasattr(window, "roll") and not self.score.depends_on_position),
            f"window must be a SlidingWindow, and needs a score that counts no positions, got "
            f"{describe(window)} and {type(self.score).__name__}",
        )
        self.num_kv_heads, self.rotary = heads, rotary
        self.window: Any = window
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
        self.register_load_state_dict_pre_hook(_read_torch_names)

    @property
    def takes_position(self) -> bool:
        """Whether it matters where in the text queries and keys stand."""
        return self.rotary is not None or self.window is not None

    def project(
        self, key: Tensor, value: Tensor | None = None, *, position: int | Tensor = 0
    ) -> Any:
        """Project a source ``(…, n, d_key)`` into all heads, once for any number of queries; value
        and position, that of its first row, as in :meth:`forward`.
        """
        key, value = self._check_source(key, value)
        if self.takes_position:
            check_position(position, key.shape[:-2])
        _, key, value, nonfinite = zero_nonfinite(key, key, value, self)
        source = self.project_heads(key, value, position)
        return source if nonfinite is None else source.with_nonfinite(nonfinite.source)

    def read(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        is_causal: bool = False,
        cache: Any = None,
        position: int | Tensor = 0,
        need_weights: bool = False,
    ) -> Read:
        """Attend from positions x ``(…, m, d_model)`` to those of the cache and to x itself, which
        stands after them from ``position`` on; the rest as in :meth:`forward`.

        Args:
            cache: what the call for the positions before returned; None where there are none.
        """
        return read_source(self, x, mask, is_causal, cache, position, need_weights)

    @masks_by_name("mask")
    def forward(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        key_mask: Tensor | None = None,
        is_causal: bool = False,
        need_weights: bool = True,
        projected: ProjectedSource | None = None,
        position: int | Tensor = 0,
    ) -> Attended:
        """Attend with every head.

        Args:
            query: ``(…, m, d_query)``.
            key: ``(…, n, d_key)``; the query itself when not given, which is self-attention.
            value: ``(…, n, d_value)``; the keys when not given.
            mask: boolean, True = may attend. Broadcastable to ``(…, m, n)``, the same for all
                heads; or, with one dimension more than that, to ``(…, h, m, n)``.
            key_mask, is_causal: which keys there are, ``(…, n)``, and whether the queries are the
                last m of the keys and see none after them, as in :func:`attnbook.attend`.
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
        key_position = position if key is None else 0
        keys, values, visible = self._check(
            query, key, value, mask, key_mask, is_causal, projected, position
        )
        if projected is None:
            query, keys, values, nonfinite = zero_nonfinite(query, keys, values, self)
            source: Any = self.project_heads(keys, values, key_position)  # (…, g, n, d_head)
        else:
            source = projected
            query, nonfinite = zero_nonfinite_query(query, source, self)
        heads = self._queries(query, position)  # (…, h, m, d_head)
        context, weights = self.attend_heads(heads, source, visible, need_weights)
        output = self.join(context)  # (…, m, d_model)
        has_bias = getattr(self.output_projection, "bias", True) is not None
        if nonfinite is None and not has_bias:
            return Attended(output, weights)
        n = source.length if self.window is None else source.key.shape[-2]
        sees = partial(self.rows_that_see, visible, query.shape[-2], n)  # nothing: no bias either
        return Attended(
            *restore_nonfinite(output, weights, nonfinite, sees, clear=has_bias, heads=True)
        )

    def _check(
        self, query, key, value, mask, key_mask, is_causal, projected, position
    ) -> tuple[Any, Any, Visible]:
        """What :meth:`forward` was given, or a ``ValueError``: key and value, and what is seen of
        them, in heads.
        """
        check_tensor("query", query, width=self.query_width)
        own = key is None
        if projected is not None:
            self._check_projected(projected, key, value)
            before, n = projected.key.shape[:-3], projected.length
        else:
            key = query if key is None else key
            if not (own and value is None and self._of_one_width):
                key, value = self._check_source(key, value)
            before, n = key.shape[:-2], key.shape[-2]
            value = key if value is None else value
        if self.rotary is not None or self.window is not None:
            check_position(position, query.shape[:-2])
        visible = check_reading(query, before, n, mask, key_mask, is_causal, self.num_heads)
        if self.window is not None and projected is not None:
            projected.check_end(position, query.shape[-2])
            visible = projected.visible(visible, query.shape[-2])
        elif self.window is not None:
            visible = self.window.band(visible, query, n, position, own)
        return key, value, visible

    def _check_source(self, key, value) -> tuple[Tensor, Tensor]:
        """A source ``(…, n, d_key)`` and its value, the key when not given, or a ``ValueError``."""
        check_tensor("key", key, width=self.key_width)
        return key, check_value(key if value is None else value, key, width=self.value_width)

    def _check_projected(self, projected, key, value) -> None:
        """Raise ``ValueError`` unless ``projected`` is what this layer makes of a source."""
        require(key is None and value is None, "give key and value, or projected, not both")
        require(
            hasattr(projected, "key") and hasattr(projected, "length"),
            f"projected must be what `project` returns, got {type(projected).__name__}",
        )
        require(
            projected.key.shape[-3] == self.num_kv_heads,
            f"projected must have {self.num_kv_heads} heads of keys, got shape "
            f"{tuple(projected.key.shape)}",
        )
        if self.window is not None:
            self.window.check_rolling(projected)

    def _queries(self, query: Tensor, position: int | Tensor) -> Tensor:
        """Queries of all heads ``(…, h, m, d_head)``; where some have gone further than a window
        with sinks reaches, what they are for the sinks stands after each.
        """
        heads = split_heads(self.query_projection(query), self.num_heads)
        if self.query_norm is not None:
            heads = self.query_norm(heads)
        if self.rotary is None:
            return heads
        turned = self.rotary(heads, positions_of(position, heads))
        if self.window is None:
            return turned
        return self.window.with_near(turned, heads, position, self.rotary)

    # What a subclass may replace: how keys and values are made, what the heads do, how they are
    # joined, and which queries find anything.

    def project_heads(self, key: Tensor, value: Tensor, position: int | Tensor) -> Any:
        """Keys and values of a source that is checked, in all heads: an object with ``length``, the
        number of positions, and ``extend``.
        """
        keys = split_heads(self.key_projection(key), self.num_kv_heads)  # (…, g, n, d_head)
        if self.key_norm is not None:
            keys = self.key_norm(keys)
        if self.rotary is not None:
            keys = self.rotary(keys, positions_of(position, keys))
        values = split_heads(self.value_projection(value), self.num_kv_heads)
        scored = keys if self.score.depends_on_position else self.score.project_keys(keys)
        source = ProjectedSource(keys, values, None if scored is keys else scored)
        return source if self.window is None else self.window.roll(source, position)

    def attend_heads(
        self, query: Tensor, source: Any, visible: Visible, need_weights: bool
    ) -> Attended:
        """Attend in all heads: query ``(…, h, m, d_head)``, and what of ``(…, h, m, n)`` is visible
        → context ``(…, h, m, d_head_value)``.
        """
        score, stored, scored = self.score, need_weights, source.scored
        if scored is None:
            scored = score.project_keys(source.key) if score.depends_on_position else source.key
        if query.shape[-1] > self.d_head and self.window is not None:
            score, scored, stored = self.window.near_sinks(
                score, source, query, scored, need_weights
            )
        sink = None if self.sink is None else finite_sink(self.sink).unsqueeze(-1)  # (h, 1)
        context, weights = attend_in_groups(
            score, query, scored, source.value, visible, stored, self.dropout, sink
        )
        return Attended(context, weights if need_weights else None)

    def join(self, context: Tensor) -> Tensor:
        """Make one vector of those of the heads, ``(…, h, m, d_head_value)`` →
        ``(…, m, d_model)``.
        """
        return self.output_projection(context.transpose(-3, -2).flatten(-2))  # side by side, W_o

    def rows_that_see(
        self, visible: Visible, m: int, n: int, positions: Tensor | None = None
    ) -> Tensor | None:
        """Which of m queries attend to any of these ``positions (…, 1, n)``, or to anything at all:
        ``(…, h, m)``, or None where all do.
        """
        return visible.rows(m, n, positions)


def _read_torch_names(module, state, prefix, *_) -> None:
    """The weights of a ``torch.nn.MultiheadAttention`` under the names of this one."""
    if f"{prefix}out_proj.weight" not in state:
        return
    for kind in ("weight", "bias"):
        together = state.pop(f"{prefix}in_proj_{kind}", None)
        rows = () if together is None else together.chunk(3)
        given: dict[str, Any] = dict(zip(("query", "key", "value"), rows))
        given["output"] = state.pop(f"{prefix}out_proj.{kind}", None)
        for name in ("query", "key", "value"):
            given.setdefault(name, state.pop(f"{prefix}{name[0]}_proj_{kind}", None))
        for name, tensor in given.items():
            if tensor is not None:
                state[f"{prefix}{name}_projection.{kind}"] = tensor


def split_heads(projected: Tensor, num_heads: int) -> Tensor:
    """``(…, n, h·w)`` → ``(…, h, n, w)``: cut every row into heads, then let the heads be a batch
    dimension.
    """
    width = projected.shape[-1] // num_heads
    return projected.view(*projected.shape[:-1], num_heads, width).transpose(-3, -2)
