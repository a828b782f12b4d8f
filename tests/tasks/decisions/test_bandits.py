"""Bandits by their law, policies by loops in NumPy, Gittins' index by other ways to compute it."""

import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
import torch
from assertions import assert_refused, refusals
from task_data import seeded

from attnbook.tasks.decisions.bandits import (
    UCB1,
    Bandits,
    BestArm,
    EpsilonGreedy,
    Indexed,
    RandomPolicy,
    Thompson,
)
from attnbook.tasks.decisions.environments import estimate, play
from attnbook.tasks.decisions.gittins import bayes_value, finite_horizon_index

POLICIES = {
    "random": RandomPolicy,
    "greedy": lambda: EpsilonGreedy(0.0),
    "ε-greedy": EpsilonGreedy,
    "UCB1": UCB1,
    "Thompson": Thompson,
    "Gittins": lambda: Indexed(finite_horizon_index(10)),
}


def earned(policy, *, seed, count):
    """What a policy earns in each of many worlds."""
    return play(Bandits(5, 10), policy, seed=seed, count=count, keep_inputs=False).rewards.sum(1)


def test_the_same_seed_gives_the_same_worlds_and_luck():
    one, two = Bandits(3, 6), Bandits(3, 6)
    actions = torch.randint(3, (6, 50), generator=seeded(1))
    for seed, same in ((7, True), (8, False)):
        first, second = one.reset(7, 50), two.reset(seed, 50)
        assert torch.equal(first, second) and torch.equal(one.chances, two.chances) is same
        rewards = [torch.stack([world.step(a).reward for a in actions]) for world in (one, two)]
        assert torch.equal(*rewards) is same


def test_the_luck_of_an_arm_does_not_depend_on_what_is_pulled():
    always, other = Bandits(2, 8), Bandits(2, 8)
    always.reset(3, 400), other.reset(3, 400)
    zero = torch.zeros(400, dtype=torch.int64)
    for t in range(8):
        mixed = torch.full_like(zero, t % 2)
        a, b = always.step(zero).reward, other.step(mixed).reward
        assert torch.equal(a, b) is (t % 2 == 0)


def test_arms_pay_with_their_chance():
    world = Bandits(4, 200)
    world.reset(0, 500)
    assert world.chances.min() >= 0 and world.chances.max() <= 1
    assert abs(float(world.chances.mean()) - 0.5) < 0.02
    arm = torch.randint(4, (500,), generator=seeded(2))
    paid = torch.stack([world.step(arm).reward for _ in range(200)]).mean(0)
    chance = world.chances[torch.arange(500), arm]
    deviation = (chance * (1 - chance) / 200).sqrt().clamp(min=1e-3)
    assert ((paid - chance).abs() / deviation).mean() < 1.2


def test_the_input_holds_the_last_action_and_reward_and_nothing_newer():
    """A world that showed the reward of the coming pull would let a policy earn more than the
    best arm.
    """
    played = play(Bandits(5, 10), RandomPolicy(), seed=4, count=300)
    assert not played.inputs[:, 0].any()
    assert torch.equal(played.inputs[:, 1:, :5].argmax(-1), played.actions[:, :-1])
    assert torch.equal(played.inputs[:, 1:, 5], played.rewards[:, :-1])
    same = (played.inputs[:, 1:, 5] == played.rewards[:, 1:]).float().mean()
    assert 0.4 < same < 0.62, "the reward of the same step leaks into its input"


@pytest.mark.parametrize("name", POLICIES)
def test_no_policy_beats_the_best_one_there_is(name):
    """What a policy that saw the chances, or its worlds' luck, would do; all lie between random
    and the exact optimum.
    """
    got = estimate(earned(POLICIES[name](), seed=11, count=8000))
    assert got.mean - 2 * got.half_width < bayes_value(5, 10) and got.mean > 4.9


