from itertools import combinations

import torch
from torch.nn import functional as F

from .collection import wrong


@wrong("06.swiglu", "gate and value are exchanged")
def exchanged(x, gate, value, output):
    return (F.silu(x @ value) * (x @ gate)) @ output


@wrong("06.swiglu", "this is GLU")
def sigmoid_gate(x, gate, value, output):
    return (torch.sigmoid(x @ gate) * (x @ value)) @ output


@wrong("06.swiglu", "this is ReGLU")
def relu_gate(x, gate, value, output):
    return (F.relu(x @ gate) * (x @ value)) @ output


@wrong("06.swiglu", "this is GeGLU")
def gelu_gate(x, gate, value, output):
    return (F.gelu(x @ gate) * (x @ value)) @ output


@wrong("06.swiglu", "this is LiGLU")
def linear_gate(x, gate, value, output):
    return ((x @ gate) * (x @ value)) @ output


@wrong("06.swiglu", "a gate multiplies")
def added(x, gate, value, output):
    return (F.silu(x @ gate) + x @ value) @ output


@wrong("06.swiglu", "value is missing")
def without_value(x, gate, value, output):
    return F.silu(x @ gate) @ output


@wrong("06.swiglu", "swish is taken of the product")
def of_the_product(x, gate, value, output):
    return F.silu((x @ gate) * (x @ value)) @ output


@wrong("06.swiglu", "both go through swish")
def both(x, gate, value, output):
    return (F.silu(x @ gate) * F.silu(x @ value)) @ output


@wrong("06.swiglu", "gradient")
def gate_detached(x, gate, value, output):
    return (F.silu(x @ gate).detach() * (x @ value)) @ output


def _splits(changed, plain):
    values, first = [*changed, *plain], len(changed)
    for chosen in combinations(range(len(values)), first):
        rest = [v for k, v in enumerate(values) if k not in chosen]
        yield sum(values[k] for k in chosen) / first - sum(rest) / len(rest)


def _found(changed, plain):
    return sum(changed) / len(changed) - sum(plain) / len(plain)


@wrong("06.chance_of_better", "is not counted: it is one of all")
def without_itself(changed, plain):
    found, splits = _found(changed, plain), list(_splits(changed, plain))
    return (sum(d <= found + 1e-9 for d in splits) - 1) / len(splits)


@wrong("06.chance_of_better", "not counted")
def without_ties(changed, plain):
    found, splits = _found(changed, plain), list(_splits(changed, plain))
    return sum(d < found - 1e-9 for d in splits) / len(splits)


@wrong("06.chance_of_better", "chance of being worse")
def worse(changed, plain):
    found, splits = _found(changed, plain), list(_splits(changed, plain))
    return sum(d >= found - 1e-9 for d in splits) / len(splits)


@wrong("06.chance_of_better", "in either direction")
def two_sided(changed, plain):
    found, splits = _found(changed, plain), list(_splits(changed, plain))
    return sum(abs(d) >= abs(found) - 1e-9 for d in splits) / len(splits)


@wrong("06.chance_of_better", "difference of the means")
def difference(changed, plain):
    return _found(changed, plain)


@wrong("06.chance_of_better", "expected their share among all")
def count(changed, plain):
    found = _found(changed, plain)
    return sum(d <= found + 1e-9 for d in _splits(changed, plain))


@wrong("06.chance_of_better", "1 minus the chance")
def the_rest(changed, plain):
    found, splits = _found(changed, plain), list(_splits(changed, plain))
    return 1 - sum(d <= found + 1e-9 for d in splits) / len(splits)


@wrong("06.chance_of_better", "mean of the rest")
def less_the_mean_of_all(changed, plain):
    values, found = [*changed, *plain], _found(changed, plain)
    splits = list(combinations(values, len(changed)))
    return sum(sum(one) / len(one) - sum(values) / len(values) <= found + 1e-9 for one in splits) / len(splits)


@wrong("06.chance_of_better", "choose places, not values")
def rest_by_value(changed, plain):
    values, found, hits = [*changed, *plain], _found(changed, plain), 0
    splits = list(combinations(values, len(changed)))
    for one in splits:
        rest = [v for v in values if v not in one]
        hits += sum(one) / len(one) - sum(rest) / max(1, len(rest)) <= found + 1e-9
    return hits / len(splits)


@wrong("06.chance_of_better", "share of pairs")
def pairs(changed, plain):
    return sum(a < b for a in changed for b in plain) / (len(changed) * len(plain))


@wrong("06.chance_of_better", "is 0.")
def sampled(changed, plain):
    generator = torch.Generator().manual_seed(0)
    values, first, found, hits = torch.tensor([*changed, *plain]), len(changed), _found(changed, plain), 0
    for _ in range(40):
        order = values[torch.randperm(len(values), generator=generator)]
        hits += float(order[:first].mean() - order[first:].mean()) <= found + 1e-6
    return hits / 40
