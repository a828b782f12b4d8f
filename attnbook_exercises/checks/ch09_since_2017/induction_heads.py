"""Checks of the section on induction heads: how sharp a head has to be, a prediction, the score of
prefix matching, a note that comes from the future.
"""

import numpy as np
import torch

from ..context import array, softmax
from ..registry import exercise
from ..slips import on_paper


@on_paper(
    "09.sharp_enough",
    "the score",
    title="sharp enough",
    difficulty=1,
    minutes=4,
    within=0.015,
    otherwise="put it into the softmax, and see which weight it gives the match",
)
def sharp_enough():
    right = np.log(9 * 31)
    return right, {
        "that is the logarithm of 31, which gives the match half of the weight": np.log(31),
        "that is enough against one competitor: there are 31": np.log(9),
        "that is the ratio of the exponentials: the score is its logarithm": 9 * 31,
        "that is the logarithm to base 10: the softmax takes powers of e": np.log10(9 * 31),
        "that is the logarithm to base 2: the softmax takes powers of e": np.log2(9 * 31),
        "the match is among the 32 itself: 31 compete with it": np.log(9 * 32),
        "0.9 of what the others have is less than half: it needs nine times as much as they have "
        "together": np.log(0.9 * 31),
        "ten times what the others have is more than 0.9 of the whole: which share remains for "
        "them?": np.log(10 * 31),
    }


@exercise("09.longer_stretch", title="Predict: a longer stretch", difficulty=1, minutes=3)
def longer_stretch(answer, ctx):
    return ctx.predicted(answer, "below 0.5", "between 0.5 and 2", "above 2")


def _matching(weights, tokens, *, shift=1, over="repeated", which="all", flip=False):
    """The score of prefix matching by loops; the options make it wrong."""
    n, total, repeated, pairs = len(tokens), 0.0, 0, 0
    weights = weights.T if flip else weights
    for i in range(n):
        earlier = [j for j in range(i) if tokens[j] == tokens[i]]
        repeated += bool(earlier)
        counted = {"all": earlier, "last": earlier[-1:], "first": earlier[:1]}[which]
        for j in counted:
            pairs += 1
            total += weights[i, j + shift] if 0 <= j + shift < n else 0.0
    return total / {"repeated": repeated, "all": n, "pairs": pairs, "one": 1}[over]


def _repeating(ctx, symbols, n):
    tokens = 7 * ctx.integers(0, symbols, n)
    tokens[n // 2] = tokens[0]
    return tokens


def _pairs_differ(tokens):
    """Whether there are not as many pairs of alike tokens as positions."""
    return int((tokens[:, None] == tokens).tril(-1).sum()) != len(tokens)


@exercise("09.prefix_matching", title="A score for induction heads", difficulty=2, minutes=10)
def prefix_matching(answer, ctx):
    # two tokens at least: one of them comes twice
    n, symbols = ctx.sizes(n=(2, 14), different_tokens=(1, 5))
    for _ in range(2):
        tokens = ctx.draw(lambda: _repeating(ctx, symbols, n), _pairs_differ, 50)
        future = np.triu(np.ones((n, n), bool), 1)
        weights = softmax(np.where(future, -np.inf, array(ctx.normal(n, n))))
        given = torch.tensor(weights, dtype=torch.float32), tokens
        got = ctx.number(ctx.call(answer, *given), "the score")
        plain = array(tokens)
        slips = {
            "that is the weight on the earlier occurrences themselves: what followed them stands "
            "one place to the right": {"shift": 0},
            "that is the weight on what stood before the earlier occurrences: one place to the "
            "right of them is asked for": {"shift": -1},
            "the sum is divided by the number of all positions: only those count whose token was "
            "read before, and a position is no earlier occurrence of itself": {"over": "all"},
            "the sum is divided by the number of pairs: a position with two earlier occurrences "
            "counts once": {"over": "pairs"},
            "only the last occurrence before each position counts for you: add up all of them": {
                "which": "last"
            },
            "only the first occurrence counts for you: add up all of them": {"which": "first"},
            "weights[i, j] is how much position i looks at position j, not the other way round": {
                "flip": True
            },
            "the sum is not divided by the number of positions whose token was read before": {
                "over": "one"
            },
        }
        ctx.close(
            got,
            _matching(weights, plain),
            "the score",
            {words: _matching(weights, plain, **slip) for words, slip in slips.items()},
        )


def _copied(x, c, note="before", mask: bool | str = True):
    """What a head copies by its notes; the options make it wrong."""
    notes = {
        "before": np.vstack([np.zeros_like(x[:1]), x[:-1]]),
        "round": np.roll(x, 1, axis=0),
        "itself": x,
        "after": np.vstack([x[1:], np.zeros_like(x[:1])]),
        "repeated": np.vstack([x[:1], x[:-1]]),
    }[note]
    scores = c * x @ notes.T
    if mask:
        future = np.triu(np.ones(scores.shape, bool), 1)
        future[1:, 0] = mask == "and the first"
        scores = np.where(future, 0.0 if mask == "of 0" else -np.inf, scores)
    return softmax(scores) @ x


@exercise(
    "09.note_from_nowhere", title="Find the bug: a note from nowhere", difficulty=3, minutes=8
)
def note_from_nowhere(answer, ctx):
    n, d = ctx.sizes(n=(1, 7), d=(1, 5))
    c = ctx.integers(3, 9) / 2 + 0.25  # not √d, which would take a division by it out
    for last in (1.0, 1e6):
        x = ctx.normal(n, d)
        x[-1] *= last  # exponentials of its scores overflow, and the least weight on it shows
        got = ctx.floats(
            ctx.call(answer, x, c),
            "what is copied",
            x.shape,
            nan="does an exponential overflow, or is there nothing that a position may see?",
        )
        plain = array(x)
        ctx.close(
            got,
            _copied(plain, c),
            "what is copied",
            {
                "the first position still has a note, that of the last token: nothing stood "
                "before it, and the note of nothing is zeros": _copied(plain, c, "round"),
                "the first position has its own token as its note: nothing stood before it": (
                    _copied(plain, c, "repeated")
                ),
                "the keys are the tokens themselves: then a symbol finds itself, and copies "
                "itself": _copied(plain, c, "itself"),
                "the notes tell what stood after each position": _copied(plain, c, "after"),
                "later positions are seen: the mask is missing": _copied(plain, c, mask=False),
                "later positions have scores of 0: exp(0) is 1, so they are seen": _copied(
                    plain, c, mask="of 0"
                ),
                "the first position is masked for the others: a note of zeros has scores of 0, and "
                "its token is seen": _copied(plain, c, mask="and the first"),
                "the scores are not multiplied by c": _copied(plain, 1.0),
                "the scores are divided by √d: c alone makes them sharp": _copied(
                    plain, c / d**0.5
                ),
            },
        )
