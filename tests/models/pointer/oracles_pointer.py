"""The pointer network from equation 3 of Vinyals, Fortunato and Jaitly 2015, in loops of NumPy."""

import numpy as np

from ..oracles import lstm_step, numbers_of

WRONG = ["repeated indices", "mask after the softmax", "decoder input never updated", "no tanh"]
WRONG += ["decoder reads the target of its own step", "encoder state dropped", "start is zero"]
WRONG += ["encoder cell dropped", "keys of the step before", "padding in the softmax"]
WRONG += ["query from the step before", "softmax over the steps", "last state at the padding"]
WRONG += ["end is never offered"]


def pointer(network, inputs, lengths, targets, wrong=None):
    """Scores before any mask, and probabilities, (B, m, n + 1), zeros behind the end of a row's
    targets; or one of WRONG."""
    numbers = numbers_of(network)
    x_all, lengths, targets = inputs.double().numpy(), lengths.tolist(), targets.tolist()
    batch, n, _ = x_all.shape
    m, d = len(targets[0]), network.hidden_size
    scores, probabilities = np.zeros((batch, m, n + 1)), np.zeros((batch, m, n + 1))
    w_1, w_2 = numbers["score.key_projection.weight"], numbers["score.query_projection.weight"]
    v = numbers["score.vector.weight"][0]
    for b in range(batch):
        embedded = [numbers["embedding.weight"] @ x + numbers["embedding.bias"] for x in x_all[b]]
        h, c, e = np.zeros(d), np.zeros(d), []
        for j in range(n if wrong == "last state at the padding" else lengths[b]):
            h, c = lstm_step(numbers, "encoder", embedded[j], h, c)
            e.append(h)
        if wrong == "encoder state dropped":
            h, c = np.zeros(d), np.zeros(d)
        if wrong == "encoder cell dropped":
            c = np.zeros(d)
        start = np.zeros_like(embedded[0]) if wrong == "start is zero" else numbers["start_input"]
        columns = list(range(n if wrong == "padding in the softmax" else lengths[b]))
        e = e + [np.zeros(d)] * (n - len(e))
        keys = {j: e[j - 1] if wrong == "keys of the step before" else e[j] for j in columns}
        if network.ends and wrong != "end is never offered":
            keys[n] = numbers["end_state"]
        used = set()
        for i, target in enumerate(targets[b]):
            if target < 0:
                break
            before = targets[b][i - 1] if i else None
            fresh = before is None or wrong == "decoder input never updated"
            x = start if fresh else embedded[before]
            if wrong == "decoder reads the target of its own step" and target < n:
                x = embedded[target]
            query = h
            h, c = lstm_step(numbers, "decoder", x, h, c)
            if wrong != "query from the step before":
                query = h
            free = {}
            for j, key in keys.items():
                inside = w_1 @ key + w_2 @ query
                scores[b, i, j] = v @ (inside if wrong == "no tanh" else np.tanh(inside))
                unmasked = wrong in ("repeated indices", "mask after the softmax")
                if network.repeats or j not in used or unmasked:
                    free[j] = scores[b, i, j]
            total = sum(np.exp(u) for u in free.values())
            for j, u in free.items():
                probabilities[b, i, j] = np.exp(u) / total
                if wrong == "mask after the softmax" and j in used:
                    probabilities[b, i, j] = 0.0
            if target < n:
                used.add(target)
    if wrong == "softmax over the steps":
        free = np.where(probabilities > 0, np.exp(scores), 0.0)
        probabilities = free / np.maximum(free.sum(1, keepdims=True), 1e-300)
    return scores, probabilities


def loss(probabilities, targets, softmax_twice=False):
    """Mean of −log p of the targets that are not padding."""
    terms = []
    for b, row in enumerate(targets.tolist()):
        for i, target in enumerate(row):
            if target >= 0:
                p = probabilities[b, i]
                p = np.exp(p) / np.exp(p).sum() if softmax_twice else p
                terms.append(-np.log(p[target]))
    return sum(terms) / len(terms)


def dictionary(network, inputs, lengths, targets):
    """Probabilities (B, m, n + 1) of a fixed dictionary, from the equations in its docstring."""
    numbers = numbers_of(network)
    x_all, targets = inputs.double().numpy(), targets.tolist()
    batch, n, _ = x_all.shape
    result = np.zeros((batch, len(targets[0]), n + 1))
    for b, length in enumerate(lengths.tolist()):
        h, c, e = np.zeros(network.hidden_size), np.zeros(network.hidden_size), []
        for j in range(length):
            x = numbers["embedding.weight"] @ x_all[b, j] + numbers["embedding.bias"]
            h, c = lstm_step(numbers, "encoder", x, h, c)
            e.append(h)
        used = set()
        for i, target in enumerate(targets[b]):
            if target < 0:
                break
            x = numbers["names.weight"][targets[b][i - 1]] if i else numbers["start_input"]
            h, c = lstm_step(numbers, "decoder", x, h, c)
            seen = h
            if "score.vector.weight" in numbers:
                inside = np.stack(e) @ numbers["score.key_projection.weight"].T
                inside = np.tanh(inside + numbers["score.query_projection.weight"] @ h)
                u = inside @ numbers["score.vector.weight"][0]
                a = np.exp(u) / np.exp(u).sum()
                seen = np.concatenate([h, sum(weight * key for weight, key in zip(a, e))])
            logits = numbers["output.weight"] @ seen + numbers["output.bias"]
            rows = {j: logits[j] for j in range(length) if network.repeats or j not in used}
            if network.ends:
                rows[n] = logits[-1]
            for j, u_j in rows.items():
                result[b, i, j] = np.exp(u_j) / sum(np.exp(u) for u in rows.values())
            used.add(target)
    return result
