"""Checks of the section on BERT and GPT: a perplexity, a prediction, hidden words, and the loss of
the next word.
"""

import numpy as np
import torch

from ..context import HARD_SCORES, CheckContext, array
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import Slips, on_paper


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


def _hidden(tokens, chosen, kind, other, mask):
    asked = chosen & (tokens != 0)
    masked, replaced = asked & (kind < 0.8), asked & (kind >= 0.8) & (kind < 0.9)
    read = np.where(masked, mask, np.where(replaced, other, tokens))
    target = np.where(asked, tokens, 0)
    return target, read


_HIDDEN = Slips(
    _hidden,
    {
        "target: words that were chosen and stay as they are are missing: every chosen "
        "word is asked for": "np.where(asked, tokens, 0) → np.where(read != tokens, tokens, 0)",
        "target: it holds every word; words "
        "that are not chosen are not asked for, and get 0": "np.where(asked, tokens, 0) → tokens",
        "target: what is masked is asked for, but words that were chosen and replaced otherwise, "
        "or left, are asked for too": "np.where(asked, tokens, 0) → np.where(masked, tokens, 0)",
        "target: it holds the words as the model reads them: expected "
        "the words that were there": "np.where(asked, tokens, 0) → np.where(asked, read, 0)",
        "target: chosen "
        "and not chosen are exchanged": "np.where(asked, tokens, 0) → np.where(chosen, 0, tokens)",
        "target: it is 1 where a word is asked for: "
        "expected the word": "np.where(asked, tokens, 0) → asked.astype(int)",
        "target: where nothing is asked for it is the mask: "
        "expected 0": "np.where(asked, tokens, 0) → np.where(asked, tokens, mask)",
        "target: where nothing is asked for it is −1 or −100: "
        "expected 0, as padding": "np.where(asked, tokens, 0) → np.where(asked, tokens, -100)",
        "read: padding is replaced; it is no word, also "
        "where chosen is True": "asked & (kind < 0.8), asked & → chosen & (kind < 0.8), chosen &",
        "read: every chosen word is masked: "
        "only those with kind below 0.8": "asked & (kind < 0.8) → asked",
        "read: words that are not chosen are replaced": "chosen & (tokens != 0) → tokens != 0",
        "read: 0.8 and 0.9 are shares of all: below 0.8 masked, from 0.8 to 0.9 "
        "another word, from 0.9 on the word itself": "(kind >= 0.8) & (kind < 0.9) → (kind >= 0.9)",
        "read: from 0.8 on all are replaced by another word: "
        "from 0.9 on the word stays": "& (kind < 0.9) →",
        "read: below 0.8 there is another word, too: "
        "expected the mask": "np.where(masked, mask, → np.where(masked, other,",
        "read: below 0.8 there is another word, and the mask above: it is the other way round": (
            "np.where(masked, mask, np.where(replaced, other, → np.where(masked, other, "
            "np.where(replaced, mask,"
        ),
        "read: the borders are off: 0.8 is not below 0.8, and 0.9 not below 0.9": (
            "asked & (kind < 0.8) → asked & (kind <= 0.8)",
            "(kind >= 0.8) & (kind < 0.9) → (kind > 0.8) & (kind <= 0.9)",
        ),
        "read: chosen and not chosen are exchanged": (
            "asked & (kind < 0.8), asked & → ~chosen & (tokens != 0) & (kind < 0.8), ~chosen & "
            "(tokens != 0) &"
        ),
    },
)


