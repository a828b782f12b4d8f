"""Checks of the section on pictures: a prediction, weights between soft and hard, a draw on paper,
the loss of hard attention.
"""

import numpy as np
import torch
from torch import Tensor

from ..context import array, softmax
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import Slips, on_paper


@exercise("03.strong_pull", title="Predict: A strong pull", difficulty=1, minutes=2)
def strong_pull(answer, ctx):
    return ctx.predicted(answer, "nearly all", "about half", "nearly none")


def _sparsemax(z):
    top = np.sort(z)[..., ::-1]
    total = top.cumsum(-1)
    k = np.arange(1, z.shape[-1] + 1)
    size = (1 + k * top > total).sum(-1)[..., None]
    tau = (np.take_along_axis(total, size - 1, -1) - 1) / size
    return np.maximum(z - tau, 0)


_SPARSEMAX = Slips(
    _sparsemax,
    {
        "this is the softmax": ("np.maximum(z - tau, 0) → softmax(z)"),
        "the weights are those of the sorted scores: each belongs to its own score": (
            "np.maximum(z - tau → np.maximum(top - tau"
        ),
        "negative weights are left: what lies below tau gets 0": (
            "np.maximum(z - tau, 0) → (z - tau)"
        ),
        "tau is made of all scores, not only of the k(z) largest": "[..., ::-1] →",
        "the sum goes one score too far: gather counts from 0, k from 1": (
            "size - 1, → np.minimum(size, len(k) - 1),"
        ),
        "the 1 in tau is missing": "-1) - 1) / size → -1)) / size",
        "the sum less 1 is divided by K: expected by k(z)": "- 1) / size → - 1) / len(k)",
        "k is missing in the condition": "k * top → top",
        "the condition is taken the wrong way round": "1 + k * top > → 1 + k * top <",
    },
)


@exercise("03.sparsemax", title="From the formula: between soft and hard", difficulty=3, minutes=12)
def sparsemax(answer, ctx):
    for spread, shift in ((0.7, 0.0), (1e-3, 0.0), (1e3, 0.0), (1.0, -3e4)):
        batch, m, K = ctx.sizes(batch=(1, 3), m=(1, 4, 3), places=(1, 7))
        scores = spread * ctx.normal(batch, m, K) + shift
        name = (
            "the weights"
            if spread < 1
            else f"for scores from {float(scores.min()):.0f} on the weights"
        )
        got = ctx.floats(ctx.call(answer, scores), name, (batch, m, K))
        right, wrong = _SPARSEMAX(array(scores))
        rough = 0.0 if spread < 1 else float(scores.abs().max()) * K
        ctx.close(got, right, name, wrong if spread < 1 else None, size=rough)
    row = ctx.normal(6)
    ctx.close(
        ctx.floats(ctx.call(answer, row), "the weights of one row", (6,)),
        _sparsemax(array(row)),
        "the weights of one row",
    )
    apart = 0.7 * (torch.arange(K) / 2 + 0.03 * ctx.normal(batch, m, K))  # none is near its kink
    apart = apart[..., ctx.order(K)]
    check_gradients(ctx, answer, (apart,), {0: "scores"}, _sparsemax)


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


def _losses(e, s, lp, b, rate):
    """The loss of every caption."""
    log_alpha = e - np.logaddexp.reduce(e, -1, keepdims=True)
    log_choice = np.take_along_axis(log_alpha, s[..., None], -1).sum((1, 2))
    entropy = -(np.exp(log_alpha) * log_alpha).sum((1, 2))
    return -lp - (lp - b) * log_choice - rate * entropy


def _pull(e, s, lp, b, rate):
    """The gradient at the scores: d log α_s / de = 1[s] − α, dH / de = −α (log α + H)."""
    alpha, log_alpha = softmax(e), e - np.logaddexp.reduce(e, -1, keepdims=True)
    choice = np.eye(e.shape[2])[s] - alpha
    entropy = -alpha * (log_alpha - (alpha * log_alpha).sum(-1, keepdims=True))
    advantage = (lp - b)[:, None, None]
    return (-advantage * choice - rate * entropy) / len(e)


