"""Agents trained on decision processes by policy gradient, beside policies that know how they are
drawn.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attnbook.tasks.decisions.bandits import RandomPolicy
from attnbook.tasks.decisions.decision_processes import (
    DecisionProcesses,
    OptimalPlanner,
    value_iteration,
)
from attnbook.tasks.decisions.environments import estimate, play
from attnbook.tasks.decisions.planners import PSRL, EpsilonGreedyPlanner
from attnbook.training.policy_gradient import AgentPolicy

from ..common import select
from ..registry import register_family
from .training import TEST_SEED, AgentSettings, train_new_agent

__all__ = ["ProcessSettings", "fractions_of_optimum", "process_policies", "processes"]


def process_policies() -> dict[str, Any]:
    """The policies for decision processes that a learned one is compared with, by name."""
    return {
        "random": RandomPolicy(),
        "PSRL": PSRL(),
        "ε-greedy, ε = 0.1": EpsilonGreedyPlanner(0.1),
        "greedy": EpsilonGreedyPlanner(0.0),
        "value iteration": OptimalPlanner(),
    }


def fractions_of_optimum(
    environments: DecisionProcesses, policy: Any, *, seed: int, count: int
) -> dict:
    """The reward of a policy as a fraction of the optimal value in the same environments, with its
    95 % interval, and by episode.

    ``Σ_b total_b / Σ_b N V*_H(start)``; the interval is that of the ratio of two means.
    """
    rewards = play(environments, policy, seed=seed, count=count, keep_inputs=False).rewards
    transitions, means = environments.transitions, environments.means
    values = value_iteration(transitions, means, environments.horizon).values
    optimum = environments.episodes * values[:, -1, 0]
    ratio = float(rewards.sum(1).mean() / optimum.mean())
    spread = estimate(rewards.sum(1) - ratio * optimum)
    by_episode = rewards.view(count, environments.episodes, environments.horizon).sum((0, 2))
    by_episode = by_episode / (optimum.sum() / environments.episodes)
    return {
        "fraction": round(ratio, 4),
        "half_width": round(spread.half_width / float(optimum.mean()), 4),
        "by_episode": [round(float(x), 4) for x in by_episode],
    }


@dataclass(frozen=True)
class ProcessSettings(AgentSettings):
    """Settings of :func:`processes`."""

    episodes: int = 10  # episodes per environment
    states: int = 10  # states of a process
    num_actions: int = 5  # actions per state
    horizon: int = 10  # steps per episode
    order: str = ""  # blocks in order, t for TC and a for attention; empty: ta, repeated
    reach: int | None = None  # positions that a TC block sees; None: the whole sequence
    batch: int = 64  # environments per update
    # peak learning rate; the bound of ``fit`` on the gradient of the mean over steps, 1, cuts one
    # in four of the first updates, since rewards here are not bounded
    learning_rate: float = 3e-3
    entropy: float = 0.05  # weight of the entropy bonus at the start
    trace: float = 0.9  # λ of the generalised advantage estimate
    count: int = 2000  # test environments


def processes(
    settings: ProcessSettings, *, seed: int = 0, device: str = "cpu", folder: Path = Path("results")
) -> dict:
    """Train an agent on decision processes, test it in ``count`` new ones as fractions of value
    iteration.

    λ (``trace``) is larger than for bandits, since an action also leads to a state of some value.
    """
    environments = DecisionProcesses(
        settings.episodes,
        states=settings.states,
        actions=settings.num_actions,
        horizon=settings.horizon,
        device=device,
    )
    sizes = select(settings, "width", "filters", "heads", "order")
    sizes["reach"] = settings.reach or environments.length
    agent, figures = train_new_agent(
        environments, settings, sizes, seed=seed, device=device, folder=folder
    )
    policies: dict[str, Any] = {
        "agent": AgentPolicy(agent),
        "agent, most probable action": AgentPolicy(agent, greedy=True),
        **process_policies(),
    }
    test = {
        name: fractions_of_optimum(environments, policy, seed=TEST_SEED, count=settings.count)
        for name, policy in policies.items()
    }
    return {"test": test, **figures}


SMALL = ProcessSettings(
    episodes=5, states=4, num_actions=2, horizon=6, steps=4000, batch=256, learning_rate=4e-3
)
LIFE = "Decision processes of 4 states and 2 actions, five episodes of 6 steps: "
register_family(
    processes,
    replace(SMALL, count=10_000),
    (
        "processes-snail-small",
        LIFE + "SNAIL by policy gradient, with checkpoint",
        "6 minutes on one CPU core",
        dict(
            kind="snail",
            width=32,
            filters=32,
            order="tat",
            reach=2,
            checkpoint="processes-snail-small",
        ),
    ),
    (
        "processes-lstm-small",
        LIFE + "LSTM by policy gradient, with checkpoint",
        "3 minutes on one CPU core",
        dict(kind="lstm", width=64, checkpoint="processes-lstm-small"),
    ),
)
register_family(
    processes,
    ProcessSettings(filters=32, steps=20_000, batch=512, learning_rate=1e-3),
    *(
        (
            f"processes-{_kind}-10-paper",
            f"Decision processes, 10 episodes: {_kind.upper()} at the size of the paper",
            "2 hours on one GPU",
            dict(kind=_kind, width=_width),
        )
        for _kind, _width in (("snail", 32), ("lstm", 256))
    ),
)
register_family(
    processes,
    ProcessSettings(kind="lstm", width=128, steps=1000, batch=128),
    (
        "processes-lstm-10",
        "Decision processes, ten episodes: LSTM by policy gradient, with checkpoint",
        "4 minutes on one CPU core",
        dict(learning_rate=5e-3, checkpoint="processes-lstm-10"),
    ),
    (
        "processes-lstm-10-reuse",
        "The same by the clipped objective, six updates a batch",
        "15 minutes on one CPU core",
        dict(learning_rate=3e-3, reuse=6, trace=0.9),
    ),
)
