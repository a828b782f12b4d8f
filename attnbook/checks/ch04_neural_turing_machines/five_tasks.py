"""Checks of the section on five tasks: a number for a count, the highest first, look up and
step, calibration, an unknown order, several heads.
"""

from functools import partial
from typing import Any

import numpy as np
import torch

from ..context import array, softmax
from ..gradient_check import check_gradients
from ..registry import exercise


@exercise("04.repeat_number", title="The number of repeats", difficulty=1, minutes=10)
def repeat_number(answer, ctx):
    for least, most in ((1, 10), (2, 5), (1, 3 + ctx.integers(1, 4))):
        repeats = ctx.integers(least, most + 1, 6)
        repeats[0], repeats[-1] = most + 4, least  # a test may go beyond the range of training
        got = ctx.tensor(
            ctx.call(answer, repeats, least, most),
            "numbers",
            (6,),
            nan="the deviation is never 0: most > least",
            mention="one number a row",
        )
        numbers = np.arange(least, most + 1)
        r, mean, deviation = array(repeats).astype(float), numbers.mean(), numbers.std()
        ctx.close(
            got,
            (r - mean) / deviation,
            "numbers",
            {
                "the mean is not taken away: expected (r − μ) / σ": r / deviation,
                "the numbers are not divided by the deviation": r - mean,
                "divided by the variance: expected the deviation, its root": (r - mean)
                / deviation**2,
                "the deviation is that of a sample, divided by one less than the count: here all "
                "numbers are known, divide by their count": (r - mean) / numbers.std(ddof=1),
                "the deviation is that of a continuous range, (most − least) / √12: r is a whole "
                "number": (r - mean) * 12**0.5 / (most - least),
                "mean and deviation are those of the batch: the same r would be another number "
                "in another batch": (r - r.mean()) / r.std(),
                "mean and deviation are those of the batch: the same r would be another number "
                "in another batch, and of a sample": (r - r.mean()) / r.std(ddof=1),
                "the numbers are scaled to 0 … 1: expected mean 0 and deviation 1": (r - least)
                / (most - least),
                "the numbers are scaled to −1 … 1: expected mean 0 and deviation 1": 2
                * (r - least)
                / (most - least)
                - 1,
                "nothing is done to the numbers: expected (r − μ) / σ": r,
                "r − μ / σ without brackets: the difference is divided": r - mean / deviation,
                "the mean is rounded down to a whole number: it may lie between two": (
                    r - np.floor(mean)
                )
                / deviation,
                "the range starts at 1 for you: it starts at `least`": (r - (1 + most) / 2)
                / np.arange(1, most + 1).std(),
                "the range ends at most − 1 for you: most is included": (r - numbers[:-1].mean())
                / max(numbers[:-1].std(), 1e-9),
                "repeats beyond the range are cut off: they go on, so that a test beyond it "
                "shows another number": (np.clip(r, least, most) - mean) / deviation,
                "the sign is turned: more repeats are a larger number": (mean - r) / deviation,
            },
        )