_PULL = Slips(
    _pull,
    {
        "the sign of the baseline is wrong: the advantage is log p − b": "lp - b → lp + b",
        "the baseline is not used: the advantage is log p − b": "(lp - b) → lp",
        "the loss pushes the wrong way: a choice that did well must get more probable, so a minus "
        "belongs before the advantage": "lp - b → b - lp",
        "the entropy is punished: "
        "its term has a minus, so that looking around is rewarded": "- rate → + rate",
        "no gradient comes from the entropy: its term is missing or detached": "- rate * entropy →",
        "the log-probability is that of the most probable region: "
        "expected that of the chosen one": "[s] → [alpha.argmax(-1)]",
        "the log-probabilities of all regions are added up: "
        "expected that of the chosen one": "np.eye(e.shape[2])[s] - alpha → 1 - e.shape[2] * alpha",
        "the probability of the chosen region stands where its logarithm should": (
            "* choice → * choice * np.take_along_axis(alpha, s[..., None], -1)"
        ),
        "the choices do not learn, since no gradient comes from advantage · log p(s): detach the "
        "advantage alone": "-advantage * choice →",
        "the scores at the chosen regions stand where log α should: "
        "a log_softmax is missing": "[s] - alpha → [s]",
        "the means over the captions are multiplied: multiply for each caption, then take the "
        "mean": "(lp - b)[:, None, None] → (lp - b).mean()",
        "log p(s) is averaged over the steps: expected the sum": "* choice → * choice / e.shape[1]",
        "the entropy is averaged over the steps: "
        "expected the sum": "* entropy) → * entropy / e.shape[1])",
        "the advantage is left out: "
        "every choice is made more probable alike": "-advantage * choice → -choice",
        "the gradient is that of a sum over the captions: expected the mean": "/ len(e) →",
    },
)


@exercise("03.reinforce", title="A loss for a choice", difficulty=4, minutes=13)
def reinforce(answer, ctx):
    batch, steps, regions = ctx.sizes(batch=(1, 3), T=(1, 4), L=(1, 5))
    for factor, what in ((1.5, "the scores"), (1e3, "large scores")):
        rate = ctx.integers(2, 9) / 10
        scores, chosen = (
            factor * ctx.normal(batch, steps, regions),
            ctx.integers(0, regions, batch, steps),
        )
        log_p, baseline = ctx.normal(batch) - 3, -2 - ctx.normal(1)[0].abs()
        gradients, reached = {}, set()

        def graded(scores, chosen, log_p, baseline, entropy_weight):
            """The reader's loss, and its gradients, before ctx.tensor detaches it."""
            loss = answer(scores, chosen, log_p, baseline, entropy_weight)
            if type(loss) is Tensor and loss.requires_grad and loss.numel() == 1:
                at = {"scores": scores, "log_p": log_p, "baseline": baseline}
                found = torch.autograd.grad(
                    loss, [*at.values()], retain_graph=True, allow_unused=True
                )
                reached.update(name for name, one in zip(at, found) if one is not None)
                gradients.update(
                    (name, torch.zeros_like(to) if one is None else one)
                    for (name, to), one in zip(at.items(), found)
                )
            return loss

        floats = [one.requires_grad_() for one in (scores, log_p, baseline)]
        value = ctx.call(graded, floats[0], chosen, *floats[1:], rate)
        value = ctx.floats(
            value,
            "the loss",
            (),
            mention="one number: the mean over the captions",
            nan="the logarithm of a weight that is 0 is −∞: log_softmax never takes it",
        )
        if not gradients:
            ctx.fail(
                "no gradient can be taken of your loss: it must stay a tensor that depends on "
                "scores and log_p"
            )
        if "scores" not in reached:
            ctx.fail("no gradient reaches the scores: their log-probabilities must not be detached")
        inputs = array(scores), array(chosen), array(log_p), array(baseline), rate
        right, wrong = _PULL(*inputs)
        ctx.close(
            gradients["scores"], right, f"the gradient at {what}", wrong if factor == 1.5 else None
        )
        log_choice = _losses(*inputs[:2], 0 * inputs[2], -1, 0) * -1
        wrong = {
            "the advantage carries a gradient: detach it, or log p is pushed by how probable the "
            "choice was": (-1 - log_choice) / batch,
            "the words do not learn: −log p itself is missing, or detached": np.zeros(batch),
        }
        ctx.close(gradients["log_p"], -np.ones(batch) / batch, "the gradient at log_p", wrong)
        if array(gradients["baseline"]).any():
            ctx.fail(
                "a gradient reaches the baseline: the advantage is a constant, detach all of it"
            )
        ctx.close(value, _losses(*inputs).mean(), "the loss")
