"""Checks of the section on n-grams and sorting: a prediction on paper, a source without contexts,
the highest first, calibration, an unknown order.
"""

import numpy as np
import torch
from torch import Tensor

from ..context import array
from ..registry import exercise
from ..slips import on_paper


@on_paper(
    "04.next_bit",
    "the probability of a 1",
    title="The next bit",
    difficulty=1,
    minutes=4,
    within=0.005,
)
def next_bit():
    return 3.5 / 6, {
        "this is the frequency: a half is added to each count": 3 / 5,
        "no context was used: count what followed a 1, for the last bit is a 1": 6.5 / 10,
        "these are the counts after a 0: the last bit is a 1": 2.5 / 3,
        "1 was added to each count: expected a half": 4 / 7,
        "this is the probability of a 0: expected that of a 1": 2.5 / 6,
        "the last bit was counted, and nothing has followed it yet": 4.5 / 7,
        "the sum of the counts grows by 1, a half for each of the two": 3.5 / 5,
        "a half was added below, and 1 is: a half for each of the two counts": 3.5 / 5.5,
    }


@exercise("04.no_contexts", title="Predict: A source without contexts", difficulty=1, minutes=3)
def no_contexts(answer, ctx):
    return ctx.predicted(answer, "nothing", "one to three bits", "ten bits or more")


@exercise("04.highest_first", title="The highest first", difficulty=2, minutes=8)
def highest_first(answer, ctx):
    batch, wanted, others, bits = ctx.sizes(
        batch=(1, 3), vectors_wanted=(1, 5), vectors_left=(0, 4), bits=(1, 7)
    )
    n = wanted + others
    for spread in (0.01, 3.0, 1e12):  # they need not fill −1 to 1
        priorities = (
            torch.stack([torch.tensor(ctx.order(n)) for _ in range(batch)]) * (2 / n) - 0.97
        )
        priorities = (priorities + 0.02 * ctx.weights(batch, n)) * spread
        # all different, as far as the bits allow that
        every = max(2**bits, n)
        numbers = torch.stack([torch.tensor(ctx.order(every)[:n]) for _ in range(batch)])
        vectors = (numbers[..., None] >> torch.arange(bits) & 1).float()
        got = ctx.call(answer, vectors, priorities, wanted)
        if type(got) is Tensor and tuple(got.shape) == (batch, n, bits) and wanted < n:
            ctx.fail("all vectors came back: expected the `wanted` of highest priority alone")
        if type(got) is Tensor and tuple(got.shape) == (batch, wanted):
            ctx.fail("priorities or indices came back: expected the vectors, (batch, wanted, bits)")
        got = ctx.floats(
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
                "a vector is taken twice: what blanks out its priority is higher than others, only "
                "−∞ never is": one_by_one(0.0 if spread < 1 else -1.0),
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


@exercise("04.reliability", title="Does it happen as often as it says?", difficulty=3, minutes=10)
def reliability(answer, ctx):
    for bins in (5, 4, 3, 1, 2):
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
        if bins == 2:  # a single prediction, and the last part empty
            stated = 0.4 * stated[:1]
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
        rescaled = (p - p.min()) / max(p.max() - p.min(), 1e-9)
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
                "that is the share of ones: expected the mean of what was told": sum_came / safe,
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


@exercise("04.unknown_order", title="When nobody tells you n", difficulty=4, minutes=15)
def unknown_order(answer, ctx):
    for orders, steps, turn in ((3, 12, 0), (2, 1, 0), (4, 3000, 0), (4, 260, 180)):
        bits = ctx.integers(0, 2, steps)
        stated = (2.0 * ctx.normal(orders, steps)).sigmoid().clamp(0.02, 0.98)
        long = steps > 1000
        if long:  # the last one is a little better than the others at every step
            stated[-1] = torch.where(bits == 1, 0.7, 0.3)
            stated[0] = torch.where(bits == 1, 0.69, 0.31)
        if turn:  # the first leads by e⁶⁰ there, loses e⁴¹ to the last behind it
            stated[0] = torch.where((bits == 1) == (torch.arange(steps) < turn), 0.7, 0.3)
            stated[-1] = 0.5
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
        ctx.recognize(got, best, wrong)
        if turn and ctx.same(got[:turn], best[:turn]):
            ctx.close(
                got,
                best,
                "an order that was far ahead after 180 bits still leads after 80 bad ones: do "
                "the weights forget, as when something is added to them? the probabilities",
            )
        note = f"of {steps} bits, whose probabilities multiply to less than float32 holds, "
        ctx.close(got, best, f"{note if long else ''}probabilities")