@exercise("04.highest_first", title="The highest first", difficulty=2, minutes=15)
def highest_first(answer, ctx):
    # they need not fill −1 to 1
    for batch, n, bits, wanted, spread in ((2, 7, 5, 4, 0.01), (3, 5, 4, 5, 3), (1, 6, 3, 1, 1)):
        priorities = (
            torch.stack([torch.tensor(ctx.order(n)) for _ in range(batch)]) * (2 / n) - 0.97
        )
        priorities = (priorities + 0.02 * ctx.weights(batch, n)) * spread
        # all different
        numbers = torch.stack([torch.tensor(ctx.order(2**bits)[:n]) for _ in range(batch)])
        vectors = (numbers[..., None] >> torch.arange(bits) & 1).float()
        got = ctx.call(answer, vectors, priorities, wanted)
        if type(got) is torch.Tensor and tuple(got.shape) == (batch, n, bits) and wanted < n:
            ctx.fail("all vectors came back: expected the `wanted` of highest priority alone")
        if type(got) is torch.Tensor and tuple(got.shape) == (batch, wanted):
            ctx.fail("priorities or indices came back: expected the vectors, (batch, wanted, bits)")
        got = ctx.tensor(
            got, "targets", (batch, wanted, bits), mention="the wanted vectors of each row"
        )
        v, p = array(vectors), array(priorities)
        order = np.argsort(-p, 1)

        def pick(index):
            return np.take_along_axis(v, index[..., None], 1)

        def one_by_one(blank):
            left, chosen = p.copy(), np.zeros((batch, wanted), int)
            for rank in range(wanted):
                chosen[:, rank] = left.argmax(1)
                left[np.arange(batch), chosen[:, rank]] = blank
            return pick(chosen)

        top = order[:, :wanted]
        far = np.argsort(-np.abs(p), 1)[:, :wanted]
        ctx.close(
            got,
            pick(top),
            "targets",
            {
                "the lowest come first: expected the highest first": pick(
                    order[:, ::-1][:, :wanted]
                ),
                "the right vectors, but the lowest of them comes first": pick(top[:, ::-1]),
                "the right vectors, but in the order in which they were given": pick(
                    np.sort(top, 1)
                ),
                "the first vectors came back as they stand: the priorities are not looked at": v[
                    :, :wanted
                ],
                "ranks are taken for places: argsort of argsort says which rank a vector has, "
                "not which vector has a rank": pick(np.argsort(order, 1)[:, :wanted]),
                "every row is put into the order of the first row: each has its own "
                "priorities": pick(np.broadcast_to(top[:1], top.shape)),
                "the bits of each vector are sorted on their own: a vector stays together": np.sort(
                    v, 1
                )[:, ::-1][:, :wanted],
                "the sign of a priority is not looked at: −0.9 is lower than 0.1": pick(far),
                "the highest one is left out": pick(np.roll(order, -1, 1)[:, :wanted]),
                "a vector is taken twice: the 0 that blanks out its priority is higher than "
                "others": one_by_one(0.0),
                "a vector is taken twice: the −1 that blanks out its priority is higher than "
                "others": one_by_one(-1.0),
                "the highest one is taken again and again: expected the next one at each "
                "rank": pick(np.repeat(order[:, :1], wanted, 1)),
                "cut off before sorting: the highest may be among the last": np.take_along_axis(
                    v[:, :wanted], np.argsort(-p[:, :wanted], 1)[..., None], 1
                ),
                "the lowest of all, the highest of them first: `wanted` of the other end": pick(
                    order[:, -wanted:]
                ),
            },
        )


@exercise("04.item_after", title="Look up, then step", difficulty=2, minutes=15)
def item_after(answer, ctx):
    for batch, k, item, bits in ((8, 5, 3, 6), (3, 2, 1, 5), (1, 4, 2, 4)):
        items, position = _items(ctx, batch, k, item, bits)
        query = items[torch.arange(batch), position]
        got = ctx.call(answer, items, query)
        if type(got) is torch.Tensor and tuple(got.shape) == (batch,):
            ctx.fail("places came back: expected the items there, (batch, item, bits)")
        got = ctx.tensor(got, "answers", (batch, item, bits), mention="one item a row")
        v, q = array(items), array(query)
        flat, want = v.reshape(batch, k, -1), q.reshape(batch, 1, -1)
        every, place = np.arange(batch), array(position)

        def after(chosen):
            return v[every, (chosen + 1) % k]

        agree = (v == q[:, None]).all(-1)  # (batch, k, item)
        cosine = (flat * want).sum(-1) / np.maximum(
            np.sqrt((flat**2).sum(-1) * (want**2).sum(-1)), 1e-9
        )
        ctx.close(
            got,
            v[every, place + 1],
            "answers",
            {
                "the query itself came back: expected the item after it": q,
                "the item before it came back: expected the item after it": v[every, place - 1],
                "the item two places on came back": v[every, (place + 2) % k],
                "the item found by the largest product with the query: an item of many ones "
                "wins; count where they agree": after((flat * want).sum(-1).argmax(1)),
                "the item found by the cosine with the query: a query of zeros has none; count "
                "where they agree": after(cosine.round(5).argmax(1)),
                "the first vector alone is compared: two items may begin alike": after(
                    agree[..., 0].argmax(1)
                ),
                "the last vector alone is compared: two items may end alike": after(
                    agree[..., -1].argmax(1)
                ),
                "one vector that agrees is enough for you: all have to": after(
                    agree.any(-1).argmax(1)
                ),
                "the number of ones is compared: two items may have equally many": after(
                    (flat.sum(-1) == want.sum(-1)).argmax(1)
                ),
                "the ones of each vector are counted: two vectors may have equally many": after(
                    (v.sum(-1) == q.sum(-1)[:, None]).all(-1).argmax(1)
                ),
                "the vectors of an item are added up: another one may hold them in another "
                "order": after((v.sum(2) == q.sum(1)[:, None]).all(-1).argmax(1)),
                "the ones are compared alone: the zeros have to agree, too": after(
                    (flat >= want).all(-1).argmax(1)
                ),
                "the zeros are compared alone: the ones have to agree, too": after(
                    (flat <= want).all(-1).argmax(1)
                ),
                "one bit that agrees is enough for you: all have to": after(
                    (flat == want).any(-1).argmax(1)
                ),
                "always the second item: the query is not looked at": v[:, 1],
                "always the last item: the query is not looked at": v[:, -1],
                "every row gets the place of the first row: each has a query of its own": v[
                    every, np.full(batch, place[0] + 1)
                ],
            },
        )


