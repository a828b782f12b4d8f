"""Checks of the section on decoding with a cache: its memory, a prediction, caches that follow
their beams, and attention after a cache.
"""

import numpy as np
import torch

from ..context import CheckContext, a, array, shape_of, softmax
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import Slips, on_paper


@on_paper(
    "06.cache_by_hand",
    "the number of bytes",
    title="Memory for three texts",
    difficulty=1,
    minutes=3,
)
def cache_by_hand():
    return 240_000, {
        "that is one matrix per block: keys and values are both kept, or each number "
        "takes two bytes, and one factor of 2 is missing": 120_000,
        "both factors of 2 are missing: keys and values, and two bytes per number": 60_000,
        "the heads are counted on top of the width: each has a fifth of it": 1_200_000,
        "the width of one head is counted: five heads of 20 make 100": 48_000,
        "that is one text: each of the three has a cache of its own": 80_000,
        "only the prompt is counted: what the model wrote is read, too, and kept": 144_000,
        "only what the model wrote is counted: the prompt is in the cache, too": 96_000,
        "queries are counted: a query is used once and not kept": 60_000 * 6,
    }


@exercise("06.encoder_cache", title="Predict: A cache for the encoder", difficulty=1, minutes=3)
def encoder_cache(answer, ctx: CheckContext):
    return ctx.predicted(answer, "in none", "in all but the first", "in all")


def _rows(parents, sentences, k):
    """The row that each row continues."""
    first = np.arange(sentences)[:, None] * k
    rows = parents + first
    return rows.reshape(-1)


_ROWS = Slips(
    _rows,
    {
        "rows stay where they are: beams change places, and keys and values both have to "
        "follow": "parents + first → np.arange(k) + first",
        "all rows come from the first sentence: a parent counts within its sentence, so add k "
        "times the number of the sentence": "parents + first → parents + 0 * first",
        "the rows are read as j · B + b: row b · k + j belongs to beam j of sentence "
        "b": "parents + first → parents * sentences + first // k",
        "the offset of a sentence is its number: expected k times its number, it has k "
        "rows": "+ first → + first // k",
        "the offset of a sentence is B times its number: expected k times its number, it has k "
        "rows": "+ first → + first // k * sentences",
        "row p goes to where its child is looked for: parents says where a row comes from, "
        "cache[rows], not where it goes": (
            "return rows.reshape(-1) → back = np.arange(rows.size)\n    back[rows.reshape(-1)] = "
            "np.arange(rows.size)\n    return back"
        ),
        "every sentence follows the parents of the first one": "parents + → parents[:1] +",
        "all beams continue the best one: each has a parent of its "
        "own": "return rows → return np.repeat(rows[:, :1], k, 1)",
    },
)


@exercise("06.reorder_caches", title="Caches follow their beams", difficulty=2, minutes=8)
def reorder_caches(answer, ctx: CheckContext):
    for lone in (False, False, True):
        sentences, k = (1, 1) if lone else ctx.sizes(B=(1, 4), k=(1, 6))
        blocks, h, t = ctx.sizes(blocks=(1, 3), h=(1, 3), t=(1, 5))
        width, blocks = ctx.integers(1, 4), 12 if lone else blocks
        shape = (sentences * k, h, t, width)
        caches = [(ctx.normal(*shape), ctx.normal(*shape)) for _ in range(blocks)]
        parents = ctx.integers(0, k, sentences, k)
        # an order with neither fixed points nor repetitions, and one with a parent of no child
        parents[0] = torch.arange(k).roll(-1)
        parents[-1, :2] = k - 1
        got = ctx.call(answer, caches, parents, new="the list")
        if type(got) not in (list, tuple):
            ctx.fail(
                f"the result: {'None' if got is None else a(got)} came back, expected a list "
                f"with one pair (keys, values) a block"
            )
        if len(got) != blocks:
            ctx.fail(
                f"the result has {len(got)} entries, expected one pair (keys, values) for each "
                f"of the {blocks} blocks"
            )
        rows, mistaken = _ROWS(array(parents), sentences, k)
        mention = "one row for each beam of each sentence"
        for block, (pair, given) in enumerate(zip(got, caches)):
            names = [f"{name} of block {block}" for name in ("keys", "values")]
            mine = [
                ctx.floats(part, name, shape, mention=mention)
                for part, name in zip(ctx.parts(pair, ("keys", "values")), names)
            ]
            given = [array(tensor) for tensor in given]
            if all(map(ctx.same, mine, (tensor[rows] for tensor in given[::-1]))):
                ctx.fail("keys and values are exchanged: a pair is (keys, values)")
            for of, (part, name, tensor) in enumerate(zip(mine, names, given)):
                wrong = {
                    message: tensor[others]
                    for message, others in mistaken.items()
                    if others.max() < len(tensor) and not lone
                }
                if block and not lone:
                    wrong["the same as in the first block: each block has a cache of its own"] = (
                        array(caches[0][of])[rows]
                    )
                ctx.close(part, tensor[rows], name, wrong)


