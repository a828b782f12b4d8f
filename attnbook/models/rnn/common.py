"""What the recurrent models share: units by name, two embeddings, padded sources."""

import torch
from torch import Tensor, nn

from ...decoding.step import TokenIds, check_token_ids
from ...validate import check_choice, check_integer, check_number

__all__ = ["UNITS", "make_cell", "make_recurrent", "reverse_padded", "run_packed"]


class _PortableRNN(nn.RNNBase):
    """A recurrent network of PyTorch that can be differentiated in evaluation mode on a GPU, too,
    and trained under autocast to bfloat16.

    cuDNN goes back only through what it ran for training. So where gradients may be asked for,
    evaluation runs as training without dropout, which is the same computation. And under autocast
    to bfloat16 cuDNN runs it in float16, whose gradients would have to be scaled, and oneDNN not at
    all on many a CPU: but for float16 on a GPU it runs in the dtype of its weights.
    """

    def forward(self, input, hx=None):
        weight = next(self.parameters())
        kind = weight.device.type
        if torch.is_autocast_enabled(kind) and (
            not weight.is_cuda or torch.get_autocast_dtype(kind) != torch.float16
        ):
            if isinstance(hx, tuple):
                hx = tuple(part.to(weight.dtype) for part in hx)
            elif hx is not None:
                hx = hx.to(weight.dtype)
            with torch.autocast(kind, enabled=False):
                return self.forward(input.to(weight.dtype), hx)
        if self.training or not torch.is_grad_enabled():
            return super().forward(input, hx)
        dropout, self.training, self.dropout = self.dropout, True, 0.0
        try:
            return super().forward(input, hx)
        finally:
            self.training, self.dropout = False, dropout


class RNN(_PortableRNN, nn.RNN):
    """:class:`torch.nn.RNN` with gradients in evaluation mode."""


class GRU(_PortableRNN, nn.GRU):
    """:class:`torch.nn.GRU` with gradients in evaluation mode."""


class LSTM(_PortableRNN, nn.LSTM):
    """:class:`torch.nn.LSTM` with gradients in evaluation mode."""


UNITS = {"tanh": (RNN, nn.RNNCell), "gru": (GRU, nn.GRUCell), "lstm": (LSTM, nn.LSTMCell)}
"""Recurrent units by name: ``tanh`` is the plain RNN, h_t = tanh(W x_t + U h_{t−1} + b)."""


def _unit(unit: str):
    return UNITS[check_choice("unit", unit, UNITS)]


def make_recurrent(
    unit: str,
    input_size: int,
    hidden_size: int,
    *,
    num_layers: int = 1,
    bidirectional: bool = False,
    dropout: float = 0.0,
) -> nn.RNNBase:
    """Make a recurrent network of a unit named in :data:`UNITS`, batch first.

    It has gradients in evaluation mode on a GPU, too.
    """
    kind, _ = _unit(unit)
    num_layers = check_integer("num_layers", num_layers)
    return kind(
        check_integer("input_size", input_size),
        check_integer("hidden_size", hidden_size),
        num_layers=num_layers,
        batch_first=True,
        bidirectional=bidirectional,
        dropout=dropout if num_layers > 1 else 0.0,
    )


def make_cell(unit: str, input_size: int, hidden_size: int) -> nn.RNNCellBase:
    """Make the cell of one step of a unit named in :data:`UNITS`."""
    _, kind = _unit(unit)
    return kind(check_integer("input_size", input_size), check_integer("hidden_size", hidden_size))


class Translator(nn.Module):
    """What each recurrent sequence-to-sequence model begins with: two embeddings, dropout."""

    def __init__(
        self,
        source_size: int,
        target_size: int,
        d_embed: int,
        dropout: float,
        token_ids: TokenIds | None,
    ) -> None:
        super().__init__()
        self.source_size = check_integer("source_size", source_size)
        self.target_size = check_integer("target_size", target_size)
        self.token_ids = check_token_ids(token_ids, target_size)
        check_integer("d_embed", d_embed)
        self.source_embedding, self.target_embedding = (
            nn.Embedding(size, d_embed, padding_idx=self.token_ids.padding)
            for size in (source_size, target_size)
        )
        self.dropout = nn.Dropout(check_number("dropout", dropout, least=0, below=1))


def reverse_padded(source: Tensor, lengths: Tensor) -> Tensor:
    """Reverse every row within its length; the padding stays where it is.

    ``out[b, i] = source[b, lengths[b] − 1 − i]`` for i < lengths[b], else ``source[b, i]``.

    Shapes: source ``(batch, n)``, lengths ``(batch,)``, result ``(batch, n)``.
    Source: Sutskever, Vinyals and Le 2014, section 3.3.
    """
    position = torch.arange(source.shape[1], device=source.device)
    mirrored = lengths.to(source.device)[:, None] - 1 - position
    return source.gather(1, torch.where(mirrored >= 0, mirrored, position))


def run_packed(network: nn.RNNBase, inputs: Tensor, lengths: Tensor):
    """Run a recurrent network over padded rows, so that no state ever sees padding.

    Returns:
        outputs ``(batch, n, width)``, zeros at the padding, and the last state as a tuple of
        batch-first tensors ``(batch, layers × directions, hidden)``: (h,) or, for an LSTM, (h, c).
    """
    # Sorted here, on the CPU: PyTorch's own way back to the old order waits for a GPU once more.
    sorted_lengths, order = lengths.cpu().sort(descending=True)
    back, order = order.argsort().to(inputs.device), order.to(inputs.device)
    packed = nn.utils.rnn.pack_padded_sequence(
        inputs.index_select(0, order), sorted_lengths, batch_first=True
    )
    outputs, last = network(packed)
    outputs, _ = nn.utils.rnn.pad_packed_sequence(
        outputs, batch_first=True, total_length=inputs.shape[1]
    )
    return outputs.index_select(0, back), tuple(
        part.index_select(1, back).transpose(0, 1) for part in as_tuple(last)
    )


def run_from(network: nn.RNNBase, inputs: Tensor, state: tuple[Tensor, ...]):
    """Run a recurrent network on from a state; outputs and states as of :func:`run_packed`."""
    layers_first = tuple(part.transpose(0, 1).contiguous() for part in state)  # as PyTorch wants it
    outputs, last = network(inputs, of_unit(layers_first))
    return outputs, tuple(part.transpose(0, 1) for part in as_tuple(last))


def of_unit(state: tuple[Tensor, ...]):
    """A state (h,) or (h, c) as PyTorch's units take it: h or (h, c)."""
    return state if len(state) == 2 else state[0]


def as_tuple(state) -> tuple[Tensor, ...]:
    """The inverse of :func:`of_unit`."""
    return state if isinstance(state, tuple) else (state,)
