"""The Transformer's two halves: a decoder-only language model, and an encoder-only one."""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ...decoding.step import Decoded, Step, TokenIds, check_text, check_token_ids
from ...mechanisms import padding_mask
from ...mechanisms.layers.embeddings import set_padding
from ...validate import check_ids, check_integer, check_lengths, describe, is_readable
from .parts import Parts, check_parts, paper_parts, tie_weights

__all__ = ["TextState", "TransformerEncoderModel", "TransformerLM"]


class TextState(NamedTuple):
    """The state of a :class:`TransformerLM` that continues texts."""

    caches: tuple  # keys and values of the text so far in each block; None before the first token
    mask: Tensor | None  # which of them are tokens, (batch, 1, t); None where all are
    position: int | Tensor  # of the next token: t where all are tokens, else (batch,)


class _OneStack(nn.Module):
    """Embeddings, positions, one stack, logits: what the two models of this file have in common."""

    def __init__(
        self,
        vocabulary_size: int,
        parts: Parts | None = None,
        *,
        num_layers: int = 6,
        tie: bool = True,
        token_ids: TokenIds | None = None,
    ) -> None:
        super().__init__()
        parts = check_parts(paper_parts() if parts is None else parts)
        self.vocabulary_size = check_integer("vocabulary_size", vocabulary_size)
        self.token_ids = check_token_ids(token_ids, vocabulary_size)
        self.embedding = parts.embedding(vocabulary_size)
        set_padding(self.embedding, self.token_ids.padding)
        self.positions = parts.positions()
        self.dropout = parts.dropout()
        self.stack = parts.make_encoder(num_layers)
        self.output = parts.output(vocabulary_size)
        if tie:
            tie_weights(self.output, self.embedding)

    def _embed(self, tokens: Tensor, offset: int | Tensor = 0) -> Tensor:
        return self.dropout(self.positions(self.embedding(tokens), offset))  # (batch, m, d_model)


