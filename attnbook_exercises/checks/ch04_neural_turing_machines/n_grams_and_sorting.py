"""Checks of the section on n-grams and sorting: a source without contexts, the highest first, the
curves of four runs, calibration, an unknown order.
"""

import numpy as np
import torch
from torch import Tensor

from ..context import array, softmax
from ..registry import exercise
from ..slips import Slips, read_the_curve
from .copying import different, exact


@exercise("04.no_contexts", title="Predict: A source without contexts", difficulty=1, minutes=3)
def no_contexts(answer, ctx):
    return ctx.predicted(answer, "nothing", "one to three bits", "ten bits or more")


def _highest(vectors, priorities, wanted):
    order = np.argsort(-priorities, 1)[:, :wanted]
    return np.take_along_axis(vectors, order[..., None], 1)


def _one_by_one(priorities, wanted):
    """Places of the highest, each blanked out by a number that need not be the lowest."""
    left, rows = priorities.copy(), np.arange(len(priorities))
    blank, chosen = 0.0 if abs(left).max() < 1 else -1.0, []
    for _ in range(wanted):
        chosen.append(left.argmax(1))
        left[rows, chosen[-1]] = blank
    return np.stack(chosen, 1)


_HIGHEST = Slips(
    _highest,
    {
        "the lowest come first: expected the highest first": "-priorities → priorities",
        "the "
        "right vectors, but the lowest of them comes first": "[:, :wanted] → [:, :wanted][:, ::-1]",
        "the right vectors, but "
        "in the order in which they were given": "order[..., None] → np.sort(order, 1)[..., None]",
        "the first vectors came back as they stand: "
        "the priorities are not looked at": "-priorities → 0 * priorities",
        "ranks are taken for places: argsort of argsort says which rank a vector "
        "has, not which vector has a rank": "-priorities, 1) → np.argsort(-priorities, 1), 1)",
        "every row is put into the order of the first row: "
        "each has its own priorities": "-priorities → -priorities[:1].repeat(len(vectors), 0)",
        "the bits of each vector are sorted on their own: a vector stays together": (
            "np.take_along_axis(vectors, order[..., None], 1) → np.sort(vectors, 1)[:, ::-1][:, "
            ":wanted]"
        ),
        "the sign of a priority is not looked at: "
        "−0.9 is lower than 0.1": "-priorities → -abs(priorities)",
        "the highest one is left out": (
            "-priorities, 1) → np.where(priorities == priorities.max(1, keepdims=True), np.inf, "
            "-priorities), 1)"
        ),
        "a vector is taken twice: what blanks out its priority is higher than "
        "others, only −∞ never is": "np.argsort(-priorities, 1) → _one_by_one(priorities, wanted)",
        "the highest one is taken again and again: expected "
        "the next one at each rank": "order[..., None] → order[:, :1, None].repeat(wanted, 1)",
        "cut off before sorting: "
        "the highest may be among the last": "-priorities, → -priorities[:, :wanted],",
        "the lowest of all, the highest of them first: "
        "`wanted` of the other end": ":wanted] → -wanted:]",
    },
)


@exercise("04.highest_first", title="The highest first", difficulty=2, minutes=8)
def highest_first(answer, ctx):
    batch, wanted, others, bits = ctx.sizes(
        batch=(1, 3), vectors_wanted=(1, 5), vectors_left=(0, 4), bits=(1, 7)
    )
    n = wanted + others
    for spread in (0.01, 3.0, 1e12):  # they need not fill −1 to 1
        places = torch.tensor([ctx.order(n) for _ in range(batch)])
        priorities = (places * (2 / n) - 0.97 + 0.02 * ctx.weights(batch, n) / n) * spread
        vectors = different(ctx, batch, n, bits)
        got = ctx.call(answer, vectors, priorities, wanted)
        if type(got) is Tensor and tuple(got.shape) == (batch, n, bits) and wanted < n:
            ctx.fail("all vectors came back: expected the `wanted` of highest priority alone")
        if type(got) is Tensor and tuple(got.shape) == (batch, wanted):
            ctx.fail("priorities or indices came back: expected the vectors, (batch, wanted, bits)")
        shape, mention = (batch, wanted, bits), "the wanted vectors of each row"
        got = ctx.floats(exact(got), "targets", shape, mention=mention)
        right, wrong = _HIGHEST(array(vectors), array(priorities), wanted)
        ctx.close(got, right, "targets", wrong)


