"""Checks of the section on linear attention: a prediction, the features of a key, the states that a
backward pass keeps, the matrix behind a decay, the state that chunks leave.
"""

import numpy as np
import torch

from ..context import array
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import Slips, on_paper


@exercise("09.told_the_same", title="Predict: the same list once more", difficulty=1, minutes=3)
def told_the_same(answer, ctx):
    return ctx.predicted(answer, "only the sum", "only the delta rule", "both", "neither")


def _features(k, most):
    r = np.maximum(np.concatenate([k, -k], -1), 0)
    return np.concatenate([r * np.roll(r, -v, -1) for v in range(1, most + 1)], -1)


_FEATURES = Slips(
    _features,
    {
        "entry i meets entry i − ν: roll the other way": "-v → v",
        "the second half of r is made of −k": "-k → k",
        "the ReLU is missing": "np.maximum(np.concatenate([k, -k], -1), 0) → "
        "np.concatenate([k, -k], -1)",
        "the ReLU is taken of the products: it belongs to [k, −k]": (
            "np.maximum(np.concatenate([k, -k], -1), 0) → np.concatenate([k, -k], -1)",
            "r * np.roll(r, -v, -1) → np.maximum(r * np.roll(r, -v, -1), 0)",
        ),
        "ν begins at 0, which gives squares: it begins at 1": "range(1, most + 1) → range(most)",
        "the offsets stand side by side for each i: first come all i with ν = 1": (
            "np.concatenate([r → np.stack([r",
            "most + 1)], -1) → most + 1)], -1).reshape(len(k), -1)",
        ),
        "the index goes on within each half: it counts on from k into −k": (
            "np.roll(r, -v, -1) → np.concatenate([np.roll(half, -v, -1) for half in "
            "np.split(r, 2, -1)], -1)"
        ),
        "beyond 2d there are zeros: the index goes on at 1": "np.roll(r, -v, -1) → "
        "np.pad(r, ((0, 0), (0, v)))[:, v:]",
        "the two entries are added: expected their product": "r * np → r + np",
        "all rows are rolled as one: roll along the last dimension": "-v, -1) → -v)",
        "k and −k stand in turns in r: first comes k, then −k": "np.concatenate([k, -k], -1) → "
        "np.stack([k, -k], -1).reshape(len(k), -1)",
    },
)


@exercise(
    "09.more_features", title="From the formula: more features for a key", difficulty=2, minutes=8
)
def more_features(answer, ctx):
    n, d, most = ctx.sizes(n=(1, 7), d=(1, 5), most=(1, 4, 4))
    most = min(most, 2 * d - 1)
    k = ctx.normal(n, d)
    shape, name = (n, 2 * d * most), f"with d = {d} and ν up to {most}: the features"
    note = f"{2 * d} features for each of {most} offsets"
    got = ctx.floats(ctx.call(answer, k, most), name, shape, mention=note)
    right, wrong = _FEATURES(array(k), most)
    ctx.close(got, right, name, wrong)
    check_gradients(ctx, answer, (k, most), {0: "k"}, lambda k: _features(k, most))


@on_paper(
    "09.states_kept",
    ("the gibibytes token by token", "the gibibytes in chunks"),
    title="what the backward pass keeps",
    difficulty=2,
    minutes=6,
    within=0.01,
    kind="Budget",
)
def states_kept():
    tokens, chunks = 768, 6
    return (tokens, chunks), {
        "those are the states of one layer: there are 24": (tokens / 24, chunks / 24),
        "those are the states of one head in each layer: there are 16": (tokens / 16, chunks / 16),
        "those are the states of one text: 8 are read at a time": (tokens / 8, chunks / 8),
        "the numbers of a state have four bytes": (tokens / 2, chunks / 2),
        "those are numbers, in units of 2**30: each takes four bytes": (tokens / 4, chunks / 4),
        "a state is a matrix, of 128 × 128 numbers, not of 128": (tokens / 128, chunks / 128),
        "a text has 4,096 / 128 chunks, not 128: a chunk has so many tokens": (tokens, 24),
        "in chunks one state is kept for each chunk, not one for the whole text": (
            tokens,
            tokens / 4096,
        ),
        "those are mebibytes: a gibibyte has 1,024": (tokens * 1024, chunks * 1024),
        "those are bytes: a gibibyte has 2**30": (tokens * 2**30, chunks * 2**30),
        "those are gigabytes, of a thousand million bytes: a gibibyte has 2**30": (
            tokens * 2**30 / 1e9,
            chunks * 2**30 / 1e9,
        ),
        "the chunks come first: expected the gibibytes token by token, then those in chunks": (
            chunks,
            tokens,
        ),
    }


def _decayed(Q, K, alpha):
    left, rows = 0 * alpha, []
    for i in range(len(alpha)):
        before, left = 1 * left, alpha[i] * left
        left[i] = before[i] = 1
        rows.append(left)
    return Q @ K.T * np.stack(rows)