class TransformerLM(_OneStack):
    """A decoder-only Transformer: ``p(w_{t+1} | w_1 … w_t)`` from blocks of causal self-attention.

    It is the decoder without a source, so its blocks are those of the encoder under a causal mask.

    ``encode``, ``start`` and ``step`` let it go on where a text stops, for
    :func:`~attnbook.decoding.generate`; greedy and beam search can use it as a
    sequence-to-sequence model: source, BOS, target are one text.

    Args:
        vocabulary_size: number of tokens.
        parts: what it is built of; when not given, the parts of the paper's base model.
        num_layers: number of blocks.
        tie: whether embedding and W are one matrix.
        token_ids: the ids that are no words, for decoding: ``vocabulary.token_ids``, or those of a
            published model. Without it every id is a word.

    Shapes: tokens ``(batch, n)``, lengths ``(batch,)`` → logits ``(batch, n, vocabulary_size)``,
    weights a tuple with one ``(batch, h, n, n)`` per block, or None. Padding stands at the end,
    where no token attends, so lengths are only checked; results at the padding mean nothing.

    Source: Liu et al. 2018, section 4.2.3; Radford et al. 2018.
    """

    def forward(
        self,
        tokens: Tensor,
        lengths: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        need_weights: bool = False,
    ) -> Decoded:
        """Score the token after each token, all positions at once; ``mask (batch, n, n)``, such as
        :func:`~attnbook.document_mask`, says which of those before it each one may attend to.
        """
        check_text(tokens, lengths, self.vocabulary_size)
        stacked = self.stack(
            self._embed(tokens), mask=mask, is_causal=True, need_weights=need_weights
        )
        return Decoded(self.output(stacked.x), stacked.weights)

    def encode(self, source: Tensor, lengths: Tensor) -> TextState:
        """Read the beginning of a text, ``(batch, n)`` of ``lengths (batch,)``, 0 where none is.

        Shorter beginnings are moved to the right, so that in the cache their padding stands in
        front of them, masked, and every distance between tokens is what it is without padding.
        """
        check_text(source, None, self.vocabulary_size)
        check_lengths(lengths, len(source), "source", 0, source.shape[1])
        n, x = source.shape[1], self._embed(source)
        if is_readable(lengths) and bool((lengths == n).all()):
            return TextState(self.stack(x, is_causal=True).caches, None, n)
        lengths = lengths.to(source.device)
        padding = n - lengths
        place = torch.arange(n, device=source.device) - padding[:, None]  # (batch, n)
        x = x.gather(1, place.clamp(min=0)[:, :, None].expand_as(x))
        mask = (place >= 0)[:, None]
        stacked = self.stack(x, mask=mask, is_causal=True, position=-padding)
        return TextState(stacked.caches, mask, lengths)

    def start(self, memory: TextState) -> TextState:
        """The state after the beginning of the text."""
        return memory

    def begin(self, batch: int, device: torch.device | str | None = None) -> TextState:
        """The state before any token, for ``batch`` texts."""
        check_integer("batch", batch)
        return TextState((None,) * len(self.stack.layers), None, 0)

    def read(self, tokens: Tensor, state: TextState) -> Step:
        """Read further tokens ``(batch, m)``, all at once, and score the one after each of them:
        logits ``(batch, m, vocabulary_size)``.

        A long text may be read in chunks, and a beginning that several texts share only once."""
        check_text(tokens, None, self.vocabulary_size)
        return self._read(tokens, state)

    def cut(self, state: TextState, number: int) -> TextState:
        """The state without the last ``number`` tokens of those that the last call read."""
        if check_integer("number", number, 0) == 0:
            return state
        for cache in state.caches:
            if not hasattr(cache, "cut"):
                raise ValueError(f"state must be of caches that can be cut, got {describe(cache)}")
        mask = None if state.mask is None else state.mask[..., :-number]
        caches = tuple(cache.cut(number) for cache in state.caches)
        return TextState(caches, mask, state.position - number)

    def step(
        self, token: Tensor, state: TextState, memory: object = None, *, need_weights: bool = False
    ) -> Step:
        """Read one token ``(batch,)`` and score the next.

        There are never weights: a text has no source to align with.
        """
        try:
            step = self._read(token[:, None], state)
        except (IndexError, RuntimeError):  # a look at each token would cost a decoder more
            check_ids("token", token, self.vocabulary_size, "(batch)")
            first: Any = state.caches
            while isinstance(first, tuple) and first:
                first = first[0]
            if isinstance(first, Tensor) and len(first) != len(token):
                raise ValueError(
                    f"token must have {len(first)} rows as state has, got {len(token)}"
                ) from None
            raise
        return step._replace(logits=step.logits[:, 0])

    def _read(self, tokens: Tensor, state: TextState) -> Step:
        m, mask = tokens.shape[1], state.mask
        if mask is not None:  # (batch, 1, t + m)
            mask = torch.cat([mask, mask.new_ones(len(tokens), 1, m)], dim=-1)
        x = self._embed(tokens, state.position)
        stacked = self.stack(
            x, mask=mask, is_causal=m > 1, caches=state.caches, position=state.position
        )
        state = TextState(stacked.caches, mask, state.position + m)
        return Step(self.output(stacked.x), state, None)


class TransformerEncoderModel(_OneStack):
    """An encoder-only Transformer: a distribution over words at a position, from both sides.

    Trained to tell the words that mask tokens hide, it is the masked language model; which
    positions are masked and counted is the task's business.

    Args:
        vocabulary_size, parts, num_layers, tie, token_ids: as in :class:`TransformerLM`.

    Shapes: tokens ``(batch, n)``, lengths ``(batch,)``, all n when not given → logits
    ``(batch, n, vocabulary_size)``, weights a tuple with one ``(batch, h, n, n)`` per block, or
    None; padding has weight exactly 0.

    Source: Devlin et al. 2019, section 3, without the segments and the sentence pairs.
    """

    def encode(
        self, tokens: Tensor, lengths: Tensor | None = None, *, mask: Tensor | None = None
    ) -> Tensor:
        """The vectors of the last block, ``(batch, n, d_model)``."""
        return self._stacked(tokens, lengths, mask, False).x

    def forward(
        self,
        tokens: Tensor,
        lengths: Tensor | None = None,
        *,
        mask: Tensor | None = None,
        need_weights: bool = False,
    ) -> Decoded:
        """Score the word at each position; ``mask (batch, n, n)`` as in :class:`TransformerLM`."""
        stacked = self._stacked(tokens, lengths, mask, need_weights)
        return Decoded(self.output(stacked.x), stacked.weights)

    def _stacked(self, tokens, lengths, mask, need_weights):
        check_text(tokens, lengths, self.vocabulary_size)
        if lengths is not None:
            there = padding_mask(lengths.to(tokens.device), tokens.shape[1])[:, None]
            mask = there if mask is None else mask & there
        return self.stack(self._embed(tokens), mask=mask, need_weights=need_weights)
