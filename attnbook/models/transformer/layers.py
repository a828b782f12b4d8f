"""The blocks of the Transformer, made of modules that are passed in: attention, feed-forward, and
the residual connections around them.

What a block expects of its modules:

- attention: ``project(x)`` makes of ``(batch, n, d)`` what queries are compared with, an object
  with ``extend(more)`` that puts later positions behind earlier ones, which is how decoding keeps a
  cache; and ``attention(x, mask=, projected=, need_weights=)`` returns ``(context, weights)``.
  :class:`attnbook.MultiHeadAttention` is one; a convolution over the past can be another. One with
  ``takes_position``, as with rotary positions, is also given ``position``, in both. One with
  ``takes_state`` is recurrent: ``attention(x, mask, state=)`` returns ``(context, state)``, the
  state is the cache, and there are no weights; :class:`attnbook.LinearAttention` is one.
- feed-forward: ``(batch, n, d)`` → the same. A mixture of experts or a memory of product keys can
  stand here.
- residual: makes a :class:`~attnbook.mechanisms.layers.residual.ResidualConnection`, one per
  sublayer.

Stacks are lists of blocks, so one block may stand in a list several times, and a wrapper of a block
is a block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

import torch
from torch import nn

from ...kernels.hidden import without_hidden
from ...mechanisms.attention.soft_attention import Attended
from ...mechanisms.layers.residual import ResidualConnection

__all__ = [
    "Attention",
    "Decoder",
    "DecoderLayer",
    "Encoder",
    "EncoderLayer",
    "LayerOutput",
    "Stacked",
    "self_attention",
]


Position = int | torch.Tensor
"""The position of the first row of x: an integer, or one for each text of the batch."""


class Attention(Protocol):
    """The attention of a block, see above."""

    def project(self, x: torch.Tensor, /) -> Any: ...

    def __call__(self, x: torch.Tensor, /, *arguments: Any, **options: Any) -> Any: ...


class LayerOutput(NamedTuple):
    """The result of a block: ``x (batch, m, d)``, the ``cache`` for later positions, and
    ``weights`` of its heads or None.

    weights: of an :class:`EncoderLayer` ``(batch, h, m, n)``; of a :class:`DecoderLayer` a pair,
    those of the target ``(batch, h, m, t)`` and those of the source ``(batch, h, m, n)``.
    """

    x: torch.Tensor
    cache: Any
    weights: Any


class Stacked(NamedTuple):
    """The result of a stack of blocks: ``x (batch, m, d)``, and of every block, first to last, its
    cache and its weights.

    mask: who may be attended to in x, ``(batch, 1, m)``, of a stack that changes the length.
    """

    x: torch.Tensor
    caches: tuple
    weights: tuple | None
    mask: torch.Tensor | None = None


def self_attention(
    attention: Attention,
    x: torch.Tensor,
    mask: torch.Tensor | None,
    cache: Any,
    need_weights: bool,
    position: Position = 0,
) -> LayerOutput:
    """Attend from positions x ``(batch, m, d)`` to those of the cache, if any, and to x itself.

    Args:
        position: of the first of x, for an attention with ``takes_position``.

    Returns:
        The context, the cache that includes x, and the weights or None.
    """
    if getattr(attention, "takes_state", False):
        context, state = attention(x, mask, state=cache)
        return LayerOutput(context, state, None)
    placed = {"position": position} if getattr(attention, "takes_position", False) else {}
    project: Any = attention.project
    projected = project(x, **placed)
    if cache is not None:
        projected = cache.extend(projected)
    context, weights = attention(
        x, mask=mask, projected=projected, need_weights=need_weights, **placed
    )
    return LayerOutput(context, projected, weights)


def cross_attention(
    attention: Attention,
    x: torch.Tensor,
    mask: torch.Tensor | None,
    source: Any,
    need_weights: bool,
    position: Position = 0,
) -> Attended:
    """Attend from positions x to a projected source; ``position`` as in :func:`self_attention`."""
    placed = {"position": position} if getattr(attention, "takes_position", False) else {}
    return attention(x, mask=mask, projected=source, need_weights=need_weights, **placed)


class EncoderLayer(nn.Module):
    """Self-attention, then a feed-forward network, each in a residual connection.

    ``x ← residual(x, attention)``, ``x ← residual(x, FFN)``; with
    :class:`~attnbook.mechanisms.layers.residual.PostNorm`, as in the paper,
    ``residual(x, f) = LayerNorm(x + dropout(f(x)))``.

    Under a causal mask this is also the block of a decoder without a source, the decoder-only
    Transformer.

    Args:
        attention, feed_forward: modules, see above.
        residual: a function that makes a residual connection; called twice.

    Shapes: x ``(batch, m, d)``, mask broadcastable to ``(batch, m, n)`` → :class:`LayerOutput`; n
    is m, or more with a cache.

    Source: Vaswani et al. 2017, section 3.1 and the left half of figure 1.
    """

    def __init__(
        self,
        attention: Attention,
        feed_forward: nn.Module,
        residual: Callable[[], ResidualConnection],
    ) -> None:
        super().__init__()
        self.attention, self.around_attention = attention, residual()
        self.feed_forward, self.around_feed_forward = feed_forward, residual()

    def forward(
        self,
        x: torch.Tensor,
        mask: torch.Tensor | None = None,
        *,
        cache: Any = None,
        need_weights: bool = False,
        position: Position = 0,
    ) -> LayerOutput:
        """Run the block over the positions x, which come after those of the cache.

        Args:
            mask: boolean, True = may attend, over the positions of the cache and those of x.
            cache: what the block returned for the positions before, or None where there are none.
            need_weights: whether the weights are returned; if not, no m×n matrix is stored.
            position: of the first of x, an integer or one for each text, ``(batch,)``; for an
                attention that asks for it.
        """
        attended = self.attend(x, mask, cache=cache, need_weights=need_weights, position=position)
        return attended._replace(x=self.around_feed_forward(attended.x, self.feed_forward))

    def attend(
        self,
        x: torch.Tensor,
        mask: torch.Tensor | None = None,
        *,
        cache: Any = None,
        need_weights: bool = False,
        position: Position = 0,
    ) -> LayerOutput:
        """The block without its feed-forward network."""
        return LayerOutput(
            *self.around_attention(
                x, lambda h: self_attention(self.attention, h, mask, cache, need_weights, position)
            )
        )


class DecoderLayer(nn.Module):
    """Self-attention over the target so far, attention over the source, a feed-forward network,
    each in a residual connection.

    ``x ← residual(x, self-attention)``, ``x ← residual(x, attention over the source)``,
    ``x ← residual(x, FFN)``

    Args:
        attention, cross_attention, feed_forward: modules, see above.
        residual: a function that makes a residual connection; called three times.

    Shapes: x ``(batch, m, d)``, mask broadcastable to ``(batch, m, t)``, source_mask to
    ``(batch, m, n)`` → :class:`LayerOutput`.

    Source: Vaswani et al. 2017, section 3.1 and the right half of figure 1.
    """

    def __init__(
        self,
        attention: Attention,
        cross_attention: Attention,
        feed_forward: nn.Module,
        residual: Callable[[], ResidualConnection],
    ) -> None:
        super().__init__()
        self.attention, self.around_attention = attention, residual()
        self.cross_attention, self.around_cross_attention = cross_attention, residual()
        self.feed_forward, self.around_feed_forward = feed_forward, residual()

    def project(self, memory: torch.Tensor) -> Any:
        """Keys and values of the encoder's output ``(batch, n, d)``: once per source, for all
        steps.
        """
        return self.cross_attention.project(memory)

    def forward(
        self,
        x: torch.Tensor,
        source: Any,
        mask: torch.Tensor | None = None,
        source_mask: torch.Tensor | None = None,
        *,
        cache: Any = None,
        need_weights: bool = False,
        position: Position = 0,
    ) -> LayerOutput:
        """Run the block over target positions x, which come after those of the cache.

        Args:
            source: ``project(memory)``.
            mask, source_mask: boolean, True = may attend, over the target (cache first) and over
                the source.
            cache, need_weights, position: as in :class:`EncoderLayer`.
        """
        attended = self.attend(
            x, source, mask, source_mask, cache=cache, need_weights=need_weights, position=position
        )
        return attended._replace(x=self.around_feed_forward(attended.x, self.feed_forward))

    def attend(
        self,
        x: torch.Tensor,
        source: Any,
        mask: torch.Tensor | None = None,
        source_mask: torch.Tensor | None = None,
        *,
        cache: Any = None,
        need_weights: bool = False,
        position: Position = 0,
    ) -> LayerOutput:
        """The block without its feed-forward network."""
        x, cache, target_weights = self.around_attention(
            x, lambda h: self_attention(self.attention, h, mask, cache, need_weights, position)
        )
        x, source_weights = self.around_cross_attention(
            x,
            lambda h: cross_attention(
                self.cross_attention, h, source_mask, source, need_weights, position
            ),
        )
        return LayerOutput(x, cache, (target_weights, source_weights) if need_weights else None)


class Encoder(nn.Module):
    """A stack of :class:`EncoderLayer`, and a norm at its end if its residual connections need it.

    Args:
        layers: the blocks, first to last; one may stand there more than once.
        norm: applied to the result; ``nn.Identity()`` where there is none, as in the paper.

    Shapes: x ``(batch, m, d)``, mask broadcastable to ``(batch, m, n)`` → :class:`Stacked`.

    Source: Vaswani et al. 2017, section 3.1.
    """

    layers: Any  # an nn.ModuleList of blocks

    def __init__(self, layers: Iterable[nn.Module], norm: nn.Module) -> None:
        super().__init__()
        self.layers, self.norm = nn.ModuleList(layers), norm

    def forward(
        self,
        x: torch.Tensor,
        mask: torch.Tensor | None = None,
        *,
        caches: Sequence | None = None,
        need_weights: bool = False,
        position: Position = 0,
    ) -> Stacked:
        """Run all blocks; ``caches`` holds what each returned for the positions before, or None;
        ``position`` as in :class:`EncoderLayer`.
        """
        if mask is not None and caches is None:
            x = without_hidden(x, mask)
        new_caches, weights = [], []
        for layer, cache in zip(self.layers, caches or [None] * len(self.layers), strict=True):
            x, cache, w = layer(x, mask, cache=cache, need_weights=need_weights, position=position)
            new_caches.append(cache)
            weights.append(w)
        return Stacked(self.norm(x), tuple(new_caches), tuple(weights) if need_weights else None)


class Decoder(nn.Module):
    """A stack of :class:`DecoderLayer`, and a norm at its end if its residual connections need it.

    Args:
        layers, norm: as in :class:`Encoder`.

    Shapes: x ``(batch, m, d)`` → :class:`Stacked`; the weights of a block are a pair, see
    :class:`LayerOutput`.

    Source: Vaswani et al. 2017, section 3.1.
    """

    layers: Any  # an nn.ModuleList of blocks

    def __init__(self, layers: Iterable[nn.Module], norm: nn.Module) -> None:
        super().__init__()
        self.layers, self.norm = nn.ModuleList(layers), norm

    def project(self, memory: torch.Tensor) -> tuple:
        """What each block reads of the encoder's output ``(batch, n, d)``."""
        return tuple(layer.project(memory) for layer in self.layers)

    def forward(
        self,
        x: torch.Tensor,
        sources: Sequence,
        mask: torch.Tensor | None = None,
        source_mask: torch.Tensor | None = None,
        *,
        caches: Sequence | None = None,
        need_weights: bool = False,
        position: Position = 0,
    ) -> Stacked:
        """Run all blocks; ``sources`` is ``project(memory)``, the rest as in :class:`Encoder`."""
        new_caches, weights = [], []
        for layer, source, cache in zip(
            self.layers, sources, caches or [None] * len(self.layers), strict=True
        ):
            x, cache, w = layer(
                x,
                source,
                mask,
                source_mask,
                cache=cache,
                need_weights=need_weights,
                position=position,
            )
            new_caches.append(cache)
            weights.append(w)
        return Stacked(self.norm(x), tuple(new_caches), tuple(weights) if need_weights else None)
