"""Attention the standard way, beside FlashAttention: the scores and the weights of all pairs are
written to the slow memory and read again.

``S = Q Kᵀ / √d``, ``P = softmax(S)``, ``O = P V``, one after the other, in NumPy.

Source: Dao et al. 2022, algorithms 0 and 3.
"""

from __future__ import annotations

import numpy as np

from .two_memories import FastMemory, check_tables, cut, tile_sizes

__all__ = ["standard_backward", "standard_forward"]


def standard_forward(
    memory: FastMemory, Q: np.ndarray, K: np.ndarray, V: np.ndarray, *, causal: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """O and P, with S and P written to the slow memory and read again. A row of S has to fit.

    Args:
        memory, Q, K, V, causal: as of :func:`flash_forward`.

    Source: Dao et al. 2022, algorithm 0.
    """
    n, d = check_tables(Q, K, V)
    S, O = np.empty((n, n)), np.empty((n, d))
    _product_of_stripes(memory, Q, K, S, d**-0.5)
    for t in range(n):
        row = memory.load(S[t : t + 1])
        if causal:
            row.hide(np.arange(n)[None] > t)
        row -= row.max()
        np.exp(row, out=row)
        row /= row.sum()
        memory.store(row, S[t : t + 1])
        del row
    _product_into_stripes(memory, S, V, O)
    return O, S


def standard_backward(
    memory: FastMemory, Q: np.ndarray, K: np.ndarray, V: np.ndarray, P: np.ndarray, dO: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gradients for Q, K and V from P and that for O; two rows of P have to fit.

    Source: Dao et al. 2022, algorithm 3.
    """
    n, d = check_tables(Q, K, V, dO)
    dS, dQ, dK, dV = np.empty((n, n)), np.empty((n, d)), np.empty((n, d)), np.empty((n, d))
    _product_into_stripes(memory, P.T, dO, dV)
    _product_of_stripes(memory, dO, V, dS)
    for t in range(n):
        row = slice(t, t + 1)
        p, ds = memory.load(P[row]), memory.load(dS[row])
        ds -= ds @ p.T
        ds *= p
        ds *= d**-0.5
        memory.store(ds, dS[row])
        del p, ds
    _product_into_stripes(memory, dS, K, dQ)
    _product_into_stripes(memory, dS.T, Q, dK)
    return dQ, dK, dV


def _product_of_stripes(memory, A, B, target, scale=1.0) -> None:
    """``A Bᵀ`` for two tables ``(N, d)``: a stripe of A is held, B streams by."""
    large, small = tile_sizes(memory.size, A.shape[1], "product")
    for rows in cut(len(A), large):
        a = memory.load(A[rows])
        for columns in cut(len(B), small):
            tile = a @ memory.load(B[columns]).T
            tile *= scale
            memory.store(tile, target[rows, columns])
            del tile
        del a


def _product_into_stripes(memory, A, B, target) -> None:
    """``A B`` for ``(N, N)`` and ``(N, d)``: a stripe of the product is held, both stream by."""
    large, small = tile_sizes(memory.size, B.shape[1], "product")
    for rows in cut(len(A), large):
        total = memory.full(target[rows].shape, 0.0)
        for columns in cut(len(B), small):
            total += memory.load(A[rows, columns]) @ memory.load(B[columns])
        memory.store(total, target[rows])
        del total
