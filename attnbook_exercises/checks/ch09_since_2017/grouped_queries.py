"""Checks of the section on grouped queries: a bill on paper, a prediction, means of heads, heads
that read the wrong keys.
"""

import numpy as np

from ..context import array, softmax
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import Slips, on_paper


@on_paper(
    "09.bill_of_a_cache",
    "the number of mebibytes",
    title="the bill of a cache",
    difficulty=1,
    minutes=4,
    within=0.01,
)
def bill_of_a_cache():
    return 448, {
        "those are the keys alone, or a byte for each number: values are cached, too, and each "
        "number takes two": 224,
        "that is twice as many: are there as many heads of keys as of queries, or four bytes for "
        "each number?": 896,
        "that is the bill of one block: there are 28": 16,
        "that is what one token takes, in kibibytes": 112,
        "that is what one head takes": 56,
        "those are gibibytes: a gibibyte has 1,024 mebibytes": 448 / 1024,
        "those are bytes: divide them by 2**20": 448 * 2**20,
        "those are megabytes, of a million bytes: a mebibyte has 2**20": 448 * 2**20 / 1e6,
        "that is how many numbers are cached, not mebibytes": 448 * 2**19,
    }


@exercise("09.work_of_a_prompt", title="Predict: the work of a prompt", difficulty=1, minutes=3)
def work_of_a_prompt(answer, ctx):
    return ctx.predicted(answer, "a quarter", "half", "as many")


def _fewer(W, had, kept):
    heads = W.reshape(len(W), kept, had // kept, -1)
    return heads.mean(2).reshape(len(W), -1)


_FEWER = Slips(
    _fewer,
    {
        "the heads of a group are added: expected their mean": "mean → sum",
        "the first head of each group is taken: "
        "expected the mean of the group": ".mean(2) → [:, :, 0]",
        "the last head of each group is taken: "
        "expected the mean of the group": ".mean(2) → [:, :, -1]",
        "a group is of heads side by side, not of every kept-th head": (
            "kept, had // kept, -1 → had // kept, kept, -1",
            "mean(2) → mean(1)",
        ),
        "means are taken within a head: "
        "the numbers of a head stay apart": "kept, had // kept, -1 → -1, had // kept",
    },
)


@exercise("09.means_of_heads", title="Fewer heads from a trained layer", difficulty=2, minutes=7)
def means_of_heads(answer, ctx):
    d, width, kept, shared = ctx.sizes(
        d=(1, 5), width_of_a_head=(1, 3), kept=(1, 4), heads_in_a_group=(1, 4)
    )
    had = kept * shared
    where = f"{had} heads, of which {kept} are kept: the matrix"
    W = ctx.normal(d, had * width)
    got = ctx.floats(ctx.call(answer, W, had, kept), where, (d, kept * width))
    right, wrong = _FEWER(array(W), had, kept)
    ctx.close(got, right, where, wrong)
    check_gradients(ctx, answer, (W, had, kept), {0: "W"}, lambda W: _fewer(W, had, kept))


def _grouped(Q, K, V):
    group = np.arange(len(Q)) // (len(Q) // len(K))
    keys, values = K[group], V[group]
    scores = Q @ keys.swapaxes(1, 2) / Q.shape[-1] ** 0.5
    return softmax(scores) @ values


_GROUPED = Slips(
    _grouped,
    {
        "heads of queries read the keys and values in turns: "
        "a group stands side by side": "// (len(Q) // len(K)) → % len(K)",
        "the keys are those of the group, "
        "but the values are not": "V[group] → V[np.arange(len(Q)) % len(K)]",
        "the values are those of the group, "
        "but the keys are not": "K[group] → K[np.arange(len(Q)) % len(K)]",
        "the scores are not divided by the root of the width": "/ Q.shape[-1] ** 0.5 →",
        "the scores are divided by the root of the values' width: "
        "it is that of the keys": "Q.shape[-1] → V.shape[-1]",
        "all heads read the first keys and values": "// (len(Q) // len(K)) → * 0",
    },
)


@exercise(
    "09.right_at_both_ends", title="Find the bug: right at both ends", difficulty=3, minutes=8
)
def right_at_both_ends(answer, ctx):
    drawn, shared, m, n, d = ctx.sizes(
        g=(1, 4), heads_in_a_group=(1, 3), m=(1, 3), n=(1, 5), d=(1, 6)
    )
    d_v, few = d + ctx.integers(1, 4), (drawn * shared, drawn)
    # exponentials of scores a hundred times as large overflow; 12 and 3: where even steps from 0 to
    # g - 1 and groups of h / g part ways
    for factor, (h, g) in ((100.0, few), (1.0, (12, 3)), (1.0, few)):
        where = f"for {h} heads of queries and {g} of keys and values: the context"
        given = factor * ctx.normal(h, m, d), ctx.normal(g, n, d), ctx.normal(g, n, d_v)
        got = ctx.floats(ctx.call(answer, *given), where, (h, m, d_v))
        right, wrong = _GROUPED(*map(array, given))
        ctx.close(got, right, where, wrong)
    check_gradients(ctx, answer, given, {0: "Q", 1: "K", 2: "V"}, _grouped)
