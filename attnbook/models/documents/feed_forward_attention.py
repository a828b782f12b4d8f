"""Feed-forward attention: positions weigh themselves, and a sequence becomes one vector."""

import math
from typing import NamedTuple

from torch import Tensor, nn
from torch.nn import functional as F

from ...mechanisms import DotScore, attend, padding_mask
from ...validate import check_choice, check_integer, check_lengths, check_tensor, require

__all__ = ["FeedForwardAttention", "Regressed"]


class Regressed(NamedTuple):
    """One number a sequence, ``output (batch,)``, and the pooling's ``weights (batch, n)``."""

    output: Tensor
    weights: Tensor


class FeedForwardAttention(nn.Module):
    """Attention without recurrence: one number from a sequence of any length.

    ``h_t = φ(W_xh x_t + b_xh)``, ``e_t = tanh(w_hc·h_t + b_hc)``, ``α = softmax(e)``,
    ``c = Σ_t α_t h_t``, ``s = φ(W_cs c + b_cs)``, ``y = φ(w_sy·s + b_sy)`` with the leaky ramp φ(z)
    = max(z, 0.01 z).

    No step depends on another one, so all are computed at once, and their order leaves no trace.
    The score sees the step alone: for :func:`attnbook.attend` the key of a step is the number e_t
    and the one query is the number 1.

    Args:
        d_input: width of x_t.
        hidden_size: D, width of h_t and of s.
        pooling: ``"attention"``, or ``"mean"``: the same weight for each real position, as if all
            scores were equal (the query is 0; w_hc and b_hc then learn nothing).

    Shapes: inputs ``(batch, n, d_input)``, lengths ``(batch,)`` → output ``(batch,)``, weights
    ``(batch, n)``. Padding has weight exactly 0. Matrices start from a normal distribution of
    variance 2 / fan-in (w_hc: 1 / fan-in), biases from 0; b_sy from 0.5, so that the ramp at the
    end begins on its steep side.

    Source: Raffel and Ellis 2015, equations 1 to 3 and section 2; the start values are those of the
    authors' code but for b_sy, which is ours.
    """

    def __init__(
        self, d_input: int = 2, hidden_size: int = 100, *, pooling: str = "attention"
    ) -> None:
        super().__init__()
        self.pooling = check_choice("pooling", pooling, ("attention", "mean"))
        check_integer("hidden_size", hidden_size)
        self.embed = nn.Linear(check_integer("d_input", d_input), hidden_size)  # W_xh
        self.attention = nn.Linear(hidden_size, 1)  # w_hc
        self.hidden = nn.Linear(hidden_size, hidden_size)  # W_cs
        self.readout = nn.Linear(hidden_size, 1)  # w_sy
        self.score = DotScore()
        for layer in (self.embed, self.attention, self.hidden, self.readout):
            gain = 1.0 if layer is self.attention else 2.0
            nn.init.normal_(layer.weight, std=math.sqrt(gain / layer.in_features))
            nn.init.constant_(layer.bias, 0.5 if layer is self.readout else 0.0)

    def forward(self, inputs: Tensor, lengths: Tensor) -> Regressed:
        """Read one number from each sequence ``(batch, n, d_input)`` of ``lengths (batch,)``."""
        check_tensor("inputs", inputs, width=self.embed.in_features)
        require(
            inputs.dim() == 3 and len(inputs) >= 1,
            f"inputs must be (batch, n, {self.embed.in_features}) with batch ≥ 1, got shape "
            f"{tuple(inputs.shape)}",
        )
        check_lengths(lengths, inputs.shape[0], "inputs", 1, inputs.shape[1])
        mask = padding_mask(lengths.to(inputs.device), inputs.shape[1])[:, None]  # (batch, 1, n)
        inputs = inputs.where(mask.mT, 0.0)
        h = F.leaky_relu_(self.embed(inputs))  # (batch, n, D); in place: the largest tensor here
        key = self.attention(h).tanh()  # e_t: (batch, n, 1)
        query = key.new_full((1, 1), 1.0 if self.pooling == "attention" else 0.0)
        # (batch, 1, D), (batch, 1, n)
        context, weights = attend(self.score, query, key, h, mask=mask)
        assert weights is not None
        s = F.leaky_relu(self.hidden(context[:, 0]))  # (batch, D)
        return Regressed(F.leaky_relu(self.readout(s))[:, 0], weights[:, 0])
