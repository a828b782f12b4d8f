"""Policy gradient: advantages against sums by hand, and its gradient against the exact expected
return of a tiny bandit.
"""

import itertools

import numpy as np
import pytest
import torch
from refusing import assert_refused

from attnbook.models.snail.agents import Choice, LSTMAgent, SNAILAgent
from attnbook.models.snail.network import AttentionPart, TCPart
from attnbook.tasks.decisions.bandits import Bandits
from attnbook.tasks.decisions.decision_processes import DecisionProcesses
from attnbook.tasks.decisions.environments import play
from attnbook.tasks.decisions.gittins import bayes_value
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
    if discount == trace == 1:
        np.testing.assert_allclose(
            got.numpy(), rewards.flip(1).cumsum(1).flip(1).numpy() - values.numpy(), atol=1e-10
        )


def test_returns_run_over_episodes_and_end_with_the_world():
    """What is learned in one episode pays in the next, so they are one return; another world in
    the batch adds nothing.
    """
    rewards = torch.zeros(2, 6, dtype=torch.float64)
    rewards[0, 5] = 1.0
    got = advantages(rewards, torch.zeros_like(rewards))
    assert got[0].tolist() == [1.0] * 6 and got[1].tolist() == [0.0] * 6


@pytest.mark.parametrize(
    "call",
    [
        lambda: advantages(torch.zeros(2, 3), torch.zeros(2, 4)),
        lambda: advantages(torch.zeros(3), torch.zeros(3)),
        lambda: advantages(torch.zeros(2, 0), torch.zeros(2, 0)),
        lambda: advantages(torch.zeros(1, 3), torch.zeros(1, 3), 1.1),
        lambda: advantages(torch.zeros(1, 3), torch.zeros(1, 3), 1.0, -1.0),
        lambda: policy_loss(
            torch.zeros(2, 3, 4),
            torch.zeros(2, 3),
            torch.zeros(2, 4, dtype=torch.int64),
            torch.zeros(2, 3),
        ),
        lambda: policy_loss(
            torch.zeros(2, 3, 4),
            torch.zeros(2, 1),
            torch.zeros(2, 3, dtype=torch.int64),
            torch.zeros(2, 1),
        ),
    ],
)
def test_errors(call):
    with pytest.raises(ValueError, match="rewards|discount|trace|actions|values"):
        call()


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
    log_p = model(inputs).logits.log_softmax(-1).gather(-1, actions[..., None])[..., 0]
    return log_p.sum(1).exp() * luck


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
    choice = model(inputs)
    total = (p * loss(choice, actions, rewards)).sum()
    result = torch.autograd.grad(total, weights_of_the_policy(model), allow_unused=True)
    return np.concatenate(
        [
            np.zeros(w.numel()) if g is None else g.numpy().ravel()
            for g, w in zip(result, weights_of_the_policy(model))
        ]
    )


def plain(choice, actions, rewards, **settings):
    return policy_loss(choice.logits, choice.values, actions, rewards, value_weight=0.0, **settings)


def test_all_histories_have_a_chance_of_1():
    assert float(chances(agent()).detach().sum()) == pytest.approx(1, abs=1e-12)


def test_the_gradient_is_that_of_the_expected_return():
    model = agent()
    slopes = slope_of_the_return(model)
    assert np.abs(slopes).max() > 0.01
    np.testing.assert_allclose(-mean_gradient(model, plain), slopes, atol=1e-8)


def leaking(choice, actions, rewards):
    """The baseline carries a gradient."""
    log_p = choice.logits.log_softmax(-1).gather(-1, actions[..., None])[..., 0]
    gains = rewards.flip(1).cumsum(1).flip(1) - choice.values
    return -(gains * log_p).sum(1)


def other_action(choice, actions, rewards):
    return plain(choice, 1 - actions, rewards)


def most_probable(choice, actions, rewards):
    return plain(choice, choice.logits.argmax(-1), rewards)


def immediate(choice, actions, rewards):
    return plain(choice, actions, rewards, discount=0.0)


def shifted(choice, actions, rewards):
    """The reward of the step before stands beside the action."""
    return plain(choice, actions, rewards.roll(1, 1))


def uphill_of_entropy(choice, actions, rewards):
    return plain(choice, actions, rewards, entropy_weight=0.1)


def probability(choice, actions, rewards):
    """π instead of log π."""
    p = choice.logits.softmax(-1).gather(-1, actions[..., None])[..., 0]
    return -(advantages(rewards, choice.values.detach()) * p).sum(1)


