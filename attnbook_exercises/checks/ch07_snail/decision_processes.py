"""Checks of the section on decision processes: a state worth leaving, an end that nobody sees,
returns over episodes and worlds, planning in a known world, blocks that look back.
"""

import numpy as np
import torch

from ..context import array
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import Slips, on_paper


@on_paper(
    "07.worth_of_leaving",
    "the worth",
    title="Worth leaving?",
    difficulty=1,
    minutes=4,
    otherwise="fill in V_1, V_2 and V_3 for both states, one row after the other",
)
def worth_of_leaving():
    return 7, {
        "that is staying three times: with three steps left going is better": 6,
        "that is going at every step: with one or two steps left staying is better": 6.25,
        "that is going once and taking V_1 in place of V_2 after it": 3.5,
        "that is the worth with two steps left": 4,
        "that is the worth with four steps left": 11,
        "going leads to B only with probability one half: A with what it is worth is the other": 10,
        "going leads to A with probability one half, and A is worth something, too": 5,
        "that is what B is worth: you are in A": 15,
        "the two actions are not averaged: the best one counts": 6.5,
    }


@exercise("07.end_unseen", title="Predict: An end that nobody sees", difficulty=1, minutes=3)
def end_unseen(answer, ctx):
    return ctx.predicted(answer, "nearly nothing", "about half", "nearly all")


def _returns(rewards, done, first):
    """The rewards to come in the same world, from the back."""
    last = np.roll(first, -1, 1)  # at the step before a new world, and at the end
    found, after = np.zeros_like(rewards), np.zeros(len(rewards))
    for t in reversed(range(rewards.shape[1])):
        after = rewards[:, t] + np.where(last[:, t], 0.0, after)
        found[:, t] = after
    return found


_RETURNS = Slips(
    _returns,
    {
        "the sum is cut where an episode ends: what was learned there pays in the next episode of "
        "the same world, go on": "last = np.roll(first, -1, 1) → last = np.roll(first, -1, 1) | "
        "done",
        "the sum runs on into the next world: "
        "cut it where a new world begins": "np.roll(first, -1, 1) → first & False",
        "the sum is cut in all rows where any row has a new world: each row has "
        "its own": "np.roll(first, -1, 1) → np.roll(first, -1, 1).any(0) | first & False",
        "the sum is cut one step late, after the first step of the new world: "
        "that step belongs to the new world": "np.roll(first, -1, 1) → first",
        "the rewards are added up from the start of the world to the step: "
        "expected from the step to the end": (
            "np.roll(first, -1, 1) → first",
            "reversed(range(rewards.shape[1])) → range(rewards.shape[1])",
        ),
        "it is the total of the world at every step: rewards before an action are no merit of it": (
            "return found → starts = np.maximum.accumulate(first * np.arange(first.shape[1]), 1)\n"
            "    return np.take_along_axis(found, starts, 1)"
        ),
        "the reward of the step itself is left out": "return found → return found - rewards",
        "the reward alone came back: add up what follows": "return found → return rewards",
        "it is the mean of the rewards to come: expected their "
        "sum": "return found → return found / _returns(np.ones_like(rewards), done, first)",
    },
)


@exercise("07.returns", title="What an action brought", difficulty=2, minutes=6)
def returns(answer, ctx):
    rows, horizon = ctx.sizes(batch=(1, 5), horizon=(1, 4))
    steps = 6 * horizon + 1
    rewards = ctx.normal(rows, steps)
    done = (torch.arange(1, steps + 1) % horizon == 0).expand(rows, -1).clone()
    first = torch.zeros(rows, steps, dtype=torch.bool)
    first[:, 0] = True
    shared = ctx.integers(0, 5)  # an end of an episode that is one in all worlds
    for row in range(rows):
        worlds = [1 + e for e in ctx.order(5) if e != shared][: 3 - row % 3]
        first[row, [horizon * e for e in worlds]] = True
    first[0, -1] = True
    got = ctx.call(answer, rewards, done, first)
    got = ctx.floats(got, "the returns", (rows, steps), mention="one a step")
    right, wrong = _RETURNS(*map(array, (rewards, done, first)))
    ctx.close(got, right, "the returns", wrong)
    rewards = torch.where(first.cumsum(1) % 2 == 1, 1e8, 1.0) * rewards
    got = ctx.floats(ctx.call(answer, rewards, done, first), "the returns", (rows, steps))
    name = "where rewards of the worlds before and after are 10⁸ times as large, the returns"
    ctx.close(got, _returns(*map(array, (rewards, done, first))), name)


