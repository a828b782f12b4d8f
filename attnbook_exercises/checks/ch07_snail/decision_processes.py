"""Checks of the section on decision processes: a state worth leaving, an end that nobody sees,
returns over episodes and worlds, planning in a known world, blocks that look back.
"""

from functools import partial

import numpy as np
import torch

from ..context import array
from ..gradient_check import check_gradients
from ..registry import exercise
from ..slips import on_paper


def _sums(rewards, cut):
    """From the back; `cut[b, t]`: nothing that comes after step t belongs to it."""
    returns_, after = np.zeros_like(rewards), np.zeros(len(rewards))
    for t in reversed(range(rewards.shape[1])):
        after = rewards[:, t] + np.where(cut[:, t], 0.0, after)
        returns_[:, t] = after
    return returns_


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


@exercise("07.returns", title="What an action brought", difficulty=2, minutes=6)
def returns(answer, ctx):
    rows, horizon = ctx.sizes(rows=(1, 5), horizon=(1, 4))
    steps = 6 * horizon
    rewards = ctx.normal(rows, steps)
    done = (torch.arange(1, steps + 1) % horizon == 0).expand(rows, -1).clone()
    first = torch.zeros(rows, steps, dtype=torch.bool)
    first[:, 0] = True
    shared = ctx.integers(0, 5)  # an end of an episode that is one in all worlds
    for row in range(rows):
        worlds = [1 + e for e in ctx.order(5) if e != shared][: 2 - row % 2]
        first[row, [horizon * e for e in worlds]] = True
    got = ctx.floats(
        ctx.call(answer, rewards, done, first), "the returns", (rows, steps), mention="one a step"
    )
    r, d, f = array(rewards), array(done), array(first)
    # the step before a new world
    last = np.concatenate([f[:, 1:], np.ones((rows, 1), dtype=bool)], 1)
    right = _sums(r, last)
    none = np.zeros_like(d)
    forwards = np.zeros_like(r)
    for t in range(steps):
        forwards[:, t] = r[:, t] + np.where(f[:, t], 0.0, forwards[:, t - 1] if t else 0.0)
    total = np.zeros_like(r)
    for b in range(rows):
        starts = [*np.flatnonzero(f[b]), steps]
        for i, j in zip(starts, starts[1:]):
            total[b, i:j] = r[b, i:j].sum()
    ctx.close(
        got,
        right,
        "the returns",
        {
            "the sum is cut where an episode ends: what was learned there pays in the next "
            "episode of the same world, go on": _sums(r, last | d),
            "the sum runs on into the next world: cut it where a new world begins": _sums(r, none),
            "the sum is cut in all rows where any row has a new world: each row has its own": (
                _sums(r, last.any(0, keepdims=True) | np.zeros_like(last))
            ),
            "the sum is cut one step late, behind the first step of the new world: that step "
            "belongs to the new world": _sums(r, f),
            "the rewards are added up from the start of the world to the step: expected from the "
            "step to the end": forwards,
            "it is the total of the world at every step: rewards before an action are no merit "
            "of it": total,
            "the reward of the step itself is left out": right - r,
            "the reward alone came back: add up what follows": r,
            "it is the mean of the rewards to come: expected their sum": right
            / np.maximum(_sums(np.ones_like(r), last), 1),
        },
    )


@exercise("07.value_iteration", title="A plan from the end", difficulty=3, minutes=10)
def value_iteration(answer, ctx):
    # with one state or one action there is no plan that changes with the steps that are left
    states, actions, horizon = ctx.sizes(states=(2, 6), actions=(2, 5), horizon=(1, 6))
    for shift in (0.0, -5.0):  # in the second world every reward is a loss
        while True:  # best actions that are clear, and change with the steps that are left
            transitions = ctx.weights(states, actions, states)
            means = ctx.normal(states, actions) + shift
            p, m = array(transitions), array(means)
            values, plan, gap = _plan(p, m, horizon)
            if gap > 0.01 and (horizon == 1 or (plan[0] != plan[-1]).any()):
                break
        got = ctx.parts(ctx.call(answer, transitions, means, horizon), ("values", "actions"))
        shape = (horizon, states)
        v = array(ctx.floats(got[0], "values", shape, mention="row h − 1 for h steps left"))
        a = array(
            ctx.tensor(
                got[1], "actions", shape, dtype=torch.long, mention="row h − 1 for h steps left"
            )
        )
        result = partial(_plan, p, m, horizon)
        ctx.close(
            v,
            values,
            "values",
            {
                "values: the rows are in the order of time; row h − 1 is for h steps left, so "
                "the first row is for the last step": values[::-1],
                "values: the worst action is taken, expected the best": result(
                    best=lambda q: q.min(1)
                )[0],
                "values: the actions are averaged: expected the best": result(
                    best=lambda q: q.mean(1)
                )[0],
                "values: what comes after the step is left out": np.repeat(
                    m.max(1)[None], horizon, 0
                ),
                "values: the transitions are used the wrong way round: P[s, a, s'] leads from s "
                "to s'": (_plan(p.transpose(2, 1, 0), m, horizon)[0]),
                "values: the reward is counted at the next state: μ[s, a] belongs to the state "
                "you leave": result(late=True)[0],
                "values: the next value is that of the most probable next state: expected the "
                "mean over the next states": (_plan(np.eye(states)[p.argmax(-1)], m, horizon)[0]),
                "values: they are means a step: expected sums over the steps that are left": values
                / np.arange(1, horizon + 1)[:, None],
                "values: they begin with the reward of the best action as value of no steps: "
                "with no steps left the value is 0": (result(start=m.max(1))[0]),
                "values: later rewards are discounted by 0.9: expected all of them with "
                "weight 1": result(discount=0.9)[0],
                "values: later rewards are discounted by 0.99: expected all of them with "
                "weight 1": result(discount=0.99)[0],
            },
        )
        ctx.close(
            a,
            plan,
            "actions",
            {
                "actions: the rows are in the order of time; row h − 1 is for h steps left": plan[
                    ::-1
                ],
                "actions: each row is the action of the highest reward now: what comes after "
                "counts too": np.repeat(m.argmax(1)[None], horizon, 0),
                "actions: the plan for the most steps stands in each row: with fewer steps left "
                "another action may be best": np.repeat(plan[-1:], horizon, 0),
                "actions: they are counted from 1: expected from 0": plan + 1,
            },
        )


