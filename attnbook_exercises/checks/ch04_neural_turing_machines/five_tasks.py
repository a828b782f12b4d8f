"""Checks of the section on recall and repeat copy: three votes on paper, a question asked
backwards, a number for a count, look up and step, several heads.
"""

import numpy as np
import torch
from torch import Tensor

from ..context import array, softmax
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import Slips, on_paper
from .copying import exact


@on_paper(
    "04.three_votes",
    "the weight of slot 4",
    title="Three slots that agree",
    difficulty=2,
    minutes=6,
    within=0.006,
)
def three_votes():
    return 4 / 7, {
        "this is not squared yet: square the weights and divide by the sum of the squares": 0.4,
        "squared, but not divided by the sum of the squares": 0.16,
        "the gate is the wrong way round: the head takes 0.6 of the content": 0.60,
        "the head has not moved after the second clue: this is what slot 4 had before that "
        "step": 0.14,
        "the head has not moved after the first clue: then the clues meet nowhere": 0.2,
        "the second clue alone has found this: 0.4 of where the head was still counts": 0.33,
        "each of the three slots that hold c got all of its content: they share it": 0.457,
    }


@exercise(
    "04.backwards_question", title="Predict: A question asked backwards", difficulty=1, minutes=3
)
def backwards_question(answer, ctx):
    return ctx.predicted(answer, "nearly all", "about half", "few")


def _shown(r, least, most):
    numbers = np.arange(least, most + 1)
    mean, deviation = numbers.mean(), numbers.std()
    return (r - mean) / deviation


_SHOWN = Slips(
    _shown,
    {
        "the mean is not taken away: expected (r − μ) / σ": "(r - mean) → r",
        "the numbers are not divided by the deviation": "/ deviation →",
        "divided by the variance: "
        "expected the deviation, its root": "numbers.std() → numbers.var()",
        "the deviation is that of a sample, divided by one less than the count: here all numbers "
        "are known, divide by their "
        "count": "numbers.std() → numbers.std() * (len(numbers) / max(len(numbers) - 1, 1)) ** 0.5",
        "the deviation is that of a continuous range, (most − least) / √12: "
        "r is a whole number": "numbers.std() → (most - least) / 12**0.5",
        "mean and deviation are those of the batch: "
        "the same r would be another number in another batch": "np.arange(least, most + 1) → r",
        "mean and deviation are those of the batch: the same r would be another number in "
        "another batch, and of a sample": (
            "np.arange(least, most + 1) → r",
            "numbers.std() → numbers.std() * (len(numbers) / max(len(numbers) - 1, 1)) ** 0.5",
        ),
        "the numbers are scaled to 0 … 1: "
        "expected mean 0 and deviation 1": "(r - mean) / deviation → (r - least) / (most - least)",
        "the numbers are scaled to −1 … 1: expected "
        "mean 0 and deviation 1": "(r - mean) / deviation → 2 * (r - least) / (most - least) - 1",
        "nothing is done to the numbers: expected (r − μ) / σ": "(r - mean) / deviation → r",
        "r − μ / σ without brackets: "
        "the difference is divided": "(r - mean) / deviation → r - mean / deviation",
        "the mean is rounded down to a whole number: "
        "it may lie between two": "numbers.mean() → np.floor(numbers.mean())",
        "the range starts at 1 for you: it starts at `least`": "np.arange(least, → np.arange(1,",
        "the range ends at most − 1 for you: most is included": "most + 1 → most",
        "repeats beyond the range are cut off: they go on, so that "
        "a test beyond it shows another number": "(r - mean) → (np.clip(r, least, most) - mean)",
        "the sign is turned: more repeats are a larger number": "(r - mean) → (mean - r)",
    },
)


@exercise("04.repeat_number", title="The number of repeats", difficulty=1, minutes=5)
def repeat_number(answer, ctx):
    rows, few, half = ctx.sizes(sequences=(1, 6), fewest_repeats=(0, 4), half_of_the_range=(1, 5))
    for least, most in ((few, few + 2 * half), (few, few + 2 * half - 1), (5000, 5003)):
        repeats = ctx.integers(least, most + 1, rows)
        repeats[0], repeats[-1] = most + 4, least  # a test may go beyond the range of training
        got = ctx.call(answer, repeats, least, most)
        nan = "the deviation is never 0: most > least"
        got = ctx.tensor(got, "numbers", (rows,), nan=nan, mention="one number a row")
        right, wrong = _SHOWN(array(repeats).astype(float), least, most)
        ctx.close(got, right, "numbers", wrong)


def _after(items, query):
    flat, wanted = items.reshape(*items.shape[:2], -1), query.reshape(len(query), 1, -1)
    found = (flat == wanted).all(-1)
    place = found.argmax(1)
    return items[np.arange(len(items)), (place + 1) % items.shape[1]]


