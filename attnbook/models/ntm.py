"""The neural Turing machine: a network controls heads that read and write a memory."""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..kernels.addressing_math import _uniform_shift
from ..kernels.memory_step import HeadParameters, memory_step
from ..kernels.precision import wide_dtype
from ..mechanisms.memory.addressing import Addressed, address
from ..validate import check_choice, check_integer, check_tensor, require

__all__ = ["CONTROLLERS", "MEMORY_STARTS", "SHIFTS", "NTM", "NTMOutput", "NTMState"]

CONTROLLERS = ("feedforward", "lstm")
SHIFTS = ("softmax", "scalar")
MEMORY_STARTS = ("constant", "learned")
START = 1e-6
"""What every entry of a constant memory holds at the start (Collier and Beel 2018)."""


class NTMState(NamedTuple):
    """The state of a machine between steps."""

    memory: Tensor  # M, (batch, slots, slot_width)
    weights: Tensor  # w of every head, read heads first, (batch, heads, slots)
    reads: Tensor  # r of every read head, (batch, read_heads, slot_width)
    # of an LSTM h and c of each layer, each (batch, hidden); else empty
    controller: tuple[Tensor, ...]


class NTMOutput(NamedTuple):
    """A sequence read: ``logits (batch, T, d_output)``, the last ``state``,
    ``weights (batch, T, heads, slots)`` or None.
    """

    logits: Tensor
    state: NTMState
    weights: Tensor | None


