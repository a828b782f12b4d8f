"""The Transformer: encoder and decoder that know no recurrence, only attention."""

from typing import NamedTuple

from torch import Tensor, nn

from ...decoding.step import (
    Decoded,
    Step,
    TokenIds,
    check_source,
    check_target,
    check_token,
    check_token_ids,
)
from ...mechanisms import padding_mask
from ...mechanisms.layers.embeddings import set_padding
from ...validate import check_choice, check_integer, require
from .layers import Stacked
from .parts import Parts, check_parts, paper_parts, tie_weights

__all__ = ["DecoderState", "HeadWeights", "ReadSource", "Transformer"]


class ReadSource(NamedTuple):
    """An encoded source."""

    encoded: Tensor  # the encoder's output, (batch, n, d_model)
    mask: Tensor  # True where there is a token, (batch, 1, n)
    projected: tuple  # keys and values of the source in each block of the decoder, computed once


class DecoderState(NamedTuple):
    """The state of a decoder: what each block has cached, and the position of the next token."""

    caches: tuple  # one per block, None before the first token
    position: int


class HeadWeights(NamedTuple):
    """The weights of all heads, one tensor per block, first to last.

    encoder ``(batch, h, n, n)``, decoder (the target over itself) ``(batch, h, m, m)``, cross (the
    target over the source) ``(batch, h, m, n)``."""

    encoder: tuple[Tensor, ...]
    decoder: tuple[Tensor, ...]
    cross: tuple[Tensor, ...]


class Transformer(nn.Module):
    """Encoder-decoder of stacked attention and feed-forward blocks.

    ``x_0 = dropout(√d E[tokens] + PE)``;  encoder: N blocks of self-attention and feed-forward
    network;  decoder: N blocks of causal self-attention, attention over the encoder's output,
    feed-forward network; ``p(y_t | y_{<t}, x) = softmax(W x_N,t)``.

    Args:
        source_size, target_size: sizes of the vocabularies.
        parts: what it is built of, :class:`~attnbook.models.transformer.parts.Parts`; when not
            given, those of the base model of the paper, ``paper_parts()``.
        num_layers: N, or a pair for encoder and decoder.
        tie: which matrices are one: ``"output"``, the target embedding and W; ``"all"``, the source
            embedding too, as in the paper, which has one vocabulary for both languages; ``"none"``.
        token_ids: the ids that are no words, for decoding; as a rule ``vocabulary.token_ids``.
            Without it every id is a word.

    Shapes: source ``(batch, n)``, lengths ``(batch,)``, target_in ``(batch, m)`` → logits
    ``(batch, m, target_size)``, weights :class:`HeadWeights` or None; padding has weight exactly 0.

    Padding of a target needs no mask: it stands at the end, where no real position looks.

    Source: Vaswani et al. 2017.
    """

    def __init__(
        self,
        source_size: int,
        target_size: int,
        parts: Parts | None = None,
        *,
        num_layers: int | tuple[int, int] = 6,
        tie: str = "output",
        token_ids: TokenIds | None = None,
    ) -> None:
        super().__init__()
        parts = check_parts(paper_parts() if parts is None else parts)
        self.source_size = check_integer("source_size", source_size)
        self.target_size = check_integer("target_size", target_size)
        self.token_ids = check_token_ids(token_ids, target_size)
        pair = num_layers if isinstance(num_layers, tuple) else (num_layers, num_layers)
        require(
            len(pair) == 2,
            f"num_layers must be an integer or a pair of them, for encoder and decoder, got "
            f"{num_layers!r}",
        )
        encoder_layers, decoder_layers = pair
        self.source_embedding = parts.embedding(source_size)
        self.source_positions = parts.positions()
        self.target_embedding = parts.embedding(target_size)
        self.target_positions = parts.positions()
        for embedding in (self.source_embedding, self.target_embedding):
            set_padding(embedding, self.token_ids.padding)
        self.dropout = parts.dropout()
        self.encoder = parts.make_encoder(encoder_layers)
        self.decoder = parts.make_decoder(decoder_layers)
        self.output = parts.output(target_size)  # W
        check_choice("tie", tie, ("none", "output", "all"))
        if tie == "all":
            require(
                source_size == target_size,
                "tie='all' needs one vocabulary, got source_size and target_size "
                f"{source_size} and {target_size}: tie='output' leaves the source embedding its "
                f"own",
            )
            self.source_embedding = self.target_embedding
        if tie != "none":
            tie_weights(self.output, self.target_embedding)

    def _encode(
        self, source: Tensor, lengths: Tensor, need_weights: bool
    ) -> tuple[ReadSource, tuple | None]:
        check_source(source, lengths, self.source_size)
        mask = padding_mask(lengths.to(source.device), source.shape[1])[:, None]  # (batch, 1, n)
        # (batch, n, d_model)
        x = self.dropout(self.source_positions(self.source_embedding(source)))
        encoded = self.encoder(x, mask=mask, need_weights=need_weights)
        mask = mask if encoded.mask is None else encoded.mask
        return ReadSource(encoded.x, mask, self.decoder.project(encoded.x)), encoded.weights

    def encode(self, source: Tensor, lengths: Tensor) -> ReadSource:
        """Read sources ``(batch, n)`` of true ``lengths (batch,)``, project their keys once."""
        return self._encode(source, lengths, False)[0]

    def start(self, memory: ReadSource) -> DecoderState:
        """The state before the first token: nothing cached."""
        return DecoderState((None,) * len(self.decoder.layers), 0)

    def _decode(
        self,
        tokens: Tensor,
        state: DecoderState,
        memory: ReadSource,
        is_causal: bool,
        need_weights: bool,
    ) -> tuple[Tensor, Stacked]:
        # (batch, m, d_model)
        x = self.dropout(self.target_positions(self.target_embedding(tokens), state.position))
        decoded = self.decoder(
            x,
            memory.projected,
            source_mask=memory.mask,
            is_causal=is_causal,
            caches=state.caches,
            need_weights=need_weights,
            position=state.position,
        )
        return self.output(decoded.x), decoded  # (batch, m, target_size)

    def step(
        self, token: Tensor, state: DecoderState, memory: ReadSource, *, need_weights: bool = False
    ) -> Step:
        """Read one token ``(batch,)`` and score the next; what came before is in the cache.

        The weights ``(batch, n)``, where they are asked for, are those over the source in the last
        block, the mean of its heads; None if it has none.
        """
        check_token(token, len(memory.encoded))
        logits, decoded = self._decode(token[:, None], state, memory, False, need_weights)
        heads = decoded.weights[-1][1] if decoded.weights else None  # (batch, h, 1, n)
        weights = None if heads is None else heads.mean(1)[:, 0]
        return Step(logits[:, 0], DecoderState(decoded.caches, state.position + 1), weights)

    def forward(
        self, source: Tensor, lengths: Tensor, target_in: Tensor, *, need_weights: bool = False
    ) -> Decoded:
        """Score a target under teacher forcing at once; row t has read ``target_in[:, :t + 1]``."""
        memory, source_weights = self._encode(source, lengths, need_weights)
        check_target(target_in, source.shape[0], self.target_size)
        logits, decoded = self._decode(target_in, self.start(memory), memory, True, need_weights)
        if source_weights is None or decoded.weights is None:
            return Decoded(logits, None)
        return Decoded(logits, HeadWeights(source_weights, *map(tuple, zip(*decoded.weights))))
