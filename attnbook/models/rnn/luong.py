"""Luong's model: a new state first, which then attends to the whole source or to a window."""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...decoding.step import Decoded, Step, TokenIds, check_source, check_target, check_token
from ...mechanisms import (
    Attended,
    PredictedPosition,
    WindowedSource,
    attend,
    make_score,
    monotonic_position,
    padding_mask,
)
from ...validate import check_choice, check_integer, require
from .common import Translator, as_tuple, make_recurrent, of_unit, run_from, run_packed

__all__ = ["ATTENTIONS", "DecoderState", "Luong", "Source"]

ATTENTIONS = ("global", "local-m", "local-p")
"""What a step reads: the whole source, a window that moves with t, or one that is predicted."""

_CELLS = {"LSTM": torch.lstm_cell, "GRU": torch.gru_cell, "RNN": torch.rnn_tanh_cell}


class Source(NamedTuple):
    """An encoded source."""

    states: Tensor  # h̄, top layer, (batch, n, hidden)
    projected: Tensor  # what the score makes of h̄, once per source, (batch, n, width)
    mask: Tensor  # True where there is a token, (batch, 1, n)
    lengths: Tensor  # S, (batch,)
    # the encoder's last state: (h,) or (h, c), each (batch, layers, hidden)
    last: tuple[Tensor, ...]


class DecoderState(NamedTuple):
    """The state of a decoder: recurrent state, what is fed in next, the target position."""

    recurrent: tuple[Tensor, ...]  # (h,) or (h, c), each (batch, layers, hidden)
    fed: Tensor | None  # h̃ of the step before, (batch, hidden); None without input feeding
    t: Tensor  # (batch,), from 0


