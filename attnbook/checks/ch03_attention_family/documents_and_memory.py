"""Checks of the section on documents and memory: a learned query, position encoding, hops
through a memory, padding, an order undone.
"""

from functools import partial

import numpy as np
import torch

from ..context import array, shape_of, softmax
from ..gradient_check import check_gradients
from ..registry import exercise


@exercise("03.learned_query", title="Pool with a learned query", difficulty=2, minutes=15)
def learned_query(answer, ctx):
    batch, n, d, d_a = 3, ctx.integers(5, 8), 4, 3
    annotations = ctx.normal(batch, n, d)
    w, b, u = ctx.normal(d_a, d), ctx.normal(d_a), 2 * ctx.normal(d_a)
    lengths = torch.tensor([n - 1, 2, 0])
    got = ctx.call(answer, annotations, w, b, u, lengths)
    got_pooled, got = ctx.parts(got, ("pooled", "weights"), ((batch, d), (batch, n)))
    empty = "the last sequence has no real position: its weights and its vector are zeros"
    got = ctx.tensor(got, "weights", (batch, n), nan=empty)
    if shape_of(got_pooled) == (batch, d_a):
        ctx.fail(
            "the keys are added up: they only give the weights, the vector is the weighted sum "
            "of the annotations"
        )
    got_pooled = ctx.tensor(
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
    filled = array(got)[:2]
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
    ctx.recognize(filled, expected[:2], {message: other[:2] for message, other in known.items()})
    if ctx.same(filled, expected[:2]) and (array(got)[2] != 0).any():
        ctx.fail(f"{empty}. Yours has weights that add up to {array(got)[2].sum():.2g}")
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


def _scales(count, words, d, start=1):
    """l_rj of a sentence of ``count`` words in ``words`` places, with j and r counted from
    ``start``.
    """
    j, r = np.arange(start, words + start)[:, None], np.arange(start, d + start)[None]
    scale = (1 - j / count) - (r / d) * (1 - 2 * j / count)
    return np.where(np.arange(words)[:, None] < count, scale, 0.0)


@exercise("03.position_encoding", title="Words that know their place", difficulty=3, minutes=20)
def position_encoding(answer, ctx):
    batch, words, d = 3, ctx.integers(5, 8), 6
    embedded = ctx.normal(batch, words, d)
    ends = [words - 1, 3, 1]
    got = ctx.tensor(
        ctx.call(answer, embedded, torch.tensor(ends)),
        "the sentence vectors",
        (batch, d),
        mention="one vector a sentence",
    )
    x = array(embedded)
    real = np.arange(words)[None] < np.array(ends)[:, None]

    def vectors(scales):
        return np.stack([(scale * row).sum(0) for scale, row in zip(scales, x)])

    expected = vectors([_scales(count, words, d) for count in ends])
    j, r = np.arange(1, words + 1)[:, None], np.arange(1, d + 1)[None]

    def scaled(scale, count):
        return np.where(np.arange(words)[:, None] < count, scale, 0.0)

    wrong = {
        "the words are added up as they are: multiply word j with l_j first": vectors(
            [real[b][:, None] * 1.0 for b in range(batch)]
        ),
        "the words are counted from 0: j and r start at 1": vectors(
            [_scales(count, words, d, 0) for count in ends]
        ),
        "the words j are counted from 0: j starts at 1": vectors(
            [scaled((1 - (j - 1) / c) - (r / d) * (1 - 2 * (j - 1) / c), c) for c in ends]
        ),
        "the components r are counted from 0: r starts at 1": vectors(
            [scaled((1 - j / c) - ((r - 1) / d) * (1 - 2 * j / c), c) for c in ends]
        ),
        "J is the padded length: it is the number of real words of each sentence": vectors(
            [scaled((1 - j / words) - (r / d) * (1 - 2 * j / words), c) for c in ends]
        ),
        "the padding is added as well: leave out the words behind the end of the sentence": vectors(
            [(1 - j / c) - (r / d) * (1 - 2 * j / c) for c in ends]
        ),
        "J is the padded length, and the padding is added as well": vectors(
            [(1 - j / words) - (r / d) * (1 - 2 * j / words) for _ in ends]
        ),
        "the two terms are added: l_rj is their difference": vectors(
            [scaled((1 - j / c) + (r / d) * (1 - 2 * j / c), c) for c in ends]
        ),
        "r/d is missing: each component has a slope of its own": vectors(
            [scaled((1 - j / c) - (1 - 2 * j / c), c) for c in ends]
        ),
        "this is the mean of the words: the sum was asked for": np.stack(
            [e / c for e, c in zip(expected, ends)]
        ),
        "one word of the padding is added: j = 1 … J, so with places counted from 0 the words "
        "are at 0 … J − 1": vectors(
            [
                np.where(
                    np.arange(words)[:, None] <= c, (1 - j / c) - (r / d) * (1 - 2 * j / c), 0.0
                )
                for c in ends
            ]
        ),
        "the last word of each sentence is left out: j = 1 … J": vectors(
            [
                np.where(
                    np.arange(words)[:, None] < c - 1, (1 - j / c) - (r / d) * (1 - 2 * j / c), 0.0
                )
                for c in ends
            ]
        ),
        "the brackets are wrong: r/d multiplies (1 − 2j/J), and nothing else does": vectors(
            [scaled(((1 - j / c) - (r / d)) * (1 - 2 * j / c), c) for c in ends]
        ),
        "the brackets are missing: r/d multiplies both terms of (1 − 2j/J)": vectors(
            [scaled((1 - j / c) - (r / d) - 2 * j / c, c) for c in ends]
        ),
        "the brackets are wrong: 1 − 2j/J, not (1 − 2j)/J": vectors(
            [scaled((1 - j / c) - (r / d) * (1 - 2 * j) / c, c) for c in ends]
        ),
        "the 2 is missing: (1 − 2j/J)": vectors(
            [scaled((1 - j / c) - (r / d) * (1 - j / c), c) for c in ends]
        ),
    }
    ctx.close(got, expected, "the sentence vectors", wrong)
    check_gradients(
        ctx,
        answer,
        (embedded, torch.tensor(ends)),
        {0: "embedded"},
        lambda x: np.stack(
            [(_scales(count, words, d) * row).sum(0) for count, row in zip(ends, x)]
        ),
    )


@exercise("03.memory_hops", title="Hop by hop", difficulty=3, minutes=20)
def memory_hops(answer, ctx):
    batch, n, d, hops = 2, ctx.integers(4, 7), 4, 3
    question = ctx.normal(batch, d)
    memories = [ctx.normal(batch, n, d) for _ in range(hops + 1)]
    lengths = torch.tensor([2, n - 1])
    result = ctx.call(answer, question, memories, lengths)
    got, got_weights = ctx.parts(result, ("u", "weights"))
    got = ctx.tensor(got, "u", (batch, d))
    if shape_of(got_weights) == (hops, batch, n):
        ctx.fail(
            "weights has the hops in front: expected (batch, K, n), so stack them in dimension 1"
        )
    got_weights = ctx.tensor(
        got_weights, "weights", (batch, hops, n), mention="one row of weights a hop"
    )
    q, ms = array(question), [array(m) for m in memories]
    real = np.arange(n)[None] < np.array(lengths.tolist())[:, None]

    def run(
        key=lambda k: k,
        value=lambda k: k + 1,
        forget=False,
        freeze=False,
        masked=True,
        axis=-1,
        scale=1.0,
        soft=True,
        after=False,
    ):
        u, rows = q, []
        for k in range(hops):
            e = scale * np.einsum("bd,bnd->bn", q if freeze else u, ms[key(k)])
            p = softmax(np.where(real, e, -np.inf) if masked else e, axis) if soft else e * real
            p = p * real if after else p
            o = np.einsum("bn,bnd->bd", p, ms[value(k)])
            u = o if forget else u + o
            rows.append(p)
        return u, np.stack(rows, 1)

    expected, weights = run()
    cases = {
        "u is forgotten: the next question is u + o, not o": run(forget=True),
        "every hop asks the first question: ask with u of the hop before": run(freeze=True),
        "the padding gets weight: the lengths are not used": run(masked=False),
        "the weights of the padding are set to 0 after the softmax: those of the sentences no "
        "longer add up to 1": run(masked=False, after=True),
        "the values of a hop are its keys: memory k is read by its neighbour, memory k + 1": run(
            value=lambda k: k
        ),
        "every hop reads the first two memories: hop k has the keys k and the values k + 1": run(
            lambda k: 0, lambda k: 1
        ),
        "keys and values are swapped: hop k compares with memory k and adds up memory k + 1": run(
            lambda k: k + 1, lambda k: k
        ),
        "every hop compares with the first memory: the keys of hop k are memory k": run(
            lambda k: 0
        ),
        "the softmax runs over the stories of the batch (dim=0): expected over the sentences": run(
            axis=0
        ),
        "the scores are divided by √d: the memory network does not scale": run(scale=d**-0.5),
        "the softmax is missing: scores are no weights": run(soft=False),
    }
    ctx.recognize(got_weights, weights, {message: case[1] for message, case in cases.items()})
    padding = np.where(real[:, None], 0.0, array(got_weights))
    if padding.any():
        ctx.fail(f"a padded sentence gets weight {padding.max():.2g}: expected exactly 0")
    ctx.close(got_weights, weights, "weights")
    outputs = {message: case[0] for message, case in cases.items()}
    last = np.einsum("bn,bnd->bd", weights[:, -1], ms[-1])
    outputs["this is o of the last hop: u + o was asked for"] = last
    outputs["this is u before the last hop: add what the last hop found"] = expected - last
    outputs["the values of a hop are its keys: hop k adds up memory k + 1"] = q + sum(
        np.einsum("bn,bnd->bd", weights[:, k], ms[k]) for k in range(hops)
    )
    ctx.close(got, expected, "u", outputs)

    def oracle(q, *ms):
        u = q
        for keys, values in zip(ms, ms[1:]):
            u = u + np.einsum(
                "bn,bnd->bd",
                softmax(np.where(real, np.einsum("bd,bnd->bn", u, keys), -np.inf)),
                values,
            )
        return u

    def by_hand(question, *rest):
        return answer(question, list(rest[:-1]), rest[-1])

    at = {0: "the question"} | {k + 1: f"memory {k + 1}" for k in range(hops + 1)}
    check_gradients(ctx, by_hand, (question, *memories, lengths), at, oracle, part=0)


@exercise(
    "03.words_look_at_words", title="Find the bug: words look at words", difficulty=2, minutes=15
)
def words_look_at_words(answer, ctx):
    batch, n, d = 3, ctx.integers(6, 9), 4
    words = ctx.normal(batch, n, d)
    matrices = [0.8 * ctx.normal(d, d) for _ in range(3)]
    lengths = torch.tensor([4, n - 1, 2])
    got = ctx.call(answer, words, *matrices, lengths)
    got = ctx.tensor(
        got,
        "the result",
        (batch, n, d),
        mention="one row a word, as wide as the words",
        nan="a row of nothing but -inf has no softmax, and 0 times NaN is NaN: every sentence "
        "has a word, so leave out the keys "
        "(columns) of the padding and not its queries (rows)",
    )
    real = np.arange(n)[None] < array(lengths)[:, None]
    row, column = real[:, :, None], real[:, None, :]
    given = [array(t) for t in (words, *matrices)]

    def attend(x, w_q, w_k, w_v, *, allowed=column, after=1.0, scale=d**-0.5, axis=-1, zeros=True):
        e = (x @ w_q) @ (x @ w_k).swapaxes(1, 2) * scale
        weights = softmax(np.where(allowed, e, -1e9), axis) * after
        return (weights @ (x @ w_v)) * (row if zeros else 1.0)

    everything = np.ones_like(column)
    result = partial(attend, *given)
    wrong = {
        "a word looks at the padding: what must not be looked at are keys, the columns of the "
        "scores. A mask along the rows leaves out queries, "
        "and the words see everything": result(allowed=row),
        "the mask comes after the softmax: the weights of a word no longer add up to 1": result(
            allowed=everything, after=column
        ),
        "the rows of the padding are not zeros": result(zeros=False),
        "a word looks at the padding, and the rows of the padding are not zeros": result(
            allowed=everything, zeros=False
        ),
        "a word looks at the padding, and the rows of the padding are not zeros: the mask runs "
        "along the rows": result(allowed=row, zeros=False),
        "the mask is upside down: words look at the padding alone": result(allowed=~column),
        "there is one mask for all: the length of the longest sentence of the batch": result(
            allowed=np.broadcast_to(column.any(0, keepdims=True), column.shape)
        ),
        "all sentences get the mask of the first one": result(allowed=column[:1]),
        "the softmax runs over the queries (dim=1): expected over the keys": result(axis=1),
        "the softmax runs over the batch (dim=0): expected over the keys": result(axis=0),
        "the scores are not divided by the root of d": result(scale=1.0),
        "the scores are divided by d: expected its root": result(scale=1 / d),
        "one position too many counts as a word: place < length": result(
            allowed=(np.arange(n)[None] <= array(lengths)[:, None])[:, None]
        ),
        "a word sees no later word: this layer is not causal": result(
            allowed=column & np.tri(n, dtype=bool)
        ),
    }
    expected = attend(*given)
    ctx.close(got, expected, "the result", wrong)
    names = dict(enumerate(("words", "W_q", "W_k", "W_v")))
    check_gradients(ctx, answer, (words, *matrices, lengths), names, attend)


@exercise("03.longest_first", title="Find the bug: the longest first", difficulty=3, minutes=20)
def longest_first(answer, ctx):
    places, d_f, d = ctx.integers(4, 7), 3, 4
    w_ = ctx.normal(d, d_f)
    for m in (4, 5):
        # until the order, taken once, twice and the other way round, gives different rows
        while True:
            ends = [1 + k for k in ctx.order(m)]
            order = np.argsort([-end for end in ends])
            if (
                len(
                    {
                        rows.tobytes()
                        for rows in (order, order[order], np.argsort(order), np.arange(m))
                    }
                )
                == 4
            ):
                break
        _look_longest_first(
            answer,
            ctx,
            ctx.normal(len(ends), places, d_f),
            ctx.normal(len(ends), max(ends), d),
            ends,
            w_,
        )
    features, states, lengths = (
        ctx.normal(3, places, d_f),
        ctx.normal(3, 4, d),
        torch.tensor([2, 4, 3]),
    )

    def oracle(features, states, w):
        return (
            _contexts(features, states, w)
            * (np.arange(4)[None] < array(lengths)[:, None])[..., None]
        )

    check_gradients(
        ctx, answer, (features, states, lengths, w_), {0: "features", 1: "states", 3: "W"}, oracle
    )


def _contexts(features, states, w, axis=-1, bilinear=True):
    scores = np.einsum(
        "bmd,bpd->bmp", states @ w if bilinear else states[..., : features.shape[-1]], features
    )
    return softmax(scores, axis) @ features


def _look_longest_first(answer, ctx, features, states, ends, w_):
    batch, m, d_f = len(ends), max(ends), features.shape[-1]
    got = ctx.call(answer, features, states, torch.tensor(ends), w_)
    got = ctx.tensor(
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
