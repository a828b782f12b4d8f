"""Checks of the section on grouped queries: a bill on paper, a prediction, means of heads, heads
that read the wrong keys.
"""

import numpy as np

from ..context import array, softmax
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import on_paper


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
        "those are the keys alone: values are cached, too": 224,
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


@exercise("09.means_of_heads", title="Fewer heads from a trained layer", difficulty=2, minutes=7)
def means_of_heads(answer, ctx):
    d, width, kept, shared = ctx.sizes(
        d=(1, 5), width_of_a_head=(1, 3), kept=(1, 4), heads_in_a_group=(1, 4)
    )
    where = f"{kept * shared} heads, of which {kept} are kept: the matrix"
    W = ctx.normal(d, kept * shared * width)
    got = ctx.floats(ctx.call(answer, W, kept * shared, kept), where, (d, kept * width))
    groups = array(W).reshape(d, kept, shared, width)
    wrong = {
        "the heads of a group are added: expected their mean": groups.sum(2),
        "the first head of each group is taken: expected the mean of the group": groups[:, :, 0],
        "the last head of each group is taken: expected the mean of the group": groups[:, :, -1],
        "a group is of heads side by side, not of every kept-th head": array(W)
        .reshape(d, shared, kept, width)
        .mean(1),
        "means are taken within a head: the numbers of a head stay apart": array(W)
        .reshape(d, kept * width, shared)
        .mean(-1),
    }
    ctx.close(
        got,
        groups.mean(2).reshape(d, -1),
        where,
        {words: value.reshape(d, -1) for words, value in wrong.items()},
    )


@exercise(
    "09.right_at_both_ends", title="Find the bug: right at both ends", difficulty=3, minutes=8
)
def right_at_both_ends(answer, ctx):
    g, shared, m, n, d = ctx.sizes(g=(1, 4), heads_in_a_group=(1, 3), m=(1, 3), n=(1, 5), d=(1, 6))
    h, d_v = g * shared, d + ctx.integers(1, 4)
    where = f"for {h} heads of queries and {g} of keys and values: the context"
    for factor in (1.0, 100.0):  # exponentials of scores a hundred times as large overflow
        given = factor * ctx.normal(h, m, d), ctx.normal(g, n, d), ctx.normal(g, n, d_v)
        got = ctx.floats(ctx.call(answer, *given), where, (h, m, d_v))
        Q, K, V = (array(part) for part in given)
        of = np.arange(h) // shared
        ctx.close(
            got,
            _heads(Q, K, V, of, of),
            where,
            {
                "heads of queries read the keys and values in turns: a group stands side by side": (
                    _heads(Q, K, V, np.arange(h) % g, np.arange(h) % g)
                ),
                "the keys are those of the group, but the values are not": _heads(
                    Q, K, V, of, np.arange(h) % g
                ),
                "the values are those of the group, but the keys are not": _heads(
                    Q, K, V, np.arange(h) % g, of
                ),
                "the scores are not divided by the root of the width": _heads(
                    Q, K, V, of, of, scale=1.0
                ),
                "the scores are divided by the root of the values' width: it is that of the "
                "keys": _heads(Q, K, V, of, of, scale=d_v**-0.5),
                "all heads read the first keys and values": _heads(Q, K, V, 0 * of, 0 * of),
            },
        )
        if factor == 1:
            check_gradients(
                ctx,
                answer,
                given,
                {0: "Q", 1: "K", 2: "V"},
                lambda Q, K, V: _heads(Q, K, V, of, of),
            )


def _heads(Q, K, V, of_keys, of_values, scale=None):
    """Attention whose head i reads the keys of_keys[i] and the values of_values[i]."""
    Q, K, V = Q, K[of_keys], V[of_values]
    scale = Q.shape[-1] ** -0.5 if scale is None else scale
    return softmax(Q @ K.transpose(0, 2, 1) * scale) @ V
