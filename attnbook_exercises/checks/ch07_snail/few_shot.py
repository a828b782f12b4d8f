"""Checks of the section on classes from one example: a label from one look, turned letters, an
interval over episodes, and the sequences that a network reads.
"""

from functools import partial

import numpy as np
import torch

from ..context import array, shape_of
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import on_paper


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


@exercise("07.interval", title="How sure is a mean", difficulty=1, minutes=5)
def interval(answer, ctx):
    n = ctx.sizes(n=(2, 90))  # one episode has no spread
    drawn = ctx.integers(0, 6, n) / 5
    drawn[:2] = torch.tensor([0.2, 1.0])  # never all equal
    for shares in (drawn, torch.full((n,), 0.6)):
        got = ctx.parts(ctx.call(answer, shares), ("mean", "half"))
        got = [ctx.number(g, name) for g, name in zip(got, ("mean", "half"))]
        x = array(shares)
        mean, s = x.mean(), x.std(ddof=1)
        half, note = 1.96 * s / np.sqrt(n), f"({n} episodes)"
        if ctx.same(got[0], half) and ctx.same(got[1], mean):
            ctx.fail(f"your function returns (half, mean): expected the mean first {note}")
        if ctx.same(got[0], mean - half) and ctx.same(got[1], mean + half):
            ctx.fail(
                f"those are the two ends of the interval: expected the mean and half the width "
                f"{note}"
            )
        ctx.recognize(
            got[0],
            mean,
            {
                f"the mean is in percent: expected a share {note}": 100 * mean,
                f"that is the median, expected the mean {note}": np.median(x),
                f"that is the sum, expected the mean {note}": x.sum(),
            },
        )
        ctx.close(got[0], mean, f"the mean {note}")
        answers = 5 * n
        wrong = {
            f"that is how far single episodes spread: the mean of n spreads √n times less "
            f"{note}": 1.96 * s,
            f"that is the standard deviation: expected 1.96 · s / √n {note}": s,
            f"that is the standard error: a 95 % interval is 1.96 of it {note}": s / np.sqrt(n),
            f"divided by n: expected by its root {note}": 1.96 * s / n,
            f"s is that of the n numbers themselves (division by n): expected by n − 1 {note}": 1.96
            * x.std()
            / np.sqrt(n),
            f"divided by √(n − 1), with an s that is divided by n − 1 already {note}": 1.96
            * s
            / np.sqrt(n - 1),
            f"that is the whole width of the interval: expected half of it {note}": 2 * half,
            f"the variance is used where its root belongs {note}": 1.96 * s**2 / np.sqrt(n),
            f"the variance is used, divided by n: take the root of both {note}": 1.96 * s**2 / n,
            f"the answers are taken for single yes-or-no trials, n of them: the numbers are "
            f"shares of an episode {note}": 1.96 * np.sqrt(mean * (1 - mean) / n),
            f"all answers are taken for independent, but those of one episode share its classes "
            f"{note}": 1.96 * np.sqrt(mean * (1 - mean) / answers),
            f"1.645 instead of 1.96: that is the interval of 90 % {note}": 1.645 * s / np.sqrt(n),
            f"2 instead of 1.96 {note}": 2 * s / np.sqrt(n),
            f"half is in percent: expected a share {note}": 100 * half,
        }
        ctx.recognize(got[1], half, wrong)
        if ctx.same(got[1], mean - half) or ctx.same(got[1], mean + half):
            ctx.fail(
                f"that is an end of the interval: expected how far it lies from the mean {note}"
            )
        ctx.close(got[1], half, f"half {note}")


@exercise("07.sequences", title="What the network reads", difficulty=3, minutes=10)
def sequences(answer, ctx):
    batch, examples, queries, d, ways = ctx.sizes(
        batch=(1, 3), examples=(1, 8), queries=(1, 4), d=(1, 4), ways=(1, 6)
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
        expected_shape, shape = (batch, queries, examples + 1, d + ways), shape_of(raw)
        hints = {
            (
                batch,
                examples + queries,
                d + ways,
            ): "the queries stand in one sequence: each would see those before it. One sequence "
            "a query",
            (batch, queries, examples + 1, d): "the labels are missing",
            (
                batch,
                queries,
                examples + 1,
                d + 1,
            ): "the label is one number: expected a one-hot vector, since classes have no order",
            (batch, queries, examples, d + ways): "the query is missing, or an example",
            (queries, batch, examples + 1, d + ways): "batch and queries change places",
            (batch, examples + 1, d + ways): "there is no dimension for the queries",
        }
        if batch > 1:
            hints[batch * queries, examples + 1, d + ways] = (
                "batch and queries are one dimension: expected two"
            )
        if shown < ways:
            hints[batch, queries, examples + 1, d + shown] = (
                "one_hot makes as many columns as the largest label needs: tell it how many "
                "classes there are"
            )
        got = array(
            ctx.floats(raw, f"the sequences ({note})", expected_shape, mention=hints.get(shape))
        )
        arrays = (array(support), array(query))
        hot = np.eye(ways)[labels.numpy()]

        def build(
            support,
            query,
            *,
            of_query: float | np.ndarray = 0.0,
            front=False,
            first=False,
            hot=hot,
            mixed=False,
        ):
            examples_in = np.broadcast_to(support[:, None], (batch, queries, examples, d))
            known = np.broadcast_to(hot[:, None], (batch, queries, examples, ways))
            if mixed:
                order = np.tile(np.arange(batch), queries).reshape(batch, queries)
                examples_in, known = support[order], hot[order]
            question = np.broadcast_to(np.asarray(of_query), (batch, queries, 1, ways))
            rows = [
                np.concatenate((examples_in, query[:, :, None]), 2),
                np.concatenate((known, question), 2),
            ]
            sequences_of = np.concatenate(rows[::-1] if front else rows, -1)
            return (
                np.concatenate((sequences_of[:, :, -1:], sequences_of[:, :, :-1]), 2)
                if first
                else sequences_of
            )

        zero = np.eye(ways)[0]
        result = partial(build, *arrays)
        wrong = {
            "the query carries the label 0: one_hot(0) is a label. Expected zeros": result(
                of_query=zero
            ),
            "the query carries 1/N for each class: expected zeros": result(of_query=1 / ways),
            "the query carries a 1 for each class: expected zeros": result(of_query=1.0),
            "the query carries the label of the last example": result(of_query=hot[:, None, -1:]),
            "the labels stand in front of the vectors: expected behind them": result(front=True),
            "the query comes first: then it sees none of the examples. Expected last": result(
                first=True
            ),
            "episodes are mixed up: the examples of one stand before a query of another (repeat "
            "lays out in another order than view reads)": result(mixed=True),
            "the labels are those of the first episode for all": result(
                hot=np.broadcast_to(hot[:1], hot.shape)
            ),
            "the examples carry no labels": result(hot=0 * hot),
            "the labels are counted from the lowest one: class 0 need not occur": result(
                hot=np.eye(ways)[(labels - labels.min()).numpy()]
            ),
            "all queries are the first one": build(
                arrays[0], np.broadcast_to(arrays[1][:, :1], arrays[1].shape)
            ),
        }
        ctx.close(got, build(*arrays), f"the sequences ({note})", wrong)
    check_gradients(ctx, answer, given, {0: "support", 2: "query"}, build)
