"""Pointer network: answers are positions of the input, so the dictionary is as long as it."""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ...decoding.step import Decoded, Step
from ...mechanisms import AdditiveScore, masked_softmax, padding_mask
from ...validate import check_integer, check_lengths, check_tensor, describe, is_readable, require
from ..rnn.common import make_recurrent, run_packed

__all__ = ["Answers", "PointerMemory", "PointerNetwork"]


class PointerMemory(NamedTuple):
    """The encoded inputs.

    Column n stands after the positions 0 … n − 1.
    """

    # what the decoder reads: the embedded inputs, and in column n the start, (batch, n + 1,
    # d_embed)
    inputs: Tensor
    # W_1 e_j, projected once, with the end in column n if there is one, (batch, n or n + 1,
    # d_attention)
    keys: Tensor
    mask: Tensor  # True where the answer may point at all, (batch, n + 1)
    state: tuple[Tensor, Tensor]  # last h and c of the encoder, (batch, hidden) each


class Answers(NamedTuple):
    """Where k answers of each row stand, side by side."""

    hidden: Tensor  # d_i, (batch, k, hidden)
    cell: Tensor  # (batch, k, hidden)
    used: Tensor  # True where the answer has pointed already, (batch, k, n + 1)


class PointerNetwork(nn.Module):
    """Encoder and decoder whose attention weights are the answer: a distribution over the inputs.

    ``e_1 … e_n = LSTM(E x_1 … E x_n)``; ``d_i = LSTM(E x_{C_{i−1}}, d_{i−1})``, d_0 the encoder's
    last state and the first input learned; ``u_ij = v·tanh(W_1 e_j + W_2 d_i)``,
    ``p(C_i = j | C_1 … C_{i−1}, x) = softmax_j(u_i)``.

    Positions of padding and, unless ``repeats``, those pointed at before are −∞ in the softmax.

    Args:
        d_input: width of an input, 2 for a point of the plane.
        hidden_size: width of a state of encoder and decoder.
        ends: whether the answer says itself when it ends. Then a learned state e_END is one more
            thing to point at, in column n, after the last position of the padded batch. Else an
            answer has as many positions as its row.
        repeats: whether an answer may point at a position twice.
        d_embed: width of the learned linear map E; the paper feeds x itself, which learns slower.
        d_attention: width of the hidden layer of the pointer; ``hidden_size`` when not given.

    Shapes: inputs ``(batch, n, d_input)``, zeros as padding; lengths ``(batch,)``; targets
    ``(batch, m)``, positions 0 … length − 1 of the row's own inputs, n for END, −1 as padding →
    logits and weights ``(batch, m, n + 1)``. The last column is END, −∞ when not ``ends``. Where
    nothing is left to point at, after the last position of an answer without END, logits are not
    masked and weights are 0.

    Source: Vinyals, Fortunato and Jaitly 2015, equation 3; e_END, E and masking used ones are ours.
    """

    def __init__(
        self,
        d_input: int,
        hidden_size: int = 256,
        *,
        ends: bool,
        repeats: bool = False,
        d_embed: int = 64,
        d_attention: int | None = None,
    ) -> None:
        super().__init__()
        self.d_input = check_integer("d_input", d_input)
        self.hidden_size = check_integer("hidden_size", hidden_size)
        self.ends, self.repeats = ends, repeats
        self.embedding = nn.Linear(d_input, check_integer("d_embed", d_embed))  # E
        self.start_input = nn.Parameter(torch.empty(d_embed).uniform_(-1, 1) / math.sqrt(d_embed))
        self.encoder = make_recurrent("lstm", d_embed, hidden_size)
        self.decoder = make_recurrent("lstm", d_embed, hidden_size)
        d_attention = hidden_size if d_attention is None else d_attention
        check_integer("d_attention", d_attention)
        # v, W_2 of queries, W_1 of keys
        self.score = AdditiveScore(hidden_size, hidden_size, d_attention)
        self.end_state = (
            nn.Parameter(torch.empty(hidden_size).uniform_(-1, 1) / math.sqrt(hidden_size))
            if ends
            else None
        )

    def encode(self, inputs: Tensor, lengths: Tensor) -> PointerMemory:
        """Read inputs ``(batch, n, d_input)`` of true ``lengths (batch,)``."""
        embedded, states, mask, last = self._read(inputs, lengths)
        read = torch.cat([embedded, self.start_input.expand(len(embedded), 1, -1)], dim=1)
        if self.end_state is not None:
            # (batch, n + 1, hidden)
            states = torch.cat([states, self.end_state.expand(len(states), 1, -1)], dim=1)
        return PointerMemory(read, self.score.project_keys(states), mask, last)

    def _read(self, inputs: Tensor, lengths: Tensor):
        """E x, e (batch, n, hidden), where an answer may point (batch, n + 1), last (h, c)."""
        self._check_inputs(inputs, lengths)
        batch, n, _ = inputs.shape
        lengths = lengths.cpu()  # a GPU is waited for once
        there = padding_mask(lengths.to(inputs.device), n)
        embedded = self.embedding(inputs.where(there[..., None], 0.0))  # (batch, n, d_embed)
        if not torch.compiler.is_compiling() and int(lengths.min()) == n:
            states, (h, c) = self.encoder(embedded)
            last = h[0], c[0]
        else:
            states, last = run_packed(self.encoder, embedded, lengths)  # (batch, n, hidden)
            last = last[0][:, 0], last[1][:, 0]
        mask = nn.functional.pad(there, (0, 1), value=self.ends)
        return embedded, states, mask, last

    def start(self, memory: PointerMemory, answers: int = 1) -> Answers:
        """``answers`` equal beginnings a row: the encoder's last state, no position used."""
        h, c = (part[:, None].expand(-1, answers, -1) for part in memory.state)
        return Answers(h, c, torch.zeros_like(memory.mask)[:, None].expand(-1, answers, -1))

    def _scores(self, states: Tensor, memory: PointerMemory) -> Tensor:
        logits = self.score.compare(states, memory.keys)  # u, (batch, m, n or n + 1)
        return logits if self.ends else nn.functional.pad(logits, (0, 1))

    def _point(self, states: Tensor, memory: PointerMemory, used: Tensor):
        """Logits, masked, and the mask, both (batch, m, n + 1), of states (batch, m, hidden)."""
        logits = self._scores(states, memory)
        mask = memory.mask[:, None] if self.repeats else memory.mask[:, None] & ~used
        # A row of nothing but −∞ has no softmax. It stands after an answer that is complete, and
        # no loss looks at it.
        logits = logits.masked_fill(~mask & mask.any(-1, keepdim=True), -math.inf)
        return logits, mask.expand(logits.shape)

    def step(self, pointed: Tensor, state: Answers, memory: PointerMemory) -> Step:
        """Read what k answers a row pointed at last, ``(batch, k)``, and score where they go next.

        Args:
            pointed: positions, or −1 at the start; an answer that has ended (n) gives nothing that
                means anything.

        Returns:
            Logits ``(batch, k, n + 1)``, the next state, the weights ``(batch, k, n + 1)``.
        """
        batch, k = pointed.shape
        n = memory.mask.shape[1] - 1
        column = torch.where(pointed < 0, n, pointed)
        read = _rows(memory.inputs, column).flatten(0, 1)[:, None]  # (batch · k, 1, d_embed)
        # PyTorch wants layers first
        before = tuple(part.flatten(0, 1)[None].contiguous() for part in state[:2])
        out, (h, c) = self.decoder(read, before)
        used = state.used.scatter(2, column[..., None], (column < n)[..., None])
        logits, mask = self._point(out.view(batch, k, -1), memory, used)
        answers = Answers(h.view(batch, k, -1), c.view(batch, k, -1), used)
        return Step(logits, answers, masked_softmax(logits, mask=mask))

    def forward(
        self, inputs: Tensor, lengths: Tensor, targets: Tensor, *, need_weights: bool = False
    ) -> Decoded:
        """Score an answer under teacher forcing: one call of decoder and pointer for all steps."""
        memory = self.encode(inputs, lengths)
        self._check_targets(targets, inputs, lengths)
        batch, m = targets.shape
        n = inputs.shape[1]
        column = torch.where(targets < 0, n, targets)  # (batch, m); padding counts as END
        # the start, then what was pointed at
        before = torch.cat([column.new_full((batch, 1), n), column[:, :-1]], dim=1)
        states, _ = self.decoder(
            _rows(memory.inputs, before), tuple(part[None] for part in memory.state)
        )
        steps = torch.arange(m, device=targets.device)
        # The step at which each column is pointed at; m for never, and for END, which is never used
        # up.
        when = column.new_full((batch, n + 1), m).scatter(1, column, steps.expand(batch, m))
        when[:, n] = m
        logits, mask = self._point(states, memory, when[:, None] < steps[:, None])
        return Decoded(logits, masked_softmax(logits, mask=mask) if need_weights else None)

    def _check_inputs(self, inputs, lengths) -> None:
        check_tensor("inputs", inputs, width=self.d_input)
        require(
            inputs.dim() == 3 and inputs.shape[1] >= 1,
            f"inputs must be (batch, n, {self.d_input}) with n ≥ 1, got shape "
            f"{tuple(inputs.shape)}",
        )
        require(len(inputs) >= 1, f"inputs must have a row, got shape {tuple(inputs.shape)}")
        check_lengths(lengths, inputs.shape[0], "inputs", 1, inputs.shape[1])

    def _check_targets(self, targets, inputs, lengths) -> None:
        batch, n, _ = inputs.shape
        require(
            isinstance(targets, Tensor)
            and targets.dim() == 2
            and targets.dtype == torch.long
            and len(targets) == batch
            and targets.shape[1] >= 1,
            f"targets must be positions ({batch}, m) of dtype int64 with m ≥ 1, got "
            f"{describe(targets)}",
        )
        # reading the values would synchronise with a GPU at every batch
        if not is_readable(targets):
            return
        inside = (targets >= -1) & (
            (targets < lengths.cpu()[:, None]) | (targets == n if self.ends else False)
        )
        require(
            bool(inside.all()),
            "targets must hold positions below the length of their row, "
            + (f"END = {n}" if self.ends else "no END")
            + f" and −1 as padding, got {targets[~inside].unique().tolist()}",
        )
        over = (targets < 0) | (targets == n)
        after_end = over[:, :-1] & (targets[:, 1:] >= 0)
        require(
            not bool(after_end.any()),
            "targets must hold nothing but −1 after END or padding, "
            f"got {targets[after_end.any(1)][:1].tolist()}",
        )
        if not self.repeats:
            counts = torch.zeros(batch, n + 2, dtype=torch.long, device=targets.device)
            counts.scatter_add_(1, targets + 1, torch.ones_like(targets))
            require(
                int(counts[:, 1 : n + 1].max()) <= 1,
                "targets must not hold a position twice: make the network with repeats=True for "
                "such answers",
            )


def _rows(table: Tensor, index: Tensor) -> Tensor:
    """``table[b, index[b, i]]``: (batch, n, d), (batch, m) → (batch, m, d)."""
    return table.gather(1, index[..., None].expand(-1, -1, table.shape[-1]))