@read_the_curve("04.four_runs", title="Four runs and a floor", difficulty=2, minutes=5)
def four_runs():
    sound = "it comes down quickly and ends a little above the best predictor, as an honest one can"
    leak = "it pays less than the best predictor, which only a model that is shown answers can do"
    high = "it was thrown far above the scale at first, and settles badly: its rate is too high"
    low = "it hardly moves at first and is still on its way down: its rate is too low"
    return {
        "the run that is shown answers": ("A", {"B": high, "C": sound, "D": low}),
        "the run whose rate is too high": ("B", {"A": leak, "C": sound, "D": low}),
        "the run whose rate is too low": ("D", {"A": leak, "B": high, "C": sound}),
    }


def _upper(told, bins):
    """The part of each probability where an edge belongs to the one below it."""
    return np.maximum(np.ceil(told.astype(np.float32) * np.float32(bins)).astype(int) - 1, 0)


def _middles(bins):
    return (np.arange(bins) + 0.5) / bins


def _calibrated(told, came, bins):
    part = np.minimum((told * np.float32(bins)).astype(int), bins - 1)
    count = np.bincount(part, minlength=bins)
    n = np.maximum(count, 1)
    said, share = np.bincount(part, told, bins) / n, np.bincount(part, came, bins) / n
    return count, said, share


_CALIBRATED = Slips(
    _calibrated,
    {
        "a probability of exactly 1 is lost: it belongs "
        "into the last bin": "count = np.bincount(part, → count = np.bincount(part[told < 1],",
        "the place is rounded to the nearest: bin k goes "
        "from k / bins up to (k + 1) / bins": "(told * np.float32(bins)) → np.round(told * bins)",
        "the bins hold equally many: expected bins of equal "
        "width": "return count → return np.array([len(few) for few in np.array_split(told, bins)])",
        "the ones are counted: expected all predictions "
        "in the bin": "count = np.bincount(part, → count = np.bincount(part[came == 1],",
        "a probability at the edge of two bins belongs to the upper "
        "one": "np.minimum((told * np.float32(bins)).astype(int), bins - 1) → _upper(told, bins)",
        "a probability at the edge of two bins belongs to the upper one alone": (
            "return count → upper = _upper(told, bins)\n    return count + np.bincount(upper[upper "
            "!= part], minlength=bins)"
        ),
        "a probability of exactly 0 is lost: it belongs "
        "into the first bin": "count = np.bincount(part, → count = np.bincount(part[told > 0],",
        "the bins go from the smallest to the largest of what was told: expected from 0 to 1": (
            "(told * np.float32(bins)) → ((told - told.min()) / max(told.max() - told.min(), 1e-9) "
            "* bins)"
        ),
        "what was told below ½ is turned over: expected the probabilities of a 1 as "
        "they are": "(told * np.float32(bins)) → (np.maximum(told, 1 - told) * np.float32(bins))",
        "told · (bins − 1) makes one bin less: "
        "the last holds 1 alone": "(told * np.float32(bins)) → (told * (bins - 1))",
        "counts added up from the first bin on: "
        "expected the number in each": "return count → return count.cumsum()",
        "the middle of the bin: "
        "expected the mean of what was said in it": "count, said → count, _middles(bins)",
        "the middle of the bin: expected the mean of what "
        "was said in it, 0 in an empty bin": "count, said → count, _middles(bins) * (count > 0)",
        "the sum of what was said in the bin: divide by the count": "count, said → count, said * n",
        "the middle of the bin where it is empty: "
        "0 was asked for there": "count, said → count, np.where(count > 0, said, _middles(bins))",
        "that is the share of ones: "
        "expected the mean of what was told": "count, said → count, share",
        "divided by the number of all predictions: "
        "expected that of the bin": "n = np.maximum(count, 1) → n = len(told)",
        "the share of right guesses: expected the "
        "share of ones": "np.bincount(part, came, → np.bincount(part, (came == 1) == (told > 0.5),",
        "the share of zeros: "
        "expected of ones": "np.bincount(part, came, → np.bincount(part, 1 - came,",
        "the number of ones: divide by the count": "count, said, share → count, said, share * n",
        "½ where the bin is empty: 0 "
        "was asked for there": "count, said, share → count, said, np.where(count > 0, share, 0.5)",
        "divided by the number of all ones: expected the predictions "
        "of the bin": "count, said, share → count, said, share * n / max(came.sum(), 1)",
    },
)


