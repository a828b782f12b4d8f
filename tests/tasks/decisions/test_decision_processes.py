"""Decision processes: laws, value iteration against enumeration, beliefs against counts by hand."""

import itertools

import numpy as np
import pytest
import torch
from assertions import assert_refused
from task_data import seeded

from attnbook.tasks.decisions.bandits import RandomPolicy
from attnbook.tasks.decisions.decision_processes import (
    DecisionProcesses,
    OptimalPlanner,
    value_iteration,
)
from attnbook.tasks.decisions.environments import estimate, play
from attnbook.tasks.decisions.planners import PSRL, EpsilonGreedyPlanner


def test_worlds_follow_their_law():
    world = DecisionProcesses(2)
    world.reset(0, 400)
    p, mean = world.transitions, world.means
    assert p.shape == (400, 10, 5, 10)
    assert torch.allclose(p.sum(-1), torch.ones(()), atol=1e-5)
    assert p.min() >= 0
    # the variance of a flat Dirichlet's entry
    assert float(p.var()) == pytest.approx(9 / (100 * 11), rel=0.03)
    assert float(mean.mean()) == pytest.approx(1, abs=0.02)
    assert float(mean.std()) == pytest.approx(1, abs=0.02)


def test_moves_and_rewards_follow_the_world():
    world = DecisionProcesses(1, states=3, actions=2, horizon=3000)
    world.reset(5, 1)
    counts, sums = np.zeros((3, 2, 3)), np.zeros((3, 2))
    squares, state = np.zeros((3, 2)), 0
    generator = seeded(1)
    for _ in range(2999):
        action = torch.randint(2, (1,), generator=generator)
        outcome = world.step(action)
        _, reward, new, done = world.read(outcome.input)
        assert reward == outcome.reward and not done and not outcome.done
        counts[state, int(action), int(new)] += 1
        sums[state, int(action)] += float(reward)
        squares[state, int(action)] += float(reward) ** 2
        state = int(new)
    n = counts.sum(-1)
    off = np.abs(counts / n[..., None] - world.transitions[0].numpy())
    assert (off < 5 * np.sqrt(0.25 / n)[..., None]).all()
    assert (np.abs(sums / n - world.means[0].numpy()) < 4.5 / np.sqrt(n)).all()
    assert (np.abs(squares / n - (sums / n) ** 2 - 1) < 0.35).all()


def test_episodes_begin_in_state_0_and_the_world_stays():
    world = DecisionProcesses(3, states=4, actions=2, horizon=5)
    first = world.reset(2, 50)
    before = world.transitions.clone(), world.means.clone()
    last, reward, state, done = world.read(first)
    assert not last.any() and not reward.any() and not state.any() and not done.any()
    for t in range(1, 16):
        outcome = world.step(torch.full((50,), t % 2))
        last, reward, state, done = world.read(outcome.input)
        assert (last.argmax(-1) == t % 2).all() and torch.equal(reward, outcome.reward)
        assert torch.equal(done, outcome.done)
        assert bool(done.all()) == bool(done.any()) == (t % 5 == 0)
        if t % 5 == 0:
            assert not state.any()
    assert torch.equal(before[0], world.transitions) and torch.equal(before[1], world.means)
    with pytest.raises(ValueError, match="reset"):
        world.step(torch.zeros(50, dtype=torch.int64))


def test_reset_draws_new_worlds_and_forgets_where_it_was():
    """A world that was not reset would go on in its state, with the old rewards."""
    world, fresh = DecisionProcesses(1), DecisionProcesses(1)
    world.reset(1, 20)
    old = world.means.clone()
    world.step(torch.ones(20, dtype=torch.int64))
    again, expected = world.reset(9, 20), fresh.reset(9, 20)
    assert torch.equal(again, expected) and not torch.equal(world.means, old)
    actions = torch.arange(20) % 5
    assert torch.equal(world.step(actions).input, fresh.step(actions).input)


def expected_return(p, mean, rules, horizon):
    """Of a rule ``rules[t][s]``, by following the distribution of states."""
    where, total, states = np.eye(len(mean))[0], 0.0, np.arange(len(mean))
    for t in range(horizon):
        total += where @ mean[states, rules[t]]
        where = where @ p[states, rules[t]]
    return total


def test_value_iteration_against_every_rule():
    p = torch.rand(4, 2, 3, 2, generator=seeded(3), dtype=torch.float64)
    p, mean = p / p.sum(-1, keepdim=True), torch.randn(4, 2, 3, generator=seeded(4)).double()
    plan = value_iteration(p, mean, 3)
    for b in range(4):
        world = p[b].numpy(), mean[b].numpy()
        every = itertools.product(itertools.product(range(3), repeat=2), repeat=3)
        best = max(expected_return(*world, np.array(rules), 3) for rules in every)
        followed = expected_return(*world, plan.actions[b].flip(0).numpy(), 3)
        assert [best, followed] == pytest.approx([float(plan.values[b, -1, 0])] * 2, abs=1e-12)


