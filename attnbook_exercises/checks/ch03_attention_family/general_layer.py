"""Checks of the section on the general attention layer: a number of heads, matrices for two heads,
a blur undone on paper, multi-head attention.
"""

import numpy as np
import torch
from torch import nn

from ..context import array, shape_of, softmax
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import Slips, on_paper

_WIDTH, _NAMES, _CARDS, _ASKED, _NUMBERS = 32, 24, 8, 3, 4


def _numbers_right(heads, seed, updates=250):
    """The share of numbers that a layer with so many heads says after its training."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        name, number = nn.Embedding(_NAMES, _WIDTH), nn.Embedding(_NUMBERS, _WIDTH)
        ask, say = nn.Linear(_ASKED * _WIDTH, _WIDTH), nn.Linear(_WIDTH, _ASKED * _NUMBERS)
        attention = nn.MultiheadAttention(_WIDTH, heads, batch_first=True)
        parts = nn.ModuleList([name, number, ask, say, attention])
        optimizer = torch.optim.Adam(parts.parameters(), 0.01)
        for tables in [64] * updates + [1000]:
            names = torch.rand(tables, _NAMES).argsort(-1)[:, :_CARDS]
            numbers = torch.randint(_NUMBERS, (tables, _CARDS))
            asked = torch.rand(tables, _CARDS).argsort(-1)[:, :_ASKED]
            query = ask(name(names.gather(1, asked)).flatten(1)).unsqueeze(1)
            cards = name(names) + number(numbers)
            found, _ = attention(query, cards, cards, need_weights=False)
            logits = say(found[:, 0]).unflatten(-1, (_ASKED, _NUMBERS))
            wanted = numbers.gather(1, asked)
            loss = nn.functional.cross_entropy(logits.mT, wanted)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return (logits.argmax(-1) == wanted).float().mean().item()


@exercise("03.how_many_heads", title="Choose a setting: how many heads", difficulty=2, minutes=6)
def how_many_heads(answer, ctx):
    heads = ctx.number(ctx.call(answer), "the number of heads")
    if heads not in (1, 2, 4, 8, 16, 32):
        ctx.fail(f"the number of heads is {heads:g}, expected one of 1, 2, 4, 8, 16 and 32")
    if ctx.case:
        return None  # a count has no number type, one training is enough
    heads = int(heads)
    share = _numbers_right(heads, ctx.seed)
    said = f"with {heads} {'heads' if heads > 1 else 'head'} {share:.0%} of the numbers are said"
    if share > 0.8:
        return f"right: {said}."
    if heads < _ASKED:
        ctx.fail(f"{said}: three cards are asked for, and a head returns one average")
    ctx.fail(
        f"{said}: a head has {_WIDTH // heads} of the {_WIDTH} columns, too few to tell {_NAMES} "
        f"names apart"
    )


@exercise("03.two_heads", title="Two heads by hand", difficulty=3, minutes=10)
def two_heads(answer, ctx):
    names = ("W_q", "W_k", "W_v", "W_o")
    small, large = ctx.sizes(numbers=(1, 6)), ctx.integers(30, 40)
    for count, cards in ((small, ctx.integers(6, 9)), (large, 9)):
        tables, d = 40, count + 3
        shapes = ((1, 2 * count), (d, 2 * count), (d, 2 * count), (2 * count, 2 * count))
        given = ctx.parts(ctx.call(answer, count), names)
        if [shape_of(w) for w in given] == [shape[::-1] for shape in shapes]:
            ctx.fail(
                "the matrices are transposed: rows are inputs, so each multiplies from the right "
                "and has one row an entry of its input"
            )
        hint = "the columns of both heads side by side"
        w_q, w_k, w_v, w_o = (
            array(ctx.tensor(w, name, shape, mention=hint))
            for w, name, shape in zip(given, names, shapes)
        )

        numbers = array(ctx.normal(tables, cards, count))
        flags = np.zeros((tables, cards), dtype=int)
        for row in flags:
            row[ctx.order(cards)[:2]] = 1, 2
        x = np.concatenate([numbers, np.eye(3)[flags]], -1)
        # (2, width of the input, count)
        q, k, v = (w.reshape(-1, 2, count).swapaxes(0, 1) for w in (w_q, w_k, w_v))
        scores = np.einsum("how,hdw,tnd->thn", q, k, x) / np.sqrt(count)
        weights = softmax(scores)
        contexts = np.einsum("thn,tnd,hdw->thw", weights, x, v)
        got = contexts.reshape(tables, 2 * count) @ w_o
        right = [numbers[np.arange(tables), (flags == flag).argmax(1)] for flag in (1, 2)]
        if np.abs(got - np.concatenate(right, -1)).max() < 0.01:
            continue

        # (tables, heads, A or B)
        at = np.stack([np.where(flags[:, None] == flag, weights, 0).sum(-1) for flag in (1, 2)], -1)
        if np.abs(got - np.concatenate(right[::-1], -1)).max() < 0.01:
            ctx.fail("the numbers of the card B come first: expected those of A, then those of B")
        equal = np.ptp(weights, -1).max(0) < 1e-6
        if not w_q.any():
            ctx.fail("W_q is 0: then all scores are 0, and every card has the same weight")
        if equal.any():
            ctx.fail(
                f"to head {1 + equal.argmax()} the scores of all cards are equal: one of its "
                f"columns needs a query that is not 0, and keys that tell the flags apart"
            )
        moved = np.einsum("how,hdw->hd", q, k)[:, :count]
        if np.abs(moved).max() > 1e-6:
            ctx.fail(
                "the scores depend on the numbers of a card: a key is made of the flag alone, so "
                "the first rows of W_k are 0"
            )
        sure = at > 0.999
        if (at.max(-1) > 0.7).all() and (at.argmax(-1) == at[:, :1].argmax(-1)).all():
            ctx.fail(
                f"both heads look at the card {'AB'[int(at[0, 0].argmax())]}: give each head a "
                f"key of its own"
            )
        if not sure.all(0).any(-1).all():
            head = int((~sure.all(0).any(-1)).argmax())
            flag = int(at[:, head].mean(0).argmax())
            share, others = at[:, head, flag].min(), (1 - at[:, head].sum(-1)) / (cards - 2)
            if (at[:, head].max(-1) < 1.01 * others).any():
                ctx.fail(
                    f"head {head + 1} looks past the flagged cards: its key must be largest at "
                    f"one of the flags"
                )
            if (at[:, head].min(-1) > 0.1).all() and (at[:, head].sum(-1) > 0.9).all():
                ctx.fail(
                    f"head {head + 1} looks at both flagged cards: its columns of W_k must know "
                    f"one flag alone"
                )
            ctx.fail(
                f"head {head + 1} puts {share:.2g} of its weight on the card {'AB'[flag]}: a "
                f"larger query makes the softmax sharper"
            )
        if np.abs(contexts).max() < 1e-6:
            ctx.fail(
                "the contexts are 0: W_v has to return the numbers of a card, its first d - 3 "
                "entries"
            )
        ctx.fail(
            "the heads find the cards, but the output is not their numbers: what do W_v and W_o "
            "make of the card that is found?"
        )


@on_paper(
    "03.unmix",
    "the factor",
    title="Undo a blur",
    difficulty=2,
    minutes=5,
    within=0.005,
    otherwise="write both contexts as sums over three cards and subtract",
)
def unmix():
    return 1 / 0.7, {
        "0.8 is what head 1 has of a: head 2 has some of a as well, and you subtract it": 1 / 0.8,
        "0.7 is what is left of a - b in the difference: asked is what undoes it": 0.7,
        "the blank card is subtracted twice: its 0.1 is in both contexts and drops out": 1 / 0.6,
        "with the factor 1 the difference stays too small, since each head has some of the "
        "other's card": 1.0,
        "the two contexts are added: in a difference 0.1 is taken from 0.8": 1 / 0.9,
    }


def _multi_head(x, s, w_q, w_k, w_v, w_o, heads, mask):
    def split(y):  # (B, n, d) -> (B, h, n, d/h)
        return y.reshape(len(y), y.shape[1], heads, -1).swapaxes(1, 2)

    q, k, v = split(x @ w_q), split(s @ w_k), split(s @ w_v)
    e = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    weights = softmax(np.where(mask[:, None], e, -np.inf))
    return (weights @ v).swapaxes(1, 2).reshape(x.shape) @ w_o


_MULTI_HEAD = Slips(
    _multi_head,
    {
        "there is one head of the full width: "
        "cut queries, keys and values into num_heads parts": "heads, -1) → 1, -1)",
        "heads are cut by a view alone, which mixes positions: view as (B, n, h, d/h), then swap "
        "positions and heads": (
            "y.reshape(len(y), y.shape[1], heads, -1).swapaxes(1, 2) → y.reshape(len(y), heads, "
            "y.shape[1], -1)"
        ),
        "a head takes every num_heads-th column: head i has the columns i·d/h … (i+1)·d/h - 1": (
            "y.reshape(len(y), y.shape[1], heads, -1).swapaxes(1, 2) → y.reshape(len(y), "
            "y.shape[1], -1, heads).transpose(0, 3, 1, 2)"
        ),
        "the scale is the root of d: "
        "it belongs to the width of a head, d / num_heads": "q.shape[-1] → x.shape[-1]",
        "the scores are not scaled, or the root is cut to a whole number: "
        "divide by the root of the width of a head": "/ np.sqrt(q.shape[-1]) →",
        "the softmax runs over the queries: "
        "expected over the keys (dim=-1)": "-np.inf)) → -np.inf), -2)",
        "the softmax runs over the heads: "
        "expected over the keys (dim=-1)": "-np.inf)) → -np.inf), 1)",
        "the mask is upside down: True means may attend": "(mask[ → (~mask[",
        "the mask is not used": "np.where(mask[:, None], e, -np.inf) → e",
        "the mask is applied after the softmax: the weights no longer add up to "
        "1": "np.where(mask[:, None], e, -np.inf)) → e) * mask[:, None]",
        "the mask is added to the scores as 0 and 1: a forbidden pair has a score of "
        "-inf": "np.where(mask[:, None], e, -np.inf) → e + mask[:, None]",
        "the inputs are cut into heads, not the projections: every head sees all of the input": (
            "q, k, v = split(x @ w_q), split(s @ w_k), split(s @ w_v) → n, pairs = len(w_q) // "
            "heads, ((x, w_q), (s, w_k), (s, w_v))\n    cut = [[w[i : i + n, i : i + n] for i in "
            "range(0, len(w), n)] for _, w in pairs]\n    q, k, v = (split(y) @ np.stack(part) for "
            "(y, _), part in zip(pairs, cut))"
        ),
        "W_o is missing: the joined heads go through one more product": "@ w_o →",
        "W_o is used transposed: "
        "row j of it belongs to number j of the joined heads": "@ w_o → @ w_o.T",
        "the heads are joined without swapping positions and heads "
        "back": ".swapaxes(1, 2).reshape(x.shape) → .reshape(x.shape)",
        "the heads are joined in the wrong order: "
        "head 1 comes first": "(weights @ v) → (weights @ v)[:, ::-1]",
        "the columns of the heads are interleaved: each head's columns stay "
        "together": "(weights @ v).swapaxes(1, 2) → (weights @ v).transpose(0, 2, 3, 1)",
        "a matrix is used transposed: inputs are rows, so it is X "
        "W": "def split → w_q, w_k, w_v, w_o = w_q.T, w_k.T, w_v.T, w_o.T\n\n    def split",
    },
)


@exercise("03.multi_head", title="Multi-head attention", difficulty=4, minutes=15)
def multi_head(answer, ctx):
    batch, m, n, heads, width = ctx.sizes(
        batch=(1, 3), m=(1, 4, 20), n=(1, 7), num_heads=(1, 4), width=(1, 3)
    )
    d = heads * width
    query, source = ctx.normal(batch, m, d), ctx.normal(batch, n, d)
    w_q, w_k, w_v, w_o = (ctx.normal(d, d) / d**0.5 for _ in range(4))
    mask = ctx.integers(0, 2, batch, m, n).bool()
    keys = ctx.order(n)
    mask[:, :, keys[1:2]], mask[:, :, keys[0]] = False, True  # every row has both, if it can
    got = ctx.call(answer, query, source, w_q, w_k, w_v, w_o, heads, mask)
    nothing = "every query may attend to something"
    got = ctx.floats(
        got, "the output", (batch, m, d), mention="one row of width d a query", nan=nothing
    )
    given = query, source, w_q, w_k, w_v, w_o
    allowed = array(mask)
    right, wrong = _MULTI_HEAD(*map(array, given), heads, allowed)
    ctx.close(got, right, "the output", wrong)

    def oracle(*now):
        return _multi_head(*now, heads=heads, mask=allowed)

    at = dict(enumerate(("query", "source", "W_q", "W_k", "W_v", "W_o")))
    check_gradients(ctx, answer, (*given, heads, mask), at, oracle)

    # small whole numbers, so that no score is rounded: all of them below a finite fill
    whole = [ctx.integers(1, 4, *tensor.shape).float() for tensor in given]
    whole[2] *= -(2.0**12)
    name = "where all scores lie far below a finite fill such as -1e4: the output"
    got = ctx.floats(
        ctx.call(answer, *whole, heads, mask),
        name,
        (batch, m, d),
        nan="exp is 0 for low scores: torch.softmax subtracts the largest first",
    )
    ctx.close(got, oracle(*map(array, whole)), name)
    matrices = [ctx.normal(600, 600) / 25 for _ in range(4)]
    some = ctx.normal(1, 2, 600), ctx.normal(1, 3, 600), *matrices, 600, mask.new_ones(1, 2, 3)
    ctx.without_loop(answer, *some, over="heads")
