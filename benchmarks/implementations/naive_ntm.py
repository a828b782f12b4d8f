"""A neural Turing machine as readers write it: a linear layer for every parameter of every head,
rows shifted one by one.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

__all__ = ["NaiveNTM"]


class Head(nn.Module):
    """One head with a layer for each of its parameters."""

    def __init__(self, hidden_size, slot_width, shifts, writes):
        super().__init__()
        self.key, self.strength = nn.Linear(hidden_size, slot_width), nn.Linear(hidden_size, 1)
        self.gate, self.shift, self.gamma = (
            nn.Linear(hidden_size, 1),
            nn.Linear(hidden_size, shifts),
            nn.Linear(hidden_size, 1),
        )
        if writes:
            self.erase, self.add = (
                nn.Linear(hidden_size, slot_width),
                nn.Linear(hidden_size, slot_width),
            )

    def address(self, h, memory, previous):
        key, strength = self.key(h), F.softplus(self.strength(h))
        gate, gamma = torch.sigmoid(self.gate(h)), 1 + F.softplus(self.gamma(h))
        kernel = F.softmax(self.shift(h), dim=-1)
        norms = torch.sqrt((memory**2).sum(-1) + 1e-8) * torch.sqrt(
            (key**2).sum(-1, keepdim=True) + 1e-8
        )
        content = F.softmax(strength * (memory * key[:, None, :]).sum(-1) / norms, dim=-1)
        gated = gate * content + (1 - gate) * previous
        shifted = torch.zeros(gated.shape)
        for b in range(len(gated)):
            shifted[b] = self.convolve(gated[b], kernel[b])
        sharp = shifted**gamma
        return sharp / (sharp.sum(-1, keepdim=True) + 1e-16)

    @staticmethod
    def convolve(w, s):
        """The circular convolution of one row."""
        reach = len(s) // 2
        padded = torch.cat([w[-reach:], w, w[:reach]])
        return F.conv1d(padded.view(1, 1, -1), s.flip(0).view(1, 1, -1)).view(-1)


class NaiveNTM(nn.Module):
    """One machine with softmax shifts and a constant start; takes its numbers from an
    :class:`attnbook.NTM`.
    """

    def __init__(self, model):
        super().__init__()
        self.model = model
        shifts, hidden = 2 * model.shift_range + 1, model.hidden_size
        self.read_heads = nn.ModuleList(
            Head(hidden, model.slot_width, shifts, False) for _ in range(model.read_heads)
        )
        self.write_heads = nn.ModuleList(
            Head(hidden, model.slot_width, shifts, True) for _ in range(model.write_heads)
        )
        width = model.d_input + model.read_heads * model.slot_width
        self.controller = (
            nn.LSTMCell(width, hidden) if model.controller == "lstm" else nn.Linear(width, hidden)
        )
        self.output = nn.Linear(hidden + model.read_heads * model.slot_width, model.d_output)
        self.take(model)

    @torch.no_grad()
    def take(self, model):
        width, all_heads = model.slot_width, [*self.read_heads, *self.write_heads]
        rows = torch.cat([model.heads.weight, model.heads.bias[:, None]], dim=1)
        keys, adds, open_, positive, shifts = rows.split(model.parts)
        erases, gates = open_.split([len(self.write_heads) * width, len(all_heads)])
        strengths, gammas = positive.chunk(2)
        for k, head in enumerate(all_heads):
            wanted = {
                "key": keys.view(len(all_heads), width, -1)[k],
                "strength": strengths[k : k + 1],
                "gate": gates[k : k + 1],
                "gamma": gammas[k : k + 1],
                "shift": shifts.view(len(all_heads), -1, rows.shape[1])[k],
            }
            if k >= len(self.read_heads):
                j = k - len(self.read_heads)
                wanted["erase"], wanted["add"] = (
                    part.view(len(self.write_heads), width, -1)[j] for part in (erases, adds)
                )
            for name, numbers in wanted.items():
                getattr(head, name).weight.copy_(numbers[:, :-1])
                getattr(head, name).bias.copy_(numbers[:, -1])
        self.output.load_state_dict(model.output.state_dict())
        (layer,) = model.layers
        if model.controller == "feedforward":
            self.controller.load_state_dict(layer.state_dict())
            return
        i, f, o, new = torch.cat([layer.weight, layer.bias[:, None]], dim=1).chunk(4)
        ours = torch.cat([i, f, new, o])  # PyTorch's order
        self.controller.weight_ih.copy_(ours[:, : -1 - model.hidden_size])
        self.controller.weight_hh.copy_(ours[:, -1 - model.hidden_size : -1])
        self.controller.bias_ih.copy_(ours[:, -1])
        self.controller.bias_hh.zero_()

    def forward(self, inputs):
        m, batch = self.model, len(inputs)
        memory = torch.full((batch, m.slots, m.slot_width), 1e-6)
        first = torch.zeros(batch, m.slots)
        first[:, 0] = 1
        weights = [first for _ in (*self.read_heads, *self.write_heads)]
        reads = [memory[:, 0] for _ in self.read_heads]
        state = (torch.zeros(batch, m.hidden_size), torch.zeros(batch, m.hidden_size))
        outputs = []
        for t in range(inputs.shape[1]):
            x = torch.cat([inputs[:, t], *reads], dim=-1)
            if m.controller == "lstm":
                state = self.controller(x, state)
                h = state[0]
            else:
                h = torch.tanh(self.controller(x))
            weights = [
                head.address(h, memory, w)
                for head, w in zip((*self.read_heads, *self.write_heads), weights)
            ]
            writing = list(zip(self.write_heads, weights[len(self.read_heads) :]))
            for head, w in writing:
                memory = memory * (1 - w[:, :, None] * torch.sigmoid(head.erase(h))[:, None, :])
            for head, w in writing:
                memory = memory + w[:, :, None] * head.add(h)[:, None, :]
            reads = [
                torch.matmul(w[:, None], memory)[:, 0] for w in weights[: len(self.read_heads)]
            ]
            outputs.append(self.output(torch.cat([h, *reads], dim=-1)))
        return torch.stack(outputs, dim=1)
