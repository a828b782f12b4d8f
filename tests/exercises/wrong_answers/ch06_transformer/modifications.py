from itertools import combinations

import torch

from ..collection import edits, wrong

edit = edits("06.shifted_norm")
edit("expected one of 'both'", "layer norm only", "layer norm")
edit("a bool came back", '"layer norm only"', "True")
edit("None came back", 'return "layer norm only"', "pass")

edit = edits("06.swiglu")
edit("gate and value are exchanged", "(x @ gate) * (x @ value)", "(x @ value) * (x @ gate)")
edit("this is GLU", "torch.nn.functional.silu", "torch.sigmoid")
edit("this is ReGLU", "silu", "relu")
edit("this is GeGLU", "silu", "gelu")
edit("this is LiGLU", "torch.nn.functional.silu", "")
edit("a gate multiplies", "* (x @ value)", "+ (x @ value)")
edit("value is missing", "* (x @ value)", "")
edit("swish is taken of the product", "(x @ gate) * (x @ value)", "((x @ gate) * (x @ value))")
edit("both go through swish", "* (x @ value)", "* torch.nn.functional.silu(x @ value)")
edit("gradient", "silu(x @ gate)", "silu(x @ gate).detach()")


def _splits(changed, plain):
    values, first = [*changed, *plain], len(changed)
    for chosen in combinations(range(len(values)), first):
        rest = [v for k, v in enumerate(values) if k not in chosen]
        yield sum(values[k] for k in chosen) / first - sum(rest) / len(rest)


def _found(changed, plain):
    return sum(changed) / len(changed) - sum(plain) / len(plain)


edit = edits("06.seeds_enough")
edit("there is a 2 under the root", "72", "36")
edit("the number of seeds is not 100", "72", "100")
edit("expected one number", "72", '"seventy-two"')

edit = edits("06.chance_of_better")
edit("is not counted: it is one of all", "for d in choices) /", "for d in choices[1:]) /")
edit("not counted", "<= difference(changed) + 1e-9", "< difference(changed) - 1e-9")
edit("chance of being worse", "<= difference(changed) + 1e-9", ">= difference(changed) - 1e-9")
edit("in either direction", "d <= difference(changed) +", "abs(d) >= abs(difference(changed)) -")
edit("difference of the means", "sum(d…", "difference(changed)")
edit("1 minus the chance", "return sum(d <=", "return 1 - sum(d <=")
edit("differences up to 1e-9 taken as equal", "1e-9", "3e-10")
edit("differences up to 1e-9 taken as equal", "1e-9", "1e-8")
edit(
    "mean of the rest",
    "difference(changed)",
    "sum(changed) / count - sum(plain) / len(plain)",
    "(total - sum(chosen)) / len(plain)",
    "total / len(values)",
)
edit(
    "share of pairs",
    "return sum(d <= difference(changed) + 1e-9 for d in choices) / len(choices)",
    "return sum(a < b for a in changed for b in plain) / (len(changed) * len(plain))",
)


@wrong("06.chance_of_better", "expected their share among all")
def count(changed, plain):
    found = _found(changed, plain)
    return sum(d <= found + 1e-9 for d in _splits(changed, plain))


@wrong("06.chance_of_better", "choose places, not values")
def rest_by_value(changed, plain):
    values, found, hits = [*changed, *plain], _found(changed, plain), 0
    splits = list(combinations(values, len(changed)))
    for one in splits:
        rest = [v for v in values if v not in one]
        hits += sum(one) / len(one) - sum(rest) / max(1, len(rest)) <= found + 1e-9
    return hits / len(splits)


@wrong("06.chance_of_better", "is 0.")
def sampled(changed, plain):
    generator = torch.Generator().manual_seed(0)
    values, first, found, hits = (
        torch.tensor([*changed, *plain]),
        len(changed),
        _found(changed, plain),
        0,
    )
    for _ in range(40):
        order = values[torch.randperm(len(values), generator=generator)]
        hits += float(order[:first].mean() - order[first:].mean()) <= found + 1e-6
    return hits / 40


