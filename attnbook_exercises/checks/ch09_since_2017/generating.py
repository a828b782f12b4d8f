"""Checks of the section on text generation: tokens of a call on paper, a prediction, the nucleus,
guesses that are checked, pages that are given back.
"""

import numpy as np
import torch

from ..context import a, array
from ..registry import exercise
from ..slips import on_paper


@on_paper(
    "09.tokens_of_a_call",
    "the number of tokens",
    title="the tokens of a call",
    difficulty=1,
    minutes=4,
    within=0.006,
)
def tokens_of_a_call():
    return 2.952, {
        "the large model adds one token more, whatever happens": 1.952,
        "that is three times the chance of one guess, and one: a guess counts only if all before "
        "it were kept": 3.4,
        "that is three times the chance of one guess: a guess counts only if all before it were "
        "kept, and the large model adds one more": 2.4,
        "that is with four guesses": 3.3616,
        "that is with two guesses": 2.44,
        "that is the chance that all three are kept": 0.512,
        "that is as if every guess were kept": 4,
        "that is without an end to the guesses": 5,
    }


@exercise(
    "09.a_draft_without_a_clue", title="Predict: a draft without a clue", difficulty=1, minutes=3
)
def a_draft_without_a_clue(answer, ctx):
    return ctx.predicted(answer, "worse texts", "more calls", "both", "neither")


@exercise("09.nucleus", title="The nucleus", difficulty=2, minutes=7)
def nucleus(answer, ctx):
    size = ctx.sizes(tokens=(1, 9))
    shares = [ctx.integers(5, 100) / 100 for _ in range(8)]
    uneven = torch.tensor([0.5, 0.25, 0.15, 0.07, 0.03])[ctx.order(5)]
    rows = [(uneven, 0.3), (uneven, 0.8), *((ctx.weights(size), share) for share in [*shares, 1.0])]
    # the first tokens have these shares exactly
    exact = torch.tensor([0.5, 0.25, 0.15, 0.1])[ctx.order(4)]
    cases = []
    for p, share in [*rows, (exact, 0.5), (exact, 0.75)]:
        shown = ", ".join(f"{x:.2f}" for x in p.tolist())
        where = f"p = ({shown}), share {share}: the distribution"
        nan = "is nothing kept? the token that reaches the share belongs to the nucleus, too"
        got = ctx.floats(ctx.call(answer, p, share), where, (len(p),), nan=nan)
        cases.append((where, got, *_nuclei(array(p), share)))
    ctx.close_everywhere(cases)
    alike = torch.full((4,), 0.25)
    got = array(ctx.floats(ctx.call(answer, alike, 0.5), "of four tokens alike two", (4,)))
    if not np.allclose(np.sort(got), [0, 0, 0.5, 0.5], atol=1e-5):
        ctx.fail(
            "of four tokens with probability 1/4 two have a share of 0.5: expected 1/2 for two of "
            "them and 0 for two, whichever; is every token kept that is as likely as the last one?"
        )


def _nuclei(values, share, slack=1e-5):  # for sums in float32
    """The nucleus of these probabilities, and what known mistakes make of it."""
    order = np.argsort(-values, kind="stable")
    total = np.cumsum(values[order])
    before = total - values[order]

    def kept(chosen, divide=True, place=order):
        out = np.zeros(len(order))
        out[place] = np.where(chosen, values[order], 0)
        return out / out.sum() if divide and out.sum() > 0 else out

    unsorted = np.where(np.cumsum(values) - values < share - slack, values, 0)
    return kept(before < share - slack), {
        "all tokens are kept": values,
        "what is kept is not divided by its sum": kept(before < share - slack, False),
        "the token that reaches the share belongs to the nucleus, too": kept(
            total <= share + slack
        ),
        "the token that reaches the share is left out where it is not the first: it belongs to the "
        "nucleus, too": kept((total <= share + slack) | (np.arange(len(order)) < 1)),
        "one token more than needed is kept": kept(
            np.concatenate([[True], before[:-1] < share - slack])
        ),
        "the tokens come back in the order of their probability: put them in their old "
        "places": kept(before < share - slack, place=np.arange(len(order))),
        "what was sorted is sorted once more, by `order`: its inverse, order.argsort(), leads "
        "back": kept(before < share - slack, place=np.arange(len(order)))[order],
        "the tokens are not sorted: the nucleus begins with the likeliest": unsorted
        / unsorted.sum(),
        "only the likeliest token is kept": kept(np.arange(len(order)) < 1),
        "that is min-p: the share of the likeliest": kept(
            values[order] >= share * values.max() - slack
        ),
        "the least likely tokens are kept": kept(1 - total < share - slack),
        "a share of the tokens is kept: the share is one of the probability": kept(
            np.arange(len(order)) < max(1, int(share * len(order)))
        ),
    }


