"""Checks of the section on pictures: a draw on paper, a prediction, the gated context, the doubly
stochastic penalty, the loss of hard attention.
"""

import numpy as np
import torch
from torch import Tensor

from ..context import HARD_SCORES, array, softmax
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import on_paper


def _sigmoid(x):
    return 0.5 + 0.5 * np.tanh(x / 2)


@on_paper("03.one_draw", "the move", title="One draw", difficulty=2, minutes=5, within=0.001)
def one_draw():
    return 0.125, {
        "without the baseline: subtract the mean of log p": -0.25,
        "that is the slope alone, or the baseline is the plain mean: expected the mean under the "
        "weights": 0.25,
        "that is the gradient of the expectation, the mean over both draws": 0.375,
        "that is the slope of α, not of log α": 0.5 * 3 / 16,
        "the sign is turned: this draw went better than the baseline": -0.125,
        "that is the advantage alone: it is multiplied by a slope": 0.5,
    }


@exercise("03.strong_pull", title="Predict: A strong pull", difficulty=1, minutes=2)
def strong_pull(answer, ctx):
    return ctx.predicted(answer, "nearly all", "about half", "nearly none")


@exercise("03.gated_context", title="A gated look at a picture", difficulty=2, minutes=5)
def gated_context(answer, ctx):
    batch, regions, width, other = ctx.sizes(batch=(1, 3), regions=(1, 6), D=(1, 4), d=(1, 5))
    for d, (factor, shift) in zip((width, other, other), HARD_SCORES):
        features = ctx.normal(batch, regions, width)
        scores = factor * 2 * ctx.normal(batch, regions) + shift
        w, b = parameters = ctx.normal(d), ctx.normal(1)

        def both_signs(state):  # a ReLU shows
            return batch == 1 or (state @ w + b).min() * (state @ w + b).max() < 0

        state = ctx.draw(lambda: factor * ctx.normal(batch, d), both_signs, 50)
        got = ctx.call(answer, features, scores, state, *parameters)
        got = ctx.floats(
            got,
            "the context",
            (batch, width),
            nan="exp overflows for large numbers and is 0 for low ones: torch.softmax and "
            "torch.sigmoid avoid both",
            mention="one vector a picture, as wide as a feature",
        )
        a, e, h, w, b = (array(t) for t in (features, scores, state, *parameters))
        gate = _sigmoid(h @ w + b)[:, None]

        def context(weights):
            return np.einsum("bi,bid->bd", weights, a)

        alpha = softmax(e)
        wrong = {
            "the gate is missing: multiply the context by β": context(alpha),
            "the gate is not squeezed between 0 and 1: a sigmoid is missing": (h @ w + b)[:, None]
            * context(alpha),
            "a tanh stands where the sigmoid of the gate should": np.tanh(h @ w + b)[:, None]
            * context(alpha),
            "a ReLU stands where the sigmoid of the gate should": np.maximum(h @ w + b, 0)[:, None]
            * context(alpha),
            "b is not used in the gate": _sigmoid(h @ w)[:, None] * context(alpha),
            "the gate is turned round: β multiplies the context, not 1 − β": (1 - gate)
            * context(alpha),
            "the softmax is missing: the scores are used as weights": gate * context(e),
            "the softmax runs over the batch (dim=0): expected over the regions": gate
            * context(softmax(e, 0)),
            "the softmax runs over the channels of the features: expected over the regions": gate
            * (softmax(a) * a).sum(1),
            "the context is the plain mean of the regions: the weights are not used": gate
            * a.mean(1),
            "the context is the most probable region alone: that is hard attention": gate
            * a[np.arange(batch), e.argmax(1)],
            "the sum over the regions became a mean: the weights add up to 1, add them up": gate
            * context(alpha)
            / regions,
        }
        if width == d:
            vector = _sigmoid(h * w + b)
            wrong["the gate has one number a channel: it is one number for the whole context"] = (
                vector * context(alpha)
            )
        rough = 0.0 if (factor, shift) == HARD_SCORES[0] else np.abs(e).max() * np.abs(a).max()
        ctx.close(got, gate * context(alpha), "the context", wrong, size=rough)
        if factor == 1.0:
            simple = features, scores, state, *parameters

    def oracle(a, e, h, w, b):
        return _sigmoid(h @ w + b)[:, None] * np.einsum("bi,bid->bd", softmax(e), a)

    at = dict(enumerate(("the features", "the scores", "the state", "w", "b")))
    check_gradients(ctx, answer, simple, at, oracle)