def over_the_end(choice, actions, rewards):
    """Returns summed over the end of a world into the next row."""
    flat = rewards.flatten().flip(0).cumsum(0).flip(0).view_as(rewards)
    log_p = choice.logits.log_softmax(-1).gather(-1, actions[..., None])[..., 0]
    return -((flat - choice.values.detach()) * log_p).sum(1)


@pytest.mark.parametrize(
    "wrong",
    [
        leaking,
        other_action,
        most_probable,
        immediate,
        shifted,
        uphill_of_entropy,
        probability,
        over_the_end,
    ],
    ids=lambda f: f.__name__,
)
def test_a_wrong_loss_has_another_gradient(wrong):
    model = agent()
    assert np.abs(-mean_gradient(model, wrong) - slope_of_the_return(model)).max() > 3e-3


def test_the_values_learn_the_return_and_no_gradient_goes_through_it():
    generator = torch.Generator().manual_seed(1)
    logits = torch.zeros(3, 4, 2)
    values = torch.randn(3, 4, generator=generator, requires_grad=True)
    rewards, actions = torch.rand(3, 4, generator=generator), torch.zeros(3, 4, dtype=torch.int64)
    policy_loss(logits, values, actions, rewards, value_weight=0.5).sum().backward()
    returns = rewards.flip(1).cumsum(1).flip(1)
    assert torch.allclose(values.grad, (values - returns).detach(), atol=1e-6)


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
        shorter = model(inputs[:, : t + 1])
        assert torch.allclose(shorter.logits[:, -1], complete.logits[:, t], atol=1e-10)


@pytest.mark.parametrize("name", ["lstm", "snail"])
def test_no_choice_depends_on_what_comes_later(name):
    model, inputs = agents()[name], torch.randn(2, 9, 6, dtype=torch.float64, requires_grad=True)
    for t in (0, 3, 8):
        (slope,) = torch.autograd.grad(
            model(inputs).logits[:, t].sum() + model(inputs).values[:, t].sum(), inputs
        )
        assert not slope[:, t + 1 :].any()
        assert slope[:, t].any()
        assert slope[:, : t + 1].abs().sum((0, 2)).min() > 0


def test_attention_of_the_agent_is_causal_and_sums_to_1():
    (weights,) = agents()["snail"].attention(torch.randn(2, 9, 6, dtype=torch.float64))
    assert weights.shape == (2, 9, 9) and torch.allclose(weights.sum(-1), torch.ones(()).double())
    assert not weights.triu(1).any()


@pytest.mark.parametrize("name", ["lstm", "snail"])
def test_agents_name_a_wrong_width(name):
    assert_refused("inputs", lambda: agents()[name](torch.zeros(1, 2, 5, dtype=torch.float64)))


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


def test_an_agent_learns_which_of_two_arms_pays():
    """Two arms, four pulls: random earns 2, the best rule 2.28."""
    worlds = Bandits(2, 4)
    assert 2.27 < bayes_value(2, 4) < 2.28
    torch.manual_seed(0)
    model = LSTMAgent(worlds.d_input, 2, 24, value_scale=2.0)
    learn = PolicyGradient(worlds, steps=150, entropy=0.01, value_weight=0.1)
    fit(
        model,
        EpisodeBatches(256),
        learn,
        steps=150,
        learning_rate=0.02,
        progress=False,
        device="cpu",
    )
    assert sum(learn.rewards[:5]) / 5 < 2.12 and sum(learn.rewards[-30:]) / 30 > 2.14


def test_a_process_is_lived_in_too():
    worlds = DecisionProcesses(2, states=3, actions=2, horizon=3)
    model = SNAILAgent(worlds.d_input, 2, worlds.length, 8, (TCPart(4), AttentionPart(4, 4)))
    learn = PolicyGradient(worlds, steps=3, trace=0.9)
    history = fit(model, EpisodeBatches(8), learn, steps=3, progress=False, device="cpu")
    assert len(learn.rewards) == 3 and all(np.isfinite(history.losses))


def some_choices(seed=0):
    """Logits, values, actions, log-probabilities of an earlier policy far away, advantages and
    returns: (3, 6) each.
    """
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(3, 6, 4, generator=generator, dtype=torch.float64)
    values, gains, returns = (
        torch.randn(3, 6, generator=generator, dtype=torch.float64) for _ in range(3)
    )
    actions = torch.randint(4, (3, 6), generator=generator)
    earlier = (logits + torch.randn(3, 6, 4, generator=generator, dtype=torch.float64)).log_softmax(
        -1
    )
    return logits, values, actions, earlier.gather(-1, actions[..., None])[..., 0], gains, returns