def _attend_cached(x, keys, values, w_q, w_k, w_v, h):
    """(context, keys, values)."""
    q, m, t = _cut(x @ w_q, h), x.shape[1], keys.shape[2]
    keys, values = _cut_behind(keys, x @ w_k, h), _cut_behind(values, x @ w_v, h)
    scores = q @ keys.swapaxes(2, 3) / np.sqrt(q.shape[-1])
    seen = np.tri(m, t + m, t, dtype=bool)
    context = softmax(np.where(seen, scores, -np.inf)) @ values
    return context.swapaxes(1, 2).reshape(x.shape), keys, values


_ATTEND_CACHED = Slips(
    _attend_cached,
    {
        "there is no mask within the block: "
        "a new token sees the new tokens after it": "np.where(seen, scores, -np.inf) → scores",
        "the mask counts from the first column: row i of the block stands at position t + i, so "
        "the diagonal starts t columns further right": "t + m, t, → t + m, 0,",
        "a new token does not see itself: "
        "it does, as in all causal attention": "t + m, t, → t + m, t - 1,",
        "a new token sees one token after itself: "
        "the diagonal is one column too far right": "t + m, t, → t + m, t + 1,",
        "the mask is upside down: a new token sees itself and what comes after "
        "it": "np.tri(m, t + m, t, dtype=bool) → ~np.tri(m, t + m, t - 1, dtype=bool)",
        "the block does not see the cache: attend to the old keys and the new ones": (
            "np.tri(m, t + m, t, dtype=bool) → np.tri(m, t + m, t, dtype=bool) & (np.arange(t + m) "
            ">= t)"
        ),
        "the block sees the cache alone: a new token also sees itself and the new tokens before "
        "it": "np.tri(m, t + m, t, dtype=bool) → np.arange(t + m) < t",
        "the mask comes after the softmax: the weights of a row no longer add up to "
        "1": "softmax(np.where(seen, scores, -np.inf)) → softmax(scores) * seen",
        "the scores are not divided by the root of the width of a head": "/ np.sqrt(q.shape[-1]) →",
        "the scores are divided by √d: "
        "expected √(d/h), the root of the width of a head": "q.shape[-1] → x.shape[-1]",
        "the scores are divided by the width of a head: "
        "expected its root": "np.sqrt(q.shape[-1]) → q.shape[-1]",
        "the softmax runs over the queries (dim=-2): "
        "expected over the keys": "-np.inf)) → -np.inf), -2)",
        "heads are not put side by side: swap heads and positions back before you "
        "flatten": "context.swapaxes(1, 2).reshape → context.reshape",
    },
)


