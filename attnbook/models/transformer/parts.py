"""What a Transformer is built of: functions that make its modules, the paper's unless replaced."""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial

from torch import nn

from ...kernels.layers import Dropout, Linear
from ...mechanisms.attention.multi_head import MultiHeadAttention
from ...mechanisms.layers.embeddings import ScaledEmbedding
from ...mechanisms.layers.feed_forward import FeedForward
from ...mechanisms.layers.norms import LayerNorm
from ...mechanisms.layers.residual import PostNorm, ResidualConnection
from ...mechanisms.positions.absolute import SinusoidalPositions
from ...validate import check_integer, check_maker, check_number, describe, require
from .layers import Decoder, DecoderLayer, Encoder, EncoderLayer

__all__ = ["Parts", "alternating", "attention_only", "check_parts", "paper_parts", "tie_weights"]

Make = Callable[[], nn.Module]


def _separate(make: Make, number: int) -> list[nn.Module]:
    return [make() for _ in range(number)]


@dataclass(frozen=True)
class Parts:
    """The functions that make the modules of a Transformer. Start from :func:`paper_parts` and
    replace what should differ:

    >>> base = paper_parts(256, 4, 1024)
    >>> make = functools.partial(GatedFeedForward, 256, 683, "swiglu")
    >>> swiglu = dataclasses.replace(base, feed_forward=make)

    Attributes:
        d_model: width of the stream
        attention: () → self-attention of a block; ``cross_attention`` for that over the source;
            ``causal_attention`` for the self-attention of a decoder block where it is another than
            that of an encoder block
        feed_forward: () → the feed-forward sublayer
        residual: () → a :class:`~attnbook.mechanisms.layers.residual.ResidualConnection`, one for
            each sublayer
        final_norm: () → what a stack ends with
        positions: () → a module ``(x, offset)`` that adds positions to the embeddings
        embedding: size → token embeddings
        output: size → from the last x to logits; with tied weights it needs a ``weight`` of shape
            (size, d_model)
        dropout: () → what the sum of embeddings and positions goes through
        encoder_layer: (attention, feed_forward, residual) → block; ``decoder_layer`` also takes the
            cross-attention
        stack: (function that makes a block, number) → list of blocks;
            ``lambda make, n: [make()] * n`` shares one
        encoder, decoder: (blocks, norm) → a stack like
            :class:`~attnbook.models.transformer.layers.Encoder` and ``Decoder``
    """

    d_model: int
    attention: Make
    cross_attention: Make
    feed_forward: Make
    residual: Callable[[], ResidualConnection]
    final_norm: Make
    positions: Make
    embedding: Callable[[int], nn.Module]
    output: Callable[[int], nn.Module]
    dropout: Make
    encoder_layer: Callable[..., nn.Module] = EncoderLayer
    decoder_layer: Callable[..., nn.Module] = DecoderLayer
    causal_attention: Make | None = None
    stack: Callable[[Make, int], list[nn.Module]] = _separate
    encoder: Callable[..., Encoder] = Encoder
    decoder: Callable[..., Decoder] = Decoder

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name != "d_model" and value is not field.default:
                check_maker(field.name, value)

    def make_encoder(self, number: int) -> Encoder:
        """A stack of ``number`` encoder blocks."""
        return self.encoder(
            self.stack(self.make_encoder_block, check_integer("num_layers", number)),
            self.final_norm(),
        )

    def make_encoder_block(self) -> nn.Module:
        """One block of an encoder, which is also that of a decoder without a source."""
        return self.encoder_layer(self.attention(), self.feed_forward(), self.residual)

    def make_decoder(self, number: int) -> Decoder:
        """A stack of ``number`` decoder blocks."""
        return self.decoder(
            self.stack(self.make_decoder_block, check_integer("num_layers", number)),
            self.final_norm(),
        )

    def make_decoder_block(self) -> nn.Module:
        """One block of a decoder that reads a source."""
        attention = (self.causal_attention or self.attention)()
        cross_attention = self.cross_attention()
        return self.decoder_layer(attention, cross_attention, self.feed_forward(), self.residual)


def check_parts(parts: object) -> Parts:
    """Return ``parts``, or raise a ``ValueError`` unless they are :class:`Parts`."""
    if not isinstance(parts, Parts):
        raise ValueError(f"parts must be Parts, such as `paper_parts` makes, got {describe(parts)}")
    return parts


