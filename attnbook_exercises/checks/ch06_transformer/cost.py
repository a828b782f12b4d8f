"""Checks of the section on what attention costs: a prediction, products in a cheaper order, a
length on paper, attention to mixtures.
"""

import numpy as np
import torch

from ...answers.flop_counter import Products
from ..context import array, softmax
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import Slips, on_paper


@exercise("06.mixtures_as_keys", title="Predict: as many mixtures as keys", difficulty=1, minutes=2)
def mixtures_as_keys(answer, ctx):
    return ctx.predicted(
        answer, "as many as full attention", "somewhere in between", "no more than with 16"
    )


def _mixed(x, w_q, w_k, w_v, e, f):
    keys, values = e @ (x @ w_k), f @ (x @ w_v)
    scores = x @ w_q @ keys.T / np.sqrt(w_q.shape[1])
    return softmax(scores) @ values


_MIXED = Slips(
    _mixed,
    {
        "the scores are not scaled: divide by the root of d_h": "/ np.sqrt(w_q.shape[1]) →",
        "the scale is the root of d: it belongs to the width of the keys, d_h": (
            "w_q.shape[1] → w_q.shape[0]"
        ),
        "the scale is the root of k: it belongs to the width of the keys, d_h": (
            "w_q.shape[1] → len(e)"
        ),
        "E and F are exchanged: E mixes the keys, F the values": (
            "e @ → F @",
            "f @ → e @",
            "F @ → f @",
        ),
        "the values are mixed by E: F is theirs": "f @ → e @",
        "the keys are made with W_q": "e @ (x @ w_k) → e @ (x @ w_q)",
        "the values are made with W_k": "x @ w_v → x @ w_k",
        "the softmax runs over the words: expected over the mixtures": "(scores) → (scores, 0)",
        "this is full attention: no mixture is made": (
            "e @ (x @ w_k), f @ (x @ w_v) → x @ w_k, x @ w_v"
        ),
    },
)


@exercise("06.mix_first", title="Make it fast: Three products in a row", difficulty=3, minutes=10)
def mix_first(answer, ctx):
    def drawn(n, d, d_head, k, size=1.0):
        weights = [size * ctx.normal(d, d_head) / d**0.5 for _ in range(3)]
        mixing = [size * ctx.normal(k, n) / n**0.5 for _ in range(2)]
        return ctx.normal(n, d), *weights, *mixing

    def compared(given, name):
        got = ctx.call(answer, *given)
        got = ctx.floats(got, name, (given[0].shape[0], given[1].shape[1]))
        right, wrong = _MIXED(*map(array, given))
        ctx.close(got, right, name, wrong)

    given = drawn(*ctx.sizes(n=(1, 7), d=(1, 6), d_head=(1, 5), k=(1, 4)))
    compared(given, "the result")
    compared(drawn(6, 5, 4, 3, 12.0), "the result for large scores")
    names = dict(enumerate(("x", "W_q", "W_k", "W_v", "E", "F")))
    check_gradients(ctx, answer, given, names, _mixed)
    if ctx.case:
        return  # one count is enough
    n, d, k = 512, 64, 16
    long = drawn(n, d, d, k)
    with Products() as counter:
        ctx.call(answer, *long)
    compared(long, "the result for 512 words")
    took = f"the result is right, but it takes {counter.count / 1e6:.1f} million operations"
    if counter.count > 8 * n * k * d + 5 * n * d * d:
        ctx.fail(f"{took}, as many as printed: mix the words before you project them")
    if counter.count > 5e6:
        ctx.fail(
            f"{took}, expected 5 at most: keys, values and scores are all products of three "
            f"matrices, and one of them still projects n rows"
        )


@on_paper(
    "06.mostly_pairs", "the length", title="when the pairs are most of it", difficulty=1, minutes=3
)
def mostly_pairs():
    return 6 * 768, {
        "there the pairs are half of the operations": 2 * 768,
        "there the pairs are three quarters of the projections: expected of the whole layer": 1.5
        * 768,
        "there the pairs are four times the projections: with three quarters of the whole they "
        "are three times as many": 8 * 768,
        "there the pairs are three fifths: the projections have 8 n d² operations, the pairs "
        "4 n² d": 3 * 768,
        "that is the width: the pairs are a third there": 768,
        "there the pairs are one quarter, not three": 2 * 768 / 3,
        "that is n in units of d": 6,
    }


