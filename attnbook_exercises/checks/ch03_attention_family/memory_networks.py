"""Checks of the section on memory networks: two hops on paper, a story in reverse, position
encoding, hops.
"""

import numpy as np

from ..context import array, shape_of, softmax
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import Slips, on_paper


@on_paper("03.two_hops", "u_3", title="Ask twice", difficulty=2, minutes=5, within=0.011)
def two_hops():
    return 12, {
        "what the second hop finds is added to the question, not put in its place": 10,
        "what the first hop finds is added to the question, not put in its place": 10.93,
        "both hops put what they find in the place of the question: it is added": 9.93,
        "the second hop asks with u_2, not with u_1 again": 11.93,
        "this is u_2, after one hop": 2,
        "the first weights are the wrong way round: the score of the second sentence is larger": 14,
    }


@exercise("03.backwards_story", title="Predict: A story in reverse", difficulty=1, minutes=3)
def backwards_story(answer, ctx):
    return ctx.predicted(answer, "nearly all", "about half", "hardly any")


def _encoded(x, ends):
    j, r = np.arange(1, x.shape[1] + 1)[:, None], np.arange(1, x.shape[2] + 1)
    J, d = ends[:, None, None], x.shape[2]
    real = j <= J
    scale = (1 - j / J) - (r / d) * (1 - 2 * j / J)
    return (real * scale * x).sum(1)


_ENCODED = Slips(
    _encoded,
    {
        "the words are added up as they are: multiply word j with l_j first": "* scale →",
        "the words are counted from 0: "
        "j and r start at 1": "scale = → j, r = j - 1, r - 1\n    scale =",
        "the words j are counted from 0: j starts at 1": "scale = → j = j - 1\n    scale =",
        "the components r are counted from 0: r starts at 1": "(r / d) → ((r - 1) / d)",
        "J is the padded length: "
        "it is the number of real words of each sentence": "scale = → J = len(x[0])\n    scale =",
        "the padding is added as well: "
        "leave out the words after the end of the sentence": "real * →",
        "J is the padded length, and the padding is added as well": (
            "scale = → J = len(x[0])\n    scale =",
            "real * →",
        ),
        "the two terms are added: l_rj is their difference": "- (r / d) → + (r / d)",
        "r/d is missing: each component has a slope of its own": "(r / d) → (0 * r + 1)",
        "this is the mean of the words: the sum was asked for": ".sum(1) → .sum(1) / J[:, 0]",
        "one word of the padding is added: j = 1 … J, so with places counted from 0 the words are "
        "at 0 … J − 1": "j <= J → j <= J + 1",
        "the last word of each sentence is left out: j = 1 … J": "j <= J → j < J",
        "the brackets are wrong: r/d multiplies (1 − 2j/J), and nothing else "
        "does": "(1 - j / J) - (r / d) → ((1 - j / J) - (r / d))",
        "the brackets are missing: "
        "r/d multiplies both terms of (1 − 2j/J)": "(1 - 2 * j / J) → 1 - 2 * j / J",
        "the brackets are wrong: 1 − 2j/J, not (1 − 2j)/J": "2 * j / J) → 2 * j) / J",
        "the 2 is missing: (1 − 2j/J)": "2 * j → j",
    },
)


@exercise("03.position_encoding", title="Words that know their place", difficulty=3, minutes=10)
def position_encoding(answer, ctx):
    batch, words, d = ctx.sizes(batch=(1, 4), words=(1, 9), d=(1, 6))
    embedded = ctx.normal(batch, words, d)
    lengths = ctx.lengths(batch, max(1, words - 1))  # padding in every row
    got = ctx.floats(
        ctx.call(answer, embedded, lengths),
        "the sentence vectors",
        (batch, d),
        mention="one vector a sentence",
    )
    ends = array(lengths)
    right, wrong = _ENCODED(array(embedded), ends)
    ctx.close(got, right, "the sentence vectors", wrong)
    given = embedded, lengths
    check_gradients(ctx, answer, given, {0: "embedded"}, lambda x: _encoded(x, ends))


def _hops(question, memories, lengths):
    """(u, weights)."""
    real = np.arange(memories[0].shape[1]) < lengths[:, None]
    u, rows = question, []
    for k in range(len(memories) - 1):
        scores = np.einsum("bd,bnd->bn", u, memories[k])
        p = softmax(np.where(real, scores, -np.inf))
        o = np.einsum("bn,bnd->bd", p, memories[k + 1])
        u = u + o
        rows.append(p)
    return u, np.stack(rows, 1)


