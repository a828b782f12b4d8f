"""Checks of the section on text generation: tokens of a call on paper, a prediction, the nucleus,
guesses that are checked, pages that are given back.
"""

import numpy as np
import torch

from ..context import array
from ..registry import exercise
from ..slips import Slips, on_paper


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


def _nucleus(p, share):
    order = np.argsort(-p, kind="stable")
    ordered = p[order]
    before = ordered.cumsum() - ordered
    kept = ordered * (before < share - 1e-5)  # for sums in float32
    found = np.zeros(len(p))
    found[order] = kept
    return found / max(found.sum(), 1e-300)


_TOTAL = "before = ordered.cumsum() - ordered → before = ordered.cumsum() - 2e-5"
_NUCLEUS = Slips(
    _nucleus,
    {
        "all tokens are kept": "found / max(found.sum(), 1e-300) → p",
        "what is kept is not divided by its sum": "/ max(found.sum(), 1e-300) →",
        "the token that reaches the share belongs to the nucleus, too": _TOTAL,
        "the token that reaches the share is left out where it is not the first: it belongs to the "
        "nucleus, too": f"{_TOTAL}\n    before[0] = 0",
        "one token more than needed is "
        "kept": "cumsum() - ordered → cumsum() - ordered\n    before = np.append(0, before)[:-1]",
        "the tokens come back in the order of their probability: "
        "put them in their old places": "found[order] = kept → found = kept",
        "what was sorted is sorted once more, by `order`: its inverse, order.argsort(), leads "
        "back": "found[order] = kept → found = kept[order]",
        "the tokens are not sorted: the nucleus begins with the "
        "likeliest": 'np.argsort(-p, kind="stable") → np.arange(len(p))',
        "only the likeliest token is kept": "before < share - 1e-5 → before == 0",
        "that is min-p: "
        "the share of the likeliest": "before < share - 1e-5 → ordered > share * p.max() - 1e-5",
        "the least likely tokens are "
        "kept": "before < share - 1e-5 → 1 - before - ordered < share - 1e-5",
        "a share of the tokens is kept: the share is one of the "
        "probability": "before < share - 1e-5 → np.arange(len(p)) < max(1, int(share * len(p)))",
    },
)