def _items(ctx, batch, k, item, bits):
    """Items ``(batch, k, item, bits)``, no two of a row equal, and which one is the query, never
    the last of a row.

    In the rows of the large case item 0 is nearly the query, each time in another way.
    """
    position = torch.tensor([2, 3, 0, 1, 2, 3, 1, 2][:batch]) % (k - 1)
    while True:
        items = ctx.integers(0, 2, batch, k, item, bits).float()
        if batch == 8:
            items[4, 2] = 0  # asked for: no direction, and no product with any
            like = items[torch.arange(batch), position]
            items[0, 0, :-1] = like[0, :-1]  # these two begin alike
            # no bit in common, and as large a product as any
            items[1, 0], items[1, 1] = 1 - like[1], 1
            items[3, 0, 1:] = like[3, 1:]  # these two end alike
            items[5, 0] = like[5].flip(0)  # the same vectors in another order
            # a 1 less
            items[6, 0] = like[6] * (torch.arange(item * bits) != like[6].flatten().argmax()).view(
                item, bits
            )
            items[7, 0] = like[7].roll(1, 1)  # as many ones in each vector
        different = (items[:, :, None] != items[:, None]).flatten(3).any(-1).sum() == batch * k * (
            k - 1
        )
        if different and (
            batch < 8
            or 0 < like[1].sum() < item * bits
            and like[5, 0].sum() != like[5, -1].sum()
            and (like[7].sum(0) != items[7, 0].sum(0)).any()
        ):
            return items, position