@exercise("03.coverage", title="The doubly stochastic penalty", difficulty=2, minutes=5)
def coverage(answer, ctx):
    batch, steps, regions = ctx.sizes(batch=(1, 5), T=(1, 9), L=(1, 5))
    weights = ctx.weights(batch, steps, regions)
    lengths = ctx.lengths(batch, steps)
    got = ctx.call(answer, weights, lengths)
    got = ctx.floats(got, "the penalty", (batch,), mention="one number a caption")
    w, ends = array(weights), np.array(lengths.tolist())
    real = np.arange(steps)[None] < ends[:, None]
    seen = (w * real[..., None]).sum(1)

    def squares(total):
        return ((1 - total) ** 2).sum(-1)

    wrong = {
        "the padded steps are added up too: only the first lengths[b] steps of caption b "
        "count": squares(w.sum(1)),
        "one padded step is left in: the real steps are 0 … length - 1": squares(
            (w * (np.arange(steps)[None] <= ends[:, None])[..., None]).sum(1)
        ),
        "the last real step is left out: the real steps are 0 … length - 1": squares(
            (w * (np.arange(steps)[None] < ends[:, None] - 1)[..., None]).sum(1)
        ),
        "the weights are added up over the regions, where they always give 1: add up over the "
        "steps": (((1 - w.sum(2)) ** 2) * real).sum(1),
        "the weights are added up over the regions, where they always give 1, and 0 in the "
        "padding: add up over the steps": ((1 - (w * real[..., None]).sum(2)) ** 2).sum(1),
        "each step is squared alone: add up over the steps first": (
            ((1 - w) ** 2) * real[..., None]
        ).sum((1, 2)),
        "the square is missing: the parts cancel": (1 - seen).sum(-1),
        "the absolute value stands where the square should": np.abs(1 - seen).sum(-1),
        "the penalty is the mean over the regions: expected the sum": squares(seen) / regions,
        "the weights are averaged over the steps: expected the sum": squares(seen / ends[:, None]),
        "this is (1 − length)², since all weights of a step add up to 1: square the shortfall of "
        "each region, then add up": ((1 - seen.sum(-1)) ** 2),
        "the shortfalls are added up before the square: square that of each region first": (
            1 - seen
        ).sum(-1)
        ** 2,
        "each region is asked for its equal share of the steps: the formula asks each for 1": (
            (ends[:, None] / regions - seen) ** 2
        ).sum(-1),
        "only regions that fall short of 1 are counted: those above 1 pay too": (
            np.maximum(1 - seen, 0) ** 2
        ).sum(-1),
    }
    ctx.close(got, squares(seen), "the penalty", wrong)
    check_gradients(
        ctx,
        answer,
        (weights, lengths),
        {0: "the weights"},
        lambda w: squares((w * real[..., None]).sum(1)),
    )
    got = ctx.floats(ctx.call(answer, weights[:1], torch.tensor([0])), "the penalty", (1,))
    ctx.close(got, np.array([regions]), "without any steps: the penalty")