def _plan(p, m, horizon, best=lambda q: q.max(1), start=None, discount=1.0, late=False):
    values, actions, gap = [], [], np.inf
    worth = np.zeros(len(m)) if start is None else start
    for _ in range(horizon):
        q = p @ (m.max(1) + discount * worth) if late else m + discount * p @ worth
        top = np.sort(q, 1)
        gap = min(gap, (top[:, -1] - top[:, -2]).min())
        worth = best(q)
        values.append(worth)
        actions.append(q.argmax(1))
    return np.array(values), np.array(actions), gap


@exercise("07.near_and_far", title="Find the bug: near and far", difficulty=2, minutes=8)
def near_and_far(answer, ctx):
    batch, n, d, width, levels = ctx.sizes(
        batch=(1, 3), n=(1, 24), d=(1, 4), filters=(1, 3), layers=(1, 5)
    )
    x = ctx.normal(batch, n, d)
    sizes = [(2 * (d + level * width), width) for level in range(levels)]
    filters, gates = (
        [0.7 * ctx.normal(*size) for size in sizes],
        [0.7 * ctx.normal(*size) for size in sizes],
    )
    got = ctx.floats(
        ctx.call(answer, x, filters, gates),
        "the result",
        (batch, n, d + levels * width),
        mention="one row a step",
    )
    given = array(x), *(array(w) for w in (*filters, *gates))
    ctx.close(
        got,
        _behind_one_another(*given),
        "the result",
        {
            message: _behind_one_another(*given, **slip)
            for message, slip in {
                "the step before is never seen: the distances are 2, 4, 8, and no sum of "
                "them is odd. The first block looks one step back, 2 to the 0": dict(
                    back=lambda level: 2 ** (level + 1)
                ),
                "all blocks look one step back: the distance doubles from block to block": dict(
                    back=lambda level: 1
                ),
                "the distances grow by one from block to block: they double": dict(
                    back=lambda level: level + 1
                ),
                "the distances are doubled for you from 0: block l looks 2 to the l steps "
                "back": dict(back=lambda level: 2 * level),
                "the largest distance comes first: they begin with 1": dict(
                    back=lambda level: 2 ** (levels - 1 - level)
                ),
                "the rows come round from the end: before the beginning there are zeros, "
                "roll brings later steps": dict(around=True),
                "a row is paired with a later one: it looks back": dict(
                    back=lambda level: -(2**level)
                ),
                "the pair is turned round: the earlier row stands first": dict(turned=True),
                "filter and gate are exchanged: tanh belongs to the filter, the sigmoid to "
                "the gate": dict(exchanged=True),
                "the gate is not used": dict(gated=False),
                "the new columns stand in front: expected behind the row": dict(front=True),
            }.items()
        },
    )

    at = {
        0: "x",
        **{
            1 + k: f"{name} {k % levels}"
            for k, name in enumerate(["filter"] * levels + ["gate"] * levels)
        },
    }
    check_gradients(
        ctx,
        lambda x, *now: answer(x, list(now[:levels]), list(now[levels:])),
        [x, *filters, *gates],
        at,
        _behind_one_another,
    )


def _behind_one_another(
    x,
    *both,
    back=lambda level: 2**level,
    around=False,
    turned=False,
    exchanged=False,
    gated=True,
    front=False,
):
    """Dense blocks with the distances `back`, with options for known mistakes."""
    n, levels, h = x.shape[1], len(both) // 2, x
    for level, (w_f, w_g) in enumerate(zip(both[:levels], both[levels:])):
        earlier = np.roll(h, back(level), 1)
        if not around:
            from_ = np.arange(n) - back(level)
            earlier = earlier * ((from_ >= 0) & (from_ < n))[:, None]
        pair = np.concatenate((h, earlier) if turned else (earlier, h), -1)
        w_f, w_g = (w_g, w_f) if exchanged else (w_f, w_g)
        new = np.tanh(pair @ w_f) * (1 / (1 + np.exp(-pair @ w_g)) if gated else 1.0)
        h = np.concatenate((new, h) if front else (h, new), -1)
    return h
