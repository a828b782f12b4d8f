"""Bahdanau's model: the decoder attends to every source position and learns the alignment."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from ...decoding.step import Decoded, Step, TokenIds, check_source, check_target, check_token
from ...mechanisms import attend, make_score, padding_mask
from ...validate import check_integer
from .common import Translator, as_tuple, make_cell, make_recurrent, of_unit, run_packed

__all__ = ["Annotations", "Bahdanau"]


class Annotations(NamedTuple):
    """An encoded source: one annotation per position."""

    annotations: Tensor  # h, (batch, n, 2·hidden)
    projected: Tensor  # W_h h, computed once per source, (batch, n, d_attention)
    mask: Tensor  # True where there is a token, (batch, 1, n)


class Bahdanau(Translator):
    """Encoder-decoder with additive attention over a bidirectional encoder ("RNNsearch").

    ``h_i = [h→_i ; h←_i]``, ``s_0 = tanh(W_0 h←_1)``;
    ``α_ti = softmax_i(v·tanh(W_s s_{t−1} + W_h h_i))``, ``c_t = Σ_i α_ti h_i``,
    ``s_t = f([E y_{t−1}; c_t], s_{t−1})``;
    ``p(y_t | y_{<t}, x) = softmax(W_o max-pairs(U s_t + V E y_{t−1} + C c_t))``.

    Args:
        source_size, target_size, d_embed, token_ids: as in :class:`attnbook.Seq2Seq`.
        hidden_size: width of a decoder state and of each direction of the encoder.
        d_attention: hidden width of the alignment model; ``hidden_size`` when not given.
        unit: ``"gru"`` as in the paper, ``"lstm"`` or ``"tanh"``.
        score: a name in :data:`attnbook.SCORES` that takes queries and keys of two widths.
        dropout: on embeddings and before the output (the paper has none).

    Shapes: source ``(batch, n)``, lengths ``(batch,)``, target_in ``(batch, m)`` → logits
    ``(batch, m, target_size)``, weights ``(batch, m, n)``; padding has weight exactly 0.

    Source: Bahdanau, Cho and Bengio 2015, sections 3.1 and 3.2, appendix A.
    """

    def __init__(
        self,
        source_size: int,
        target_size: int,
        *,
        d_embed: int = 64,
        hidden_size: int = 128,
        d_attention: int | None = None,
        unit: str = "gru",
        score: str = "additive",
        dropout: float = 0.0,
        token_ids: TokenIds | None = None,
    ) -> None:
        super().__init__(source_size, target_size, d_embed, dropout, token_ids)
        self.encoder = make_recurrent(unit, d_embed, hidden_size, bidirectional=True)
        self.bridge = nn.Linear(hidden_size, hidden_size)  # W_0
        d_attention = hidden_size if d_attention is None else d_attention
        check_integer("d_attention", d_attention)
        self.score = make_score(score, hidden_size, 2 * hidden_size, d_hidden=d_attention)
        self.cell = make_cell(unit, d_embed + 2 * hidden_size, hidden_size)
        self.readout = _Maxout(3 * hidden_size + d_embed, hidden_size, target_size)

    def encode(self, source: Tensor, lengths: Tensor) -> Annotations:
        """Annotate sources ``(batch, n)`` of true ``lengths (batch,)``."""
        check_source(source, lengths, self.source_size)
        embedded = self.dropout(self.source_embedding(source))  # (batch, n, d_embed)
        annotations, _ = run_packed(self.encoder, embedded, lengths)  # (batch, n, 2·hidden)
        mask = padding_mask(lengths.to(source.device), source.shape[1])[:, None]  # (batch, 1, n)
        return Annotations(annotations, self.score.project_keys(annotations), mask)

    def start(self, memory: Annotations) -> tuple[Tensor, ...]:
        """``s_0 = tanh(W_0 h←_1)``: the backward reader has seen the whole source by then."""
        backward = memory.annotations[:, 0, self.cell.hidden_size :]  # (batch, hidden)
        s = self.bridge(backward).tanh()
        return (s, torch.zeros_like(s)) if isinstance(self.cell, nn.LSTMCell) else (s,)

    def _advance(
        self, embedded: Tensor, state: tuple[Tensor, ...], memory: Annotations, need_weights: bool
    ):
        """One step: attend with s_{t−1}, then compute s_t.

        Returns state, context and weights without the query axis.
        """
        query = state[0][:, None]  # (batch, 1, hidden)
        context, weights = attend(
            self.score,
            query,
            memory.annotations,
            mask=memory.mask,
            need_weights=need_weights,
            projected_keys=memory.projected,
        )
        context = context[:, 0]  # (batch, 2·hidden)
        moved = self.cell(torch.cat([embedded, context], dim=-1), of_unit(state))
        return as_tuple(moved), context, None if weights is None else weights[:, 0]

    def step(
        self,
        token: Tensor,
        state: tuple[Tensor, ...],
        memory: Annotations,
        *,
        need_weights: bool = False,
    ) -> Step:
        """Read one token ``(batch,)``, attend to the source, score the next token."""
        check_token(token, len(memory.annotations))
        embedded = self.dropout(self.target_embedding(token))  # (batch, d_embed)
        state, context, weights = self._advance(embedded, state, memory, need_weights)
        logits = self.readout(self.dropout(torch.cat([state[0], embedded, context], dim=-1)))
        return Step(logits, state, weights)

    def forward(
        self, source: Tensor, lengths: Tensor, target_in: Tensor, *, need_weights: bool = False
    ) -> Decoded:
        """Score a target under teacher forcing.

        The loop holds only what depends on the state before it.
        """
        memory = self.encode(source, lengths)
        check_target(target_in, source.shape[0], self.target_size)
        embedded = self.dropout(self.target_embedding(target_in))  # (batch, m, d_embed)
        state, states, contexts, weights = self.start(memory), [], [], []
        for e in embedded.unbind(1):
            state, context, w = self._advance(e, state, memory, need_weights)
            states.append(state[0])
            contexts.append(context)
            weights.append(w)
        seen = torch.cat([torch.stack(states, 1), embedded, torch.stack(contexts, 1)], dim=-1)
        # one product for all steps: (batch, m, target_size)
        logits = self.readout(self.dropout(seen))
        return Decoded(logits, torch.stack(weights, 1) if need_weights else None)


class _Maxout(nn.Module):
    """``max`` over pairs of neighbouring units, then a linear layer.

    The paper's appendix computes it from s_{t−1}; its equation 4, g(y_{t−1}, s_t, c_t), from s_t.
    This is equation 4."""

    def __init__(self, d_in: int, d_out: int, target_size: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(d_in, 2 * d_out)  # [U V C]
        self.output = nn.Linear(d_out, target_size)  # W_o

    def forward(self, seen: Tensor) -> Tensor:
        return self.output(self.hidden(seen).unflatten(-1, (-1, 2)).amax(-1))
