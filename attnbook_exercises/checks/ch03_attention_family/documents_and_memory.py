"""Checks of the section on attention pooling: a learned query, a vector for every beginning of a
text, words in disorder, two bugs to find.
"""

import numpy as np
import torch

from ...answers.flop_counter import Products, largest, written
from ..context import array, shape_of, softmax
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import Slips


def _pool_weights(h, w, b, u, real):
    keys = np.tanh(h @ w.T + b)
    return softmax(np.where(real, keys @ u, -np.inf))


_POOL_WEIGHTS = Slips(
    _pool_weights,
    {
        "the lengths are not used: "
        "the padding gets weight": "np.where(real, keys @ u, -np.inf) → keys @ u",
        "the weights of the padding are set to 0 after the softmax: those of the words no longer "
        "add up to 1": "np.where(real, keys @ u, -np.inf)) → keys @ u) * real",
        "masked scores become 0, and exp(0) is 1: "
        "the padding still gets weight": "np.where(real, keys @ u, -np.inf) → keys @ u * real",
        "the softmax runs over the sequences of the batch (dim=0): "
        "expected over the positions": "-np.inf)) → -np.inf), 0)",
        "the tanh is missing: the keys are tanh(W h + b)": "np.tanh( → (",
        "the bias b is not used": "+ b →",
        "the query u is not used: the parts of the key are added up": "keys @ u → keys.sum(-1)",
        "these are equal weights: the query u asks each key": "keys @ u → 0 * keys @ u",
        "the scores are divided by the root of their width: "
        "this model does not scale": "keys @ u → keys @ u / np.sqrt(len(u))",
        "tanh stands around the whole score: it belongs to the keys": (
            "np.tanh( → (",
            "keys @ u → np.tanh(keys @ u)",
        ),
    },
)


def _pooled(h, w, b, u, real):
    return np.einsum("bn,bnd->bd", _pool_weights(h, w, b, u, real), h)


_POOLED = Slips(
    _pooled,
    {
        "the vector is made with weights that do not know the "
        "padding": "u, real) → u, np.ones_like(real))",
        "the vector is a mean of the annotations: weigh "
        "them": "_pool_weights(h, w, b, u, real) → np.full(real.shape, 1 / real.shape[1])",
        "the vector is the mean of the weighted annotations: the weights add up to 1, add them "
        "up": "real), h) → real), h) / real.shape[1]",
    },
)


@exercise("03.learned_query", title="Pool with a learned query", difficulty=2, minutes=8)
def learned_query(answer, ctx):
    batch, n, d, d_a = ctx.sizes(batch=(1, 5), n=(1, 7), d=(1, 9), d_a=(1, 3))
    given = ctx.normal(batch, n, d), ctx.normal(d_a, d), ctx.normal(d_a), 2 * ctx.normal(d_a)
    lengths = ctx.lengths(batch, n, least=0 if batch > 1 else 1)
    got = ctx.call(answer, *given, lengths)
    got_pooled, got = ctx.parts(got, ("pooled", "weights"), ((batch, d), (batch, n)))
    empty = "a length of 0 means no real position: its weights and its vector are zeros"
    got = ctx.floats(got, "weights", (batch, n), nan=empty)
    if shape_of(got_pooled) == (batch, d_a) != (batch, d):
        ctx.fail(
            "pooled is as wide as a key: keys only give the weights, the vector is the weighted "
            "sum of the annotations"
        )
    got_pooled = ctx.floats(
        got_pooled, "pooled", (batch, d), nan=empty, mention="as wide as an annotation"
    )
    inputs, real = [*map(array, given)], np.arange(n) < array(lengths)[:, None]
    right, wrong = _POOL_WEIGHTS(*inputs, real)
    filled = real.any(-1)
    known = {message: other[filled] for message, other in wrong.items()}
    ctx.recognize(array(got)[filled], right[filled], known)
    if ctx.same(array(got)[filled], right[filled]) and array(got)[~filled].any():
        total = array(got)[~filled].sum(-1)[0]
        ctx.fail(f"{empty}. Yours has weights that add up to {total:.2g}")
    padding = np.where(real, 0.0, array(got))
    if padding.any():
        ctx.fail(f"a padding position gets weight {padding.max():.2g}: expected exactly 0")
    ctx.close(got, right, "weights")
    right, wrong = _POOLED(*inputs, real)
    ctx.close(got_pooled, right, "pooled", wrong)
    at = dict(enumerate(("annotations", "W", "b", "u")))
    check_gradients(
        ctx, answer, (*given, lengths), at, lambda *now: _pooled(*now, real=real), part=0
    )

    # keys of nothing but 1, and so scores that are equal and lie below a finite fill
    low = 10 + given[0].abs(), given[1].abs() + 1, given[2].abs(), torch.full((d_a,), -1e4)
    name = "pooled where all scores are very low"
    got_pooled, _ = ctx.parts(ctx.call(answer, *low, lengths), ("pooled", "weights"))
    nan = "exp is 0 for very low scores: torch.softmax subtracts the largest first"
    got_pooled = ctx.floats(got_pooled, name, (batch, d), nan=nan)
    ctx.close(got_pooled, _pooled(*map(array, low), real=real), name)