@wrong("06.heads_side_by_side", "reshape alone lays the contexts out head after head")
def heads_as_printed(x, W_in, W_o, h):
    q, k, v = (part.unflatten(-1, (h, -1)).transpose(1, 2) for part in (x @ W_in).chunk(3, -1))
    past = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
    scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~past, float("-inf"))
    return (torch.softmax(scores, -1) @ v).reshape(x.shape) @ W_o


edit = edits("06.heads_side_by_side")
edit(
    "are cut by a view alone",
    "part.unflatten(-1, (num_heads, width)).transpose(1, 2)",
    "part.reshape(batch, num_heads, n, width)",
)
edit("no gradient reaches W_in", "x @ W_in", "x @ W_in.detach()")


@wrong(
    "06.smooth_and_padded",
    "the padding counts in the spread part: it is masked in the other part alone",
)
def smooth_as_printed(logits, targets, pad, epsilon):
    cost, real = -torch.log_softmax(logits, -1), targets != pad
    hit = cost.gather(-1, targets[..., None])[..., 0] * real
    return ((1 - epsilon) * hit + epsilon * cost.mean(-1)).sum() / real.sum()


edit = edits("06.smooth_and_padded")
edit(
    "the padding counts in the spread part and in what you divide by",
    "return loss.masked_fill(~real, 0.0).sum() / real.sum()",
    "return ((1 - epsilon) * hit * real + epsilon * spread).mean()",
)
edit("the padding counts in what you divide by", "/ real.sum()", "/ real.numel()")
edit(
    "the padding counts in the part of the target",
    "return loss.masked_fill(~real, 0.0).sum() / real.sum()",
    "return ((1 - epsilon) * hit + epsilon * spread * real).sum() / real.sum()",
)
edit("words that have to be said", "loss.masked_fill(~real, 0.0).sum() / real.sum()", "loss.mean()")
edit("there is no smoothing", "(1 - epsilon) * hit + epsilon * spread", "hit")
edit(
    "expected its share ε / V of the rest on top", "* spread", "* (spread - hit / logits.shape[-1])"
)
edit("expected those equal to pad", "targets != pad", "targets != 0")
edit("the spread part is left out", "+ epsilon * spread", "")
edit(
    "over the other V − 1 words",
    "epsilon * spread",
    "epsilon * (spread * logits.shape[-1] - hit) / (logits.shape[-1] - 1)",
)
edit("over all words but the padding", ".mean", "[..., torch.arange(log_p.shape[-1]) != pad].mean")
edit(
    "over V − 2 words",
    "-log_p.mean(dim=-1)",
    "(-log_p[..., torch.arange(log_p.shape[-1]) != pad].sum(-1) - hit) / (log_p.shape[-1] - 2)",
)
edit("go through a softmax before", "log_softmax(logits", "log_softmax(logits.softmax(-1)")
edit("a sum over the vocabulary", "-log_p.mean(dim=-1)", "-log_p.sum(dim=-1)")
edit("are exchanged", "(1 - epsilon) * hit + epsilon", "epsilon * hit + (1 - epsilon)")
edit("expected their mean", "/ real.sum()", "")
edit("the gradient at logits is not", "epsilon * spread", "epsilon * spread.detach()")


@wrong("06.places_behind_a_cache", "the new words are counted from place 0")
def places_as_printed(words, keys, values, places, W_q, W_k, W_v):
    m, t = words.shape[1], keys.shape[1]
    x = words + places[:m]
    keys, values = torch.cat([keys, x @ W_k], 1), torch.cat([values, x @ W_v], 1)
    seen = torch.ones(m, t + m, dtype=torch.bool).tril(t)
    scores = (x @ W_q @ keys.mT / x.shape[-1] ** 0.5).masked_fill(~seen, float("-inf"))
    return torch.softmax(scores, -1) @ values, keys, values


edit = edits("06.places_behind_a_cache")
edit("added to queries and values alone", "x @ W_k", "words @ W_k")
edit("no gradient reaches places", "places[t : t + m]", "places[t : t + m].detach()")
