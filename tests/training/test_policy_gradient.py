"""Policy gradient: advantages by hand, and the gradient of a tiny bandit's exact return."""

import itertools

import numpy as np
import pytest
import torch
from assertions import assert_refused, refusals

from attnbook.models.snail.agents import Choice, LSTMAgent, SNAILAgent
from attnbook.models.snail.network import AttentionPart, TCPart
from attnbook.tasks.decisions.bandits import Bandits
from attnbook.tasks.decisions.environments import play
from attnbook.training import fit
from attnbook.training.policy_gradient import (
    AgentPolicy,
    ClippedPolicyGradient,
    EpisodeBatches,
    PolicyGradient,
    advantages,
    clipped_policy_loss,
    policy_loss,
)


def by_hand(rewards, values, discount, trace):
    """A_t = Σ_k (γλ)^k δ_{t+k}, written out."""
    rows = []
    for r, v in zip(rewards.tolist(), values.tolist()):
        T = len(r)
        v = [*v, 0.0]
        delta = [r[t] + discount * v[t + 1] - v[t] for t in range(T)]
        rows.append(
            [sum((discount * trace) ** (k - t) * delta[k] for k in range(t, T)) for t in range(T)]
        )
    return np.array(rows)


@pytest.mark.parametrize(("discount", "trace"), [(1.0, 1.0), (0.9, 0.3), (1.0, 0.0), (0.5, 1.0)])
def test_advantages_equal_the_sum(discount, trace):
    generator = torch.Generator().manual_seed(0)
    rewards, values = (
        torch.randn(4, 7, generator=generator, dtype=torch.float64) for _ in range(2)
    )
    got = advantages(rewards, values, discount, trace)
    np.testing.assert_allclose(got.numpy(), by_hand(rewards, values, discount, trace), atol=1e-10)


# The exact expected return: K = 2, N = 2, every history with its chance under p ~ U[0, 1]².

HISTORIES = [
    (a, r) for a in itertools.product((0, 1), repeat=2) for r in itertools.product((0, 1), repeat=2)
]


def chance_of_rewards(actions, rewards):
    chance = 1.0
    for t in range(2):
        wins = sum(r for a, r in zip(actions[:t], rewards[:t]) if a == actions[t])
        n = actions[:t].count(actions[t])
        p = (wins + 1) / (n + 2)
        chance *= p if rewards[t] else 1 - p
    return chance


def log_probability(logits, actions):
    return logits.log_softmax(-1).gather(-1, actions[..., None])[..., 0]


def every_history():
    actions = torch.tensor([a for a, _ in HISTORIES])
    rewards = torch.tensor([r for _, r in HISTORIES], dtype=torch.float64)
    inputs = torch.zeros(len(HISTORIES), 2, 3, dtype=torch.float64)
    inputs[torch.arange(len(HISTORIES)), 1, actions[:, 0]] = 1
    inputs[:, 1, 2] = rewards[:, 0]
    luck = torch.tensor([chance_of_rewards(a, r) for a, r in HISTORIES], dtype=torch.float64)
    return inputs, actions, rewards, luck


def agent():
    """With large weights, so that what it does depends on what it saw."""
    torch.manual_seed(3)
    model = LSTMAgent(3, 2, hidden_size=5).double()
    with torch.no_grad():
        model.heads.actor.weight.mul_(6.0)
        model.heads.critic.weight.mul_(6.0)
    return model


def chances(model):
    inputs, actions, rewards, luck = every_history()
    return log_probability(model(inputs).logits, actions).sum(1).exp() * luck


def expected_return(model):
    with torch.no_grad():
        return float((chances(model) * every_history()[2].sum(1)).sum())


def weights_of_the_policy(model):
    return [p for name, p in model.named_parameters() if "critic" not in name]


def slope_of_the_return(model, step=1e-6):
    """∂E[return]/∂θ by central differences."""
    slopes = []
    for p in weights_of_the_policy(model):
        flat = p.data.view(-1)
        for i in range(len(flat)):
            stored = float(flat[i])
            flat[i] = stored + step
            up = expected_return(model)
            flat[i] = stored - step
            slopes.append((up - expected_return(model)) / (2 * step))
            flat[i] = stored
    return np.array(slopes)


def mean_gradient(model, loss):
    """The mean of the estimate over all histories, each with its chance under the policy."""
    inputs, actions, rewards, _ = every_history()
    p = chances(model).detach()
    total = (p * loss(model(inputs), actions, rewards)).sum()
    parts = torch.autograd.grad(total, weights_of_the_policy(model), materialize_grads=True)
    return torch.cat([part.flatten() for part in parts]).numpy()


def plain(choice, actions, rewards, **settings):
    return policy_loss(choice.logits, choice.values, actions, rewards, value_weight=0.0, **settings)


