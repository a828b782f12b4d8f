import torch

from ..collection import edits, wrong

edit = edits("06.shifted_norm")
edit("expected one of 'both'", "layer norm only", "layer norm")
edit("a bool came back", '"layer norm only"', "True")
edit("None came back", 'return "layer norm only"', "pass")

edit = edits("06.swiglu")
edit("swish is taken of the product", "(x @ gate) * (x @ value)", "((x @ gate) * (x @ value))")
edit("both go through swish", "* (x @ value)", "* torch.nn.functional.silu(x @ value)")
edit("gradient", "silu(x @ gate)", "silu(x @ gate).detach()")


def _found(changed, plain):
    return sum(changed) / len(changed) - sum(plain) / len(plain)


edit = edits("06.seeds_enough")
edit("there is a 2 under the root", "72", "36")
edit("the number of seeds is not 100", "72", "100")
edit("expected one number", "72", '"seventy-two"')

edit = edits("06.chance_of_better")
edit("differences up to 1e-9 taken as equal", "1e-9", "3e-10")
edit("differences up to 1e-9 taken as equal", "1e-9", "1e-8")


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
