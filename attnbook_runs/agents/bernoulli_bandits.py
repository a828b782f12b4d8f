"""Agents trained on bandits by policy gradient, beside policies that know how they are drawn."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

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
from attnbook.tasks.decisions.gittins import finite_horizon_index
from attnbook.training.policy_gradient import AgentPolicy

from ..common import select
from ..registry import register
from .training import TEST_SEED, AgentSettings, train_new_agent

__all__ = ["BanditSettings", "bandit_policies", "bandits"]


def bandit_policies(pulls: int) -> dict[str, Any]:
    """The policies that a learned one is compared with, by name."""
    return {
        "random": RandomPolicy(),
        "ε-greedy, ε = 0.1": EpsilonGreedy(0.1),
        "UCB1": UCB1(),
        "Thompson": Thompson(),
        "greedy": EpsilonGreedy(0.0),
        "Gittins": Indexed(finite_horizon_index(pulls)),
        "knows the best arm": BestArm(),
    }


@dataclass(frozen=True)
class BanditSettings(AgentSettings):
    """Settings of :func:`bandits`."""

    pulls: int = 10  # pulls per episode
    arms: int = 5  # arms of a bandit


def bandits(
    settings: BanditSettings, *, seed: int = 0, device: str = "cpu", folder: Path = Path("results")
) -> dict:
    """Train an agent on bandits, test it in ``count`` new ones beside the policies of
    :func:`bandit_policies`.
    """
    environments = Bandits(settings.arms, settings.pulls, device)
    sizes = select(settings, "width", "filters", "heads")
    agent, figures = train_new_agent(
        environments, settings, sizes, seed=seed, device=device, folder=folder
    )
    policies: dict[str, Any] = {
        "agent": AgentPolicy(agent),
        "agent, most probable arm": AgentPolicy(agent, greedy=True),
        **bandit_policies(settings.pulls),
    }
    test = {}
    for name, policy in policies.items():
        episodes = play(
            environments, policy, seed=TEST_SEED, count=settings.count, keep_inputs=False
        )
        reward = estimate(episodes.rewards.sum(1))
        test[name] = {"reward": round(reward.mean, 4), "half_width": round(reward.half_width, 4)}
    return {"test": test, **figures}


for _kind, _label in (("snail", "SNAIL"), ("lstm", "LSTM")):
    _snail = _kind == "snail"
    register(
        f"bandits-{_kind}-10",
        bandits,
        BanditSettings(kind=_kind, width=32 if _snail else 64, checkpoint=f"bandits-{_kind}-10"),
        title=f"Five arms, ten pulls: {_label} by policy gradient, with checkpoint",
        minutes=f"{2 if _snail else 1} minutes on one CPU core",
    )
    register(
        f"bandits-{_kind}-10-arms-10",
        bandits,
        BanditSettings(kind=_kind, arms=10, width=32 if _snail else 64),
        title=f"Ten arms, ten pulls: {_label} by policy gradient",
        minutes=f"{3 if _snail else 2} minutes on one CPU core",
    )
HUNDRED = BanditSettings(
    kind="lstm",
    width=64,
    pulls=100,
    batch=512,
    steps=2400,
    reuse=6,
    learning_rate=4e-3,
    entropy=0.003,
    trace=0.9,
    discount=0.99,
    count=5000,
    checkpoint="bandits-lstm-100",
)
register(
    "bandits-lstm-100",
    bandits,
    HUNDRED,
    title="Five arms, a hundred pulls: LSTM by clipped policy gradient, with checkpoint",
    minutes="25 minutes on one CPU core",
)
register(
    "bandits-snail-100",
    bandits,
    # a pass over a hundred pulls costs four times that of the LSTM: a quarter of the episodes
    replace(HUNDRED, kind="snail", width=32, batch=128, checkpoint=""),
    title="The same with SNAIL, with a quarter of the episodes in each update",
    minutes="25 minutes on one CPU core",
)
