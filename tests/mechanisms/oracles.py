"""Attention in NumPy float64, from the formulas with loops: slow, independent of the library."""

import math

import numpy as np
import torch
from torch.nn.functional import normalize


def content(s, h):
    return float(s @ h) / (math.sqrt(float(s @ s)) * math.sqrt(float(h @ h)))


def _additive(p, s, h, j):
    w = np.concatenate([p["query_projection.weight"], p["key_projection.weight"]], axis=1)
    return p["vector.weight"][0] @ np.tanh(w @ np.concatenate([s, h]))


# Per score: the number that it gives to a query s and the key h at position j, from its parameters.
ORACLES = {
    "content": lambda p, s, h, j: content(s, h),
    "additive": _additive,
    "location": lambda p, s, h, j: (p["rows.weight"] @ s)[j],
    "general": lambda p, s, h, j: s @ p["key_projection.weight"] @ h,
    "dot": lambda p, s, h, j: sum(a * b for a, b in zip(s, h)),
    "scaled_dot": lambda p, s, h, j: sum(a * b for a, b in zip(s, h)) / math.sqrt(len(h)),
    "reduced_rank": lambda p, s, h, j: (
        (p["query_projection.weight"] @ s) @ (p["key_projection.weight"] @ h)
    ),
}

# Per score: mistakes that the oracle must notice, as functions of the score, queries and keys.
KNOWN_WRONG = {
    "additive": {
        "relu for tanh": lambda s, q, k: s.vector(
            (s.query_projection(q)[:, :, None] + s.key_projection(k)[:, None]).relu()
        ).squeeze(-1),
        "tanh of each part": lambda s, q, k: s.vector(
            s.query_projection(q).tanh()[:, :, None] + s.key_projection(k).tanh()[:, None]
        ).squeeze(-1),
        # a published layer without W_q and W_k: only v learns
        "no projections": lambda s, q, k: (
            (q[:, :, None] + k[:, None])[..., :5].tanh() @ s.vector.weight[0]
        ),
        "no tanh": lambda s, q, k: s.vector(
            s.query_projection(q)[:, :, None] + s.key_projection(k)[:, None]
        ).squeeze(-1),
    },
    "scaled_dot": {
        "no scale": lambda s, q, k: q @ k.mT,
        "scaled by d": lambda s, q, k: q @ k.mT / q.shape[-1],
        "scaled by the length": lambda s, q, k: q @ k.mT / math.sqrt(k.shape[-2]),
    },
    "content": {
        "no norm": lambda s, q, k: q @ k.mT,
        "norm over positions": lambda s, q, k: normalize(q, dim=-2) @ normalize(k, dim=-2).mT,
    },
    "general": {"W transposed": lambda s, q, k: q @ (k @ s.key_projection.weight).mT},
    "location": {"reads the key": lambda s, q, k: q @ k.mT},
    "dot": {"cosine": lambda s, q, k: normalize(q, dim=-1) @ normalize(k, dim=-1).mT},
    "reduced_rank": {"U for V": lambda s, q, k: s.query_projection(q) @ s.query_projection(k).mT},
}


def make(score):
    """The NumPy twin of a score module: a function of a query, a key and the key's position."""
    p = {name: value.detach().double().numpy() for name, value in score.named_parameters()}
    return lambda s, h, j: float(ORACLES[score.name](p, s, h, j))


def scores(score, query, key):
    """Every query (batch, m, d) against every key (batch, n, d), one pair at a time."""
    one = make(score)
    table = [
        [[one(s, h, j) for j, h in enumerate(row_k.numpy())] for s in row_q.numpy()]
        for row_q, row_k in zip(query, key)
    ]
    return torch.tensor(table, dtype=torch.float64)


def attention(score, query, key, value, mask):
    """Context and weights for query (m, d_q), key (n, d_k), value (n, d_v) and mask (m, n)."""
    one, weights = make(score), np.zeros((len(query), len(key)))
    for t in range(len(query)):
        allowed = np.flatnonzero(mask[t])
        if len(allowed):
            e = np.array([one(query[t], key[j], j) for j in allowed])
            e = np.exp(e - e.max())
            weights[t, allowed] = e / e.sum()
    return weights @ value, weights
