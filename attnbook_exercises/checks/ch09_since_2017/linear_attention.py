"""Checks of the section on linear attention: a bill on paper, a prediction, a step of gated
DeltaNet, the matrix behind a decay, the state that chunks leave behind.
"""

import numpy as np
import torch

from ..context import array
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import Slips, on_paper


@on_paper(
    "09.state_or_cache",
    "the number of tokens",
    title="when is the cache larger?",
    difficulty=1,
    minutes=4,
)
def state_or_cache():
    return 512, {
        "the states have numbers of four bytes, those of the cache two": 256,
        "a token leaves a key and a value in the cache": 1024,
        "8 heads of keys and values are cached, not 32": 128,
        "that is for a single head of the state: there are 32": 16,
        "8 heads of keys and values are cached, not 32; and the states have numbers of four "
        "bytes": 64,
        "that is for a single head of the cache: there are 8": 4096,
        "a head's state has 128 times 128 numbers": 4,
        "those are the bytes of the states: divide by what a token leaves in the cache": 2**21,
    }


@exercise("09.told_the_same", title="Predict: the same list once more", difficulty=1, minutes=3)
def told_the_same(answer, ctx):
    return ctx.predicted(answer, "only the sum", "only the delta rule", "both", "neither")


def _written(S, q, k, v, alpha, beta):
    """The state behind one step; the query does not change it."""
    alpha, beta, k, v = alpha[:, None, None], beta[:, None, None], k[:, None], v[:, None]
    decayed = alpha * S
    return decayed + k.swapaxes(1, 2) * beta * (v - k @ decayed)


_WRITTEN = Slips(
    _written,
    {
        "what the key finds is not taken out: "
        "that is the sum with a decay": "(v - k @ decayed) → v",
        "the state does not decay": "alpha * S → S",
        "the old state came back": "decayed + k.swapaxes(1, 2) * beta * (v - k @ decayed) → S",
        "what is written has the wrong sign: "
        "v is added, and what the key finds is taken out": "decayed + k → decayed - k",
        "the key looks at the state before its decay: it decays first": "k @ decayed → k @ S",
        "the decay comes last: it comes before the writing": (
            "alpha * S → S",
            "return decayed + k.swapaxes(1, 2) * beta * (v - k @ decayed) → return alpha * "
            "(decayed + k.swapaxes(1, 2) * beta * (v - k @ decayed))",
        ),
        "β multiplies the value alone: it multiplies what is taken out, "
        "too": "beta * (v - k @ decayed) → (beta * v - k @ decayed)",
        "β multiplies what is taken out alone: "
        "it multiplies the value, too": "beta * (v - k @ decayed) → (v - beta * (k @ decayed))",
        "what the key finds is added: it is taken out": "v - k → v + k",
        "β is missing": "beta * ( → (",
        "α and β are swapped": ("alpha * S → beta * S", "* beta * → * alpha *"),
        "the writing is missing: "
        "that is the decayed state": "+ k.swapaxes(1, 2) * beta * (v - k @ decayed) →",
        "what the query finds is taken out: it is what the key finds": "v - k @ → v - q[:, None] @",
    },
)


def _read(S, q, k, v, alpha, beta):
    return (q[:, None] @ _written(S, q, k, v, alpha, beta))[:, 0]


_READ = Slips(
    _read,
    {
        "the query reads before the token is "
        "written": "_written(S, q, k, v, alpha, beta) → (alpha[:, None, None] * S)",
        "the query reads the old state": "_written(S, q, k, v, alpha, beta) → S",
        "the key reads: the query does": "q[:, None] → k[:, None]",
    },
)


@exercise("09.gated_delta_step", title="One step of gated DeltaNet", difficulty=2, minutes=8)
def gated_delta_step(answer, ctx):
    h, d_k, d_v = ctx.sizes(h=(1, 4), d_k=(1, 4), d_v=(1, 6))
    gates = torch.sigmoid(ctx.normal(2, h))
    for alpha, beta in (gates, (gates > 0.5).float()):
        _gated_delta_step(answer, ctx, d_k, d_v, alpha, beta)


def _gated_delta_step(answer, ctx, d_k, d_v, alpha, beta):
    h = len(alpha)
    S = ctx.normal(h, d_k, d_v)
    q, k = ctx.normal(h, d_k), ctx.normal(h, d_k)
    k = k / k.norm(dim=-1, keepdim=True)
    v = ctx.normal(h, d_v)
    given = (S, q, k, v, alpha, beta)
    shapes = ((h, d_v), (h, d_k, d_v))
    got = ctx.parts(ctx.call(answer, *given), ("o", "S"), shapes)
    o, state = (ctx.floats(part, name, shape) for part, name, shape in zip(got, ("o", "S"), shapes))
    right, wrong = _WRITTEN(*map(array, given))
    ctx.close(state, right, "the new state", wrong)
    right, wrong = _READ(*map(array, given))
    ctx.close(o, right, "o", wrong)
    names = dict(enumerate(("S", "q", "k", "v", "alpha", "beta")))
    check_gradients(ctx, answer, given, names, _read, part=0)
    del names[1]  # the query does not change the state
    q = array(given[1])
    check_gradients(ctx, answer, given, names, lambda S, *rest: _written(S, q, *rest), part=1)


