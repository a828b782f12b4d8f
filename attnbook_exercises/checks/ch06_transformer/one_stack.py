"""Checks of the section on BERT and GPT: a perplexity, a prediction, hidden words, and the loss of
the next word.
"""

import numpy as np
import torch

from ..context import HARD_SCORES, CheckContext, array, softmax
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import on_paper


@on_paper(
    "06.perplexity_by_hand",
    "the perplexity",
    title="a perplexity",
    difficulty=1,
    minutes=3,
    within=0.01,
)
def perplexity_by_hand():
    return 2**2.5, {
        "that is the mean loss in nats: the perplexity is e to it": 2.5 * np.log(2),
        "that is the mean loss in bits: the perplexity is 2 to it": 2.5,
        "that is the mean probability, by products: the perplexity is 1 over it": 2**-2.5,
        "that is the loss of the whole text: take the mean, and then e to it": 10 * np.log(2),
        "that is e to the loss of the whole text: the perplexity takes the mean per word": 1024,
        "the mark of the end is missing, which counts as a word": 2 ** (8 / 3),
        "the loss is divided by three: the mark of the end counts as a word": 2 ** (10 / 3),
        "that is the mean of the inverse probabilities: take the mean of the logarithms": 7.5,
        "that is 1 over the mean of the probabilities: take the mean of the logarithms": 64 / 15,
    }


@exercise("06.nothing_hidden", title="Predict: nothing is hidden", difficulty=1, minutes=2)
def nothing_hidden(answer, ctx: CheckContext):
    return ctx.predicted(answer, "nearly all", "about half", "about a tenth")


