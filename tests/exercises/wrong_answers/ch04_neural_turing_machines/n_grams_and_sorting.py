import math

import torch

from ..collection import edits, wrong

edit = edits("04.next_bit")
edit("this is the frequency", "3.5 / 6", "3 / 5")
edit(" is not ", "3.5 / 6", "0.9")
edit("one number", "3.5 / 6", "[3.5, 6]")

edit = edits("04.no_contexts")
edit("expected one of", '"one to three bits"', '"two bits"')
edit("expected one of", '"one to three bits"', '"some"')
edit("one of 'nothing'", '"one to three bits"', "2")


def _pick(vectors, index):
    return vectors.gather(1, index[..., None].expand(-1, -1, vectors.shape[2]))


edit = edits("04.highest_first")
edit("the lowest come first", "descending=True", "descending=False")
edit("the first vectors came back as they stand", "vectors…", "vectors[:, :wanted]")
edit("all vectors came back", "[:, :wanted]", "")
edit("the lowest of them comes first", "dim=1, descending=True)[:, :wanted]", "dim=1)[:, -wanted:]")
edit("in the order in which they were given", ", order]", ", order.sort(1).values]")
edit("ranks are taken for places", "descending=True)", "descending=True).argsort(dim=1)")
edit("every row is put into the order of the first row", "torch…", ":, order[0]]")
edit(
    "the bits of each vector are sorted on their own",
    "return vectors[torch.arange(len(vectors)).unsqueeze(1), order]",
    "return vectors.sort(1, descending=True).values[:, :wanted]",
)
edit("the sign of a priority is not looked at", "priorities.argsort", "priorities.abs().argsort")
edit("priorities or indices came back", "vectors…", "order")
edit("again and again", ", order]", ", order[:, :1].expand(-1, wanted)]")
edit("cut off before sorting", ".argsort…", "[:, :wanted].argsort(dim=1, descending=True)")
edit("of the other end", "[:, :wanted]", "[:, -wanted:]")
edit(
    "as they stand",
    "priorities.argsort(dim=1, descending=True)",
    "(priorities * 10).round().argsort(dim=1, descending=True, stable=True)",
)
edit("with batch = 1: targets: the shape", ", order]", ", order].squeeze()")


def _one_by_one(vectors, priorities, wanted, blank):
    left, found = priorities.clone(), []
    for _ in range(wanted):
        found.append(left.argmax(1))
        left[torch.arange(len(left)), found[-1]] = blank
    return _pick(vectors, torch.stack(found, 1))


@wrong("04.highest_first", "what blanks out")
def blanked_by_zero(vectors, priorities, wanted):
    return _one_by_one(vectors, priorities, wanted, 0.0)


@wrong("04.highest_first", "what blanks out")
def blanked_by_minus_one(vectors, priorities, wanted):
    return _one_by_one(vectors, priorities, wanted, -1.0)


@wrong("04.highest_first", "changes its argument priorities in place")
def crossed_out_in_place(vectors, priorities, wanted):
    found = []
    for _ in range(wanted):
        found.append(priorities.argmax(1))
        priorities[torch.arange(len(priorities)), found[-1]] = -math.inf
    return _pick(vectors, torch.stack(found, 1))


def _table(told, came, bins, place=None):
    where = (told * bins).long().clamp(max=bins - 1) if place is None else place
    inside = torch.nn.functional.one_hot(where, bins).to(told.dtype)
    count = inside.sum(0)
    safe = count.clamp(min=1)
    return told @ inside / safe, came @ inside / safe, count.long()


