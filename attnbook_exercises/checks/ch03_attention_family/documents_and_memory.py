"""Checks of the section on attention pooling: two poolings on paper, words in disorder, a learned
query, two bugs to find.
"""

import numpy as np
import torch

from ..context import array, shape_of, softmax
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import Slips, on_paper


@on_paper(
    "03.two_poolings", "the document", title="Two poolings", difficulty=1, minutes=5, within=0.01
)
def two_poolings():
    return 5.4, {
        "this is a mean of the four words: pool twice, with weights": 5.5,
        "the two sentences got equal weights: their scores are 0 and ln 4": 6,
        "the words of the first sentence got equal weights: their scores are 0 and ln 3": 5.2,
        "the weights of the two sentences are the wrong way round": 6.6,
        "the weights of the words 4 and 8 are the wrong way round": 5,
        "not divided by the sum of the exponentials": 27,
        "this is the first sentence alone": 7,
    }


@exercise("03.shuffled_words", title="Predict: Words in disorder", difficulty=1, minutes=3)
def shuffled_words(answer, ctx):
    return ctx.predicted(answer, "nearly all", "about four of five", "about half")


@exercise("03.learned_query", title="Pool with a learned query", difficulty=2, minutes=8)
def learned_query(answer, ctx):
    batch, n, d, d_a = ctx.sizes(batch=(1, 5), n=(1, 7), d=(1, 9), d_a=(1, 3))
    annotations = ctx.normal(batch, n, d)
    w, b, u = ctx.normal(d_a, d), ctx.normal(d_a), 2 * ctx.normal(d_a)
    lengths = ctx.lengths(batch, n, least=0 if batch > 1 else 1)
    got = ctx.call(answer, annotations, w, b, u, lengths)
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
    given = annotations, w, b, u
    h, w, b, u = (array(t) for t in given)
    real = np.arange(n)[None] < np.array(lengths.tolist())[:, None]
    inside = h @ w.T + b
    scores = np.tanh(inside) @ u

    def weigh(e, axis=-1):
        return softmax(np.where(real, e, -np.inf), axis)

    expected = weigh(scores)
    filled = real.any(-1)
    known = {
        "the lengths are not used: the padding gets weight": softmax(scores),
        "the weights of the padding are set to 0 after the softmax: those of the words no longer "
        "add up to 1": softmax(scores) * real,
        "masked scores become 0, and exp(0) is 1: the padding still gets weight": softmax(
            scores * real
        ),
        "the softmax runs over the sequences of the batch (dim=0): expected over the "
        "positions": weigh(scores, 0),
        "the tanh is missing: the keys are tanh(W h + b)": weigh(inside @ u),
        "the bias b is not used": weigh(np.tanh(h @ w.T) @ u),
        "the query u is not used: the parts of the key are added up": weigh(
            np.tanh(inside).sum(-1)
        ),
        "these are equal weights: the query u asks each key": real
        / np.maximum(real.sum(-1, keepdims=True), 1),
        "the scores are divided by the root of their width: this model does not scale": weigh(
            scores / d_a**0.5
        ),
        "tanh stands around the whole score: it belongs to the keys": weigh(np.tanh(inside @ u)),
    }
    known = {message: other[filled] for message, other in known.items()}
    ctx.recognize(array(got)[filled], expected[filled], known)
    if ctx.same(array(got)[filled], expected[filled]) and array(got)[~filled].any():
        total = array(got)[~filled].sum(-1)[0]
        ctx.fail(f"{empty}. Yours has weights that add up to {total:.2g}")
    padding = np.where(real, 0.0, array(got))
    if padding.any():
        ctx.fail(f"a padding position gets weight {padding.max():.2g}: expected exactly 0")
    ctx.close(got, expected, "weights")
    pooled = np.einsum("bn,bnd->bd", expected, h)
    ctx.close(
        got_pooled,
        pooled,
        "pooled",
        {
            "the vector is made with weights that do not know the padding": np.einsum(
                "bn,bnd->bd", softmax(scores), h
            ),
            "the vector is a mean of the annotations: weigh them": h.mean(1),
            "the vector is the mean of the weighted annotations: the weights add up to 1, add "
            "them up": pooled / n,
        },
    )

    def oracle(h, w, b, u):
        return np.einsum("bn,bnd->bd", weigh(np.tanh(h @ w.T + b) @ u), h)

    at = dict(enumerate(("annotations", "W", "b", "u")))
    check_gradients(ctx, answer, (*given, lengths), at, oracle, part=0)

    # keys of nothing but 1, and so scores that are equal and lie below a finite fill
    low = 10 + annotations.abs(), given[1].abs() + 1, given[2].abs(), torch.full((d_a,), -1e4)
    name = "pooled where all scores are very low"
    got_pooled, _ = ctx.parts(ctx.call(answer, *low, lengths), ("pooled", "weights"))
    nan = "exp is 0 for very low scores: torch.softmax subtracts the largest first"
    got_pooled = ctx.floats(got_pooled, name, (batch, d), nan=nan)
    ctx.close(got_pooled, oracle(*map(array, low)), name)


