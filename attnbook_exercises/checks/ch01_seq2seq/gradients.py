"""Checks of the section on gradients: five runs to be told apart, clipping by the global norm, a
rate, one step from several batches, the norm of a product of Jacobians.
"""

import numpy as np
import torch

from ..context import HARD_SCORES, a, array
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import Slips, read_the_curve


@read_the_curve("01.five_runs", title="five runs", difficulty=2, minutes=6)
def five_runs():
    even = "it hardly leaves the loss of a guess, neither up nor down"
    slow = "both losses fall, slowly and evenly"
    wild = "it is thrown far above the loss of a guess, and goes up and down"
    sound = "both losses fall to 0 together: nothing is wrong here"
    apart = "the loss of its batches falls to 0, so its steps are good; that on new rows rises"
    return {
        "the run whose rate is too high": ("D", {"A": apart, "B": sound, "C": slow, "E": even}),
        "the run whose rate is too low": ("C", {"A": apart, "B": sound, "D": wild, "E": even}),
        "the run without a gradient": ("E", {"A": apart, "B": sound, "C": slow, "D": wild}),
        "the run that sees the same batches": (
            "A",
            {
                "B": "on rows that it has not seen it does as well as on its batches",
                "C": slow,
                "D": wild,
                "E": even,
            },
        ),
    }


def _flat(gradients):
    return np.concatenate([gradient.reshape(-1) for gradient in gradients])


def _clipped(gradients, limit):
    norm = np.linalg.norm(_flat(gradients))
    return _flat([gradient * min(1.0, limit / norm) for gradient in gradients])


_CLIPPED = Slips(
    _clipped,
    {
        "nothing is clipped": "limit / norm → 1.0",
        "each gradient is clipped by its own norm: that turns the step. Use one norm over all of "
        "them": "limit / norm → limit / np.linalg.norm(gradient.reshape(-1))",
        "single entries are cut off at max_norm: that turns the step. Scale all of them by one "
        "number": "gradient * min(1.0, limit / norm) → np.clip(gradient, -limit, limit)",
        "the norms are added up: the squares are, and the root comes last": (
            "np.linalg.norm(_flat(gradients)) → sum(np.linalg.norm(one.reshape(-1)) for one in "
            "gradients)"
        ),
        "the squares are averaged: the norm is the root of their "
        "sum": "np.linalg.norm(_flat(gradients)) → np.sqrt((_flat(gradients) ** 2).mean())",
        "the root is missing: the squared norm is used": "/ norm → / norm**2",
        "the gradients get norm 1: expected max_norm": "min(1.0, limit / norm) → (1 / norm)",
        "gradients below max_norm are scaled up: "
        "leave them alone": "min(1.0, limit / norm) → (limit / norm)",
    },
)


@exercise("01.clip_gradients", title="Clip by the global norm", difficulty=2, minutes=5)
def clip_gradients(answer, ctx):
    count, size = ctx.sizes(tensors=(1, 4), size=(1, 3))
    gradients = [
        (3.0, 0.5, 2.0, 1.0)[i % 4] * ctx.normal(*(size,) * (2, 1, 0, 3)[i % 4])
        for i in range(count)
    ]
    g = [array(one) for one in gradients]
    norm = float(np.linalg.norm(_flat(g)))

    def run(inputs, limit, **texts):
        result = ctx.call(answer, inputs, limit, new="the list")
        if type(result) not in (list, tuple) or len(result) != len(inputs):
            ctx.fail(f"your function returns {a(result)}, expected a list of {len(inputs)} tensors")
        return _flat(
            [
                array(ctx.floats(one, f"gradient {i}", was.shape, **texts))
                for i, (one, was) in enumerate(zip(result, inputs))
            ]
        )

    for size, limit in (("large", 0.1 * norm), ("small", 2.0 * norm)):
        right, wrong = _CLIPPED(g, limit)
        ctx.close(run(gradients, limit), right, f"{size} gradients: entry", wrong)
    ctx.close(run(gradients, 0.0), 0 * _flat(g), "for max_norm 0: entry")
    tiny, unit = [2**-40 * one for one in gradients], 2.0**-40
    got = run(tiny, 0.1 * norm * unit) / unit
    if not ctx.same(got, _clipped(g, 0.1 * norm)):
        ctx.fail(
            "gradients of 1e-12 are not scaled as large ones: is a small number added to the norm, "
            "or taken for 0?"
        )
    zeros, nan = [torch.zeros(3), torch.zeros(2)], "gradients of 0 have norm 0: do not divide by it"
    for limit in (1.0, 0.0):
        ctx.close(run(zeros, limit, nan=nan), np.zeros(5), "zero gradients: entry")


