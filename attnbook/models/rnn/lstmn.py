"""The long short-term memory-network: an LSTM that keeps every state and attends to them."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from ...decoding.step import Decoded, TokenIds, check_text, check_token_ids
from ...mechanisms import AdditiveScore, attend, padding_mask
from ...mechanisms.attention.masks import masks_by_name
from ...validate import (
    check_integer,
    check_lengths,
    check_mask,
    check_number,
    check_tensor,
    require,
)

__all__ = ["LSTMN", "LSTMNLayer", "Tapes"]


class Tapes(NamedTuple):
    """The tapes of an LSTMN after t steps: one row per step, never changed again."""

    states: Tensor  # hidden and memory tape side by side, [h_i; c_i], (batch, t, 2·hidden)
    keys: Tensor  # W_h h_i, projected when the row was written, (batch, t, d_attention)
    summary: Tensor  # h̃_t, the hidden tape as the last step summed it up, (batch, hidden)


class LSTMNLayer(nn.Module):
    """An LSTM whose state of step t is read from all earlier states by attention ("shallow" LSTMN).

    ``a_ti = v·tanh(W_h h_i + W_x x_t + W_h̃ h̃_{t−1})``, ``s_t = softmax_i(a_t)`` over i = 1 … t−1;
    ``h̃_t = Σ_i s_ti h_i``, ``c̃_t = Σ_i s_ti c_i``, one set of weights for both tapes;
    ``[i; f; o] = σ(W [h̃_t; x_t] + b)``, ``ĉ = tanh(W_c [h̃_t; x_t] + b_c)``;
    ``c_t = f ⊙ c̃_t + i ⊙ ĉ``, ``h_t = o ⊙ tanh(c_t)``.

    The tapes are empty at t = 1: h̃_1 = c̃_1 = 0, as everywhere in this library where there is
    nothing to attend to. The paper leaves that case open. h̃_0 = 0 as well.

    Args:
        input_size: width of x.
        hidden_size: width of h and c.
        d_attention: width of the hidden layer of the score; ``hidden_size`` when not given.

    Source: Cheng, Dong and Lapata 2016, equations 4 to 10; the biases of the gates are ours.
    """

    def __init__(self, input_size: int, hidden_size: int, d_attention: int | None = None) -> None:
        super().__init__()
        self.input_size = check_integer("input_size", input_size)
        self.hidden_size = check_integer("hidden_size", hidden_size)
        d_attention = hidden_size if d_attention is None else d_attention
        check_integer("d_attention", d_attention)
        # The query is [x_t; h̃_{t−1}], so that the query projection is [W_x, W_h̃].
        self.score = AdditiveScore(input_size + hidden_size, hidden_size, d_attention)
        # i, f, o, ĉ: the columns of W that meet x_t, and b
        self.input_gates = nn.Linear(input_size, 4 * hidden_size)
        # the columns that meet h̃_t
        self.context_gates = nn.Linear(hidden_size, 4 * hidden_size, bias=False)

    def start(self, batch: int) -> Tapes:
        """Empty tapes for ``batch`` sequences."""
        width = self.context_gates.weight.new_zeros
        return Tapes(
            width(batch, 0, 2 * self.hidden_size),
            width(batch, 0, self.score.vector.in_features),
            width(batch, self.hidden_size),
        )

    @masks_by_name("key_mask", mask="key_mask")
    def step(
        self, x: Tensor, tapes: Tapes, *, key_mask: Tensor | None = None
    ) -> tuple[Tapes, Tensor]:
        """Read one input ``(batch, input_size)`` and write one row.

        Args:
            key_mask: boolean, broadcastable to ``(batch, t − 1)``; True = may attend to that row.

        Returns:
            The longer tapes, and the weights over the rows before, ``(batch, t − 1)``.
        """
        axes = "(batch, rows of the tapes)"
        check_mask(key_mask, tapes.keys.shape[:2], name="key_mask", axes=axes)
        return self._advance(
            x, self.input_gates(x), tapes, None if key_mask is None else torch.atleast_1d(key_mask)
        )

    def _advance(self, x, gates, tapes, mask):
        d = self.hidden_size
        if tapes.states.shape[1]:
            # (batch, 1, input + hidden)
            query = torch.cat([x, tapes.summary.to(x.dtype)], dim=-1)[:, None]
            read, weights = attend(
                self.score,
                query,
                tapes.states[..., :d],
                tapes.states,
                projected_keys=tapes.keys,
                mask=None if mask is None else mask.unsqueeze(-2),
            )
            assert weights is not None
            # [h̃_t; c̃_t], (batch, 2·hidden); s_t, (batch, t − 1)
            read, weights = read[:, 0], weights[:, 0]
        else:
            read, weights = x.new_zeros(len(x), 2 * d), x.new_zeros(len(x), 0)
        summary, memory = read[:, :d], read[:, d:]
        gates = gates + self.context_gates(summary)  # (batch, 4·hidden)
        i, f, o = gates[:, : 3 * d].sigmoid().chunk(3, dim=-1)
        c = f * memory + i * gates[:, 3 * d :].tanh()
        h = o * c.tanh()
        states = torch.cat([tapes.states, torch.cat([h, c], dim=-1)[:, None]], dim=1)
        keys = torch.cat([tapes.keys, self.score.project_keys(h)[:, None]], dim=1)
        return Tapes(states, keys, summary), weights

    def forward(self, inputs: Tensor, lengths: Tensor | None = None, *, need_weights: bool = False):
        """Read sequences ``(batch, n, input_size)`` of ``lengths (batch,)``; n when not given.

        Returns:
            The hidden tape ``(batch, n, hidden)``, zeros at the padding, and the weights
            ``(batch, n, n)`` or None: row t holds s_t, exactly 0 from column t on and at padding.
        """
        check_tensor("inputs", inputs, width=self.input_size)
        require(
            inputs.dim() == 3 and inputs.shape[1] >= 1,
            f"inputs must be (batch, n, {self.input_size}) with n ≥ 1, got shape "
            f"{tuple(inputs.shape)}",
        )
        batch, n, _ = inputs.shape
        if lengths is not None:
            lengths = check_lengths(lengths, batch, "inputs").to(inputs.device)
        real = None if lengths is None else padding_mask(lengths, n)  # (batch, n)
        if real is not None:
            inputs = inputs.where(real[..., None], 0.0)
        gates = self.input_gates(inputs)  # one product for all steps: (batch, n, 4·hidden)
        tapes, rows = self.start(batch), []
        for t in range(n):
            tapes, weights = self._advance(
                inputs[:, t], gates[:, t], tapes, None if real is None else real[:, t, None]
            )
            rows.append(nn.functional.pad(weights, (0, n - t)) if need_weights else None)
        hidden = tapes.states[..., : self.hidden_size]
        if real is not None:
            hidden = hidden.masked_fill(~real[..., None], 0.0)
        return hidden, torch.stack(rows, dim=1) if need_weights else None


class LSTMN(nn.Module):
    """A language model, each word read with attention to all before: ``p(w_{t+1} | w_1 … w_t)``.

    ``x_t = E w_t``, ``h = LSTMNLayer(x)``, ``p(w_{t+1} | w_{≤t}) = softmax(W_o h_t + b_o)``

    Args:
        vocabulary_size, d_embed, dropout, token_ids: as in :class:`attnbook.LSTMLanguageModel`.
        hidden_size: width of the hidden and of the memory tape.
        d_attention: width of the hidden layer of the score; ``hidden_size`` when not given.

    Shapes: tokens ``(batch, n)``, lengths ``(batch,)`` → logits ``(batch, n, vocabulary_size)``;
    weights ``(batch, n, n)``, row t over the tokens before t, so that the first row is 0. Logits at
    the padding are those of a zero state.

    Source: Cheng, Dong and Lapata 2016, sections 3.2 and 5.1, with one layer.
    """

    def __init__(
        self,
        vocabulary_size: int,
        *,
        d_embed: int = 64,
        hidden_size: int = 128,
        d_attention: int | None = None,
        dropout: float = 0.0,
        token_ids: TokenIds | None = None,
    ) -> None:
        super().__init__()
        self.vocabulary_size = check_integer("vocabulary_size", vocabulary_size)
        self.token_ids = check_token_ids(token_ids, vocabulary_size)
        self.embedding = nn.Embedding(
            vocabulary_size, check_integer("d_embed", d_embed), padding_idx=self.token_ids.padding
        )
        self.layer = LSTMNLayer(d_embed, hidden_size, d_attention)
        self.output = nn.Linear(hidden_size, vocabulary_size)  # W_o, b_o
        self.dropout = nn.Dropout(check_number("dropout", dropout, least=0, below=1))

    def start(self, batch: int) -> Tapes:
        """Empty tapes for ``batch`` texts."""
        return self.layer.start(batch)

    def step(self, token: Tensor, tapes: Tapes) -> tuple[Tensor, Tapes, Tensor]:
        """Read one token ``(batch,)``: logits ``(batch, vocabulary)``, the tapes, the weights."""
        tapes, weights = self.layer.step(self.dropout(self.embedding(token)), tapes)
        hidden = tapes.states[:, -1, : self.layer.hidden_size]
        return self.output(self.dropout(hidden)), tapes, weights

    def forward(
        self, tokens: Tensor, lengths: Tensor | None = None, *, need_weights: bool = False
    ) -> Decoded:
        """Score the word after each token."""
        check_text(tokens, lengths, self.vocabulary_size)
        embedded = self.dropout(self.embedding(tokens))  # (batch, n, d_embed)
        hidden, weights = self.layer(embedded, lengths, need_weights=need_weights)
        return Decoded(self.output(self.dropout(hidden)), weights)
