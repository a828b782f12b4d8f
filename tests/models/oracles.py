"""The models written from their equations, one token and one unit at a time, in float64."""

import numpy as np
import torch


def numbers_of(module):
    """What a module has learned, in NumPy, by name; a network of one layer without its ``_l0``."""
    state = module.state_dict().items()
    return {name.removesuffix("_l0"): value.double().numpy() for name, value in state}


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm_step(numbers, name, x, h, c):
    """One step of the LSTM called ``name`` in NumPy: h and c."""
    gates = numbers[f"{name}.weight_ih"] @ x + numbers[f"{name}.bias_ih"]
    gates = gates + numbers[f"{name}.weight_hh"] @ h + numbers[f"{name}.bias_hh"]
    i, f, g, o = np.split(gates, 4)
    c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def _gru(cell, x, h):
    """GRU as PyTorch documents it; ``cell`` is a dict of w_ih, w_hh, b_ih, b_hh."""
    i_r, i_z, i_n = (cell["w_ih"] @ x + cell["b_ih"]).chunk(3)
    h_r, h_z, h_n = (cell["w_hh"] @ h + cell["b_hh"]).chunk(3)
    r, z = torch.sigmoid(i_r + h_r), torch.sigmoid(i_z + h_z)
    return (1 - z) * torch.tanh(i_n + r * h_n) + z * h


def _lstm(cell, x, state):
    h, c = state
    i, f, g, o = (cell["w_ih"] @ x + cell["b_ih"] + cell["w_hh"] @ h + cell["b_hh"]).chunk(4)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def _tanh(cell, x, h):
    return torch.tanh(cell["w_ih"] @ x + cell["b_ih"] + cell["w_hh"] @ h + cell["b_hh"])


def advance(unit, cell, x, state):
    """One step; the state is a tuple, (h,) or (h, c)."""
    if unit == "lstm":
        return _lstm(cell, x, state)
    return ((_gru if unit == "gru" else _tanh)(cell, x, state[0]),)


def weights(module, layer=0, suffix=""):
    """The weights of one layer of an nn.RNNBase, or of an nn.RNNCell."""
    tail = "" if not hasattr(module, "num_layers") else f"_l{layer}{suffix}"
    return {
        f"{name[0]}_{way}": getattr(module, f"{name}_{way}{tail}")
        for name in ("weight", "bias")
        for way in ("ih", "hh")
    }


def zero_state(unit, size):
    zero = torch.zeros(size, dtype=torch.float64)
    return (zero, zero) if unit == "lstm" else (zero,)


def read(unit, cell, inputs, size):
    """All hidden states and the last state of one direction."""
    state, states = zero_state(unit, size), []
    for x in inputs:
        state = advance(unit, cell, x, state)
        states.append(state[0])
    return states, state


def seq2seq(model, unit, source, target_in):
    """Logits (m, vocabulary) of a one-layer :class:`attnbook.Seq2Seq` for one unpadded pair."""
    if model.reverse_source:
        source = source[::-1]
    embedded = [model.source_embedding.weight[i] for i in source]
    _, state = read(unit, weights(model.encoder), embedded, model.encoder.hidden_size)
    told = state[:1] if model.context_every_step else ()
    logits = []
    for i in target_in:
        x = torch.cat([model.target_embedding.weight[i], *told])
        state = advance(unit, weights(model.decoder), x, state)
        logits.append(model.output.weight @ torch.cat([state[0], *told]) + model.output.bias)
    return torch.stack(logits)


def bahdanau(model, unit, source, target_in):
    """Logits and weights of :class:`attnbook.Bahdanau` (maxout) for one unpadded pair."""
    size = model.cell.hidden_size
    embedded = [model.source_embedding.weight[i] for i in source]
    forward, _ = read(unit, weights(model.encoder), embedded, size)
    backward, _ = read(unit, weights(model.encoder, suffix="_reverse"), embedded[::-1], size)
    h = [torch.cat([f, b]) for f, b in zip(forward, backward[::-1])]
    s = torch.tanh(model.bridge.weight @ backward[-1] + model.bridge.bias)
    state = (s, torch.zeros_like(s)) if unit == "lstm" else (s,)
    w_s, w_h = model.score.query_projection.weight, model.score.key_projection.weight
    v = model.score.vector.weight[0]
    logits, alphas = [], []
    for i in target_in:
        e = torch.stack([v @ torch.tanh(w_s @ state[0] + w_h @ h_i) for h_i in h])
        alpha = torch.exp(e) / torch.exp(e).sum()
        c = sum(a * h_i for a, h_i in zip(alpha, h))
        y = model.target_embedding.weight[i]
        state = advance(unit, weights(model.cell), torch.cat([y, c]), state)
        t = model.readout.hidden.weight @ torch.cat([state[0], y, c]) + model.readout.hidden.bias
        t = torch.stack([torch.maximum(t[2 * j], t[2 * j + 1]) for j in range(len(t) // 2)])
        logits.append(model.readout.output.weight @ t + model.readout.output.bias)
        alphas.append(alpha)
    return torch.stack(logits), torch.stack(alphas)