def test_the_gradient_is_that_of_the_expected_return():
    model = agent()
    assert float(chances(model).detach().sum()) == pytest.approx(1, abs=1e-12)
    slopes = slope_of_the_return(model)
    assert np.abs(slopes).max() > 0.01
    np.testing.assert_allclose(-mean_gradient(model, plain), slopes, atol=1e-8)


def weighted(choice, actions, gains):
    return -(gains * log_probability(choice.logits, actions)).sum(1)


def returns(rewards):
    return rewards.flip(1).cumsum(1).flip(1)


def over_the_end(choice, actions, rewards):
    flat = rewards.flatten().flip(0).cumsum(0).flip(0).view_as(rewards)
    return weighted(choice, actions, flat - choice.values.detach())


def probability(choice, actions, rewards):
    p = log_probability(choice.logits, actions).exp()
    return -(advantages(rewards, choice.values.detach()) * p).sum(1)


WRONG = {
    "the baseline carries a gradient": lambda c, a, r: weighted(c, a, returns(r) - c.values),
    "the other action": lambda c, a, r: plain(c, 1 - a, r),
    "the most probable action": lambda c, a, r: plain(c, c.logits.argmax(-1), r),
    "the next reward alone": lambda c, a, r: plain(c, a, r, discount=0.0),
    "the reward of the step before": lambda c, a, r: plain(c, a, r.roll(1, 1)),
    "uphill of the entropy": lambda c, a, r: plain(c, a, r, entropy_weight=0.1),
    "π instead of log π": probability,
    "returns summed over the end of a world into the next row": over_the_end,
}


@pytest.mark.parametrize("mistake", WRONG)
def test_a_wrong_loss_has_another_gradient(mistake):
    model = agent()
    assert np.abs(-mean_gradient(model, WRONG[mistake]) - slope_of_the_return(model)).max() > 3e-3


def test_the_values_learn_the_return_and_no_gradient_goes_through_it():
    generator = torch.Generator().manual_seed(1)
    logits = torch.zeros(3, 4, 2)
    values = torch.randn(3, 4, generator=generator, requires_grad=True)
    rewards, actions = torch.rand(3, 4, generator=generator), torch.zeros(3, 4, dtype=torch.int64)
    policy_loss(logits, values, actions, rewards, value_weight=0.5).sum().backward()
    assert torch.allclose(values.grad, (values - returns(rewards)).detach(), atol=1e-6)


# Agents


def agents():
    torch.manual_seed(0)
    small = (TCPart(3), AttentionPart(4, 3), TCPart(3))
    return {
        "lstm": LSTMAgent(6, 5, 7, 2.0).double(),
        "snail": SNAILAgent(6, 5, 9, 6, small, 2.0).double(),
    }


@pytest.mark.parametrize("name", ["lstm", "snail"])
def test_acting_with_a_cache_equals_the_whole_pass(name):
    model, inputs = agents()[name], torch.randn(4, 9, 6, dtype=torch.float64)
    complete, state = model(inputs), model.start(4)
    for t in range(9):
        choice, state = model.step(inputs[:, t], state)
        assert torch.allclose(choice.logits, complete.logits[:, t], atol=1e-10)
        assert torch.allclose(choice.values, complete.values[:, t], atol=1e-10)


def test_attention_of_the_agent_is_causal_and_sums_to_1():
    (weights,) = agents()["snail"].attention(torch.randn(2, 9, 6, dtype=torch.float64))
    assert weights.shape == (2, 9, 9) and torch.allclose(weights.sum(-1), torch.ones(()).double())
    assert not weights.triu(1).any()


# Training


class Fixed(torch.nn.Module):
    """An agent with the same chances at every step."""

    def __init__(self, logits):
        super().__init__()
        self.logits = torch.nn.Parameter(torch.tensor(logits))

    def start(self, count):
        return 0

    def step(self, input, state):
        return Choice(self.logits.expand(len(input), -1), input.new_zeros(len(input))), state + 1

    def forward(self, inputs):
        return Choice(self.logits.expand(*inputs.shape[:2], -1), inputs.new_zeros(inputs.shape[:2]))


def test_actions_are_drawn_with_their_chances():
    model = Fixed([0.0, 1.0, -1.0])
    drawn = play(Bandits(3, 50), AgentPolicy(model), seed=0, count=400).actions
    share = torch.bincount(drawn.flatten(), minlength=3) / drawn.numel()
    assert torch.allclose(share, model.logits.softmax(0), atol=0.015)
    assert (
        play(Bandits(3, 5), AgentPolicy(model, greedy=True), seed=0, count=4).actions == 1
    ).all()