@exercise("09.nucleus", title="The nucleus", difficulty=2, minutes=7)
def nucleus(answer, ctx):
    size = ctx.sizes(tokens=(1, 9))

    def clear(p, share):
        """Whether no sum lies so near to the share that rounding decides, and no token is lost."""
        total = np.sort(array(p))[::-1].cumsum()
        return float(p.min()) > 3e-5 and (share == 1 or np.abs(total - share).min() > 3e-5)

    def weights(share):
        return ctx.draw(lambda: ctx.weights(size), lambda p: clear(p, share), 500), share

    uneven = torch.tensor([0.5, 0.25, 0.15, 0.07, 0.03])[ctx.order(5)]
    rows = [(uneven, 0.3), (uneven, 0.8)]
    rows += [weights(ctx.integers(5, 100) / 100) for _ in range(8)] + [weights(1.0)]
    # the first tokens have these shares exactly
    exact = torch.tensor([0.5, 0.25, 0.15, 0.1])[ctx.order(4)]
    cases = []
    for p, share in [*rows, (exact, 0.5), (exact, 0.75)]:
        shown = ", ".join(f"{x:.2f}" for x in p[:9].tolist()) + ", …" * (size > 9)
        where = f"p = ({shown}), share {share}: the distribution"
        nan = "is nothing kept? the token that reaches the share belongs to the nucleus, too"
        got = ctx.floats(ctx.call(answer, p, share), where, (len(p),), nan=nan)
        cases.append((where, got, *_NUCLEUS(array(p), share)))
    ctx.close_everywhere(cases)
    for count in (4, 8):
        alike = torch.full((count,), 1 / count)
        name = f"of {count} tokens alike {count // 2}"
        got = array(ctx.floats(ctx.call(answer, alike, 0.5), name, (count,)))
        half = [0] * (count // 2) + [2 / count] * (count // 2)
        if not np.allclose(np.sort(got), half, rtol=0, atol=1e-5):
            ctx.fail(
                f"of {count} tokens with probability 1/{count} {count // 2} have a share of 0.5: "
                f"expected {2 / count:g} for as many of them and 0 for the others, whichever; is "
                f"every token kept that is as likely as the last one?"
            )


def _kept(P, Q, x, u):
    for k, guess in enumerate(x):
        if u[k] >= P[k, guess]:
            return k
    return len(x)


_KEPT = Slips(
    _kept,
    {
        "guesses after the first that is not kept are counted, but they belong to another "
        "text": "return k → return (u < P[np.arange(len(x)), x]).sum()",
        "a guess is kept with u above p. Is its chance p / q, as for one that was drawn? x was "
        "not drawn from Q: "
        "the draft says it each time": "P[k, guess] → P[k, guess] / Q[k, guess]",
        "the guess that is not kept is counted, too": "return k → return k + 1",
    },
)


def _following(P, Q, x, u):
    k = _kept(P, Q, x, u)
    if k == len(x):
        return P[-1]
    rest = P[k] * (np.arange(P.shape[1]) != x[k])
    return rest / rest.sum()


_FOLLOWING = Slips(
    _following,
    {
        "after all guesses the last row of P follows": "P[-1] → P[-2]",
        "the draft's distribution follows": "P[-1] → Q[-1]",
        "the replacement comes from p itself: "
        "then the guess comes on top, and is too frequent": "rest / rest.sum() → P[k]",
        "what is missing is not divided by its sum": "/ rest.sum() →",
        "p - q is what is missing for a guess that was drawn, but x was not drawn from Q: the "
        "draft says it each time": "rest = P[k] * (np.arange(P.shape[1]) != x[k]) → rest = "
        "np.maximum(P[k] - Q[k], 0)",
        "the replacement comes from the draft": "rest / rest.sum() → Q[k]",
        "that is the distribution after the token that is not kept": "rest / rest.sum() → P[k + 1]",
        "only the guess itself is drawn again": "rest / rest.sum() → 1.0 * (rest == 0)",
    },
)


@exercise(
    "09.guesses_checked", title="Find the bug: a draft that does not draw", difficulty=3, minutes=10
)
def guesses_checked(answer, ctx):
    gamma, size = ctx.sizes(guesses=(1, 5), tokens=(1, 5, 9))
    cases = [(kept, lets) for lets in (False, True) for kept in [gamma, *ctx.order(gamma)[:5]]]
    # of a single token every guess is kept
    numbers = []
    for kept, lets in cases if size > 1 else cases[:1]:
        P, Q = ctx.weights(gamma + 1, size), ctx.weights(gamma, size)
        x = Q.argmax(-1)
        if lets and size > 1:  # another token is as likely as the one that was guessed
            P[:-1].scatter_(1, (x[:, None] + 1) % size, P[:-1].gather(1, x[:, None]))
            P /= P.sum(-1, keepdim=True)
        share = P[:-1].gather(1, x[:, None])[:, 0]
        u = share * 0.5  # such a guess fits
        if kept < gamma:  # and this one does not, though in the second half p / q would let it
            most = min(1, float(share[kept] / Q[kept, x[kept]])) if lets else 1
            u[kept] = (share[kept] + most) / 2
        if gamma - kept > 2:  # nor does the last one
            u[-1] = (share[-1] + 1) / 2
        given = P, Q, x, u
        where = f"{gamma} guesses of which {kept} are kept"
        got = ctx.parts(ctx.call(answer, *given), ("kept", "following"))
        number = ctx.number(got[0], f"{where}: kept")
        numbers.append((f"{where}: kept", number, *_KEPT(*map(array, given))))
        if number != kept:
            continue  # all of them say what is wrong
        name = f"{where}: the distribution that follows"
        right, wrong = _FOLLOWING(*map(array, given))
        ctx.close(ctx.floats(got[1], name, (size,)), right, name, wrong)
    ctx.close_everywhere(numbers)
    certain = torch.eye(2)[[0, 1, 0]], torch.eye(2)[[0, 0]], torch.zeros(2).long(), torch.zeros(2)
    kept, following = ctx.parts(ctx.call(answer, *certain), ("kept", "following"))
    words = "where p is 1 for the first guess and 0 for the second, and u is 0"
    ctx.close(ctx.number(kept, f"{words}: kept"), 1.0, f"{words}: kept")
    following = ctx.floats(following, f"{words}: the distribution that follows", (2,))
    ctx.close(following, np.array([0.0, 1.0]), f"{words}: the distribution that follows")


@exercise("09.pages_given_back", title="Give pages back", difficulty=3, minutes=12)
def pages_given_back(answer, ctx):
    names = "pages", "readers", "free"
    for pages, length, readers, number, size in _cases(
        ctx, *ctx.sizes(size=(1, 5), pages_needed=(1, 5))
    ):
        free = [k for k, n in enumerate(readers) if n == 0]
        where = f"{length} tokens in pages {pages} of {size}, {number} taken back"

        def are_new(got, given):
            if type(got) in (tuple, list):
                for name, part in zip(names, got):
                    if any(part is other for other in given):
                        ctx.fail(f"{name} is a list that was given: return a new one")

        given = list(pages), length, list(readers), list(free), size, number
        got = ctx.parts(ctx.call(answer, *given, then=are_new), names)
        got = [ctx.ids(part, f"{where}: {name}") for part, name in zip(got, names)]
        need = -(-(length - number) // size)
        floor, gone = (length - number) // size, pages[need:]
        after = [n - (k in gone) for k, n in enumerate(readers)]
        freed = [k for k in gone if after[k] == 0]
        right = pages[:need], after, sorted(free + freed)
        slips = (
            {
                "a page that is still used in part is given back": pages[:floor],
                "all pages are kept": pages,
                "a page with nothing in it is kept": pages[: floor + 1],
            },
            {
                "a page that the text leaves has one reader less": readers,
                "other texts still read a shared page: one reader less, not none": [
                    0 if k in gone else n for k, n in enumerate(readers)
                ],
            },
            {
                "a page that others still read is not free": sorted(free + gone),
                "a page without readers is free again": free,
            },
        )
        got[2].sort()
        for name, value, expected, wrong in zip(names, got, right, slips):
            ctx.recognize(value, expected, wrong)
            if value != expected:
                ctx.fail(f"{where}: {name}: {value} came back, expected {expected}")


def _cases(ctx, size, need):
    """(pages, length, readers, number, size), by hand and drawn."""
    yield [0, 1, 2], 10, [1, 1, 1, 0, 0], 6, 4
    yield [0, 1, 2], 10, [3, 3, 1, 0, 0], 1, 4
    yield [0, 1, 2], 9, [3, 3, 3, 0], 1, 4
    yield [4, 0, 3, 1], 13, [2, 1, 0, 1, 2, 0], 13, 4
    yield [2, 0], 5, [1, 1, 1], 0, 4
    yield [5, 3, 1, 0], 16, [2, 1, 0, 1, 0, 2], 15, 4  # pages that others read on both sides
    for _ in range(5):
        length = size * (need - 1) + ctx.integers(1, size + 1)
        order = ctx.order(2 * need + 2)
        readers = [0] * len(order)
        shared = ctx.integers(0, need)
        for k, page in enumerate(order[:need]):
            readers[page] = 2 if k < shared else 1
        yield order[:need], length, readers, ctx.integers(0, length + 1), size
