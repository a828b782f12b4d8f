"""Checks of the section on pointing: targets, larger numbers, a rate for plain gradient descent,
the pointer, the mask of used positions, the loss, greedy decoding.
"""

import numpy as np
import torch
from torch import Tensor

from ..context import HARD_SCORES, array, softmax
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import Slips


def _spread(ctx, *shape):
    """Numbers of which no two are close, so that their order is safe from rounding; in float64
    close enough for float32 to lose it.
    """
    total = int(np.prod(shape))
    if ctx.case:
        return 0.5 + 1e-10 * torch.tensor(ctx.order(total)).double().reshape(shape)
    return (torch.tensor(ctx.order(total)).float().reshape(shape) + 0.5) / total


def _sorted(numbers, lengths):
    place = np.arange(numbers.shape[1])
    real = place < lengths[:, None]
    order = np.argsort(np.where(real, numbers, np.inf), 1, kind="stable")
    return np.where(real, order, -1)


_SORTED = Slips(
    _sorted,
    {
        "these are the ranks: entry i says which place number "
        "i takes, expected which number takes place i": "order, -1) → np.argsort(order, 1), -1)",
        "the numbers come in descending order: "
        "expected the smallest first": "real, numbers → real, -numbers",
        "the padding is 0: that is a position, expected -1": "order, -1) → order, 0)",
        "the padding is sorted too: its zeros are smaller than every number": (
            "np.where(real, numbers, np.inf) → numbers",
            "np.where(real, order, -1) → order",
        ),
        "the padding is sorted too: its zeros come first, "
        "and their targets push the right ones out": "np.where(real, numbers, np.inf) → numbers",
        "the padding is filled with a finite number, and larger ones come after it: "
        "expected +∞": "np.inf → 1.0",
        "a number that is 0 counts as padding: "
        "lengths says how many numbers are real": "place < lengths[:, None] → numbers != 0",
        "a number that is 0 counts as padding, and its row is one target short: lengths says "
        "how many numbers are real": (
            "np.where(real, numbers → np.where(numbers != 0, numbers",
            "lengths[:, None] → (numbers != 0).sum(1)[:, None]",
        ),
    },
)


