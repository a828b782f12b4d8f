"""Checks of the section on decoders of today: a prediction, words cut by merges, the budget of a
training run, one matrix for queries, keys and values.
"""

import torch

from ..context import a, array
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import Slips, on_paper


@exercise("09.letters_of_greek", title="Predict: the letters of Greek", difficulty=1, minutes=3)
def letters_of_greek(answer, ctx):
    return ctx.predicted(answer, "a third", "one", "two", "none")


def _longest(word, merges):
    known, lengths, k = {x + y for x, y in merges}, [], 0
    while k < len(word):
        size = next((s for s in range(len(word) - k, 1, -1) if word[k : k + s] in known), 1)
        lengths.append(size)
        k += size
    return lengths


def _cut(word, merges):
    """The lengths of the pieces of a word."""
    parts = list(word)
    for x, y in merges:
        k = 0
        while 0 <= k < len(parts) - 1:
            joined = (parts[k], parts[k + 1]) == (x, y)
            if joined:
                parts[k : k + 2] = [x + y]
            k += 1
    return [len(part) for part in parts]


_CUT = Slips(
    _cut,
    {
        "the longest piece that fits is taken: expected the merges in the order in which they were "
        "learned": "parts = list(word) → return _longest(word, merges)\n    parts = []",
        "a merge is done once: "
        "it joins every occurrence": "= [x + y] → = [x + y]\n                break",
        "occurrences are found from the right: they are joined from left to right": (
            "k = 0 → k = len(parts) - 2",
            "k += 1 → k -= 1",
        ),
        "only one merge is done: expected all of them, in their order": "k += 1 → k += 1\n        "
        "if len(parts) < len(word):\n            break",
        "the merges are done from the last one to the first": "in merges → in merges[::-1]",
        "pieces are joined where together they are the string of a merge: a merge joins its two "
        "pieces alone": "(parts[k], parts[k + 1]) == (x, y) → parts[k] + parts[k + 1] == x + y",
        "the last pair of pieces is never looked at": "len(parts) - 1: → len(parts) - 2:",
        "the first pair of pieces is never looked at": "k = 0 → k = 1",
        "after a pair that was joined the next piece is passed over": "k += 1 → k += 1 + joined",
        "nothing is joined": "in merges → in []",
    },
)


@exercise("09.cut_by_merges", title="Cut a word by its merges", difficulty=2, minutes=8)
def cut_by_merges(answer, ctx):
    cases = []
    for word, merges in _words(ctx, *ctx.sizes(letters=(1, 12), merges=(1, 5, 60))):
        got = ctx.call(answer, word, list(merges))
        joins = ", ".join(x + "+" + y for x, y in merges[:5]) + ", …" * (len(merges) > 5)
        where = f"{word!r} by {joins or 'no merges'}"
        if type(got) not in (list, tuple) or any(type(piece) is not str for piece in got):
            what = a(got).replace("a NoneType", "None")
            ctx.fail(f"{where}: {what} came back, expected a list of strings")
        if "".join(got) != word:
            ctx.fail(f"{where}: the pieces {list(got)} joined are not the word")
        cases.append(([len(piece) for piece in got], *_CUT(word, merges), where, got))
    got, right, wrong, *_ = zip(*cases)
    slips = {words: tuple(one[words] for one in wrong) for words in _CUT.mistaken}
    ctx.recognize(got, right, slips)
    for lengths, right, _, where, got in cases:
        if lengths != right:
            ctx.fail(f"{where}: the pieces are {list(got)}, expected pieces of {right} letters")


def _words(ctx, length, count):
    yield "abcab", [("a", "b"), ("b", "c"), ("ab", "c")]
    yield "bananas", [("a", "n"), ("an", "a"), ("b", "an")]
    yield "lower", []
    yield "aaaaa", [("a", "a"), ("aa", "aa")]
    yield "abcd", [("b", "c"), ("a", "b"), ("bc", "d"), ("ab", "c")]
    yield "abc", [("a", "b"), ("b", "c"), ("a", "bc")]
    yield "x-ray's", [("x", "-"), ("'", "s"), ("x-", "r")]
    yield "abc", [("a", "bc"), ("b", "c")]  # a merge that is passed does not come again
    for k in range(6):
        word = "".join("abc"[ctx.integers(0, 3)] for _ in range(length))
        pieces, merges = list("abc"), []
        while len(merges) < count:
            pair = pieces[ctx.integers(0, len(pieces))], pieces[ctx.integers(0, len(pieces))]
            if pair not in merges:
                merges.append(pair)
                pieces.append(pair[0] + pair[1])
        if count > 5 and k % 2:  # only the last of many merges finds its pair
            merges = [*((x + "d", y) for x, y in merges), ("a", "b")]
        yield word, merges