@exercise("06.cached_attention", title="Attention behind a cache", difficulty=3, minutes=12)
def cached_attention(answer, ctx):
    names = ("context", "keys", "values")
    for low in (False, True):
        batch, h, width = ctx.sizes(batch=(1, 3), h=(1, 4), width=(1, 4))
        # long in turn: of both the oracle takes seconds
        t, m = ctx.sizes(t=(0, 5, 9 if low else 257), m=(1, 5, 257 if low else 9))
        d = h * width
        x, old = ctx.normal(batch, m, d), [ctx.normal(batch, h, t, width) for _ in range(2)]
        matrices = [ctx.normal(d, d) / d**0.5 for _ in range(3)]
        if low:  # multiples of 2¹⁵, exact in float32: what is no tie is far apart
            x, matrices[:2] = (
                ctx.integers(1, 4, batch, m, d).float(),
                (factor * ctx.integers(1, 3, d, d).float() for factor in (2**15, -1)),
            )
            old[0] = -ctx.integers(1, 9, batch, h, t, width).float()
        given = (x, *old, *matrices, h)
        got = ctx.parts(ctx.call(answer, *given), names)
        if t and [shape_of(part) for part in got[1:]] == [(batch, h, m, width)] * 2:
            ctx.fail(
                "keys and values hold the new rows alone: expected the longer cache, the old "
                "rows and the new ones after them"
            )
        full = (batch, h, t + m, width)
        nan = (
            "all scores are far below 0, and all exponentials are 0: subtract the largest first"
            if low
            else "does a row have nothing to attend to?"
        )
        got = [
            ctx.floats(
                got[0],
                "context",
                (batch, m, d),
                nan=nan,
                mention="one row for each new token, the heads side by side",
            ),
            *(
                ctx.floats(part, name, full, mention="the old rows and the new ones after them")
                for part, name in zip(got[1:], names[1:])
            ),
        ]
        arrays = [array(tensor) for tensor in given[:-1]]
        (context, keys, values), wrong = _ATTEND_CACHED(*arrays, h)
        for part, name, before, right, other in zip(
            got[1:], names[1:], arrays[1:3], (keys, values), (values, keys)
        ):
            mine = array(part)
            if t and ctx.same(mine[:, :, m:], before) and not ctx.same(mine[:, :, :t], before):
                ctx.fail(
                    f"the new rows of {name} stand in front of the old ones: expected after them"
                )
            ctx.close(mine[:, :, :t], before, f"the old rows of {name}")
            ctx.close(
                mine[:, :, t:],
                right[:, :, t:],
                f"the new rows of {name}",
                {
                    f"the new rows of {name} are made with the wrong matrix: keys with W_k, "
                    f"values with W_v": other[:, :, t:],
                    f"the new rows of {name} are made with W_q": _cut(arrays[0] @ arrays[3], h),
                    f"the new rows of {name} are made with the transposed matrix: expected x "
                    f"@ W": _cut(arrays[0] @ arrays[4 if name == "keys" else 5].T, h),
                    f"heads and positions of the new {name} are mixed up: cut each row into "
                    f"heads, then swap the two dimensions; "
                    "a view or reshape alone cannot": _mixed(
                        arrays[0] @ arrays[4 if name == "keys" else 5], h
                    ),
                },
            )
        if low:
            what = "where all scores are far below 0, and masked ones at -inf: the context"
            ctx.close(got[0], context, what)
            continue
        ctx.close(got[0], context, "context", {words: one[0] for words, one in wrong.items()})
        at = dict(enumerate(("x", "keys", "values", "W_q", "W_k", "W_v")))
        for part in range(3):
            if part:
                at = {0: "x", 3 + part: ("W_k", "W_v")[part - 1]}
            check_gradients(
                ctx,
                answer,
                given,
                at,
                (lambda x, w, part=part: _cut_behind(arrays[part], x @ w, h))
                if part
                else lambda *now: _attend_cached(*now, h=h)[0],
                part=part,
            )


def _cut(rows, h):
    """(B, m, d) -> (B, h, m, d/h)."""
    batch, m, d = rows.shape
    return rows.reshape(batch, m, h, d // h).transpose(0, 2, 1, 3)


def _mixed(rows, h):
    batch, m, d = rows.shape
    return rows.reshape(batch, h, m, d // h)


def _cut_behind(old, rows, h):
    return np.concatenate((old, _cut(rows, h)), 2)
