"""The Transformer without its feed-forward networks: what attention alone can do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from torch import nn

from ...mechanisms.layers.residual import ResidualConnection
from .layers import Attention, EncoderLayer
from .parts import Parts

__all__ = ["AttentionOnlyLayer", "attention_only"]


class AttentionOnlyLayer(EncoderLayer):
    """A block of self-attention in a residual connection, and nothing else.

    ``x ← residual(x, attention)``

    Args:
        attention, residual: as in :class:`~attnbook.models.transformer.layers.EncoderLayer`.
        feed_forward: not kept.

    Source: Elhage et al. 2021, "A mathematical framework for Transformer circuits".
    """

    def __init__(
        self,
        attention: Attention,
        feed_forward: nn.Module,
        residual: Callable[[], ResidualConnection],
    ) -> None:
        super().__init__(attention, None, residual)


def attention_only(parts: Parts) -> Parts:
    """The same parts without feed-forward networks, for a
    :class:`~attnbook.models.transformer.language_model.TransformerLM`.
    """
    return replace(parts, encoder_layer=AttentionOnlyLayer, feed_forward=nn.Identity)
