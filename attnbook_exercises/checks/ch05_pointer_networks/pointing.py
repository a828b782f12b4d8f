"""Checks of the section on pointing: a step on paper, a prediction, targets, the pointer, the
mask of used positions, the loss, greedy decoding.
"""

import numpy as np
import torch
from torch import Tensor

from ..context import HARD_SCORES, array, softmax
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import on_paper


def _spread(ctx, *shape):
    """Numbers of which no two are close, so that their order is safe from rounding."""
    total = int(np.prod(shape))
    return (torch.tensor(ctx.order(total)).float().reshape(shape) + 0.5) / total


@on_paper(
    "05.second_step",
    "the probability",
    title="The second step",
    difficulty=1,
    minutes=4,
    within=0.004,
)
def second_step():
    return 0.5, {
        "the padding is in the sum: its score becomes −∞, too": 3 / 11,
        "position 1 is in the sum, although it was pointed at before": 3 / 12,
        "all five exponentials are in the sum: padding and the used position become −∞ *before* "
        "the softmax": 3 / 17,
        "that is the probability of position 0": 2 / 6,
        "that is the probability of position 2": 1 / 6,
        "these are the scores divided by their sum: take their exponentials first": np.log(3)
        / np.log(6),
        "that is an exponential, not yet divided by the sum": 3,
        "this is the cost, −log p: expected the probability": np.log(2),
    }


