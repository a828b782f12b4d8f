"""Checks of the section on FlashAttention: a bill on paper, a prediction, a merge of what kernels
hand back, a maximum that starts wrong, the tiles of a window.
"""

import numpy as np
import torch
from torch import Tensor

from ..context import array, softmax
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import Slips, on_paper


@on_paper(
    "09.bytes_moved",
    "the number of mebibytes",
    title="what one head moves",
    difficulty=1,
    minutes=4,
    within=0.01,
)
def bytes_moved():
    return 33, {
        "those are the keys alone: the values pass each stripe, too": 17,
        "that counts a byte for each number: expected two": 16.5,
        "that counts four bytes for each number: expected two": 66,
        "those are the keys and values: the queries and the output move once, too": 32,
        "the queries are missing, or the output: each moves once": 32.5,
        "that is the bill if the output goes back and forth at each block of keys: with queries "
        "held it is written once": 48.5,
        "the keys and values pass once for each of the 32 stripes, not once in all": 2,
        "that is one pass for each query: 128 of them share a pass": 4097,
        "that is the number of stripes times the number of tables, of which only keys and values "
        "pass each stripe": 64,
        "that is what the matrix moves in the standard way": 128,
        "that is how many numbers move, not mebibytes": 33 * 2**19,
        "those are bytes: divide them by 2**20": 33 * 2**20,
        "those are megabytes, of a million bytes: a mebibyte has 2**20": 33 * 2**20 / 1e6,
    }


@exercise("09.wider_heads", title="Predict: fewer heads, but wider", difficulty=1, minutes=3)
def wider_heads(answer, ctx):
    return ctx.predicted(answer, "half as many", "about as many", "twice as many")


def _merged(context_a, log_a, context_b, log_b):
    top = np.maximum(log_a, log_b)
    top = np.where(np.isfinite(top), top, 0.0)
    a, b = np.exp(log_a - top)[:, None], np.exp(log_b - top)[:, None]
    total = np.maximum(a + b, 1e-300)
    return (a * context_a + b * context_b) / total


_MERGED = Slips(
    _merged,
    {
        "the contexts are averaged, whatever their sums: the weights are the exponentials of the "
        "logarithms": "(a * context_a + b * context_b) / total → (context_a + context_b) / 2",
        "the contexts are added: each is divided by its own sum already, so they take weights that "
        "sum to 1": "(a * context_a + b * context_b) / total → context_a + context_b",
        "the logarithms are the weights: take their exponentials": (
            "np.exp(log_a - top)[:, None], np.exp(log_b - top)[:, None] → np.maximum(log_a, "
            "-1e3)[:, None], np.maximum(log_b, -1e3)[:, None]",
            "np.maximum(a + b, 1e-300) → np.where(a + b == 0, 1, a + b)",
        ),
        "the weights belong to the other context each": "a, b = → b, a =",
        "the part with the larger sum takes all: the other one counts, "
        "too": "(a * context_a + b * context_b) / total → np.where(a >= b, context_a, context_b)",
        "the weighted sum is not divided by the sum of the weights": "/ total →",
    },
)


def _both(context_a, log_a, context_b, log_b):
    """The logarithm of both sums, and 0 in the place of minus infinity."""
    top = np.maximum(log_a, log_b)
    top = np.where(np.isfinite(top), top, 0.0)
    total = np.exp(log_a - top) + np.exp(log_b - top)
    return np.where(total > 0, top + np.log(np.maximum(total, 1e-300)), 0.0)


_BOTH = Slips(
    _both,
    {
        "that is the larger of the two: the sums are added, and L is the logarithm of "
        "that": "top + np.log(np.maximum(total, 1e-300)) → top",
        "the logarithms are added: that multiplies the "
        "sums": "top + np.log(np.maximum(total, 1e-300)) → log_a + log_b",
        "what the exponentials were measured from has to be added again": "top + np.log → np.log",
    },
)


