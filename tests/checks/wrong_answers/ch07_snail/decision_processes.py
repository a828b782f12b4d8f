import torch

from ..collection import wrong


def _returns(rewards, cut):
    found, after = torch.zeros_like(rewards), torch.zeros(len(rewards))
    for t in reversed(range(rewards.shape[1])):
        after = rewards[:, t] + after.masked_fill(cut[:, t], 0.0)
        found[:, t] = after
    return found


def _last(first):
    return torch.cat([first[:, 1:], torch.ones(len(first), 1, dtype=torch.bool)], 1)


@wrong("07.returns", "the sum is cut where an episode ends")
def within_episodes(rewards, done, first):
    return _returns(rewards, done)


@wrong("07.returns", "the sum runs on into the next world")
def over_worlds(rewards, done, first):
    return rewards.flip(1).cumsum(1).flip(1)


@wrong("07.returns", "cut one step late")
def one_late(rewards, done, first):
    return _returns(rewards, first)


@wrong("07.returns", "from the start of the world to the step")
def forwards(rewards, done, first):
    return _returns(rewards.flip(1), first.flip(1)).flip(1)


@wrong("07.returns", "the reward of the step itself is left out")
def later_ones(rewards, done, first):
    return _returns(rewards, _last(first)) - rewards


@wrong("07.returns", "the reward alone came back")
def nothing_added(rewards, done, first):
    return rewards + 0


def _plan(transitions, means, horizon, best=lambda q: q.max(1).values, worth=None, discount=1.0):
    worth = torch.zeros(len(means)) if worth is None else worth
    values, actions = [], []
    for _ in range(horizon):
        q = means + discount * transitions @ worth
        worth = best(q)
        values.append(worth)
        actions.append(q.argmax(1))
    return torch.stack(values), torch.stack(actions)


@wrong("07.value_iteration", "with no steps left the value is 0")
def starts_with_a_reward(transitions, means, horizon):
    return _plan(transitions, means, horizon, worth=means.max(1).values)


@wrong("07.value_iteration", "the rows are in the order of time")
def forwards_in_time(transitions, means, horizon):
    return tuple(part.flip(0) for part in _plan(transitions, means, horizon))


@wrong("07.value_iteration", "the wrong way round")
def turned_round(transitions, means, horizon):
    return _plan(transitions.transpose(0, 2), means, horizon)


@wrong("07.value_iteration", "the actions are averaged")
def averaged(transitions, means, horizon):
    return _plan(transitions, means, horizon, best=lambda q: q.mean(1))


@wrong("07.value_iteration", "discounted by 0.9")
def discounted(transitions, means, horizon):
    return _plan(transitions, means, horizon, discount=0.9)


@wrong("07.value_iteration", "what comes after counts too")
def greedy_now(transitions, means, horizon):
    values, actions = _plan(transitions, means, horizon)
    return values, means.argmax(1).expand_as(actions)


@wrong("07.value_iteration", "the most probable next state")
def where_it_probably_goes(transitions, means, horizon):
    likely = torch.nn.functional.one_hot(transitions.argmax(-1), len(means)).float()
    return _plan(likely, means, horizon)


@wrong("07.value_iteration", "expected the tuple (values, actions)")
def values_alone(transitions, means, horizon):
    return _plan(transitions, means, horizon)[0]


def _blocks(
    x,
    filters,
    gates,
    back=lambda level: 2**level,
    around=False,
    turned=False,
    exchanged=False,
    gated=True,
    front=False,
):
    h, n = x, x.shape[1]
    for level, (W_f, W_g) in enumerate(zip(filters, gates)):
        step = back(level)
        if around:
            earlier = h.roll(step, 1)
        elif step < 0:
            earlier = torch.nn.functional.pad(h, (0, 0, 0, -step))[:, -step:]
        else:
            earlier = torch.nn.functional.pad(h, (0, 0, step, 0))[:, :n]
        pair = torch.cat([h, earlier] if turned else [earlier, h], -1)
        W_f, W_g = (W_g, W_f) if exchanged else (W_f, W_g)
        new = torch.tanh(pair @ W_f) * (torch.sigmoid(pair @ W_g) if gated else 1.0)
        h = torch.cat([new, h] if front else [h, new], -1)
    return h


@wrong("07.near_and_far", "the step before is never seen")
def back_as_printed(*given):
    return _blocks(*given, back=lambda level: 2 ** (level + 1))


@wrong("07.near_and_far", "all blocks look one step back")
def back_by_one(*given):
    return _blocks(*given, back=lambda level: 1)


@wrong("07.near_and_far", "grow by one from block to block")
def back_one_more_each(*given):
    return _blocks(*given, back=lambda level: level + 1)


@wrong("07.near_and_far", "the largest distance comes first")
def back_far_first(*given):
    return _blocks(*given, back=lambda level: 2 ** (len(given[1]) - 1 - level))


@wrong("07.near_and_far", "come round from the end")
def back_rolled(*given):
    return _blocks(*given, around=True)


@wrong("07.near_and_far", "paired with a later one")
def back_ahead(*given):
    return _blocks(*given, back=lambda level: -(2**level))


@wrong("07.near_and_far", "the earlier row stands first")
def back_turned(*given):
    return _blocks(*given, turned=True)


@wrong("07.near_and_far", "tanh belongs to the filter")
def back_exchanged(*given):
    return _blocks(*given, exchanged=True)


@wrong("07.near_and_far", "the gate is not used")
def back_ungated(*given):
    return _blocks(*given, gated=False)


@wrong("07.near_and_far", "the new columns stand in front")
def back_in_front(*given):
    return _blocks(*given, front=True)


@wrong("07.near_and_far", "no gradient reaches gate 0")
def back_detached(x, filters, gates):
    return _blocks(x, filters, [gate.detach() for gate in gates])
