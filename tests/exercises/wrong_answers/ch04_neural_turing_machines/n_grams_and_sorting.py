import math

import torch

from ..collection import edits, wrong

edit = edits("04.no_contexts")
edit("expected one of", '"one to three bits"', '"two bits"')
edit("expected one of", '"one to three bits"', '"some"')
edit("one of 'nothing'", '"one to three bits"', "2")


def _pick(vectors, index):
    return vectors.gather(1, index[..., None].expand(-1, -1, vectors.shape[2]))


edit = edits("04.highest_first")
edit("all vectors came back", "[:, :wanted]", "")
edit("priorities or indices came back", "vectors…", "order")
edit("with batch = 1: targets: the shape", ", order]", ", order].squeeze()")


@wrong("04.highest_first", "changes its argument priorities in place")
def crossed_out_in_place(vectors, priorities, wanted):
    found = []
    for _ in range(wanted):
        found.append(priorities.argmax(1))
        priorities[torch.arange(len(priorities)), found[-1]] = -math.inf
    return _pick(vectors, torch.stack(found, 1))


edit = edits("04.four_runs")
edit("it comes down quickly", '"A"', '"C"')
edit("its rate is too low", '"B", "D"', '"D", "B"')
edit("expected the tuple", '"A", "B", "D"', '"A"')


edit = edits("04.reliability")
edit("an empty bin has nothing to divide by", "count.clamp(min=1)", "count")
edit("the dtype is float32", "count.long()", "count")
edit("count: the shape is", "count =", "inside = inside[:, inside.any(0)]\n    count =")
edit("share[", "part =", "told = told.sort().values\n    part =")


edit = edits("04.unknown_order")
edit("probabilities[", "before.softmax(0)", "(before / 2).softmax(0)")


@wrong("04.unknown_order", "underflows to 0")
def products(told, bits):
    seen = torch.where(bits == 1, told, 1 - told)
    weights = torch.cat([torch.ones(len(told), 1), seen.cumprod(1)[:, :-1]], 1)
    return (weights / weights.sum(0) * told).sum(0)


@wrong("04.unknown_order", "probabilities[")
def products_in_double(told, bits):
    """A product of 3000 probabilities is 0 in float64 as well."""
    seen = torch.where(bits == 1, told, 1 - told).double()
    weights = torch.cat([torch.ones(len(told), 1), seen.cumprod(1)[:, :-1]], 1) + 1e-320
    return (weights / weights.sum(0) * told).sum(0).float()


@wrong("04.unknown_order", "less than float32 holds, probabilities[")
def products_in_turn(told, bits):
    weights, mixed = torch.ones(len(told)), []
    for p, bit in zip(told.T, bits):
        mixed.append((weights / weights.sum() * p).sum())
        weights = weights * (p if bit else 1 - p)
    return torch.stack(mixed)


@wrong("04.unknown_order", "do the weights forget")
def forgetful(told, bits):
    weights, mixed = torch.ones(len(told)), []
    for p, bit in zip(told.T, bits):
        weights = weights / weights.sum()
        mixed.append((weights * p).sum())
        weights = weights * (p if bit else 1 - p) + 1e-9
    return torch.stack(mixed)
