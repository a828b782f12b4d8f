"""Checks of the section beyond the bottleneck: what is left for sources of a new kind, a cut,
accuracy by source length, and a test that attention reads a set.
"""

import numpy as np
import torch
from torch import Tensor

from ..context import a
from ..registry import exercise
from ..slips import Slips, on_paper


@on_paper(
    "02.new_phrases",
    "the share",
    title="how many of the new ones?",
    difficulty=1,
    minutes=4,
    within=0.0051,
)
def new_phrases():
    return 12 / 75, {
        "that is the share among all 223 sources: how many have five phrases or more?": 12 / 223,
        "that is the share of all sources that are right": 160 / 223,
        "that is the share of sources with at most four phrases": 148 / 223,
        "these are the right answers of the others: divide by the number of the others": 12,
        "that is a share of the right answers: expected a share of the others": 12 / 160,
        "that is the share of the others that are wrong": 63 / 75,
        "that is a percentage: expected a share from 0 to 1": 16,
    }


@exercise("02.cut_in_two", title="Predict: the scissors", difficulty=1, minutes=3)
def cut_in_two(answer, ctx):
    return ctx.predicted(answer, "none", "the square", "the same")


def _subjects(ctx, states):
    """Functions (states, mask) -> context, with a name and whether they read a set: two of each
    kind, so that no fixed row of answers is right.

    The plainest comes first: what is wrong with a test shows there most clearly.
    """
    first, *more = [*_one_of_each(ctx, states), *_one_of_each(ctx, states)]
    return [first, *(more[i] for i in ctx.order(len(more)))]


def _one_of_each(ctx, states):
    d = states.shape[-1]
    query, ramp, tilt = ctx.normal(d), torch.arange(400.0), ctx.normal(d)
    tilt[0], tilt[1:] = 0.0, tilt[1:] - tilt[1:].mean()

    def attend(states, mask, extra: float | Tensor = 0.0):
        scores = (states @ query.to(states) + extra).masked_fill(~mask, float("-inf"))
        return torch.softmax(scores, dim=-1).unsqueeze(-2).matmul(states).squeeze(-2)

    def rounded(states, mask):
        # float32 sums depend on the order in which they are added: the same set, other last digits
        noise = 1e-6 * torch.sin(1e3 * (states * ramp[: states.shape[-2], None]).sum((-1, -2)))
        return attend(states, mask) + noise[..., None]

    def last(states, mask):
        return states.gather(
            -2,
            (mask.sum(-1) - 1)
            .clamp(min=0)[..., None, None]
            .expand(*mask.shape[:-1], 1, states.shape[-1]),
        ).squeeze(-2)

    def stretched(states, mask):
        place = torch.softmax(torch.where(mask, 0.3 * ramp[: mask.shape[-1]], -torch.inf), dim=-1)
        return (place[..., None].to(states) * states).sum(-2)

    def but_for(row):  # by what stands in it: a test may show one row at a time
        known = states[row].double().sum()
        return lambda h, mask: (
            attend(h, mask)
            + last(h, mask)
            * ((h.double().sum((-1, -2)) - known).square().clamp(max=1)[..., None].to(h))
        )

    def in_a_ring(states, mask):  # any turn and the reverse leave the neighbours as they are
        near = (states * states.roll(1, -2)).sum(-1) + (states * states.roll(-1, -2)).sum(-1)
        return attend(states, mask, near)

    hidden = [
        ("attention that sees the order in all sentences but the first", but_for(0), False),
        ("attention that sees the order in all sentences but the last", but_for(-1), False),
    ]
    balanced = (
        "attention that adds to one feature what it takes from others by the last state",
        lambda h, mask: attend(h, mask) + last(h, mask)[..., :1] * tilt.to(h),
        False,
    )
    return [
        ("attention with a mask", attend, True),
        (
            "attention whose scores grow with the position",
            lambda h, mask: attend(h, mask, 0.4 * ramp[: h.shape[-2]]),
            False,
        ),
        ("attention whose last digits change with the order", rounded, True),
        ("a mean over all states", lambda h, mask: h.mean(-2), True),
        (
            "attention whose scores fall with the distance from the middle",
            lambda h, mask: attend(h, mask, -0.6 * _from_middle(h.shape[-2])),
            False,
        ),
        ("attention whose scores ask the neighbours in a ring", in_a_ring, False),
        ("the last state", last, False),
        (
            "attention with a hundredth of the last state",
            lambda h, mask: attend(h, mask) + last(h, mask) / 100,
            False,
        ),
        *(hidden if len(states) > 1 else ()),
        *([balanced] if d > 2 else ()),
        ("weights by position alone", stretched, False),
    ]