def test_who_knows_the_world_earns_what_the_plan_says():
    world = DecisionProcesses(4)
    got = play(world, OptimalPlanner(), seed=3, count=1500, keep_inputs=False).rewards.sum(1)
    expected = 4 * value_iteration(world.transitions, world.means, 10).values[:, -1, 0]
    difference = estimate(got - expected)
    assert abs(difference.mean) < 1.5 * difference.half_width + 0.1
    other = play(world, RandomPolicy(), seed=3, count=1500, keep_inputs=False).rewards.sum(1)
    # 1 a step, beside the largest of five N(1, 1) and the moves
    assert 0.4 < float(other.mean() / expected.mean()) < 0.52


def test_beliefs_are_counted_by_hand():
    world = DecisionProcesses(3, states=3, actions=2, horizon=4)
    policy = PSRL()
    played = play(world, policy, seed=6, count=5)
    for b in range(5):
        moves, sums, visits = np.ones((3, 2, 3)), np.zeros((3, 2)), np.zeros((3, 2))
        _, _, states, _ = world.read(played.inputs[b])
        for t in range(11):  # what was seen before the last step
            s, a = int(states[t]), int(played.actions[b, t])
            visits[s, a] += 1
            sums[s, a] += float(played.rewards[b, t])
            if (t + 1) % 4:
                moves[s, a, int(states[t + 1])] += 1
        got = policy.posterior()
        np.testing.assert_allclose(got[0][b].numpy(), moves)
        np.testing.assert_allclose(got[1][b].numpy(), (1 + sums) / (1 + visits), atol=1e-5)
        np.testing.assert_allclose(got[2][b].numpy(), 1 / np.sqrt(1 + visits), atol=1e-6)


def test_psrl_draws_from_its_posterior():
    world, policy = DecisionProcesses(1, states=2, actions=2), PSRL()
    world.reset(0, 20_000)
    policy.start(world, 20_000, seeded())
    policy.moves[:, 0, 0, 1] = 3
    policy.visits[:, 0, 0], policy.rewards[:, 0, 0] = 3, 9
    p, mean = policy.believe()
    assert float(p[:, 0, 0, 1].mean()) == pytest.approx(4 / 5, abs=0.01)
    assert float(p[:, 0, 0, 1].var()) == pytest.approx(4 * 1 / (25 * 6), rel=0.05)
    assert float(mean[:, 0, 0].mean()) == pytest.approx(10 / 4, abs=0.02)
    assert float(mean[:, 0, 0].std()) == pytest.approx(0.5, rel=0.03)
    assert float(mean[:, 1, 1].std()) == pytest.approx(1, rel=0.03)


def test_plans_are_made_when_episodes_begin_and_earn_more_than_chance():
    world = DecisionProcesses(10)
    policies = RandomPolicy(), PSRL(), EpsilonGreedyPlanner(), OptimalPlanner()
    rewards = [play(world, p, seed=8, count=300, keep_inputs=False).rewards for p in policies]
    chance, psrl, mean, best = (float(r.sum(1).mean()) for r in rewards)
    assert chance * 1.2 < min(psrl, mean) and max(psrl, mean) < 0.85 * best
    by_episode = rewards[1].view(300, 10, 10).sum(2).mean(0)
    assert by_episode[-1] > by_episode[0] + 3, "it learns from episode to episode"


@pytest.mark.parametrize("policy", [PSRL, EpsilonGreedyPlanner])
def test_planners_start_anew_in_new_worlds(policy):
    world, used = DecisionProcesses(2), policy()
    play(world, used, seed=1, count=10)
    again, first = (play(world, p, seed=2, count=10).actions for p in (used, policy()))
    assert torch.equal(again, first)


def test_errors():
    for name, wrong in (("episodes", 0), ("actions", 1), ("states", 0), ("horizon", 0)):
        assert_refused(name, DecisionProcesses, **{name: wrong})
    assert_refused("transitions", value_iteration, torch.zeros(1, 2, 2, 2), torch.zeros(1, 2, 3), 4)
    assert_refused("horizon", value_iteration, torch.zeros(1, 2, 2, 2), torch.zeros(1, 2, 2), 0)
    assert_refused("epsilon", EpsilonGreedyPlanner, -0.1)
    world = DecisionProcesses()
    world.reset(0, 2)
    assert_refused("actions", world.step, torch.tensor([0, 5]))