@on_paper(
    "09.one_card",
    ("the number of gibibytes", "the number of hours"),
    title="a billion parameters on one card",
    difficulty=2,
    minutes=7,
    within=1.0,
    kind="Budget",
)
def one_card():
    tables, kept, hours = 16, 10, 6 * 2**30 * 20e9 / 2e14 / 3600
    return (tables + kept, hours), {
        "what the blocks keep for the backward pass is missing": (tables, hours),
        "those are weights, gradients and what the blocks keep: Adam's three tables are missing": (
            4 + kept,
            hours,
        ),
        "one of Adam's three tables is missing, or the moments have two bytes per number: they are "
        "two moments and a copy of the weights, of four bytes each": (12 + kept, hours),
        "the gradients are missing: they take as much as the weights": (14 + kept, hours),
        "all tables have four bytes per number: weights and gradients have two": (20 + kept, hours),
        "what the blocks keep has two bytes per number, not four": (tables + 2 * kept, hours),
        "one block keeps 16 vectors per token: there are 16 blocks": (tables + kept / 16, hours),
        "one text is read: an update reads 8": (tables + kept / 8, hours),
        "those are gigabytes, of a thousand million bytes: a gibibyte has 2**30": (
            (tables + kept) * 2**30 / 1e9,
            hours,
        ),
        "the hours are those of the forward pass alone: with the backward pass there are 6 "
        "operations for each parameter and token": (tables + kept, hours / 3),
        "one operation for each parameter and token is counted: there are 6": (
            tables + kept,
            hours / 6,
        ),
        "those are minutes: an hour has 60": (tables + kept, hours * 60),
        "those are days: a day has 24 hours": (tables + kept, hours / 24),
        "those are seconds: an hour has 3,600": (tables + kept, hours * 3600),
        "the hours come first: expected the gibibytes, then the hours": (hours, tables + kept),
    }


def _heads(x, W, b, h):
    made = x @ W + b
    return made.reshape(len(x), 3, h, -1).transpose(1, 2, 0, 3)


_HEADS = Slips(
    _heads,
    {
        "the columns of a head are taken to stand together: first come all queries, then all "
        "keys, then all values": "3, h, -1).transpose(1, 2, → h, 3, -1).transpose(2, 1,",
        "neighbouring columns are taken to be a query, a key and a "
        "value": "3, h, -1).transpose(1, 2, 0, 3) → h, -1, 3).transpose(3, 1, 0, 2)",
        "the columns of a head stand together, not every h-th "
        "column": "3, h, -1).transpose(1, 2, 0, 3) → 3, -1, h).transpose(1, 3, 0, 2)",
        "the biases are not added": "+ b →",
        "tokens and heads are mixed: exchange two dimensions, do not "
        "reshape": "3, h, -1).transpose(1, 2, 0, 3) → 3, -1).swapaxes(0, 1).reshape(3, h, len(x), "
        "-1)",
        "the order is Q, K, V: the keys came first": "0, 3) → 0, 3)[[1, 0, 2]]",
    },
)


@exercise(
    "09.right_with_one_head", title="Find the bug: right with one head", difficulty=2, minutes=8
)
def right_with_one_head(answer, ctx):
    n, *drawn = ctx.sizes(n=(1, 5), h=(1, 4), width=(1, 4))
    for h, width in (drawn, (4, 32)):
        d = h * width
        given = ctx.normal(n, d), ctx.normal(d, 3 * d), ctx.normal(3 * d), h
        got = ctx.parts(ctx.call(answer, *given), ("Q", "K", "V"))
        names = [f"with {h} heads: {name}" for name in "QKV"]
        parts = [ctx.floats(part, name, (h, n, width)) for part, name in zip(got, names)]
        right, wrong = _HEADS(*map(array, given[:3]), h)
        ctx.recognize(torch.stack(parts), right, wrong)
        for k, name in enumerate(names):
            ctx.close(parts[k], right[k], name)
            at = {0: "x", 1: "W", 2: "b"}
            check_gradients(ctx, answer, given, at, lambda *now, k=k: _heads(*now, h=h)[k], part=k)
