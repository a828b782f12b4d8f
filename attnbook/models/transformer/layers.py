"""The blocks of the Transformer, made of modules that are passed in: attention, feed-forward, and
the residual connections around them.

What a block expects of its modules:

- attention: ``attention.read(x, cache=, mask=, is_causal=, position=, need_weights=)`` attends from
  positions x to those of the cache and to x itself; :class:`attnbook.MultiHeadAttention` has it,
  and :class:`attnbook.LinearAttention`, whose cache is a state of fixed size. Attention over a
  source is ``attention(x, mask=, projected=, need_weights=, position=)`` with what
  ``project(memory)`` made of it.
- feed-forward: ``(batch, n, d)`` → the same, such as a mixture of experts.
- residual: makes a :class:`~attnbook.mechanisms.layers.residual.ResidualConnection`, one per
  sublayer.

A block may stand in a stack several times, and a wrapper of a block is a block."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from torch import Tensor, nn

from ...kernels.visible import zero_masked_nonfinite
from ...mechanisms.attention.masks import masks_by_name
from ...mechanisms.caches.key_value import Read
from ...mechanisms.layers.residual import ResidualConnection

__all__ = ["Attention", "LayerOutput", "Stacked"]
__all__ += ["Decoder", "DecoderLayer", "Encoder", "EncoderLayer", "Stack"]


Position = int | Tensor  # of the first row of x: an integer, or one for each text


class Attention(Protocol):
    """The attention of a block, see above."""

    read: Callable[..., Read]

    def project(self, x: Tensor, /) -> Any: ...

    def __call__(self, x: Tensor, /, *arguments: Any, **options: Any) -> Any: ...


class LayerOutput(NamedTuple):
    """The result of a block: ``x (batch, m, d)``, the ``cache`` for later positions, and
    ``weights (batch, h, m, n)`` of its heads or None; of a :class:`DecoderLayer` a pair, those of
    the target, with n = t, and those of the source.
    """

    x: Tensor
    cache: Any
    weights: Any


class Stacked(NamedTuple):
    """The result of a stack: ``x (batch, m, d)``, and of each block its cache and weights."""

    x: Tensor
    caches: tuple
    weights: tuple | None
    mask: Tensor | None = None  # of x, (batch, 1, m), where the stack changes the length


class EncoderLayer(nn.Module):
    """Self-attention, then a feed-forward network, each in a residual connection.

    ``x ← residual(x, attention)``, ``x ← residual(x, FFN)``; with
    :class:`~attnbook.mechanisms.layers.residual.PostNorm`, as in the paper,
    ``residual(x, f) = LayerNorm(x + dropout(f(x)))``.

    Under a causal mask this is the block of a decoder-only Transformer.

    Args:
        attention, feed_forward: modules, see above; the second may be None: attention alone.
        residual: a function that makes a residual connection; called for each.

    Shapes: x ``(batch, m, d)``, mask broadcastable to ``(batch, m, n)`` → :class:`LayerOutput`; n
    is m, or more with a cache.

    Source: Vaswani et al. 2017, section 3.1 and the left half of figure 1.
    """

    def __init__(
        self,
        attention: Attention,
        feed_forward: nn.Module | None,
        residual: Callable[[], ResidualConnection],
    ) -> None:
        super().__init__()
        self.attention, self.around_attention = attention, residual()
        self.feed_forward = feed_forward
        if feed_forward is not None:
            self.around_feed_forward = residual()

    @masks_by_name("mask")
    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        is_causal: bool = False,
        cache: Any = None,
        need_weights: bool = False,
        position: Position = 0,
    ) -> LayerOutput:
        """Run the block over the positions x, which come after those of the cache.

        Args:
            mask: boolean, True = may attend, over the positions of the cache and those of x.
            is_causal: whether no position of x attends to a later one; needs no mask.
            cache: what the block returned for the positions before, or None where there are none.
            need_weights: whether the weights are returned; if not, no m×n matrix is stored.
            position: of the first of x, an integer or ``(batch,)``, for an attention that asks.
        """
        given = {"need_weights": need_weights, "position": position}
        h = self.around_attention.sublayer_input(x)  # with pre-norm: norm(x)
        context, cache, weights = self.attention.read(
            h, mask=mask, is_causal=is_causal, cache=cache, **given
        )
        x = self.around_attention.combine(x, context)  # with pre-norm: x + dropout(context)
        if self.feed_forward is not None:
            h = self.around_feed_forward.sublayer_input(x)
            x = self.around_feed_forward.combine(x, self.feed_forward(h))
        return LayerOutput(x, cache, weights)


class DecoderLayer(nn.Module):
    """Self-attention over the target, attention over the source, a feed-forward network, in turn.

    ``x ← residual(x, self-attention)``, ``x ← residual(x, attention over the source)``,
    ``x ← residual(x, FFN)``

    Args:
        attention, cross_attention, feed_forward, residual: as in :class:`EncoderLayer`.

    Shapes: x ``(batch, m, d)``, mask broadcastable to ``(batch, m, t)``, source_mask to
    ``(batch, m, n)`` → :class:`LayerOutput`.

    Source: Vaswani et al. 2017, section 3.1 and the right half of figure 1.
    """

    def __init__(
        self,
        attention: Attention,
        cross_attention: Attention,
        feed_forward: nn.Module | None,
        residual: Callable[[], ResidualConnection],
    ) -> None:
        super().__init__()
        self.attention, self.around_attention = attention, residual()
        self.cross_attention, self.around_cross_attention = cross_attention, residual()
        self.feed_forward = feed_forward
        if feed_forward is not None:
            self.around_feed_forward = residual()

    def project(self, memory: Tensor) -> Any:
        """Keys and values of the encoder's output ``(batch, n, d)``: once for all steps."""
        return self.cross_attention.project(memory)

    @masks_by_name("mask", "source_mask")
    def forward(
        self,
        x: Tensor,
        source: Any,
        *,
        mask: Tensor | None = None,
        source_mask: Tensor | None = None,
        is_causal: bool = False,
        cache: Any = None,
        need_weights: bool = False,
        position: Position = 0,
    ) -> LayerOutput:
        """Run the block over target positions x, which come after those of the cache.

        Args:
            source: ``project(memory)``.
            mask, source_mask: boolean, True = may attend, over target (cache first) and source.
            is_causal, cache, need_weights, position: as in :class:`EncoderLayer`.
        """
        given = {"need_weights": need_weights, "position": position}
        h = self.around_attention.sublayer_input(x)
        context, cache, weights = self.attention.read(
            h, mask=mask, is_causal=is_causal, cache=cache, **given
        )
        x = self.around_attention.combine(x, context)
        h = self.around_cross_attention.sublayer_input(x)
        context, source_weights = self.cross_attention(
            h, mask=source_mask, projected=source, **given
        )
        x = self.around_cross_attention.combine(x, context)
        if self.feed_forward is not None:
            h = self.around_feed_forward.sublayer_input(x)
            x = self.around_feed_forward.combine(x, self.feed_forward(h))
        return LayerOutput(x, cache, (weights, source_weights) if need_weights else None)