def _values(p, m, horizon):
    worth, found = 0 * m[:, 0], []
    for _ in range(horizon):
        q = m + p @ worth
        worth = q.max(1)
        found.append(worth)
    return np.array(found)


_VALUES = Slips(
    _values,
    {
        "values: the rows are in the order of time; row h − 1 is for h steps left, so the first "
        "row is for the last step": "np.array(found) → np.array(found[::-1])",
        "values: the worst action is taken, expected the best": "q.max(1) → q.min(1)",
        "values: the actions are averaged: expected the best": "q.max(1) → q.mean(1)",
        "values: what comes after the step is left out": "m + p @ worth → m",
        "values: the transitions are used the wrong way round: "
        "P[s, a, s'] leads from s to s'": "p @ worth → p.transpose(2, 1, 0) @ worth",
        "values: the reward is counted at the next state: "
        "μ[s, a] belongs to the state you leave": "m + p @ worth → p @ (m.max(1) + worth)",
        "values: the next value is that of the most probable next state: "
        "expected the mean over the next states": "p @ worth → worth[p.argmax(-1)]",
        "values: they are means a step: expected sums over the steps that are "
        "left": "np.array(found) → np.array(found) / np.arange(1, horizon + 1)[:, None]",
        "values: they begin with the reward of the best action as value of no steps: "
        "with no steps left the value is 0": "0 * m[:, 0] → m.max(1)",
        "values: later rewards are discounted by 0.9: "
        "expected all of them with weight 1": "p @ worth → 0.9 * p @ worth",
        "values: later rewards are discounted by 0.99: "
        "expected all of them with weight 1": "p @ worth → 0.99 * p @ worth",
    },
)


def _bests(p, m, horizon):
    """The returns of the actions with 1, 2, … steps left."""
    return m + np.stack([p @ worth for worth in (0 * m[:, 0], *_values(p, m, horizon)[:-1])])


def _plan(p, m, horizon):
    return _bests(p, m, horizon).argmax(-1)


_PLAN = Slips(
    _plan,
    {
        "actions: the rows are in the order of time; "
        "row h − 1 is for h steps left": ".argmax(-1) → .argmax(-1)[::-1]",
        "actions: each row is the action of the highest reward now: "
        "what comes after counts too": "_bests(p, m, horizon) → _bests(0 * p, m, horizon)",
        "actions: the plan for the most steps stands in each row: with fewer steps left "
        "another action may be best": ".argmax(-1) → [-1:].argmax(-1).repeat(horizon, 0)",
        "actions: they are counted from 1: expected from 0": ".argmax(-1) → .argmax(-1) + 1",
    },
)


