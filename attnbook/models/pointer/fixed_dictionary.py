"""The baseline of a pointer network: answers from a fixed dictionary of positions."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from ...mechanisms import attend
from ...validate import check_integer, require
from .network import PointerNetwork

__all__ = ["FixedDictionary"]


class DictionaryMemory(NamedTuple):
    """The encoded inputs."""

    # what the decoder reads: the embedded names of the positions, and the start, (batch, n + 1,
    # d_embed)
    inputs: Tensor
    keys: Tensor | None  # W_1 e_j, projected once, (batch, n, hidden)
    mask: Tensor  # True where the answer may point at all, (batch, n + 1)
    state: tuple[Tensor, Tensor]
    states: Tensor  # e, (batch, n, hidden)


class FixedDictionary(PointerNetwork):
    """LSTM encoder and decoder that name positions by words, "0" … "most − 1" (and END).

    ``d_i = LSTM(name_{C_{i−1}}, d_{i−1})``; ``p(C_i | C_1 … C_{i−1}, x) = softmax(W_o d_i + b)``,
    or, with ``attention``, ``softmax(W_o [d_i ; d'_i] + b)`` with ``d'_i = Σ_j a_ij e_j``,
    ``a_i = softmax_j(v·tanh(W_1 e_j + W_2 d_i))``.

    The output layer has ``most + 1`` rows, however many inputs there are: no row stands for a
    position beyond ``most − 1``. For fewer inputs the rows of the positions that do not exist are
    left out.

    Args:
        d_input, hidden_size, ends, repeats, d_embed: as for :class:`attnbook.PointerNetwork`.
        most: how many positions have a name.
        attention: whether the decoder looks back at the encoder states.

    Shapes: as for :class:`attnbook.PointerNetwork`.

    Source: Vinyals, Fortunato and Jaitly 2015, sections 2.1 and 2.2, after Sutskever et al. 2014
    and Bahdanau et al. 2015.
    """

    def __init__(
        self,
        d_input: int,
        most: int,
        hidden_size: int = 256,
        *,
        attention: bool,
        ends: bool,
        repeats: bool = False,
        d_embed: int = 64,
    ) -> None:
        super().__init__(d_input, hidden_size, ends=ends, repeats=repeats, d_embed=d_embed)
        self.most, self.end_state = check_integer("most", most), None
        self.names = nn.Embedding(most, d_embed)
        # W_o, b; END in the last row
        self.output = nn.Linear((1 + attention) * hidden_size, most + 1)
        self.score = self.score if attention else None

    def encode(self, inputs: Tensor, lengths: Tensor) -> DictionaryMemory:
        """Read inputs ``(batch, n, d_input)`` of true ``lengths (batch,)``, n at most ``most``."""
        embedded, states, mask, last = self._read(inputs, lengths)
        n = states.shape[1]
        require(
            n <= self.most,
            f"inputs must have at most {self.most} positions, as many as the dictionary names, "
            f"got {n}",
        )
        read = torch.cat([self.names.weight[:n], self.start_input[None]])
        keys = None if self.score is None else self.score.project_keys(states)
        return DictionaryMemory(read.expand(len(states), -1, -1), keys, mask, last, states)

    def _scores(self, states: Tensor, memory: DictionaryMemory) -> Tensor:
        n = memory.states.shape[1]
        if self.score is not None:
            context, _ = attend(
                self.score,
                states,
                memory.states,
                mask=memory.mask[:, None, :n],
                projected_keys=memory.keys,
            )
            states = torch.cat([states, context], dim=-1)
        logits = self.output(states)  # (batch, m, most + 1)
        return torch.cat([logits[..., :n], logits[..., self.most :]], dim=-1)
