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

edit = edits("09.smallest_window")
edit("what stood 13 before does not arrive", "8", "7")
edit("it also does in a smaller window", "8", "14")
edit("expected a whole number", "8", "7.5")
edit("expected one number", "8", '"8 tokens"')

edit = edits("09.second_round")
edit("contexts[", "(t - sinks) % window", "t % window")
edit("None came back", "return torch", "torch")
edit("the dtype is float32", "torch.stack(contexts)", "torch.stack(contexts).float()")


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
