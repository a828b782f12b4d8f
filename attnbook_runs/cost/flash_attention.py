"""FlashAttention in NumPy, forward and backward, on two levels of memory whose traffic is counted.

``S = Q Kᵀ / √d``, ``P = softmax(S)``, ``O = P V``

S is visited in tiles that fit the fast memory, and each is done with at once: the softmax is
rescaled when a later tile brings a larger score, and the backward pass computes the tiles of P
again, from Q, K and one number per row.

Each kind of pass holds large tiles of one side and lets small tiles of the other stream by. How
many numbers move depends on how often the small ones have to pass: N divided by the rows of a large
tile.

Sources: Dao et al. 2022, algorithms 1 and 4; Dao 2023, section 3.1 (queries outside).
"""

from __future__ import annotations

import numpy as np

from attnbook.validate import check_choice

from .two_memories import FastMemory, Tile, check_tables, cut, tile_sizes

__all__ = ["flash_backward", "flash_forward"]


def flash_forward(
    memory: FastMemory,
    Q: np.ndarray,
    K: np.ndarray,
    V: np.ndarray,
    *,
    causal: bool = False,
    outer: str = "queries",
) -> tuple[np.ndarray, np.ndarray]:
    """Attention without S and P in the slow memory.

    Args:
        memory: where it is computed, and counted.
        Q, K, V: ``(N, d)``.
        causal: row t sees keys 0 … t; tiles that nobody may see are skipped.
        outer: what is held while the other passes by. "queries": each row of O is written once (Dao
            2023); "keys": K and V are read once, O at each visit (Dao et al. 2022, algorithm 1).

    Returns:
        O ``(N, d)`` and ``L = log Σ_j exp S_tj`` ``(N, 1)``, all that the backward pass needs
        beside its inputs.
    """
    n, d = check_tables(Q, K, V)
    large, small = tile_sizes(memory.size, d, check_choice("outer", outer, ("queries", "keys")))
    O, L = np.empty((n, d)), np.empty((n, 1))
    if outer == "queries":
        for rows in cut(n, large):
            _stripe(memory, Q, K, V, O, L, rows, small, causal)
        return O, L
    total = np.empty((n, 1))  # of the softmax, beside the maximum that waits in L
    for columns in cut(n, large):
        k, v = memory.load(K[columns]), memory.load(V[columns])
        for rows in cut(n, small):
            if _sees(rows, columns, causal):
                _visit(memory, Q, k, v, O, L, total, rows, columns, causal)
        del k, v
    return O, L


def _stripe(memory, Q, K, V, O, L, rows, small, causal) -> None:
    """Some queries, past which all keys and values stream."""
    n, d = Q.shape
    q, state = memory.load(Q[rows]), _empty(memory, rows, d)
    for columns in cut(n, small):
        if _sees(rows, columns, causal):
            k, v = memory.load(K[columns]), memory.load(V[columns])
            state = _absorb(memory, state, q, k, v, rows, columns, causal)
            del k, v
    _finish(memory, state, O[rows], L[rows])


def _visit(memory, Q, k, v, O, L, total, rows, columns, causal) -> None:
    """Some keys meet some queries, whose state waits in the slow memory."""
    n, d = Q.shape
    q, slow = memory.load(Q[rows]), (L[rows], total[rows], O[rows])
    first, last = columns.start == 0, columns.stop >= (rows.stop if causal else n)
    state = _empty(memory, rows, d) if first else tuple(memory.load(part) for part in slow)
    state = _absorb(memory, state, q, k, v, rows, columns, causal)
    if last:
        _finish(memory, state, O[rows], L[rows])
    else:
        for part, place in zip(state, slow):
            memory.store(part, place)


def _empty(memory, rows, d) -> tuple[Tile, Tile, Tile]:
    """Maximum, sum and output of queries that have met no key."""
    count = rows.stop - rows.start
    return tuple(memory.full((count, w), x) for w, x in ((1, -np.inf), (1, 0.0), (d, 0.0)))


def _absorb(memory, state, q, k, v, rows, columns, causal) -> tuple[Tile, Tile, Tile]:
    """Maximum, sum and output after one tile of scores more."""
    top, total, out = state
    p = _scores(memory, q, k, rows, columns, causal)
    new = np.maximum(top, p.max())  # type: ignore[call-overload]
    p -= new
    np.exp(p, out=p)
    top -= new
    np.exp(top, out=top)  # what the old sums shrink by
    total *= top
    total += p.sum()
    out *= top
    out += p @ v
    return new, total, out


def _finish(memory, state, O, L) -> None:
    top, total, out = state
    out /= total
    memory.store(out, O)
    memory.store(top + np.log(total), L)


def _scores(memory, q, k, rows, columns, causal) -> Tile:
    memory.visit(rows, columns)
    s = q @ k.T
    s *= q.shape[-1] ** -0.5
    if causal:
        s.hide(_later(rows, columns))
    return s


def flash_backward(
    memory: FastMemory,
    Q: np.ndarray,
    K: np.ndarray,
    V: np.ndarray,
    O: np.ndarray,
    L: np.ndarray,
    dO: np.ndarray,
    *,
    causal: bool = False,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gradients for Q, K and V from that for O, with P computed again.

    ``P = exp(S − L)``, ``dV = Pᵀ dO``, ``D = rowsum(dO ∘ O)``, ``dS = P ∘ (dO Vᵀ − D)``,
    ``dQ = dS K / √d``, ``dK = dSᵀ Q / √d``

    Args:
        memory, Q, K, V, causal: as of :func:`flash_forward`, which gave O and L.
        dO: ``(N, d)``.

    Source: Dao et al. 2022, algorithm 4.
    """
    n, d = check_tables(Q, K, V, O, dO)
    large, small = tile_sizes(memory.size, d, "backward")
    dQ, dK, dV, D = np.zeros((n, d)), np.empty((n, d)), np.empty((n, d)), np.empty((n, 1))
    for rows in cut(n, small):
        o = memory.load(O[rows])
        o *= memory.load(dO[rows])
        memory.store(o.sum(), D[rows])
        del o
    for columns in cut(n, large):
        k, v = memory.load(K[columns]), memory.load(V[columns])
        dk, dv = memory.full(k.shape, 0.0), memory.full(v.shape, 0.0)
        for rows in cut(n, small):
            if _sees(rows, columns, causal):
                _visit_again(memory, k, v, dk, dv, Q, dO, L, D, dQ, rows, columns, causal)
        memory.store(dk, dK[columns])
        memory.store(dv, dV[columns])
        del k, v, dk, dv
    return dQ, dK, dV


def _visit_again(memory, k, v, dk, dv, Q, dO, L, D, dQ, rows, columns, causal) -> None:
    q, do = memory.load(Q[rows]), memory.load(dO[rows])
    p = _scores(memory, q, k, rows, columns, causal)
    p -= memory.load(L[rows])
    np.exp(p, out=p)
    dv += p.T @ do
    ds = do @ v.T
    ds -= memory.load(D[rows])
    ds *= p
    ds *= q.shape[-1] ** -0.5
    dk += ds.T @ q
    dq = memory.load(dQ[rows])
    dq += ds @ k
    memory.store(dq, dQ[rows])


def _sees(rows: slice, columns: slice, causal: bool) -> bool:
    """Whether anybody in a tile may look at anything in it."""
    return not causal or columns.start < rows.stop


def _later(rows: slice, columns: slice) -> np.ndarray:
    return np.arange(columns.start, columns.stop) > np.arange(rows.start, rows.stop)[:, None]