def test_the_clipped_loss_equals_the_sum_by_hand():
    logits, values, actions, before, gains, returns = some_choices()
    got = clipped_policy_loss(
        logits,
        values,
        actions,
        before,
        gains,
        returns,
        clip=0.2,
        value_weight=0.3,
        entropy_weight=0.1,
    )
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
    before = logits.detach().log_softmax(-1).gather(-1, actions[..., None])[..., 0]
    result = advantages(rewards, values, 0.9, 0.8)
    clipped = clipped_policy_loss(
        logits, values, actions, before, result, result + values, value_weight=0.0
    )
    torch.testing.assert_close(
        *(torch.autograd.grad(loss.sum(), logits)[0] for loss in (plainly, clipped)),
        atol=1e-12,
        rtol=0,
    )


def test_far_from_it_nothing_more_is_gained_and_the_way_back_stays_open():
    logits = torch.tensor([[[1.0, 0.0]]], dtype=torch.float64, requires_grad=True)
    values = torch.zeros(1, 1, dtype=torch.float64)
    now = float(logits.detach().log_softmax(-1)[0, 0, 0])
    for shift, gain, moves in (
        (-0.5, 1.0, False),
        (-0.5, -1.0, True),
        (0.5, -1.0, False),
        (0.5, 1.0, True),
    ):
        # a shift below 0: the action is more probable than before
        before = torch.full((1, 1), now + shift, dtype=torch.float64)
        loss = clipped_policy_loss(
            logits,
            values,
            torch.zeros(1, 1, dtype=torch.int64),
            before,
            torch.full_like(values, gain),
            values,
        )
        assert bool(torch.autograd.grad(loss.sum(), logits)[0].abs().sum() > 1e-6) == moves


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (dict(before=torch.zeros(3, 5)), "before"),
        (dict(gains=torch.zeros(6)), "gains"),
        (dict(clip=0.0), "clip"),
    ],
)
def test_arguments_of_the_clipped_loss(change, words):
    given = dict(zip(("logits", "values", "actions", "before", "gains", "returns"), some_choices()))
    assert_refused(words, clipped_policy_loss, **{**given, **change})


def test_a_batch_of_episodes_serves_several_updates():
    worlds = Bandits(2, 4)
    torch.manual_seed(0)
    model = LSTMAgent(worlds.d_input, 2, 8, 4.0)
    learn = ClippedPolicyGradient(worlds, steps=7, reuse=3)
    fit(model, EpisodeBatches(6), learn, steps=7, learning_rate=1e-3, progress=False, device="cpu")
    assert len(learn.rewards) == 3, "at the updates 0, 3 and 6"
    inputs, _, _, gains, _ = learn._played
    assert inputs.shape[:2] == gains.shape == (6, 4)
    assert abs(float(gains.mean())) < 1e-6
    assert float(gains.std()) == pytest.approx(1, abs=1e-5)
    assert_refused(
        "batch",
        lambda: learn(
            model,
            type(EpisodeBatches(3).batch(1))(*(part[:3] for part in EpisodeBatches(6).batch(1))),
        ),
    )
    assert_refused("reuse", ClippedPolicyGradient, worlds, steps=7, reuse=0)


def clipped_run(steps, reuse=2, **options):
    """The weights after a run of PPO in a small world."""
    torch.manual_seed(0)
    model = LSTMAgent(Bandits(2, 4).d_input, 2, 8, 4.0)
    learn = ClippedPolicyGradient(Bandits(2, 4), steps=8, reuse=reuse)
    options = dict(steps=steps, learning_rate=1e-3, progress=False, device="cpu", **options)
    fit(model, EpisodeBatches(6), learn, **options)
    return torch.cat([p.flatten() for p in model.parameters()])


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
    worlds = Bandits(2, 10)

    class Agent(LSTMAgent):
        def forward(self, inputs):
            return super().forward(inputs * seen)

        def step(self, input, state):
            return super().step(input * seen, state)

    seen = torch.tensor([1.0, 1.0, 0.0 if blind else 1.0])
    torch.manual_seed(0)
    model = Agent(worlds.d_input, 2, 16, 10.0)
    learn = ClippedPolicyGradient(
        worlds, steps=200, reuse=2, entropy=0.02, discount=0.9, trace=0.9, value_weight=0.05
    )
    fit(
        model,
        EpisodeBatches(128),
        learn,
        steps=200,
        learning_rate=1e-2,
        progress=False,
        device="cpu",
    )
    earned = (
        play(worlds, AgentPolicy(model, greedy=True), seed=9, count=4000, keep_inputs=False)
        .rewards.sum(1)
        .mean()
    )
    assert least < float(earned) < most
