from itertools import combinations

import torch
from torch.nn import functional as F

from ..collection import wrong


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
    return sum(
        sum(one) / len(one) - sum(values) / len(values) <= found + 1e-9 for one in splits
    ) / len(splits)


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


def _heads(
    x,
    W_in,
    W_o,
    h,
    cut="group",
    join="swap",
    diagonal=0,
    scale=None,
    dim=-1,
    after=False,
    order=(0, 1, 2),
):
    batch, n, d = x.shape
    parts = (x @ W_in).chunk(3, -1)

    def split(part):
        if cut == "view":
            return part.reshape(batch, h, n, d // h)
        return (
            part.unflatten(-1, (d // h, h)).permute(0, 3, 1, 2)
            if cut == "stride"
            else part.unflatten(-1, (h, d // h)).transpose(1, 2)
        )

    q, k, v = (split(parts[i]) for i in order)
    past = torch.ones(n, n, dtype=torch.bool).tril(diagonal)
    scores = q @ k.mT / ((d // h) ** 0.5 if scale is None else scale)
    weights = (
        torch.softmax(scores, dim) * past
        if after
        else torch.softmax(scores.masked_fill(~past, float("-inf")), dim)
    )
    context = weights @ v
    context = {
        "swap": context.transpose(1, 2),
        "flat": context,
        "stride": context.permute(0, 2, 3, 1),
    }[join]
    return context.reshape(batch, n, d) @ W_o


@wrong("06.heads_side_by_side", "reshape alone lays the contexts out head after head")
def heads_as_printed(*given):
    return _heads(*given, join="flat")


@wrong("06.heads_side_by_side", "are cut by a view alone")
def heads_cut_by_view(*given):
    return _heads(*given, cut="view")


@wrong("06.heads_side_by_side", "contexts joined, by views alone")
def heads_by_views(*given):
    return _heads(*given, cut="view", join="flat")


@wrong("06.heads_side_by_side", "interleaved")
def heads_interleaved(*given):
    return _heads(*given, join="stride")


@wrong("06.heads_side_by_side", "a head has every h-th column")
def heads_of_every_third(*given):
    return _heads(*given, cut="stride")


@wrong("06.heads_side_by_side", "there is no causal mask")
def heads_not_causal(*given):
    return _heads(*given, diagonal=99)


@wrong("06.heads_side_by_side", "off by one")
def heads_one_ahead(*given):
    return _heads(*given, diagonal=1)


@wrong("06.heads_side_by_side", "the mask comes after the softmax")
def heads_mask_after(*given):
    return _heads(*given, after=True)


@wrong("06.heads_side_by_side", "over the queries")
def heads_over_the_queries(*given):
    return _heads(*given, dim=-2)


@wrong("06.heads_side_by_side", "the width of a head: expected its root")
def heads_scaled_too_much(x, W_in, W_o, h):
    return _heads(x, W_in, W_o, h, scale=x.shape[-1] // h)


@wrong("06.heads_side_by_side", "expected the root of the width of a head")
def heads_scaled_by_all(x, W_in, W_o, h):
    return _heads(x, W_in, W_o, h, scale=x.shape[-1] ** 0.5)


@wrong("06.heads_side_by_side", "keys and queries are exchanged")
def heads_exchanged(*given):
    return _heads(*given, order=(1, 0, 2))


@wrong("06.heads_side_by_side", "W_o is not used")
def heads_without_output(x, W_in, W_o, h):
    return _heads(x, W_in, torch.eye(x.shape[-1]), h)


@wrong("06.heads_side_by_side", "no gradient reaches W_in")
def heads_detached(x, W_in, W_o, h):
    return _heads(x, W_in.detach(), W_o, h) + 0 * x


def _smoothed(
    logits,
    targets,
    pad,
    epsilon,
    hit=True,
    spread=True,
    count=True,
    rest=lambda cost, right: cost.mean(-1),
):
    cost, real = -torch.log_softmax(logits, -1), targets != pad
    right = cost.gather(-1, targets[..., None])[..., 0]
    masks = [real if own else torch.ones_like(real) for own in (hit, spread, count)]
    return (
        (1 - epsilon) * (right * masks[0]).sum() + epsilon * (rest(cost, right) * masks[1]).sum()
    ) / masks[2].sum()


@wrong(
    "06.smooth_and_padded",
    "the padding counts in the spread part: it is masked in the other part alone",
)
def smooth_as_printed(*given):
    return _smoothed(*given, spread=False)


@wrong("06.smooth_and_padded", "the padding counts in the spread part and in what you divide by")
def smooth_over_all_places(*given):
    return _smoothed(*given, spread=False, count=False)


@wrong("06.smooth_and_padded", "the padding counts in what you divide by")
def smooth_divided_by_all(*given):
    return _smoothed(*given, count=False)


@wrong("06.smooth_and_padded", "the padding counts in the part of the target")
def smooth_other_part(*given):
    return _smoothed(*given, hit=False)


@wrong("06.smooth_and_padded", "words that have to be said")
def smooth_mean(logits, targets, pad, epsilon):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), label_smoothing=epsilon)


@wrong("06.smooth_and_padded", "there is no smoothing")
def smooth_not_at_all(logits, targets, pad, epsilon):
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=pad)


@wrong("06.smooth_and_padded", "the spread part is left out")
def smooth_half(*given):
    return _smoothed(*given, rest=lambda cost, right: 0 * right)


@wrong("06.smooth_and_padded", "over the other V − 1 words")
def smooth_over_the_others(*given):
    return _smoothed(*given, rest=lambda cost, right: (cost.sum(-1) - right) / (cost.shape[-1] - 1))


@wrong("06.smooth_and_padded", "over all words but the padding")
def smooth_over_the_words(logits, targets, pad, epsilon):
    words = [v for v in range(logits.shape[-1]) if v != pad]
    return _smoothed(
        logits, targets, pad, epsilon, rest=lambda cost, right: cost[..., words].mean(-1)
    )


@wrong("06.smooth_and_padded", "over V − 2 words")
def smooth_over_the_rest(logits, targets, pad, epsilon):
    words = [v for v in range(logits.shape[-1]) if v != pad]
    return _smoothed(
        logits,
        targets,
        pad,
        epsilon,
        rest=lambda cost, right: (cost[..., words].sum(-1) - right) / (len(words) - 1),
    )


@wrong("06.smooth_and_padded", "go through a softmax before")
def smooth_twice(logits, *rest):
    return _smoothed(logits.softmax(-1), *rest)


@wrong("06.smooth_and_padded", "a sum over the vocabulary")
def smooth_sum(*given):
    return _smoothed(*given, rest=lambda cost, right: cost.sum(-1))


@wrong("06.smooth_and_padded", "are exchanged")
def smooth_exchanged(logits, targets, pad, epsilon):
    return _smoothed(logits, targets, pad, 1 - epsilon)


@wrong("06.smooth_and_padded", "expected their mean")
def smooth_not_divided(logits, targets, pad, epsilon):
    return _smoothed(logits, targets, pad, epsilon) * (targets != pad).sum()


@wrong("06.smooth_and_padded", "the gradient at logits is not")
def smooth_detached(logits, targets, pad, epsilon):
    return _smoothed(logits, targets, pad, epsilon, rest=lambda cost, right: cost.mean(-1).detach())


def _more(
    words,
    keys,
    values,
    places,
    W_q,
    W_k,
    W_v,
    at=lambda t, m: slice(t, t + m),
    causal=True,
    offset=True,
    own=False,
    wide=True,
    bare=(),
    again=False,
):
    m, t = words.shape[1], keys.shape[1]
    x = words if at is None else words + places[at(t, m)]
    if again:
        keys, values = keys + places[:t] @ W_k, values + places[:t] @ W_v
    q, k, v = ((words if name in bare else x) @ W for name, W in zip("qkv", (W_q, W_k, W_v)))
    keys, values = torch.cat([keys, k], 1), torch.cat([values, v], 1)
    seen = torch.ones(m, t + m, dtype=torch.bool)
    seen = seen.tril(t if offset else 0) if causal else seen
    if own:
        seen = seen & (torch.arange(t + m) >= t)
    scores = q @ keys.mT / (words.shape[-1] ** 0.5 if wide else 1.0)
    return torch.softmax(scores.masked_fill(~seen, float("-inf")), -1) @ values, keys, values


@wrong("06.places_behind_a_cache", "the new words are counted from place 0")
def places_as_printed(*given):
    return _more(*given, at=lambda t, m: slice(m))


@wrong("06.places_behind_a_cache", "one place too far")
def places_too_far(*given):
    return _more(*given, at=lambda t, m: slice(t + 1, t + m + 1))


@wrong("06.places_behind_a_cache", "one place too near")
def places_too_near(*given):
    return _more(*given, at=lambda t, m: slice(max(t - 1, 0), max(t - 1, 0) + m))


@wrong("06.places_behind_a_cache", "all new words stand at place t")
def places_all_the_same(*given):
    return _more(*given, at=lambda t, m: slice(t, t + 1))


@wrong("06.places_behind_a_cache", "the last of all places")
def places_from_the_end(*given):
    return _more(*given, at=lambda t, m: slice(-m, None))


@wrong("06.places_behind_a_cache", "no places at all")
def places_forgotten(*given):
    return _more(*given, at=None)


@wrong("06.places_behind_a_cache", "added to queries and keys alone")
def places_without_values(*given):
    return _more(*given, bare="v")


@wrong("06.places_behind_a_cache", "added to the queries alone")
def places_of_queries(*given):
    return _more(*given, bare="kv")


@wrong("06.places_behind_a_cache", "they have had theirs")
def places_added_again(*given):
    return _more(*given, again=True)


@wrong("06.places_behind_a_cache", "there is no mask within the block")
def places_without_mask(*given):
    return _more(*given, causal=False)


@wrong("06.places_behind_a_cache", "the mask counts from the first column")
def places_mask_from_zero(*given):
    return _more(*given, offset=False)


@wrong("06.places_behind_a_cache", "the new words do not see the cache")
def places_without_past(*given):
    return _more(*given, own=True)


@wrong("06.places_behind_a_cache", "not divided by the root of d")
def places_unscaled(*given):
    return _more(*given, wide=False)


@wrong("06.places_behind_a_cache", "no gradient reaches places")
def places_detached(words, keys, values, places, *rest):
    return _more(words, keys, values, places.detach(), *rest)