@exercise("04.reliability", title="Does it happen as often as it says?", difficulty=3, minutes=10)
def reliability(answer, ctx):
    drawn = ctx.sizes(predictions=(1, 60), bins=(1, 9))
    for number, bins in ((60, 5), (60, 4), (60, 3), (60, 1), (60, 2), drawn):
        stated = ctx.normal(number).mul(1.2).sigmoid()
        if number == 60:
            edges = torch.tensor([0.0, 0.2, 0.5, 0.75, 0.999999, 1.0])
            below = torch.nextafter(edges[3:4], edges[:1])
            stated = torch.cat([stated, edges, below])
            low, high = (0.4, 0.5) if bins == 5 else (0.25, 0.5)  # a part that is empty
            stated = stated[(stated < low) | (stated >= high)]
        if bins == 3:  # not all of 0 to 1 is there
            stated = 0.4 + 0.55 * stated
        if bins == 2:  # a single prediction, and the last part empty
            stated = 0.4 * stated[:1]
        outcomes = (stated * 0.6 + 0.3 * ctx.normal(len(stated)) > 0.35).float()
        said, share, count = ctx.parts(
            ctx.call(answer, stated, outcomes, bins), ("said", "share", "count")
        )
        empty = "an empty bin has nothing to divide by: 0 was asked for there"
        got = (
            ctx.tensor(count, "count", (bins,), dtype=torch.long, mention="one number a bin"),
            ctx.tensor(said, "said", (bins,), nan=empty),
            ctx.tensor(share, "share", (bins,), nan=empty),
        )
        right, wrong = _CALIBRATED(array(stated), array(outcomes), bins)
        for k, name in enumerate(("count", "said", "share")):
            ctx.close(got[k], right[k], name, {words: parts[k] for words, parts in wrong.items()})


def _mixed(told, bits):
    seen = np.log(np.where(bits == 1, told, 1 - told))
    before = np.cumsum(seen, 1) - seen
    weights = softmax(before, 0)
    return (weights * told).sum(0)