class Luong(Translator):
    """Encoder-decoder with global or local attention.

    ``s_t = f([E y_{t−1}; h̃_{t−1}], s_{t−1})`` with input feeding, ``f(E y_{t−1}, s_{t−1})``
    without; ``α_t`` from ``score(s_t, h̄_i)``, ``c_t = Σ_i α_ti h̄_i``,
    ``h̃_t = tanh(W_c [c_t; s_t])``; ``p(y_t | y_{<t}, x) = softmax(W_o h̃_t)``

    The query is s_t, the state that has read y_{t−1}, not s_{t−1} as in :class:`Bahdanau`: so
    without input feeding no state waits for a context, and a target that is given is one call of
    the recurrent network and one attention.

    Args:
        source_size, target_size, d_embed, token_ids: as in :class:`attnbook.Seq2Seq`.
        hidden_size: width of the states of encoder and decoder, and of h̃.
        num_layers: layers of encoder and decoder (4 in the paper).
        unit: ``"lstm"`` as in the paper, ``"gru"`` or ``"tanh"``.
        attention: ``"global"``, ``"local-m"`` (window around p_t = t) or ``"local-p"`` (window
            around p_t = S · sigmoid(v·tanh(W s_t)), with a Gaussian of σ = D / 2).
        score: a name in :data:`attnbook.SCORES`; ``"additive"`` is what the paper calls concat.
        half_width: D, the window has 2D + 1 positions (D = 10 in the paper).
        max_source: longest source of ``"location"``.
        input_feeding: whether a step reads h̃ of the step before; at the first, zeros (our choice).
        dropout: on embeddings, between layers, and before the output.

    Shapes: source ``(batch, n)``, lengths ``(batch,)``, target_in ``(batch, m)`` → logits
    ``(batch, m, target_size)``, weights ``(batch, m, n)``; padding has weight exactly 0. What the
    windows do where the paper leaves a choice, say :func:`attnbook.mechanisms.attend_window` and
    :func:`attnbook.mechanisms.monotonic_position`.

    Source: Luong, Pham and Manning 2015, section 3. The paper has no bias in W_c, nor has this.
    """

    def __init__(
        self,
        source_size: int,
        target_size: int,
        *,
        d_embed: int = 64,
        hidden_size: int = 128,
        num_layers: int = 1,
        unit: str = "lstm",
        attention: str = "global",
        score: str = "general",
        half_width: int = 10,
        max_source: int = 100,
        input_feeding: bool = False,
        dropout: float = 0.0,
        token_ids: TokenIds | None = None,
    ) -> None:
        super().__init__(source_size, target_size, d_embed, dropout, token_ids)
        check_choice("attention", attention, ATTENTIONS)
        self.attention, self.half_width = attention, check_integer("half_width", half_width)
        self.input_feeding = input_feeding
        d_fed = hidden_size if input_feeding else 0
        self.encoder, self.decoder = (
            make_recurrent(unit, width, hidden_size, num_layers=num_layers, dropout=dropout)
            for width in (d_embed, d_embed + d_fed)
        )
        self.score = make_score(
            score, hidden_size, hidden_size, max_length=check_integer("max_source", max_source)
        )
        self.position = PredictedPosition(hidden_size) if attention == "local-p" else None
        self.combine = nn.Linear(2 * hidden_size, hidden_size, bias=False)  # W_c
        self.output = nn.Linear(hidden_size, target_size)  # W_o

    def encode(self, source: Tensor, lengths: Tensor) -> Source:
        """Read sources ``(batch, n)`` of true ``lengths (batch,)``."""
        check_source(source, lengths, self.source_size)
        embedded = self.dropout(self.source_embedding(source))  # (batch, n, d_embed)
        states, last = run_packed(self.encoder, embedded, lengths)  # (batch, n, hidden)
        lengths = lengths.to(source.device)
        mask = padding_mask(lengths, source.shape[1])[:, None]
        return Source(states, self.score.project_keys(states), mask, lengths, last)

    def start(self, memory: Source) -> DecoderState:
        """The encoder's last state, nothing fed in yet, target position 0."""
        h = memory.last[0]
        fed = h.new_zeros(h.shape[0], h.shape[-1]) if self.input_feeding else None
        return DecoderState(memory.last, fed, torch.zeros_like(memory.lengths))

    def attend(
        self,
        states: Tensor,
        memory: Source,
        t: Tensor,
        *,
        need_weights: bool = True,
        windows: WindowedSource | None = None,
    ) -> Attended:
        """Attend with states ``(batch, m, hidden)`` of positions t ``(m,)`` or ``(batch, m)``."""
        windows = self.windows(memory) if windows is None else windows
        if windows is None:
            return attend(
                self.score,
                states,
                memory.states,
                mask=memory.mask,
                need_weights=need_weights,
                projected_keys=memory.projected,
            )
        return windows.attend(
            states,
            self.positions(states, memory, t),
            self.half_width,
            need_weights=need_weights,
            sigma=self.half_width / 2 if self.attention == "local-p" else None,
        )

    def positions(self, states: Tensor, memory: Source, t: Tensor) -> Tensor:
        """Where the windows of :meth:`attend` stand: p_t ``(batch, m)``, from 0."""
        if self.position is not None:
            return self.position(states, memory.lengths)
        require(
            self.attention == "local-m", "global attention has no window, and so no position of it"
        )
        return monotonic_position(t.expand(states.shape[:2]), memory.lengths)

    def windows(self, memory: Source) -> WindowedSource | None:
        """The source as windows are read from it; None for global attention."""
        if self.attention == "global":
            return None
        return WindowedSource(
            self.score, memory.states, mask=memory.mask, projected_keys=memory.projected
        )

    def _attention_vector(self, states: Tensor, context: Tensor) -> Tensor:
        return self.combine(torch.cat([context, states], dim=-1)).tanh()  # h̃: (…, hidden)

    def step(
        self, token: Tensor, state: DecoderState, memory: Source, *, need_weights: bool = False
    ) -> Step:
        """Read one token ``(batch,)``, attend to the source, score the next token."""
        check_token(token, len(memory.states))
        inputs = self.dropout(self.target_embedding(token))[:, None]  # (batch, 1, d_embed)
        if self.input_feeding:
            assert state.fed is not None
            inputs = torch.cat([inputs, state.fed[:, None]], dim=-1)
        s, recurrent = run_from(self.decoder, inputs, state.recurrent)  # (batch, 1, hidden)
        context, weights = self.attend(s, memory, state.t[:, None], need_weights=need_weights)
        vector = self._attention_vector(s, context)[:, 0]  # (batch, hidden)
        moved = DecoderState(recurrent, vector if self.input_feeding else None, state.t + 1)
        weights = None if weights is None else weights[:, 0]
        return Step(self.output(self.dropout(vector)), moved, weights)

    def forward(
        self, source: Tensor, lengths: Tensor, target_in: Tensor, *, need_weights: bool = False
    ) -> Decoded:
        """Score a target under teacher forcing; without input feeding there is no loop over it."""
        memory = self.encode(source, lengths)
        check_target(target_in, source.shape[0], self.target_size)
        embedded = self.dropout(self.target_embedding(target_in))  # (batch, m, d_embed)
        m, start = target_in.shape[1], self.start(memory)
        if self.input_feeding:
            vectors, weights = self._feed(embedded, start, memory, need_weights)
        else:
            states, _ = run_from(self.decoder, embedded, start.recurrent)  # (batch, m, hidden)
            context, weights = self.attend(
                states, memory, torch.arange(m, device=source.device), need_weights=need_weights
            )
            vectors = self._attention_vector(states, context)
        return Decoded(self.output(self.dropout(vectors)), weights if need_weights else None)

    def _feed(self, embedded: Tensor, state: DecoderState, memory: Source, keep: bool):
        """Input feeding under teacher forcing: h̃ of all steps, and the weights where kept.

        The steps call the cells: a call of the module for a single step costs twice as much.
        """
        cell, layers = _CELLS[self.decoder.mode.split("_")[0]], self.decoder.all_weights
        between = self.decoder.dropout if self.training else 0.0
        states = [tuple(part[:, layer] for part in state.recurrent) for layer in range(len(layers))]
        assert state.fed is not None
        fed, windows, vectors, all_weights = state.fed, self.windows(memory), [], []
        steps = torch.arange(embedded.shape[1], device=embedded.device)
        for e, t in zip(embedded.unbind(1), steps[:, None].unbind(0)):
            x = torch.cat([e, fed], dim=-1)
            for layer, weights in enumerate(layers):
                if layer and between:
                    x = F.dropout(x, between)
                states[layer] = as_tuple(cell(x, of_unit(states[layer]), *weights))
                x = states[layer][0]
            context, step_weights = self.attend(
                x[:, None], memory, t, need_weights=keep, windows=windows
            )
            fed = self._attention_vector(x, context[:, 0])
            vectors.append(fed)
            if step_weights is not None:
                all_weights.append(step_weights)
        return torch.stack(vectors, dim=1), torch.cat(all_weights, dim=1) if keep else None
