"""Checks of the section on long sources: lags, reversing each source within its own length."""

import torch

from ..context import array
from ..registry import exercise
from ..slips import Slips, on_paper


@on_paper(
    "01.lag_by_hand",
    "the lag",
    title="a lag",
    difficulty=1,
    minutes=3,
    otherwise="subtract the time of reading from that of saying",
)
def lag_by_hand():
    return 4, {
        "that is the lag when the source is read forward": 8.0,
        "one too many: the second word of seven is read at time 6 when the source is reversed": 5.0,
        "one too few: the third target word is said at time 10": 3.0,
        "that is the time at which the word is read": 6.0,
        "that is the time at which the translation is said": 10.0,
    }


@exercise(
    "01.every_step",
    title="Predict: a decoder that reads the vector at every step",
    difficulty=1,
    minutes=3,
)
def every_step(answer, ctx):
    return ctx.predicted(answer, "more", "about as much", "less")


def _reversed(source, lengths):
    rows = source.copy()
    for row, length in zip(rows, lengths):
        row[:length] = row[:length][::-1]
    return rows


_REVERSED = Slips(
    _reversed,
    {
        "the whole row is reversed: the padding comes first now, and the encoder reads it before "
        "the words": "return rows → return source[:, ::-1]",
        "nothing is reversed": "[::-1] →",
        "the reversed part is one too long: it takes a padding position "
        "along": "row[:length] = row[:length][::-1] → row[: length + 1] = row[: length + 1][::-1]",
        "the reversed part is one too short: the last word stays where it "
        "was": "row[:length] = row[:length][::-1] → row[: length - 1] = row[: length - 1][::-1]",
        "the batch is reversed, not the words": "return rows → return source[::-1]",
        "the padding is filled with 0: "
        "leave it as it is": "[::-1] → [::-1]\n        row[length:] = 0",
    },
)


@exercise(
    "01.reverse_padded", title="Reverse each source, not its padding", difficulty=2, minutes=5
)
def reverse_padded(answer, ctx):
    for pad in (0, ctx.integers(1, 4)):
        batch, n = ctx.sizes(batch=(1, 4), n=(1, 8))
        lengths = ctx.lengths(batch, n)
        source = torch.arange(10, 10 + batch * n).reshape(batch, n) + ctx.integers(0, 50)
        source += 2**40 if ctx.case else 0
        for row, length in enumerate(lengths.tolist()):
            source[row, length:] = pad
        ids = array(source)
        got = ctx.tensor(
            ctx.call(answer, source, lengths), "the source", (batch, n), dtype=torch.long
        )

        right, wrong = _REVERSED(ids, lengths.tolist())
        for k in range(2, n):
            sentence = f"every source is reversed as if it had {k} words: each has its own length"
            wrong[sentence] = _reversed(ids, [k] * batch)
        ctx.close(got, right, "the source", wrong)
