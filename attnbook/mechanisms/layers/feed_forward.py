"""The feed-forward sublayer: the same small network at every position, plain or gated."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...kernels.layers import Dropout, Linear
from ...validate import check_integer, check_number, check_tensor, require

__all__ = ["ACTIVATIONS", "GATES", "FeedForward", "GatedFeedForward"]

Activation = Callable[[Tensor], Tensor]


def _identity(x: Tensor) -> Tensor:
    return x


ACTIVATIONS: dict[str, Activation] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "swish": F.silu,
    "elu": F.elu,
    "selu": F.selu,
    "sigmoid": torch.sigmoid,
    "softplus": F.softplus,
}
"""Activations by the names of Narang et al. 2021; swish(x) = x·sigmoid(x)."""

GATES: dict[str, Activation] = {
    "glu": torch.sigmoid,
    "geglu": F.gelu,
    "reglu": F.relu,
    "swiglu": F.silu,
    "liglu": _identity,
}
"""Activations of a :class:`GatedFeedForward`, named as by Shazeer 2020, Narang et al. 2021."""


class FeedForward(nn.Module):
    """Two linear maps with an activation between them, at every position alike.

    ``FFN(x) = W_2 f(W_1 x + b_1) + b_2``;  the paper has f = relu:
    ``max(0, x W_1 + b_1) W_2 + b_2``.

    Args:
        d_model: width of x and of the result.
        d_hidden: rows of W_1; four times ``d_model`` in the paper.
        activation: f, a name in :data:`ACTIVATIONS` or a function.
        dropout: of the hidden layer, while training; the paper has none there, PyTorch's layer has.

    Shapes: ``(…, d_model)`` → ``(…, d_model)``.

    Source: Vaswani et al. 2017, section 3.3, equation 2.
    """

    def __init__(
        self,
        d_model: int,
        d_hidden: int,
        activation: str | Activation = "relu",
        *,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.d_model = check_integer("d_model", d_model)
        self.activation = _named("activation", activation, ACTIVATIONS)
        self.hidden = Linear(d_model, check_integer("d_hidden", d_hidden))  # W_1, b_1
        self.output = Linear(d_hidden, d_model)  # W_2, b_2
        self.dropout = Dropout(check_number("dropout", dropout, least=0, below=1))
        _start(self.hidden, self.output)

    def forward(self, x: Tensor) -> Tensor:
        check_tensor("x", x, width=self.d_model, least=1)
        return self.output(self.dropout(self.activation(self.hidden(x))))


class GatedFeedForward(nn.Module):
    """A feed-forward sublayer whose hidden layer is a product of two maps, one of them activated.

    ``FFN(x) = W_2 (f(W x) ⊙ V x)``, without biases as in the paper: GLU has f = sigmoid, GeGLU
    gelu, ReGLU relu, SwiGLU swish, and LiGLU, the bilinear one, no activation.

    Args:
        d_model: width of x and of the result.
        d_hidden: rows of W and of V. Three matrices instead of two: for the parameters of a
            :class:`FeedForward` take two thirds of its hidden width.
        gate: f, a name in :data:`GATES` or a function.

    Shapes: ``(…, d_model)`` → ``(…, d_model)``.

    Source: Shazeer 2020, equations 5 and 6; the gate of Dauphin et al. 2017.
    """

    def __init__(self, d_model: int, d_hidden: int, gate: str | Activation = "swiglu") -> None:
        super().__init__()
        self.d_model = check_integer("d_model", d_model)
        self.gate = _named("gate", gate, GATES)
        d_hidden = check_integer("d_hidden", d_hidden)
        self.gate_projection = Linear(d_model, d_hidden, bias=False)  # W
        self.value_projection = Linear(d_model, d_hidden, bias=False)  # V
        self.output = Linear(d_hidden, d_model, bias=False)  # W_2
        _start(self.gate_projection, self.value_projection, self.output)

    def forward(self, x: Tensor) -> Tensor:
        check_tensor("x", x, width=self.d_model, least=1)
        return self.output(self.gate(self.gate_projection(x)) * self.value_projection(x))


def _named(name: str, value: str | Activation, known: dict[str, Activation]) -> Activation:
    require(
        callable(value) or value in known,
        f"{name} must be one of {sorted(known)} or a function, got {value!r}",
    )
    return value if callable(value) else known[value]


def _start(*layers: nn.Linear) -> None:
    for layer in layers:
        nn.init.xavier_uniform_(layer.weight)
        if layer.bias is not None:
            nn.init.zeros_(layer.bias)
