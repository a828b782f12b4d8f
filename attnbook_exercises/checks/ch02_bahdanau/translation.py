"""Checks of the section on translation: a score by hand, from weights between subwords to weights
between words, a look by content.
"""

import numpy as np
import torch

from ..context import HARD_SCORES, array, softmax
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import on_paper


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


@exercise("02.merge_subwords", title="From pieces to words", difficulty=3, minutes=10)
def merge_subwords(answer, ctx):
    for _ in range(2):
        sizes = ctx.sizes(target_words=(1, 5), source_words=(1, 5))
        target_words, source_words = (  # of one, of two and of three pieces
            np.repeat(np.arange(k), np.add(ctx.order(3) + ctx.order(3), 1)[:k]).tolist()
            for k in sizes
        )
        weights = ctx.weights(len(target_words), len(source_words))
        w = array(weights)
        rows = np.array(target_words)[None] == np.arange(max(target_words) + 1)[:, None]
        columns = np.array(source_words)[None] == np.arange(max(source_words) + 1)[:, None]
        mean_rows, mean_columns = (
            rows / rows.sum(-1, keepdims=True),
            columns / columns.sum(-1, keepdims=True),
        )
        got = ctx.call(answer, weights, target_words, source_words)
        got = ctx.floats(
            got,
            "weights",
            (len(rows), len(columns)),
            mention="one row per target word, one column per source word",
        )
        first = [target_words.index(i) for i in range(len(rows))]
        last = [len(target_words) - 1 - target_words[::-1].index(i) for i in range(len(rows))]
        peak = np.array([[w[np.ix_(r, c)].max() for c in columns] for r in rows])
        wrong = {
            "the pieces of a source word are averaged: the weight of a word is the sum over its "
            "pieces": mean_rows @ w @ mean_columns.T,
            "the pieces of a target word are added up: its row has to add up to 1, take their "
            "mean": rows @ w @ columns.T,
            "sum and mean are swapped: add up over source pieces, average over target pieces": rows
            @ w
            @ mean_columns.T,
            "the largest weight of a block is taken: add up over source pieces, average over "
            "target pieces": peak,
            "only the first piece of a target word is used": w[first] @ columns.T,
            "only the last piece of a target word is used": w[last] @ columns.T,
        }
        ctx.recognize(got, mean_rows @ w @ columns.T, wrong)
        sums = array(got).sum(-1)
        if not np.allclose(sums, 1, atol=1e-4):
            row = int(np.abs(sums - 1).argmax())
            ctx.fail(
                f"the row of target word {row} adds up to {sums[row]:.3g}: the weights of a word "
                f"over the source add up to 1"
            )
        ctx.close(got, mean_rows @ w @ columns.T, "weights")


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
    e, s, h, w, there = (array(t) for t in given)
    batch, n, d_h = h.shape

    def weigh(scores, axis=-1):
        return softmax(np.where(there, scores, -np.inf), axis)

    def scores(e, s, h, w):
        return np.einsum("bd,bnd->bn", np.concatenate((e, s), -1) @ w, h)

    concatenated, right = np.concatenate((e, s), -1) @ w, scores(e, s, h, w)
    where = "" if ordinary else f"where a score is {right.flat[np.abs(right).argmax()]:.0f} "
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
    expected = weigh(right)
    shifted = np.stack([row[there[b].sum() - 1 - np.arange(n)] for b, row in enumerate(right)])
    context = np.einsum("bn,bnd->bd", expected, h)
    if not ordinary:
        # a softmax by the logarithm of the sum is right, too
        ctx.close(got, expected, where + "weights", size=np.abs(right).max())
        rough = np.abs(right).max() * np.abs(h).max()
        ctx.close(got_context, context, where + "context", size=rough)
        return
    ctx.close(
        got,
        expected,
        "weights",
        {
            "the weights do not depend on the annotations: numbers of the question itself are "
            "taken for scores of the places, whatever word "
            "stands there. Score each annotation": weigh(concatenated[:, :n]),
            "the weights do not depend on the annotations of the sentence: every word is "
            "compared with those of the first sentence": weigh(
                np.einsum("bd,nd->bn", concatenated, h[0])
            ),
            "the weights are equal: the question is not asked of each annotation": there
            / there.sum(-1, keepdims=True),
            "the padding is not masked: it gets weight": softmax(right),
            "the mask comes after the softmax: the weights no longer add up to 1": softmax(right)
            * there,
            "the mask is upside down: True is a source word": softmax(np.where(there, -1e9, right)),
            "the word before is not in the question: q = [embedded; state] W": weigh(
                scores(0 * e, s, h, w)
            ),
            "the state is not in the question: q = [embedded; state] W": weigh(
                scores(e, 0 * s, h, w)
            ),
            "[state; embedded] stands where [embedded; state] should": weigh(
                np.einsum("bd,bnd->bn", np.concatenate((s, e), -1) @ w, h)
            ),
            "the scores are divided by the root of their width: here they are not": weigh(
                right / np.sqrt(d_h)
            ),
            "the question goes through tanh: expected q = [embedded; state] W": weigh(
                np.einsum("bd,bnd->bn", np.tanh(concatenated), h)
            ),
            "only the first n numbers of question and annotation are compared: the dot product "
            "has d_h of them": weigh(np.einsum("bd,bnd->bn", concatenated[:, :n], h[..., :n])),
            "the question's j-th number is added to the score of word j: the dot product alone "
            "is the score": weigh(right + concatenated[:, :n]),
            "these are scores of the annotations alone: the question is not used": weigh(h.sum(-1)),
            "question and annotation are compared by their cosine: expected the dot product": weigh(
                right / np.linalg.norm(concatenated, axis=-1)[:, None] / np.linalg.norm(h, axis=-1)
            ),
            "the softmax runs over the batch (dim=0): expected over the source words": weigh(
                right, 0
            ),
            "the places stand in reverse order": weigh(shifted),
        },
    )
    ctx.close(
        got_context,
        context,
        "context",
        {
            "the weights are right, but the context is made with weights that do not know the "
            "annotations": np.einsum("bn,bnd->bd", weigh(concatenated[:, :n]), h),
            "the weights are right, but the context is made with weights that do not know the "
            "padding": np.einsum("bn,bnd->bd", softmax(right), h),
            "the context is a mean of the annotations: weigh them": h.mean(1),
            "the context is the mean of the weighted annotations: the weights add up to 1, add "
            "them up": context / n,
        },
    )

    def oracle(e, s, h, w):
        return np.einsum("bn,bnd->bd", weigh(scores(e, s, h, w)), h)

    at = dict(enumerate(("embedded", "state", "annotations", "W")))
    check_gradients(ctx, answer, given, at, oracle, part=0)