_HOPS = Slips(
    _hops,
    {
        "u is forgotten: the next question is u + o, not o": "u = u + o → u = o",
        "every hop asks the first question: "
        "ask with u of the hop before": "u, memories[k] → question, memories[k]",
        "the padding gets weight: "
        "the lengths are not used": "np.where(real, scores, -np.inf) → scores",
        "the weights of the padding are set to 0 after the softmax: those of the sentences no "
        "longer add up to 1": "np.where(real, scores, -np.inf)) → scores) * real",
        "the values of a hop are its keys: "
        "memory k is read by its neighbour, memory k + 1": "p, memories[k + 1] → p, memories[k]",
        "every hop reads the first two memories: hop k has the keys k and the values k + 1": (
            "u, memories[k] → u, memories[0]",
            "p, memories[k + 1] → p, memories[1]",
        ),
        "keys and values are swapped: hop k compares with memory k and adds up memory k + 1": (
            "u, memories[k] → u, memories[k + 1]",
            "p, memories[k + 1] → p, memories[k]",
        ),
        "every hop compares with the first memory: "
        "the keys of hop k are memory k": "u, memories[k] → u, memories[0]",
        "the softmax runs over the stories of the batch (dim=0): "
        "expected over the sentences": "-np.inf)) → -np.inf), 0)",
        "the scores are divided by √d: "
        "the memory network does not scale": "memories[k]) → memories[k]) / np.sqrt(u.shape[1])",
        "the softmax is missing: "
        "scores are no weights": "softmax(np.where(real, scores, -np.inf)) → scores * real",
        "this is o of the last hop: u + o was asked for": "return u → return o",
        "this is u before the last hop: add what the last hop found": "return u → return u - o",
        "the values of a hop are its keys: hop k adds up memory k + 1": (
            'return u, → u = question + sum(np.einsum("bn,bnd->bd", p, m) for p, m in zip(rows, '
            "memories))\n    return u,"
        ),
    },
)


@exercise("03.memory_hops", title="Hop by hop", difficulty=3, minutes=10)
def memory_hops(answer, ctx):
    batch, n, d, hops = ctx.sizes(batch=(1, 2), n=(1, 6), d=(1, 4), hops=(1, 5))
    question = ctx.normal(batch, d)
    memories = [ctx.normal(batch, n, d) for _ in range(hops + 1)]
    lengths = ctx.lengths(batch, max(1, n - 1), min(2, n))  # padding in every row
    result = ctx.call(answer, question, memories, lengths)
    got, got_weights = ctx.parts(result, ("u", "weights"))
    got = ctx.floats(got, "u", (batch, d))
    if shape_of(got_weights) == (hops, batch, n) != (batch, hops, n):
        ctx.fail(
            "weights has the hops in front: expected (batch, K, n), so stack them in dimension 1"
        )
    got_weights = ctx.floats(
        got_weights, "weights", (batch, hops, n), mention="one row of weights a hop"
    )
    q, ms, ends = array(question), [array(m) for m in memories], array(lengths)
    real = np.arange(n) < ends[:, None]

    (expected, weights), wrong = _HOPS(q, ms, ends)
    ctx.recognize(got_weights, weights, {message: one[1] for message, one in wrong.items()})
    padding = np.where(real[:, None], 0.0, array(got_weights))
    if padding.any():
        ctx.fail(f"a padded sentence gets weight {padding.max():.2g}: expected exactly 0")
    ctx.close(got_weights, weights, "weights")
    ctx.close(got, expected, "u", {message: one[0] for message, one in wrong.items()})

    def by_hand(question, *rest):
        return answer(question, list(rest[:-1]), rest[-1])

    # scores below -1e6, and far apart
    far, near = -1e6 * (1 + question.abs()), [1 + memories[0].abs(), *memories[1:]]
    got, low_weights = ctx.parts(ctx.call(answer, far, near, lengths), ("u", "weights"))
    nan = "exp is 0 for very low scores: torch.softmax subtracts the largest first"
    low_weights = ctx.floats(
        low_weights, "weights where all scores are very low", (batch, hops, n), nan=nan
    )
    if array(low_weights)[np.broadcast_to(~real[:, None], (batch, hops, n))].any():
        ctx.fail(
            "where all scores are very low, a padded sentence gets weight: the score of padding is "
            "−∞, no finite number"
        )
    got = ctx.floats(got, "u where all scores are very low", (batch, d), nan=nan)
    expected = _hops(array(far), [*map(array, near)], ends)[0]
    ctx.close(got, expected, "u where all scores are very low")

    at = {0: "the question"} | {k + 1: f"memory {k + 1}" for k in range(hops + 1)}
    given = (question, *memories, lengths)
    check_gradients(ctx, by_hand, given, at, lambda q, *ms: _hops(q, ms, ends)[0], part=0)
