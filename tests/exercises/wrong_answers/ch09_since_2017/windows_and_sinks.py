import torch

from ..collection import edits, wrong

edit = edits("09.every_second_layer")
edit("the layers that see everything", "3075", "3072")
edit("is not 3000", "3075", "3000")
edit("expected one number", "3075", '"3075 MiB"')

edit = edits("09.second_mark")
edit("expected one of 'for good'", "for 63 letters", "for a while")
edit("a float came back", '"for 63 letters"', "63.0")
edit("None came back", 'return "for 63 letters"', "pass")

edit = edits("09.sink_afterwards")
edit("as it was", " * torch.sigmoid(L - s)[:, None]", "")
edit("one more in the denominator", "L - s", "L + 0 * s")
edit("the share of the sink", "L - s", "s - L")
edit("expected its exponential", "torch.sigmoid(L - s)", "(1 / (1 + s * (-L).exp()))")
edit("the logarithms are compared", "torch.sigmoid(L - s)", "(L / (L + s))")
edit("an exponential overflows", "torch.sigmoid(L - s)", "(L.exp() / (s.exp() + L.exp()))")
edit("the shape is", "[:, None]", "[:, None, None]")
edit("None came back", "return context", "context")
edit("no gradient reaches s", "L - s", "L - s.detach()")
edit("no gradient reaches L", "L - s", "L.detach() - s")
edit("no gradient reaches s", "L - s", "L - s.item()")


@wrong("09.sink_afterwards", "a 0 is divided by 0")
def from_the_larger(context, L, s):
    shift = L.detach()
    keys, sink = (L - shift).exp(), (s - shift).clamp(max=80).exp()
    return context * (keys / (keys + sink))[:, None]


edit = edits("09.second_round")
edit("forgotten", "t if t < sinks else sinks + (t - sinks)", "t", "t + 1, size", "t + 1, window")
edit("contexts[", "(t - sinks) % window", "t % window")
edit("not divided by the root", " / K.shape[1] ** 0.5", "")
edit("None came back", "return torch", "torch")


@wrong("09.second_round", "begins its second round")
def as_printed(Q, K, V, sinks, window):
    size = sinks + window
    keys, values = torch.zeros(size, K.shape[1]), torch.zeros(size, V.shape[1])
    contexts = []
    for t in range(len(Q)):
        slot = t % size
        keys[slot], values[slot] = K[t], V[t]
        filled = min(t + 1, size)
        scores = keys[:filled] @ Q[t] / K.shape[1] ** 0.5
        contexts.append(scores.softmax(-1) @ values[:filled])
    return torch.stack(contexts)


def _masked(Q, K, V, seen):
    return (Q @ K.T / K.shape[1] ** 0.5).masked_fill(~seen, -1e9).softmax(-1) @ V


@wrong("09.second_round", "one token too few")
def one_too_few(Q, K, V, sinks, window):
    t = torch.arange(len(Q))
    distance = t[:, None] - t
    seen = (distance < max(1, window - 1)) | (t < sinks)
    return _masked(Q, K, V, seen & (distance >= 0))


@wrong("09.second_round", "one token too many")
def one_too_many(Q, K, V, sinks, window):
    t = torch.arange(len(Q))
    distance = t[:, None] - t
    return _masked(Q, K, V, (distance >= 0) & ((distance <= window) | (t < sinks)))


@wrong("09.second_round", "everything stays in view")
def all_in_view(Q, K, V, sinks, window):
    return _masked(Q, K, V, torch.ones(len(Q), len(Q)).tril().bool())


@wrong("09.second_round", "does not see itself")
def looks_before_it_writes(Q, K, V, sinks, window):
    t = torch.arange(len(Q))
    distance = t[:, None] - t
    seen = (distance > 0) & ((distance <= window) | (t < sinks))
    return _masked(Q, K, V, seen) * seen.any(1, keepdim=True)