@exercise("07.value_iteration", title="A plan from the end", difficulty=3, minutes=10)
def value_iteration(answer, ctx):
    # with one state or one action there is no plan that changes with the steps that are left
    states, actions, horizon = ctx.sizes(states=(2, 6, 6), actions=(2, 5, 5), horizon=(1, 6))

    def clear(drawn):  # best actions that are clear, and change with the steps that are left
        transitions, means = map(array, drawn)
        every = _bests(transitions, means, horizon)
        plan, top = every.argmax(-1), np.sort(every, -1)
        return (np.diff(top[..., -2:]) > 0.01).all() and (horizon == 1 or (plan != plan[-1]).any())

    for shift in (0.0, -5.0):  # in the second world every reward is a loss
        given = ctx.draw(
            lambda shift=shift: (
                ctx.weights(states, actions, states),
                ctx.normal(states, actions) + shift,
            ),
            clear,
            1000,
        )
        got = ctx.parts(ctx.call(answer, *given, horizon), ("values", "actions"))
        shape, mention = (horizon, states), "row h − 1 for h steps left"
        values = ctx.floats(got[0], "values", shape, mention=mention)
        plan = ctx.tensor(got[1], "actions", shape, dtype=torch.long, mention=mention)
        right, wrong = _VALUES(*map(array, given), horizon)
        ctx.close(values, right, "values", wrong)
        right, wrong = _PLAN(*map(array, given), horizon)
        ctx.close(plan, right, "actions", wrong)


def _behind_one_another(x, *both):
    """Dense blocks with the distances 1, 2, 4, …; `both` are all filters, then all gates."""
    levels, h, time = len(both) // 2, x, np.arange(x.shape[1])
    for level, (w_f, w_g) in enumerate(zip(both[:levels], both[levels:])):
        back = 2**level
        earlier = np.roll(h, back, 1) * ((time >= back) & (time < back + len(time)))[:, None]
        pair = np.concatenate((earlier, h), -1)
        new = np.tanh(pair @ w_f) * (1 / (1 + np.exp(-pair @ w_g)))
        h = np.concatenate((h, new), -1)
    return h


_BLOCKS = Slips(
    _behind_one_another,
    {
        "the step before is never seen: the distances are 2, 4, 8, and no sum of them is odd. "
        "The first block looks one step back, 2 to the 0": "2**level → 2 ** (level + 1)",
        "the distances are doubled for you from 0: "
        "block l looks 2 to the l steps back": "2**level → 2 * level",
        "all blocks look one step back: the distance doubles from block to block": "2**level → 1",
        "the distances grow by one from block to block: they double": "2**level → level + 1",
        "the largest distance comes first: they begin with "
        "1": "2**level → 2 ** (levels - 1 - level)",
        "the rows come round from the end: before the beginning there are zeros, roll brings later "
        "steps": "* ((time >= back) & (time < back + len(time)))[:, None] →",
        "a row is paired with a later one: it looks back": "2**level → -(2**level)",
        "the pair is turned round: the earlier row stands first": "(earlier, h) → (h, earlier)",
        "filter and gate are exchanged: "
        "tanh belongs to the filter, the sigmoid to the gate": "(w_f, w_g) → (w_g, w_f)",
        "the gate is not used": "* (1 / (1 + np.exp(-pair @ w_g))) →",
        "the new columns stand in front: expected after the row": "(h, new) → (new, h)",
    },
)


@exercise("07.near_and_far", title="Find the bug: near and far", difficulty=2, minutes=8)
def near_and_far(answer, ctx):
    batch, n, d, width, levels = ctx.sizes(
        batch=(1, 3), n=(1, 24), d=(1, 4), filters=(1, 3), layers=(1, 5)
    )
    levels += 4 * (ctx.case == "long")  # the last ones reach back beyond the beginning
    x = ctx.normal(batch, n, d)
    sizes = [(2 * (d + level * width), width) for level in range(levels)]
    filters, gates = ([0.7 * ctx.normal(*size) for size in sizes] for _ in range(2))
    got = ctx.call(answer, x, filters, gates)
    shape = (batch, n, d + levels * width)
    got = ctx.floats(got, "the result", shape, mention="one row a step")
    right, wrong = _BLOCKS(array(x), *map(array, (*filters, *gates)))
    ctx.close(got, right, "the result", wrong)
    names = [f"{name} {k}" for name in ("filter", "gate") for k in range(levels)]
    check_gradients(
        ctx,
        lambda x, *now: answer(x, list(now[:levels]), list(now[levels:])),
        [x, *filters, *gates],
        dict(enumerate(["x", *names])),
        _behind_one_another,
    )