@exercise("09.merge_by_log_sums", title="Merge what kernels hand back", difficulty=2, minutes=8)
def merge_by_log_sums(answer, ctx):
    m, d_v = ctx.sizes(m=(1, 9), d_v=(1, 4))
    contexts = [ctx.normal(m, d_v) for _ in range(2)]
    logs = [2 * ctx.normal(m) for _ in range(2)]
    _merge_once(answer, ctx, contexts, logs, "for scores of ordinary size: ")
    for shift in (300.0, -300.0):
        where = f"for logarithms near {shift:g} (measure the exponentials from the larger one): "
        _merge_once(answer, ctx, contexts, [part + shift for part in logs], where)
    for sign in (1, -1):
        far = 300.0 * sign * (-1) ** torch.arange(m)
        apart = [logs[0] + far, logs[1] - far]
        _merge_once(answer, ctx, contexts, apart, "where one part is far larger: ")
    for row in range(m):
        for part in [(0, 1), (0,), (1,), (), ()][row % 5]:
            contexts[part][row], logs[part][row] = 0.0, -torch.inf
    contexts[0][4::5] = 0.0  # what is seen may add up to 0
    logs[0][3::5] += 300.0  # the others remain of ordinary size
    where = "where a query sees nothing in a part, or in both: "
    given = _merge_once(answer, ctx, contexts, logs, where)

    nan = "a query that sees nothing in either part divides 0 by 0, or subtracts -inf from -inf"
    names = dict(enumerate(("context_a", "L_a", "context_b", "L_b")))
    # a context of nothing is 0, whatever weights the two zeros have
    some = (torch.maximum(given[1], given[3]) > -torch.inf)[:, None]

    def context_where_seen(*parts):
        context, _ = answer(*parts)
        return torch.where(some, context, 0.0)

    def right_context(*parts):
        return array(some) * _merged(*parts)

    check_gradients(ctx, context_where_seen, given, names, right_context, nan=nan)

    def log_where_finite(*parts):
        _, L = answer(*parts)
        return torch.where(L > -torch.inf, L, 0.0)

    def right(*logs):
        return _both(None, logs[0], None, logs[1])

    check_gradients(ctx, log_where_finite, given, {1: "L_a", 3: "L_b"}, right, nan=nan)


def _merge_once(answer, ctx, contexts, logs, where):
    given = (contexts[0], logs[0], contexts[1], logs[1])
    m, d_v = contexts[0].shape
    context, value = ctx.parts(ctx.call(answer, *given), ("context", "L"), ((m, d_v), (m,)))
    nan = "is a -inf subtracted from a -inf, a 0 divided by 0, or does an exponential overflow?"
    context = ctx.floats(context, f"{where}the context", (m, d_v), nan=nan)
    right, wrong = _MERGED(*map(array, given))
    ctx.close(context, right, f"{where}the context", wrong)
    nothing = (logs[0] == -torch.inf) & (logs[1] == -torch.inf)
    if type(value) is Tensor and not torch.isnan(ctx._dense(value, f"{where}L")).any():
        if tuple(value.shape) == (m,) and not torch.equal(value == -torch.inf, nothing):
            ctx.fail(
                f"{where}L has to be -inf for a query that sees nothing in either part, and only "
                "there"
            )
        value = value.masked_fill(value == -torch.inf, 0.0)
    value = ctx.floats(value, f"{where}L", (m,), nan=nan)
    right, wrong = _BOTH(*map(array, given))
    ctx.close(value, right, f"{where}L", wrong)
    return given


def _attended(Q, K, V, size):
    scores = Q @ K.T / K.shape[1] ** 0.5
    return softmax(scores) @ V


_ATTENDED = Slips(
    _attended,
    {
        "only the last block counts: what came before is not "
        "carried": "softmax(scores) @ V → softmax(scores[:, -size:]) @ V[-size:]",
        "only the first block counts": "softmax(scores) @ V → softmax(scores[:, :size]) @ V[:size]",
        "the scores are not divided by the root of the width": "/ K.shape[1] ** 0.5 →",
        "the blocks count alike, whatever their sums": "softmax(scores) @ V → np.mean([softmax("
        "scores[:, j : j + size]) @ V[j : j + size] for j in range(0, len(K), size)], axis=0)",
    },
)


