"""Checks of the section on gradients: the norm of a product of Jacobians, and clipping by the
global norm, one step from several batches.
"""

import numpy as np
import torch

from ..context import HARD_SCORES, a, array
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import on_paper


@on_paper(
    "01.forgetting", "the number of steps", title="half of the gradient", difficulty=1, minutes=3
)
def forgetting():
    return 7, {
        "after 6 steps 0.53 is left": 6.0,
        "a step multiplies by 0.9: it does not take 0.1 away": 5.0,
        "after 7 steps it is less than half for the first time": 8.0,
        "log 0.5 / log 0.9 is 6.58: which whole number of steps comes next?": 6.58,
    }


@exercise("01.more_updates", title="Predict: four times as many updates", difficulty=1, minutes=3)
def more_updates(answer, ctx):
    return ctx.predicted(answer, "nearly all", "about half", "a guess")


@exercise("01.clip_gradients", title="Clip by the global norm", difficulty=2, minutes=5)
def clip_gradients(answer, ctx):
    count, size = ctx.sizes(tensors=(1, 4), size=(1, 3))
    shapes = [(size,) * (2, 1, 0, 3)[i] for i in range(count)]
    gradients = [scale * ctx.normal(*shape) for scale, shape in zip((3.0, 0.5, 2.0, 1.0), shapes)]
    g = [array(one) for one in gradients]
    norms = np.array([np.sqrt((one**2).sum()) for one in g])
    norm = np.sqrt((norms**2).sum())

    def flat(parts):
        return np.concatenate([np.asarray(part).reshape(-1) for part in parts])

    def run(inputs, limit, **texts):
        result = ctx.call(answer, inputs, limit)
        if type(result) not in (list, tuple) or len(result) != len(inputs):
            ctx.fail(f"your function returns {a(result)}, expected a list of {len(inputs)} tensors")
        return flat(
            [
                array(ctx.floats(one, f"gradient {i}", was.shape, **texts))
                for i, (one, was) in enumerate(zip(result, inputs))
            ]
        )

    limit = 0.4 * float(norm)
    wrong = {
        "nothing is clipped": flat(g),
        "each gradient is clipped by its own norm: that turns the step. Use one norm over all of "
        "them": flat([one * min(1.0, limit / size) for one, size in zip(g, norms)]),
        "single entries are cut off at max_norm: that turns the step. Scale all of them by one "
        "number": flat([np.clip(one, -limit, limit) for one in g]),
        "the norms are added up: the squares are, and the root comes last": flat(
            [one * limit / norms.sum() for one in g]
        ),
        "the root is missing: the squared norm is used": flat([one * limit / norm**2 for one in g]),
        "the gradients get norm 1: expected max_norm": flat([one / norm for one in g]),
    }
    ctx.close(
        run(gradients, limit),
        flat([one * limit / norm for one in g]),
        "large gradients: entry",
        wrong,
    )
    wrong = {
        "gradients below max_norm are scaled up: leave them alone": flat([one * 2 for one in g])
    }
    ctx.close(run(gradients, 2.0 * float(norm)), flat(g), "small gradients: entry", wrong)
    ctx.close(run(gradients, 0.0), 0 * flat(g), "for max_norm 0: entry")
    zeros, nan = [torch.zeros(3), torch.zeros(2)], "gradients of 0 have norm 0: do not divide by it"
    for limit in (1.0, 0.0):
        ctx.close(run(zeros, limit, nan=nan), np.zeros(5), "zero gradients: entry")


@exercise("01.jacobian_norms", title="What is left of the gradient", difficulty=4, minutes=12)
def jacobian_norms(answer, ctx):
    for saturated in (False, True):
        steps, size = ctx.sizes(steps=(1, 6), size=(1, 4))
        weight, states = ctx.normal(size, size), torch.tanh(ctx.normal(steps, size))
        if saturated:
            states[-1] = states[-1].sign()
        w, h = array(weight), array(states)

        def norms(
            derivative=lambda a: 1 - a**2,
            order: int | str = 2,
            flip=False,
            transpose=False,
            right=False,
            norm=np.linalg.norm,
        ):
            product, results = np.eye(size), []
            for state in h:
                one = (
                    w @ np.diag(derivative(state))
                    if right
                    else np.diag(derivative(state)) @ (w.T if transpose else w)
                )
                product = product @ one if flip else one @ product
                results.append(norm(product, order))
            return np.array(results)

        each = np.array([np.linalg.norm(np.diag(1 - state**2) @ w, 2) for state in h])
        got = ctx.floats(
            ctx.call(answer, weight, states), "the norms", (steps,), mention="one norm a step"
        )
        wrong = {
            "the slope of tanh is missing: each Jacobian is diag(1 - h²) U": norms(
                derivative=np.ones_like
            ),
            "the slope of tanh is 1 - h², not 1 - h": norms(derivative=lambda a: 1 - a),
            "the slope is not squared right: 1 - tanh(h)² is taken, but h is the tanh "
            "already": norms(derivative=lambda a: 1 - np.tanh(a) ** 2),
            "these are norms of single steps: multiply the Jacobians of all steps up to t": each,
            "norms are multiplied: that is an upper bound. Take the norm of the "
            "product": np.cumprod(each),
            "the product is in the wrong order: the newest Jacobian stands on the left": norms(
                flip=True
            ),
            "this is the Frobenius norm: expected the largest singular value": norms(order="fro"),
            "U and the slope are in the wrong order: h = tanh(U …), so each Jacobian is diag(1 - "
            "h²) U, not U diag(1 - h²)": norms(right=True),
            "this is the spectral radius, the largest absolute eigenvalue: expected the largest "
            "singular value": norms(
                norm=lambda product, _: np.abs(np.linalg.eigvals(product)).max()
            ),
            "U is transposed: the Jacobian of U h is U": norms(transpose=True),
        }
        ctx.close(got, norms(), "the norms", wrong)


