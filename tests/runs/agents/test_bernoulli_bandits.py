"""Runs of bandits, small: what they record, regret by hand, and agents that learn."""

import json

import pytest
import torch
from assertions import assert_refused

from attnbook import resources
from attnbook.models.snail.agents import LSTMAgent
from attnbook.tasks.decisions.bandits import Bandits
from attnbook.tasks.decisions.decision_processes import DecisionProcesses
from attnbook.tasks.decisions.environments import play
from attnbook.training import load_model_weights
from attnbook.training.policy_gradient import AgentPolicy
from attnbook_runs import agents

TINY = dict(steps=3, batch=8, width=8, filters=4, count=40)


@pytest.mark.parametrize("kind", ["lstm", "snail"])
def test_a_run_leaves_figures_and_a_checkpoint_that_loads(tmp_path, kind):
    found = agents.bandits(
        agents.BanditSettings(pulls=4, arms=3, kind=kind, checkpoint="one", **TINY), folder=tmp_path
    )
    assert set(found["test"]) == {"agent", "agent, most probable arm", *agents.bandit_policies(4)}
    assert len(found["rewards"]) == 3
    assert all(0 < row["reward"] <= 4 and row["half_width"] > 0 for row in found["test"].values())
    again = agents.make_agent(Bandits(3, 4), kind, width=8, filters=4)
    assert sum(p.numel() for p in again.parameters()) == found["parameters"]
    assert load_model_weights(again, tmp_path / "one.safetensors")["kind"] == kind


def test_an_unknown_agent_is_named():
    assert_refused("kind", lambda: agents.make_agent(Bandits(), "gru"))


class WithoutRewards(LSTMAgent):
    """The broken twin: it does not see its rewards."""

    def forward(self, inputs):
        return super().forward(self.cut(inputs))

    def step(self, input, state):
        return super().step(self.cut(input), state)

    @staticmethod
    def cut(inputs):
        mask = torch.ones(inputs.shape[-1])
        mask[2] = 0  # after two actions
        return inputs * mask


@pytest.mark.parametrize(
    ("make", "least", "most"), [(LSTMAgent, 0.71, 0.85), (WithoutRewards, 0.58, 0.66)]
)
def test_an_agent_learns_small_environments_and_its_broken_twin_does_not(make, least, most):
    """A random player earns 0.625 of the plan."""
    environments = DecisionProcesses(3, states=2, actions=2, horizon=4)
    torch.manual_seed(0)
    agent = make(environments.d_input, 2, 32, float(environments.length))
    settings = agents.ProcessSettings(steps=150, batch=256, learning_rate=1e-2)
    agents.train_agent(agent, environments, settings, seed=0, device="cpu")
    found = agents.fractions_of_optimum(
        environments, AgentPolicy(agent, greedy=True), seed=5, count=4000
    )
    assert least < found["fraction"] < most
    assert (found["by_episode"][-1] - found["by_episode"][0] > 0.06) == (make is LSTMAgent), (
        "it learns within an environment"
    )


def test_both_recorded_bandits_are_better_than_chance():
    """A twin that was not trained stays at 5."""
    world = Bandits(5, 10)
    torch.manual_seed(0)
    for kind in ("snail", "lstm"):
        record = json.loads(resources.text(f"results/bandits-{kind}-10.seed0.json"))
        figures = record["figures"]["test"]
        assert figures["agent, most probable arm"]["reward"] > 6.2
        assert 4.9 < figures["random"]["reward"] < 5.1
        fresh = agents.make_agent(world, kind)
        played = play(world, AgentPolicy(fresh), seed=1, count=500, keep_inputs=False)
        assert float(played.rewards.sum(1).mean()) < 5.5


def test_the_recorded_agent_of_a_hundred_pulls_explores():
    """The greedy rule never pays for knowledge.

    A twin that has not learned to explore earns no more than it; the bar is 3 % of Gittins.
    """
    settings = json.loads(resources.text("results/bandits-lstm-100.seed0.json"))["settings"]
    agent = agents.make_agent(
        Bandits(5, 100), "lstm", width=settings["width"], discount=settings["discount"]
    )
    load_model_weights(agent, resources.path("results/bandits-lstm-100.safetensors"))
    policies = {"agent": AgentPolicy(agent, greedy=True), **agents.bandit_policies(100)}
    earned = {
        name: play(Bandits(5, 100), policy, seed=77, count=4000, keep_inputs=False).rewards.sum(1)
        for name, policy in policies.items()
        if name in ("agent", "greedy", "Gittins")
    }
    ahead = earned["agent"] - earned["greedy"]  # in the same bandits
    assert float(ahead.mean()) > 3 * float(ahead.std()) / 4000**0.5
    assert float(earned["agent"].mean()) > 0.97 * float(earned["Gittins"].mean())