@exercise(
    "09.worked_yesterday",
    title="Find the bug: it worked on random numbers",
    difficulty=3,
    minutes=10,
)
def worked_yesterday(answer, ctx):
    m, d, size, blocks, d_v = ctx.sizes(
        m=(1, 4), d=(1, 5), size=(1, 4), number_of_blocks=(1, 6), d_v=(1, 3)
    )
    n = size * blocks
    V = ctx.normal(n, d_v)
    even, signs = torch.ones(n), 1.0 - 2 * ctx.integers(0, 2, n)
    if blocks > 1:  # the largest score of a query comes after the first block, for either sign
        signs[:size], signs[-1] = -1.0, 1.0
    nan = (
        "is a sum of exponentials that are all 0 the divisor, or does one overflow? from which "
        "score are they measured?"
    )
    for level, keys, words in (
        (0.0, even, "on random queries and keys"),
        (-200.0, even, "where all scores of a query are near -200"),
        (200.0, even, "where all scores of a query are near 200"),
        (-400.0, even, "where all scores of a query are near -400"),
        (-20.0, even, "where all scores of a query are near -20"),
        (200.0, signs, "where the scores of a query are near 200 and near -200"),
        (-200.0, signs, "where the scores of a query are near -200 and near 200"),
        (
            200.0 * (-1) ** torch.arange(m),
            even,
            "where one query has scores near 200, the next one near -200",
        ),
    ):
        # the first number of queries and keys makes the level, the others what is on top of it
        Q, K = ctx.normal(m, d), ctx.normal(n, d)
        K[:, 0] = keys
        Q[:, 0] = level * d**0.5
        name = f"{words}: the context"
        got = ctx.floats(ctx.call(answer, Q, K, V, size), name, (m, d_v), nan=nan)
        right, wrong = _ATTENDED(array(Q), array(K), array(V), size)
        ctx.close(got, right, name, wrong)
    names = {0: "Q", 1: "K", 2: "V"}
    check_gradients(ctx, answer, (Q, K, V, size), names, lambda *now: _attended(*now, size=size))


_CASES = (12, 4, 2, 5), (16, 4, 4, 6), (13, 5, 3, 4), (11, 3, 4, 1), (20, 3, 4, 20), (17, 2, 5, 9)


@exercise("09.tiles_of_a_window", title="The tiles of a window", difficulty=3, minutes=12)
def tiles_of_a_window(answer, ctx):
    drawn = ctx.sizes(n=(1, 20), rows=(1, 5, 4), columns=(1, 5, 3), w=(1, 11, 30))
    for n, rows, columns, w in [drawn, *_CASES]:
        where = f"for n = {n}, rows = {rows}, columns = {columns}, w = {w}"
        got = ctx.call(answer, n, rows, columns, w)
        if type(got) not in (list, tuple):
            ctx.fail(f"{where}: {type(got).__name__} came back, expected a list of tiles")
        found = []
        for tile in got:
            i, j, full = ctx.parts(tile, ("i", "j", "full"))
            i, j = ctx.ids([i, j], f"{where}: the numbers of a tile")
            found.append((i, j, ctx.truth(full, f"{where}: full of tile ({i}, {j})")))
        _compare_tiles(ctx, found, n, rows, columns, w, where)


def _compare_tiles(ctx, found, n, rows, columns, w, where):
    t, s = np.arange(n)[:, None], np.arange(n)
    seen = (s <= t) & (t - s < w)
    expected = {}
    for i in range(-(-n // rows)):
        for j in range(-(-n // columns)):
            part = seen[i * rows : (i + 1) * rows, j * columns : (j + 1) * columns]
            if part.any():
                expected[i, j] = bool(part.all())
    places = [(i, j) for i, j, _ in found]
    if len(set(places)) < len(places):
        ctx.fail(f"{where}: a tile is visited twice")
    if {(j, i) for i, j in places} == set(expected) != set(places):
        ctx.fail(f"{where}: rows and columns are swapped: a tile is (stripe, block, full)")
    if {(i * rows, j * columns) for i, j in expected} == set(places) != set(expected):
        ctx.fail(f"{where}: those are positions of queries and keys: number stripes and blocks")
    for up, right in ((1, 0), (0, 1), (1, 1)):
        if {(i - up, j - right) for i, j in places} == set(expected):
            ctx.fail(f"{where}: stripes and blocks are numbered from 0")
    for place in sorted(set(places) - set(expected)):
        i, j = place
        if not (0 <= i < -(-n // rows) and 0 <= j < -(-n // columns)):
            ctx.fail(f"{where}: there is no tile {place}: are they numbered from 0, as (i, j)?")
        future = j * columns > min((i + 1) * rows, n) - 1
        why = "all its keys lie in the future" if future else "its keys have left the window"
        ctx.fail(f"{where}: the tile {place} need not be visited, {why} of all its queries")
    for i, j in sorted(set(expected) - set(places)):
        ctx.fail(
            f"{where}: the tile {(i, j)} is missing, though one of its queries sees one of its keys"
        )
    if places != sorted(places):
        ctx.fail(f"{where}: the order is another: hold a stripe of queries, and let all keys pass")
    for i, j, full in found:
        if full != expected[i, j]:
            said = (
                "is said to be full, but some of its pairs may not be seen"
                if full
                else "is said not to be full, but all of its pairs may be seen"
            )
            ctx.fail(f"{where}: the tile {(i, j)} {said}")