_MIXED = Slips(
    _mixed,
    {
        "the bit that is to be predicted has a say in the weights: "
        "weigh by the bits before it": "- seen →",
        "the plain mean: "
        "the orders that did well so far weigh more": "(weights * told).sum(0) → told.mean(0)",
        "the weights are those of the end, for all steps: at step t only "
        "the bits before t are known": "np.cumsum(seen, 1) - seen → seen.sum(1, keepdims=True)",
        "only the last bit decides: expected the product over "
        "all bits so far": "np.cumsum(seen, 1) - seen → np.pad(seen, ((0, 0), (1, 0)))[:, :-1]",
        "only the best order so far speaks: expected the mean of "
        "all, weighted": "(weights * told).sum(0) → told[before.argmax(0), np.arange(len(bits))]",
        "the weights are probabilities added up: probabilities of bits in a row are multiplied": (
            "softmax(before, 0) → np.cumsum(np.exp(seen), 1) - np.exp(seen) + 1e-300\n    weights "
            "= weights / weights.sum(0)"
        ),
        "the weights do not sum to 1: divide by their sum": "softmax(before, 0) → np.exp(before)",
        "the weights of a softmax of summed probabilities: sum their logarithms": (
            "np.log(np.where(bits == 1, told, 1 - told)) → np.where(bits == 1, told, 1 - told)"
        ),
        "the costs have the wrong sign: "
        "the order that paid least weighs most": "softmax(before → softmax(-before",
        "logarithms to base 2 under a power of e: "
        "the weights come out too sharp": "np.log( → np.log2(",
        "the bits are not looked at: "
        "an order that said 0.9 before a 0 did badly": "np.where(bits == 1, told, 1 - told) → told",
        "these are the probabilities of a 0: expected of a 1": "return → return 1 -",
        "the softmax runs along the steps: "
        "at each step the weights of the orders sum to 1": "(before, 0) → (before, 1)",
        "the weights of the first step are those of the end: before "
        "it no bit is known": "np.cumsum(seen, 1) - seen → np.roll(np.cumsum(seen, 1), 1, 1)",
        "the last bit has no say yet: at step t all bits "
        "before t are known": "softmax(before → softmax(np.pad(before, ((0, 0), (1, 0)))[:, :-1]",
        "the logarithms of the probabilities are averaged: expected the mean "
        "of the probabilities": "(weights * told).sum(0) → np.exp((weights * np.log(told)).sum(0))",
        "the mean logarithm of the bits so far: expected "
        "their sum": "softmax(before → softmax(before / np.maximum(np.arange(len(bits)), 1)",
        "the bit is looked at in its own prediction: "
        "p is the probability of a 1 whatever comes": "weights * told → weights * np.exp(seen)",
        "an order is judged by squared errors: expected the logarithms of what it "
        "gave to the bits": "np.log(np.where(bits == 1, told, 1 - told)) → -((told - bits) ** 2)",
        "0 and 1 are exchanged: "
        "an order pays for 1 − p where the bit is 0": "told, 1 - told → 1 - told, told",
    },
)


@exercise("04.unknown_order", title="When nobody tells you n", difficulty=4, minutes=15)
def unknown_order(answer, ctx):
    drawn = ctx.sizes(K=(1, 4), steps=(1, 12))
    for orders, steps in (drawn, (4, 3000), (4, 260)):
        bits = ctx.integers(0, 2, steps)
        stated = (3.0 * ctx.normal(orders, steps)).sigmoid().clamp(0.001, 0.999)
        if steps == 3000:  # the last one is a little better than the others at every step
            stated[-1] = torch.where(bits == 1, 0.7, 0.3)
            stated[0] = torch.where(bits == 1, 0.69, 0.31)
        turn = 180 if steps == 260 else 0
        if turn:  # the first leads by e⁶⁰ there, loses e⁴¹ to the last after it
            stated[0] = torch.where((bits == 1) == (torch.arange(steps) < turn), 0.7, 0.3)
            stated[-1] = 0.5
        hint = (
            "the probability of many bits underflows to 0, and 0/0 is NaN: add logarithms, "
            "and take a softmax of them"
        )
        got = ctx.call(answer, stated, bits)
        nan = hint if steps == 3000 else None
        got = ctx.tensor(got, "probabilities", (steps,), nan=nan, mention="one a step")
        right, wrong = _MIXED(array(stated), array(bits))
        ctx.recognize(got, right, wrong)
        if turn and ctx.same(got[:turn], right[:turn]):
            ctx.close(
                got,
                right,
                "an order that was far ahead after 180 bits still leads after 80 bad ones: do "
                "the weights forget, as when something is added to them? the probabilities",
            )
        note = f"of {steps} bits, whose probabilities multiply to less than float32 holds, "
        ctx.close(got, right, f"{note if steps == 3000 else ''}probabilities")