@exercise(
    "09.guesses_checked", title="Find the bug: a draft that does not draw", difficulty=3, minutes=10
)
def guesses_checked(answer, ctx):
    gamma, size = ctx.sizes(guesses=(1, 5), tokens=(1, 5))
    order = ctx.order(gamma)
    cases = [(kept, lets) for lets in (False, True) for kept in [gamma, *order]]
    # of a single token every guess is kept
    numbers = []
    for kept, lets in cases if size > 1 else cases[:1]:
        P, Q = ctx.weights(gamma + 1, size), ctx.weights(gamma, size)
        x = Q.argmax(-1)
        p, q, guesses = array(P), array(Q), x.tolist()
        share = np.array([p[k, t] for k, t in enumerate(guesses)])
        chance = share * 0.5  # such a guess fits
        if kept < gamma:  # and this one does not, though in the second half p / q would let it
            most = min(1, share[kept] / q[kept, guesses[kept]]) if lets else 1
            chance[kept] = (share[kept] + most) / 2
        if gamma - kept > 2:  # nor does the last one
            chance[-1] = (share[-1] + 1) / 2
        u = torch.from_numpy(chance).to(P.dtype)
        where = f"{gamma} guesses of which {kept} are kept"
        got = ctx.parts(ctx.call(answer, P, Q, x, u), ("kept", "following"))
        number = ctx.number(got[0], f"{where}: kept")
        fits = chance < share / np.array([q[k, t] for k, t in enumerate(guesses)])
        slips = {
            "guesses behind the first that is not kept are counted, but they belong to another "
            "text": (chance < share).sum(),
            "a guess is kept with u above p. Is its chance p / q, as for one that was drawn? x was "
            "not drawn from Q: the draft says it each time": (
                gamma if fits.all() else np.argmin(fits)
            ),
            "the guess that is not kept is counted, too": min(kept + 1, gamma),
        }
        numbers.append((f"{where}: kept", number, kept, slips))
        if number != kept:
            continue  # all of them say what is wrong
        following = ctx.floats(got[1], f"{where}: the distribution that follows", (size,))
        if kept == gamma:
            right = p[gamma]
            wrong = {
                "after all guesses the last row of P follows": p[gamma - 1],
                "the draft's distribution follows": q[gamma - 1],
            }
        else:
            token, missing = guesses[kept], np.maximum(p[kept] - q[kept], 0)
            rest = p[kept].copy()
            rest[token] = 0
            right = rest / rest.sum()
            wrong = {
                "the replacement comes from p itself: then the guess comes on top, and is too "
                "frequent": p[kept],
                "what is missing is not divided by its sum": rest,
                "p - q is what is missing for a guess that was drawn, but x was not drawn from Q: "
                "the draft says it each time": missing / missing.sum(),
                "the replacement comes from the draft": q[kept],
                "that is the distribution after the token that is not kept": p[kept + 1],
                "only the guess itself is drawn again": np.eye(size)[token],
            }
        ctx.close(following, right, f"{where}: the distribution that follows", wrong)
    ctx.close_everywhere(numbers)
    certain = torch.eye(2)[[0, 1, 0]], torch.eye(2)[[0, 0]], torch.zeros(2).long(), torch.zeros(2)
    kept, following = ctx.parts(ctx.call(answer, *certain), ("kept", "following"))
    words = "where p is 1 for the first guess and 0 for the second, and u is 0"
    ctx.close(np.array(ctx.number(kept, f"{words}: kept")), np.array(1.0), f"{words}: kept")
    following = ctx.floats(following, f"{words}: the distribution that follows", (2,))
    ctx.close(following, np.array([0.0, 1.0]), f"{words}: the distribution that follows")


@exercise("09.pages_given_back", title="Give pages back", difficulty=3, minutes=12)
def pages_given_back(answer, ctx):
    for pages, length, readers, number, size in _cases(
        ctx, *ctx.sizes(size=(1, 5), pages_needed=(1, 5))
    ):
        free = [k for k, n in enumerate(readers) if n == 0]
        given = list(pages), length, list(readers), list(free), size, number
        where = f"{length} tokens in pages {pages} of {size}, {number} taken back"
        got = ctx.parts(ctx.call(answer, *given), ("pages", "readers", "free"))
        for name, value in zip(("pages", "readers", "free"), got):
            if type(value) is not list or any(type(k) is not int for k in value):
                ctx.fail(f"{where}: {name} must be a list of ints, got {a(value)}")
        need = -(-(length - number) // size)
        kept, gone = pages[:need], pages[need:]
        if got[0] != kept:
            floor = (length - number) // size
            if got[0] == pages[:floor]:
                ctx.fail(f"{where}: a page that is still used in part is given back")
            if got[0] == pages:
                ctx.fail(f"{where}: all pages are kept")
            if got[0] == pages[: floor + 1]:
                ctx.fail(f"{where}: a page with nothing in it is kept")
            ctx.fail(f"{where}: the pages are {got[0]}, expected {kept}")
        after = [n - (k in gone) for k, n in enumerate(readers)]
        freed = [k for k in gone if after[k] == 0]
        if got[1] != after:
            if got[1] == readers:
                ctx.fail(f"{where}: a page that the text leaves has one reader less")
            if got[1] == [0 if k in gone else n for k, n in enumerate(readers)]:
                ctx.fail(
                    f"{where}: other texts still read a shared page: one reader less, not none"
                )
            ctx.fail(f"{where}: the readers are {got[1]}, expected {after}")
        if sorted(got[2]) != sorted(free + freed):
            if sorted(got[2]) == sorted(free + gone):
                ctx.fail(f"{where}: a page that others still read is not free")
            if sorted(got[2]) == sorted(free):
                ctx.fail(f"{where}: a page without readers is free again")
            ctx.fail(f"{where}: free are {got[2]}, expected {sorted(free + freed)} in any order")


def _cases(ctx, size, need):
    """(pages, length, readers, number, size), by hand and drawn."""
    yield [0, 1, 2], 10, [1, 1, 1, 0, 0], 6, 4
    yield [0, 1, 2], 10, [3, 3, 1, 0, 0], 1, 4
    yield [0, 1, 2], 9, [3, 3, 3, 0], 1, 4
    yield [4, 0, 3, 1], 13, [2, 1, 0, 1, 2, 0], 13, 4
    for _ in range(5):
        length = size * (need - 1) + ctx.integers(1, size + 1)
        order = ctx.order(7)
        readers = [0] * 7
        shared = ctx.integers(0, need)
        for k, page in enumerate(order[:need]):
            readers[page] = 2 if k < shared else 1
        yield order[:need], length, readers, ctx.integers(0, length + 1), size
