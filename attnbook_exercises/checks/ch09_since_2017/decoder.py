"""Checks of the section on decoders of today: parameters on paper, a prediction, words cut by
merges, one matrix for queries, keys and values.
"""

from functools import partial

import torch

from ..context import a, array
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import on_paper


@on_paper(
    "09.parameters_of_a_block",
    "the number of parameters",
    title="the parameters of a block",
    difficulty=1,
    minutes=5,
    within=0.01,
)
def parameters_of_a_block():
    return 58, {
        "those are the matrices of the attention alone": 10,
        "those are the matrices of the network alone": 48,
        "SwiGLU has three matrices, not two": 42,
        "keys and values are made for 8 heads, not for 32": 64,
        "the attention has a fourth matrix, that of its output": 54,
        "keys and values have a matrix each": 57,
        "that is the model without its tables: one block was asked for": 58 * 16,
        "those are parameters: divide them by 2**20": 58 * 2**20,
        "those are millions: the unit is 2**20": 58 * 2**20 / 1e6,
    }


@exercise("09.letters_of_greek", title="Predict: the letters of Greek", difficulty=1, minutes=3)
def letters_of_greek(answer, ctx):
    return ctx.predicted(answer, "a third", "one", "two", "none")


@exercise("09.cut_by_merges", title="Cut a word by its merges", difficulty=2, minutes=8)
def cut_by_merges(answer, ctx):
    cases = []
    for word, merges in _words(ctx):
        got = ctx.call(answer, word, list(merges))
        where = f"{word!r} by {', '.join(x + '+' + y for x, y in merges) or 'no merges'}"
        if type(got) not in (list, tuple) or any(type(piece) is not str for piece in got):
            what = a(got).replace("a NoneType", "None")
            ctx.fail(f"{where}: {what} came back, expected a list of strings")
        if "".join(got) != word:
            ctx.fail(f"{where}: the pieces {list(got)} joined are not the word")
        cases.append((where, list(got), word, merges))
    different = [case for case in cases if case[1] != _cut(*case[2:])]
    if not different:
        return
    slips = {
        "the longest piece that fits is taken: expected the merges in the order in which they were "
        "learned": _longest,
        "a merge is done once: it joins every occurrence": partial(_cut, once=True),
        "occurrences are found from the right: they are joined from left to right": partial(
            _cut, right=True
        ),
        "only one merge is done: expected all of them, in their order": _first,
        "the merges are done from the last one to the first": lambda word, merges: _cut(
            word, merges[::-1]
        ),
        "pieces are joined where together they are the string of a merge: a merge joins its two "
        "pieces alone": partial(_cut, strings=True),
        "the last pair of pieces is never looked at": partial(_cut, end=1),
        "the first pair of pieces is never looked at": partial(_cut, start=1),
        "behind a pair that was joined the next piece is passed over": partial(_cut, jump=2),
        "nothing is joined": lambda word, merges: list(word),
    }
    for words, slip in slips.items():
        if all(got == slip(word, merges) for _, got, word, merges in cases):
            ctx.fail(f"{different[0][0]}: {words}")
    where, got, word, merges = different[0]
    ctx.fail(f"{where}: the pieces are {got}, expected {_cut(word, merges)}")


def _words(ctx):
    yield "abcab", [("a", "b"), ("b", "c"), ("ab", "c")]
    yield "bananas", [("a", "n"), ("an", "a"), ("b", "an")]
    yield "lower", []
    yield "aaaaa", [("a", "a"), ("aa", "aa")]
    yield "abcd", [("b", "c"), ("a", "b"), ("bc", "d"), ("ab", "c")]
    yield "abc", [("a", "b"), ("b", "c"), ("a", "bc")]
    for _ in range(6):
        letters = "abc"
        word = "".join(letters[ctx.integers(0, 3)] for _ in range(12))
        pieces, merges = list(letters), []
        for _ in range(5):
            pair = pieces[ctx.integers(0, len(pieces))], pieces[ctx.integers(0, len(pieces))]
            if pair not in merges:
                merges.append(pair)
                pieces.append(pair[0] + pair[1])
        yield word, merges


def _cut(word, merges, *, once=False, right=False, strings=False, start=0, end=0, jump=1):
    """The pieces of a word; the options make known mistakes."""
    parts = list(word)
    for x, y in merges:
        k = len(parts) - 2 if right else start
        while 0 <= k < len(parts) - 1 - end:
            pair = parts[k], parts[k + 1]
            joined = pair[0] + pair[1] == x + y if strings else pair == (x, y)
            if joined:
                parts[k : k + 2] = [x + y]
                if once:
                    break
            k += -1 if right else jump if joined else 1
    return parts


def _longest(word, merges):
    known, parts, k = {x + y for x, y in merges}, [], 0
    while k < len(word):
        size = next((s for s in range(len(word) - k, 1, -1) if word[k : k + s] in known), 1)
        parts.append(word[k : k + size])
        k += size
    return parts


def _first(word, merges):
    for merge in merges:
        parts = _cut(word, [merge])
        if len(parts) < len(word):
            return parts
    return list(word)


@exercise(
    "09.right_with_one_head", title="Find the bug: right with one head", difficulty=2, minutes=8
)
def right_with_one_head(answer, ctx):
    n, h, width = ctx.sizes(n=(1, 5), h=(1, 4), width=(1, 4))
    d = h * width
    given = ctx.normal(n, d), ctx.normal(d, 3 * d), ctx.normal(3 * d), h
    got = ctx.parts(ctx.call(answer, *given), ("Q", "K", "V"))
    made = array(given[0]) @ array(given[1]) + array(given[2])
    wrong = {
        "the columns of a head are taken to stand together: first come all queries, then all "
        "keys, then all values": made.reshape(n, h, 3, width).transpose(2, 1, 0, 3),
        "neighbouring columns are taken to be a query, a key and a value": made.reshape(
            n, h, width, 3
        ).transpose(3, 1, 0, 2),
        "the columns of a head stand together, not every h-th column": made.reshape(
            n, 3, width, h
        ).transpose(1, 3, 0, 2),
        "the biases are not added": (made - array(given[2]))
        .reshape(n, 3, h, width)
        .transpose(1, 2, 0, 3),
        "tokens and heads are mixed: exchange two dimensions, do not reshape": made.reshape(n, 3, d)
        .transpose(1, 0, 2)
        .reshape(3, h, n, width),
    }
    right = _heads(made, n, h, width)
    wrong["the order is Q, K, V: the keys came first"] = right[[1, 0, 2]]
    names = [f"with {h} heads: {name}" for name in "QKV"]
    parts = [ctx.floats(part, name, (h, n, width)) for part, name in zip(got, names)]
    ctx.recognize(torch.stack(parts), right, wrong)
    for part, expected, name in zip(parts, right, names):
        ctx.close(part, expected, name)
    for k in range(3):
        check_gradients(
            ctx,
            answer,
            given,
            {0: "x", 1: "W", 2: "b"},
            lambda x, W, b: _heads(x @ W + b, n, h, width)[k],
            part=k,
        )


def _heads(made, n, h, width):
    return made.reshape(n, 3, h, width).transpose(1, 2, 0, 3)
