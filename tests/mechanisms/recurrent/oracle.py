"""The recurrence in NumPy float64, as the papers write it: a state of d_v rows and d_k columns."""

import numpy as np


def recurrence(q, k, v, there=None, alpha=None, beta=None, normalise=False, state=None, wrong=""):
    """Context (n, d_v) and state (d_v, d_k) of one sequence; ``wrong`` names a known mistake."""
    n, d_k = k.shape
    if normalise:
        v = np.concatenate([v, np.ones((n, 1))], 1)
    S = np.zeros((v.shape[1], d_k)) if state is None else state.copy()
    out = np.zeros_like(v)
    for t in range(n):
        if there is not None and not there[t]:
            if wrong == "padding forgets":
                S = S @ np.diag(np.ones(d_k) if alpha is None else alpha[t] * np.ones(d_k))
            continue
        A = np.eye(d_k) if alpha is None else np.diag(alpha[t] * np.ones(d_k))
        if wrong == "decay of the position before":
            A = np.eye(d_k) if t == 0 or alpha is None else np.diag(alpha[t - 1] * np.ones(d_k))
        if wrong == "reads before it writes":
            out[t] = S @ A @ q[t]
        if wrong == "no decay of the sum" and normalise:
            total = S[-1:].copy()
            S = np.concatenate([S[:-1] @ A, total])
        elif wrong != "decay after the write":
            S = S @ A
        if beta is None:
            S = S + np.outer(v[t], k[t])
        else:
            erased, b = np.eye(d_k) - beta[t] * np.outer(k[t], k[t]), beta[t]
            if wrong == "erases without β":
                erased = np.eye(d_k) - np.outer(k[t], k[t])
            if wrong == "adds without β":
                b = 1.0
            if wrong == "erases by features":
                erased = np.diag(1 - beta[t] * np.abs(k[t]))
            if wrong == "adds before it erases":
                S = (S + b * np.outer(v[t], k[t])) @ erased
            else:
                S = S @ erased + b * np.outer(v[t], k[t])
        if wrong == "decay after the write":
            S = S @ A
        if wrong != "reads before it writes":
            out[t] = S @ q[t]
    if normalise and wrong != "not divided":
        total = out[:, -1:]
        out = np.divide(out, total, out=np.zeros_like(out), where=total != 0)
    return (out[:, :-1] if normalise else out), S
