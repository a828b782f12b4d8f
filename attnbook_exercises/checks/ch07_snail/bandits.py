"""Checks of the section on bandits: what a look is worth, a network that is lied to, the arm that
optimism pulls, and the loss of an agent that learns from its rewards.
"""

import numpy as np
import torch
from torch import Tensor

from ..context import array, softmax
from ..registry import exercise
from ..slips import on_paper


@on_paper(
    "07.worth_of_a_look",
    "the reward",
    title="What a look is worth",
    difficulty=1,
    minutes=5,
    within=0.007,
)
def worth_of_a_look():
    return 5 / 3, {
        "that is what you earn if you never change arms, whichever you begin with": 1.5,
        "that is the answer of the text, for two pulls": 13 / 12,
        "that is only what looking adds: expected all that three pulls earn": 1 / 6,
        "that is the reward per pull: expected that of all three": 5 / 9,
        "after a win you stay for one pull only: with ⅔ the untouched arm is the better one for "
        "both": 19 / 12,
        "after a win the arm is not certain to pay: expected is (s + 1)/(s + f + 2)": 2.0,
        "either the first win itself is missing, or what the known arm pays after a loss": 7 / 6,
    }


@exercise("07.lied_to", title="Predict: A network that is lied to", difficulty=1, minutes=4)
def lied_to(answer, ctx):
    return ctx.predicted(answer, "as much as before", "as much as at random", "less than at random")