class Stack(nn.Module):
    """Blocks one after the other, and a norm at the end if their residual connections need it.

    Args:
        layers: the blocks, first to last; one may stand there more than once.
        norm: applied to the result; ``nn.Identity()`` where there is none, as in the paper.
    """

    layers: Any  # an nn.ModuleList of blocks

    def __init__(self, layers: Iterable[nn.Module], norm: nn.Module) -> None:
        super().__init__()
        self.layers, self.norm = nn.ModuleList(layers), norm

    def run(
        self,
        x: Tensor,
        given: Iterable[tuple],
        caches: Sequence | None,
        need_weights: bool,
        **options: Any,
    ) -> Stacked:
        """Run all blocks, each with what it is ``given`` beside x."""
        outputs, new_caches, weights = [x], [], []
        caches = caches or [None] * len(self.layers)
        for layer, arguments, cache in zip(self.layers, given, caches, strict=True):
            x, cache, w = layer(x, *arguments, cache=cache, need_weights=need_weights, **options)
            outputs.append(x)
            new_caches.append(cache)
            weights.append(w)
        return Stacked(
            self.finish(outputs), tuple(new_caches), tuple(weights) if need_weights else None
        )

    def finish(self, outputs: list[Tensor]) -> Tensor:
        """The result of the stack, from its input and what each block made of it."""
        return self.norm(outputs[-1])


class Encoder(Stack):
    """A stack of :class:`EncoderLayer`.

    Shapes: x ``(batch, m, d)``, mask broadcastable to ``(batch, m, n)`` → :class:`Stacked`.

    Source: Vaswani et al. 2017, section 3.1.
    """

    @masks_by_name("mask")
    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        is_causal: bool = False,
        caches: Sequence | None = None,
        need_weights: bool = False,
        position: Position = 0,
    ) -> Stacked:
        """Run all blocks; ``caches`` has one for each, the rest as in :class:`EncoderLayer`."""
        if mask is not None and caches is None:
            x = zero_masked_nonfinite(x, mask)
        options = {"mask": mask, "is_causal": is_causal, "position": position}
        return self.run(x, [()] * len(self.layers), caches, need_weights, **options)


class Decoder(Stack):
    """A stack of :class:`DecoderLayer`.

    Shapes: x ``(batch, m, d)`` → :class:`Stacked`; the weights of a block are a pair, see
    :class:`LayerOutput`.

    Source: Vaswani et al. 2017, section 3.1.
    """

    def project(self, memory: Tensor) -> tuple:
        """What each block reads of the encoder's output ``(batch, n, d)``."""
        return tuple(layer.project(memory) for layer in self.layers)

    @masks_by_name("mask", "source_mask")
    def forward(
        self,
        x: Tensor,
        sources: Sequence,
        *,
        mask: Tensor | None = None,
        source_mask: Tensor | None = None,
        is_causal: bool = False,
        caches: Sequence | None = None,
        need_weights: bool = False,
        position: Position = 0,
    ) -> Stacked:
        """Run all blocks; ``sources`` is ``project(memory)``, the rest as in :class:`Encoder`."""
        options = {"mask": mask, "source_mask": source_mask, "is_causal": is_causal}
        return self.run(x, zip(sources), caches, need_weights, position=position, **options)