@exercise("05.sorting_targets", title="Which position comes first?", difficulty=1, minutes=5)
def sorting_targets(answer, ctx):
    rows, n = ctx.sizes(rows=(1, 5), n=(1, 8))
    lengths = ctx.lengths(rows, n)
    numbers = ctx.draw(  # of the longest row the ranks are not the order
        lambda: _spread(ctx, rows, n),
        lambda drawn: (
            (order := drawn[lengths.argmax()].argsort()).argsort().tolist() != order.tolist()
        ),
        tries=20,
    )
    # and wider than the longest row, with numbers above 1, and a 0 that is no padding
    wider = 9e9 * _spread(ctx, rows, n + 2)
    wider[:, 0] = 0.01
    wider[torch.arange(rows), lengths // 2] = 0.0
    for given in (numbers, wider):
        width = given.shape[1]
        given = given * (torch.arange(width) < lengths[:, None])  # zeros as padding
        got = ctx.call(answer, given, lengths)
        mention = "as wide as numbers, padded with -1"
        got = ctx.tensor(got, "targets", (rows, width), dtype=torch.long, mention=mention)
        right, wrong = _SORTED(array(given), array(lengths))
        ctx.close(got, right, "targets", wrong)


@exercise("05.one_more", title="Predict: One more each", difficulty=1, minutes=2)
def one_more(answer, ctx):
    return ctx.predicted(answer, "nearly all", "about half", "nearly none")


def _descended(rate, steps=300, n=8, width=32, batch=32):
    """The loss of a pointer network that has learned to sort by plain gradient descent, per step of
    an answer on new rows. It is the same in every run of the check.
    """
    generator = torch.Generator().manual_seed(0)

    def normal(*shape):
        return torch.randn(shape, generator=generator)

    half = width**-0.5
    weights = [2 * normal(1, width), normal(width), 2 * normal(1, width), normal(width)]
    weights += [half * normal(width, width), half * normal(width, width), half * normal(width)]
    weights = [weight.requires_grad_() for weight in weights]

    def loss(rows):
        numbers = torch.rand(rows, n, generator=generator)
        ascending, order = numbers.sort(dim=1)
        last = torch.cat([torch.zeros(rows, 1), ascending[:, :-1]], dim=1)
        to_e, e_0, to_d, d_0, w_1, w_2, v = weights
        e = torch.tanh(numbers[..., None] * to_e + e_0) @ w_1
        d = torch.tanh(last[..., None] * to_d + d_0) @ w_2
        scores = torch.tanh(e[:, None] + d[:, :, None]) @ v
        scores = scores.masked_fill(numbers[:, None] < ascending[..., None], -torch.inf)
        return torch.nn.functional.cross_entropy(scores.flatten(0, 1), order.flatten())

    for _ in range(steps):
        gradients = torch.autograd.grad(loss(batch), weights)
        with torch.no_grad():
            for weight, gradient in zip(weights, gradients):
                weight -= rate * gradient
    return loss(500).item()


@exercise("05.plain_rate", title="Choose a setting: A rate without Adam", difficulty=2, minutes=6)
def plain_rate(answer, ctx):
    rate = ctx.number(ctx.call(answer), "the rate")
    if rate <= 0:
        ctx.fail(f"the rate is {rate:g}: expected a number above 0, as steps go downhill")
    if ctx.case:
        return "right."  # one training run is enough
    loss = _descended(rate)
    ended = f"with a rate of {rate:g} the loss ends at {loss:.2f} nats per step"
    if loss < 0.2:
        return f"right: {ended}."
    if loss < 1.25:
        ctx.fail(f"{ended}, expected below 0.2: it is still falling, the steps are too small")
    ctx.fail(
        f"{ended}, which is a guess: "
        + (
            "the weights have hardly moved, the steps are too small"
            if rate < 0.1
            else "the first steps threw the weights to where every tanh is flat, they are too large"
        )
    )


def _pointed(e, state, w_1, w_2, v, lengths):
    real = np.arange(e.shape[1]) < lengths[:, None]
    scores = np.tanh(e @ w_1.T + (state @ w_2.T)[:, None]) @ v
    return softmax(np.where(real, scores, -np.inf))


_POINTED = Slips(
    _pointed,
    {
        "there is no mask: padding gets probability": "np.where(real, scores, -np.inf) → scores",
        "the mask comes after the softmax: the probabilities "
        "of a row no longer add up to 1": "np.where(real, scores, -np.inf)) → scores) * real",
        "masked scores become 0, and exp(0) is 1: padding still gets probability": "-np.inf → 0.0",
        "the mask is upside down: the padding is pointed at": "np.where(real → np.where(~real",
        "the softmax runs over the batch (dim=0): "
        "expected over the positions of a row": "-np.inf) → -np.inf), 0",
        "the score has no tanh: "
        "without it the state shifts all scores alike and has no say": "np.tanh →",
        "W_1 and W_2 are swapped": ("e @ w_1 → e @ w", "w_2 → w_1", "w.T → w_2.T"),
        "the state d is not used": "(state @ → (0 * state @",
    },
)


@exercise("05.point_at", title="The pointer", difficulty=2, minutes=8)
def point_at(answer, ctx):
    batch, n, d, d_a = ctx.sizes(batch=(1, 3), n=(1, 6), width=(1, 4), d_a=(1, 6))
    e, state = ctx.normal(batch, n, d), ctx.normal(batch, d)
    w_1, w_2, v = ctx.normal(d_a, d), ctx.normal(d_a, d), 2 * ctx.normal(d_a)
    lengths = ctx.lengths(batch, n)
    given = (e, state, w_1, w_2, v, lengths)
    got = ctx.call(answer, *given)
    if (
        type(got) is Tensor
        and got.layout == torch.strided
        and got.device.type == "cpu"
        and got.is_floating_point()
        and tuple(got.shape) == (batch, n)
        and bool((got < 0).any())
        and not bool(got.isnan().any())
    ):
        if np.allclose(np.exp(array(got)).sum(1), 1, atol=1e-3):
            ctx.fail(
                "these are the logarithms of the probabilities: expected the probabilities, "
                "softmax in place of log_softmax"
            )
        if bool(got.isneginf().any()):
            ctx.fail("scores came back, not probabilities: the softmax is missing")
    mention = "one row an answer, one column a position"
    nan = "a softmax over nothing but -inf is NaN: is the mask upside down?"
    got = ctx.floats(got, "probabilities", (batch, n), mention=mention, nan=nan)
    right, wrong = _POINTED(*map(array, given))
    ctx.close(got, right, "probabilities", wrong)
    names = dict(enumerate(("e", "d", "W_1", "W_2", "v")))
    check_gradients(ctx, answer, given, names, lambda *now: _pointed(*now, lengths=array(lengths)))

    # All scores alike and far below 0: only −∞ gives a probability of exactly 0. Where tanh is 1 in
    # float32, they are whole numbers.
    low = (20 + 0 * e, state, 1 + 0 * w_1, 0 * w_2, torch.full((d_a,), -(2.0**100)), lengths)
    name = "probabilities where all scores are far below 0"
    nan = "exp of all of them is 0, and 0/0 is NaN: softmax takes the largest score of a row off"
    got = ctx.floats(ctx.call(answer, *low), name, (batch, n), nan=nan)
    real = np.arange(n) < array(lengths)[:, None]
    leaked = float((array(got) * ~real).max())
    if leaked > 0:
        ctx.fail(
            f"where all scores are far below 0, padding gets a probability of {leaked:.2g}: "
            f"masked scores have to be −∞, a number may be above the others"
        )
    found = array(got) / array(got).sum(1, keepdims=True)  # logarithms are rounded here
    ctx.close(found, real / real.sum(1, keepdims=True), name)

    there = torch.arange(n) < lengths[:, None]
    far = (torch.where(there[..., None], -20 + 0 * e, 20), state, 1 + 0 * w_1, 0 * w_2, 99 + 0 * v)
    name = "probabilities where the scores of the padding are far above the others"
    got = ctx.floats(
        ctx.call(answer, *far, lengths), name, (batch, n), nan="0/0 is NaN: mask first"
    )
    ctx.close(got, real / real.sum(1, keepdims=True), name)


def _free(targets, lengths, n):
    free = np.zeros((*targets.shape, n), dtype=bool)
    for b, t in np.ndindex(*targets.shape):
        used = targets[b, :t]
        free[b, t, : lengths[b]] = True
        free[b, t, used[used >= 0]] = False
    return free


_FREE = Slips(
    _free,
    {
        "free is upside down: expected True where the answer may still point": "return → return ~",
        "step t masks its own target: the right answer is forbidden at every step; "
        "only targets before t are used": "[b, :t] → [b, : t + 1]",
        "only the position of the step before is masked: "
        "expected all that were pointed at so far": "[b, :t] → [b, max(0, t - 1) : t]",
        "padding of the inputs is free: "
        "positions from the length of a row on do not exist": ": lengths[b]] → :]",
        "the padding -1 of the targets masks the last position: "
        "as an index it counts from the end": "used[used >= 0] → used",
        "nothing that was pointed at is masked": "= False → = True",
    },
)


@exercise("05.still_free", title="What is left to point at", difficulty=2, minutes=8)
def still_free(answer, ctx):
    batch, m, n = ctx.sizes(batch=(1, 4), m=(1, 8), n=(1, 6))
    every = ctx.lengths(batch, n)
    walks = [ctx.order(length)[:m] for length in every.tolist()]
    # an answer shorter than its row, without the last position
    walks[every.argmax()] = [ctx.integers(0, max(1, int(every.max()) - 1))]
    # as well answers without padding that do not name the last position
    full = torch.full((batch,), n)
    for rows, lengths, size in (
        (walks, every, n),
        (walks, every, n + 1),
        ([[0] * m] * batch, full, n),
    ):
        targets = torch.tensor([row + [-1] * (m - len(row)) for row in rows])
        got = ctx.call(answer, targets, lengths, size)
        mention = "a row, a step, a position"
        got = ctx.tensor(got, "free", (batch, m, size), dtype=torch.bool, mention=mention)
        right, wrong = _FREE(array(targets), array(lengths), size)
        ctx.close(got, right, "free", wrong)


def _lost(loss):
    """Whether a loss is not finite, or as large as only a forbidden target makes it."""
    if (
        type(loss) is not Tensor
        or Tensor.numel(loss) != 1
        or not loss.is_floating_point()
        or loss.device.type != "cpu"
    ):
        return False
    return not abs(float(Tensor.detach(loss))) < 1e3


def _loss(scores, free, targets):
    real, rest = targets >= 0, np.where(free.any(-1, keepdims=True), free, True)
    masked = np.where(rest, scores, -np.inf)
    top = masked.max(-1, keepdims=True)
    cost = top + np.log(np.exp(masked - top).sum(-1, keepdims=True)) - scores
    each = np.take_along_axis(cost, np.maximum(targets, 0)[..., None], -1)[..., 0]
    return np.array(each[real].mean())


_LOSS = Slips(
    _loss,
    {
        "a softmax comes before the cross-entropy, which takes its own: a perfect answer would "
        "still cost "
        "something": "masked = → scores = softmax(np.where(rest, scores, -np.inf))\n    masked =",
        "a softmax comes before the cross-entropy, which takes its own (and knows no mask)": (
            "masked = np.where(rest, scores, -np.inf) → masked = scores = softmax(np.where(rest, "
            "scores, -np.inf)) * free"
        ),
        "the scores are not masked, or after the softmax: what the "
        "mask takes away is not given to the others": "np.where(rest, scores, -np.inf) → scores",
        "masked scores become 0 before the softmax: exp(0) is 1": (
            "masked = np.where(rest, scores, -np.inf) → masked = scores = np.where(free, scores, 0)"
        ),
        "the loss is a sum: expected the mean over the targets": "[real].mean() → [real].sum()",
        "each row counts the same: expected the mean over all "
        "targets of the batch": "each[real].mean() → ((each * real).sum(1) / real.sum(1)).mean()",
        "the sum is divided by all steps, padding included: "
        "expected the mean over the targets": "each[real].mean() → each[real].sum() / each.size",
        "the sum is divided by the number of rows: "
        "expected the mean over the targets": "each[real].mean() → each[real].sum() / len(each)",
        "the sign is turned: a loss falls as the probability grows": "each[real] → -each[real]",
        "the target -1 counts as position 0": "each[real] → each",
        "the mean of the probabilities came back: "
        "expected that of their negative logarithms": "each[real] → np.exp(-each[real])",
    },
)


@exercise("05.pointer_loss", title="The loss of an answer", difficulty=3, minutes=10)
def pointer_loss(answer, ctx):
    batch, m, n = ctx.sizes(batch=(1, 4), m=(1, 5), n=(1, 6))
    scores = 1.5 * ctx.normal(batch, m, n)
    lengths = ctx.lengths(batch, n).tolist()
    rows = [ctx.order(length)[:m] for length in lengths]
    targets = torch.tensor([row + [-1] * (m - len(row)) for row in rows])
    free = torch.zeros(batch, m, n, dtype=torch.bool)
    for b, row in enumerate(rows):
        for t in range(m):
            free[b, t, [j for j in range(lengths[b]) if j not in row[:t]]] = True
            if t >= len(row) and (t + b) % 2:  # after the end something may be free, or nothing
                free[b, t, : ctx.integers(1, n + 1)] = True
    given = (scores, free, targets)
    got = ctx.call(answer, *given)
    if _lost(got):  # is it right where each step has a choice, with True and False exchanged?
        u, choice = (
            ctx.normal(1, 2, 4),
            torch.tensor([[[True, True, False, False], [False, True, False, True]]]),
        )
        probe = ctx.call(answer, u, ~choice, torch.tensor([[0, 1]]))
        if type(probe) is Tensor and Tensor.numel(probe) == 1 and not _lost(probe):
            right = _loss(array(u), array(choice), np.array([[0, 1]]))
            if ctx.same(ctx.number(probe, "the loss"), right):
                ctx.fail(
                    "the mask is upside down: the targets themselves get −∞. free is True where "
                    "a step may point"
                )
    if _lost(got) and not bool(torch.isfinite(Tensor.detach(got)).all()):
        ctx.fail(
            "the loss is not finite: after the end of an answer nothing is free, and a softmax "
            "over nothing but -inf is NaN. "
            "Those steps have the target -1 and must not count"
        )
    arrays = [array(part) for part in given]
    right, wrong = _LOSS(*arrays)
    ctx.close(ctx.number(got, "the loss"), right, "the loss", wrong)
    for factor, shift in HARD_SCORES[1:]:
        hard = factor * scores + shift
        got = ctx.number(ctx.call(answer, hard, free, targets), "the loss")
        expected, name = _loss(array(hard), *arrays[1:]), f"the loss of scores around {shift:.0f}"
        if got > expected + 10:  # as a fill does that lies above the target
            name = f"is a masked score a finite number? It has to be −∞: {name}"
        ctx.close(got, expected, name, size=float(hard.abs().max()))

    def as_tensor(*given):
        return torch.as_tensor(answer(*given)).reshape(1)

    loss = lambda now: _loss(now, *arrays[1:]).reshape(1)  # noqa: E731
    check_gradients(ctx, as_tensor, given, {0: "scores"}, loss)


def _greedy(x, start, read, keep, w, ahead, gaps):
    """The positions; `gaps` is filled with how far the highest score is above the next."""
    item, state, path = start, np.zeros(len(keep)), []
    gaps.clear()
    for _ in range(len(x)):
        state = np.tanh(read @ item + keep @ state)
        scores = w @ state + ahead
        scores[path] = -np.inf
        path.append(int(scores.argmax()))
        gaps.append(np.ptp(np.sort(scores)[-2:]))
        item = x[path[-1]]
    return path


_GREEDY = Slips(
    _greedy,
    {
        "the state is not handed on: every step began with the first state": "keep @ state → 0",
        "the lowest scores are taken: "
        "expected the highest": "w @ state + ahead → -w @ state - ahead",
        "step reads x[i] at step i: expected "
        "x[j] of the position j that was pointed at last": "x[path[-1]] → x[len(path) - 1]",
        "step reads the start every time: "
        "the input of the decoder has to become what was pointed at last": "x[path[-1]] → start",
    },
)


@exercise("05.point_greedily", title="Greedy pointing", difficulty=3, minutes=10)
def point_greedily(answer, ctx):
    n, d, width = ctx.sizes(n=(1, 10), width=(1, 4), hidden=(1, 5))
    ahead, gaps = torch.zeros(n), []
    favourite, *last = sorted(ctx.order(n)[:2])
    ahead[favourite], ahead[last] = 5e3, -5e3
    # numbers with which each mistake leads to another answer, and none with rounding
    while True:
        x, start = ctx.normal(n, d), ctx.normal(d)
        read, keep, w = (
            2 * ctx.normal(width, d),
            2 * ctx.normal(width, width) / width**0.5,
            3 * ctx.normal(n, width),
        )
        arrays = [array(part) for part in (x, start, read, keep, w, ahead)]
        expected, wrong = _GREEDY(*arrays, gaps)
        paths = {tuple(path) for path in (expected, *wrong.values())}
        least = 0.02 if n < 99 else 1e-7
        if n == 1 or min(gaps) > least and len(paths) == 1 + len(wrong):
            break
    calls, handed = [], []
    low, scale = 2e4, 1e6  # scores far below 0, a favourite far ahead: what is no −∞ is no mask

    def step(item, state):
        if type(item) is not Tensor or tuple(item.shape) != (d,):
            what = (
                f"a tensor of shape {tuple(item.shape)}"
                if isinstance(item, Tensor)
                else f"{type(item).__name__} {item!r:.40}"
            )
            ctx.fail(
                f"step got {what}: expected what was pointed at, x[j] of shape {(d,)}, or start"
            )
        if len(calls) >= n:
            ctx.fail(
                f"step was called more than {n} times: an answer has as many steps as there are "
                f"positions"
            )
        calls.append(item.clone())
        state = torch.tanh(read.to(item) @ item + keep.to(item) @ state.to(item))
        # the favourite is what a model without masks points at again and again
        scores = scale * (w.to(item) @ state + ahead.to(item) - low)
        handed.append((scores, scores.clone()))
        return scores, state

    given = step, x, start, torch.zeros(width)
    got = ctx.ids(ctx.call(answer, *given), "the positions")
    ctx.recognize(got, expected, wrong)
    if got == expected:
        if not all(torch.equal(now, then) for now, then in handed):
            ctx.fail(
                "the positions are right, but the scores that step returned are overwritten: "
                "mask a copy of them (masked_fill)"
            )
        low, scale = 0.0, 0.01  # scores so close that one drawn by their softmax is any
        calls.clear()
        if ctx.ids(ctx.call(answer, *given), "the positions") != expected:
            ctx.fail(
                "right where the highest score is far ahead, and wrong where it is a little ahead: "
                "the highest counts, so draw nothing, and round nothing"
            )
        return
    if len(set(got)) < len(got):
        ctx.fail(
            f"position {max(got, key=got.count)} comes {max(map(got.count, got))} times: what was "
            "pointed at has to be −∞ before the argmax, and a search of your own has to begin "
            "there, since scores may be lower than any other number"
        )
    if len(calls) > 1 and all(torch.equal(call, calls[0]) for call in calls):
        ctx.fail(
            "step reads the start every time: the input of the decoder has to become what was "
            "pointed at last"
        )
    if len(got) != n:
        ctx.fail(f"{len(got)} positions came back, expected {n}: every position once")
    first = next(i for i, (mine, right) in enumerate(zip(got, expected)) if mine != right)
    ctx.fail(f"step {first} points at {got[first]}, expected {expected[first]}")