def _from_middle(n):
    return (torch.arange(n) - (n - 1) / 2).abs()


def _translations(ctx, bins):
    """Predictions, references, source lengths and edges.

    One bin is empty, the others hold their lower edge and two sources more.
    """
    edges = [ctx.integers(2, 5)]
    for gap in ctx.integers(3, 9, bins).tolist():
        edges.append(edges[-1] + gap)
    empty = ctx.integers(0, bins)
    lengths = [edges[0] - 1, *(edge for edge in edges if edge != edges[empty])]
    for i in range(bins):
        if i != empty:
            lengths += ctx.integers(edges[i] + 1, edges[i + 1], 2).tolist()
    lengths = [lengths[i] for i in ctx.order(len(lengths))]
    references = [ctx.integers(3, 9, 3 + i % 3).tolist() for i in range(len(lengths))]
    predictions = [list(reference) for reference in references]
    for prediction in predictions:
        what = ctx.integers(0, 8)
        if what < 2:  # one token wrong
            prediction[ctx.integers(0, 3)] += 1
        elif what == 2:  # too short
            prediction.pop()
        elif what == 3:  # the same tokens in another order
            prediction.reverse()
        elif what == 4:  # too long
            prediction.append(ctx.integers(3, 9))
        elif what == 5:  # the same digits in fewer tokens
            prediction[:2] = [10 * prediction[0] + prediction[1]]
    return predictions, references, lengths, edges


def _accuracies(predictions, references, lengths, edges):
    """One accuracy a bin; -1 where a bin is empty."""
    result = []
    for low, high in zip(edges, edges[1:]):
        triples = zip(predictions, references, lengths)
        right = [p == r for p, r, k in triples if low <= k < high]
        result.append(sum(right) / len(right) if right else -1.0)
    return np.array(result)


_ACCURACIES = Slips(
    _accuracies,
    {
        "both edges of a bin are inside: leave the upper one out": "< high → <= high",
        "the lower edge is left out, and the upper one is in: "
        "the bin [lower, upper) holds the lower one": "low <= k < high → low < k <= high",
        "the last bin holds its upper edge: "
        "leave it out there, too": "k < high → k < high + (high == edges[-1])",
        "single tokens are counted: a prediction is right if all of its tokens "
        "are": "p == r → sum(x == y for x, y in zip(p, r)) / len(r)",
        "a prediction that stops too early counts as right: "
        "compare whole lists": "p == r → p == r[: len(p)]",
        "a prediction that goes on too long counts as right: "
        "compare whole lists": "p == r → p[: len(r)] == r",
        "a prediction that is too short or too long counts as right: "
        "compare whole lists": "p == r → all(x == y for x, y in zip(p, r))",
        "the bins are divided by the number of all sources: "
        "expected by that of the bin": "/ len(right) → / len(lengths)",
        "every prediction counts as right: compare it with its reference": "p == r → p == p",
        "these are counts: divide by the number of sources in the bin": "/ len(right) →",
    },
)


@exercise("02.accuracy_by_length", title="Accuracy by source length", difficulty=2, minutes=8)
def accuracy_by_length(answer, ctx):
    bins = ctx.sizes(bins=(1, 6))

    def differ(drawn):  # the results of all mistakes
        right, wrong = _ACCURACIES(*drawn)
        results = [right, np.maximum(right, 0), *wrong.values()]
        return len(np.unique(results, axis=0)) == len(results)

    given = ctx.draw(lambda: _translations(ctx, bins), differ, 1000 if bins > 1 else 1)
    predictions, references, lengths, edges = given
    right, wrong = _ACCURACIES(*given)
    got = ctx.call(answer, predictions, references, lengths, edges)
    if type(got) in (Tensor, np.ndarray) and got.ndim == 1:
        got = got.tolist()
    if type(got) not in (list, tuple):
        ctx.fail(f"the result is {a(got)}, expected a list with one accuracy a bin")
    if len(got) != len(edges) - 1:
        ctx.fail(
            f"the result has {len(got)} entries, expected {len(edges) - 1}: {len(edges)} edges "
            f"bound {len(edges) - 1} bins"
        )
    spans = [f"[{low}, {high})" for low, high in zip(edges, edges[1:])]
    none = [f"no source has a length in {span}, expected None" for span in spans]
    values = [
        None
        if entry is None
        else ctx.number(entry, f"accuracy[{i}]", nan=none[i] if right[i] < 0 else None)
        for i, entry in enumerate(got)
    ]
    for i, value in enumerate(values):
        if value is None and right[i] >= 0:
            ctx.fail(f"accuracy[{i}] is None, but there are sources with a length in {spans[i]}")

    got = np.array([-1.0 if value is None else value for value in values])
    ctx.recognize(got, right, wrong)
    for i, (value, wanted) in enumerate(zip(got, right)):
        span = spans[i]
        if wanted < 0 and values[i] is not None:
            ctx.fail(
                f"no source has a length in {span}, and its accuracy is {value:.4g}: expected None"
            )
        if abs(value - wanted) > 1e-6:
            ctx.fail(f"accuracy[{i}], lengths {span}, is {value:.4g}, expected {wanted:.4g}")