def _right_after(rate, seed, updates=150):
    """The share of right answers after plain gradient descent, and the losses on the way."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        parts = torch.nn.Embedding(16, 32), torch.nn.RNN(32, 32), torch.nn.Linear(32, 16)
        embedding, network, output = parts
        weights = [weight for part in parts for weight in part.parameters()]
        losses = []
        for batch in [64] * updates + [500]:
            letters = torch.randint(0, 16, (4, batch))
            logits = output(network(embedding(letters))[1][0])
            loss = torch.nn.functional.cross_entropy(logits, letters[0])
            gradients = torch.autograd.grad(loss, weights)
            losses.append(loss.item())
            with torch.no_grad():
                for weight, gradient in zip(weights, gradients):
                    weight -= rate * gradient
    return (logits.argmax(-1) == letters[0]).float().mean().item(), losses


@exercise(
    "01.plain_descent", title="Choose a setting: a rate for plain descent", difficulty=2, minutes=10
)
def plain_descent(answer, ctx):
    rate = ctx.number(ctx.call(answer), "the rate")
    if ctx.case:
        return None  # a rate has no number type, one training is enough
    if rate <= 0:
        ctx.fail(f"the rate is {rate:g}: with 0 nothing moves, and with less the loss is climbed")
    right, losses = _right_after(rate, ctx.seed)
    if right > 0.9:
        return f"right: {right:.0%} of new rows are answered."
    of = f"{right:.0%} of new rows are answered: the loss"
    if rate < 0.6:
        ctx.fail(
            f"{of} has come down from {losses[0]:.1f} only to {losses[-1]:.1f} when the updates "
            f"are used up. The rate is too low"
        )
    ctx.fail(
        f"{of} has been as high as {max(losses[:50]):.1f}, a guess has 2.8. The rate is too high"
    )


def _costs(logits, targets):
    """-log p of every target, (B, m)."""
    shifted = logits - logits.max(-1, keepdims=True)
    log_p = shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))
    return -np.take_along_axis(log_p, targets[..., None], -1)[..., 0]


def _loss(pad, batches):
    costs = [_costs(logits, targets) for logits, targets in batches]
    real = [targets != pad for _, targets in batches]
    nats = np.array([(cost * there).sum() for cost, there in zip(costs, real)])
    words = np.array([there.sum() for there in real])
    return nats.sum() / words.sum()


_LOSS = Slips(
    _loss,
    {
        "this is a mean of the batches' means: each batch counts alike, so a word weighs more in a "
        "batch of few words. Divide the sum of all losses by the number of all "
        "words": "nats.sum() / words.sum() → (nats / words).mean()",
        "the means of the batches are added up: divide the sum of all losses by the number of all "
        "words": "nats.sum() / words.sum() → (nats / words).sum()",
        "the batches' means are weighted by their numbers of sentences: expected by their numbers "
        "of words": (
            "nats.sum() / words.sum() → np.average(nats / words, weights=[len(t) for t in real])"
        ),
        "the batches' means are weighted by their numbers of places, padding included: expected by "
        "their numbers of words": (
            "nats.sum() / words.sum() → np.average(nats / words, weights=[t.size for t in real])"
        ),
        "this is a mean of the sentences' means: a word weighs more in a short sentence": (
            "nats.sum() / words.sum() → np.mean([c[t].mean() for cost, there in zip(costs, real) "
            "for c, t in zip(cost, there)])"
        ),
        "the padding counts as words in what you divide "
        "by": "words.sum() → sum(there.size for there in real)",
        "each batch is divided by its number of places, padding included": (
            "nats.sum() / words.sum() → np.mean([n / there.size for n, there in zip(nats, real)])"
        ),
        "the padding counts as a word that has to be said": "targets != pad → targets == targets",
        "the loss of the padding is added up: what you divide by is right": "(cost * there) → cost",
        "words with id 0 are left out: expected those equal to pad": (
            "!= pad → != 0",
            "/ words.sum() → / max(1, words.sum())",
        ),
        "the loss is the sum over the words: expected their mean": "/ words.sum() →",
        "the sum is divided by the number of batches: "
        "expected the number of words": "words.sum() → len(words)",
        "the sum is divided by the number of sentences: "
        "expected the number of words": "words.sum() → sum(map(len, real))",
        "only the last batch counts: "
        "add up over the loop": "nats.sum() / words.sum() → nats[-1] / words[-1]",
        "only the first batch counts: "
        "return after the loop": "nats.sum() / words.sum() → nats[0] / words[0]",
        "the sums of all batches are divided by the number of words of the last "
        "one": "words.sum() → words[-1]",
    },
)


@exercise(
    "01.loss_of_a_step", title="Find the bug: one step, several batches", difficulty=3, minutes=8
)
def loss_of_a_step(answer, ctx):
    count, batch, m, words = ctx.sizes(
        small_batches=(1, 5, 12),
        batch=(1, 4),
        m=(1, 6),
        vocabulary=(2, 7, 12),  # pad and a word
    )

    def arrays(batches):
        return [(array(logits), array(targets)) for logits, targets in batches]

    def sample():
        pad, batches = ctx.integers(1, words), []  # 0 comes last
        for last in range(count):
            rows, most = (
                (ctx.integers(1, batch + 1), ctx.integers(1, m + 1)) if last else (batch, m)
            )
            ends = ctx.lengths(rows, most)
            targets = (pad + ctx.integers(1, words, rows, most)) % words
            targets[torch.arange(most) >= ends[:, None]] = pad
            batches.append((2 * ctx.normal(rows, most, words), targets))
        return pad, batches

    def differ(drawn):
        right, wrong = _LOSS(drawn[0], arrays(drawn[1]))
        values = [right, *wrong.values()]
        return count == 1 or np.diff(np.sort(values)).min() > 1e-3

    pad, batches = ctx.draw(sample, differ, 200 if batch > 1 and m > 1 else 1)
    right, wrong = _LOSS(pad, arrays(batches))
    got = ctx.call(answer, batches, pad)
    got = ctx.floats(got, "the loss", (), mention="one number, the mean over all words")
    ctx.close(got, np.array(right), "the loss", wrong)
    at = {k: f"the logits of batch {k}" for k in range(count)}
    labels = [targets for _, targets in batches]
    check_gradients(
        ctx,
        lambda *logits: answer(list(zip(logits, labels)), pad),
        [logits for logits, _ in batches],
        at,
        lambda *logits: _loss(pad, list(zip(logits, map(array, labels)))),
    )
    for factor, shift in HARD_SCORES[1:]:
        hard = [(factor * logits + shift, targets) for logits, targets in batches]
        got = ctx.floats(ctx.call(answer, hard, pad), "the loss", ())
        size = max(float(logits.abs().max()) for logits, _ in hard)
        name = f"where a logit is {size:.0f} in size the loss"
        ctx.close(got, np.array(_loss(pad, arrays(hard))), name, size=size)
    moved = [(logits.roll(-pad, -1), (targets - pad) % words) for logits, targets in batches]
    got = ctx.floats(ctx.call(answer, moved, 0), "where pad is 0 the loss", ())
    ctx.close(got, np.array(right), "where pad is 0 the loss")


def _norms(weight, states):
    product, norms = np.eye(len(weight)), []
    for state in states:
        step = np.diag(1 - state**2) @ weight
        product = step @ product
        norms.append(np.linalg.norm(product, 2))
    return np.array(norms)


_NORMS = Slips(
    _norms,
    {
        "the slope of tanh is missing: "
        "each Jacobian is diag(1 - h²) U": "np.diag(1 - state**2) @ →",
        "the slope of tanh is 1 - h², not 1 - h": "state**2 → state",
        "the slope is not squared right: "
        "1 - tanh(h)² is taken, but h is the tanh already": "state**2 → np.tanh(state) ** 2",
        "these are norms of single steps: "
        "multiply the Jacobians of all steps up to t": "product, 2 → step, 2",
        "norms are multiplied: that is an upper bound. Take the norm of the product": (
            "product, 2 → step, 2",
            "np.array(norms) → np.cumprod(norms)",
        ),
        "the product is in the wrong order: "
        "the newest Jacobian stands on the left": "step @ product → product @ step",
        "this is the Frobenius norm: expected the largest singular value": ", 2) →)",
        "U and the slope are in the wrong order: h = tanh(U …), so each Jacobian is diag(1 - h²) "
        "U, not U diag(1 - h²)": "np.diag(1 - state**2) @ weight → weight @ np.diag(1 - state**2)",
        "this is the spectral radius, the largest absolute eigenvalue: expected the largest "
        "singular value": "np.linalg.norm(product, 2) → np.abs(np.linalg.eigvals(product)).max()",
        "U is transposed: the Jacobian of U h is U": "@ weight → @ weight.T",
    },
)


@exercise("01.jacobian_norms", title="What is left of the gradient", difficulty=4, minutes=12)
def jacobian_norms(answer, ctx):
    for saturated in (False, True):
        steps, size = ctx.sizes(steps=(1, 6), size=(1, 4))
        weight, states = ctx.normal(size, size), torch.tanh(ctx.normal(steps, size))
        if saturated:
            states[-1] = states[-1].sign()
        got = ctx.floats(
            ctx.call(answer, weight, states), "the norms", (steps,), mention="one norm a step"
        )
        right, wrong = _NORMS(array(weight), array(states))
        ctx.close(got, right, "the norms", wrong)
