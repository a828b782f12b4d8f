"""Agents that adapt while they act: a sequence model over the history, an actor and a critic."""

from typing import Any, NamedTuple

from torch import Tensor, nn

from ...validate import check_integer, check_tensor
from ..rnn.common import make_recurrent
from .network import SNAIL, AttentionPart, TCPart

__all__ = ["Choice", "LSTMAgent", "SMALL_PARTS", "SNAILAgent"]

SMALL_PARTS = (TCPart(16), AttentionPart(16, 16), TCPart(16), AttentionPart(16, 16))
"""A small network for one CPU core.

Mishra et al. use TC blocks of 32 filters and attention blocks of (32, 32) here.
"""


class Choice(NamedTuple):
    """``logits (…, num_actions)`` of the policy, ``values (…)``: the return still expected."""

    logits: Tensor
    values: Tensor


class _Heads(nn.Module):
    """Actor and critic on ``(…, d)``: ``logits = W_π h``, ``V = c · w_v h``, c a return's scale."""

    def __init__(self, d: int, num_actions: int, value_scale: float) -> None:
        super().__init__()
        self.actor = nn.Linear(d, check_integer("num_actions", num_actions))
        self.critic = nn.Linear(d, 1)
        self.value_scale = value_scale

    def forward(self, state: Tensor) -> Choice:
        return Choice(self.actor(state), self.value_scale * self.critic(state)[..., 0])


class LSTMAgent(nn.Module):
    """An LSTM that reads last action, last reward and state, and chooses the next action.

    ``h_t = LSTM(x_t, h_{t−1})``,  ``π_t = softmax(W_π h_t)``,  ``V_t = c · w_v h_t``

    What it learns in an episode is in h; the weights do not change.

    Args:
        d_input: width of x.
        num_actions: how many actions there are.
        hidden_size: width of h.
        value_scale: c, about the size of a return.

    Shapes: inputs ``(batch, T, d_input)`` → :class:`Choice` with logits ``(batch, T, num_actions)``
    and values ``(batch, T)``.

    Source: Duan et al. 2016; Wang et al. 2016; the baseline LSTM of Mishra et al. 2018.
    """

    def __init__(
        self, d_input: int, num_actions: int, hidden_size: int = 64, value_scale: float = 1.0
    ) -> None:
        super().__init__()
        self.d_input = check_integer("d_input", d_input)
        self.lstm = make_recurrent("lstm", d_input, hidden_size)
        self.heads = _Heads(hidden_size, num_actions, value_scale)
        # Action and reward have to be seen together, and they meet in the gates alone: with
        # PyTorch's small weights the units stay nearly linear, and the slope of the return is
        # hardly to be seen at the start.
        input_weight, state_weight, *_ = self.lstm.all_weights[0]
        nn.init.normal_(input_weight)
        nn.init.orthogonal_(state_weight)

    def forward(self, inputs: Tensor) -> Choice:
        check_tensor("inputs", inputs, width=self.d_input)
        return self.heads(self.lstm(inputs)[0])

    def start(self, count: int) -> Any:
        """The state before the first step of ``count`` episodes."""
        zeros = self.lstm.all_weights[0][1].new_zeros(1, count, self.lstm.hidden_size)
        return zeros, zeros

    def step(self, input: Tensor, state: Any) -> tuple[Choice, Any]:
        """One step, ``input (batch, d_input)``: ``logits (batch, num_actions)``, next state."""
        output, state = self.lstm(input[:, None], state)
        return self.heads(output[:, 0]), state


class SNAILAgent(nn.Module):
    """A :class:`~attnbook.models.snail.network.SNAIL` over all steps, choosing the next action.

    ``h_{≤t} = max(0, SNAIL(W x_{≤t}))``,  ``π_t = softmax(W_π h_t)``,  ``V_t = c · w_v h_t``

    Acting keeps what each part has computed for the steps before (``past``), so a step costs one
    new position; the training pass reads complete episodes in parallel.

    Args:
        d_input: width of x.
        num_actions: how many actions there are.
        length: T, steps of one episode.
        d_model: width of W x and of h.
        parts: of the SNAIL.
        value_scale: c, about the size of a return.

    Shapes: as :class:`LSTMAgent`.

    Source: Mishra et al. 2018, section 5.2 and appendix C.
    """

    def __init__(
        self,
        d_input: int,
        num_actions: int,
        length: int,
        d_model: int = 32,
        parts=SMALL_PARTS,
        value_scale: float = 1.0,
    ) -> None:
        super().__init__()
        self.d_input = check_integer("d_input", d_input)
        self.embed = nn.Linear(d_input, check_integer("d_model", d_model))
        nn.init.normal_(self.embed.weight)  # large enough for the gates to bend, as in LSTMAgent
        self.body = SNAIL(d_model, d_model, length, parts)
        self.heads = _Heads(d_model, num_actions, value_scale)

    def forward(self, inputs: Tensor) -> Choice:
        return self._read(inputs, None)[0]

    def start(self, count: int) -> Any:
        """The empty past."""
        return None

    def step(self, input: Tensor, state: Any) -> tuple[Choice, Any]:
        """One step, ``input (batch, d_input)``: ``logits (batch, num_actions)``, next state."""
        choice, state = self._read(input[:, None], state)
        return Choice(choice.logits[:, 0], choice.values[:, 0]), state

    def attention(self, inputs: Tensor) -> tuple[Tensor, ...]:
        """Weights ``(batch, T, T)`` of each attention block, row t for the choice of action t."""
        check_tensor("inputs", inputs, width=self.d_input)
        return tuple(
            w for w in self.body(self.embed(inputs), need_weights=True).weights if w is not None
        )

    def _read(self, inputs: Tensor, past: Any) -> tuple[Choice, Any]:
        check_tensor("inputs", inputs, width=self.d_input)
        read = self.body(self.embed(inputs), past)
        return self.heads(read.output.relu()), read.past