def test_errors_name_the_argument():
    assert_refused("arms", Bandits, arms=1)
    assert_refused("pulls", Bandits, pulls=0)
    world = Bandits(3, 1)
    with pytest.raises(ValueError, match="reset"):
        world.step(torch.zeros(1, dtype=torch.int64))
    world.reset(0, 2)
    for actions in (torch.zeros(2), torch.zeros(3).long(), torch.tensor([0, 3]), [0, 1]):
        assert_refused("actions", world.step, actions)
    world.step(torch.tensor([0, 2]))
    with pytest.raises(ValueError, match="reset"):
        world.step(torch.tensor([0, 2]))
    assert_refused("epsilon", EpsilonGreedy, 1.5)
    assert_refused("table", Indexed, torch.zeros(3))
    assert_refused("values", estimate, torch.zeros(1))


def test_an_estimate_is_a_mean_and_its_interval():
    got = estimate(torch.arange(100.0))
    assert got.mean == pytest.approx(49.5)
    assert got.half_width == pytest.approx(1.96 * np.std(np.arange(100.0), ddof=1) / 10)


def ucb_by_hand(actions, rewards, arms, untried_first=True):
    """The arms that UCB1 may pull after a history."""
    n = [actions.count(k) for k in range(arms)]
    if untried_first and 0 in n:
        return {k for k in range(arms) if n[k] == 0}
    bounds = [
        sum(r for a, r in zip(actions, rewards) if a == k) / max(n[k], 1)
        + math.sqrt(2 * math.log(max(len(actions), 1)) / max(n[k], 1))
        for k in range(arms)
    ]
    return {k for k in range(arms) if bounds[k] >= max(bounds) - 1e-5}


def greedy_by_hand(actions, rewards, arms):
    mean = [
        (1 + sum(r for a, r in zip(actions, rewards) if a == k)) / (2 + actions.count(k))
        for k in range(arms)
    ]
    return {k for k in range(arms) if mean[k] >= max(mean) - 1e-6}


@pytest.mark.parametrize(
    ("policy", "by_hand"), [(UCB1(), ucb_by_hand), (EpsilonGreedy(0.0), greedy_by_hand)]
)
def test_choices_equal_those_of_a_loop(policy, by_hand):
    played = play(Bandits(4, 12), policy, seed=5, count=60)
    for actions, rewards in zip(played.actions.tolist(), played.rewards.tolist()):
        for t, action in enumerate(actions):
            assert action in by_hand(actions[:t], rewards[:t], 4)


class WithoutUntried(UCB1):
    """UCB1 that forgets to try each arm once."""

    def score(self, wins, losses, left):
        return super().score(wins, losses, left).nan_to_num(posinf=0.0)


def test_ucb_without_its_first_round_is_seen():
    played = play(Bandits(4, 12), WithoutUntried(), seed=5, count=60)
    allowed = [
        action in ucb_by_hand(actions[:t], rewards[:t], 4)
        for actions, rewards in zip(played.actions.tolist(), played.rewards.tolist())
        for t, action in enumerate(actions)
    ]
    assert not all(allowed)


class Swapped(Thompson):
    """Thompson sampling with the parameters of Beta exchanged."""

    def score(self, wins, losses, left):
        return super().score(losses, wins, left)


def test_thompson_draws_from_the_posterior():
    """The chance of each arm to be pulled, against numerical integration of the Beta densities."""
    wins, losses = torch.tensor([[3.0, 1.0]]), torch.tensor([[2.0, 0.0]])
    x = (np.arange(100_000) + 0.5) / 100_000
    # Beta(4, 3), and the chance that Beta(2, 1) is smaller
    density, below = 60 * x**3 * (1 - x) ** 2, x**2
    expected = float((density * below).mean())

    def share(policy):
        policy.generator = seeded()
        draws = policy.score(wins.expand(40_000, 2), losses.expand(40_000, 2), 5)
        return float((draws.argmax(1) == 0).float().mean())

    assert share(Thompson()) == pytest.approx(expected, abs=0.01)
    assert abs(share(Swapped()) - expected) > 0.1


