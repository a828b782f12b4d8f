"""The blocks of the Evolved Transformer, found by a search: convolutions before the attention,
two attentions at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional as F

from ...mechanisms.attention.multi_head import MultiHeadAttention, ProjectedSource
from ...mechanisms.layers.feed_forward import FeedForward
from ...mechanisms.layers.norms import LayerNorm
from ...mechanisms.layers.residual import Wiring
from ...validate import check_integer
from .layers import LayerOutput
from .parts import Parts

__all__ = [
    "EvolvedCache",
    "EvolvedDecoderLayer",
    "EvolvedEncoderLayer",
    "SequenceConvolution",
    "evolved",
]


class SequenceConvolution(nn.Module):
    """A convolution along the sequence, plain or separable (each channel alone, then a linear map).

    Args:
        d_in, d_out: widths.
        kernel_size: K; the K positions end at the position itself if ``causal``, else it stands in
            their middle.
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
        self.pointwise = nn.Linear(d_in, d_out) if separable else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.pointwise(self.convolution(F.pad(x.mT, (self.before, self.after))).mT)


def _add(wide: torch.Tensor, narrow: torch.Tensor) -> torch.Tensor:
    """The sum of two branches of different widths: the narrow one is filled up with zeros."""
    return wide + F.pad(narrow, (0, wide.shape[-1] - narrow.shape[-1]))


