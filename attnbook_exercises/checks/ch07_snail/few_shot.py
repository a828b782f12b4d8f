"""Checks of the section on classes from one example: a label from one look, turned letters, the
sequences that a network reads, and prototypes of classes.
"""

import numpy as np
import torch

from ..context import array, shape_of
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import Slips, on_paper


@on_paper(
    "07.one_look",
    ("the entry before the exchange", "the entry after the exchange"),
    title="A label from one look",
    difficulty=1,
    minutes=4,
    within=0.004,
)
def one_look():
    return (0.7, 0.4), {
        "the weights do not add up to 1: divide by the sum of the exponentials": (7, 4),
        "those are the entries of class 1": (0.3, 0.6),
        "nothing has changed: the labels change places, and the pictures keep their scores": (
            0.7,
            0.7,
        ),
        "the mean of the weights of a class: its examples add up": (0.35, 0.2),
        "the scores are divided by their sum: the softmax takes their exponentials": (0.782, 0.346),
        "in percent: expected parts of 1": (70, 40),
        "all four examples count alike: weight them by the softmax of their scores": (0.5, 0.5),
        "only the largest weight is counted: the sum takes all four": (1, 0),
    }


@exercise("07.turned", title="Predict: Letters that lie on their side", difficulty=1, minutes=2)
def turned(answer, ctx):
    return ctx.predicted(answer, "neither", "the first", "the second", "both")


def _read(support, labels, query, ways):
    """The input of one query each: (B, Q, S + 1, d + ways)."""
    batch, queries, d = query.shape
    known = np.eye(ways)[labels]
    of_query = np.zeros((batch, 1, ways))
    examples = np.concatenate((support, known), 2)[:, None].repeat(queries, 1)
    asked = np.concatenate((query, of_query.repeat(queries, 1)), 2)[:, :, None]
    return np.concatenate((examples, asked), 2)


_READ = Slips(
    _read,
    {
        "the query carries the label 0: one_hot(0) is a label. "
        "Expected zeros": "np.zeros((batch, 1, ways)) → np.eye(ways)[np.zeros((batch, 1), int)]",
        "the query carries 1/N for each class: "
        "expected zeros": "np.zeros((batch, 1, ways)) → np.ones((batch, 1, ways)) / ways",
        "the query carries a 1 for each class: expected zeros": "np.zeros → np.ones",
        "the query carries the label of the last "
        "example": "np.zeros((batch, 1, ways)) → known[:, -1:]",
        "the labels stand in front of the vectors: expected after them": (
            "(support, known) → (known, support)",
            "(query, of_query.repeat(queries, 1)) → (of_query.repeat(queries, 1), query)",
        ),
        "the query comes first: then it sees none of the examples. "
        "Expected last": "(examples, asked) → (asked, examples)",
        "episodes are mixed up: the examples of one stand before a query of another (repeat lays "
        "out in another order than view reads)": (
            "[:, None].repeat(queries, 1) →",
            "return → examples = np.tile(examples, (queries, 1, 1))\n    return",
            "(examples, asked) → (examples.reshape(batch, queries, *examples.shape[1:]), asked)",
        ),
        "the labels are those of the first episode for "
        "all": "np.eye(ways)[labels] → np.eye(ways)[np.broadcast_to(labels[:1], labels.shape)]",
        "the examples carry no labels": "np.eye(ways)[labels] → 0 * np.eye(ways)[labels]",
        "the labels are counted from the lowest one: "
        "class 0 need not occur": "[labels] → [labels - labels.min()]",
        "all queries are the first one": "(query, of → (query[:, :1].repeat(queries, 1), of",
    },
)