def _histories(ctx, worlds, arms):
    """Counts of worlds: short and long lives, arms that were never pulled, none with two different
    arms that are nearly as good.
    """
    usual, short = 1200, 20_000
    pulls = ctx.integers(1, 9, usual + short, arms)
    pulls[1:usual:4] *= ctx.integers(10, 60, usual // 4, 1)  # the means tell more than the widths
    pulls[1:usual:2] *= torch.rand(usual // 2, arms, generator=ctx.generator) > 0.25
    pulls = pulls.float()
    wins = (torch.rand(pulls.shape, generator=ctx.generator) * (pulls + 1)).floor()
    wins = wins.clamp(max=pulls)
    w, n = array(wins), array(pulls)
    choices, clear = [], True
    for more in (0, 1):
        bounds = _bounds(w, n, total=n.sum(1, keepdims=True) + more)
        best = bounds.argmax(1)
        bounds[np.arange(len(w)), best] -= 1e-3
        choices.append(best)
        clear &= bounds.argmax(1) == best
    # of the short lives those in which it matters whether t counts the next pull, too
    matters = clear & (choices[0] != choices[1])
    counts, first = torch.stack([wins, pulls], 1), torch.eye(arms)
    plain = counts[:usual][clear[:usual]]
    special = (
        counts[usual:][matters[usual:]][:10],
        torch.stack([first, first], 1),  # the first pull won, and ln 1 is 0
        torch.zeros(1, 2, arms),  # no pull yet
    )
    return torch.cat([plain[:1], *special, plain[1:]])[:worlds].unbind(1)


def _bounds(wins, pulls, total=None, factor=2.0, log=np.log, root=np.sqrt, untried=np.inf):
    total = pulls.sum(1, keepdims=True) if total is None else total
    safe = np.maximum(pulls, 1)
    bounds = wins / safe + root(factor * log(np.maximum(total, 1)) / safe)
    return np.where(pulls == 0, untried, bounds)


@exercise("07.ucb_choice", title="The arm of the optimist", difficulty=2, minutes=6)
def ucb_choice(answer, ctx):
    wins, pulls = _histories(ctx, *ctx.sizes(worlds=(1, 600), arms=(1, 5)))
    got = ctx.call(answer, wins, pulls)
    if isinstance(got, Tensor) and got.shape == wins.shape:
        ctx.fail(
            "one number an arm came back: expected one arm a world, the one with the highest bound"
        )
    got = array(
        ctx.tensor(got, "the arms", (len(wins),), dtype=torch.long, mention="one arm a world")
    )
    w, n = array(wins), array(pulls)
    right = _bounds(w, n).argmax(1)
    lower = np.where(
        n == 0,
        np.inf,
        w / np.maximum(n, 1)
        - np.sqrt(2 * np.log(np.maximum(n.sum(1, keepdims=True), 1)) / np.maximum(n, 1)),
    )
    wrong = {
        "an arm that was never pulled is not pulled now: 0 pulls have to give the highest bound "
        "of all": _bounds(w, n, untried=-np.inf).argmax(1),
        "an arm that was never pulled is not pulled now, its bound is 0: 0 pulls have to give "
        "the highest bound of all": _bounds(w, n, untried=0.0).argmax(1),
        "an arm that was never pulled counts as pulled once: 0 pulls have to give the highest "
        "bound of all": (
            w / np.maximum(n, 1)
            + np.sqrt(2 * np.log(np.maximum(n.sum(1, keepdims=True), 1)) / np.maximum(n, 1))
        ).argmax(1),
        "of several arms that were never pulled the last is taken: expected the one with the "
        "lowest number": (n.shape[1] - 1 - _bounds(w, n)[:, ::-1].argmax(1)),
        "the arm of the lowest bound is pulled: expected the highest": _bounds(w, n).argmin(1),
        "the width is taken off the mean: that is caution. Add it": lower.argmax(1),
        "the width is missing, or all arms have the same: the arm of the highest mean is "
        "pulled": np.where(n == 0, np.inf, w / np.maximum(n, 1)).argmax(1),
        "the mean is missing, or all arms have the same: only the width counts, and that pulls "
        "all arms alike": _bounds(0 * w, n).argmax(1),
        "wins stand where the mean should: divide by the pulls of the arm": (
            _bounds(0 * w, n) + w
        ).argmax(1),
        "the 2 under the root is missing": _bounds(w, n, factor=1.0).argmax(1),
        "the root is missing": _bounds(w, n, root=lambda x: x).argmax(1),
        "the logarithm is missing": _bounds(w, n, log=lambda x: x).argmax(1),
        "the logarithm has base 10: expected the natural one": _bounds(w, n, log=np.log10).argmax(
            1
        ),
        "the logarithm has base 2: expected the natural one": _bounds(w, n, log=np.log2).argmax(1),
        "a small number added to the pulls does not do where one pull was made: ln 1 is 0, and "
        "so is the bound of all arms that were never pulled": (
            w / (n + 1e-9)
            + np.sqrt(2 * np.log(np.maximum(n.sum(1, keepdims=True), 1)) / (n + 1e-9))
        ).argmax(1),
        "t is one pull too large: it counts those that have been made": _bounds(
            w, n, total=n.sum(1, keepdims=True) + 1
        ).argmax(1),
        "t is the number of pulls of all worlds together: expected that of each world": _bounds(
            w, n, total=n.sum()
        ).argmax(1),
        "t is the number of pulls of the arm: expected that of all arms of the world": _bounds(
            w, n, total=n
        ).argmax(1),
        "t is the number of worlds or of arms: expected the pulls of all arms of the "
        "world": _bounds(w, n, total=np.full((len(n), 1), n.shape[1])).argmax(1),
        "the pulls of the arm stand outside the root: they belong under it": np.where(
            n == 0,
            np.inf,
            w / np.maximum(n, 1)
            + np.sqrt(2 * np.log(np.maximum(n.sum(1, keepdims=True), 1))) / np.maximum(n, 1),
        ).argmax(1),
        "the 2 stands outside the root": (_bounds(w, n, root=lambda x: 2 * np.sqrt(x / 2))).argmax(
            1
        ),
        "the mean is (wins + 1)/(pulls + 2): UCB1 takes wins/pulls": np.where(
            n == 0, np.inf, (w + 1) / (n + 2) + _bounds(0 * w, n, untried=0.0)
        ).argmax(1),
    }
    ctx.close(got, right, "the arms", wrong)


_UNDERFLOW = "a softmax is 0 there in float32, its logarithm is not finite: log_softmax is"


@exercise("07.policy_loss", title="A loss from rewards", difficulty=3, minutes=12)
def policy_loss(answer, ctx):
    # a single action is taken whatever the logits are
    worlds, steps, actions = ctx.sizes(worlds=(1, 5), steps=(1, 6), actions=(2, 5))
    logits = ctx.normal(worlds, steps, actions).requires_grad_()
    values = ctx.normal(worlds, steps).requires_grad_()
    chosen = ctx.integers(0, actions, worlds, steps)
    rewards = ctx.normal(worlds, steps) + 1
    collected = {}

    def graded(logits, values, chosen, rewards):
        """The reader's loss, and its gradients, before ctx.tensor detaches it."""
        loss = answer(logits, values, chosen, rewards)
        if type(loss) is Tensor and loss.requires_grad and loss.numel() == 1:
            for name, to in (("logits", logits), ("values", values)):
                (bounds,) = torch.autograd.grad(loss, to, retain_graph=True, allow_unused=True)
                collected[name] = None if bounds is None else array(bounds)
        return loss

    value = ctx.call(graded, logits, values, chosen, rewards)
    value = ctx.floats(value, "the loss", (), mention="one number: the mean over the worlds")
    if not collected:
        ctx.fail(
            "no gradient can be taken of your loss: it must stay a tensor that depends on logits "
            "and values"
        )
    if collected["logits"] is None:
        ctx.fail("no gradient reaches the logits: detach the advantage alone, not log π")
    z, v, r = array(logits), array(values), array(rewards)
    picked = np.eye(actions)[array(chosen)]
    p = softmax(z)
    returns = np.cumsum(r[:, ::-1], 1)[:, ::-1]

    def grad(gains, choice=picked, scale=1.0):
        return -scale * gains[..., None] * (choice - p) / worlds

    gains = returns - v
    after = returns - r
    whole = np.repeat(returns[:, :1], steps, 1)
    flat = r.ravel()[::-1].cumsum()[::-1].reshape(r.shape)
    right = grad(gains)
    ctx.close(
        collected["logits"],
        right,
        "the gradient at the logits",
        {
            "the loss pushes the wrong way: an action that did better than expected must get "
            "more probable, a minus belongs before A log π": grad(-gains),
            "the baseline is not used: the advantage is the return minus the value": grad(returns),
            "the value is added to the return: the advantage is the return minus the value": grad(
                returns + v
            ),
            "the reward of the step alone stands where the return should: add up all rewards "
            "from the step on": grad(r - v),
            "the return leaves out the reward of the step itself": grad(after - v),
            "the return is the total of the whole life at every step: rewards before an action "
            "are no merit of it": grad(whole - v),
            "rewards are added up from the start to the step: expected from the step to the "
            "end": grad(np.cumsum(r, 1) - v),
            "rewards are added up over the end of a world into the next one": grad(flat - v),
            "rewards are added up over the worlds: expected over the steps of each world": grad(
                np.cumsum(r[::-1], 0)[::-1] - v
            ),
            "the log-probability is that of the most probable action: expected that of the "
            "action taken": grad(gains, np.eye(actions)[z.argmax(-1)]),
            "the logits of the actions taken stand where log π should: a log_softmax is "
            "missing": -gains[..., None] * picked / worlds,
            "the advantages are normalised: expected R − V as it is": grad(
                (gains - gains.mean()) / gains.std(ddof=1)
            ),
            "the mean advantage is taken off: expected R − V as it is": grad(gains - gains.mean()),
            "π stands where log π should": grad(gains * (p * picked).sum(-1)),
            "the loss is summed over the worlds: expected the mean over the worlds": right * worlds,
            "the loss is the mean over the steps too: add up the steps of a world": right / steps,
            "the softmax runs over the steps (dim=1): expected over the actions": -gains[..., None]
            * picked
            / worlds
            + (gains[..., None] * picked).sum(1, keepdims=True) * softmax(z, 1) / worlds,
            "every action is made more probable alike: the advantage is left out": grad(
                np.ones_like(gains)
            ),
        },
    )
    if collected["values"] is None:
        ctx.fail(
            "no gradient reaches the values: the term ½ (V − R)² is missing, or its values are "
            "detached"
        )
    log_p = (np.log(p) * picked).sum(-1)
    ctx.close(
        collected["values"],
        (v - returns) / worlds,
        "the gradient at the values",
        {
            "the advantage carries a gradient to the values: detach it in the term of the policy": (
                v - returns + log_p
            )
            / worlds,
            "the advantage carries a gradient to the values, and their own term is missing: "
            "detach it, and add ½ (V − R)²": log_p / worlds,
            "the term of the values is missing or detached: ½ (V − R)²": np.zeros_like(v),
            "the ½ before (V − R)² is missing": 2 * (v - returns) / worlds,
            "the values learn the reward of the step: expected the return": (v - r) / worlds,
            "the values learn the wrong way: (V − R)² has a plus": (returns - v) / worlds,
            "the term of the values is a sum over the worlds: expected the mean": v - returns,
            "the term of the values is the mean over the steps: add up the steps of a world": (
                v - returns
            )
            / worlds
            / steps,
        },
    )
    expected = (-(gains * log_p) + 0.5 * gains**2).sum(1).mean()
    ctx.close(value, expected, "the loss")
    sure = 1000 * torch.tensor([[ctx.order(actions) for _ in range(steps)] for _ in range(worlds)])
    value = ctx.call(answer, sure.float(), values, chosen, rewards)
    value = ctx.floats(value, "for large logits: the loss", (), nan=_UNDERFLOW)
    log_p = ((array(sure) - array(sure).max(-1, keepdims=True)) * picked).sum(-1)
    expected = (-(gains * log_p) + 0.5 * gains**2).sum(1).mean()
    ctx.close(value, expected, f"for large logits ({_UNDERFLOW}): the loss")
