"""An encoder-only Transformer that reads the dependency trees of its sentences."""

from torch import Tensor, nn

from ...decoding.step import Decoded, TokenIds, check_text, check_token_ids
from ...mechanisms import padding_mask
from ...mechanisms.attention.masks import masks_by_name
from ...mechanisms.attention.multi_head import MultiHeadAttention
from ...mechanisms.layers.embeddings import set_padding
from ...mechanisms.positions.syntactic import (
    StructuralPositions,
    SyntacticMultiHeadAttention,
    tree_depth,
    tree_offset,
)
from ...validate import check_integer, require
from .layers import EncoderLayer, LayerOutput
from .parts import Parts, check_parts, paper_parts

__all__ = ["SyntacticEncoderLayer", "SyntacticEncoderModel"]


class SyntacticEncoderLayer(EncoderLayer):
    """An :class:`EncoderLayer` whose attention is also given the offsets in the tree.

    Shapes: x ``(batch, n, d)``, offset ``(batch, n, n)``, mask broadcastable to ``(batch, n, n)`` →
    :class:`LayerOutput`.
    """

    @masks_by_name("mask")
    def forward(
        self, x: Tensor, offset: Tensor, *, mask: Tensor | None = None, need_weights: bool = False
    ) -> LayerOutput:
        """Run the block over whole sentences, without a cache: a tree is known at the end."""
        h = self.around_attention.sublayer_input(x)
        context, weights = self.attention(h, offset, mask=mask, need_weights=need_weights)
        x = self.around_attention.combine(x, context)
        x = self.around_feed_forward(x, self.feed_forward)
        return LayerOutput(x, None, weights)


class SyntacticEncoderModel(nn.Module):
    """A distribution over words everywhere, from the words on both sides and the tree over them.

    The depth in the tree is mixed into the absolute positions, the offset in the tree stands beside
    the relative ones; either can be left out.

    Args:
        vocabulary_size: number of tokens.
        parts: what it is built of; when not given, the parts of the paper's base model. Of its
            attention the numbers of heads and widths are taken.
        num_layers: number of blocks.
        depth: whether depths are given, :class:`StructuralPositions`; else positions of the parts.
        max_distance, max_tree_distance: where distances in the sentence and in the tree are
            clipped, :class:`SyntacticMultiHeadAttention`; with None as the second there are no
            offsets, and the attention is that of the parts.
        token_ids: of it the padding is used, whose vector is zero.

    Shapes: tokens ``(batch, n)``, heads ``(batch, n)``, −1 for the root, lengths ``(batch,)``, all
    n when not given → logits ``(batch, n, vocabulary_size)``, weights a tuple with one
    ``(batch, h, n, n)`` per block, or None; padding has weight exactly 0.

    Source: Wang, Tu, Wang and Shi 2019.
    """

    def __init__(
        self,
        vocabulary_size: int,
        parts: Parts | None = None,
        *,
        num_layers: int = 6,
        depth: bool = True,
        max_distance: int = 16,
        max_tree_distance: int | None = 4,
        token_ids: TokenIds | None = None,
    ) -> None:
        super().__init__()
        parts = check_parts(paper_parts() if parts is None else parts)
        self.vocabulary_size = check_integer("vocabulary_size", vocabulary_size)
        self.token_ids = check_token_ids(token_ids, vocabulary_size)
        self.embedding = parts.embedding(vocabulary_size)
        set_padding(self.embedding, self.token_ids.padding)
        self.dropout = parts.dropout()
        self.depth = depth
        self.positions = StructuralPositions(parts.d_model) if depth else parts.positions()
        self.offsets = max_tree_distance is not None

        def block() -> nn.Module:
            if max_tree_distance is None:
                return parts.make_encoder_block()
            plain = parts.attention()
            if not isinstance(plain, MultiHeadAttention):
                raise ValueError(
                    f"parts must have a MultiHeadAttention as attention, got {type(plain).__name__}"
                )
            attention = SyntacticMultiHeadAttention(
                parts.d_model,
                plain.num_heads,
                max_distance=max_distance,
                max_tree_distance=max_tree_distance,
                d_head=plain.d_head,
                d_head_value=plain.d_head_value,
            )
            return SyntacticEncoderLayer(attention, parts.feed_forward(), parts.residual)

        self.layers = nn.ModuleList(parts.stack(block, check_integer("num_layers", num_layers)))
        self.norm, self.output = parts.final_norm(), parts.output(vocabulary_size)

    def forward(
        self,
        tokens: Tensor,
        heads: Tensor,
        lengths: Tensor | None = None,
        *,
        need_weights: bool = False,
    ) -> Decoded:
        """Score the word at each position."""
        check_text(tokens, lengths, self.vocabulary_size)
        require(
            isinstance(heads, Tensor) and heads.shape == tokens.shape,
            f"heads must be {tuple(tokens.shape)}, as tokens, got "
            f"{tuple(getattr(heads, 'shape', ()))}",
        )
        depth = (tree_depth(heads, lengths),) if self.depth else ()
        x = self.dropout(self.positions(self.embedding(tokens), *depth))  # (batch, n, d_model)
        mask = None
        if lengths is not None:
            mask = padding_mask(lengths.to(tokens.device), tokens.shape[1])[:, None]
        given = (tree_offset(heads, lengths).to(tokens.device),) if self.offsets else ()
        weights = []
        for layer in self.layers:
            x, _, seen = layer(x, *given, mask=mask, need_weights=need_weights)
            weights.append(seen)
        return Decoded(self.output(self.norm(x)), tuple(weights) if need_weights else None)
