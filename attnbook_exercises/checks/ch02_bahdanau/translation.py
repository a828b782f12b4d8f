"""Checks of the section on translation: a score by hand, from weights between subwords to weights
between words, a look by content.
"""

import numpy as np
import torch

from ..context import HARD_SCORES, array, softmax
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import Slips, on_paper


@on_paper(
    "02.bleu_by_hand", "the score", title="a BLEU score", difficulty=1, minutes=5, within=0.06
)
def bleu_by_hand():
    return 59.46, {
        "that is a share: BLEU is quoted from 0 to 100": 0.595,
        "the root is missing: take the fourth root of the product": 12.5,
        "that is the share of the words alone": 87.5,
        "the shares are averaged: BLEU takes their geometric mean": 62.2,
        "runs of up to three words are counted: BLEU goes up to four": 67.9,
        "the square root is taken: there are four shares": 35.4,
        "a brevity penalty is taken off: both sentences have eight words": 52.5,
    }


@exercise(
    "02.words_in_reverse", title="Predict: all the right words, backwards", difficulty=1, minutes=2
)
def words_in_reverse(answer, ctx):
    return ctx.predicted(answer, "0", "about 25", "100")


def _merged(weights, target_words, source_words):
    rows = np.array(target_words) == np.arange(max(target_words) + 1)[:, None]
    columns = np.array(source_words) == np.arange(max(source_words) + 1)[:, None]
    return rows / rows.sum(-1, keepdims=True) @ weights @ columns.T


_MERGED = Slips(
    _merged,
    {
        "the pieces of a source word are averaged: the weight of a word is the sum over its "
        "pieces": "columns.T → (columns / columns.sum(-1, keepdims=True)).T",
        "the pieces of a target word are added up: "
        "its row has to add up to 1, take their mean": "/ rows.sum(-1, keepdims=True) →",
        "sum and mean are swapped: add up over source pieces, average over target pieces": (
            "/ rows.sum(-1, keepdims=True) →",
            "columns.T → (columns / columns.sum(-1, keepdims=True)).T",
        ),
        "the largest weight of a block is taken: add up over source pieces, average over target "
        "pieces": (
            "rows / rows.sum(-1, keepdims=True) @ weights @ columns.T → "
            "np.array([[weights[np.ix_(r, c)].max() for c in columns] for r in rows])"
        ),
        "only the first piece of a target word is "
        "used": "rows / rows.sum(-1, keepdims=True) @ weights → weights[rows.argmax(-1)]",
        "only the last piece of a target word is used": (
            "rows / rows.sum(-1, keepdims=True) @ weights → weights[-1 - rows[:, ::-1].argmax(-1)]"
        ),
    },
)


@exercise("02.merge_subwords", title="From pieces to words", difficulty=3, minutes=10)
def merge_subwords(answer, ctx):
    for _ in range(1 if ctx.case == "long" else 2):
        sizes = ctx.sizes(target_words=(1, 5), source_words=(1, 5, 20))
        target_words, source_words = (  # of one, of two and of three pieces
            np.repeat(np.arange(k), np.add(ctx.order(3) * k, 1)[:k]).tolist() for k in sizes
        )
        weights = ctx.weights(len(target_words), len(source_words))
        right, wrong = _MERGED(array(weights), target_words, source_words)
        got = ctx.call(answer, weights, target_words, source_words)
        got = ctx.floats(
            got,
            "weights",
            right.shape,
            mention="one row per target word, one column per source word",
        )
        ctx.recognize(got, right, wrong)
        sums = array(got).sum(-1)
        if not np.allclose(sums, 1, atol=1e-4):
            row = int(np.abs(sums - 1).argmax())
            ctx.fail(
                f"the row of target word {row} adds up to {sums[row]:.3g}: the weights of a word "
                f"over the source add up to 1"
            )
        ctx.close(got, right, "weights")
    given = weights, target_words, source_words
    check_gradients(ctx, answer, given, {0: "weights"}, lambda w: _merged(w, *given[1:]))


def _weights(embedded, state, annotations, w, real):
    query = np.concatenate((embedded, state), -1) @ w
    scores = np.einsum("bd,bnd->bn", query, annotations)
    return softmax(np.where(real, scores, -np.inf))