class NTM(nn.Module):
    """A neural Turing machine.

    One step, in this order:

    1. The controller reads the input and what the read heads brought in the step before:
       ``h_t = controller([x_t; r_{t−1}])``, a layer of tanh or an LSTM.
    2. One product gives the parameters of all heads: ``[k; a; e; g; β; γ; s] = W h_t + b``, with
       ``β = softplus(·)``, ``γ = 1 + softplus(·)``, e and g through a sigmoid; s is a softmax over
       the shifts −R … R, or the kernel :func:`~attnbook.mechanisms.memory.addressing.uniform_shift`
       of R tanh(·).
    3. *All* heads find their place in ``M_{t−1}``, the memory as the step before left it.
    4. The write heads erase, then add: ``M_t``.
    5. The read heads read ``r_t`` from ``M_t``: what is written in a step can be read in the same
       step.
    6. ``y_t = V [h_t; r_t] + c``.

    The paper says that M_t is what the write heads of step t leave (section 3.2) and that reads are
    from M_t (equation 2). It is silent about which memory the write heads compare their keys with,
    where equation 5 would need M_t before it is made (M_{t−1} here, for all heads alike); about
    what the output sees; about the functions that keep e, β, γ and the scalar shift in their
    ranges; and about the start. At the start here every head looks at slot 0, which is a
    distribution and, unlike a uniform one, tells the slots of a constant memory apart; r_0 is what
    it reads there; an LSTM starts at 0.

    Args:
        d_input: width of an input.
        d_output: width of an output.
        controller: ``"feedforward"`` or ``"lstm"``.
        hidden_size: width of the controller.
        num_layers: layers of the controller.
        slots: N, rows of the memory.
        slot_width: M, width of a row.
        read_heads, write_heads: how many, each with parameters of its own.
        shift: ``"softmax"`` over whole shifts, or ``"scalar"``.
        shift_range: R, the furthest shift in one step; 2R + 1 ≤ slots.
        memory_start: ``"constant"``, 1e-6 everywhere, or ``"learned"``.

    Shapes: inputs ``(batch, T, d_input)`` → logits ``(batch, T, d_output)``; weights
    ``(batch, T, heads, slots)``, read heads first.

    Parameters: on the paper's copy task (9 inputs, 8 outputs, one head of each kind, controller of
    100, memory 128 × 20) the feed-forward machine has 13,260, the paper's 17,162; with the LSTM
    62,260, the paper's 67,561. The text of the paper does not say where the rest lies.

    Source: Graves, Wayne and Danihelka 2014; the constant start is Collier and Beel 2018.
    """

    def __init__(
        self,
        d_input: int,
        d_output: int,
        *,
        controller: str = "feedforward",
        hidden_size: int = 100,
        num_layers: int = 1,
        slots: int = 128,
        slot_width: int = 20,
        read_heads: int = 1,
        write_heads: int = 1,
        shift: str = "softmax",
        shift_range: int = 1,
        memory_start: str = "constant",
    ) -> None:
        super().__init__()
        self.controller = check_choice("controller", controller, CONTROLLERS)
        self.shift = check_choice("shift", shift, SHIFTS)
        self.memory_start = check_choice("memory_start", memory_start, MEMORY_STARTS)
        self.d_input = check_integer("d_input", d_input)
        self.d_output = check_integer("d_output", d_output)
        self.hidden_size = check_integer("hidden_size", hidden_size)
        self.num_layers = check_integer("num_layers", num_layers)
        self.slots = check_integer("slots", slots)
        self.slot_width = check_integer("slot_width", slot_width)
        self.read_heads = check_integer("read_heads", read_heads)
        self.write_heads = check_integer("write_heads", write_heads)
        self.shift_range = check_integer("shift_range", shift_range)
        require(
            2 * shift_range + 1 <= slots,
            f"shift_range must leave 2·shift_range + 1 ≤ slots = {slots}, got shift_range "
            f"{shift_range}",
        )
        recurrent, gates = (hidden_size, 4) if controller == "lstm" else (0, 1)
        widths = [d_input + read_heads * slot_width] + [hidden_size] * (num_layers - 1)
        self.layers = nn.ModuleList(
            nn.Linear(width + recurrent, gates * hidden_size) for width in widths
        )
        heads = read_heads + write_heads
        # The columns of one matrix, those that pass through the same function side by side:
        self.parts = [
            heads * slot_width,  # k, as it is
            write_heads * slot_width,  # a, as it is
            write_heads * slot_width + heads,  # e and g, sigmoid
            2 * heads,  # β and γ, softplus
            heads * (2 * shift_range + 1 if shift == "softmax" else 1),  # s
        ]
        self.heads = nn.Linear(hidden_size, sum(self.parts))
        self.output = nn.Linear(hidden_size + read_heads * slot_width, d_output)
        if memory_start == "learned":
            self.start_memory = nn.Parameter(torch.empty(slots, slot_width))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all weights anew: Glorot uniform, biases 0, a learned memory from N(0, 1/M)."""
        for layer in self.modules():
            if isinstance(layer, nn.Linear):
                nn.init.xavier_uniform_(layer.weight)
                nn.init.zeros_(layer.bias)
        if self.memory_start == "learned":
            nn.init.normal_(self.start_memory, std=self.slot_width**-0.5)

    def initial_state(self, batch: int) -> NTMState:
        """The state before the first input of ``batch`` sequences, in float32 at least."""
        check_integer("batch", batch)
        like = self.output.weight
        dtype = wide_dtype(like)
        if self.memory_start == "learned":
            memory = self.start_memory.to(dtype).expand(batch, -1, -1)
        else:
            memory = like.new_full((batch, self.slots, self.slot_width), START, dtype=dtype)
        weights = like.new_zeros(batch, self.read_heads + self.write_heads, self.slots, dtype=dtype)
        weights[..., 0] = 1
        carried = 2 * self.num_layers if self.controller == "lstm" else 0
        controller = tuple(like.new_zeros(batch, self.hidden_size) for _ in range(carried))
        return NTMState(memory, weights, memory[:, :1].expand(-1, self.read_heads, -1), controller)

    def cell(self, x: Tensor, state: NTMState) -> tuple[Tensor, NTMState, Tensor]:
        """Take one step: x ``(batch, d_input)`` → y ``(batch, d_output)``, the next state, weights
        ``(batch, heads, slots)``.

        :meth:`forward` takes its steps by the cell of a subclass or an attribute that replaces this
        one. A compiled cell is one of these, but :meth:`compile` leaves less work for each step."""
        h, state, weights = self._advance(x, state)
        return self._output(h, state.reads), state, weights

    def compile(self, *args, **kwargs) -> None:
        """Compile one step for all steps of all sequences, not the loop over them; the arguments
        are those of ``torch.compile``.

        It is made of plain operations only, so that ``net.compile(fullgraph=True)`` gives one
        graph."""
        self._advance = torch.compile(self._advance, *args, **kwargs)

    def __getstate__(self):
        """The state without replaced methods: a copy must run with its own weights."""
        return {
            name: value
            for name, value in super().__getstate__().items()
            if name not in ("_advance", "cell")
        }

    def _advance(self, x, state):
        """Step 1 to 5: h_t, the next state, the weights."""
        h, controller, heads = self._control_heads(x, state)
        memory, reads, weights = memory_step(state.memory, state.weights, heads)
        return h, NTMState(memory, weights, reads, controller), weights

    def _output(self, h, reads):
        """Step 6, of one step or of all: h ``(…, hidden)``, r ``(…, read heads, slot width)``."""
        return self.output(torch.cat([h, reads.flatten(-2).to(h.dtype)], dim=-1))

    def stages(self, x: Tensor, state: NTMState) -> Addressed:
        """The weights of every head after each stage of the addressing in the next :meth:`cell`."""
        *_, (key, strength, gate, kernel, gamma, *_) = self._control_heads(x, state)
        return address(state.memory, state.weights, key, strength, gate, kernel, gamma)

    def _control_heads(self, x, state):
        """Step 1 and 2: h_t, the controller's next state, the parameters of the heads."""
        h, controller = self._control([x, state.reads.flatten(1).to(x.dtype)], state.controller)
        return h, controller, self._emit(self.heads(h).to(state.memory.dtype))

    def _control(self, inputs, before):
        """The controller's output from the parts of its input, and its next state."""
        if self.controller == "feedforward":
            for layer in self.layers:
                inputs = [layer(torch.cat(inputs, dim=-1)).tanh()]
            return inputs[0], ()
        after = []
        for layer, h, c in zip(self.layers, before[::2], before[1::2]):
            gates, new = layer(torch.cat([*inputs, h.to(inputs[0].dtype)], dim=-1)).split(
                [3 * self.hidden_size, self.hidden_size], dim=-1
            )
            i, f, o = gates.sigmoid().chunk(3, dim=-1)
            c = torch.addcmul(f * c, i, new.tanh())
            inputs = [o * c.tanh()]
            after += [inputs[0], c]
        return inputs[0], tuple(after)

    def _emit(self, raw):
        batch, heads = len(raw), self.read_heads + self.write_heads
        key, add, open_, positive, kernel = raw.split(self.parts, dim=-1)
        erase, gate = open_.sigmoid().split([self.write_heads * self.slot_width, heads], dim=-1)
        strength, gamma = F.softplus(positive).chunk(2, dim=-1)
        if self.shift == "softmax":
            kernel = kernel.view(batch, heads, -1).softmax(-1)
        else:
            kernel = _uniform_shift(self.shift_range * kernel.tanh(), self.shift_range)
        return HeadParameters(
            key.view(batch, heads, -1),
            strength,
            gate,
            kernel,
            1 + gamma,
            erase.view(batch, self.write_heads, -1),
            add.view(batch, self.write_heads, -1),
        )

    def forward(
        self, inputs: Tensor, state: NTMState | None = None, *, need_weights: bool = False
    ) -> NTMOutput:
        """Read whole sequences, from ``state`` or from the start."""
        check_tensor("inputs", inputs, width=self.d_input)
        shape = tuple(inputs.shape)
        require(
            len(shape) == 3 and min(shape) >= 1,
            f"inputs must be (batch, T, {self.d_input}) with batch, T ≥ 1, got shape {shape}",
        )
        state = self.initial_state(len(inputs)) if state is None else state
        self._check_state(state, len(inputs))
        replaced = getattr(self.cell, "__func__", None) is not NTM.cell
        outputs, rows = [], []
        # laid out alike for all T, so that a compiled step fits them all
        for x in inputs.transpose(0, 1).contiguous():
            y, state, weights = (self.cell if replaced else self._advance)(x, state)
            outputs.append((y,) if replaced else (y, state.reads))
            rows.append(weights)
        outputs = [torch.stack(part, dim=1) for part in zip(*outputs)]
        # the output of all steps is one product
        logits = outputs[0] if replaced else self._output(*outputs)
        return NTMOutput(logits, state, torch.stack(rows, dim=1) if need_weights else None)

    def _check_state(self, state: NTMState, batch: int) -> None:
        heads, hidden = self.read_heads + self.write_heads, (batch, self.hidden_size)
        for name, part, shape in (
            ("a memory", state.memory, (batch, self.slots, self.slot_width)),
            ("weights", state.weights, (batch, heads, self.slots)),
            ("reads", state.reads, (batch, self.read_heads, self.slot_width)),
        ):
            require(
                part.shape == shape,
                f"state must have {name} of shape {shape}, got {tuple(part.shape)}",
            )
        count = 2 * self.num_layers if self.controller == "lstm" else 0
        came = [tuple(part.shape) for part in state.controller]
        require(
            came == count * [hidden],
            f"state must have a controller of {count} tensors of shape {hidden}, got shapes {came}",
        )
