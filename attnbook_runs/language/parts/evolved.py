"""The blocks of the Evolved Transformer: convolutions, then attention, two at once."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnbook.mechanisms.attention.masks import masks_by_name
from attnbook.mechanisms.attention.multi_head import MultiHeadAttention
from attnbook.mechanisms.caches.key_value import ProjectedSource
from attnbook.mechanisms.layers.feed_forward import FeedForward
from attnbook.mechanisms.layers.norms import LayerNorm
from attnbook.mechanisms.layers.residual import ResidualConnection
from attnbook.models.transformer.layers import Attention, LayerOutput
from attnbook.models.transformer.parts import Parts
from attnbook.validate import check_integer

__all__ = ["EvolvedCache", "EvolvedDecoderLayer", "EvolvedEncoderLayer"]
__all__ += ["SequenceConvolution", "evolved"]


class SequenceConvolution(nn.Module):
    """A convolution along the sequence, plain or separable (each channel alone, then a linear map).

    Args:
        d_in, d_out: widths.
        kernel_size: K positions that end at the position itself if ``causal``, else lie around it.
        separable, causal: see above.

    Shapes: ``(batch, n, d_in)`` → ``(batch, n, d_out)``. Positions outside count as zeros.
    """

    def __init__(
        self,
        d_in: int,
        d_out: int,
        kernel_size: int,
        *,
        separable: bool = True,
        causal: bool = False,
    ) -> None:
        super().__init__()
        check_integer("kernel_size", kernel_size)
        self.before = kernel_size - 1 if causal else (kernel_size - 1) // 2
        self.after = kernel_size - 1 - self.before
        self.convolution = nn.Conv1d(
            d_in,
            d_in if separable else d_out,
            kernel_size,
            groups=d_in if separable else 1,
            bias=not separable,
        )
        self.pointwise, self.d_out = nn.Linear(d_in, d_out) if separable else nn.Identity(), d_out

    def forward(self, x: Tensor) -> Tensor:
        return self.pointwise(self.convolution(F.pad(x.mT, (self.before, self.after))).mT)


def _add(wide: Tensor, narrow: Tensor) -> Tensor:
    """The sum of two branches of different widths: the narrow one is filled up with zeros."""
    return wide + F.pad(narrow, (0, wide.shape[-1] - narrow.shape[-1]))


class EvolvedEncoderLayer(nn.Module):
    """The encoder block of the Evolved Transformer.

    Four sublayers, each in a residual connection: ``GLU(h) = W_a h ⊙ σ(W_b h)``;
    ``sepconv_9(norm(relu(W h) + relu(conv_3(h))))`` with branches of width 4d and d/2 and a result
    of width d/2; self-attention; feed-forward network.

    Takes what :class:`~attnbook.models.transformer.layers.EncoderLayer` takes; reads no padding.

    Source: So, Liang and Le 2019, figure 3, encoder.
    """

    def __init__(
        self,
        attention: Attention,
        feed_forward: nn.Module,
        residual: Callable[[], ResidualConnection],
        *,
        d_model: int,
    ) -> None:
        super().__init__()
        half = max(1, d_model // 2)
        self.gate, self.around_gate = nn.Linear(d_model, 2 * d_model), residual()
        self.wide = nn.Linear(d_model, 4 * d_model)
        self.local = SequenceConvolution(d_model, half, 3, separable=False)
        self.norm = LayerNorm(4 * d_model)
        self.narrow = SequenceConvolution(4 * d_model, half, 9)
        self.around_convolutions = residual()
        self.attention, self.around_attention = attention, residual()
        self.feed_forward, self.around_feed_forward = feed_forward, residual()

    @masks_by_name("mask")
    def forward(
        self,
        x: Tensor,
        *,
        mask: Tensor | None = None,
        is_causal: bool = False,
        cache: Any = None,
        need_weights: bool = False,
        position: int | Tensor = 0,
    ) -> LayerOutput:
        """As of :class:`EncoderLayer`, with a mask of padding ``(batch, 1, n)`` and no cache."""
        if is_causal or cache is not None or (mask is not None and mask.shape[-2] != 1):
            raise ValueError(
                "this block reads a whole source at once: it takes no cache, and mask must be "
                "one of padding, (batch, 1, n)"
            )
        present = 1.0 if mask is None else mask.mT.to(x.dtype)  # (batch, n, 1)
        h = self.around_gate.sublayer_input(x)
        x = self.around_gate.combine(x, F.glu(self.gate(h), -1))
        h = self.around_convolutions.sublayer_input(x)
        x = self.around_convolutions.combine(x, self._convolutions(h, present))
        h = self.around_attention.sublayer_input(x)
        context, _, weights = self.attention.read(
            h, mask=mask, position=position, need_weights=need_weights
        )
        x = self.around_attention.combine(x, context)
        x = self.around_feed_forward(x, self.feed_forward)
        return LayerOutput(x, None, weights)

    def _convolutions(self, x: Tensor, present: Tensor | float) -> Tensor:
        x = x * present
        branches = self.norm(_add(self.wide(x).relu(), self.local(x).relu())) * present
        return F.pad(self.narrow(branches), (0, x.shape[-1] - self.narrow.d_out))


class EvolvedCache(NamedTuple):
    """What a decoder block keeps: keys, values, inputs of its convolutions; None at first."""

    wide: ProjectedSource | None
    narrow: ProjectedSource | None
    outer: Tensor | None  # (batch, t, d)
    inner: Tensor | None  # (batch, t, 2d)


class EvolvedDecoderLayer(nn.Module):
    """The decoder block of the Evolved Transformer.

    Five sublayers, each in a residual connection: self-attention with twice the heads plus
    attention over the source, side by side; ``sepconv_7(norm(relu(sepconv_11(h)) + sepconv_7(h)))``
    with branches of width 2d and d/2, all causal; self-attention; attention over the source;
    feed-forward network.

    Args:
        attention, cross_attention, feed_forward, residual: as for
            :class:`~attnbook.models.transformer.layers.DecoderLayer`.
        wide_attention, first_cross_attention: the two that stand side by side.
        d_model: ``d``.

    Source: So, Liang and Le 2019, figure 3, decoder.
    """

    def __init__(
        self,
        attention: Attention,
        cross_attention: Attention,
        feed_forward: nn.Module,
        residual: Callable[[], ResidualConnection],
        *,
        wide_attention: Attention,
        first_cross_attention: Attention,
        d_model: int,
    ) -> None:
        super().__init__()
        self.wide_attention = wide_attention
        self.first_cross_attention = first_cross_attention
        self.around_both = residual()
        self.left = SequenceConvolution(d_model, 2 * d_model, 11, causal=True)
        self.right = SequenceConvolution(d_model, max(1, d_model // 2), 7, causal=True)
        self.norm = LayerNorm(2 * d_model)
        self.joined = SequenceConvolution(2 * d_model, d_model, 7, causal=True)
        self.around_convolutions = residual()
        self.attention, self.around_attention = attention, residual()
        self.cross_attention, self.around_cross_attention = cross_attention, residual()
        self.feed_forward, self.around_feed_forward = feed_forward, residual()

    def project(self, memory: Tensor) -> tuple:
        """Keys and values of the encoder's output for both attentions over the source."""
        return self.first_cross_attention.project(memory), self.cross_attention.project(memory)

    @masks_by_name("mask", "source_mask")
    def forward(
        self,
        x: Tensor,
        source: tuple,
        *,
        mask: Tensor | None = None,
        source_mask: Tensor | None = None,
        is_causal: bool = False,
        cache: EvolvedCache | None = None,
        need_weights: bool = False,
        position: int | Tensor = 0,
    ) -> LayerOutput:
        """As of :class:`DecoderLayer`; the weights are those of the later two attentions."""
        old = EvolvedCache(None, None, None, None) if cache is None else cache

        h = self.around_both.sublayer_input(x)
        context, wide, _ = self.wide_attention.read(
            h, cache=old.wide, mask=mask, is_causal=is_causal, position=position
        )
        cross, _ = self.first_cross_attention(
            h, mask=source_mask, projected=source[0], need_weights=False, position=position
        )
        x = self.around_both.combine(x, context + cross)
        h = self.around_convolutions.sublayer_input(x)
        convolved, outer, inner = self._convolutions(h, old.outer, old.inner)
        x = self.around_convolutions.combine(x, convolved)
        h = self.around_attention.sublayer_input(x)
        context, narrow, target_weights = self.attention.read(
            h,
            cache=old.narrow,
            mask=mask,
            is_causal=is_causal,
            position=position,
            need_weights=need_weights,
        )
        x = self.around_attention.combine(x, context)
        h = self.around_cross_attention.sublayer_input(x)
        context, source_weights = self.cross_attention(
            h, mask=source_mask, projected=source[1], need_weights=need_weights, position=position
        )
        x = self.around_cross_attention.combine(x, context)
        x = self.around_feed_forward(x, self.feed_forward)
        weights = (target_weights, source_weights) if need_weights else None
        return LayerOutput(x, EvolvedCache(wide, narrow, outer, inner), weights)

    def _convolutions(
        self, x: Tensor, outer: Tensor | None, inner: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The convolutions over positions x, after the cached inputs of both layers."""
        m = x.shape[-2]
        inputs = x if outer is None else torch.cat([outer, x], dim=-2)
        recent = _recent(inputs, m, 11)
        hidden = self.norm(_add(self.left(recent).relu(), self.right(recent))[..., -m:, :])
        sums = hidden if inner is None else torch.cat([inner, hidden], dim=-2)
        return self.joined(_recent(sums, m, 7))[..., -m:, :], inputs, sums


def _recent(x: Tensor, m: int, kernel_size: int) -> Tensor:
    """The last m positions and those that a causal kernel reads before them."""
    return x[..., max(0, x.shape[-2] - m - kernel_size + 1) :, :]


def evolved(parts: Parts, num_heads: int, d_feed_forward: int) -> Parts:
    """Parts with the blocks of the Evolved Transformer; its decoder's activation is swish.

    Args:
        parts: what else the model is built of.
        num_heads: of the attentions; the wide one has twice as many.
        d_feed_forward: hidden width of the decoder's feed-forward network.

    Source: So, Liang and Le 2019, figure 3.
    """
    d = parts.d_model

    def decoder_layer(attention, cross_attention, feed_forward, residual) -> nn.Module:
        return EvolvedDecoderLayer(
            attention,
            cross_attention,
            FeedForward(d, d_feed_forward, "swish"),
            residual,
            wide_attention=MultiHeadAttention(d, 2 * num_heads),
            first_cross_attention=MultiHeadAttention(d, num_heads),
            d_model=d,
        )

    return replace(
        parts, encoder_layer=partial(EvolvedEncoderLayer, d_model=d), decoder_layer=decoder_layer
    )