@exercise("04.reliability", title="Does it happen as often as it says?", difficulty=3, minutes=20)
def reliability(answer, ctx):
    for bins in (5, 4, 3):
        stated = torch.cat(
            [ctx.normal(60).mul(1.2).sigmoid(), torch.tensor([0.0, 0.2, 0.5, 0.75, 0.999999, 1.0])]
        )
        stated = (
            stated[~((stated > 0.4) & (stated < 0.5))]
            if bins == 5
            else stated[(stated < 0.25) | (stated >= 0.5)]
        )
        if bins == 3:  # not all of 0 to 1 is there
            stated = 0.4 + 0.55 * stated
        outcomes = (stated * 0.6 + 0.3 * ctx.normal(len(stated)) > 0.35).float()
        predicted, share, count = ctx.parts(
            ctx.call(answer, stated, outcomes, bins), ("said", "share", "count")
        )
        p, y = array(stated), array(outcomes)
        where = np.minimum((p * np.float32(bins)).astype(int), bins - 1)
        n = np.bincount(where, minlength=bins)
        safe = np.maximum(n, 1)
        sum_said, sum_came = np.bincount(where, p, bins), np.bincount(where, y, bins)
        empty = "an empty bin has nothing to divide by: 0 was asked for there"
        count = ctx.tensor(count, "count", (bins,), dtype=torch.long, mention="one number a bin")
        rounded = np.bincount(np.minimum(np.round(p * bins).astype(int), bins - 1), minlength=bins)
        ranked = np.array([len(part) for part in np.array_split(p, bins)])
        upper = np.maximum(np.ceil(p.astype(np.float32) * np.float32(bins)).astype(int) - 1, 0)
        rescaled = (p - p.min()) / (p.max() - p.min())
        turned = np.maximum(p.astype(np.float32), np.float32(1) - p.astype(np.float32))
        ctx.close(
            count,
            n,
            "count",
            {
                "a probability of exactly 1 is lost: it belongs into the last bin": np.bincount(
                    where[p < 1], minlength=bins
                ),
                "the place is rounded to the nearest: bin k goes from k / bins up to (k + 1) / "
                "bins": rounded,
                "the bins hold equally many: expected bins of equal width": ranked,
                "the ones are counted: expected all predictions in the bin": np.bincount(
                    where[y == 1], minlength=bins
                ),
                "a probability at the edge of two bins belongs to the upper one": np.bincount(
                    upper, minlength=bins
                ),
                "a probability at the edge of two bins belongs to the upper one alone": n
                + np.bincount(upper[upper != where], minlength=bins),
                "a probability of exactly 0 is lost: it belongs into the first bin": np.bincount(
                    where[p > 0], minlength=bins
                ),
                "the bins go from the smallest to the largest of what was told: expected from 0 "
                "to 1": np.bincount(
                    np.minimum((rescaled * bins).astype(int), bins - 1), minlength=bins
                ),
                "what was told below ½ is turned over: expected the probabilities of a 1 as they "
                "are": np.bincount(
                    np.minimum((turned * np.float32(bins)).astype(int), bins - 1), minlength=bins
                ),
                "told · (bins − 1) makes one bin less: the last holds 1 alone": np.bincount(
                    (p * (bins - 1)).astype(int), minlength=bins
                ),
                "counts added up from the first bin on: expected the number in each": n.cumsum(),
            },
        )
        predicted = ctx.tensor(predicted, "said", (bins,), nan=empty)
        centre = (np.arange(bins) + 0.5) / bins
        ctx.close(
            predicted,
            sum_said / safe,
            "said",
            {
                "the middle of the bin: expected the mean of what was said in it": centre,
                "the middle of the bin: expected the mean of what was said in it, 0 in an empty "
                "bin": centre * (n > 0),
                "the sum of what was said in the bin: divide by the count": sum_said,
                "the middle of the bin where it is empty: 0 was asked for there": np.where(
                    n > 0, sum_said / safe, centre
                ),
                "said and share are swapped": sum_came / safe,
                "divided by the number of all predictions: expected that of the bin": sum_said
                / len(p),
            },
        )
        share = ctx.tensor(share, "share", (bins,), nan=empty)
        right = (y == (p > 0.5)).astype(float)
        ctx.close(
            share,
            sum_came / safe,
            "share",
            {
                "the share of right guesses: expected the share of ones": np.bincount(
                    where, right, bins
                )
                / safe,
                "the share of zeros: expected of ones": (n - sum_came) / safe,
                "the number of ones: divide by the count": sum_came,
                "divided by the number of all predictions: expected that of the bin": sum_came
                / len(p),
                "½ where the bin is empty: 0 was asked for there": np.where(
                    n > 0, sum_came / safe, 0.5
                ),
                "divided by the number of all ones: expected the predictions of the bin": sum_came
                / max(y.sum(), 1),
            },
        )