@exercise(
    "07.sequences", title="Shape error: episodes without the last class", difficulty=2, minutes=10
)
def sequences(answer, ctx):
    batch, examples, queries, d, ways = ctx.sizes(
        batch=(1, 3), examples=(1, 8), queries=(1, 4, 5), d=(1, 4), classes_in_all=(1, 6)
    )
    # labels without the last class, and such without class 0
    for low, shown in ((0, ways), (0, max(1, ways - 1)), (min(1, ways - 1), ways)):
        support, query = ctx.normal(batch, examples, d), ctx.normal(batch, queries, d)
        labels = ctx.integers(low, shown, batch, examples)
        labels[-1, 0] = shown - 1
        given = (support, labels, query, ways)
        note = (
            f"{ways} classes, {examples} examples, {queries} quer{'y' if queries == 1 else 'ies'}"
        )
        if shown < ways or low > 0:
            note += f", no example of class {0 if low else ways - 1}"
        raw = ctx.call(answer, *given)
        shape = (batch, queries, examples + 1, d + ways)
        hints = {
            (
                batch,
                examples + queries,
                d + ways,
            ): "the queries stand in one sequence: each would see those before it. One sequence "
            "a query",
            (*shape[:3], d): "the labels are missing",
            (*shape[:3], d + 1): "the label is one number: expected a one-hot vector, since "
            "classes have no order",
            (batch, queries, examples, d + ways): "the query is missing, or an example",
            (queries, batch, *shape[2:]): "batch and queries change places",
            (batch, *shape[2:]): "there is no dimension for the queries",
        }
        if batch > 1:
            hints[batch * queries, *shape[2:]] = "batch and queries are one dimension: expected two"
        if shown < ways:
            hints[*shape[:3], d + shown] = (
                "one_hot makes as many columns as the largest label needs: tell it how many "
                "classes there are"
            )
        name = f"the sequences ({note})"
        got = ctx.floats(raw, name, shape, mention=hints.get(shape_of(raw)))
        right, wrong = _READ(*map(array, given[:3]), ways)
        ctx.close(got, right, name, wrong)
    check_gradients(
        ctx,
        answer,
        given,
        {0: "support", 2: "query"},
        lambda support, query: _read(support, array(labels), query, ways),
    )


def _log_p(support, labels, query, ways):
    member = np.eye(ways)[labels].T
    means = member @ support / member.sum(1, keepdims=True)
    distance = ((query[:, None] - means) ** 2).sum(-1)
    scores = -distance
    scores = scores - scores.max(-1, keepdims=True)
    return scores - np.log(np.exp(scores).sum(-1, keepdims=True))


_LOG_P = Slips(
    _log_p,
    {
        "the examples of a class are added up: expected their mean": "/ member.sum(1, "
        "keepdims=True) →",
        "each sum is divided by the mean number of examples: expected by that of its own "
        "class": "member.sum(1, keepdims=True) → (len(labels) / ways)",
        "each class has the first of its examples as its prototype: expected their mean": "means "
        "= member @ support / member.sum(1, keepdims=True) → means = support[member.argmax(1)]",
        "the distances are not squared": "-distance → -np.sqrt(distance)",
        "the farthest prototype wins: the minus is missing": "-distance → distance",
        "the squares are averaged over the features: expected their sum": "sum(-1)\n    scores = "
        "-distance → mean(-1)\n    scores = -distance",
        "the scores are inner products: expected minus the squared distance": "-distance → query "
        "@ means.T",
        "the softmax runs over the queries: expected over the classes": (
            "scores.max(-1, → scores.max(0,",
            "np.exp(scores).sum(-1, → np.exp(scores).sum(0,",
        ),
        "these are probabilities: expected their logarithms": "return scores - np.log(np.exp("
        "scores).sum(-1, keepdims=True)) → return np.exp(scores) / np.exp(scores).sum(-1, "
        "keepdims=True)",
        "these are the scores: a log-softmax is missing": "-distance → -distance\n    return "
        "scores",
    },
)


@exercise("07.prototypes", title="From the formula: prototypes", difficulty=2, minutes=7)
def prototypes(answer, ctx):
    queries, d, ways, more = ctx.sizes(
        queries=(1, 5), d=(1, 5), classes=(1, 5), more_examples=(0, 8)
    )
    drawn = torch.cat([torch.arange(ways), ctx.integers(0, ways, more)])
    labels = drawn[ctx.order(len(drawn))]
    for scale in (30.0, 1.0):
        given = scale * ctx.normal(len(labels), d), labels, scale * ctx.normal(queries, d), ways
        name = f"with {ways} classes and {len(labels)} examples: the log-probabilities"
        nan = "the probability of a far class rounds to 0: log_softmax is finite"
        got = ctx.floats(ctx.call(answer, *given), name, (queries, ways), nan=nan)
        right, wrong = _LOG_P(*map(array, given[:3]), ways)
        ctx.close(got, right, name, wrong, size=float(np.abs(right).max()))
    check_gradients(
        ctx,
        answer,
        given,
        {0: "support", 2: "query"},
        lambda support, query: _log_p(support, array(labels), query, ways),
    )