def _attend(x, w_q, w_k, w_v, real):
    scores = (x @ w_q) @ (x @ w_k).swapaxes(1, 2) / np.sqrt(x.shape[-1])
    weights = softmax(np.where(real[:, None], scores, -np.inf))
    return weights @ (x @ w_v) * real[..., None]


_ATTEND = Slips(
    _attend,
    {
        "a word looks at the padding: what must not be looked at are keys, the columns of the "
        "scores. A mask along the rows leaves out queries, and the words see "
        "everything": "real[:, None] → real[..., None]",
        "the mask comes after the softmax: the weights of a word no longer add up to "
        "1": "np.where(real[:, None], scores, -np.inf)) → scores) * real[:, None]",
        "the rows of the padding are not zeros": "* real[..., None] →",
        "a word looks at the padding, and the rows of the padding are not zeros": (
            "np.where(real[:, None], scores, -np.inf) → scores",
            "* real[..., None] →",
        ),
        "a word looks at the padding, and the rows of the padding are not zeros: "
        "the mask runs along the rows": (
            "* real[..., None] →",
            "real[:, None], scores, -np.inf → real[..., None], scores, -1e9",
        ),
        "the mask is upside down: "
        "words look at the padding alone": "real[:, None] → ~real[:, None]",
        "there is one mask for all: "
        "the length of the longest sentence of the batch": "real[:, None] → real.any(0)",
        "all sentences get the mask of the first one": "real[:, None] → real[0]",
        "the softmax runs over the queries (dim=1): expected over the keys": "inf)) → inf), 1)",
        "the softmax runs over the batch (dim=0): expected over the keys": "inf)) → inf), 0)",
        "the scores are not divided by the root of d": "/ np.sqrt(x.shape[-1]) →",
        "the scores are divided by d: expected its root": "np.sqrt(x.shape[-1]) → x.shape[-1]",
        "one position too many counts as a word: place < length": (
            "real[:, None] → (np.roll(real, 1, 1) | (np.arange(real.shape[1]) == 0))[:, None]"
        ),
        "a word sees no later word: this layer is not "
        "causal": "real[:, None] → real[:, None] & np.tri(real.shape[1], dtype=bool)",
    },
)


@exercise(
    "03.words_look_at_words", title="Find the bug: words look at words", difficulty=2, minutes=8
)
def words_look_at_words(answer, ctx):
    batch, n, d = ctx.sizes(batch=(1, 4), n=(1, 9), d=(1, 4))
    words = ctx.normal(batch, n, d)
    words[-1, 0] = 0  # the vector of a word, too, may be 0
    matrices = [0.8 * ctx.normal(d, d) for _ in range(3)]
    lengths = ctx.draw(  # the first sentence is not the longest
        lambda: ctx.lengths(batch, max(1, n - 1)), lambda ends: ends[0] < ends.max(), 20
    )
    got = ctx.call(answer, words, *matrices, lengths)
    there = torch.arange(n) < lengths[:, None]
    rows_alone = (
        shape_of(got) == (batch, n, d)
        and (got.layout, got.device.type) == (torch.strided, "cpu")
        and got[there].isfinite().all()
        and got[~there].isnan().any()
    )
    got = ctx.floats(
        got,
        "the result",
        (batch, n, d),
        mention="one row a word, as wide as the words",
        nan="a row of nothing but -inf has no softmax, and 0 times NaN is NaN: every sentence "
        "has a word, so leave out the keys (columns) of the padding and not its queries (rows)"
        if rows_alone
        else None,
    )
    real = np.arange(n)[None] < array(lengths)[:, None]
    expected, wrong = _ATTEND(*(array(t) for t in (words, *matrices)), real)
    ctx.close(got, expected, "the result", wrong)
    names, given = dict(enumerate(("words", "W_q", "W_k", "W_v"))), (words, *matrices, lengths)
    check_gradients(ctx, answer, given, names, lambda *now: _attend(*now, real=real))

    # small whole numbers, so that no score is rounded: all of them below a finite fill
    whole = [ctx.integers(1, 4, *tensor.shape).float() for tensor in (words, *matrices)]
    whole[1] *= -(2.0**12)
    name = "the result where all scores are very low"
    nan = "exp is 0 for very low scores: torch.softmax subtracts the largest first"
    got = ctx.floats(ctx.call(answer, *whole, lengths), name, (batch, n, d), nan=nan)
    ctx.close(got, _attend(*map(array, whole), real=real), name)


