"""Checks of the section on fine-tuning: the bill of an adapter, a prediction, positions of packed
documents, a bug of an adapter, and four curves.
"""

import numpy as np
import torch

from ..context import array
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import Slips, on_paper, read_the_curve


@on_paper(
    "06.adapter_bill",
    ("the trained numbers", "the megabytes"),
    title="an adapter for a large model",
    difficulty=1,
    minutes=5,
    kind="Budget",
    within=np.array([0.5, 0.05]),
)
def adapter_bill():
    def bill(blocks=32, matrices=2, rank=8, width=4096, thin=2, copies=4, number=4, mega=1e6):
        trained = blocks * matrices * thin * rank * width
        return trained, trained * copies * number / mega

    return bill(), {
        "half of the numbers are missing: A and B are trained, of W_q and of W_v": bill(thin=1),
        "that is one block: there are 32": bill(blocks=1),
        "that is the whole matrices: rank 8 trains two thin ones in place of each": (
            bill(rank=4096, thin=1)
        ),
        "a thin matrix has 8 times 4,096 numbers, not 8 times 8": bill(width=8),
        "each trained number has a gradient and Adam's two averages beside it, all of four "
        "bytes": bill(copies=1),
        "a gradient, or one of Adam's two averages, is left out": bill(copies=3),
        "Adam's averages are left out: two for each trained number": bill(copies=2),
        "a megabyte is a million bytes here, not 2 to the 20": bill(mega=2**20),
        "these are bytes: expected megabytes": bill(mega=1),
        "these are gigabytes: expected megabytes": bill(mega=1e9),
    }


@exercise("06.silent_texts", title="Predict: texts that say nothing", difficulty=1, minutes=3)
def silent_texts(answer, ctx):
    return ctx.predicted(answer, "about half", "about three quarters", "nearly all")


@read_the_curve("06.four_rates", title="four methods, five rates", difficulty=2, minutes=6)
def four_rates():
    """A is trained whole, B is LoRA, C begins from scratch, D is frozen."""
    whole = "it answers everything at the smallest rate, and larger ones ruin it"
    lora = "it wants a larger rate than the curve that is best at the smallest one"
    scratch = "it stays at a coin at every rate: it has nothing from the texts"
    frozen = "it stays a little above a coin at every rate: it has the texts, and a linear layer"
    return {
        "the letter of whole": ("A", {"B": lora, "C": scratch, "D": frozen}),
        "the letter of LoRA": ("B", {"A": whole, "C": scratch, "D": frozen}),
        "the letter of frozen": ("D", {"A": whole, "B": lora, "C": scratch}),
    }


def _restart(documents):
    rows, n = documents.shape
    found = np.zeros((rows, n), int)
    for row in range(rows):
        for i in range(1, n):
            same = documents[row, i] == documents[row, i - 1]
            found[row, i] = found[row, i - 1] + 1 if same else 0
    return found


_RESTART = Slips(
    _restart,
    {
        "positions go on from one document to the next: each begins at 0": "if same else 0 →",
        "a document begins at 1: expected 0": "if same else 0 → if same else 1",
        "the first document of a row begins at 1: expected 0": "np.zeros → np.ones",
        "these are the numbers of the documents, counted in each row": "found[row, i - 1] + 1 if "
        "same else 0 → found[row, i - 1] + (0 if same else 1)",
        "positions are counted from the end of each document": "return found → return "
        "np.array([[(r[i:] == r[i]).sum() - 1 for i in range(n)] for r in documents])",
        "that is the length of each document": "return found → return np.array([[(r == r[i]).sum() "
        "for i in range(n)] for r in documents])",
        "a row goes on where the one before it ended: every row begins at 0": (
            "return found → flat = documents.reshape(1, -1)\n    out = [0]\n    "
            "for i in range(1, rows * n):\n        "
            "out.append(out[-1] + 1 if flat[0, i] == flat[0, i - 1] else 0)\n    "
            "return np.array(out).reshape(rows, n)"
        ),
    },
)


@exercise("06.restart_positions", title="Positions that begin again", difficulty=2, minutes=10)
def restart_positions(answer, ctx):
    for apart in (0.25, 0.9, 0.0):
        rows, n = ctx.sizes(rows=(1, 5), n=(1, 30))
        steps = (torch.rand(rows, n, generator=ctx.generator) < apart).long()
        documents = ctx.integers(0, 3, rows, 1) + steps.cumsum(1)
        if rows > 1 and n > 1:  # a row may begin with the number that the one before it ends with
            documents[1] += documents[0, -1] - documents[1, 0]
        got = ctx.call(answer, documents, new="the positions")
        got = ctx.tensor(got, "the positions", (rows, n), dtype=torch.long)
        right, wrong = _RESTART(array(documents))
        ctx.close(got, right, "the positions", wrong)


def _adapted(x, weight, down, up, which, alpha):
    rank = down.shape[1]
    narrow = x[:, None] @ down[which].swapaxes(1, 2)
    change = (narrow @ up[which].swapaxes(1, 2))[:, 0]
    return x @ weight.T + alpha / rank * change


_ADAPTED = Slips(
    _adapted,
    {
        "α is divided by the width of the result: the rank is the number of rows of "
        "A": "rank = down.shape[1] → rank = up.shape[1]",
        "α is divided by the width of x: the rank is the number of rows of "
        "A": "rank = down.shape[1] → rank = down.shape[2]",
        "α is divided by the number of adapters: the rank is the number of rows of "
        "A": "rank = down.shape[1] → rank = len(down)",
        "α is missing": "alpha / rank → 1 / rank",
        "α is not divided by the rank": "alpha / rank → alpha",
        "the scale is taken twice": "alpha / rank → (alpha / rank) ** 2",
        "the change is missing": "+ alpha / rank * change →",
        "the pretrained matrix is missing": "x @ weight.T + →",
        "every row has the first adapter: row i has "
        "adapter which[i]": "rank = → which = 0 * which\n    rank =",
    },
)


@exercise(
    "06.adapter_bug", title="Find the bug: many adapters, one model", difficulty=2, minutes=10
)
def adapter_bug(answer, ctx):
    n, d_in, d_out, rank, number = ctx.sizes(
        n=(1, 6), d_in=(1, 7), d_out=(1, 7), rank=(1, 4), adapters=(1, 4)
    )
    x, weight = ctx.normal(n, d_in), ctx.normal(d_out, d_in)
    down, up = ctx.normal(number, rank, d_in), ctx.normal(number, d_out, rank)
    which = ctx.integers(0, number, n)
    alpha = 1.5 + 0.25 * float(ctx.integers(1, 20))
    given = x, weight, down, up, which, alpha
    got = ctx.floats(ctx.call(answer, *given), "the result", (n, d_out))
    right, wrong = _ADAPTED(*map(array, given[:5]), alpha)
    so_far = {
        "the change of an adapter stays in W when the next one is read: each row has its own "
        "alone": _summed(*map(array, given[:5]), alpha)
    }
    ctx.close(got, right, "the result", wrong | so_far)
    at = {0: "x", 2: "A", 3: "B"}
    check_gradients(
        ctx,
        answer,
        given,
        at,
        lambda x, down, up: _adapted(x, array(weight), down, up, array(which), alpha),
    )


def _summed(x, weight, down, up, which, alpha):
    """The adapters that are read are added to W in turn, and none is taken out."""
    found = np.zeros((len(x), len(weight)))
    for k in range(len(down)):
        if (which == k).any():
            weight = weight + alpha / down.shape[1] * up[k] @ down[k]
            found[which == k] = x[which == k] @ weight.T
    return found