def test_episodes_are_a_function_of_the_step_and_none_comes_twice():
    episodes = EpisodeBatches(8, seed=1)
    assert torch.equal(episodes.batch(3).seed, EpisodeBatches(8, seed=1).batch(3).seed)
    assert (episodes.batch(3).step == 3).all()
    first = torch.cat([EpisodeBatches(8, s).batch(t).seed for s in (0, 1) for t in range(5)])
    assert len(first.unique()) == len(first)


def test_the_loss_is_that_of_the_episodes_it_played():
    torch.manual_seed(0)
    model, learn = LSTMAgent(4, 3, 6), PolicyGradient(Bandits(3, 5), steps=10, entropy=0.2)
    batch = EpisodeBatches(16).batch(5)
    total, count = learn(model, batch)
    played = play(Bandits(3, 5), AgentPolicy(model), seed=int(batch.seed[0]), count=16)
    choice = model(played.inputs)
    # half of the way
    expected = policy_loss(
        choice.logits, choice.values, played.actions, played.rewards, entropy_weight=0.1
    ).sum()
    assert count == 80
    assert torch.allclose(total, expected)
    assert learn.rewards == [pytest.approx(float(played.rewards.sum(1).mean()))]


def some_choices(seed=0):
    """Logits, values, actions, earlier log-probabilities, advantages and returns: (3, 6) each."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(3, 6, 4, generator=generator, dtype=torch.float64)
    values, gains, returns = (
        torch.randn(3, 6, generator=generator, dtype=torch.float64) for _ in range(3)
    )
    actions = torch.randint(4, (3, 6), generator=generator)
    earlier = logits + torch.randn(3, 6, 4, generator=generator, dtype=torch.float64)
    return logits, values, actions, log_probability(earlier, actions), gains, returns


def test_the_clipped_loss_equals_the_sum_by_hand():
    logits, values, actions, before, gains, returns = some_choices()
    options = dict(clip=0.2, value_weight=0.3, entropy_weight=0.1)
    got = clipped_policy_loss(logits, values, actions, before, gains, returns, **options)
    met = set()
    for b in range(3):
        total = 0.0
        for t in range(6):
            p = np.exp(logits[b, t].numpy())
            p /= p.sum()
            ratio, gain = p[actions[b, t]] / np.exp(float(before[b, t])), float(gains[b, t])
            met.add((gain > 0, "above" if ratio > 1.2 else "below" if ratio < 0.8 else "near"))
            least = min(ratio * gain, min(max(ratio, 0.8), 1.2) * gain)
            total += (
                -least
                + 0.3 * float(values[b, t] - returns[b, t]) ** 2
                + 0.1 * (p * np.log(p)).sum()
            )
        assert float(got[b]) == pytest.approx(total, abs=1e-10)
    assert {(True, "above"), (True, "below"), (False, "above"), (False, "below")} <= met


@pytest.mark.parametrize("weight", [0.0, 0.1])
def test_an_action_that_is_masked_counts_as_one_that_does_not_exist(weight):
    logits, values, actions, before, gains, returns = some_choices()
    masked = torch.cat([logits, torch.full_like(logits[..., :1], -torch.inf)], -1)
    results = []
    for given in (logits, masked):
        given = given.clone().requires_grad_()
        losses = [
            policy_loss(given, values, actions, returns, entropy_weight=weight),
            clipped_policy_loss(
                given, values, actions, before, gains, returns, entropy_weight=weight
            ),
        ]
        gradient = torch.autograd.grad(torch.stack(losses).sum(), given)[0]
        results.append((torch.stack(losses), gradient))
    torch.testing.assert_close(results[1][0], results[0][0], rtol=0, atol=1e-10)
    torch.testing.assert_close(results[1][1][..., :4], results[0][1], rtol=0, atol=1e-10)
    assert not results[1][1][..., 4].any()


def test_while_it_is_the_policy_that_acted_the_gradient_is_the_plain_one():
    logits, values, actions, _, gains, _ = some_choices()
    rewards = gains.flip(1)
    logits.requires_grad_()
    plainly = policy_loss(
        logits, values, actions, rewards, discount=0.9, trace=0.8, value_weight=0.0
    )
    before = log_probability(logits.detach(), actions)
    result = advantages(rewards, values, 0.9, 0.8)
    clipped = clipped_policy_loss(
        logits, values, actions, before, result, result + values, value_weight=0.0
    )
    torch.testing.assert_close(
        *(torch.autograd.grad(loss.sum(), logits)[0] for loss in (plainly, clipped)),
        atol=1e-12,
        rtol=0,
    )


def zeros(*shape):
    return torch.zeros(*shape)


def clipped(**change):
    names = ("logits", "values", "actions", "before", "gains", "returns")
    return clipped_policy_loss(**{**dict(zip(names, some_choices())), **change})


test_bad_input_is_named = refusals(
    ("rewards", lambda: advantages(zeros(2, 3), zeros(2, 4))),
    ("rewards", lambda: advantages(zeros(3), zeros(3))),
    ("rewards", lambda: advantages(zeros(2, 0), zeros(2, 0))),
    ("discount", lambda: advantages(zeros(1, 3), zeros(1, 3), 1.1)),
    ("trace", lambda: advantages(zeros(1, 3), zeros(1, 3), 1.0, -1.0)),
    ("actions", lambda: policy_loss(zeros(2, 3, 4), zeros(2, 3), zeros(2, 4).long(), zeros(2, 3))),
    ("values", lambda: policy_loss(zeros(2, 3, 4), zeros(2, 1), zeros(2, 3).long(), zeros(2, 1))),
    ("before", lambda: clipped(before=zeros(3, 5))),
    ("gains", lambda: clipped(gains=zeros(6))),
    ("clip", lambda: clipped(clip=0.0)),
    ("inputs", lambda: agents()["lstm"](zeros(1, 2, 5).double())),
    ("inputs", lambda: agents()["snail"](zeros(1, 2, 5).double())),
    ("reuse", lambda: ClippedPolicyGradient(Bandits(2, 4), steps=7, reuse=0)),
)


def run(learn, steps, agent=LSTMAgent, width=8, episodes=6, rate=1e-3, **options):
    """An agent after some updates in the worlds of a loss."""
    torch.manual_seed(0)
    model = agent(learn.worlds.d_input, 2, width, float(learn.worlds.length))
    options = dict(steps=steps, learning_rate=rate, progress=False, device="cpu", **options)
    fit(model, EpisodeBatches(episodes), learn, **options)
    return model


def clipped_run(steps, reuse=2, **options):
    """The weights after a run of PPO in a small world."""
    model = run(ClippedPolicyGradient(Bandits(2, 4), steps=8, reuse=reuse), steps, **options)
    return torch.cat([p.flatten() for p in model.parameters()])


def test_a_batch_of_episodes_serves_several_updates():
    learn = ClippedPolicyGradient(Bandits(2, 4), steps=7, reuse=3)
    model = run(learn, 7)
    assert len(learn.rewards) == 3, "at the updates 0, 3 and 6"
    inputs, _, _, gains, _ = learn._played
    assert inputs.shape[:2] == gains.shape == (6, 4)
    assert abs(float(gains.mean())) < 1e-6
    assert float(gains.std()) == pytest.approx(1, abs=1e-5)
    batch = EpisodeBatches(6).batch(1)
    assert_refused("batch", learn, model, type(batch)(*(part[:3] for part in batch)))


def test_a_run_that_is_resumed_between_two_plays_says_that_it_is_another(tmp_path):
    saved = dict(checkpoint_dir=tmp_path, save_every=1)
    clipped_run(4, **saved)
    assert_refused("checkpoint_dir", clipped_run, 5, reuse=3, **saved)
    clipped_run(5, **saved)
    with pytest.warns(
        UserWarning,
        match=r"update 5 needs episodes that no checkpoint holds.*multiple of 2 \(reuse\)",
    ):
        parts = clipped_run(8, **saved)
    assert not torch.equal(parts, clipped_run(8))


def test_a_run_that_is_resumed_at_a_play_is_the_same(tmp_path):
    saved = dict(checkpoint_dir=tmp_path, save_every=2)
    clipped_run(4, **saved)
    assert torch.equal(clipped_run(8, **saved), clipped_run(8))


def test_worlds_on_another_device_are_named():
    worlds = Bandits(2, 4)
    model, batch = LSTMAgent(worlds.d_input, 2, 8, 4.0), EpisodeBatches(3).batch(0)
    for learn in (PolicyGradient(worlds, steps=3), ClippedPolicyGradient(worlds, steps=3)):
        assert_refused("worlds", lambda: learn(model, batch._replace(seed=batch.seed.to("meta"))))


@pytest.mark.parametrize(("blind", "least", "most"), [(False, 5.8, 6.1), (True, 4.8, 5.3)])
def test_it_learns_and_a_twin_that_never_sees_its_rewards_does_not(blind, least, most):
    """Two arms, ten pulls: a random player earns 5, the best policy 6.02."""
    seen = torch.tensor([1.0, 1.0, 0.0 if blind else 1.0])

    class Agent(LSTMAgent):
        def forward(self, inputs):
            return super().forward(inputs * seen)

        def step(self, input, state):
            return super().step(input * seen, state)

    worlds = Bandits(2, 10)
    settings = dict(entropy=0.02, discount=0.9, trace=0.9, value_weight=0.05)
    learn = ClippedPolicyGradient(worlds, steps=200, reuse=2, **settings)
    policy = AgentPolicy(run(learn, 200, Agent, 16, 128, 1e-2), greedy=True)
    rewards = play(worlds, policy, seed=9, count=4000, keep_inputs=False).rewards
    assert least < float(rewards.sum(1).mean()) < most