def _linformer(query, key, value, e, f, words):
    n, there = key.shape[1], words[..., None]
    keys = e[:, :n] @ (key * there)
    values = f[:, :n] @ (value * there)
    scores = query @ keys.swapaxes(1, 2) / np.sqrt(query.shape[-1])
    return softmax(scores) @ values


_LINFORMER = Slips(
    _linformer,
    {
        "padding enters the mixtures: set keys and values to 0 where there is no word, before they "
        "are mixed": ("key * there → key", "value * there → value"),
        "padding enters the mixtures of the values: "
        "set them to 0 where there is no word, before they are mixed": "value * there → value",
        "padding enters the mixtures of the keys: "
        "set them to 0 where there is no word, before they are mixed": "key * there → key",
        "the mask hides mixtures: positions without a word must be 0 before they are mixed, and "
        "the softmax needs no mask": (
            "key * there → key",
            "value * there → value",
            "softmax(scores) → softmax(np.where(np.pad(words, ((0, 0), (0, len(e))), "
            "constant_values=True)[:, None, : len(e)], scores, -np.inf))",
        ),
        "the scores are not scaled: divide by the root of d": "/ np.sqrt(query.shape[-1]) →",
        "the scale is the root of k: "
        "it belongs to the width of the keys, d": "query.shape[-1] → len(e)",
        "the scores are divided by d, not by its "
        "root": "np.sqrt(query.shape[-1]) → query.shape[-1]",
        "the last n columns of E and F are used: a shorter text meets the first ones": (
            "e[:, :n] → e[:, -n:]",
            "f[:, :n] → f[:, -n:]",
        ),
        "E and F are exchanged: E mixes the keys, F the values": (
            "e[:, :n] → F[:, :n]",
            "f[:, :n] → e[:, :n]",
            "F[:, :n] → f[:, :n]",
        ),
        "the values are mixed by E: F is theirs": "values = f → values = e",
        "words is upside down: "
        "True means that there is a word": "words[..., None] → ~words[..., None]",
        "the softmax runs over the queries: "
        "expected over the mixtures (dim=-1)": "softmax(scores) → softmax(scores, -2)",
        "this is full attention: no mixture is made": (
            "return → scores = query @ key.swapaxes(1, 2) / np.sqrt(query.shape[-1])\n    scores, "
            "values = np.where(words[:, None], scores, -np.inf), value\n    return"
        ),
    },
)


@exercise("06.linformer_attention", title="Attention to mixtures", difficulty=3, minutes=10)
def linformer_attention(answer, ctx):
    batch, m, n = ctx.sizes(batch=(1, 4), m=(1, 7), n=(1, 8))
    d, v, k = ctx.sizes(d=(1, 6), d_v=(1, 4), k=(1, 6))
    query, key, value = (ctx.normal(batch, m, d), ctx.normal(batch, n, d), ctx.normal(batch, n, v))
    longest = n + ctx.integers(0, 4)
    e, f = ctx.normal(k, longest), ctx.normal(k, longest)
    words = torch.arange(n) < ctx.lengths(batch, n)[:, None]
    given = query, key, value, e, f, words
    got = ctx.floats(
        ctx.call(answer, *given),
        "the context",
        (batch, m, v),
        mention="one row a query, as wide as the values",
    )
    arrays, there = [array(t) for t in given[:5]], words.numpy()
    right, wrong = _LINFORMER(*arrays, there)
    ctx.close(got, right, "the context", wrong)
    names = {0: "query", 1: "key", 2: "value", 3: "E", 4: "F"}
    check_gradients(ctx, answer, given, names, lambda *now: _linformer(*now, words=there))
    q, rows, _, mix, _ = arrays
    scores = q @ (mix[:, :n] @ (rows * there[..., None])).swapaxes(1, 2) / np.sqrt(d)
    large, what = query * float(200 / np.abs(scores).max()), "the context for scores of 200"
    got = ctx.floats(ctx.call(answer, large, *given[1:]), what, (batch, m, v))
    ctx.close(got, _linformer(array(large), *arrays[1:], words=there), what)
    some, what = words[:, ctx.order(n)], "the context where words stand between padding"
    got = ctx.floats(ctx.call(answer, *given[:5], some), what, (batch, m, v))
    ctx.close(got, _linformer(*arrays, words=some.numpy()), what)
    spoiled = key.clone(), value.clone()
    for tensor in spoiled:
        tensor[~words] = float("inf")
    ctx.floats(
        ctx.call(answer, query, *spoiled, e, f, words),
        "the context (with infinities where there is no word)",
        (batch, m, v),
        nan="a product with 0 does not remove them; masked_fill or torch.where does",
    )