def _attend(x, w_q, w_k, w_v, real):
    scores = (x @ w_q) @ (x @ w_k).swapaxes(1, 2) / np.sqrt(x.shape[-1])
    weights = softmax(np.where(real[:, None], scores, -1e9))
    return weights @ (x @ w_v) * real[..., None]


_ATTEND = Slips(
    _attend,
    {
        "a word looks at the padding: what must not be looked at are keys, the columns of the "
        "scores. A mask along the rows leaves out queries, and the words see "
        "everything": "real[:, None] → real[..., None]",
        "the mask comes after the softmax: the weights of a word no longer add up to "
        "1": "np.where(real[:, None], scores, -1e9)) → scores) * real[:, None]",
        "the rows of the padding are not zeros": "* real[..., None] →",
        "a word looks at the padding, and the rows of the padding are not zeros": (
            "np.where(real[:, None], scores, -1e9) → scores",
            "* real[..., None] →",
        ),
        "a word looks at the padding, and the rows of the padding are not zeros: "
        "the mask runs along the rows": ("* real[..., None] →", "real[:, None] → real[..., None]"),
        "the mask is upside down: "
        "words look at the padding alone": "real[:, None] → ~real[:, None]",
        "there is one mask for all: "
        "the length of the longest sentence of the batch": "real[:, None] → real.any(0)",
        "all sentences get the mask of the first one": "real[:, None] → real[0]",
        "the softmax runs over the queries (dim=1): expected over the keys": "-1e9)) → -1e9), 1)",
        "the softmax runs over the batch (dim=0): expected over the keys": "-1e9)) → -1e9), 0)",
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
    matrices = [0.8 * ctx.normal(d, d) for _ in range(3)]
    lengths = ctx.draw(  # the first sentence is not the longest
        lambda: ctx.lengths(batch, max(1, n - 1)), lambda ends: ends[0] < ends.max(), 20
    )
    got = ctx.call(answer, words, *matrices, lengths)
    there = torch.arange(n) < lengths[:, None]
    rows_alone = (
        shape_of(got) == (batch, n, d) and got[there].isfinite().all() and got[~there].isnan().any()
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


@exercise("03.longest_first", title="Find the bug: the longest first", difficulty=3, minutes=10)
def longest_first(answer, ctx):
    batch, places, d_f, d = ctx.sizes(batch=(1, 7), places=(1, 6), d_f=(1, 3), d=(1, 4))

    def differ(ends):  # the order, taken once, twice and the other way round, or none
        order = np.argsort([-end for end in ends])
        rows = order, order[order], np.argsort(order), np.arange(batch), np.arange(batch)[::-1]
        return len({row.tobytes() for row in rows}) == 5

    ends = [1 + k for k in ctx.draw(lambda: ctx.order(batch), differ, 50)]
    m = batch + ctx.integers(0, 2)
    features, states, w = (
        ctx.normal(batch, places, d_f),
        ctx.normal(batch, m, d),
        ctx.normal(d, d_f),
    )
    _look_longest_first(answer, ctx, features, states, ends, w)

    def oracle(features, states, w):
        ended = np.arange(m)[None] < np.array(ends)[:, None]
        return _contexts(features, states, w) * ended[..., None]

    lengths, at = torch.tensor(ends), {0: "features", 1: "states", 3: "W"}
    check_gradients(ctx, answer, (features, states, lengths, w), at, oracle)

    alike = [(1 + end) // 2 for end in ends]  # several captions of one length
    got = ctx.call(answer, features, states, torch.tensor(alike), w)
    got = ctx.floats(got, "the contexts where captions are equally long", (batch, m, d_f))
    expected = _contexts(array(features), array(states), array(w))
    expected = expected * (np.arange(m)[None] < np.array(alike)[:, None])[..., None]
    ctx.close(got, expected, "the contexts where captions are equally long")

    name = "the contexts where scores are large"
    nan = (
        "exp overflows for large scores and is 0 for low ones: torch.softmax subtracts the largest"
    )
    # small whole numbers, so that no score is rounded
    whole = [ctx.integers(-3, 4, *tensor.shape).float() for tensor in (features, states, w)]
    got = ctx.call(answer, *whole[:2], lengths, 100 * whole[2])
    got = ctx.floats(got, name, (batch, m, d_f), nan=nan)
    ctx.close(got, oracle(array(whole[0]), array(whole[1]), 100 * array(whole[2])), name)


def _contexts(features, states, w, axis=-1, bilinear=True):
    scores = np.einsum(
        "bmd,bpd->bmp", states @ w if bilinear else states[..., : features.shape[-1]], features
    )
    return softmax(scores, axis) @ features


def _look_longest_first(answer, ctx, features, states, ends, w_):
    (batch, m, _), d_f = states.shape, features.shape[-1]
    got = ctx.call(answer, features, states, torch.tensor(ends), w_)
    got = ctx.floats(
        got, "the contexts", (batch, m, d_f), mention="one a picture and word, as wide as a feature"
    )
    f, s, w = array(features), array(states), array(w_)
    count, place = np.array(ends), np.arange(m)
    order = np.argsort(-count)
    back = np.argsort(order)

    def ended(contexts, count=count):
        return contexts * (place[None] < count[:, None])[..., None]

    expected = ended(_contexts(f, s, w))
    ctx.close(
        got,
        expected,
        "the contexts",
        {
            "the contexts stand in the wrong rows: taking rows by the order a second time sorts "
            "again, it does not undo. The way back is the inverse of "
            "the order": expected[order][order],
            "the contexts come back with the longest caption first: row b belongs to picture b, "
            "put them back": expected[order],
            "the contexts stand in the wrong rows: the inverse of the order is applied once too "
            "often": expected[back],
            "the longest caption stands last: argsort of the lengths alone sorts upwards": expected[
                order
            ][::-1],
            "the pictures are sorted and the states are not: a caption looks at another one's "
            "picture": ended(_contexts(f[order], s, w)),
            "the states are sorted and the pictures are not: a caption looks at another one's "
            "picture": ended(_contexts(f, s[order], w), count[order])[back],
            "the states and lengths are not sorted along with the pictures: a caption looks at "
            "another one's picture": ended(_contexts(f[order], s, w), count[order])[back],
            "captions end at the lengths of other ones: use lengths that are sorted along with "
            "the rows, or not at all": ended(_contexts(f, s, w), count[order]),
            "there is a context behind the end of a caption: expected zeros": _contexts(f, s, w),
            "one step too few: a caption of length L has the words 0 … L − 1": ended(
                _contexts(f, s, w), count - 1
            ),
            "one step too many: a caption of length L has the words 0 … L − 1": ended(
                _contexts(f, s, w), count + 1
            ),
            "the weights are equal: the scores are not used": ended(
                np.broadcast_to(f.mean(1, keepdims=True), expected.shape)
            ),
            "the softmax runs over the captions (dim=0): expected over the places": ended(
                _contexts(f, s, w, axis=0)
            ),
            "the softmax runs over the words: expected over the places": ended(
                _contexts(f, s, w, axis=1)
            ),
        },
    )
