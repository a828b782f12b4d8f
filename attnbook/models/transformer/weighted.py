"""The Weighted Transformer: heads go through the feed-forward network one by one, and add up."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from ...mechanisms.attention.multi_head import MultiHeadAttention
from ...mechanisms.layers.residual import ResidualConnection
from .layers import Attention, DecoderLayer, EncoderLayer

__all__ = ["Branches", "WeightedDecoderLayer", "WeightedEncoderLayer"]


class Branches(nn.Module):
    """What joins the heads of an attention: a branch a head, each through the feed-forward network.

    ``Σ_i α_i FFN(κ_i head_i W_o,i)``;  κ and α are learned softmaxes, equal at the start.

    One network serves all branches. Since it is asked h times, it costs h times as much.

    Args:
        projection: W_o of an attention; its bias is left out.
        feed_forward: FFN, ``(…, d_model)`` → the same.
        num_heads: ``h``.

    Shapes: the heads side by side, ``(…, m, h·d_head_value)`` → ``(…, m, d_model)``.

    Source: Ahmed, Keskar and Socher 2017, equations 3 to 5.
    """

    def __init__(self, projection: nn.Linear, feed_forward: nn.Module, num_heads: int) -> None:
        super().__init__()
        self.weight, self.feed_forward = projection.weight, feed_forward  # W_o, FFN
        # κ, α before the softmax
        self.heads_in, self.branches_out = (nn.Parameter(torch.zeros(num_heads)) for _ in range(2))

    def forward(self, heads: Tensor) -> Tensor:
        h = len(self.heads_in)
        each = self.weight.unflatten(1, (h, -1))  # W_o of every head
        branches = torch.einsum(
            "...mhd,ohd,h->...hmo", heads.unflatten(-1, (h, -1)), each, self.heads_in.softmax(0)
        )
        branches = self.feed_forward(branches)
        return torch.einsum("...hmo,h->...mo", branches, self.branches_out.softmax(0))


def branched(attention: Attention, feed_forward: nn.Module) -> MultiHeadAttention:
    """The attention with :class:`Branches` in the place of its output projection.

    Weights that were saved before this had ``feed_forward``, ``heads_in`` and ``branches_out``
    beside the projection; they are read, too.
    """
    if type(attention) is not MultiHeadAttention:
        raise ValueError(
            f"attention must be a MultiHeadAttention to be cut into branches, got "
            f"{type(attention).__name__}"
        )
    join = Branches(attention.output_projection, feed_forward, attention.num_heads)
    attention.output_projection = join
    attention.register_load_state_dict_pre_hook(_read_old_names)
    return attention


def _read_old_names(module, state, prefix, *_):
    old = ("feed_forward", "heads_in", "branches_out")
    for name in list(state):
        part = name.removeprefix(prefix)
        if name.startswith(prefix) and part.split(".")[0] in old:
            state[f"{prefix}output_projection.{part}"] = state.pop(name)


class WeightedEncoderLayer(EncoderLayer):
    """A block of one sublayer: self-attention whose heads are joined by :class:`Branches`.

    Takes what :class:`~attnbook.models.transformer.layers.EncoderLayer` takes, so that it can be
    ``Parts.encoder_layer``; of the attention it takes the sizes and all options."""

    def __init__(
        self,
        attention: Attention,
        feed_forward: nn.Module,
        residual: Callable[[], ResidualConnection],
    ) -> None:
        super().__init__(branched(attention, feed_forward), None, residual)


class WeightedDecoderLayer(DecoderLayer):
    """Self-attention as it was, and attention over the source with its heads in :class:`Branches`.

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
        super().__init__(attention, branched(cross_attention, feed_forward), None, residual)
