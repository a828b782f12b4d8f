"""Checks of the section on the general attention layer: masked self-attention, multi-head attention."""

import numpy as np
import torch

from .registry import exercise
from .trial import array, softmax


@exercise("03.masked_self_attention", title="Masked self-attention", difficulty=3, minutes=20)
def masked_self_attention(answer, trial):
    batch, n, d, d_k, d_v = 3, trial.integers(5, 8), 6, 4, 3
    x = trial.normal(batch, n, d)
    w_q, w_k, w_v = trial.normal(d, d_k), trial.normal(d, d_k), trial.normal(d, d_v)
    lengths = torch.tensor([n, 2, trial.integers(3, n)])
    got_context, got = trial.parts(trial.call(answer, x, w_q, w_k, w_v, lengths), ("context", "weights"))
    if [tuple(getattr(part, "shape", ())) for part in (got_context, got)] == [(batch, n, n), (batch, n, d_v)]:
        trial.fail("your function returns (weights, context): expected (context, weights), the context first")
    nothing = "every position may attend to itself or to an earlier word: is the diagonal masked?"
    got = trial.tensor(got, "weights", (batch, n, n), mention="one row of weights a query", nan=nothing)
    got_context = trial.tensor(got_context, "context", (batch, n, d_v), mention="as wide as the values, X W_v", nan=nothing)
    x, w_q, w_k, w_v = (array(t) for t in (x, w_q, w_k, w_v))
    q, k, v = x @ w_q, x @ w_k, x @ w_v
    dots = q @ k.swapaxes(1, 2)
    e = dots / np.sqrt(d_k)
    t, j = np.arange(n)[:, None], np.arange(n)
    words = (j < np.array(lengths.tolist())[:, None])[:, None]  # (B, 1, n)

    def weigh(scores, allowed, axis=-1):
        return softmax(np.where(allowed, scores, -np.inf), axis)

    mask = words & (j <= t)
    expected = weigh(e, mask)
    wrong = {
        "no mask is used: positions see the future and the padding": softmax(e),
        "the future is visible: position t may attend to positions up to t only": weigh(e, words & (j <= n)),
        "the padding gets weight: positions from lengths on must be masked for every query": weigh(e, j <= t),
        "the causal mask is upside down: each position sees the future and not the past": weigh(e, words & (j >= t)),
        "one position too many is visible: position t sees t + 1": weigh(e, words & (j <= t + 1)),
        "a position may not see itself: it may (j ≤ t)": weigh(e, words & (j < t)),
        "the mask is applied after the softmax: the weights no longer add up to 1": softmax(e) * mask,
        "masked scores become 0, and exp(0) is 1: they still get weight": softmax(e * mask),
        "the softmax runs over the queries (dim=1): expected over the keys (dim=-1)": weigh(e, mask, 1),
        "the scores are not scaled: divide by the root of the width of the keys": weigh(dots, mask),
        "the scale is the root of the width of X: it belongs to the width of the keys, W_k's columns": weigh(dots / np.sqrt(d), mask),
        "the scale is the root of the length: it belongs to the width of the keys": weigh(dots / np.sqrt(n), mask),
        "queries and keys are swapped: rows are queries": weigh(e.swapaxes(1, 2), mask),
    }
    trial.recognize(got, expected, wrong)
    late = np.where(mask, 0.0, array(got))
    if late.any():
        trial.fail(f"a masked position gets weight {late.max():.2g}: expected exactly 0")
    trial.close(got, expected, "weights")
    wrong = {
        "the context is made with weights that do not know the mask": softmax(e) @ v,
        "the weights are transposed in the sum: rows are queries": expected.swapaxes(1, 2) @ v,
    }
    trial.close(got_context, expected @ v, "context", wrong)


@exercise("03.multi_head", title="Multi-head attention", difficulty=4, minutes=25)
def multi_head(answer, trial):
    batch, m, n, heads, width = 2, trial.integers(3, 5), 6, 3, 2
    d = heads * width
    query, source = trial.normal(batch, m, d), trial.normal(batch, n, d)
    w_q, w_k, w_v, w_o = (trial.normal(d, d) for _ in range(4))
    mask = trial.integers(0, 2, batch, m, n).bool()
    mask[:, :, trial.integers(0, n)] = True
    got = trial.call(answer, query, source, w_q, w_k, w_v, w_o, heads, mask)
    nothing = "every query may attend to something"
    got = trial.tensor(got, "the output", (batch, m, d), mention="one row of width d a query", nan=nothing)
    x, s, w_q, w_k, w_v, w_o = (array(t) for t in (query, source, w_q, w_k, w_v, w_o))
    allowed = mask.numpy()[:, None]

    def split(y):  # (B, n, h·w) -> (B, h, n, w)
        return y.reshape(batch, -1, heads, width).swapaxes(1, 2)

    def view(y):
        return y.reshape(batch, heads, -1, width)

    def interleaved(y):
        return y.reshape(batch, -1, width, heads).transpose(0, 3, 1, 2)

    def join(y):
        return y.swapaxes(1, 2).reshape(batch, m, d)

    def layer(cut=split, scale=width, axis=-1, may=allowed, glue=join, last=True, after=False):
        q, k, v = cut(x @ w_q), cut(s @ w_k), cut(s @ w_v)
        e = q @ k.swapaxes(-1, -2) / np.sqrt(scale)
        weights = softmax(e) * may if after else softmax(np.where(may, e, -np.inf), axis)
        joined = glue(weights @ v)
        return joined @ w_o if last else joined

    expected = layer()
    one = softmax(np.where(allowed[:, 0], (x @ w_q) @ (s @ w_k).swapaxes(1, 2) / np.sqrt(d), -np.inf)) @ (s @ w_v) @ w_o
    wrong = {
        "there is one head of the full width: cut queries, keys and values into num_heads parts": one,
        "heads are cut by a view alone, which mixes positions: view as (B, n, h, d/h), then swap positions and heads": layer(view),
        "a head takes every num_heads-th column: head i has the columns i·d/h … (i+1)·d/h - 1": layer(interleaved),
        "the scale is the root of d: it belongs to the width of a head, d / num_heads": layer(scale=d),
        "the scores are not scaled: divide by the root of the width of a head": layer(scale=1),
        "the softmax runs over the queries: expected over the keys (dim=-1)": layer(axis=-2),
        "the softmax runs over the heads: expected over the keys (dim=-1)": layer(axis=1),
        "the mask is upside down: True means may attend": layer(may=~allowed),
        "the mask is not used": layer(may=np.ones_like(allowed)),
        "the mask is applied after the softmax: the weights no longer add up to 1": layer(after=True),
        "W_o is missing: the joined heads go through one more product": layer(last=False),
        "the heads are joined without swapping positions and heads back": layer(glue=lambda y: y.reshape(batch, m, d)),
        "the heads are joined in the wrong order: head 1 comes first": layer(glue=lambda y: join(y[:, ::-1])),
        "the columns of the heads are interleaved: each head's columns stay together": layer(
            glue=lambda y: y.transpose(0, 2, 3, 1).reshape(batch, m, d)),
    }
    transposed = "a matrix is used transposed: inputs are rows, so it is X W"
    w_q, w_k, w_v, w_o = w_q.T, w_k.T, w_v.T, w_o.T
    wrong[transposed] = layer()
    trial.close(got, expected, "the output", wrong)
