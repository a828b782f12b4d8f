"""Checks of the section on the alignment for free: a prediction, and the error rate of links, in
code and on paper.
"""

import numpy as np

from ..registry import exercise
from ..slips import Slips, on_paper


@exercise(
    "02.forced_word", title="Predict: a French word in the wrong place", difficulty=1, minutes=2
)
def forced_word(answer, ctx):
    return ctx.predicted(answer, "European", "zone", "the")


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
    n = ctx.sizes(words=(6, 9))  # room for all links below

    def sample():
        order, count = [(k // n, k % n) for k in ctx.order(6 * n)[:36]], ctx.integers(5, 8)
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
        if abs(got - right) > 1e-6:
            ctx.fail(f"the rate is {got:.7g}, expected {right:.7g}: do not round it")


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