_AFTER = Slips(
    _after,
    {
        "the query itself came back: expected the item after it": "(place + 1) → place",
        "the item before it came back: expected the item after it": "(place + 1) → (place - 1)",
        "the item two places on came back": "(place + 1) → (place + 2)",
        "the item found by the largest product with the query, or by its ones alone: an item of "
        "many ones wins; count where they agree": "found.argmax → (flat * wanted).sum(-1).argmax",
        "the item found by the cosine with the query: a query of zeros has none; count where "
        "they agree": (
            "found.argmax → ((flat * wanted).sum(-1) / np.maximum(np.sqrt((flat**2).sum(-1) * "
            "(wanted**2).sum(-1)), 1e-9)).round(5).argmax"
        ),
        "the first vector alone is compared: two "
        "items may begin alike": "found.argmax → (items == query[:, None]).all(-1)[..., 0].argmax",
        "the last vector alone is compared: two "
        "items may end alike": "found.argmax → (items == query[:, None]).all(-1)[..., -1].argmax",
        "one vector that agrees is enough for you: "
        "all have to": "found.argmax → (items == query[:, None]).all(-1).any(-1).argmax",
        "the number of ones is compared: "
        "two items may have equally many": "found.argmax → (flat.sum(-1) == wanted.sum(-1)).argmax",
        "the ones of each vector are counted: two vectors may have "
        "equally many": "found.argmax → (items.sum(-1) == query.sum(-1)[:, None]).all(-1).argmax",
        "the vectors of an item are added up: another one may hold them "
        "in another order": "found.argmax → (items.sum(2) == query.sum(1)[:, None]).all(-1).argmax",
        "the zeros are compared alone: "
        "the ones have to agree, too": "flat == wanted → flat <= wanted",
        "one bit that agrees is enough for you: all have to": ".all(-1) → .any(-1)",
        "always the second item came back, whichever the query is": "(place + 1) → (0 * place + 1)",
        "always the last item came back, whichever the query is": "(place + 1) → (0 * place - 1)",
        "every row gets the place of the first row: "
        "each has a query of its own": "(place + 1) → (place[0] + 1)",
    },
)


@exercise("04.item_after", title="Look up, then step", difficulty=2, minutes=8)
def item_after(answer, ctx):
    drawn = ctx.sizes(batch=(1, 4), items_in_a_row=(2, 6), vectors_in_an_item=(1, 4), bits=(1, 6))
    for batch, k, item, bits in ((8, 5, 3, 6), (3, 2, 1, 5), (1, 4, 2, 4), drawn):
        items, position = _items(ctx, batch, k, item, max(bits, 3 if k > 2 else 1))
        query = items[torch.arange(batch), position]
        got = ctx.call(answer, items, query)
        if type(got) is Tensor and tuple(got.shape) == (batch,):
            ctx.fail("places came back: expected the items there, (batch, item, bits)")
        got = ctx.floats(exact(got), "answers", tuple(query.shape), mention="one item a row")
        right, wrong = _AFTER(array(items), array(query))
        ctx.close(got, right, "answers", wrong)


def _items(ctx, batch, k, item, bits):
    """Items ``(batch, k, item, bits)``, no two of a row equal, and which one is the query, never
    the last of a row.

    Item 0 is nearly the query: all but its last bit, or, in the rows of the case of eight, in
    another way each.
    """
    position = ctx.integers(1 if k > 2 else 0, k - 1, batch)
    if batch == 8:
        position = torch.tensor([2, 3, 0, 1, 2, 3, 1, 2])
    while True:
        items = ctx.integers(0, 2, batch, k, item, bits).float()
        if batch == 8:
            items[4, 2] = 0  # asked for: no direction, and no product with any
            like = items[torch.arange(batch), position]
            items[0, 0, :-1] = like[0, :-1]  # these two begin alike
            # no bit in common, and as large a product as any
            items[1, 0], items[1, 1] = 1 - like[1], 1
            items[3, 0, 1:] = like[3, 1:]  # these two end alike
            items[5, 0] = like[5].flip(0)  # the same vectors in another order
            # a 1 less
            items[6, 0] = like[6] * (torch.arange(item * bits) != like[6].flatten().argmax()).view(
                item, bits
            )
            items[7, 0] = like[7].roll(1, 1)  # as many ones in each vector
        elif k > 2:
            items[:, 0] = items[torch.arange(batch), position]
            items[:, 0, -1, -1] = 1 - items[:, 0, -1, -1]
        different = all(len(row.flatten(1).unique(dim=0)) == k for row in items)
        if different and (
            batch < 8
            or 0 < like[1].sum() < item * bits
            and like[5, 0].sum() != like[5, -1].sum()
            and (like[7].sum(0) != items[7, 0].sum(0)).any()
        ):
            return items, position


