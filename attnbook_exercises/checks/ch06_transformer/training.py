"""Checks of the section on training: the mean of checkpoints, the mean of two strangers, what the
base model took, batches by tokens.
"""

import numpy as np
import torch

from ...answers.arguments import PLAIN_TENSORS
from ..context import CheckContext, a, array
from ..registry import exercise
from ..slips import on_paper


@exercise("06.average_weights", title="The mean of some checkpoints", difficulty=2, minutes=6)
def average_weights(answer, ctx: CheckContext):
    for number in (ctx.sizes(checkpoints=(1, 6)), 3, 1):
        d = ctx.sizes(entries=(1, 5))
        # two of them are more than float16 holds
        large = torch.rand(d, generator=ctx.generator) * 9_000 + 51_000
        states = [
            {
                "embedding.weight": ctx.normal(d, 3),
                "norm.bias": ctx.normal(d),
                "scale": ctx.normal(1)[0],
                "half": (large + 100 * ctx.normal(d)).half(),
                "wide": ctx.normal(2).double(),
                "steps": torch.tensor(10**12 + 100 * i + ctx.integers(0, 50)),
                "seen": ctx.integers(0, 9, 4),
                "small": ctx.integers(0, 9, 4).int() + 10 * i,
            }
            for i in range(number)
        ]
        got = ctx.call(answer, states)
        if got is None:
            ctx.fail("None came back. Does your function return the dict?")
        if not isinstance(got, dict):
            ctx.fail(f"{a(got)} came back, expected one dict name -> tensor")
        missing, more = (
            [k for k in states[0] if k not in got],
            [k for k in got if k not in states[0]],
        )
        if missing or more:
            ctx.fail(
                f"the dict lacks {missing[0]!r}: every name has to be in it"
                if missing
                else f"the dict has a name that no checkpoint has: {more[0]!r}"
            )
        for name in states[0]:
            _compare_tensor(ctx, name, got[name], [state[name] for state in states])


@exercise("06.two_strangers", title="Predict: the mean of two strangers", difficulty=1, minutes=3)
def two_strangers(answer, ctx: CheckContext):
    return ctx.predicted(answer, "about as many", "half as many", "hardly any")


@on_paper(
    "06.paper_bill",
    ("the bytes of the parameters", "the bytes of the logits", "the hours"),
    title="The base model in 2017",
    difficulty=2,
    minutes=8,
    kind="Budget",
    within=np.array([6e6, 3e6, 0.02]),
)
def paper_bill():
    def bill(copies=4, number=4, tokens=25_000.0, per_gpu=8, uses=6, met=25_000, gpus=8, hour=3600):
        operations = 100_000 * uses * 65e6 * met
        return (
            65e6 * copies * number,
            tokens / per_gpu * 37_000 * number,
            operations / (gpus * 9.5e12) / hour,
        )

    kept, logits, hours = bill()
    return bill(), {
        "a gradient, or one of Adam's two numbers, is left out": bill(copies=3),
        "Adam's numbers are left out: two for each parameter": bill(copies=2),
        "the parameters alone are counted: each has a gradient, and two numbers of Adam": bill(1),
        "each GPU holds the whole model: what the parameters take is not divided by eight": (
            kept / 8,
            logits,
            hours,
        ),
        "these are numbers and not bytes: four bytes each": bill(number=1),
        "a GPU makes the logits of its own eighth of the batch": bill(per_gpu=1),
        "logits are made for target tokens alone": bill(tokens=50_000),
        "this is the forward pass alone: the backward pass takes twice as much again": bill(uses=2),
        "the backward pass alone takes twice as much as the forward pass: six operations in "
        "all": bill(uses=4),
        "each parameter is met by half of the tokens, those of the source or those of the "
        "target": bill(met=50_000),
        "eight GPUs work at the same time": bill(gpus=1),
        "these are minutes: expected hours": bill(hour=60),
        "these are seconds: expected hours": bill(hour=1),
    }


