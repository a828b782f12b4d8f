"""The neural Turing machine from the formulas of Graves, Wayne and Danihelka 2014, head by head.

Knows the layout of the parameters of :class:`attnbook.NTM` and nothing else of it. ``wrong`` names
a mistake to make."""

import math

import numpy as np

EPSILON = 1e-8


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def softplus(x):
    return np.log1p(np.exp(-abs(x))) + np.maximum(x, 0)


def softmax(scores):
    powers = [math.exp(s - max(scores)) for s in scores]
    return np.array([p / sum(powers) for p in powers])


def cosine(u, v):
    product, norms = sum(a * b for a, b in zip(u, v)), [sum(a * a for a in x) for x in (u, v)]
    return product / math.sqrt((norms[0] + EPSILON) * (norms[1] + EPSILON))


def content(key, strength, memory):
    return softmax([strength * cosine(key, row) for row in memory])


def interpolate(found, previous, gate, wrong=None):
    if wrong == "interpolation swapped":
        gate = 1 - gate
    return np.array([gate * c + (1 - gate) * p for c, p in zip(found, previous)])


def shift(weights, kernel, wrong=None):
    """``w̃(i) = Σ_j w(j) s(i − j)``, indices modulo N, the kernel over −R … R."""
    n, reach = len(weights), len(kernel) // 2
    moved = np.zeros(n)
    for j in range(n):
        for k in range(-reach, reach + 1):
            there = (j - k) if wrong == "shift in the wrong direction" else (j + k)
            if 0 <= there < n or wrong != "shift that does not go round":
                moved[there % n] += weights[j] * kernel[k + reach]
    return moved


def sharpen(weights, gamma, wrong=None):
    powers = np.array([w**gamma for w in weights])
    return powers if wrong == "sharpening without normalisation" else powers / sum(powers)


def uniform_shift(lowest, reach):
    """The mass that the uniform distribution on [x, x + 1] puts on shifts, each cut down."""
    kernel = np.zeros(2 * reach + 1)
    down = math.floor(lowest)
    for k, mass in ((down, 1 - (lowest - down)), (down + 1, lowest - down)):
        if mass:
            kernel[k + reach] += mass
    return kernel


def address(memory, previous, p, wrong=None):
    found = content(p["key"], p["strength"], memory)
    gated = interpolate(found, previous, p["gate"], wrong)
    if wrong == "sharpening before shifting":
        return shift(sharpen(gated, p["gamma"]), p["kernel"])
    return sharpen(shift(gated, p["kernel"], wrong), p["gamma"], wrong)


def read(memory, weights):
    return sum(w * row for w, row in zip(weights, memory))


def write(memory, writes, wrong=None):
    """``writes``: (weights, erase, add) of every head. All erase, then all add."""
    stages = ("add", "erase") if wrong == "erase after add" else ("erase", "add")
    for stage in stages:
        for weights, erase, add in writes:
            if stage == "erase":
                memory = memory * (1 - np.outer(weights, erase))
            else:
                memory = memory + np.outer(weights, add)
    return memory


class Machine:
    """One :class:`attnbook.NTM` read by its parameters; ``run`` takes one sequence."""

    def __init__(self, net, wrong=None):
        self.net, self.wrong = net, wrong
        self.numbers = {name: p.detach().numpy() for name, p in net.named_parameters()}

    def parameters_of_heads(self, h):
        net = self.net
        raw = self.numbers["heads.weight"] @ h + self.numbers["heads.bias"]
        heads, width = net.read_heads + net.write_heads, net.slot_width
        shifts = 2 * net.shift_range + 1 if net.shift == "softmax" else 1
        written = net.write_heads * width
        sizes = [heads * width, written, written, heads, heads, heads, heads * shifts]
        assert sum(sizes) == len(raw)
        keys, adds, erases, gates, strengths, gammas, kernels = np.split(raw, np.cumsum(sizes)[:-1])
        found = []
        for k in range(heads):
            j = 0 if self.wrong == "heads sharing parameters" else k
            kernel = list(kernels[j * shifts : (j + 1) * shifts])
            if net.shift == "softmax":
                kernel = softmax(kernel)
            else:
                kernel = uniform_shift(net.shift_range * np.tanh(kernel[0]), net.shift_range)
            key, strength = keys[j * width : (j + 1) * width], softplus(strengths[j])
            gate, gamma = sigmoid(gates[j]), 1 + softplus(gammas[j])
            found.append(dict(key=key, strength=strength, gate=gate, gamma=gamma, kernel=kernel))
        for k, head in enumerate(found[net.read_heads :]):
            j = 0 if self.wrong == "heads sharing parameters" else k
            head["erase"] = sigmoid(erases[j * width : (j + 1) * width])
            head["add"] = adds[j * width : (j + 1) * width]
        return found

    def control(self, x, state):
        after = []
        for k in range(self.net.num_layers):
            w, b = self.numbers[f"layers.{k}.weight"], self.numbers[f"layers.{k}.bias"]
            if self.net.controller == "feedforward":
                x = np.tanh(w @ x + b)
                continue
            h, c = state[k]
            i, f, o, new = np.split(w @ np.concatenate([x, h]) + b, 4)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(new)
            x = sigmoid(o) * np.tanh(c)
            after.append((x, c))
        return x, after

    def run(self, inputs):
        """Outputs (T, d_output), weights (T, heads, N) and the memory after each step (T, N, M)."""
        net, wrong = self.net, self.wrong
        memory = np.full((net.slots, net.slot_width), 1e-6)
        if net.memory_start != "constant":
            memory = self.numbers["start_memory"].copy()
        first = np.zeros(net.slots)
        first[0] = 0.0 if wrong == "start weights not a distribution" else 1.0
        weights = [first] * (net.read_heads + net.write_heads)
        reads = [memory[0]] * net.read_heads
        state = [(np.zeros(net.hidden_size), np.zeros(net.hidden_size))] * net.num_layers
        outputs, all_weights, memories = [], [], []
        for x in inputs:
            h, state = self.control(np.concatenate([x, *reads]), state)
            parameters = self.parameters_of_heads(h)
            weights = [address(memory, w, p, wrong) for w, p in zip(weights, parameters)]
            pairs = [(w, p) for w, p in zip(weights, parameters) if "erase" in p]
            before = memory
            memory = write(memory, [(w, p["erase"], p["add"]) for w, p in pairs], wrong)
            seen = before if wrong == "read before write" else memory
            reads = [read(seen, w) for w in weights[: net.read_heads]]
            weight, bias = (self.numbers[f"output.{name}"] for name in ("weight", "bias"))
            outputs.append(weight @ np.concatenate([h, *reads]) + bias)
            all_weights.append(np.stack(weights))
            memories.append(memory)
        return np.stack(outputs), np.stack(all_weights), np.stack(memories)
