"""Checks of the section on multi-head attention: what a layer of heads weighs, two looks by hand,
a prediction, and heads that are taken out of a layer.
"""

import numpy as np

from ..context import array, softmax
from ..registry import exercise
from ..slips import on_paper


@exercise("06.head_parameters", title="Count the parameters", difficulty=1, minutes=5)
def head_parameters(answer, ctx):
    drawn = (10 * ctx.integers(3, 9), ctx.integers(2, 6), ctx.integers(5, 20), ctx.integers(21, 40))
    # the first tells most mistakes apart
    sizes = ((101, 5, 7, 16), drawn, (12, 1, 5, 3), (64, 4, 16, 16))
    for d, h, key, value in sizes:
        for bias in (False, True):
            got = ctx.number(ctx.call(answer, d, h, key, value, bias), "the number of parameters")
            sides, into, out = 2 * d * h * key, d * h * value, h * value * d
            biases = h * (2 * key + value) + d
            expected = sides + into + out + bias * biases
            remark = (
                f"(d_model {d}, {h} heads of width {key} and {value}, "
                f"{'with' if bias else 'without'} biases)"
            )
            wrong = {
                "W_v or W_o is missing: values come from the inputs, and the joined heads go "
                "through one more matrix": sides + into + bias * (biases - d),
                "W_v or W_o is missing, its bias is there: values come from the inputs, and the "
                "joined heads go through one more matrix": sides + into + bias * biases,
                "there is one matrix for queries and keys: each side has its own": d * h * key
                + into
                + out
                + bias * biases,
                "every head has the full width: its matrices are narrow, d_head columns each": 4
                * d
                * d
                * h
                + bias * 4 * d * h,
                "the widths of the heads are not used: they need not add up to d_model": 4 * d * d
                + bias * 4 * d,
                "only one head is counted": (2 * d * key + d * value + value * d)
                + bias * (2 * key + value + d),
                "the values are as wide as the keys: expected d_head_value columns": 4 * d * h * key
                + bias * (3 * h * key + d),
                "W_o takes heads as wide as the keys: it takes the joined contexts, as wide as "
                "the values": sides + into + h * key * d + bias * biases,
                "W_o is square: it has one row for each entry of the joined contexts": sides
                + into
                + d * d
                + bias * biases,
                "every head has a W_o of its own as large as that of all": sides
                + into
                + h * out
                + bias * biases,
            }
            # of their differences, which are far smaller than the numbers
            off = {message: other - expected for message, other in wrong.items()}
            ctx.recognize(got - expected, 0, off)
            if got == expected:
                continue
            if got == expected + biases and not bias:
                ctx.fail(f"there are biases where none were asked for {remark}")
            if bias and got == expected - biases:
                ctx.fail(f"the biases are missing {remark}")
            if bias and got == expected - d:
                ctx.fail(f"the bias of W_o is missing: it has one as well {remark}")
            if bias and got == expected - biases + 4 * d:
                ctx.fail(
                    f"each bias has d_model numbers: a bias is as long as the result of its "
                    f"projection {remark}"
                )
            if bias and got == expected - biases + 4:
                ctx.fail(
                    f"each bias is counted as one number: it is as long as the result of its "
                    f"projection {remark}"
                )
            if bias and got == expected - d + h * value:
                ctx.fail(
                    f"the bias of W_o is added to the output: d_model numbers, not one for each "
                    f"entry of the joined heads {remark}"
                )
            ctx.fail(f"the number is {got:g}, expected {expected} {remark}")


@on_paper(
    "06.two_looks_by_hand",
    "the output",
    title="Two looks by hand",
    difficulty=2,
    minutes=5,
    within=0.005,
    otherwise="begin with the two weights of each head",
)
def two_looks_by_hand():
    expected = 2 * 0.8 - 0.2
    return expected, {
        "the heads are added as they are: each goes through its own entry of W^O": 1.0,
        "the heads are averaged as they are: each goes through its own entry of W^O": 0.5,
        "half of the sum: W^O adds what the heads return and divides by nothing": 0.7,
        "only head 1 is there: head 2 returns a number too, and W^O takes it off": 1.6,
        "the signs in W^O are lost: its second entry is -1": 1.8,
        "the heads are joined in the wrong order: head 1 meets the first entry of W^O": -0.4,
        "the scores are taken for weights, each row divided by its sum: the exponential of "
        "0 is 1, so the other word has a weight too": 2.0,
        "the scores are taken for weights: the softmax is missing": 2 * float(np.log(4)),
        "the weights do not sum to 1: divide the exponentials 4 and 1 by their sum": 2 * 4 - 1,
    }


@exercise("06.one_noun_twice", title="Predict: One noun twice", difficulty=2, minutes=5)
def one_noun_twice(answer, ctx):
    return ctx.predicted(answer, "nearly always", "about as often", "hardly ever")