def _compare_tensor(ctx, name, value, given):
    """One tensor of the answer, beside those of the checkpoints."""
    what, newest = f"[{name!r}]", given[-1]
    if type(value) in PLAIN_TENSORS and value.is_floating_point() != newest.is_floating_point():
        ctx.fail(
            f"{what} holds whole numbers: expected that of the last checkpoint, not a mean"
            if value.is_floating_point()
            else f"{what} holds floats: expected their mean, as floats"
        )
    if (
        newest.dtype == torch.float16
        and type(value) in PLAIN_TENSORS
        and not torch.isfinite(value).all()
    ):
        ctx.fail(
            f"{what} is not finite: the sum was taken in half precision, which ends at 65,504; "
            f"add in float64"
        )
    value = ctx.tensor(value, what, newest.shape, dtype=newest.dtype)
    stack = np.stack([array(tensor) for tensor in given])
    if not newest.is_floating_point():
        if not torch.equal(value, newest):
            oldest = torch.equal(value, given[0])
            ctx.fail(
                f"{what} holds whole numbers: expected that of the last checkpoint"
                + (", got that of the first" if oldest else "")
            )
        return
    wide = stack.astype(np.float64)
    right = wide.mean(0).astype(np.float16) if newest.dtype == torch.float16 else wide.mean(0)
    if newest.dtype == torch.float16:  # neighbours in half precision lie 32 apart here
        if np.abs(array(value) - right).max() > 33:
            ctx.fail(
                f"{what} is {array(value)[0]:.0f}, expected {right[0]:.0f}: the numbers are half "
                f"precision; add in float64, then go back"
            )
        return
    running = wide[0]
    for one in wide[1:]:
        running = (running + one) / 2
    ctx.close(
        array(value),
        right,
        what,
        {
            "that is the sum of the checkpoints: divide it by their number": wide.sum(0),
            "that is the last checkpoint alone: expected the mean of all": wide[-1],
            "that is the first checkpoint alone: expected the mean of all": wide[0],
            "each new checkpoint counts half, so that the first ones fade: expected the same "
            "share for all": running,
            "the sum is divided by one less than the number of checkpoints": wide.sum(0)
            / max(1, len(wide) - 1),
            "the sum is divided by one more than the number of checkpoints": wide.sum(0)
            / (len(wide) + 1),
            "that is the median: expected the mean": np.median(wide, 0),
            "that is the mean over all entries as well: average over the checkpoints "
            "alone": np.broadcast_to(wide.mean(), wide[0].shape),
            "the first checkpoint is left out": wide[1:].mean(0) if len(wide) > 1 else wide[0],
            "the last checkpoint is left out": wide[:-1].mean(0) if len(wide) > 1 else wide[0],
        },
    )


def _cut(order, lengths, budget, size):
    batches, batch = [], []
    for i in order:
        if batch and size(batch + [i], lengths) > budget:
            batches.append(batch)
            batch = []
        batch.append(i)
    return batches + [batch] if batch else batches


def _padded(batch, lengths):
    return len(batch) * max(lengths[i] for i in batch)


def _without_padding(batch, lengths):
    return sum(lengths[i] for i in batch)


@exercise("06.token_batches", title="Batches by tokens", difficulty=3, minutes=10)
def token_batches(answer, ctx):
    drawn = ctx.sizes(sentences=(1, 19))
    for number, least, unit in ((ctx.integers(14, 20), 24, 1), (drawn, 34, 1000)):
        while True:
            lengths = [unit * ctx.integers(2, 14) for _ in range(number)]
            budget = unit * ctx.integers(least, least + 10)
            order = sorted(range(number), key=lambda i: lengths[i])
            right = _cut(order, lengths, budget, _padded)
            known = {
                "the sentences come in the order in which they are given: expected short ones "
                "first": _cut(range(number), lengths, budget, _padded),
                "the longest sentences come first: expected the shortest": _cut(
                    sorted(range(number), key=lambda i: -lengths[i]), lengths, budget, _padded
                ),
                "equal lengths come in the wrong order: expected the order in which they are "
                "given": _cut(
                    sorted(range(number), key=lambda i: (lengths[i], -i)), lengths, budget, _padded
                ),
                "the lengths of a batch are added up without its padding: a batch costs its number "
                "of sentences × its longest": _cut(order, lengths, budget, _without_padding),
                "the last batch is missing: put it away too": right[:-1],
                "a batch stays below the budget where it could reach it: exactly the budget is "
                "allowed": _cut(order, lengths, budget - 1, _padded),
                "a batch is closed after it has become too large: look before a sentence is "
                "added": _too_late(order, lengths, budget),
                "a batch counts sentences, not tokens": [
                    order[k : k + budget] for k in range(0, number, budget)
                ],
                "the sentence that does not fit is lost: the next batch has to begin with "
                "it": _lossy(order, lengths, budget),
                "a batch counts the length of its first sentence, the shortest: it is padded to "
                "the longest": _cut(
                    order, lengths, budget, lambda batch, lengths: len(batch) * lengths[batch[0]]
                ),
            }
            exactly = any(_padded(batch, lengths) == budget for batch in right)
            apart = len({str(batches) for batches in (right, *known.values())}) == len(known) + 1
            if number < 14 or exactly and len(right) > 3 and apart:
                break
        _compare(ctx, ctx.call(answer, lengths, budget), right, lengths, budget, known)

    long = [5, 40, 5, 60, 2]  # two of them longer than the budget
    got = ctx.call(answer, long, 20)
    _compare(
        ctx,
        got,
        [[4, 0, 2], [1], [3]],
        long,
        20,
        {
            "a sentence longer than the budget is left out: expected a batch of its own": [
                [4, 0, 2]
            ],
            "the sentences longer than the budget share a batch: expected one for each": [
                [4, 0, 2],
                [1, 3],
            ],
            "an empty batch stands before a sentence that is longer than the budget": [
                [4, 0, 2],
                [],
                [1],
                [],
                [3],
            ],
        },
    )
    _compare(ctx, ctx.call(answer, [30, 3, 3], 20), [[1, 2], [0]], [30, 3, 3], 20, {})
    first_too_long = ctx.call(answer, [50], 20)
    _compare(
        ctx,
        first_too_long,
        [[0]],
        [50],
        20,
        {
            "an empty batch stands before a sentence that is longer than the budget": [[], [0]],
            "a sentence longer than the budget is left out: expected a batch of its own": [],
        },
    )
    whole = [list(range(drawn))]  # all of them in one batch
    _compare(ctx, ctx.call(answer, [3] * drawn, 3 * drawn), whole, [3] * drawn, 3 * drawn, {})
    empty = {"an empty list of sentences makes an empty batch: expected none": [[]]}
    _compare(ctx, ctx.call(answer, [], 20), [], [], 20, empty)