def test_policies_start_anew_in_new_worlds():
    """A policy that kept its counts from the worlds before would not pull as a fresh one."""
    used, fresh = Thompson(), Thompson()
    world = Bandits(3, 20)
    play(world, used, seed=1, count=40)
    again, first = (play(world, policy, seed=2, count=40).actions for policy in (used, fresh))
    assert torch.equal(again, first)


def test_knowing_the_best_arm_earns_its_chance():
    played = play(Bandits(5, 50), BestArm(), seed=3, count=4000, keep_inputs=False)
    # the largest of five uniform numbers
    assert float(played.rewards.mean()) == pytest.approx(5 / 6, abs=0.01)


@cache
def worth(left, wins, losses, rent):
    """(E[rewards − rent], E[pulls]) of the best rule when to stop, which must pull at least
    once; exact.
    """
    p = Fraction(wins + 1, wins + losses + 2)
    gain, pulls = p - rent, Fraction(1)
    if left > 1:
        for chance, after in ((p, (wins + 1, losses)), (1 - p, (wins, losses + 1))):
            more, longer = worth(left - 1, *after, rent)
            if more > 0:
                gain, pulls = gain + chance * more, pulls + chance * longer
    return gain, pulls


def index_by_ratio(left, wins, losses):
    """sup over stopping rules of reward a pull: raise the rent to what the best rule earns,
    until it earns nothing more.
    """
    rent = Fraction(0)
    while True:
        gain, pulls = worth(left, wins, losses, rent)
        if gain == 0:
            return float(rent)
        rent += gain / pulls


def test_the_finite_index_is_the_best_reward_a_pull():
    table = finite_horizon_index(10)
    for left in range(1, 11):
        for wins in range(0, 11 - left):
            for losses in range(0, 11 - left - wins):
                expected = pytest.approx(index_by_ratio(left, wins, losses), abs=5e-4)
                assert float(table[left, wins, losses]) == expected, (left, wins, losses)
    assert float(table[5, 4, 4]) == -1 and float(table[0].max()) == -1


def by_index(table):
    return lambda counts, left: max(range(len(counts)), key=lambda k: float(table[left][counts[k]]))


@pytest.mark.parametrize(("arms", "pulls"), [(2, 4), (2, 8), (3, 6)])
def test_the_index_policy_is_nearly_the_best_there_is(arms, pulls):
    best = bayes_value(arms, pulls)
    gittins = bayes_value(arms, pulls, by_index(finite_horizon_index(pulls)))
    assert best - 2e-3 * pulls < gittins <= best + 1e-12


def test_the_best_value_by_enumeration():
    """Two arms, two pulls, by hand: 1/2, then 2/3 after a win and 1/2 after a loss.

    And all rules tried on three pulls.
    """
    assert bayes_value(2, 2) == pytest.approx(0.5 + 0.5 * 2 / 3 + 0.5 * 0.5)

    def best(history, left):
        if not left:
            return Fraction(0)
        options = []
        for arm in (0, 1):
            wins, n = sum(r for a, r in history if a == arm), sum(a == arm for a, _ in history)
            p = Fraction(wins + 1, n + 2)
            won, lost = (best((*history, (arm, reward)), left - 1) for reward in (1, 0))
            options.append(p * (1 + won) + (1 - p) * lost)
        return max(options)

    assert bayes_value(2, 5) == pytest.approx(float(best((), 5)), abs=1e-12)


def test_simulated_and_exact_values_agree():
    table = finite_horizon_index(10)
    got = estimate(earned(Indexed(table), seed=21, count=20_000))
    assert abs(got.mean - bayes_value(5, 10, by_index(table))) < 2.5 * got.half_width


test_errors_of_the_index = refusals(
    ("pulls", lambda: finite_horizon_index(0)),
    ("pulls", lambda: finite_horizon_index(201)),
    ("pulls", lambda: bayes_value(2, -1)),
    ("arms", lambda: bayes_value(0, 2)),
)
