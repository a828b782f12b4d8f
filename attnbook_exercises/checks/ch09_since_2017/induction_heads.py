"""Checks of the section on induction heads: how sharp a head has to be, a prediction, the score of
prefix matching, a note that comes from the future.
"""

import numpy as np
import torch

from ..context import array, softmax
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import Slips, on_paper


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


def _matching(weights, tokens):
    total, count = 0.0, 0
    for i in range(len(tokens)):
        earlier = [j for j in range(i) if tokens[j] == tokens[i]]
        count += bool(earlier)
        for j in earlier:
            total += weights[i, j + 1]
    return total / count


_MATCHING = Slips(
    _matching,
    {
        "that is the weight on the earlier occurrences themselves: "
        "what followed them stands one place to the right": "j + 1 → j",
        "that is the weight on what stood before the earlier occurrences: one place to the right "
        "of them is asked for": "weights[i, j + 1] → weights[i, j - 1] * (j > 0)",
        "the sum is divided by the number of all positions: only those count whose token was read "
        "before, and a position is no earlier occurrence of itself": "/ count → / len(tokens)",
        "the sum is divided by the number of pairs: "
        "a position with two earlier occurrences counts once": "bool(earlier) → len(earlier)",
        "only the last occurrence before each position counts for you: "
        "add up all of them": "in earlier: → in earlier[-1:]:",
        "only the first occurrence counts for you: "
        "add up all of them": "in earlier: → in earlier[:1]:",
        "weights[i, j] is how much position i looks at position j, "
        "not the other way round": "[i, j + 1] → [j + 1, i]",
        "the sum is not divided by the number of positions whose token was read "
        "before": "/ count →",
    },
)


@exercise("09.prefix_matching", title="A score for induction heads", difficulty=2, minutes=10)
def prefix_matching(answer, ctx):
    # two tokens at least: one of them comes twice
    n, symbols = ctx.sizes(n=(2, 14), different_tokens=(1, 5))

    def repeating():
        tokens = 7 + 2**16 * ctx.integers(0, symbols, n)  # which 16 bits do not tell apart
        tokens[n // 2] = tokens[0]
        return tokens

    def pairs_differ(tokens):
        """Whether there are not as many pairs of alike tokens as positions."""
        return int((tokens[:, None] == tokens).tril(-1).sum()) != len(tokens)

    for _ in range(2):
        tokens = ctx.draw(repeating, pairs_differ, 50)
        scores = ctx.normal(n, n).masked_fill(torch.ones(n, n).triu(1).bool(), -torch.inf)
        scores[n // 2, 1 : n // 2 + 1] = -torch.inf  # nothing goes to what followed, if that is all
        given = scores.softmax(-1), tokens
        got = ctx.number(ctx.call(answer, *given), "the score")
        right, wrong = _MATCHING(*map(array, given))
        ctx.close(got, right, "the score", wrong)


def _copied(x, c):
    notes = np.vstack([0 * x[:1], x[:-1]])
    scores = c * x @ notes.T
    seen = np.tri(len(x), dtype=bool)
    return softmax(np.where(seen, scores, -np.inf)) @ x


_COPIED = Slips(
    _copied,
    {
        "the first position still has a note, that of the last token: nothing stood before it, "
        "and the note of nothing is zeros": "np.vstack([0 * x[:1], x[:-1]]) → np.roll(x, 1, 0)",
        "the first position has its own token as its note: "
        "nothing stood before it": "0 * x[:1] → x[:1]",
        "the keys are the tokens themselves: "
        "then a symbol finds itself, and copies itself": "np.vstack([0 * x[:1], x[:-1]]) → x",
        "the notes tell what stood after each position": "[0 * x[:1], x[:-1]] → [x[1:], 0 * x[:1]]",
        "later positions are seen: the mask is missing": "np.where(seen, scores, -np.inf) → scores",
        "later positions have scores of 0: exp(0) is 1, so they are seen": "-np.inf → 0.0",
        "the first position is not seen with a score of 0: a note of zeros has scores of 0, "
        "and its "
        "token is seen": "dtype=bool) → dtype=bool)\n    seen[1:, 0] = False",
        "the scores are not multiplied by c": "c * →",
        "the scores are divided by √d: c alone makes them sharp": "c * → c / x.shape[1] ** 0.5 *",
    },
)


@exercise(
    "09.note_from_nowhere", title="Find the bug: a note from nowhere", difficulty=3, minutes=8
)
def note_from_nowhere(answer, ctx):
    n, d = ctx.sizes(n=(1, 7), d=(1, 5))
    c = ctx.integers(3, 9) / 2 + 0.25  # not √d, which would take a division by it out
    nan = "does an exponential overflow, or is there nothing that a position may see?"
    for last in (1.0, 1e6):
        x = ctx.normal(n, d)
        x[-1] *= last  # exponentials of its scores overflow, and the least weight on it shows
        got = ctx.floats(ctx.call(answer, x, c), "what is copied", x.shape, nan=nan)
        right, wrong = _COPIED(array(x), c)
        ctx.close(got, right, "what is copied", wrong)
    x = 0.5 * ctx.normal(n, d)
    check_gradients(ctx, answer, (x, c), {0: "x"}, lambda x: _copied(x, c))