def _too_late(order, lengths, budget):
    batches, batch = [], []
    for i in order:
        batch.append(i)
        if _padded(batch, lengths) > budget:
            batches.append(batch)
            batch = []
    return batches + [batch] if batch else batches


def _lossy(order, lengths, budget):
    batches, batch = [], []
    for i in order:
        if batch and _padded(batch + [i], lengths) > budget:
            batches.append(batch)
            batch = []
            continue
        batch.append(i)
    return batches + [batch] if batch else batches


def _compare(ctx: CheckContext, got, right, lengths, budget, known):
    if got is None:
        ctx.fail("None came back. Does your function return the list?")
    if type(got) not in (list, tuple):
        ctx.fail(f"{a(got)} came back, expected a list of batches")
    if got and all(isinstance(entry, (int, np.integer)) for entry in got):
        ctx.fail(
            "one list of positions came back: expected a list of batches, each a list of positions"
        )
    got = [ctx.ids(batch, f"batch {k}") for k, batch in enumerate(got)]
    if got == right:
        return
    for message, other in known.items():
        if got == other:
            ctx.fail(message)
    if [[lengths[i] for i in batch] for batch in right] == got and sum(right, []) != sum(got, []):
        ctx.fail(
            "the batches hold the lengths: expected the positions of the sentences in the list"
        )
    flat = [i for batch in got for i in batch]
    if any(i < 0 or i >= len(lengths) for i in flat):
        ctx.fail(
            f"there is no sentence {max(flat)} in a list of {len(lengths)}: positions count from 0"
        )
    if len(set(flat)) < len(flat):
        ctx.fail(
            f"the sentence {next(i for i in flat if flat.count(i) > 1)} is in two places: "
            f"expected each once"
        )
    if len(flat) < len(lengths):
        lost = min(set(range(len(lengths))) - set(flat))
        ctx.fail(
            f"the sentence {lost}, of length {lengths[lost]}, is in no batch: expected each once"
        )
    if any(not batch for batch in got):
        ctx.fail("there is an empty batch")
    order = sorted(range(len(lengths)), key=lambda i: lengths[i])
    if flat != order:
        place = next(k for k, (one, other) in enumerate(zip(flat, order)) if one != other)
        ctx.fail(
            f"the sentence {flat[place]} comes at place {place}, expected {order[place]}: by "
            f"length, equal ones as they are given"
        )
    for k, batch in enumerate(got):
        if len(batch) > 1 and _padded(batch, lengths) > budget:
            ctx.fail(
                f"batch {k} holds {len(batch)} sentences of up to "
                f"{max(lengths[i] for i in batch)} words: "
                f"{_padded(batch, lengths)} tokens with padding, more than {budget}"
            )
    place = next(k for k, (one, other) in enumerate(zip(got, right)) if one != other)
    ctx.fail(
        f"batch {place} is {got[place]}, expected {right[place]}: a batch takes the next "
        f"sentence whenever it can"
    )