@exercise("05.one_more", title="Predict: One more each", difficulty=1, minutes=2)
def one_more(answer, ctx):
    return ctx.predicted(answer, "nearly all", "about half", "nearly none")


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
    _sorts(answer, ctx, numbers, lengths)
    # Wider than the longest row, numbers above 1, and a 0 that is no padding.
    numbers = 9 * _spread(ctx, rows, n + 2)
    numbers[:, 0] = 0.01
    numbers[torch.arange(rows), lengths // 2] = 0.0
    _sorts(answer, ctx, numbers, lengths)


def _sorts(answer, ctx, numbers, lengths):
    rows, n = numbers.shape
    numbers = numbers * (torch.arange(n) < lengths[:, None])  # zeros as padding
    got = ctx.tensor(
        ctx.call(answer, numbers, lengths),
        "targets",
        (rows, n),
        dtype=torch.long,
        mention="as wide as numbers, padded with -1",
    )

    def result(order=np.argsort, fill=-1, key=None):
        out = np.full((rows, n), fill)
        for b, length in enumerate(lengths.tolist()):
            row = array(numbers)[b, :length]
            out[b, :length] = order(row if key is None else key(row))
        return out

    def filled(real, fill):
        return np.argsort(np.where(real, array(numbers), fill), axis=1, kind="stable")

    all_sorted = filled(True, 0)
    real = np.arange(n) < array(lengths)[:, None]
    some = array(numbers) != 0
    wrong = {
        "these are the ranks: entry i says which place number i takes, expected which number "
        "takes place i": result(lambda row: np.argsort(np.argsort(row))),
        "the numbers come in descending order: expected the smallest first": result(
            key=lambda row: -row
        ),
        "the padding is 0: that is a position, expected -1": result(fill=0),
        "the padding is sorted too: its zeros are smaller than every number": all_sorted,
        "the padding is sorted too: its zeros come first, and their targets push the right ones "
        "out": np.where(real, all_sorted, -1),
        "the padding is filled with 1, and numbers above 1 come behind it: expected +∞": np.where(
            real, filled(real, 1.0), -1
        ),
        "a number that is 0 counts as padding: lengths says how many numbers are real": np.where(
            some, filled(some, np.inf), -1
        ),
        "a number that is 0 counts as padding, and its row is one target short: lengths says how "
        "many numbers are real": np.where(
            np.arange(n) < some.sum(1, keepdims=True), filled(some, np.inf), -1
        ),
    }
    ctx.close(got, result(), "targets", wrong)


@exercise("05.point_at", title="The pointer", difficulty=2, minutes=8)
def point_at(answer, ctx):
    batch, n, d, d_a = ctx.sizes(batch=(1, 3), n=(1, 6), width=(1, 4), d_a=(1, 6))
    e, state = ctx.normal(batch, n, d), ctx.normal(batch, d)
    w_1, w_2, v = ctx.normal(d_a, d), ctx.normal(d_a, d), 2 * ctx.normal(d_a)
    lengths = ctx.lengths(batch, n)
    given = (e, state, w_1, w_2, v, lengths)
    nan = "a softmax over nothing but -inf is NaN: is the mask upside down?"
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
    got = ctx.floats(
        got,
        "probabilities",
        (batch, n),
        mention="one row an answer, one column a position",
        nan=nan,
    )
    real = np.arange(n) < array(lengths)[:, None]

    def scores(e, state, w_1, w_2, v, squash=np.tanh):
        return squash(e @ w_1.T + (state @ w_2.T)[:, None]) @ v

    def right(*floats):
        return softmax(np.where(real, scores(*floats), -np.inf))

    floats = [array(part) for part in given[:5]]
    u = scores(*floats)
    wrong = {
        "there is no mask: padding gets probability": softmax(u),
        "the mask comes after the softmax: the probabilities of a row no longer add up "
        "to 1": softmax(u) * real,
        "masked scores become 0, and exp(0) is 1: padding still gets probability": softmax(
            u * real
        ),
        "the mask is upside down: the padding is pointed at": softmax(np.where(~real, u, -np.inf)),
        "the softmax runs over the batch (dim=0): expected over the positions of a row": softmax(
            np.where(real, u, -np.inf), 0
        ),
        "the score has no tanh: without it the state shifts all scores alike and has no "
        "say": softmax(np.where(real, scores(*floats, squash=lambda a: a), -np.inf)),
        "W_1 and W_2 are swapped": softmax(
            np.where(real, scores(floats[0], floats[1], floats[3], floats[2], floats[4]), -np.inf)
        ),
        "the state d is not used": softmax(
            np.where(real, scores(floats[0], 0 * floats[1], *floats[2:]), -np.inf)
        ),
    }
    ctx.close(got, right(*floats), "probabilities", wrong)
    check_gradients(ctx, answer, given, dict(enumerate(("e", "d", "W_1", "W_2", "v"))), right)

    # All scores alike and far below 0: only −∞ gives a probability of exactly 0. Where tanh is 1 in
    # float32, they are whole numbers.
    low = (20 + 0 * e, state, 1 + 0 * w_1, 0 * w_2, torch.full((d_a,), -(2.0**14)), lengths)
    name = "probabilities where all scores are far below 0"
    nan = "exp of all of them is 0, and 0/0 is NaN: softmax takes the largest score of a row off"
    got = ctx.floats(ctx.call(answer, *low), name, (batch, n), nan=nan)
    leaked = float((array(got) * ~real).max())
    if leaked > 0:
        ctx.fail(
            f"where all scores are far below 0, padding gets a probability of {leaked:.2g}: "
            f"masked scores have to be −∞, a number may be above the others"
        )
    ctx.close(got, real / real.sum(1, keepdims=True), name)


@exercise("05.still_free", title="What is left to point at", difficulty=2, minutes=8)
def still_free(answer, ctx):
    batch, m, n = ctx.sizes(batch=(1, 4), m=(1, 8), n=(1, 6))
    every = ctx.lengths(batch, n)
    walks = [ctx.order(length)[:m] for length in every.tolist()]
    # an answer shorter than its row, without the last position
    walks[every.argmax()] = [ctx.integers(0, max(1, int(every.max()) - 1))]
    # as well answers without padding that do not name the last position
    for rows, lengths in ((walks, every), ([[0] * m] * batch, torch.full((batch,), n))):
        targets = torch.tensor([row + [-1] * (m - len(row)) for row in rows])
        _frees(answer, ctx, targets, lengths, n)


def _frees(answer, ctx, targets, lengths, n):
    batch, m = targets.shape
    got = ctx.tensor(
        ctx.call(answer, targets, lengths, n),
        "free",
        (batch, m, n),
        dtype=torch.bool,
        mention="a row, a step, a position",
    )

    def result(real=True, upto=0, last=False, wrap=False):
        free = np.ones((batch, m, n), dtype=bool)
        for b, length in enumerate(lengths.tolist()):
            if real:
                free[b, :, length:] = False
            for t in range(m):
                before = array(targets)[b, max(0, t - 1) if last else 0 : t + upto]
                for j in before:
                    if j >= 0 or wrap:
                        free[b, t, j] = False
        return free

    wrong = {
        "free is upside down: expected True where the answer may still point": ~result(),
        "step t masks its own target: the right answer is forbidden at every step; only targets "
        "before t are used": result(upto=1),
        "only the position of the step before is masked: expected all that were pointed at so "
        "far": result(last=True),
        "padding of the inputs is free: positions from the length of a row on do not exist": result(
            real=False
        ),
        "the padding -1 of the targets masks the last position: as an index it counts from the "
        "end": result(wrap=True),
        "nothing that was pointed at is masked": np.broadcast_to(
            (np.arange(n) < array(lengths)[:, None])[:, None], (batch, m, n)
        ),
    }
    ctx.close(got, result(), "free", wrong)


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
    given = (scores, free, targets)
    got = ctx.call(answer, *given)
    if _lost(got):  # is it right where each step has a choice, with True and False exchanged?
        u, choice = (
            ctx.normal(1, 2, 4),
            torch.tensor([[[True, True, False, False], [False, True, False, True]]]),
        )
        probe = ctx.call(answer, u, ~choice, torch.tensor([[0, 1]]))
        if type(probe) is Tensor and Tensor.numel(probe) == 1 and not _lost(probe):
            p = softmax(np.where(array(choice), array(u), -np.inf))
            if ctx.same(ctx.number(probe, "the loss"), -np.log(p[0, [0, 1], [0, 1]]).mean()):
                ctx.fail(
                    "the mask is upside down: the targets themselves get −∞. free is True where "
                    "a step may point"
                )
    if _lost(got) and not bool(torch.isfinite(Tensor.detach(got)).all()):
        ctx.fail(
            "the loss is not finite: behind the end of an answer nothing is free, and a softmax "
            "over nothing but -inf is NaN. "
            "Those steps have the target -1 and must not count"
        )
    got = ctx.number(got, "the loss")
    allowed, wanted = array(free), array(targets)
    real = wanted >= 0
    rest = np.where(allowed.any(-1, keepdims=True), allowed, True)

    def picked(p):
        return np.take_along_axis(p, np.maximum(wanted, 0)[..., None], -1)[..., 0]

    def right(scores):
        return -np.log(picked(softmax(np.where(rest, scores, -np.inf))))[real].mean()

    u = array(scores)
    p, unmasked = softmax(np.where(rest, u, -np.inf)), softmax(u)
    terms = -np.log(np.where(real, picked(p), 1))
    wrong = {
        "a softmax comes before the cross-entropy, which takes its own: a perfect answer would "
        "still cost something": -np.log(picked(softmax(np.where(rest, p, -np.inf))))[real].mean(),
        "a softmax comes before the cross-entropy, which takes its own (and knows no "
        "mask)": -np.log(picked(softmax(p * allowed)))[real].mean(),
        "the scores are not masked, or after the softmax: what the mask takes away is not given to "
        "the others": -np.log(picked(unmasked))[real].mean(),
        "masked scores become 0 before the softmax: exp(0) is 1": -np.log(
            picked(softmax(np.where(allowed, u, 0)))
        )[real].mean(),
        "the loss is a sum: expected the mean over the targets": terms.sum(),
        "the sum is divided by all steps, padding included: expected the mean over the "
        "targets": terms.mean(),
        "the sum is divided by the number of rows: expected the mean over the targets": terms.sum()
        / batch,
        "each row counts the same: expected the mean over all targets of the batch": (
            terms.sum(1) / real.sum(1)
        ).mean(),
        "the sign is turned: a loss falls as the probability grows": -terms.sum() / real.sum(),
        "the target -1 counts as position 0": -np.log(picked(p)).mean(),
        "the mean of the probabilities came back: expected that of their negative "
        "logarithms": picked(p)[real].mean(),
    }
    ctx.close(got, right(u), "the loss", wrong)
    for factor, shift in HARD_SCORES[1:]:
        hard = factor * scores + shift
        open_to = np.where(rest, array(hard), -np.inf)
        over = open_to - open_to.max(-1, keepdims=True)
        of_target = picked(np.where(rest, over, 0)) - np.log(np.exp(over).sum(-1))
        expected = -of_target[real].mean()
        got = np.array(ctx.number(ctx.call(answer, hard, free, targets), "the loss"))
        name = f"the loss of scores around {float(hard.mean()):.0f}"
        # float32 goes in steps of 0.002 there, and a difference of two such numbers is right, too
        if not np.isclose(got, expected, rtol=1e-3, atol=4e-3):
            if got > expected + 10:  # as a fill does that lies above the target
                name = f"is a masked score a finite number? It has to be −∞: {name}"
            ctx.close(got, expected, name)

    def as_tensor(*given):
        return torch.as_tensor(answer(*given)).reshape(1)

    check_gradients(ctx, as_tensor, given, {0: "scores"}, lambda u: np.array([right(u)]))


@exercise("05.point_greedily", title="Greedy pointing", difficulty=3, minutes=10)
def point_greedily(answer, ctx):
    n, d, width = ctx.sizes(n=(1, 10), width=(1, 4), state=(1, 5))
    favourite, ahead = ctx.integers(0, n), 5e3

    def run(again=False, feed=None, drop=False, lowest=False):
        item, state, path = array(start), np.zeros(width), []
        gaps.clear()
        for _ in range(n):
            state = np.tanh(array(read) @ item + array(keep) @ (np.zeros(width) if drop else state))
            scores = array(w) @ state
            scores[favourite] += ahead
            scores = -scores if lowest else scores
            if not again:
                scores[path] = -np.inf
            path.append(int(scores.argmax()))
            gaps.append(np.ptp(np.sort(scores)[-2:]))
            item = array(x)[path[-1]] if feed is None else feed(path)
        return path

    gaps = []
    # numbers with which each mistake leads to another answer, and none with rounding
    while True:
        x, start = ctx.normal(n, d), ctx.normal(d)
        read, keep, w = (
            2 * ctx.normal(width, d),
            2 * ctx.normal(width, width),
            3 * ctx.normal(n, width),
        )
        expected, least_gap = run(), min(gaps)
        wrong = {
            "the state is not handed on: every step began with the first state": run(drop=True),
            "the lowest scores are taken: expected the highest": run(lowest=True),
            "step reads x[i] at step i: expected x[j] of the position j that was pointed at "
            "last": run(feed=lambda path: array(x)[len(path) - 1]),
            "step reads the start every time: the input of the decoder has to become what was "
            "pointed at last": run(feed=lambda path: array(start)),
        }
        paths = {tuple(path) for path in (expected, *wrong.values())}
        if n == 1 or least_gap > 0.02 and len(paths) == 1 + len(wrong):
            break
    calls, handed = [], []
    low, scale = 2e4, 1e6  # scores far below 0, a favourite far ahead: what is no −∞ is no mask

    def step(item, state):
        if type(item) is not Tensor or tuple(item.shape) != (d,):
            what = (
                f"a tensor of shape {tuple(item.shape)}"
                if isinstance(item, Tensor)
                else f"{type(item).__name__} {item!r}"
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
        state = torch.tanh(read @ item + keep @ state)
        scores = w @ state
        scores[favourite] += ahead  # what a model without masks points at again and again
        scores = scale * (scores - low)
        handed.append((scores, scores.clone()))
        return scores, state

    zero = torch.zeros(width)
    got = ctx.ids(ctx.call(answer, step, x, start, zero), "the positions")
    ctx.recognize(got, expected, wrong)
    if got == expected:
        if not all(torch.equal(now, then) for now, then in handed):
            ctx.fail(
                "the positions are right, but the scores that step returned are overwritten: "
                "mask a copy of them (masked_fill)"
            )
        low, scale = 0.0, 0.01  # scores so close that one drawn by their softmax is any
        calls.clear()
        if ctx.ids(ctx.call(answer, step, x, start, zero), "the positions") != expected:
            ctx.fail(
                "right where the highest score is far ahead, and wrong where it is a little ahead: "
                "the highest counts, so draw nothing, and round nothing"
            )
        return
    if len(set(got)) < len(got):
        ctx.fail(
            f"position {max(got, key=got.count)} comes {max(map(got.count, got))} times: mask "
            f"what was pointed at before the argmax, "
            "with −∞ (the scores may be lower than any other number)"
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
