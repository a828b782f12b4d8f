"""Attention in NumPy float64, written from the formulas with loops: slow, and independent of the
library.
"""

import math

import numpy as np
import torch


def content(s, h):
    return float(s @ h) / (math.sqrt(float(s @ s)) * math.sqrt(float(h @ h)))


def make(score):
    """The NumPy twin of a score module: a function of one query and one key (and the key's
    position).
    """
    p = {name: value.detach().double().numpy() for name, value in score.named_parameters()}
    if score.name == "content":
        return lambda s, h, j: content(s, h)
    if score.name == "additive":
        w = np.concatenate([p["query_projection.weight"], p["key_projection.weight"]], axis=1)
        return lambda s, h, j: float(p["vector.weight"][0] @ np.tanh(w @ np.concatenate([s, h])))
    if score.name == "location":
        return lambda s, h, j: float((p["rows.weight"] @ s)[j])
    if score.name == "general":
        return lambda s, h, j: float(s @ p["key_projection.weight"] @ h)
    if score.name == "dot":
        return lambda s, h, j: float(sum(a * b for a, b in zip(s, h)))
    if score.name == "scaled_dot":
        return lambda s, h, j: float(sum(a * b for a, b in zip(s, h))) / math.sqrt(len(h))
    if score.name == "reduced_rank":
        return lambda s, h, j: float(
            (p["query_projection.weight"] @ s) @ (p["key_projection.weight"] @ h)
        )
    raise KeyError(score.name)


def scores(score, query, key):
    """Every query (batch, m, d) against every key (batch, n, d), one pair at a time."""
    one = make(score)
    table = [
        [[one(s, h, j) for j, h in enumerate(row_k.numpy())] for s in row_q.numpy()]
        for row_q, row_k in zip(query, key)
    ]
    return torch.tensor(table, dtype=torch.float64)


def attention(score, query, key, value, mask):
    """Context and weights for ``query (m, d_q)``, ``key (n, d_k)``, ``value (n, d_v)``, ``mask
    (m, n)``.
    """
    one = make(score)
    m, n = len(query), len(key)
    weights = np.zeros((m, n))
    for t in range(m):
        allowed = [j for j in range(n) if mask[t, j]]
        if not allowed:
            continue
        e = {j: one(query[t], key[j], j) for j in allowed}
        top = max(e.values())
        total = sum(math.exp(v - top) for v in e.values())
        for j in allowed:
            weights[t, j] = math.exp(e[j] - top) / total
    return weights @ value, weights
