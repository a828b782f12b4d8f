"""The Weighted Transformer: every head goes through the feed-forward network on its own, and
learned shares add them up.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from ...mechanisms.attention.multi_head import MultiHeadAttention
from ...mechanisms.layers.residual import ResidualConnection
from .layers import Attention, DecoderLayer, EncoderLayer

__all__ = ["BranchedAttention", "WeightedDecoderLayer", "WeightedEncoderLayer"]


class BranchedAttention(MultiHeadAttention):
    """Multi-head attention and feed-forward network in one: a branch a head.

    ``Σ_i α_i FFN(κ_i head_i W_o,i)``;  κ and α are learned, positive, and sum to 1 each (a softmax;
    equal at the start).

    One network serves all branches. Since it is asked h times, it costs h times as much.

    Args:
        feed_forward: FFN, ``(…, d_model)`` → the same.
        d_model, num_heads: as in
            :class:`~attnbook.mechanisms.attention.multi_head.MultiHeadAttention`, whose other
            options it takes. W_o has no bias.

    Source: Ahmed, Keskar and Socher 2017, equations 3 to 5.
    """

    def __init__(self, feed_forward: nn.Module, d_model: int, num_heads: int, **options) -> None:
        super().__init__(d_model, num_heads, **options)
        self.output_projection.register_parameter("bias", None)
        self.feed_forward = feed_forward
        # κ, α before the softmax
        self.heads_in, self.branches_out = (nn.Parameter(torch.zeros(num_heads)) for _ in range(2))

    def _join(self, context: torch.Tensor) -> torch.Tensor:
        each = self.output_projection.weight.unflatten(1, (self.num_heads, -1))  # W_o of every head
        branches = torch.einsum("...hmd,ohd,h->...hmo", context, each, self.heads_in.softmax(0))
        return torch.einsum(
            "...hmo,h->...mo", self.feed_forward(branches), self.branches_out.softmax(0)
        )

    @property
    def _joined_zeros_differ(self) -> bool:
        return True


def _branched(attention: Attention, feed_forward: nn.Module) -> BranchedAttention:
    if type(attention) is not MultiHeadAttention:
        raise ValueError(
            f"attention must be a MultiHeadAttention to be cut into branches, got "
            f"{type(attention).__name__}"
        )
    branched = BranchedAttention(
        feed_forward,
        attention.d_model,
        attention.num_heads,
        d_query=attention.query_width,
        d_key=attention.key_width,
        d_value=attention.value_width,
        d_head=attention.d_head,
        d_head_value=attention.d_head_value,
        score=attention.score,
        bias=attention.query_projection.bias is not None,
        num_kv_heads=attention.num_kv_heads,
        rotary=attention.rotary,
        learned_sink=attention.sink is not None,
        window=attention.window,
        sinks=attention.sinks,
    )
    branched.query_norm, branched.key_norm = attention.query_norm, attention.key_norm
    branched.dropout = attention.dropout
    return branched


class WeightedEncoderLayer(EncoderLayer):
    """A block of one sublayer: :class:`BranchedAttention` over the positions themselves.

    Takes what :class:`~attnbook.models.transformer.layers.EncoderLayer` takes, so that it can be
    ``Parts.encoder_layer``; of the attention it takes the sizes and all options."""

    def __init__(
        self,
        attention: Attention,
        feed_forward: nn.Module,
        residual: Callable[[], ResidualConnection],
    ) -> None:
        nn.Module.__init__(self)
        self.attention, self.around_attention = _branched(attention, feed_forward), residual()

    forward = EncoderLayer.attend


class WeightedDecoderLayer(DecoderLayer):
    """A block of self-attention as it was, and :class:`BranchedAttention` over the source.

    Takes what :class:`~attnbook.models.transformer.layers.DecoderLayer` takes. The paper leaves
    open which of the two attentions of a decoder is cut into branches; here it is the one that the
    feed-forward network followed."""

    def __init__(
        self,
        attention: Attention,
        cross_attention: Attention,
        feed_forward: nn.Module,
        residual: Callable[[], ResidualConnection],
    ) -> None:
        nn.Module.__init__(self)
        self.attention, self.around_attention = attention, residual()
        self.cross_attention = _branched(cross_attention, feed_forward)
        self.around_cross_attention = residual()

    forward = DecoderLayer.attend