_WEIGHTS = Slips(
    _weights,
    {
        "the weights do not depend on the annotations: numbers of the question itself are taken "
        "for scores of the places, whatever word stands there. Score each annotation": (
            'np.einsum("bd,bnd->bn", query, annotations) → query[:, : annotations.shape[1]]'
        ),
        "the weights do not depend on the annotations of the sentence: every word is compared with "
        "those of the first "
        "sentence": "query, annotations → query, 0 * annotations + annotations[0]",
        "the weights are equal: "
        "the question is not asked of each annotation": "scores, -np.inf → 0 * scores, -np.inf",
        "the padding is not masked: it gets weight": "np.where(real, scores, -np.inf) → scores",
        "the mask comes after the softmax: "
        "the weights no longer add up to 1": "np.where(real, scores, -np.inf)) → scores) * real",
        "the mask is upside down: True is a source word": "scores, -np.inf → -1e9, scores",
        "the word before is not in the question: "
        "q = [embedded; state] W": "(embedded, state) → (0 * embedded, state)",
        "the state is not in the question: "
        "q = [embedded; state] W": "(embedded, state) → (embedded, 0 * state)",
        "[state; embedded] stands where [embedded; state] "
        "should": "(embedded, state) → (state, embedded)",
        "the scores are divided by the root of their width: "
        "here they are not": "scores, -np.inf → scores / np.sqrt(len(w.T)), -np.inf",
        "the question goes through tanh: "
        "expected q = [embedded; state] W": "query, annotations → np.tanh(query), annotations",
        "only the first n numbers of question and annotation are compared: the dot product has d_h "
        "of "
        "them": "query, annotations → query[:, : real.shape[1]], annotations[..., : real.shape[1]]",
        "the question's j-th number is added to the score of word j: the dot product alone is the "
        "score": "scores, -np.inf → scores + query[:, : real.shape[1]], -np.inf",
        "these are scores of the annotations alone: "
        "the question is not used": "query, annotations → np.ones_like(query), annotations",
        "question and annotation are compared by their cosine: expected the dot product": (
            "query, annotations → query / np.linalg.norm(query, axis=-1, keepdims=True), "
            "annotations / np.linalg.norm(annotations, axis=-1, keepdims=True)"
        ),
        "the softmax runs over the batch (dim=0): "
        "expected over the source words": "-np.inf)) → -np.inf), 0)",
        "the places stand in reverse order": (
            "return → ends = real.sum(-1, keepdims=True)\n    scores = np.take_along_axis(scores, "
            "(ends - 1 - np.arange(real.shape[1])) % real.shape[1], 1)\n    return"
        ),
    },
)


def _context(embedded, state, annotations, w, real):
    weights = _weights(embedded, state, annotations, w, real)
    return np.einsum("bn,bnd->bd", weights, annotations)


_CONTEXT = Slips(
    _context,
    {
        "the weights are right, but the context is made with weights that do not know the "
        "annotations": (
            "_weights(embedded, state, annotations, w, real) → softmax(np.where(real, "
            "(np.concatenate((embedded, state), -1) @ w)[:, : real.shape[1]], -np.inf))"
        ),
        "the weights are right, but the context is made with weights that do not know the "
        "padding": "w, real) → w, np.ones_like(real))",
        "the context is a mean of the annotations: weigh "
        "them": "weights, annotations) → np.full(real.shape, 1 / real.shape[1]), annotations)",
        "the context is the mean of the weighted annotations: the weights add up to 1, add them "
        "up": "weights, annotations) → weights, annotations) / real.shape[1]",
    },
)


@exercise(
    "02.look_by_content", title="Find the bug: a decoder that looks away", difficulty=2, minutes=8
)
def look_by_content(answer, ctx):
    for factor, shift in HARD_SCORES:
        batch, n, d_e, d, more = ctx.sizes(
            batch=(1, 5), n=(1, 7), d_e=(1, 3), d=(1, 4), d_h_less_n=(0, 3)
        )
        d_h = n + more
        embedded, state = ctx.normal(batch, d_e), ctx.normal(batch, d)
        annotations, W = ctx.normal(batch, n, d_h), 0.25 * ctx.normal(d_e + d, d_h)
        real = torch.arange(n) < ctx.lengths(batch, n)[:, None]
        ordinary = (factor, shift) == HARD_SCORES[0]
        if not ordinary:  # quarters, whose products are exact; one entry is for the shift
            embedded, state, annotations, W = (
                (4 * part).round() / 4 for part in (embedded, state, annotations, W)
            )
            embedded[:, 0], annotations[..., 0], W[:, 0] = 1.0, 1.0, 0.0
            W *= factor
            W[0, 0] = shift
        _look(answer, ctx, (embedded, state, annotations, W, real), ordinary)


def _look(answer, ctx, given, ordinary):
    *arrays, there = (array(t) for t in given)
    e, s, h, w = arrays
    batch, n, d_h = h.shape
    scores = np.einsum("bd,bnd->bn", np.concatenate((e, s), -1) @ w, h)
    where = "" if ordinary else f"where a score is {scores.flat[np.abs(scores).argmax()]:.0f} "
    got_context, got = ctx.parts(
        ctx.call(answer, *given), ("context", "weights"), ((batch, d_h), (batch, n))
    )
    got = ctx.floats(
        got,
        where + "weights",
        (batch, n),
        nan=None if ordinary else "exp overflows or is 0 at every word: subtract the largest first",
        mention="one row per sentence, one column per source word",
    )
    got_context = ctx.floats(
        got_context,
        where + "context",
        (batch, d_h),
        mention="one row per sentence, as wide as an annotation",
    )
    # a softmax by the logarithm of the sum is right, too
    rough = 0.0 if ordinary else np.abs(scores).max()
    right, wrong = _WEIGHTS(*arrays, there)
    ctx.close(got, right, where + "weights", wrong if ordinary else None, size=rough)
    right, wrong = _CONTEXT(*arrays, there)
    ctx.close(
        got_context,
        right,
        where + "context",
        wrong if ordinary else None,
        size=rough * np.abs(h).max(),
    )
    if ordinary:
        at = dict(enumerate(("embedded", "state", "annotations", "W")))
        check_gradients(ctx, answer, given, at, lambda *now: _context(*now, real=there), part=0)