@exercise("06.hide_words", title="Hide some words", difficulty=2, minutes=8)
def hide_words(answer, ctx):
    for _ in range(2):
        rows, n = ctx.sizes(batch=(1, 6), n=(1, 60))
        mask, lengths = ctx.integers(1, 4), ctx.lengths(rows, n, (n + 1) // 2)
        large = 2**40 if ctx.case else 0  # not even float64 is asked to hold them
        tokens, other = (large + ctx.integers(4, 60_000, rows, n) for _ in range(2))
        tokens = tokens.masked_fill(torch.arange(n) >= lengths[:, None], 0)
        chosen = torch.rand(rows, n, generator=ctx.generator) < 0.5
        kind = torch.rand(rows, n, generator=ctx.generator, dtype=torch.float64)
        chosen[:, -1] = True  # padding is chosen, too
        if n > 9:  # on the borders, just below them, and a word that is the mask already
            border = torch.tensor([0.8, 0.9, 0.8 - 1e-12, 0.9 - 1e-12, 0.85], dtype=kind.dtype)
            kind[:, :5], chosen[:, :5], tokens[:, 4] = border, True, mask
            kind[:, 5], chosen[:, 5] = 0.85, True  # a word is drawn in its own place
            other[:, 5] = torch.where(tokens[:, 5] > 0, tokens[:, 5], other[:, 5])
        given = tokens, chosen, kind, other
        read, target = ctx.parts(ctx.call(answer, *given, mask), ("read", "target"))
        read, target = (
            ctx.tensor(part, name, (rows, n), dtype=torch.long)
            for part, name in ((read, "read"), (target, "target"))
        )
        right, wrong = _HIDDEN(*map(array, given), mask)
        if ctx.same(read, right[0]) and not ctx.same(target, right[0]):
            ctx.fail(
                "read and target are exchanged: read is what the model gets, target what it is "
                "to tell"
            )
        for k, got in enumerate((target, read)):
            name = ("target", "read")[k]
            ctx.close(got, right[k], name, {words: parts[k] for words, parts in wrong.items()})


def _loss(z, tokens):
    z, wanted = z[:, :-1], tokens[:, 1:]
    there = wanted != 0
    top = z.max(-1, keepdims=True)
    cost = top + np.log(np.exp(z - top).sum(-1, keepdims=True)) - z
    each = np.take_along_axis(cost, wanted[..., None], -1)[..., 0]
    total, count = each[there].sum(), max(there.sum(), 1)
    return np.array(total / count)


_LOSS = Slips(
    _loss,
    {
        "row t is compared with word t, which it has just read: "
        "it scores word t + 1": "z[:, :-1], tokens[:, 1:] → z, tokens",
        "row t is compared with word t − 1: "
        "it scores word t + 1": "z[:, :-1], tokens[:, 1:] → z[:, 1:], tokens[:, :-1]",
        "row t is compared with word t + 2": "z[:, :-1], tokens[:, 1:] → z[:, :-2], tokens[:, 2:]",
        "the row after the last word is compared with the first one: "
        "roll goes round, cut instead": "z[:, :-1], tokens[:, 1:] → z, np.roll(tokens, -1, 1)",
        "padding counts: words with id 0 are none": "wanted != 0 → wanted >= 0",
        "the sum is divided by the number of all places: "
        "count the words that are told": "total / count → total / each.size",
        "the sum is divided by the number of all words: the "
        "first one is never told": "total / count → total / (tokens != 0).sum()",
        "it is a sum: divide by the number of words that are told": "total / count → total",
        "the sum is divided by the number of texts: divide by "
        "the number of words that are told": "total / count → total / len(each)",
        "it is the mean of the means of the texts: a word of a short text "
        "must not weigh more": "total / count → ((each * there).sum(1) / there.sum(1)).mean()",
        "what follows the last word of a text is counted: "
        "the word to tell is padding there": "wanted != 0 → tokens[:, :-1] != 0",
        "the classes and the places are mixed up: cross_entropy "
        "wants (places, V), or the classes in axis 1": "z[:, :-1], → z[:, :-1].swapaxes(1, 2),",
        "the sign is wrong: the loss is minus the logarithm": "total / count → -total / count",
        "it is in bits: use the natural logarithm": "total / count → total / count / np.log(2)",
        "the softmax is taken twice: cross_entropy takes "
        "logits": "z[:, :-1], → np.exp(z - np.log(np.exp(z).sum(-1, keepdims=True)))[:, :-1],",
        "it is the perplexity: leave the exponential out": "total / count → np.exp(total / count)",
        "the logits themselves are summed: take "
        "their log-softmax first": "top + np.log(np.exp(z - top).sum(-1, keepdims=True)) - z → -z",
    },
)


@exercise("06.next_word_loss", title="The loss of the next word", difficulty=2, minutes=8)
def next_word_loss(answer, ctx):
    for hard, (factor, shift) in enumerate((*HARD_SCORES[:1], *HARD_SCORES)):
        # two words at least, of which one is told, and one word beside the padding
        rows, n, size = ctx.sizes(batch=(1, 4), n=(2, 9), V=(2, 7))
        size = size if hard or n == 2 else n - 1  # as many words as places
        lengths = ctx.lengths(rows, n, 2)
        tokens = ctx.integers(1, size, rows, n).masked_fill(torch.arange(n) >= lengths[:, None], 0)
        logits = 2 * factor * ctx.normal(rows, n, size) + shift
        nan = (
            "the logarithm of a probability that is rounded to 0: take log_softmax"
            if hard > 1
            else "is a probability of 0 multiplied by the logarithm of it?"
        )
        got = ctx.call(answer, logits, tokens)
        got = ctx.floats(got, "the loss", (), mention="one number for the whole batch", nan=nan)
        z, t = array(logits), array(tokens)
        if hard > 1:
            what = "the loss of logits that are large, or far below 0,"
            ctx.close(got, _loss(z, t), what, size=np.abs(z).max())
        else:
            right, wrong = _LOSS(z, t)
            ctx.close(got, right, "the loss", wrong)
        check_gradients(ctx, answer, (logits, tokens), {0: "logits"}, lambda now: _loss(now, t))
