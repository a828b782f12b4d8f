"""Sequence to sequence with a fixed vector: the decoder receives the encoder's last state alone."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from ...decoding.step import Decoded, Step, TokenIds, check_source, check_target, check_token
from .common import Translator, make_recurrent, reverse_padded, run_from, run_packed

__all__ = ["Seq2Seq", "Summary"]


class Summary(NamedTuple):
    """An encoded source: the last state of every layer."""

    state: tuple[Tensor, ...]  # (h,) or (h, c), each (batch, layers, hidden)
    context: Tensor  # c, the last h of the top layer: (batch, hidden)


class Seq2Seq(Translator):
    """An encoder that reads the source into its last state, and a decoder that starts from it.

    ``h_t = f(x_t, h_{t−1})``, ``c = h_n``, ``s_0 = h_n``, ``s_t = f(y_{t−1}, s_{t−1})`` or, with
    ``context_every_step``, ``s_t = f([y_{t−1}; c], s_{t−1})``;
    ``p(y_t | y_{<t}, x) = softmax(W_o s_t + b)``, where W_o also sees c with
    ``context_every_step``.

    Args:
        source_size, target_size: sizes of the vocabularies.
        d_embed: width of the embeddings.
        hidden_size: width of a state.
        unit: ``"tanh"`` (plain RNN), ``"gru"`` or ``"lstm"``.
        num_layers: layers of encoder and decoder.
        context_every_step: the decoder reads c at every step, not only as its start.
        reverse_source: read every source from its end, as Sutskever does.
        dropout: on embeddings, between layers, and before the output.
        token_ids: the ids that are no words, for decoding; as a rule ``vocabulary.token_ids``.
            Without it every id is a word.

    Shapes: source ``(batch, n)``, lengths ``(batch,)``, target_in ``(batch, m)`` → logits
    ``(batch, m, target_size)``.

    Sources: Sutskever et al. 2014 (start state, reversal); Cho et al. 2014 (context at every step).
    """

    def __init__(
        self,
        source_size: int,
        target_size: int,
        *,
        d_embed: int = 64,
        hidden_size: int = 128,
        unit: str = "gru",
        num_layers: int = 1,
        context_every_step: bool = False,
        reverse_source: bool = False,
        dropout: float = 0.0,
        token_ids: TokenIds | None = None,
    ) -> None:
        super().__init__(source_size, target_size, d_embed, dropout, token_ids)
        self.context_every_step, self.reverse_source = context_every_step, reverse_source
        d_context = hidden_size if context_every_step else 0
        self.encoder, self.decoder = (
            make_recurrent(unit, width, hidden_size, num_layers=num_layers, dropout=dropout)
            for width in (d_embed, d_embed + d_context)
        )
        self.output = nn.Linear(hidden_size + d_context, target_size)

    def encode(self, source: Tensor, lengths: Tensor) -> Summary:
        """Read sources ``(batch, n)`` of true ``lengths (batch,)``; padding leaves no trace."""
        check_source(source, lengths, self.source_size)
        if self.reverse_source:
            source = reverse_padded(source, lengths)
        embedded = self.dropout(self.source_embedding(source))  # (batch, n, d_embed)
        _, last = run_packed(self.encoder, embedded, lengths)
        return Summary(last, last[0][:, -1])

    def start(self, memory: Summary) -> tuple[Tensor, ...]:
        """Start state of the decoder: the encoder's last state."""
        return memory.state

    def _run(self, tokens: Tensor, state: tuple[Tensor, ...], memory: Summary):
        inputs = self.dropout(self.target_embedding(tokens))  # (batch, m, d_embed)
        context = memory.context[:, None].expand(-1, tokens.shape[1], -1)  # (batch, m, hidden)
        if self.context_every_step:
            inputs = torch.cat([inputs, context], dim=-1)
        outputs, last = run_from(self.decoder, inputs, state)
        if self.context_every_step:
            outputs = torch.cat([outputs, context], dim=-1)
        return self.output(self.dropout(outputs)), last

    def step(
        self,
        token: Tensor,
        state: tuple[Tensor, ...],
        memory: Summary,
        *,
        need_weights: bool = False,
    ) -> Step:
        """Read one token ``(batch,)`` and score the next."""
        check_token(token, len(memory.context))
        logits, state = self._run(token[:, None], state, memory)
        return Step(logits[:, 0], state, None)

    def forward(self, source: Tensor, lengths: Tensor, target_in: Tensor) -> Decoded:
        """Score a target under teacher forcing; row t has read ``target_in[:, :t + 1]``."""
        memory = self.encode(source, lengths)
        check_target(target_in, source.shape[0], self.target_size)
        logits, _ = self._run(target_in, self.start(memory), memory)
        return Decoded(logits, None)