@exercise("03.reinforce", title="A loss for a choice", difficulty=4, minutes=13)
def reinforce(answer, ctx):
    batch, steps, regions = ctx.sizes(batch=(1, 3), T=(1, 4), L=(1, 5))
    for factor, what in ((1.5, "the scores"), (1e3, "large scores")):
        rate = ctx.integers(2, 9) / 10
        scores = (factor * ctx.normal(batch, steps, regions)).requires_grad_()
        chosen = ctx.integers(0, regions, batch, steps)
        log_p = (ctx.normal(batch) - 3).requires_grad_()
        baseline = -2 - ctx.normal(1)[0].abs()
        gradients, reached = {}, {}

        def graded(scores, chosen, log_p, baseline, entropy_weight):
            """The reader's loss, and its gradients, before ctx.tensor detaches it."""
            loss = answer(scores, chosen, log_p, baseline, entropy_weight)
            plain = type(loss) is Tensor and loss.requires_grad and loss.numel() == 1
            if plain:
                for name, to in (("scores", scores), ("log_p", log_p)):
                    (gradient_at,) = torch.autograd.grad(
                        loss, to, retain_graph=True, allow_unused=True
                    )
                    reached[name] = gradient_at is not None
                    gradients[name] = torch.zeros_like(to) if gradient_at is None else gradient_at
            return loss

        value = ctx.call(graded, scores, chosen, log_p, baseline, rate)
        value = ctx.floats(
            value,
            "the loss",
            (),
            mention="one number: the mean over the captions",
            nan="the logarithm of a weight that is 0 is −∞: log_softmax never takes it",
        )
        e, s, lp, b = array(scores), array(chosen), array(log_p), float(baseline)
        alpha, log_alpha = softmax(e), e - np.logaddexp.reduce(e, -1, keepdims=True)
        picked = np.eye(regions)[s]  # (batch, steps, regions)
        log_choice = (log_alpha * picked).sum((1, 2))
        entropy = -(alpha * log_alpha).sum((1, 2))
        # d log α_s / de = 1[s] − α,   dH / de = −α (log α + H)
        d_choice = picked - alpha
        d_entropy = -alpha * (log_alpha - (alpha * log_alpha).sum(-1, keepdims=True))

        def gradient(advantage, sign_entropy=-1.0, choice=d_choice):
            return (-advantage[:, None, None] * choice + sign_entropy * rate * d_entropy) / batch

        right = gradient(lp - b)
        if not gradients:
            ctx.fail(
                "no gradient can be taken of your loss: it must stay a tensor that depends on "
                "scores and log_p"
            )
        if not reached["scores"]:
            ctx.fail("no gradient reaches the scores: their log-probabilities must not be detached")
        got = array(gradients["scores"])
        other = np.eye(regions)[alpha.argmax(-1)]
        wrong = {
            "the sign of the baseline is wrong: the advantage is log p − b": gradient(lp + b),
            "the baseline is not used: the advantage is log p − b": gradient(lp),
            "the loss pushes the wrong way: a choice that did well must get more probable, so a "
            "minus belongs before the advantage": gradient(b - lp),
            "the entropy is punished: its term has a minus, so that looking around is "
            "rewarded": gradient(lp - b, 1.0),
            "no gradient comes from the entropy: its term is missing or detached": gradient(
                lp - b, 0.0
            ),
            "the log-probability is that of the most probable region: expected that of the chosen "
            "one": gradient(lp - b, choice=other - alpha),
            "the log-probabilities of all regions are added up: expected that of the chosen "
            "one": gradient(lp - b, choice=1 - regions * alpha),
            "the probability of the chosen region stands where its logarithm should": gradient(
                lp - b, choice=(alpha * picked).sum(-1, keepdims=True) * d_choice
            ),
            "the choices do not learn, since no gradient comes from advantage · log p(s): detach "
            "the advantage alone": gradient(np.zeros(batch)),
            "the scores at the chosen regions stand where log α should: a log_softmax is "
            "missing": gradient(lp - b, choice=picked),
            "the means over the captions are multiplied: multiply for each caption, then take the "
            "mean": gradient(np.full(batch, (lp - b).mean())),
            "log p(s) is averaged over the steps: expected the sum": gradient(
                lp - b, choice=d_choice / steps
            ),
            "the entropy is averaged over the steps: expected the sum": gradient(
                lp - b, -1.0 / steps
            ),
            "the advantage is left out: every choice is made more probable alike": gradient(
                np.ones(batch)
            ),
            "the gradient is that of a sum over the captions: expected the mean": batch * right,
        }
        ctx.close(got, right, f"the gradient at {what}", wrong if factor == 1.5 else {})
        got = array(gradients["log_p"])
        wrong = {
            "the advantage carries a gradient: detach it, or log p is pushed by how probable the "
            "choice was": (-1 - log_choice) / batch,
            "the words do not learn: −log p itself is missing": np.zeros(batch),
        }
        ctx.close(got, -np.ones(batch) / batch, "the gradient at log_p", wrong)
        expected = (-lp - (lp - b) * log_choice - rate * entropy).mean()
        ctx.close(value, expected, "the loss")