edit = edits("04.reliability")
edit("exactly 1 is lost", ".float()\n", ".float() * (told < 1).unsqueeze(1)\n")
edit("an empty bin has nothing to divide by", "count.clamp(min=1)", "count")
edit("the middle of the bin", "told @ inside / least_one", "(torch.arange(bins) + 0.5) / bins")
edit("the share of right guesses", "came @", "((told > 0.5) == (came == 1)).float() @")
edit(
    "that is the share of ones",
    "told @ inside / least_one, came @ inside / least_one",
    "came @ inside / least_one, told @ inside / least_one",
)
edit("the place is rounded to the nearest", "(told * bins).long()", "(told * bins).round().long()")
edit("the ones are counted", "count.long()", "(came @ inside).long()")
edit("the number of ones: divide by the count", "came @ inside / least_one", "came @ inside")
edit("the dtype is float32", "count.long()", "count")
edit(
    "from the smallest to the largest",
    "(told * bins)",
    "((told - told.min()) / (told.max() - told.min()) * bins)",
)
edit(
    "belongs to the upper one",
    "(told * bins).long()",
    "torch.bucketize(told, torch.linspace(0, 1, bins + 1)[1:-1])",
)
edit("a probability of exactly 0 is lost", ".float()\n", ".float() * (told > 0).unsqueeze(1)\n")
edit(
    "turned over",
    "part =",
    "told, came = torch.maximum(told, 1 - told), (told > 0.5) == (came == 1)\n    part =",
    "came @",
    "came.float() @",
)
edit("one bin less", "told * bins", "told * (bins - 1)")
edit("counts added up", "count.long()", "count.cumsum(0).long()")
edit(
    "the middle of the bin where it is empty",
    "told @ inside / least_one",
    "torch.where(count > 0, told @ inside / least_one, (torch.arange(bins) + 0.5) / bins)",
)
edit(
    "½ where the bin is empty",
    "came @ inside / least_one",
    "torch.where(count > 0, came @ inside / least_one, 0.5)",
)
edit("count: the shape is", "count =", "inside = inside[:, inside.any(0)]\n    count =")
edit("share[", "part =", "told = told.sort().values\n    part =")


@wrong("04.reliability", "equally many")
def by_quantiles(told, came, bins):
    place = torch.empty(len(told), dtype=torch.long)
    for k, part in enumerate(told.argsort().tensor_split(bins)):
        place[part] = k
    return _table(told, came, bins, place)


def _between(told, came, bins, inside):
    said, share, count = torch.zeros(bins), torch.zeros(bins), torch.zeros(bins, dtype=torch.long)
    for k in range(bins):
        members = inside(k)
        if members.any():
            said[k], share[k], count[k] = told[members].mean(), came[members].mean(), members.sum()
    return said, share, count


@wrong("04.reliability", "the upper one alone")
def both_edges(told, came, bins):
    return _between(told, came, bins, lambda k: (told >= k / bins) & (told <= (k + 1) / bins))


def _mix(told, logs):
    return (logs.softmax(0) * told).sum(0)


def _before(told, bits):
    seen = torch.where(bits == 1, told, 1 - told).log()
    return seen.cumsum(1) - seen, seen


edit = edits("04.unknown_order")
edit("has a say in the weights", "seen.cumsum(1) - seen", "seen.cumsum(1)")
edit("the plain mean", "(before.softmax(0) * told).sum(0)", "told.mean(0)")
edit(
    "only the best order so far speaks",
    "(before.softmax(0) * told).sum(0)",
    "told[before.argmax(0), torch.arange(told.shape[1])]",
)
edit("those of the end, for all steps", "seen.cumsum(1) - seen", "seen.sum(1, keepdim=True)")
edit(
    "only the last bit decides",
    "seen.cumsum(1) - seen",
    "torch.cat([torch.zeros(len(told), 1), seen[:, :-1]], 1)",
)
edit("wrong sign", "before.softmax", "(-before).softmax")
edit("the bits are not looked at", "torch.where(bits == 1, told, 1 - told)", "told")
edit("logarithms to base 2", "before.softmax(0)", "(before / 0.6931471805599453).softmax(0)")
edit("expected of a 1", "return (before", "return 1 - (before")
edit("the softmax runs along the steps", "softmax(0)", "softmax(1)")
edit("the last bit has no say yet", "before.", "torch.nn.functional.pad(before, (1, 0))[:, :-1].")
edit("the logarithms of the probabilities are averaged", "told).sum(0)", "told.log()).sum(0).exp()")
edit("the mean logarithm", "before.", "(before / torch.arange(told.shape[1]).clamp(min=1)).")
edit("looked at in its own prediction", "* told", "* torch.where(bits == 1, told, 1 - told)")
edit("squared errors", "torch.where(bits == 1, told, 1 - told).log()", "-(told - bits).square()")
edit("0 and 1 are exchanged", "told, 1 - told", "1 - told, told")
edit("the weights do not sum to 1", "before.softmax(0)", "before.exp()")
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


@wrong("04.unknown_order", "the weights of the first step are those of the end")
def rolled(told, bits):
    return _mix(told, _before(told, bits)[1].cumsum(1).roll(1, 1))