@exercise("03.shuffled_words", title="Predict: Words in disorder", difficulty=1, minutes=3)
def shuffled_words(answer, ctx):
    return ctx.predicted(answer, "nearly all", "about four of five", "about half")


def _beginnings(scores, values):
    n = scores.shape[-1]
    seen = np.tril(np.ones((n, n), dtype=bool))
    return softmax(np.where(seen, scores[:, None], -np.inf)) @ values


_BEGINNINGS = Slips(
    _beginnings,
    {
        "every row has the vector of the whole text": "np.tril( → (",
        "a row does not have its own word in it": "dtype=bool)) → dtype=bool), -1)",
        "the rows are those of the ends of the text: expected its beginnings": "np.tril → np.triu",
        "these are plain means of the beginnings: the scores are not used": (
            "scores[:, None], → 0 * scores[:, None],"
        ),
        "the sums are divided by those of the whole text: each row has a sum of its own": (
            "softmax(np.where(seen, scores[:, None], -np.inf)) → (softmax(scores)[:, None] * seen)"
        ),
    },
)


@exercise(
    "03.every_prefix", title="Make it fast: a vector for every beginning", difficulty=2, minutes=8
)
def every_prefix(answer, ctx):
    batch, n, d = ctx.sizes(batch=(1, 3), n=(1, 7), d=(1, 4))
    two = ctx.normal(batch, n) + 200.0 * (torch.arange(batch) % 2)[:, None]
    for name, scores in (
        ("the rows", ctx.normal(batch, n)),
        ("for scores around 1000 the rows", 1000 + 5 * ctx.normal(batch, n)),
        ("for scores around 200 in one text, and 0 in another, the rows", two),
        ("for scores that differ by 50 the rows", -50.0 * (torch.arange(n) < n // 2)),
    ):
        values = ctx.normal(batch, n, d)
        scores = scores.expand(batch, n).contiguous()
        got = ctx.floats(ctx.call(answer, scores, values), name, (batch, n, d))
        right, wrong = _BEGINNINGS(array(scores), array(values))
        rough = float(scores.abs().max()) * float(values.abs().max()) if "around" in name else 0.0
        ctx.close(got, right, name, wrong, size=rough)
    given = ctx.normal(batch, n), values
    check_gradients(ctx, answer, given, {0: "scores", 1: "values"}, _beginnings)
    if ctx.case:
        return
    n, d, watch, total = 400, 4, largest(), written()

    def watched(scores, values):
        with watch, total:
            return answer(scores, values)

    long = ctx.normal(1, n), ctx.normal(1, n, d)
    ctx.call(watched, *long)
    if watch.count > 16 * n * (d + 2):
        ctx.fail(
            f"the rows are right, but for {n} words there is a tensor of {watch.count // 4:,} "
            f"numbers: with sums that run along, {n * d} are enough"
        )
    with Products() as counter:
        ctx.call(answer, *long)
    if counter.count:
        ctx.fail(
            f"the rows are right, but for {n} words the matrix products take {counter.count:,} "
            f"multiplications and additions: the sums of a row are those of the row before and one "
            f"more term"
        )
    if total.count > 100 * n * (d + 2):
        ctx.fail(
            f"the rows are right, but for {n} words the tensors on the way have {total.count:,} "
            f"numbers: the sums of a row are those of the row before and one more term"
        )


def _contexts(features, states, w, count):
    order = np.argsort(-count)
    back = np.argsort(order)
    scores = np.einsum("bmd,bpd->bmp", states @ w, features)
    real = (np.arange(states.shape[1]) < count[:, None])[..., None]
    contexts = real * (softmax(scores) @ features)
    return contexts[order][back]


_CONTEXTS = Slips(
    _contexts,
    {
        "the contexts stand in the wrong rows: taking rows by the order a second time sorts again, "
        "it does not undo. The way back is the inverse of the "
        "order": "[order][back] → [order][order]",
        "the contexts come back with the longest caption first: row b belongs to picture b, put "
        "them back": "[order][back] → [order]",
        "the contexts stand in the wrong rows: the order or its inverse is applied once too "
        "often": "[order][back] → [back]",
        "the rows stand by their lengths, the longest last: put row k back where it was "
        "given": "[order][back] → [order][::-1]",
        "the pictures are sorted and the states are not: a caption looks at another one's "
        "picture": "scores = → features = features[order]\n    scores =",
        "the states are sorted and the pictures are not: a caption looks at another one's "
        "picture": (
            "scores = → states, count = states[order], count[order]\n    scores =",
            "[order][back] → [back]",
        ),
        "the states and lengths are not sorted along with the pictures: a caption looks at another "
        "one's picture": (
            "scores = → features, count = features[order], count[order]\n    scores =",
            "[order][back] → [back]",
        ),
        "captions end at the lengths of other ones: use lengths that are sorted along with the "
        "rows, or not at all": "count[:, None] → count[order][:, None]",
        "there is a context after the end of a caption: expected zeros": "real * ( → (",
        "one step too few: "
        "a caption of length L has the words 0 … L − 1": "count[:, None] → count[:, None] - 1",
        "one step too many: "
        "a caption of length L has the words 0 … L − 1": "count[:, None] → count[:, None] + 1",
        "the weights are equal: the scores are not used": "softmax(scores) → softmax(0 * scores)",
        "the softmax runs over the captions (dim=0): "
        "expected over the places": "softmax(scores) → softmax(scores, 0)",
        "the softmax runs over the words: "
        "expected over the places": "softmax(scores) → softmax(scores, 1)",
    },
)


@exercise("03.longest_first", title="Find the bug: the longest first", difficulty=3, minutes=10)
def longest_first(answer, ctx):
    batch, places, m, d_f, d = ctx.sizes(
        batch=(1, 7),
        places=(1, 6),
        m=(7, 9),  # captions of as many lengths
        d_f=(1, 3),
        d=(1, 4),
    )

    def differ(ends):  # the order, taken once, twice and the other way round, or none
        order = np.argsort([-end for end in ends])
        rows = order, order[order], np.argsort(order), np.arange(batch), np.arange(batch)[::-1]
        return len({row.tobytes() for row in rows}) == 5

    ends = ctx.draw(lambda: ctx.order(m)[:batch], differ, 50)
    lengths = 1 + torch.tensor(ends)
    features, states = ctx.normal(batch, places, d_f), ctx.normal(batch, m, d)
    given = features, states, lengths, ctx.normal(d, d_f)
    got = ctx.floats(
        ctx.call(answer, *given),
        "the contexts",
        (batch, m, d_f),
        mention="one a picture and word, as wide as a feature",
    )
    f, s, count, w = map(array, given)
    right, wrong = _CONTEXTS(f, s, w, count)
    ctx.close(got, right, "the contexts", wrong)
    at = {0: "features", 1: "states", 3: "W"}
    check_gradients(ctx, answer, given, at, lambda *now: _contexts(*now, count=count))

    nan = (
        "exp overflows for large scores and is 0 for low ones: torch.softmax subtracts the largest"
    )
    # small whole numbers, so that no score is rounded
    large = [ctx.integers(-3, 4, *one.shape).float() for one in (features, states, given[3])]
    for name, (features, states, w), ends in (
        ("the contexts where captions are equally long", given[:2] + given[3:], 1 + lengths % 3),
        ("the contexts where scores are large", (*large[:2], 100 * large[2]), lengths),
    ):
        got = ctx.floats(
            ctx.call(answer, features, states, ends, w), name, (batch, m, d_f), nan=nan
        )
        ctx.close(got, _contexts(*map(array, (features, states, w, ends))), name)
