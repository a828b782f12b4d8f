"""Agents trained on decision processes by policy gradient, beside policies that know how they are
drawn.
"""

from __future__ import annotations

from dataclasses import dataclass
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
from ..registry import register
from .training import TEST_SEED, train_new_agent

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
class ProcessSettings:
    """Settings of :func:`processes`."""

    episodes: int = 10  # episodes per environment
    states: int = 10  # states of a process
    num_actions: int = 5  # actions per state
    horizon: int = 10  # steps per episode
    kind: str = "snail"  # snail or lstm
    width: int = 32  # width of the network
    filters: int = 16  # filters of a TC block, and width of an attention block
    heads: int = 2  # times that a TC and an attention block alternate
    order: str = ""  # blocks in order, t for TC and a for attention; empty: ta, repeated
    reach: int | None = None  # positions that a TC block sees; None: the whole sequence
    steps: int = 1500  # training steps
    batch: int = 64  # environments per update
    # peak learning rate; the bound of ``fit`` on the gradient of the mean over steps, 1, cuts one
    # in four of the first updates, since rewards here are not bounded
    learning_rate: float = 3e-3
    # weight of the entropy bonus at the start, as for bandits
    entropy: float = 0.05
    trace: float = 0.9  # λ of the generalised advantage estimate
    discount: float = 1.0  # discount γ of the returns
    reuse: int = 0  # updates per batch by the clipped objective; 0: plain policy gradient
    count: int = 2000  # test environments
    checkpoint: str = ""  # name of the saved weights; empty: none are saved


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


TAT: dict[str, Any] = dict(filters=32, order="tat", reach=2)
for _kind, _label in (("snail", "SNAIL"), ("lstm", "LSTM")):
    _snail = _kind == "snail"
    _blocks = TAT if _snail else {}
    register(
        f"processes-{_kind}-small",
        processes,
        ProcessSettings(
            kind=_kind,
            width=32 if _snail else 64,
            episodes=5,
            states=4,
            num_actions=2,
            horizon=6,
            steps=4000,
            batch=256,
            learning_rate=4e-3,
            count=10_000,
            checkpoint=f"processes-{_kind}-small",
            **_blocks,
        ),
        title="Decision processes of 4 states and 2 actions, five episodes of 6 steps: "
        f"{_label} by policy gradient, with checkpoint",
        minutes=f"{6 if _snail else 3} minutes on one CPU core",
    )
    register(
        f"processes-{_kind}-10-paper",
        processes,
        ProcessSettings(
            kind=_kind,
            width=32 if _snail else 256,
            filters=32,
            steps=20_000,
            batch=512,
            learning_rate=1e-3,
        ),
        title=f"Decision processes, 10 episodes: {_label} at the size of the paper",
        minutes="2 hours on one GPU",
    )
register(
    "processes-lstm-10",
    processes,
    ProcessSettings(
        kind="lstm",
        width=128,
        steps=1000,
        batch=128,
        learning_rate=5e-3,
        checkpoint="processes-lstm-10",
    ),
    title="Decision processes, ten episodes: LSTM by policy gradient, with checkpoint",
    minutes="4 minutes on one CPU core",
)
register(
    "processes-lstm-10-reuse",
    processes,
    ProcessSettings(
        kind="lstm", width=128, steps=1000, batch=128, learning_rate=3e-3, reuse=6, trace=0.9
    ),
    title="The same by the clipped objective, six updates a batch",
    minutes="15 minutes on one CPU core",
)
