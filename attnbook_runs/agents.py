"""Agents trained by policy gradient on bandits and decision processes, beside policies that know
the distribution of the environments.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from attnbook.models.snail.agents import LSTMAgent, SNAILAgent
from attnbook.models.snail.network import AttentionPart, TCPart
from attnbook.tasks.decisions.bandits import (
    UCB1,
    Bandits,
    BestArm,
    EpsilonGreedy,
    Indexed,
    RandomPolicy,
    Thompson,
)
from attnbook.tasks.decisions.decision_processes import (
    DecisionProcesses,
    OptimalPlanner,
    value_iteration,
)
from attnbook.tasks.decisions.environments import Environments, estimate, play
from attnbook.tasks.decisions.gittins import finite_horizon_index
from attnbook.tasks.decisions.planners import PSRL, EpsilonGreedyPlanner
from attnbook.training import save_model
from attnbook.training.loop.history import History
from attnbook.training.policy_gradient import (
    AgentPolicy,
    ClippedPolicyGradient,
    EpisodeBatches,
    PolicyGradient,
)
from attnbook.validate import check_choice, require

from .common import block_means, select, train, training_figures
from .registry import register

__all__ = [
    "bandit_policies",
    "bandits",
    "fractions_of_optimum",
    "make_agent",
    "maximal_return",
    "process_policies",
    "processes",
    "train_agent",
]

TEST_SEED = 900_000_007
"""Far from the training seeds of :class:`~attnbook.training.policy_gradient.EpisodeBatches`, which
count up from 0.
"""


def make_agent(
    environments: Environments,
    kind: str = "snail",
    *,
    width: int = 32,
    filters: int = 16,
    heads: int = 2,
    order: str = "",
    reach: int | None = None,
    discount: float = 1.0,
) -> LSTMAgent | SNAILAgent:
    """An agent for these environments.

    Args:
        environments: Those that it acts in.
        kind: "lstm", of ``width`` units, or "snail", ``heads`` times a TC and an attention block.
        width: Units of the LSTM, or width of the embedding of a SNAIL.
        filters: Filters of a TC block, and width of an attention block.
        heads: How often the two blocks alternate.
        order: Other blocks, such as "tat": t is a TC block, a is an attention block.
        reach: Receptive field of a TC block; by default all steps of an environment. With 2 it is
            a single convolution of two neighbours.
        discount: The discount of the training, which gives the scale of the returns that the
            critic predicts.
    """
    check_choice("kind", kind, ("lstm", "snail"))
    sizes = environments.d_input, environments.num_actions
    scale = maximal_return(environments.length, discount)
    if kind == "lstm":
        return LSTMAgent(*sizes, width, value_scale=scale)
    blocks = {"t": TCPart(filters), "a": AttentionPart(filters, filters)}
    order = order or "ta" * heads
    require(set(order) <= set(blocks), f"order must be made of the letters t and a, got {order!r}")
    parts = tuple(blocks[letter] for letter in order)
    return SNAILAgent(*sizes, reach or environments.length, width, parts, value_scale=scale)


def maximal_return(length: int, discount: float = 1.0) -> float:
    """The largest return of ``length`` steps with rewards of at most 1: ``Σ_{t<T} γ^t``."""
    return float(length) if discount == 1 else (1 - discount**length) / (1 - discount)


def train_agent(
    agent: LSTMAgent | SNAILAgent, environments: Environments, settings: Any, *, seed: int, device
) -> tuple[History, list[float]]:
    """Train an agent in place; ``settings`` are those of :class:`BanditSettings` or
    :class:`ProcessSettings`.

    Returns:
        The history of ``fit``, and the mean total reward of each batch.
    """
    options: dict[str, Any] = select(settings, "steps", "entropy", "trace", "discount")
    # The value term is measured in units of the largest return, so that its size does not depend on
    # the length.
    options["value_weight"] = 5 / maximal_return(environments.length, settings.discount) ** 2
    if settings.reuse:
        loss = ClippedPolicyGradient(environments, reuse=settings.reuse, **options)
    else:
        loss = PolicyGradient(environments, **options)
    batches = EpisodeBatches(settings.batch, seed)
    warmup = min(50, settings.steps // 10)
    history = train(agent, batches, loss, settings, seed=seed, device=device, warmup=warmup)
    return history, loss.rewards


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


def _trained(
    environments: Environments, settings: Any, sizes: dict, *, seed: int, device: str, folder: Path
) -> tuple[LSTMAgent | SNAILAgent, dict]:
    """Train a new agent, save it if there is a name, and return it with the figures of its run."""
    torch.manual_seed(seed)
    agent = make_agent(environments, settings.kind, discount=settings.discount, **sizes)
    history, rewards = train_agent(agent, environments, settings, seed=seed, device=device)
    if settings.checkpoint:
        text = {key: str(value) for key, value in sizes.items()}
        text |= {"kind": settings.kind, "discount": str(settings.discount)}
        save_model(agent, Path(folder) / f"{settings.checkpoint}.safetensors", half=True, **text)
    return agent, {**training_figures(agent, history), "rewards": block_means(rewards, 60)}


@dataclass(frozen=True)
class BanditSettings:
    pulls: int = 10  # pulls per episode
    arms: int = 5  # arms of a bandit
    kind: str = "snail"  # snail or lstm
    width: int = 32  # width of the network
    filters: int = 16  # filters of a TC block, and width of an attention block
    heads: int = 2  # times that a TC and an attention block alternate
    steps: int = 1500  # training steps
    batch: int = 256  # environments per update
    learning_rate: float = 5e-3  # peak learning rate
    # weight of the entropy bonus at the start, per step, beside advantages in units of the reward,
    # or with ``reuse`` of their standard deviation; the paper has TRPO, which bounds each update
    entropy: float = 0.02
    trace: float = 0.5  # λ of the generalised advantage estimate
    discount: float = 1.0  # discount γ of the returns
    reuse: int = 0  # updates per batch by the clipped objective; 0: plain policy gradient
    count: int = 20_000  # test environments
    checkpoint: str = ""  # name of the saved weights; empty: none are saved


def bandits(
    settings: BanditSettings, *, seed: int = 0, device: str = "cpu", folder: Path = Path("results")
) -> dict:
    """Train an agent on bandits, test it in ``count`` new ones beside the policies of
    :func:`bandit_policies`.
    """
    environments = Bandits(settings.arms, settings.pulls, device)
    sizes = select(settings, "width", "filters", "heads")
    agent, figures = _trained(
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


@dataclass(frozen=True)
class ProcessSettings:
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
    # weight of the entropy bonus at the start, as in :class:`BanditSettings`
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
    agent, figures = _trained(
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