@exercise("06.take_heads_out", title="Take heads out", difficulty=3, minutes=10)
def take_heads_out(answer, ctx):
    half, width = ctx.sizes(heads_kept_of_twice_as_many=(1, 4), width_of_a_head=(1, 3))
    # half of them, with the last two: neither the first ones nor the neighbours of those that go
    keep = [*sorted(ctx.order(2 * half - 2)[: half - 2]), 2 * half - 2, 2 * half - 1][-half:]
    _take(answer, ctx, 2 * half, width, keep)
    for every in (False, True):
        heads, width = ctx.sizes(heads=(1, 5), width=(1, 4))
        keep = sorted(ctx.order(heads)[: heads if every else 1])
        _take(answer, ctx, heads, width, keep)


def _take(answer, ctx, heads, width, keep):
    d, remaining = heads * width, len(keep)
    given = [ctx.normal(d, d) for _ in range(4)]
    names = ("W_q", "W_k", "W_v", "W_o")
    got = ctx.parts(ctx.call(answer, *given, heads, list(keep)), names)
    shapes = [(d, remaining * width)] * 3 + [(remaining * width, d)]
    given = [array(w) for w in given]
    shape = getattr(got[0], "shape", None)
    if shape == (d, d) != shapes[0]:
        zeros = array(ctx.floats(got[0], "W_q", (d, d)))
        ctx.fail(
            "W_q is as large as before"
            + (", with zeros in it" if (zeros == 0).any() else "")
            + ": a head that is out has no columns at all"
        )
    if shape == (remaining * width, d) != shapes[0]:
        ctx.fail(
            "rows of W_q were taken out: inputs multiply from the left, so a head is a group of "
            "columns of W_q"
        )
    if shape == (d, remaining) != shapes[0]:
        ctx.fail(f"W_q has one column a head: a head has d / num_heads = {width} of them")
    where = ["a group of columns a head"] * 3 + [
        "W_o multiplies the joined heads: a head is a group of its rows"
    ]
    got = [
        array(ctx.floats(g, name, s, mention=m)) for g, name, s, m in zip(got, names, shapes, where)
    ]

    def layer(w_q, w_k, w_v, w_o, count):
        cut = lambda y: y.reshape(len(y), count, -1).swapaxes(0, 1)  # noqa: E731
        q, k, v = cut(x @ w_q), cut(x @ w_k), cut(x @ w_v)
        context = softmax(q @ k.swapaxes(1, 2) / np.sqrt(q.shape[-1])) @ v
        return context.swapaxes(0, 1).reshape(len(x), -1) @ w_o

    x = array(ctx.normal(6, d)) / 2
    columns = np.concatenate([np.arange(i * width, (i + 1) * width) for i in keep])
    expected = layer(*(w[:, columns] for w in given[:3]), w_o=given[3][columns], count=remaining)
    if ctx.same(layer(*got, count=remaining), expected):
        return

    sources = []
    for name, small, full in zip(names, got, given):
        small, full = (small.T, full.T) if name == "W_o" else (small, full)
        sources.append(
            [
                _which(ctx, small[:, i * width : (i + 1) * width], full, width, name)
                for i in range(remaining)
            ]
        )
        if ctx.same(small, np.concatenate([full[:, i::heads] for i in keep], 1)):
            ctx.fail(
                f"{name}: every num_heads-th column was taken: head i has the columns i·d/h … "
                f"(i+1)·d/h - 1, one after the other"
            )
        if None in sources[-1]:
            ctx.fail(
                f"{name}: block {sources[-1].index(None)} is no head of the layer: head i has the "
                f"{'rows' if name == 'W_o' else 'columns'} "
                "i·d/h … (i+1)·d/h - 1"
            )
    for name, which in zip(names, sources):
        gone = [i for i in range(heads) if i not in keep]
        if which == gone:
            ctx.fail(
                f"{name} holds the heads {which}: these were to go, `keep` lists those that "
                f"stay, {keep}"
            )
        if which == [(i - 1) % heads for i in keep]:
            ctx.fail(f"{name} holds the heads {which}, expected {keep}: heads are counted from 0")
        if sorted(which) != sorted(keep):
            ctx.fail(f"{name} holds the heads {which}, expected {keep}")
    first = next(i for i in range(4) if sources[i] != sources[0])
    ctx.fail(
        f"W_q holds the heads in the order {sources[0]} and {names[first]} in the order "
        f"{sources[first]}: one order for all four"
    )


def _which(ctx, block, full, width, name):
    """The head whose columns a block is; a multiple of them is named at once."""
    for i in range(full.shape[1] // width):
        head = full[:, i * width : (i + 1) * width]
        if ctx.same(block, head):
            return i
        factor = (block * head).sum() / (head * head).sum()
        if abs(factor) > 1e-3 and np.abs(block - factor * head).max() < 1e-4:
            why = (
                "the output is a sum over heads, and the heads that stay keep their share"
                if name == "W_o"
                else "the width of a head stays, and with it the scale of its scores"
            )
            ctx.fail(f"{name} is multiplied by {factor:.3g}: {why}")
    return None