@exercise("04.unknown_order", title="When nobody tells you n", difficulty=4, minutes=30)
def unknown_order(answer, ctx):
    for orders, steps in ((3, 12), (2, 1), (4, 3000)):
        bits = ctx.integers(0, 2, steps)
        stated = (2.0 * ctx.normal(orders, steps)).sigmoid().clamp(0.02, 0.98)
        long = steps > 1000
        if long:  # the last one is a little better than the others at every step
            stated[-1] = torch.where(bits == 1, 0.7, 0.3)
            stated[0] = torch.where(bits == 1, 0.69, 0.31)
        hint = (
            "the probability of many bits underflows to 0, and 0/0 is NaN: add logarithms, "
            "and take a softmax of them"
        )
        got = ctx.tensor(
            ctx.call(answer, stated, bits),
            "probabilities",
            (steps,),
            nan=hint if long else None,
            mention="one a step",
        )
        p, y = array(stated), array(bits)
        seen = np.log(np.where(y == 1, p, 1 - p))
        after = np.cumsum(seen, 1)
        before = after - seen

        def mix(logs, predicted=p):
            w = np.exp(logs - logs.max(0))
            return (w / w.sum(0) * predicted).sum(0)

        best = mix(before)
        wrong = {
            "the bit that is to be predicted has a say in the weights: weigh by the bits before "
            "it": mix(after),
            "the plain mean: the orders that did well so far weigh more": p.mean(0),
            "the weights are those of the end, for all steps: at step t only the bits before t "
            "are known": mix(after[:, -1:]),
            "only the last bit decides: expected the product over all bits so far": mix(
                np.concatenate((np.zeros((orders, 1)), seen[:, :-1]), 1)
            ),
            "only the best order so far speaks: expected the mean of all, weighted": p[
                before.argmax(0), np.arange(steps)
            ],
            "the weights are probabilities added up: probabilities of bits in a row are "
            "multiplied": (lambda w: (w / w.sum(0) * p).sum(0))(
                np.cumsum(np.exp(seen), 1) - np.exp(seen) + 1e-300
            ),
            "the weights do not sum to 1: divide by their sum": (np.exp(before) * p).sum(0),
            "the weights of a softmax of summed probabilities: sum their logarithms": mix(
                np.cumsum(np.exp(seen), 1) - np.exp(seen)
            ),
            "the costs have the wrong sign: the order that paid least weighs most": mix(-before),
            "logarithms to base 2 under a power of e: the weights come out too sharp": mix(
                before / np.log(2)
            ),
            "the bits are not looked at: an order that said 0.9 before a 0 did badly": mix(
                np.cumsum(np.log(p), 1) - np.log(p)
            ),
            "these are the probabilities of a 0: expected of a 1": 1 - best,
            "the softmax runs along the steps: at each step the weights of the orders sum to 1": (
                np.exp(before - before.max(1)[:, None])
                / np.exp(before - before.max(1)[:, None]).sum(1)[:, None]
                * p
            ).sum(0),
            "the weights of the first step are those of the end: before it no bit is known": mix(
                np.roll(after, 1, 1)
            ),
            "the last bit has no say yet: at step t all bits before t are known": mix(
                np.pad(before, ((0, 0), (1, 0)))[:, :-1]
            ),
            "the logarithms of the probabilities are averaged: expected the mean of the "
            "probabilities": (lambda w: np.exp((w / w.sum(0) * np.log(p)).sum(0)))(
                np.exp(before - before.max(0))
            ),
            "the mean logarithm of the bits so far: expected their sum": mix(
                before / np.maximum(np.arange(steps), 1)
            ),
            "the bit is looked at in its own prediction: p is the probability of a 1 whatever "
            "comes": mix(before, np.where(y == 1, p, 1 - p)),
            "an order is judged by squared errors: expected the logarithms of what it gave to "
            "the bits": mix(np.cumsum(-((p - y) ** 2), 1) + (p - y) ** 2),
            "0 and 1 are exchanged: an order pays for 1 − p where the bit is 0": mix(
                np.cumsum(np.log(np.where(y == 1, 1 - p, p)), 1)
                - np.log(np.where(y == 1, 1 - p, p))
            ),
        }
        if steps == 1:
            wrong = {}
        ctx.close(got, best, "probabilities", wrong)


