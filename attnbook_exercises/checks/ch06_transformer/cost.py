"""Checks of the section on what attention costs: a length on paper, a prediction, operations
counted, attention to mixtures.
"""

import numpy as np
import torch

from ..context import CheckContext, a, array, softmax
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import Slips, on_paper


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


@exercise("06.mixtures_as_keys", title="Predict: as many mixtures as keys", difficulty=1, minutes=2)
def mixtures_as_keys(answer, ctx):
    return ctx.predicted(
        answer, "as many as full attention", "somewhere in between", "no more than with 16"
    )


@exercise("06.attention_operations", title="Count before you run", difficulty=2, minutes=5)
def attention_operations(answer, ctx: CheckContext):
    for m, n, d in (
        (ctx.integers(3, 6), ctx.integers(10, 30), ctx.integers(6, 10)),
        (7, 2, 512),
        (1, 4000, 64),
    ):
        got = ctx.call(answer, m, n, d)
        if got is None:
            ctx.fail("the operations: None came back. Does your function return them?")
        if isinstance(got, (bool, np.bool_)) or not isinstance(
            got, (int, float, np.integer, np.floating)
        ):
            ctx.fail(f"the operations: {a(got)} came back, expected an int")
        if isinstance(got, (float, np.floating)) and not float(got).is_integer():
            ctx.fail(f"the operations are {got}, which is no whole number")
        got, pairs, of_m, of_n = int(got), 4 * m * n * d, 4 * m * d * d, 4 * n * d * d
        right = pairs + of_m + of_n
        wrong = {
            "every operation counts once: a product of a×b and b×c has abc multiplications and "
            "as many additions": right // 2,
            "the four projections are missing": pairs,
            "the products with keys and values are missing": of_m + of_n,
            "W_q or W_o is missing: both are applied to m rows": right - of_m // 2,
            "all four projections are counted with m rows: keys and values are made of the n "
            "vectors of the source": pairs + 2 * of_m,
            "all four projections are counted with n rows: queries and outputs are m rows": pairs
            + 2 * of_n,
            "W_o is applied to m rows, one a query, not to the source": pairs
            + of_m // 2
            + of_n
            + of_n // 2,
            "the scores or the weighted sum of the values are missing: each is a product of its "
            "own": right - pairs // 2,
            "queries are compared with queries: the m queries meet the n keys of the source": 4
            * m
            * m
            * d
            + of_m
            + of_n,
            "this is self-attention of the source: m queries meet the n keys, and W_q and W_o "
            "are applied to m rows": 4 * n * n * d + 2 * of_n,
            "all four projections are counted for both texts: queries and outputs are m rows, "
            "keys and values n": pairs + 2 * of_m + 2 * of_n,
            "the keys are compared with one another: the m queries meet the n keys": 4 * n * n * d
            + of_m
            + of_n,
        }
        # of their differences, which are far smaller than the numbers
        ctx.recognize(got - right, 0, {message: other - right for message, other in wrong.items()})
        if got == right:
            continue
        ctx.fail(f"for m = {m}, n = {n}, d = {d}: {got} operations came back, expected {right}")


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