@exercise(
    "01.loss_of_a_step", title="Find the bug: one step, several batches", difficulty=3, minutes=8
)
def loss_of_a_step(answer, ctx):
    count, batch, m, words = ctx.sizes(
        batches=(1, 5),
        batch=(1, 4),
        m=(1, 6),
        vocabulary=(2, 7),  # pad and a word
    )

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
        right, wrong = _losses(*drawn)
        values = [right, *wrong.values()]
        return count == 1 or np.diff(np.sort(values)).min() > 1e-3

    pad, batches = ctx.draw(sample, differ, 200 if batch > 1 and m > 1 else 1)
    right, wrong = _losses(pad, batches)
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
        lambda *logits: _losses(pad, list(zip(logits, labels)))[0],
    )
    for factor, shift in HARD_SCORES[1:]:
        hard = [(factor * logits + shift, targets) for logits, targets in batches]
        got = ctx.floats(ctx.call(answer, hard, pad), "the loss", ())
        size = max(float(logits.abs().max()) for logits, _ in hard)
        name = f"where a logit is {size:.0f} in size the loss"
        ctx.close(got, np.array(_losses(pad, hard)[0]), name)
    moved = [(logits.roll(-pad, -1), (targets - pad) % words) for logits, targets in batches]
    got = ctx.floats(ctx.call(answer, moved, 0), "where pad is 0 the loss", ())
    ctx.close(got, np.array(right), "where pad is 0 the loss")


def _losses(pad, batches):
    """The right loss, and those of known mistakes, by message."""
    # of each batch, (B, m): -log p of every target, whether it is a word, whether its id is not 0
    cost, real, above = [], [], []
    for logits, targets in batches:
        z, label = np.asarray(logits, dtype=float), array(targets)
        z = z - z.max(-1, keepdims=True)
        log_p = z - np.log(np.exp(z).sum(-1, keepdims=True))
        cost.append(-np.take_along_axis(log_p, label[..., None], -1)[..., 0])
        real.append(label != pad)
        above.append(label != 0)
    sums = np.array([(c * there).sum() for c, there in zip(cost, real)])
    counts = np.array([there.sum() for there in real])
    places = np.array([there.size for there in real])
    kept = sum(float((c * there).sum()) for c, there in zip(cost, above))
    rows, totals = np.array([len(there) for there in real]), np.array([c.sum() for c in cost])
    sentences = np.concatenate([(c * there).sum(1) / there.sum(1) for c, there in zip(cost, real)])
    return sums.sum() / counts.sum(), {
        "this is a mean of the batches' means: each batch counts alike, so a word weighs "
        "more in a batch of few words. Divide the sum of "
        "all losses by the number of all words": (sums / counts).mean(),
        "the means of the batches are added up: divide the sum of all losses by the number "
        "of all words": (sums / counts).sum(),
        "the batches' means are weighted by their numbers of sentences: expected by their "
        "numbers of words": (sums / counts * rows).sum() / rows.sum(),
        "the batches' means are weighted by their numbers of places, padding included: "
        "expected by their numbers of words": (sums / counts * places).sum() / places.sum(),
        "this is a mean of the sentences' means: a word weighs more in a short "
        "sentence": sentences.mean(),
        "the padding counts as words in what you divide by": sums.sum() / places.sum(),
        "each batch is divided by its number of places, padding included": (sums / places).mean(),
        "the padding counts as a word that has to be said": totals.sum() / places.sum(),
        "the loss of the padding is added up: what you divide by is right": totals.sum()
        / counts.sum(),
        "words with id 0 are left out: expected those equal to pad": kept
        / max(1, sum(int(there.sum()) for there in above)),
        "the loss is the sum over the words: expected their mean": sums.sum(),
        "the sum is divided by the number of batches: expected the number of words": sums.sum()
        / len(batches),
        "the sum is divided by the number of sentences: expected the number of words": sums.sum()
        / rows.sum(),
        "only the last batch counts: add up over the loop": sums[-1] / counts[-1],
        "only the first batch counts: return after the loop": sums[0] / counts[0],
        "the sums of all batches are divided by the number of words of the last one": sums.sum()
        / counts[-1],
    }
