"""Checks of the section on bandits: a network that is lied to, a rate and a baseline, the arm that
optimism pulls, and the loss of an agent that learns from its rewards.
"""

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ..context import array, shape_of, softmax
from ..registry import exercise
from ..slips import Slips


@exercise("07.lied_to", title="Predict: A network that is lied to", difficulty=1, minutes=4)
def lied_to(answer, ctx):
    return ctx.predicted(answer, "as much as before", "as much as at random", "less than at random")


def _agents(rate, baseline, pulls=100, agents=500):
    """The probability with which each agent pulls the better arm after its training, which is the
    same in every run of the check.
    """
    generator, logits = torch.Generator().manual_seed(0), torch.zeros(agents, 2)
    for _ in range(pulls):
        chance = logits.softmax(1)
        arm = (torch.rand(agents, generator=generator) < chance[:, 1]).long()
        rewards = 100 + arm + torch.randn(agents, generator=generator)
        slope = F.one_hot(arm, 2) - chance  # of the logarithm of the chance of this arm
        logits += rate * (rewards - baseline)[:, None] * slope
    return logits.softmax(1)[:, 1]


@exercise(
    "07.rate_and_baseline", title="Choose a setting: a rate and a baseline", difficulty=2, minutes=7
)
def rate_and_baseline(answer, ctx):
    names = "the rate", "the baseline"
    got = ctx.parts(ctx.call(answer), names)
    rate, baseline = (ctx.number(part, name) for part, name in zip(got, names))
    if rate <= 0:
        ctx.fail(f"the rate is {rate:g}: expected a number above 0, as steps go up the slope")
    if ctx.case:
        return "right."  # one training run is enough
    chance = _agents(rate, baseline)
    if not torch.isfinite(chance).all():
        ctx.fail(f"with a rate of {rate:g} the logits are no longer finite: it is too large")
    better, worse = (100 * (chance > 0.9).double().mean(), 100 * (chance < 0.1).double().mean())
    said = f"of 100 agents {better:.0f} hold the better arm, and {worse:.0f} hold the worse one"
    if better >= 95:
        return f"right: {said}."
    if worse < 5:
        ctx.fail(f"{said}: most have not made up their minds, the steps are too small or too wild")
    ctx.fail(
        f"{said}: "
        + (
            "after a pull of either arm r − b says the same, so an agent goes where its first "
            "pulls sent it"
            if abs(baseline - 100.5) > 2
            else "a few noisy rewards decide for good, the rate is too large"
        )
    )


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
        bounds = _bounds(w, n, n.sum(1, keepdims=True) + more)
        best = bounds.argmax(1)
        bounds[np.arange(len(w)), best] -= 1e-3
        choices.append(best)
        clear &= bounds.argmax(1) == best
    # of the short lives those in which it matters whether t counts the next pull, too
    matters = clear & (choices[0] != choices[1])
    counts, first = torch.stack([wins, pulls], 1), torch.eye(arms)
    plain = counts[:usual][clear[:usual]]
    # an arm that was pulled once in a long life has a high bound, one without a pull a higher one
    rare = torch.full((arms,), 1e6)
    rare[0], rare[arms // 2] = 1, 0
    special = (
        counts[usual:][matters[usual:]][:10],
        torch.stack([first, first], 1),  # the first pull won, and ln 1 is 0
        torch.zeros(1, 2, arms),  # no pull yet
        rare.expand(1, 2, arms),
    )
    return torch.cat([plain[:1], *special, plain[1:]])[:worlds].unbind(1)


def _bounds(wins, pulls, total):
    safe = np.maximum(pulls, 1)
    bounds = wins / safe + np.sqrt(2 * np.log(np.maximum(total, 1)) / safe)
    return np.where(pulls == 0, np.inf, bounds)


def _choice(wins, pulls):
    t = pulls.sum(1, keepdims=True)
    t, safe = np.maximum(t, 1), np.maximum(pulls, 1)
    bounds = wins / safe + np.sqrt(2 * np.log(t) / safe)
    return np.where(pulls == 0, np.inf, bounds).argmax(1)


_CHOICE = Slips(
    _choice,
    {
        "an arm that was never pulled is not pulled now: "
        "0 pulls have to give the highest bound of all": "np.inf → -np.inf",
        "an arm that was never pulled is not pulled now, its bound is 0: "
        "0 pulls have to give the highest bound of all": "np.inf → 0.0",
        "an arm that was never pulled counts as pulled once: "
        "0 pulls have to give the highest bound of all": "np.inf → bounds",
        "of several arms that were never pulled the last is taken: expected the one with the "
        "lowest number": "np.where(pulls == 0, np.inf, bounds).argmax(1) → pulls.shape[1] - 1 - "
        "np.where(pulls == 0, np.inf, bounds)[:, ::-1].argmax(1)",
        "the arm of the lowest bound is pulled: expected the highest": "argmax → argmin",
        "the width is taken off the mean: that is caution. Add it": "+ np.sqrt → - np.sqrt",
        "the width is missing, or all arms have the same: "
        "the arm of the highest mean is pulled": "+ np.sqrt(2 * np.log(t) / safe) →",
        "the mean is missing, or all arms have the same: "
        "only the width counts, and that pulls all arms alike": "wins / safe + →",
        "wins stand where the mean should: divide by the pulls of the arm": "wins / safe → wins",
        "the 2 under the root is missing": "2 * np.log(t) → np.log(t)",
        "the root is missing": "np.sqrt(2 → (2",
        "the logarithm is missing": "np.log(t) → t",
        "the logarithm has base 10: expected the natural one": "np.log(t) → np.log10(t)",
        "the logarithm has base 2: expected the natural one": "np.log(t) → np.log2(t)",
        "a small number added to the pulls does not do where one pull was made: ln 1 is 0, and "
        "so is the bound of all arms that were never pulled": (
            "np.maximum(pulls, 1) → pulls + 1e-9",
            "np.inf → bounds",
        ),
        "t is one pull too large: "
        "it counts those that have been made": "t = pulls.sum(1, keepdims=True) → t = 1 + "
        "pulls.sum(1, keepdims=True)",
        "t is the number of pulls of all worlds together: "
        "expected that of each world": "pulls.sum(1, keepdims=True) → pulls.sum()",
        "t is the number of pulls of the arm: "
        "expected that of all arms of the world": "pulls.sum(1, keepdims=True) → pulls",
        "t is the number of arms: "
        "expected the pulls of all arms of the world": "pulls.sum(1, keepdims=True) → "
        "pulls.shape[1]",
        "the pulls of the arm stand outside the root: "
        "they belong under it": "np.sqrt(2 * np.log(t) / safe) → np.sqrt(2 * np.log(t)) / safe",
        "the 2 stands outside the root": "np.sqrt(2 * np.log(t) / safe) → 2 * np.sqrt(np.log(t) / "
        "safe)",
        "the mean is (wins + 1)/(pulls + 2): "
        "UCB1 takes wins/pulls": "wins / safe → (wins + 1) / (pulls + 2)",
    },
)


@exercise("07.ucb_choice", title="The arm of the optimist", difficulty=2, minutes=6)
def ucb_choice(answer, ctx):
    # two of a thousand arms are nearly as good
    wins, pulls = _histories(ctx, *ctx.sizes(worlds=(1, 600), arms=(1, 5, 40)))
    got = ctx.call(answer, wins, pulls)
    if shape_of(got) == wins.shape:
        ctx.fail(
            "one number an arm came back: expected one arm a world, the one with the highest bound"
        )
    got = ctx.tensor(got, "the arms", (len(wins),), dtype=torch.long, mention="one arm a world")
    right, wrong = _CHOICE(array(wins), array(pulls))
    ctx.close(got, right, "the arms", wrong)


def _minus_slope(logits, values, chosen, rewards):
    """The gradient of the loss at the logits."""
    worlds, steps, actions = logits.shape
    picked, p = np.eye(actions)[chosen], softmax(logits)
    to_come = rewards[:, ::-1].cumsum(1)[:, ::-1]
    gains = to_come - values
    return -gains[..., None] * (picked - p) / worlds


_MINUS_SLOPE = Slips(
    _minus_slope,
    {
        "the loss pushes the wrong way: an action that did better than expected must get more "
        "probable, a minus belongs before A log π": "-gains → gains",
        "the baseline is not used: the advantage is the return minus the value": "- values →",
        "the value is added to the return: "
        "the advantage is the return minus the value": "- values → + values",
        "the reward of the step alone stands where the return should: "
        "add up all rewards from the step on": "rewards[:, ::-1].cumsum(1)[:, ::-1] → rewards",
        "the return leaves out the reward of the step itself": "- values → - rewards - values",
        "the return is the total of the whole life at every step: rewards before an action are no "
        "merit of it": "rewards[:, ::-1].cumsum(1)[:, ::-1] → rewards.sum(1, keepdims=True)",
        "rewards are added up from the start to the step: "
        "expected from the step to the end": "[:, ::-1].cumsum(1)[:, ::-1] → .cumsum(1)",
        "rewards are added up over the end of a world into the next one": "rewards[:, "
        "::-1].cumsum(1)[:, ::-1] → rewards.ravel()[::-1].cumsum()[::-1].reshape(rewards.shape)",
        "rewards are added up over the worlds: "
        "expected over the steps of each world": "[:, ::-1].cumsum(1)[:, ::-1] → "
        "[::-1].cumsum(0)[::-1]",
        "the log-probability is that of the most probable action: "
        "expected that of the action taken": "[chosen] → [logits.argmax(-1)]",
        "the logits of the actions taken stand where log π should: "
        "a log_softmax is missing": "picked - p → picked",
        "the advantages are normalised: "
        "expected R − V as it is": "return → gains = (gains - gains.mean()) / gains.std(ddof=1)"
        "\n    return",
        "the mean advantage is taken off: "
        "expected R − V as it is": "-gains → -(gains - gains.mean())",
        "π stands where "
        "log π should": "-gains[..., None] → -(gains * (p * picked).sum(-1))[..., None]",
        "the loss is summed over the worlds: expected the mean over the worlds": "/ worlds →",
        "the loss is the mean over the steps too: "
        "add up the steps of a world": "/ worlds → / worlds / steps",
        "the softmax runs over the steps (dim=1): expected over the actions": (
            "softmax(logits) → softmax(logits, 1)",
            "* (picked - p) → * picked",
            "/ worlds → / worlds + (gains[..., None] * picked).sum(1, keepdims=True) * p / worlds",
        ),
        "every action is made more probable alike: "
        "the advantage is left out": "-gains[..., None] → -1",
    },
)


def _at_values(logits, values, chosen, rewards):
    """The gradient of the loss at the values."""
    worlds, steps = values.shape
    picked = np.eye(logits.shape[-1])[chosen]
    log_p = (np.log(softmax(logits)) * picked).sum(-1)
    gap = values - rewards[:, ::-1].cumsum(1)[:, ::-1]
    return (gap + 0 * log_p) / worlds


_AT_VALUES = Slips(
    _at_values,
    {
        "the advantage carries a gradient to the values: detach it in the term of the "
        "policy": "0 * →",
        "the advantage carries a gradient to the values, and their own term is missing: "
        "detach it, and add ½ (V − R)²": "gap + 0 * →",
        "the term of the values is missing or detached: ½ (V − R)²": "gap + →",
        "the ½ before (V − R)² is missing": "gap + → 2 * gap +",
        "the values learn the reward of the step: "
        "expected the return": "[:, ::-1].cumsum(1)[:, ::-1] →",
        "the values learn the wrong way: (V − R)² has a plus": "gap + → -gap +",
        "the term of the values is a sum over the worlds: expected the mean": "/ worlds →",
        "the term of the values is the mean over the steps: "
        "add up the steps of a world": "/ worlds → / worlds / steps",
    },
)


def _loss(logits, values, chosen, rewards):
    scores = logits - logits.max(-1, keepdims=True)
    logs = scores - np.log(np.exp(scores).sum(-1, keepdims=True))
    log_p = (logs * np.eye(logits.shape[-1])[chosen]).sum(-1)
    gains = rewards[:, ::-1].cumsum(1)[:, ::-1] - values
    return (-(gains * log_p) + 0.5 * gains**2).sum(1).mean()


@exercise("07.policy_loss", title="A loss from rewards", difficulty=3, minutes=12)
def policy_loss(answer, ctx):
    # a single action is taken whatever the logits are
    worlds, steps, actions = ctx.sizes(worlds=(1, 5, 5), steps=(1, 6), actions=(2, 5, 5))
    logits = ctx.normal(worlds, steps, actions).requires_grad_()
    values = ctx.normal(worlds, steps).requires_grad_()
    chosen = ctx.integers(0, actions, worlds, steps)
    rewards = ctx.normal(worlds, steps) + 1
    given = logits, values, chosen, rewards
    collected = {}

    def collect(loss, copies):
        """The gradients of the reader's loss, before ctx.floats detaches it."""
        if type(loss) is Tensor and loss.requires_grad and loss.numel() == 1:
            at = torch.autograd.grad(loss.sum(), copies[:2], allow_unused=True)
            collected.update(zip(("logits", "values"), at))

    value = ctx.call(answer, *given, then=collect)
    value = ctx.floats(value, "the loss", (), mention="one number: the mean over the worlds")
    if not collected:
        ctx.fail(
            "no gradient can be taken of your loss: it must stay a tensor that depends on logits "
            "and values"
        )
    if collected["logits"] is None:
        ctx.fail("no gradient reaches the logits: detach the advantage alone, not log π")
    right, wrong = _MINUS_SLOPE(*map(array, given))
    ctx.close(collected["logits"], right, "the gradient at the logits", wrong)
    if collected["values"] is None:
        ctx.fail(
            "no gradient reaches the values: the term ½ (V − R)² is missing, or its values are "
            "detached"
        )
    right, wrong = _AT_VALUES(*map(array, given))
    ctx.close(collected["values"], right, "the gradient at the values", wrong)
    ctx.close(value, _loss(*map(array, given)), "the loss")
    sure = 1000.0 * torch.tensor(
        [[ctx.order(actions) for _ in range(steps)] for _ in range(worlds)]
    )
    nan = "a softmax is 0 there in float32, its logarithm is not finite: log_softmax is"
    given = sure, *given[1:]
    value = ctx.floats(ctx.call(answer, *given), "for large logits: the loss", (), nan=nan)
    ctx.close(value, _loss(*map(array, given)), f"for large logits ({nan}): the loss")
