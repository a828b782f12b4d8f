"""Checks of the section on the alignment for free: reading it off the weights, and its error
rate.
"""

import numpy as np

from ..context import array
from ..registry import exercise
from ..slips import Slips, on_paper


@on_paper(
    "02.aer_by_hand", "the rate", title="an error rate", difficulty=1, minutes=3, within=0.003
)
def aer_by_hand():
    return 2 / 9, {
        "that is 1 minus the error rate": 7 / 9,
        "every sure link is possible, too: four of the five links lie in P": 5 / 9,
        "the possible links stand in the denominator: divide by |A| + |S|": 4 / 11,
        "only the sure links count as found: a possible link is no error": 3 / 9,
        "that is the share of the links that nobody has drawn": 1 / 5,
        "that is the share of the sure links that were missed": 1 / 4,
    }


@exercise(
    "02.forced_word", title="Predict: a French word in the wrong place", difficulty=1, minutes=2
)
def forced_word(answer, ctx):
    return ctx.predicted(answer, "European", "zone", "the")


def _aligned(weights, source_length, target_length):
    return weights[:target_length, :source_length].argmax(-1)


_ALIGNED = Slips(
    _aligned,
    {
        "padding is pointed at: look at the first source_length columns only": ", :source_length →",
        "padded target words are aligned too: "
        "expected target_length entries": ":target_length, :source_length → :, :source_length",
        "neither length is used: "
        "padding is aligned with padding": "[:target_length, :source_length] →",
        "the lengths have changed places: the rows are target words, the columns source "
        "words": ":target_length, :source_length → :source_length, :target_length",
        "positions are counted from 1: expected from 0": ".argmax(-1) → .argmax(-1) + 1",
        "for each source word the best target word is taken: "
        "expected a source position for each target word": ".argmax(-1) → .argmax(0)",
        "the least weight is taken: expected the largest": "argmax → argmin",
    },
)


@exercise("02.hard_alignment", title="Read off the alignment", difficulty=1, minutes=3)
def hard_alignment(answer, ctx):
    for _ in range(2):
        rows, columns = ctx.sizes(target_length=(1, 8), source_length=(1, 8))
        columns += rows == columns  # not the same number
        m, n = (max(rows, columns) + ctx.integers(1, 4) for _ in range(2))
        weights = ctx.weights(m, n)
        weights[:, ctx.integers(columns, n)] += 1.0  # the padding would win
        weights = weights / weights.sum(-1, keepdim=True)
        got = ctx.ids(ctx.call(answer, weights, columns, rows), "the alignment")
        right, wrong = _ALIGNED(array(weights), columns, rows)
        ctx.recognize(got, right, wrong)
        if len(got) != rows:
            ctx.fail(f"the alignment has {len(got)} entries, expected target_length = {rows}")
        ctx.close(got, right, "the alignment")


def _rate(a, s, p):
    if not a and not s:
        return 0.0
    return 1 - (len(a & s) + len(a & (p | s))) / (len(a) + len(s))


_RATE = Slips(
    _rate,
    {
        "this is 1 minus the error rate": "1 - ( → (",
        "every sure link is possible too, even where possible does not list it": "(p | s) → p",
        "this divides by |A| + |P|: expected |A| + |S|": "+ len(s)) → + len(p | s))",
        "this is 1 minus the precision": (
            "(len(a & s) + len(a & (p | s))) / (len(a) + len(s)) → len(a & (p | s)) / max(len(a), "
            "1)"
        ),
        "this is 1 minus the recall": (
            "(len(a & s) + len(a & (p | s))) / (len(a) + len(s)) → len(a & s) / max(len(s), 1)"
        ),
        "possible links do not count here: "
        "this is 1 minus the F-score on the sure ones": "a & (p | s) → a & s",
        "sure and possible are not told apart: this is 1 minus the F-score on both": (
            "(len(a & s) + len(a & (p | s))) / (len(a) + len(s)) → 2 * len(a & (p | s)) / (len(a) "
            "+ len(p | s))"
        ),
    },
)


@exercise("02.alignment_error_rate", title="The alignment error rate", difficulty=2, minutes=5)
def alignment_error_rate(answer, ctx):
    everything = [(i, j) for i in range(6) for j in range(6)]

    def sample():
        order, count = [everything[i] for i in ctx.order(36)], ctx.integers(5, 8)
        sure, maybe, others = set(order[:count]), set(order[count : 2 * count]), order[2 * count :]
        hits, near, wide = ctx.integers(3, count), ctx.integers(2, 5), ctx.integers(1, 4)
        return {*order[:hits], *order[count : count + near], *others[:wide]}, sure, maybe

    def differ(drawn):  # the results of all mistakes
        right, wrong = _RATE(*drawn)
        return len({round(rate, 6) for rate in (right, *wrong.values())}) == 1 + len(wrong)

    predicted, sure, maybe = ctx.draw(sample, differ, 1000)
    cases = [
        ("", predicted, sure, sure | maybe),
        (" where possible does not repeat the sure links", predicted, sure, maybe),
        (" of the sure links themselves", set(sure), sure, sure | maybe),
        (" of no predicted link against sure ones", set(), sure, sure | maybe),
        (" where no link is sure", predicted, set(), maybe),
        (" where no link is possible", predicted, set(), set()),
        (" of nothing against nothing", set(), set(), set()),
        (" of nothing against links of which none is sure", set(), set(), maybe),
    ]
    for k, (what, a, s, p) in enumerate(cases):
        got = np.array(ctx.number(ctx.call(answer, a, s, p), "the rate"))
        right, wrong = _RATE(a, s, p)
        ctx.close(got, np.array(right), "the rate" + what, wrong if k < 2 else None)