@exercise("02.reads_a_set", title="Write the test: does it read a set?", difficulty=3, minutes=10)
def reads_a_set(answer, ctx):
    # seven words at least, which a random order hardly ever leaves in place
    batch, n, d = ctx.sizes(batch=(1, 3), n=(7, 10), d=(1, 4))
    states = ctx.normal(batch, n, d)
    lengths = ctx.lengths(batch, n, 4) if batch > 1 else torch.tensor([n])
    mask = torch.arange(n) < lengths[:, None]  # a full row, whose last state every order moves
    seen = []

    def watch(attention):
        def watched(h, allowed):
            seen.append((Tensor.clone(h), Tensor.clone(allowed)))
            return attention(h, allowed)

        return watched

    for k, (name, attention, expected) in enumerate(_subjects(ctx, states)):
        seen.clear()
        got = ctx.truth(ctx.call(answer, watch(attention), states, mask), f"your test of {name}")
        for h, _ in seen:
            if h.shape[-2:] != states.shape[-2:]:
                ctx.fail(
                    f"attention got states of shape {tuple(h.shape)}: a shuffle keeps all words, "
                    f"here {n}"
                )
        if all(torch.equal(h, states) for h, _ in seen):
            ctx.fail(
                "the states are never shuffled: call attention a second time, with their order "
                "changed"
            )
        if len(seen) < 2:
            ctx.fail("attention is called once: there is nothing to compare its context with")
        if k == 0 and got and _fewest_orders(seen) < 3:
            ctx.fail(
                "the words of a sentence are shown in fewer than three orders: shuffle along dim "
                "1, and more than once: a function that cheats with positions may survive one "
                "order by chance"
            )
        if expected and not got:
            verdict = f"your test says that {name} does not read a set, but it does"
            if all(torch.equal(m, mask) for _, m in seen):
                ctx.fail(f"{verdict}: the mask must be shuffled with the states")
            known = _rows(states, mask)
            read = [_rows(h, m) for h, m in seen]  # all rows of the batch, or one at a time
            if any(rows != known and (rows[1:] or rows[0] not in known) for rows in read):
                ctx.fail(
                    f"{verdict}: states and mask have to be shuffled together, in one order, along "
                    f"the words (dim 1)"
                )
            if not ctx.truth(ctx.call(answer, _largest, states, mask), "your test of the maximum"):
                if ctx.truth(
                    ctx.call(answer, _first, states, mask), "your test of the first state"
                ):
                    ctx.fail(f"{verdict}. Is True returned where the contexts differ?")
                ctx.fail(f"{verdict}, and neither a maximum, which is the same in any order")
            ctx.fail(
                f"{verdict}: compare up to rounding, with torch.allclose(…, atol=1e-4); its own "
                f"tolerance is too small near 0"
            )
        if got and not expected:
            ctx.fail(
                f"your test says that {name} reads a set, but its context changes with the order"
            )


def _fewest_orders(seen):
    """In how many orders the words of each sentence were shown, at least."""
    orders = {}
    for h, _ in seen:
        for row in h.reshape(-1, *h.shape[-2:]).tolist():
            words = [*map(tuple, row)]
            orders.setdefault(tuple(sorted(words)), set()).add(tuple(words))
    return min(map(len, orders.values()))


def _largest(states, mask):
    """Exactly the same in any order: no sum, nothing to round."""
    return states.masked_fill(~mask[..., None], float("-inf")).amax(-2)


def _first(states, mask):
    return states[:, 0]


def _rows(states, mask):
    """For each row of the batch its words, each with its place in the mask, in an order of their
    own.
    """
    if states.dim() != 3 or states.shape[:2] != mask.shape:
        return [None]
    return [sorted((*h, m) for h, m in zip(*row)) for row in zip(states.tolist(), mask.tolist())]