@exercise("06.hide_words", title="Hide some words", difficulty=2, minutes=8)
def hide_words(answer, ctx):
    for _ in range(2):
        rows, n = ctx.sizes(batch=(1, 6), n=(1, 60))
        mask, lengths = ctx.integers(1, 4), ctx.lengths(rows, n, (n + 1) // 2)
        tokens = ctx.integers(4, 90, rows, n).masked_fill(torch.arange(n) >= lengths[:, None], 0)
        chosen = torch.rand(rows, n, generator=ctx.generator) < 0.5
        kind, other = (
            torch.rand(rows, n, generator=ctx.generator, dtype=torch.float64),
            ctx.integers(4, 90, rows, n),
        )
        chosen[:, -1] = True  # padding is chosen, too
        if n > 1:  # on the borders
            kind[0, :2], chosen[0, :2] = torch.tensor([0.8, 0.9], dtype=torch.float64), True
        read, target = ctx.parts(
            ctx.call(answer, tokens, chosen, kind, other, mask), ("read", "target")
        )
        read, target = (
            ctx.tensor(part, name, (rows, n), dtype=torch.long)
            for part, name in ((read, "read"), (target, "target"))
        )
        t, c, k, o = (array(x) for x in (tokens, chosen, kind, other))
        selected = c & (t != 0)
        right = np.where(selected, t, 0)
        if ctx.same(read, right) and not ctx.same(target, right):
            ctx.fail(
                "read and target are exchanged: read is what the model gets, target what it is "
                "to tell"
            )
        ctx.close(
            target,
            right,
            "target",
            {
                "target: words that were chosen and stay as they are are missing: every chosen "
                "word is asked for": np.where(_read(t, selected, k, o, mask) != t, t, 0),
                "target: it holds every word; words that are not chosen are not asked for, and "
                "get 0": t,
                "target: what is masked is asked for, but words that were chosen and replaced "
                "otherwise, or left, are asked for too": np.where(selected & (k < 0.8), t, 0),
                "target: it holds the words as the model reads them: expected the words that "
                "were there": np.where(selected, _read(t, selected, k, o, mask), 0),
                "target: chosen and not chosen are exchanged": np.where(c | (t == 0), 0, t),
                "target: it is 1 where a word is asked for: expected the word": selected.astype(
                    t.dtype
                ),
                "target: where nothing is asked for it is the mask: expected 0": np.where(
                    selected, t, mask
                ),
                "target: where nothing is asked for it is −1 or −100: expected 0, as "
                "padding": np.where(selected, t, -100),
            },
        )
        ctx.close(
            read,
            _read(t, selected, k, o, mask),
            "read",
            {
                "read: padding is replaced; it is no word, also where chosen is True": _read(
                    t, c, k, o, mask
                ),
                "read: every chosen word is masked: only those with kind below 0.8": np.where(
                    selected, mask, t
                ),
                "read: words that are not chosen are replaced": _read(t, t != 0, k, o, mask),
                "read: 0.8 and 0.9 are shares of all: below 0.8 masked, from 0.8 to 0.9 another "
                "word, from 0.9 on the word itself": np.where(
                    selected & (k < 0.8), mask, np.where(selected & (k >= 0.9), o, t)
                ),
                "read: from 0.8 on all are replaced by another word: from 0.9 on the word "
                "stays": np.where(selected & (k < 0.8), mask, np.where(selected, o, t)),
                "read: below 0.8 there is another word, too: expected the mask": np.where(
                    selected & (k < 0.9), o, t
                ),
                "read: below 0.8 there is another word, and the mask above: it is the other way "
                "round": np.where(selected & (k < 0.8), o, np.where(selected & (k < 0.9), mask, t)),
                "read: the borders are off: 0.8 is not below 0.8, and 0.9 not below 0.9": np.where(
                    selected & (k <= 0.8), mask, np.where(selected & (k <= 0.9), o, t)
                ),
                "read: chosen and not chosen are exchanged": _read(t, ~c & (t != 0), k, o, mask),
            },
        )


def _read(tokens, selected, kind, other, mask):
    return np.where(selected & (kind < 0.8), mask, np.where(selected & (kind < 0.9), other, tokens))


@exercise("06.next_word_loss", title="The loss of the next word", difficulty=2, minutes=8)
def next_word_loss(answer, ctx):
    for hard, (factor, shift) in enumerate((*HARD_SCORES[:1], *HARD_SCORES)):
        # two words at least, of which one is told, and one word beside the padding
        rows, n, size = ctx.sizes(batch=(1, 4), n=(2, 9), V=(2, 7))
        size = size if hard or n == 2 else n - 1  # as many words as places
        lengths = ctx.lengths(rows, n, 2)
        tokens = ctx.integers(1, size, rows, n).masked_fill(torch.arange(n) >= lengths[:, None], 0)
        logits = 2 * factor * ctx.normal(rows, n, size) + shift
        got = ctx.floats(
            ctx.call(answer, logits, tokens),
            "the loss",
            (),
            mention="one number for the whole batch",
            nan="the logarithm of a probability that is rounded to 0: take log_softmax"
            if hard > 1
            else "is a probability of 0 multiplied by the logarithm of it?",
        )
        z, t = array(logits), array(tokens)
        what = "the loss of logits that are large, or far below 0," if hard > 1 else "the loss"
        slips = {} if hard > 1 else _slips(z, t)
        ctx.close(got, _loss(z, t), what, slips, size=np.abs(z).max() if hard > 1 else 0)
        check_gradients(ctx, answer, (logits, tokens), {0: "logits"}, lambda now: _loss(now, t))


def _loss(z, tokens):
    total, count = _terms(z[:, :-1], tokens[:, 1:])
    return total / count


def _terms(z, wanted, padding=False, power=1):
    z = z if power == 1 else softmax(z)
    top = z.max(-1, keepdims=True)
    cost = top + np.log(np.exp(z - top).sum(-1, keepdims=True)) - z
    there = wanted != 0 if padding is False else np.broadcast_to(padding, wanted.shape)
    return np.take_along_axis(cost, wanted[..., None], -1)[..., 0][there].sum(), there.sum()


def _slips(z, tokens):
    right, rows = _terms(z[:, :-1], tokens[:, 1:]), len(tokens)

    def ratio(pair):
        return pair[0] / pair[1]

    each = [ratio(_terms(z[b : b + 1, :-1], tokens[b : b + 1, 1:])) for b in range(rows)]
    return {
        "row t is compared with word t, which it has just read: it scores word t + 1": ratio(
            _terms(z, tokens)
        ),
        "row t is compared with word t − 1: it scores word t + 1": ratio(
            _terms(z[:, 1:], tokens[:, :-1])
        ),
        "row t is compared with word t + 2": ratio(_terms(z[:, :-2], tokens[:, 2:]))
        if z.shape[1] > 2 and (tokens[:, 2:] != 0).any()
        else np.nan,
        "the row after the last word is compared with the first one: roll goes round, cut "
        "instead": ratio(_terms(z, np.roll(tokens, -1, 1))),
        "padding counts: words with id 0 are none": ratio(
            _terms(z[:, :-1], tokens[:, 1:], padding=True)
        ),
        "the sum is divided by the number of all places: count the words that are told": right[0]
        / tokens[:, 1:].size,
        "the sum is divided by the number of all words: the first one is never told": right[0]
        / (tokens != 0).sum(),
        "it is a sum: divide by the number of words that are told": right[0],
        "the sum is divided by the number of texts: divide by the number of words that are "
        "told": right[0] / rows,
        "it is the mean of the means of the texts: a word of a short text must not weigh "
        "more": np.mean(each),
        "what follows the last word of a text is counted: the word to tell is padding there": ratio(
            _terms(z[:, :-1], tokens[:, 1:], padding=tokens[:, :-1] != 0)
        ),
        "the classes and the places are mixed up: cross_entropy wants (places, V), or the "
        "classes in axis 1": ratio(_terms(z[:, :-1].swapaxes(1, 2), tokens[:, 1:]))
        if z.shape[1] - 1 == z.shape[2]
        else np.nan,
        "the sign is wrong: the loss is minus the logarithm": -ratio(right),
        "it is in bits: use the natural logarithm": ratio(right) / np.log(2),
        "the softmax is taken twice: cross_entropy takes logits": ratio(
            _terms(z[:, :-1], tokens[:, 1:], power=2)
        ),
        "it is the perplexity: leave the exponential out": np.exp(ratio(right)),
        "the logits themselves are summed: take their log-softmax first": -np.take_along_axis(
            z[:, :-1], tokens[:, 1:, None], -1
        )[..., 0][tokens[:, 1:] != 0].mean(),
    }