@exercise("04.several_heads", title="Find the bug: several heads", difficulty=3, minutes=20)
def several_heads(answer, ctx):
    batch, heads, slots, width = 2, 3, ctx.integers(5, 8), 4
    memory, previous, key = (
        ctx.normal(batch, slots, width),
        ctx.weights(batch, heads, slots),
        ctx.normal(batch, heads, width),
    )
    strength, gate = ctx.normal(batch, heads).abs() + 1, torch.sigmoid(ctx.normal(batch, heads))
    given = memory, previous, key, strength, gate, ctx.weights(batch, heads, 3)
    arrays = [array(t) for t in given]
    got = ctx.call(answer, *given)
    got = ctx.tensor(
        got, "the weights", (batch, heads, slots), mention="one row a head, one column a slot"
    )
    result = partial(_addressed, *arrays)
    wrong = {
        "a head starts from where the head before it looks at this step: every head goes on from "
        "its own weights of the step before": result(chain=True),
        "every head starts from the previous weights of the first head: expected its own": result(
            start=[0] * heads
        ),
        "the heads start from one another's previous weights: expected each from its own": result(
            start=range(heads)[::-1]
        ),
        "every head starts from the mean of the heads' previous weights: expected its own": result(
            start=None
        ),
        "the gate is swapped: at 1 it takes what was found by content": result(swapped=True),
        "the shift goes the wrong way: the last share of the kernel moves one slot on": result(
            steps=(1, 0, -1)
        ),
        "the shares of the kernel belong to one slot back, staying and one slot on": result(
            steps=(0, 1, 2)
        ),
        "the shift is missing": result(steps=(0, 0, 0)),
        "the shift stops at the ends: the slots lie on a ring": result(ring=False),
        "the strength is not used": result(strong=False),
        "content is compared by dot products: expected the cosine": result(cosine=False),
        "the head before is not used: the gate mixes content with the weights of the step "
        "before": result(start=()),
        "the gate is not used: content alone": _addressed(
            *arrays[:4], gate=np.ones_like(arrays[4]), kernel=arrays[5]
        ),
        "the shift comes before the mixture: mix, then shift": result(early=True),
        "all heads look with the kernel of the first": _addressed(
            *arrays[:5], kernel=np.repeat(arrays[5][:, :1], heads, 1)
        ),
    }
    ctx.close(got, _addressed(*arrays), "the weights", wrong)
    single = [array(t) if t is memory else array(t)[:, :1] for t in given]
    one = ctx.call(answer, *(t if t is memory else t[:, :1] for t in given))
    ctx.close(
        ctx.tensor(one, "the weights of a single head", (batch, 1, slots)),
        _addressed(*single),
        "the weights of a single head",
    )
    names = dict(enumerate(("memory", "previous", "key", "strength", "gate", "kernel")))
    check_gradients(ctx, answer, given, names, _addressed)


def _addressed(
    memory,
    previous,
    key,
    strength,
    gate,
    kernel,
    *,
    chain=False,
    start: Any = "own",
    swapped=False,
    steps=(-1, 0, 1),
    ring=True,
    strong=True,
    cosine=True,
    early=False,
):
    """Content, gate, shift for all heads; with options for known mistakes."""
    dots = key @ memory.swapaxes(1, 2)
    if cosine:
        dots = dots / np.sqrt((key**2).sum(-1)[..., None] * (memory**2).sum(-1)[:, None])
    content = softmax(strength[..., None] * dots if strong else dots)
    g = (1 - gate if swapped else gate)[..., None]
    before = previous
    if start is None:
        before = np.broadcast_to(previous.mean(1, keepdims=True), previous.shape)
    elif not len(start):
        before = 0 * previous
    elif start != "own":
        before = previous[:, list(start)]

    def shift(w, h):
        moved = 0
        for k, step in enumerate(steps):
            rolled = np.roll(w, step, -1)
            if not ring and step:
                rolled[..., 0 if step > 0 else -1] = 0
            moved = moved + kernel[:, h, k, None] * rolled
        return moved

    chosen, last = [], previous[:, 0]
    for h in range(key.shape[1]):
        start_weights = last if chain else before[:, h]
        last = shift(g[:, h] * content[:, h] + (1 - g[:, h]) * start_weights, h)
        if early:
            last = g[:, h] * content[:, h] + (1 - g[:, h]) * shift(start_weights, h)
        chosen.append(last)
    return np.stack(chosen, 1)