class EvolvedEncoderLayer(nn.Module):
    """The encoder block of the Evolved Transformer.

    Four sublayers, each in its wiring: ``GLU(h) = W_a h ⊙ σ(W_b h)``;
    ``sepconv_9(norm(relu(W h) + relu(conv_3(h))))`` with branches of
    width 4d and d/2 and a result of width d/2; self-attention; feed-forward network.

    Takes what :class:`~attnbook.models.transformer.layers.EncoderLayer` takes. The convolutions do
    not read padding.

    Source: So, Liang and Le 2019, figure 3, encoder.
    """

    def __init__(
        self,
        attention: nn.Module,
        feed_forward: nn.Module,
        wiring: Callable[[], Wiring],
        *,
        d_model: int,
    ) -> None:
        super().__init__()
        half = max(1, d_model // 2)
        self.gate, self.around_gate = nn.Linear(d_model, 2 * d_model), wiring()
        self.wide, self.local = (
            nn.Linear(d_model, 4 * d_model),
            SequenceConvolution(d_model, half, 3, separable=False),
        )
        self.norm, self.narrow, self.around_convolutions = (
            LayerNorm(4 * d_model),
            SequenceConvolution(4 * d_model, half, 9),
            wiring(),
        )
        self.attention, self.around_attention = attention, wiring()
        self.feed_forward, self.around_feed_forward = feed_forward, wiring()

    def forward(
        self,
        x: torch.Tensor,
        mask: torch.Tensor | None = None,
        *,
        cache: Any = None,
        need_weights: bool = False,
    ) -> LayerOutput:
        """As :meth:`attnbook.models.transformer.layers.EncoderLayer.forward`, with a mask of
        padding ``(batch, 1, n)`` and no cache.
        """
        if cache is not None or (mask is not None and mask.shape[-2] != 1):
            raise ValueError(
                "this block reads a whole source at once: it takes no cache, and mask must be "
                "one of padding, (batch, 1, n)"
            )
        present = 1.0 if mask is None else mask.mT.to(x.dtype)  # (batch, n, 1)
        x = self.around_gate.leave(x, F.glu(self.gate(self.around_gate.enter(x)), -1))
        h = self.around_convolutions.enter(x) * present
        branches = self.norm(_add(self.wide(h).relu(), self.local(h).relu())) * present
        x = self.around_convolutions.leave(
            x, F.pad(self.narrow(branches), (0, x.shape[-1] - self.narrow.pointwise.out_features))
        )
        h = self.around_attention.enter(x)
        found, weights = self.attention(
            h, mask=mask, projected=self.attention.project(h), need_weights=need_weights
        )
        x = self.around_attention.leave(x, found)
        return LayerOutput(
            self.around_feed_forward.leave(x, self.feed_forward(self.around_feed_forward.enter(x))),
            None,
            weights,
        )


class EvolvedCache(NamedTuple):
    """What a decoder block keeps of the positions so far: two self-attentions' sources, and what
    its convolutions read.
    """

    wide: ProjectedSource
    own: ProjectedSource
    outer: torch.Tensor  # (batch, t, d)
    inner: torch.Tensor  # (batch, t, 2d)


class EvolvedDecoderLayer(nn.Module):
    """The decoder block of the Evolved Transformer.

    Five sublayers, each in its wiring: self-attention with twice the heads plus attention over the
    source, side by side;
    ``sepconv_7(norm(relu(sepconv_11(h)) + sepconv_7(h)))`` with branches of width 2d and d/2, all
    causal; self-attention; attention over the source; feed-forward network.

    Args:
        attention, cross_attention, feed_forward, wiring: as
        :class:`~attnbook.models.transformer.layers.DecoderLayer`. wide_attention,
        first_cross_attention: the two that stand side by side. d_model: d.

    Source: So, Liang and Le 2019, figure 3, decoder.
    """

    def __init__(
        self,
        attention: nn.Module,
        cross_attention: nn.Module,
        feed_forward: nn.Module,
        wiring: Callable[[], Wiring],
        *,
        wide_attention: nn.Module,
        first_cross_attention: nn.Module,
        d_model: int,
    ) -> None:
        super().__init__()
        self.wide_attention, self.first_cross_attention, self.around_both = (
            wide_attention,
            first_cross_attention,
            wiring(),
        )
        self.left = SequenceConvolution(d_model, 2 * d_model, 11, causal=True)
        self.right = SequenceConvolution(d_model, max(1, d_model // 2), 7, causal=True)
        self.norm, self.joined = (
            LayerNorm(2 * d_model),
            SequenceConvolution(2 * d_model, d_model, 7, causal=True),
        )
        self.around_convolutions = wiring()
        self.attention, self.around_attention = attention, wiring()
        self.cross_attention, self.around_cross_attention = cross_attention, wiring()
        self.feed_forward, self.around_feed_forward = feed_forward, wiring()

    def project(self, memory: torch.Tensor) -> tuple:
        """Keys and values of the encoder's output for both attentions over the source."""
        return self.first_cross_attention.project(memory), self.cross_attention.project(memory)

    def forward(
        self,
        x: torch.Tensor,
        source: tuple,
        mask: torch.Tensor | None = None,
        source_mask: torch.Tensor | None = None,
        *,
        cache: EvolvedCache | None = None,
        need_weights: bool = False,
    ) -> LayerOutput:
        """As :meth:`attnbook.models.transformer.layers.DecoderLayer.forward`; the weights are
        those of the later two attentions.
        """
        m = x.shape[-2]
        h = self.around_both.enter(x)
        wide = (
            self.wide_attention.project(h)
            if cache is None
            else cache.wide.extend(self.wide_attention.project(h))
        )
        both = (
            self.wide_attention(h, mask=mask, projected=wide, need_weights=False).context
            + self.first_cross_attention(
                h, mask=source_mask, projected=source[0], need_weights=False
            ).context
        )
        x = self.around_both.leave(x, both)

        outer = self.around_convolutions.enter(x)
        outer = outer if cache is None else torch.cat([cache.outer, outer], dim=-2)
        inner = self.norm(
            _add(self.left(_recent(outer, m, 11)).relu(), self.right(_recent(outer, m, 11)))[
                ..., -m:, :
            ]
        )
        inner = inner if cache is None else torch.cat([cache.inner, inner], dim=-2)
        x = self.around_convolutions.leave(x, self.joined(_recent(inner, m, 7))[..., -m:, :])

        h = self.around_attention.enter(x)
        own = (
            self.attention.project(h)
            if cache is None
            else cache.own.extend(self.attention.project(h))
        )
        found, of_target = self.attention(h, mask=mask, projected=own, need_weights=need_weights)
        x = self.around_attention.leave(x, found)
        h = self.around_cross_attention.enter(x)
        found, of_source = self.cross_attention(
            h, mask=source_mask, projected=source[1], need_weights=need_weights
        )
        x = self.around_cross_attention.leave(x, found)
        x = self.around_feed_forward.leave(x, self.feed_forward(self.around_feed_forward.enter(x)))
        return LayerOutput(
            x,
            EvolvedCache(wide, own, outer, inner),
            (of_target, of_source) if need_weights else None,
        )


def _recent(x: torch.Tensor, m: int, kernel_size: int) -> torch.Tensor:
    """The last m positions and those that a causal kernel reads before them."""
    return x[..., max(0, x.shape[-2] - m - kernel_size + 1) :, :]


def evolved(parts: Parts, num_heads: int, d_feed_forward: int) -> Parts:
    """Parts with the blocks of the Evolved Transformer; the decoder's network has swish as its
    activation, as in the paper.

    Args:
        parts: what else the model is built of.
        num_heads: of the attentions; the wide one has twice as many.
        d_feed_forward: hidden width of the decoder's feed-forward network.

    Source: So, Liang and Le 2019, figure 3.
    """
    d = parts.d_model
    attention = partial(MultiHeadAttention, d)

    def decoder_layer(
        own: nn.Module, cross: nn.Module, feed_forward: nn.Module, wiring: Callable[[], Wiring]
    ) -> nn.Module:
        return EvolvedDecoderLayer(
            own,
            cross,
            FeedForward(d, d_feed_forward, "swish"),
            wiring,
            wide_attention=attention(2 * num_heads),
            first_cross_attention=attention(num_heads),
            d_model=d,
        )

    return replace(
        parts, encoder_layer=partial(EvolvedEncoderLayer, d_model=d), decoder_layer=decoder_layer
    )