_DECAYED = Slips(
    _decayed,
    {
        "the decays are missing": "alpha[i] * left → 1 * left",
        "the upper triangle is not 0: "
        "no query sees a later key": "np.stack(rows) → (np.stack(rows) + np.triu(np.ones((len(Q), "
        "len(Q))), 1))",
        "the earlier token's own decay is counted: "
        "the product begins after it": "before[i] = 1 → before[i] = alpha[i]",
        "the last decay is missing: the product goes up to i": "append(left) → append(before)",
        "that is the transposed matrix: "
        "a row belongs to a query": "Q @ K.T * np.stack(rows) → (Q @ K.T * np.stack(rows)).T",
        "the keys decay towards the future: "
        "what is long ago is forgotten": "np.stack(rows) → np.stack(rows).T",
        "these are the factors alone: multiply them by the scores": "Q @ K.T * →",
        "a row and a column stand for a key and a query: "
        "Q Kᵀ was asked for, not K Qᵀ": "Q @ K.T → K @ Q.T",
        "the product begins with the earlier token and ends before the later one: "
        "from j + 1 to i": "alpha[i] * left → alpha[i - 1] * left",
        "all is 0 after a decay of 0: there a quotient of two products from the start is 0/0, but "
        "the product between two later tokens is not "
        "0": "np.stack(rows) → np.stack(rows) * (np.cumprod(alpha) > 0)",
        "the sum of the decays is taken: it is their "
        "product": "np.stack(rows) → np.tril(np.cumsum(alpha)[:, None] - np.cumsum(alpha))",
        "each row is decayed by its own decay alone: all between the two tokens "
        "count": "np.stack(rows) → np.tril(np.where(np.eye(len(Q)) > 0, 1, alpha[:, None]))",
    },
)


@exercise("09.decays_as_a_matrix", title="The matrix behind a decay", difficulty=3, minutes=10)
def decays_as_a_matrix(answer, ctx):
    n, d = ctx.sizes(n=(1, 26), d=(1, 4))
    Q, K = ctx.normal(n, d), ctx.normal(n, d)
    alpha = torch.sigmoid(ctx.normal(n))
    ended = alpha.clone()
    ended[n // 2 - 1], ended[n // 2], ended[0], ended[-1] = 1.0, 0.0, 0.0, 0.0
    nan = "a 0 is divided by 0, or a logarithm of 0 is taken"
    for decay, words in (
        (alpha, ""),
        (ended, "where a decay is 0 and another 1: "),
        (torch.ones(n), "where all decays are 1: "),
    ):
        got = ctx.floats(ctx.call(answer, Q, K, decay), f"{words}A", (n, n), nan=nan)
        right, wrong = _DECAYED(*map(array, (Q, K, decay)))
        ctx.close(got, right, f"{words}A", wrong)
    names = {0: "Q", 1: "K", 2: "alpha"}
    check_gradients(ctx, answer, (Q, K, ended), names, _decayed, nan=nan)


def _contexts(Q, K, V, gamma):
    S, out = np.zeros((K.shape[1], V.shape[1])), []
    for q, k, v in zip(Q, K, V):
        S = gamma * S + np.outer(k, v)
        out.append(q @ S)
    return np.stack(out)


_CONTEXTS = Slips(_contexts, {"nothing decays": "gamma * S → S"})


def _state(K, V, gamma, size):
    last, since = len(K) % size or size, np.arange(len(K))[::-1]
    decay = np.where(since >= last, gamma**since, gamma**since)  # of earlier chunks, of the last
    return (K * decay[:, None]).T @ V


_LATE = "gamma ** (since + size - last)"
_STATE = Slips(
    _state,
    {
        "nothing decays": "* decay[:, None] →",
        "all of it has decayed once too often": "return → return gamma *",
        "all of it has decayed as if the last chunk were full": "return → return gamma ** (size - "
        "last) *",
        "what the last chunk adds has decayed as if the chunk were "
        "full": f"gamma**since) → {_LATE})",
        "what came before the last chunk has decayed as if the chunk were "
        "full": f"gamma**since, → {_LATE},",
        "that is the state before the last chunk": (
            "gamma**since, → gamma ** np.maximum(since - last, 0),",
            "gamma**since) → 0)",
        ),
        "the state is divided by the decay of a whole chunk: "
        "nothing need be divided": "return → return gamma**-size *",
    },
)


@exercise(
    "09.after_the_prompt",
    title="Find the bug: it reads well and writes badly",
    difficulty=3,
    minutes=10,
)
def after_the_prompt(answer, ctx):
    full, size, d, d_v = ctx.sizes(full_chunks=(0, 4), size=(1, 6), d=(1, 4), d_v=(1, 3))
    gamma = ctx.integers(5, 10) / 10
    # the last chunk is short by two first: by one several mistakes are the same
    cases = [(size, full * size + max(1, size - short), gamma) for short in (2, 1, 0)]
    # and a chunk that is nearly empty, with powers of γ that float32 does not hold
    for size, n, gamma in (*cases, (256, 300, 0.5)):
        Q, K, V = ctx.normal(n, d), ctx.normal(n, d), ctx.normal(n, d_v)
        given, where = (Q, K, V, gamma, size), f"for {n} tokens in chunks of {size}: "
        shapes = ((n, d_v), (d, d_v))
        got = ctx.parts(ctx.call(answer, *given), ("context", "state"), shapes)
        context, state = (
            ctx.floats(part, f"{where}the {name}", shape)
            for part, name, shape in zip(got, ("context", "state"), shapes)
        )
        right, wrong = _CONTEXTS(array(Q), array(K), array(V), gamma)
        ctx.close(context, right, f"{where}the context", wrong)
        right, wrong = _STATE(array(K), array(V), gamma, size)
        ctx.close(state, right, f"{where}the state", wrong)
    names = {0: "Q", 1: "K", 2: "V"}
    check_gradients(ctx, answer, given, names, lambda *now: _contexts(*now, gamma=gamma), part=0)
    del names[0]  # the queries do not change the state
    check_gradients(
        ctx, answer, given, names, lambda *now: _state(*now, gamma=gamma, size=size), part=1
    )