def alternating(*parts: Parts) -> Callable[[Make, int], list[nn.Module]]:
    """A ``stack`` whose blocks, of an encoder or a decoder, are those of several parts in turn: the
    first, the second, …, and the first again.

    >>> local = dataclasses.replace(base, attention=make_local)
    >>> compressed = dataclasses.replace(base, attention=make_compressed)
    >>> both = dataclasses.replace(base, stack=alternating(local, compressed))
    """
    require(len(parts) > 0, "parts must hold at least one Parts, got none")

    def stack(make: Make, number: int) -> list[nn.Module]:
        # make is the method of some Parts; here it is called for those whose turn it is
        kind = getattr(make, "__name__", "make_encoder_block")
        return [getattr(parts[k % len(parts)], kind)() for k in range(number)]

    return stack


def attention_only(parts: Parts) -> Parts:
    """The same parts without feed-forward networks, for a
    :class:`~attnbook.models.transformer.language_model.TransformerLM`: ``x ← residual(x,
    attention)``, and nothing else.

    Source: Elhage et al. 2021, "A mathematical framework for Transformer circuits".
    """

    def layer(attention, feed_forward, residual) -> EncoderLayer:
        return EncoderLayer(attention, None, residual)

    return replace(parts, encoder_layer=layer, feed_forward=nn.Identity)


def paper_parts(
    d_model: int = 512,
    num_heads: int = 8,
    d_feed_forward: int = 2048,
    *,
    dropout: float = 0.1,
    residual: type[ResidualConnection] = PostNorm,
    norm: Callable[[int], nn.Module] = LayerNorm,
    activation: str | Callable = "relu",
    bias: bool = True,
    attention_dropout: float = 0.0,
    feed_forward_dropout: float = 0.0,
    final_norm: Make | None = None,
) -> Parts:
    """The parts of the paper's Transformer; without arguments those of its base model.

    Args:
        d_model, num_heads, d_feed_forward: of the base model; the big one has 1024, 16, 4096.
        dropout: on the result of each sublayer, and on the sum of embeddings and positions.
        residual: ``PostNorm`` as in the paper, or another
            :class:`~attnbook.mechanisms.layers.residual.ResidualConnection`.
        norm: from the width to a norm.
        activation: of the feed-forward sublayer.
        bias: of the projections of the attention; the paper's formula has none.
        attention_dropout, feed_forward_dropout: on the weights and on the hidden layer, where
            ``torch.nn.Transformer`` has dropout and the paper mentions none.
        final_norm: what a stack ends with; when not given, a norm if the residual connection needs
            one, else nothing. (``torch.nn.Transformer`` always has one, in post-norm too.)

    Sizes that do not fit raise ``ValueError`` when a module is made of them, not here, where a part
    may still be replaced: those below 1, an odd ``d_model``, or one that does not divide by
    ``num_heads``.

    Source: Vaswani et al. 2017, section 3 and 5.4.
    """
    for name, share in (
        ("dropout", dropout),
        ("attention_dropout", attention_dropout),
        ("feed_forward_dropout", feed_forward_dropout),
    ):
        check_number(name, share, least=0, below=1)
    check_maker("norm", norm)
    attention = partial(
        MultiHeadAttention, d_model, num_heads, bias=bias, dropout=attention_dropout
    )
    if final_norm is None:
        final_norm = partial(norm, d_model) if residual.needs_final_norm else nn.Identity
    return Parts(
        d_model=d_model,
        attention=attention,
        cross_attention=attention,
        feed_forward=partial(
            FeedForward, d_model, d_feed_forward, activation, dropout=feed_forward_dropout
        ),
        residual=lambda: residual(norm(d_model), Dropout(dropout)),
        final_norm=final_norm,
        positions=partial(SinusoidalPositions, d_model),
        embedding=lambda size: ScaledEmbedding(size, d_model),
        output=lambda size: Linear(d_model, size, bias=False),
        dropout=partial(Dropout, dropout),
    )


def tie_weights(output: nn.Module, embedding: nn.Module) -> None:
    """Make the output's matrix that of the embedding, or raise ``ValueError``."""
    ours, theirs = getattr(output, "weight", None), getattr(embedding, "weight", None)
    if (
        not isinstance(ours, nn.Parameter)
        or not isinstance(theirs, nn.Parameter)
        or ours.shape != theirs.shape
    ):
        raise ValueError(
            "tie needs an output and an embedding with weights of one shape, got "
            f"{None if ours is None else tuple(ours.shape)} and "
            f"{None if theirs is None else tuple(theirs.shape)}; give tie='none'"
        )
    output.weight = theirs