def _addressed(memory, previous, key, strength, gate, kernel):
    norms = np.sqrt((key**2).sum(-1)[..., None] * (memory**2).sum(-1)[:, None])
    content = softmax(strength[..., None] * (key @ memory.swapaxes(1, 2)) / norms)
    g, last, chosen = gate[..., None], previous, []
    for h in range(key.shape[1]):
        w = g[:, h] * content[:, h] + (1 - g[:, h]) * last[:, h]
        w = sum(kernel[:, h, k, None] * np.roll(w, k - 1, -1) for k in range(3))
        chosen.append(w)
    return np.stack(chosen, 1)


_ADDRESSED = Slips(
    _addressed,
    {
        "a head starts from where the head before it looks at this step: every head goes on from "
        "its own weights of the step before": "last[:, h] → (chosen[-1] if h else last[:, 0])",
        "every head starts from the previous weights of the first head: "
        "expected its own": "last[:, h] → last[:, 0]",
        "the heads start from one another's previous weights: "
        "expected each from its own": "last[:, h] → last[:, -1 - h]",
        "every head starts from the mean of the heads' previous weights: "
        "expected its own": "last[:, h] → last.mean(1)",
        "the gate is swapped: "
        "at 1 it takes what was found by content": "gate[..., None] → 1 - gate[..., None]",
        "the shift goes the wrong way: "
        "the last share of the kernel moves one slot on": "k - 1 → 1 - k",
        "the shares of the kernel belong to one slot back, staying and one slot on": "k - 1 → k",
        "the shift is missing": "k - 1 → 0",
        "the shift stops at the ends: the slots lie on a ring": (
            "np.roll(w, k - 1, -1) → np.pad(w, ((0, 0), (1, 1)))[:, 2 - k : 2 - k + w.shape[1]]"
        ),
        "the strength is not used": "strength[..., None] * →",
        "content is compared by dot products: expected the cosine": "/ norms →",
        "where a head was is not used: the gate mixes content with the weights of the step "
        "before": "+ (1 - g[:, h]) * last[:, h] →",
        "the gate is not used: content "
        "alone": "g[:, h] * content[:, h] + (1 - g[:, h]) * last[:, h] → content[:, h]",
        "the shift comes before the mixture: mix, then shift": (
            "w = g[:, h] * content[:, h] + (1 - g[:, h]) * last[:, h] → w = last[:, h]",
            "chosen.append(w) → chosen.append(g[:, h] * content[:, h] + (1 - g[:, h]) * w)",
        ),
        "all heads look with the kernel of the "
        "first": "kernel[:, h, k, None] → kernel[:, 0, k, None]",
    },
)


@exercise("04.several_heads", title="Find the bug: several heads", difficulty=3, minutes=10)
def several_heads(answer, ctx):
    # of a single column the cosine is a sign, and its gradient all rounding
    batch, heads, slots, width = ctx.sizes(batch=(1, 3), heads=(1, 4), slots=(1, 8), d=(2, 5))
    memory, previous, key = (
        ctx.normal(batch, slots, width),
        ctx.weights(batch, heads, slots),
        ctx.normal(batch, heads, width),
    )
    strength, gate = ctx.normal(batch, heads).abs() + 1, torch.sigmoid(ctx.normal(batch, heads))
    given = memory, previous, key, strength, gate, ctx.weights(batch, heads, 3)
    got = ctx.call(answer, *given)
    got = ctx.floats(
        got, "the weights", (batch, heads, slots), mention="one row a head, one column a slot"
    )
    right, wrong = _ADDRESSED(*map(array, given))
    ctx.close(got, right, "the weights", wrong)
    sure = list(given)  # each head looks for the first slot
    sure[2], sure[3] = memory[:, :1].expand(-1, heads, -1), 100 + 0 * strength
    name = "the weights for a strength of 100"
    nan = "exp overflows for a large strength: use softmax, which takes the largest score off"
    got = ctx.floats(ctx.call(answer, *sure), name, (batch, heads, slots), nan=nan)
    ctx.close(got, _addressed(*(array(t) for t in sure)), name)
    tiny, name = (1e-3 * memory, previous, 1e-2 * key, *given[3:]), "the weights for small numbers"
    got = ctx.floats(ctx.call(answer, *tiny), name, (batch, heads, slots))
    ctx.close(got, _addressed(*(array(t) for t in tiny)), name)
    names = dict(enumerate(("memory", "previous", "key", "strength", "gate", "kernel")))
    check_gradients(ctx, answer, given, names, _addressed)