def _products(alpha, *, own=False, early=False):
    """α multiplied between two positions: the later one's counts, the earlier one's does not."""
    n = len(alpha)
    made = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            first, last = (j if own else j + 1), (i - 1 if early else i)
            made[i, j] = np.prod(alpha[first : last + 1])
    return made


@exercise("09.decays_as_a_matrix", title="The matrix behind a decay", difficulty=3, minutes=10)
def decays_as_a_matrix(answer, ctx):
    n, d = ctx.sizes(n=(1, 26), d=(1, 4))
    Q, K = ctx.normal(n, d), ctx.normal(n, d)
    alpha = torch.sigmoid(ctx.normal(n))
    ended = alpha.clone()
    ended[n // 2 - 1], ended[n // 2], ended[0], ended[-1] = 1.0, 0.0, 0.0, 0.0
    for decay, words in (
        (alpha, ""),
        (ended, "where a decay is 0 and another 1: "),
        (torch.ones(n), "where all decays are 1: "),
    ):
        got = ctx.floats(
            ctx.call(answer, Q, K, decay),
            f"{words}A",
            (n, n),
            nan="a 0 is divided by 0, or a logarithm of 0 is taken",
        )
        scores, plain = array(Q) @ array(K).T, array(decay)
        ctx.close(
            got,
            scores * _products(plain),
            f"{words}A",
            {
                "the decays are missing": np.tril(scores),
                "the upper triangle is not 0: no query sees a later key": scores
                * (_products(plain) + np.triu(np.ones((n, n)), 1)),
                "the earlier token's own decay is counted: the product begins behind it": scores
                * _products(plain, own=True),
                "the last decay is missing: the product goes up to i": scores
                * _products(plain, early=True),
                "that is the transposed matrix: a row belongs to a query": (
                    scores * _products(plain)
                ).T,
                "the keys decay towards the future: what is long ago is forgotten": scores
                * _products(plain).T,
                "these are the factors alone: multiply them by the scores": _products(plain),
                "a row and a column stand for a key and a query: Q Kᵀ was asked for, not K "
                "Qᵀ": scores.T * _products(plain),
                "the product begins with the earlier token and ends before the later one: from j + "
                "1 to i": scores * _products(plain, own=True, early=True),
                "all is 0 behind a decay of 0: there a quotient of two products from the "
                "start is 0/0, but the product between two later tokens is not 0": (
                    scores * _products(plain) * (np.cumprod(plain) > 0)
                ),
                "the sum of the decays is taken: it is their product": scores
                * np.tril(np.cumsum(plain)[:, None] - np.cumsum(plain)),
                "each row is decayed by its own decay alone: all between the two tokens "
                "count": scores * np.tril(np.where(np.eye(n) > 0, 1, plain[:, None])),
            },
        )
    check_gradients(
        ctx,
        answer,
        (Q, K, ended),
        {0: "Q", 1: "K", 2: "alpha"},
        lambda q, k, a: q @ k.T * _products(a),
        nan="a 0 is divided by 0, or a logarithm of 0 is taken",
    )


def _retention(Q, K, V, gamma):
    """Context and state, a step a token."""
    S, out = np.zeros((K.shape[1], V.shape[1])), []
    for q, k, v in zip(Q, K, V):
        S = gamma * S + np.outer(k, v)
        out.append(q @ S)
    return np.stack(out), S


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
    for short in (2, 1, 0):
        n = full * size + max(1, size - short)
        Q, K, V = ctx.normal(n, d), ctx.normal(n, d), ctx.normal(n, d_v)
        where = f"for {n} tokens in chunks of {size}: "
        shapes = ((n, d_v), (d, d_v))
        got = ctx.parts(ctx.call(answer, Q, K, V, gamma, size), ("context", "state"), shapes)
        context = ctx.floats(got[0], f"{where}the context", (n, d_v))
        state = ctx.floats(got[1], f"{where}the state", (d, d_v))
        q, k, v = (array(t) for t in (Q, K, V))
        expected = _retention(q, k, v, gamma)
        last = n % size or size
        short, head = gamma ** (size - last), n - last
        before = _retention(q[:head], k[:head], v[:head], gamma)[1] if head else 0 * expected[1]
        new = expected[1] - gamma**last * before
        ctx.close(
            context,
            expected[0],
            f"{where}the context",
            {"nothing decays": _retention(q, k, v, 1.0)[0]},
        )
        ctx.close(
            state,
            expected[1],
            f"{where}the state",
            {
                "nothing decays": _retention(q, k, v, 1.0)[1],
                "all of it has decayed once too often": gamma * expected[1],
                "all of it has decayed as if the last chunk were full": short * expected[1],
                "what the last chunk adds has decayed as if the chunk were full": gamma**last
                * before
                + short * new,
                "what came before the last chunk has decayed as if the chunk were full": gamma**size
                * before
                + new,
                "that is the state before the last chunk": before,
                "the state is divided by the decay of a whole chunk: nothing need be "
                "divided": expected[1] / gamma**size,
            },
        )
    check_gradients(
        ctx,
        answer,
        (Q, K, V, gamma, size),
        {0: "Q", 1: "K", 2: "V"},
        lambda q, k, v: _retention(q, k, v, gamma)[0],
        part=0,
    )
    q = array(Q)
    check_gradients(
        ctx,
        answer,
        (Q, K, V, gamma, size),
        {1: "K", 2: "V"},
        lambda k, v: _retention(q, k, v, gamma)[1],
        part=1,
    )
