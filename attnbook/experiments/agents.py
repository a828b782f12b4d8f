"""Agents trained by policy gradient on bandits and decision processes, beside policies that know
the distribution of the environments.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch

from ..models.snail.agents import LSTMAgent, SNAILAgent
from ..models.snail.network import AttentionPart, TCPart
from ..tasks.decisions.bandits import (
    UCB1,
    Bandits,
    BestArm,
    EpsilonGreedy,
    Indexed,
    RandomPolicy,
    Thompson,
)
from ..tasks.decisions.decision_processes import DecisionProcesses, OptimalPlanner, value_iteration
from ..tasks.decisions.environments import Environments, Policy, estimate, play
from ..tasks.decisions.gittins import finite_horizon_index
from ..tasks.decisions.planners import PSRL, EpsilonGreedyPlanner
from ..training import cosine_decay, fit, save_model
from ..training.policy_gradient import (
    AgentPolicy,
    ClippedPolicyGradient,
    EpisodeBatches,
    PolicyGradient,
)
from ..validate import check_choice
from .registry import register

__all__ = [
    "bandit_policies",
    "bandits",
    "chances_played",
    "fractions",
    "make_agent",
    "process_policies",
    "processes",
    "returns_of",
    "train",
]

TEST_SEED = 900_000_007
"""Far from the training seeds of :class:`~attnbook.training.policy_gradient.EpisodeBatches`, which
count up from 0.
"""


def make_agent(
    worlds: Environments,
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
        worlds: The environments that it is to act in.
        kind: "lstm", ``width`` units, or "snail", ``heads`` times a TC and an attention block.
        width: Units of the LSTM, or of the embedding of a SNAIL.
        filters: Filters of a TC block, and width of an attention block.
        heads: How often the two blocks alternate.
        order: Other blocks, such as "tat": t is a TC block, a is an attention block.
        reach: Receptive field of a TC block; by default all steps of an environment. With 2 it is
            a single convolution of two neighbours.
        discount: The discount of the training, which gives the scale of the returns that the
            critic predicts.

    Raises:
        ValueError: For another kind, or another letter.
    """
    check_choice("kind", kind, ("lstm", "snail"))
    if kind == "lstm":
        return LSTMAgent(
            worlds.d_input,
            worlds.num_actions,
            width,
            value_scale=returns_of(worlds.length, discount),
        )
    blocks = {"t": TCPart(filters), "a": AttentionPart(filters, filters)}
    order = order or "ta" * heads
    if not set(order) <= set(blocks):
        raise ValueError(f"order must be made of the letters t and a, got {order!r}")
    return SNAILAgent(
        worlds.d_input,
        worlds.num_actions,
        reach or worlds.length,
        width,
        tuple(blocks[letter] for letter in order),
        value_scale=returns_of(worlds.length, discount),
    )


def returns_of(length: int, discount: float = 1.0) -> float:
    """The largest return of ``length`` steps that pay at most 1: ``Σ_{t<T} γ^t``."""
    return float(length) if discount == 1 else (1 - discount**length) / (1 - discount)


def train(
    agent,
    worlds: Environments,
    *,
    steps: int,
    batch: int,
    learning_rate: float,
    entropy: float,
    trace: float,
    discount: float = 1.0,
    reuse: int = 0,
    seed: int = 0,
    progress: bool = True,
    device=None,
):
    """Train an agent in place.

    Args:
        reuse: Updates per batch by the clipped policy gradient; 0: the plain one, one update each.

    Returns:
        The history of ``fit``, and the mean total reward of each batch.
    """
    kind = partial(ClippedPolicyGradient, reuse=reuse) if reuse else PolicyGradient
    # The value term is measured in units of the largest return, so that its size does not depend on
    # the length.
    learn = kind(
        worlds,
        steps=steps,
        entropy=entropy,
        trace=trace,
        discount=discount,
        value_weight=5 / returns_of(worlds.length, discount) ** 2,
    )
    history = fit(
        agent,
        EpisodeBatches(batch, seed),
        learn,
        steps=steps,
        learning_rate=learning_rate,
        progress=progress,
        seed=seed,
        schedule=cosine_decay(steps, min(50, steps // 10)),
        device=worlds.device if device is None else device,
    )
    return history, learn.rewards


def bandit_policies(pulls: int) -> dict[str, Policy]:
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


def process_policies() -> dict[str, Policy]:
    """The policies for decision processes that a learned one is compared with, by name."""
    return {
        "random": RandomPolicy(),
        "PSRL": PSRL(),
        "ε-greedy, ε = 0.1": EpsilonGreedyPlanner(0.1),
        "greedy": EpsilonGreedyPlanner(0.0),
        "value iteration": OptimalPlanner(),
    }


def chances_played(worlds: Bandits, policy: Policy, *, seed: int, count: int) -> torch.Tensor:
    """The expected regret of each pull, ``max_k p_k − p_{a_t}``: ``(count, pulls)``, without the
    noise of the rewards.
    """
    actions = play(worlds, policy, seed=seed, count=count, keep_inputs=False).actions
    return worlds.chances.amax(1, keepdim=True) - worlds.chances.gather(1, actions)


def fractions(worlds: DecisionProcesses, policy: Policy, *, seed: int, count: int) -> dict:
    """The reward of a policy as a fraction of the optimal value in the same environments, with its
    95 % interval, and by episode.

    ``Σ_b total_b / Σ_b N V*_H(start)``; the interval is that of the ratio of two means.
    """
    rewards = play(worlds, policy, seed=seed, count=count, keep_inputs=False).rewards
    most = (
        worlds.episodes
        * value_iteration(worlds.transitions, worlds.means, worlds.horizon).values[:, -1, 0]
    )
    ratio = float(rewards.sum(1).mean() / most.mean())
    spread = estimate(rewards.sum(1) - ratio * most)
    by_episode = rewards.view(count, worlds.episodes, worlds.horizon).sum((0, 2)) / (
        most.sum() / worlds.episodes
    )
    return {
        "fraction": round(ratio, 4),
        "half_width": round(spread.half_width / float(most.mean()), 4),
        "by_episode": [round(float(x), 4) for x in by_episode],
    }


def _parts(values: list[float], count: int = 60) -> list[float]:
    size = max(1, len(values) // count)
    return [
        round(sum(values[k : k + size]) / len(values[k : k + size]), 4)
        for k in range(0, len(values), size)
    ]


def _learned(
    worlds: Environments,
    kind: str,
    sizes: dict,
    *,
    seed: int,
    device,
    path: Path | None,
    **training,
) -> tuple[object, dict]:
    """Train a new agent, save it if there is a path, and return it with the figures of its run."""
    torch.manual_seed(seed)
    agent = make_agent(worlds, kind, discount=training["discount"], **sizes)
    history, rewards = train(agent, worlds, seed=seed, device=device, **training)
    if path is not None:
        save_model(
            agent,
            path,
            half=True,
            kind=kind,
            discount=str(training["discount"]),
            **{key: str(value) for key, value in sizes.items()},
        )
    return agent, {
        "parameters": sum(p.numel() for p in agent.parameters()),
        "training_seconds": round(history.seconds, 1),
        "rewards": _parts(rewards),
    }


def _file(folder: Path, checkpoint: str) -> Path | None:
    return Path(folder) / f"{checkpoint}.safetensors" if checkpoint else None


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
    entropy: float = 0.02  # weight of the entropy bonus
    trace: float = 0.5  # λ of the generalised advantage estimate
    discount: float = 1.0  # discount γ of the returns
    reuse: int = 0  # updates per batch by the clipped objective; 0: plain policy gradient
    count: int = 20_000  # test environments
    checkpoint: str = ""  # name of the saved weights; empty: none are saved


def bandits(
    settings: BanditSettings, *, seed: int = 0, device: str = "cpu", folder: Path = Path("results")
) -> dict:
    """An agent trained on bandits, tested in ``count`` new ones beside the policies of
    :func:`bandit_policies`.
    """
    worlds = Bandits(settings.arms, settings.pulls, device)
    agent, figures = _learned(
        worlds,
        settings.kind,
        dict(width=settings.width, filters=settings.filters, heads=settings.heads),
        seed=seed,
        device=device,
        steps=settings.steps,
        batch=settings.batch,
        learning_rate=settings.learning_rate,
        entropy=settings.entropy,
        trace=settings.trace,
        discount=settings.discount,
        reuse=settings.reuse,
        path=_file(folder, settings.checkpoint),
    )
    tested: dict[str, Policy] = {
        "agent": AgentPolicy(agent),
        "agent, most probable arm": AgentPolicy(agent, greedy=True),
        **bandit_policies(settings.pulls),
    }
    earned = {
        name: estimate(
            play(
                worlds, policy, seed=TEST_SEED, count=settings.count, keep_inputs=False
            ).rewards.sum(1)
        )
        for name, policy in tested.items()
    }
    return {
        "test": {
            name: {"reward": round(e.mean, 4), "half_width": round(e.half_width, 4)}
            for name, e in earned.items()
        },
        **figures,
    }


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
    learning_rate: float = 3e-3  # peak learning rate
    entropy: float = 0.05  # weight of the entropy bonus
    trace: float = 0.9  # λ of the generalised advantage estimate
    discount: float = 1.0  # discount γ of the returns
    reuse: int = 0  # updates per batch by the clipped objective; 0: plain policy gradient
    count: int = 2000  # test environments
    checkpoint: str = ""  # name of the saved weights; empty: none are saved


def processes(
    settings: ProcessSettings, *, seed: int = 0, device: str = "cpu", folder: Path = Path("results")
) -> dict:
    """An agent trained on decision processes, tested in ``count`` new ones as fractions of value
    iteration.

    λ (``trace``) is larger than for bandits, since an action also leads to a state of some value.
    """
    worlds = DecisionProcesses(
        settings.episodes,
        states=settings.states,
        actions=settings.num_actions,
        horizon=settings.horizon,
        device=device,
    )
    sizes = dict(
        width=settings.width,
        filters=settings.filters,
        heads=settings.heads,
        order=settings.order,
        reach=settings.reach or worlds.length,
    )
    agent, figures = _learned(
        worlds,
        settings.kind,
        sizes,
        seed=seed,
        device=device,
        steps=settings.steps,
        batch=settings.batch,
        learning_rate=settings.learning_rate,
        entropy=settings.entropy,
        trace=settings.trace,
        discount=settings.discount,
        reuse=settings.reuse,
        path=_file(folder, settings.checkpoint),
    )
    tested: dict[str, Policy] = {
        "agent": AgentPolicy(agent),
        "agent, most probable action": AgentPolicy(agent, greedy=True),
        **process_policies(),
    }
    return {
        "test": {
            name: fractions(worlds, policy, seed=TEST_SEED, count=settings.count)
            for name, policy in tested.items()
        },
        **figures,
    }


TAT = dict(filters=32, order="tat", reach=2)
for _kind, _label in (("snail", "SNAIL"), ("lstm", "LSTM")):
    _snail = _kind == "snail"
    _small = BanditSettings(kind=_kind, width=32 if _snail else 64)
    register(
        f"bandits-{_kind}-10",
        bandits,
        replace(_small, checkpoint=f"bandits-{_kind}-10"),
        title=f"Five arms, ten pulls: {_label} by policy gradient, with checkpoint",
        minutes=f"{2 if _snail else 1} minutes on one CPU core",
    )
    register(
        f"bandits-{_kind}-100",
        bandits,
        replace(
            _small,
            pulls=100,
            batch=512,
            steps=2400,
            reuse=6,
            learning_rate=4e-3,
            entropy=0.003,
            trace=0.9,
            discount=0.99,
            count=5000,
            checkpoint=f"bandits-{_kind}-100",
        ),
        title=f"Five arms, a hundred pulls: {_label} by clipped policy gradient, with checkpoint",
        minutes=f"{240 if _snail else 25} minutes on one CPU core",
    )
    _blocks = TAT if _snail else {}
    register(
        f"processes-{_kind}-10",
        processes,
        ProcessSettings(
            kind=_kind,
            width=32 if _snail else 128,
            steps=1000,
            batch=64 if _snail else 128,
            learning_rate=5e-3,
            checkpoint=f"processes-{_kind}-10",
            **_blocks,
        ),
        title=f"Decision processes, ten episodes: {_label} by policy gradient, with checkpoint",
        minutes=f"{6 if _snail else 4} minutes on one CPU core",
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
    for _pulls, _arms in ((10, 5), (10, 10), (10, 50), (100, 5), (100, 10), (100, 50)):
        register(
            f"bandits-{_kind}-{_pulls}-{_arms}-paper",
            bandits,
            BanditSettings(
                kind=_kind,
                pulls=_pulls,
                arms=_arms,
                width=32 if _snail else 256,
                filters=32,
                steps=10_000,
                batch=2048 if _pulls == 10 else 1024,
                learning_rate=1e-3,
                count=5000,
            ),
            title=f"{_arms} arms, {_pulls} pulls: {_label} at the size of the paper",
            minutes="1 hour on one GPU",
        )
    for _episodes in (10, 25, 50):
        register(
            f"processes-{_kind}-{_episodes}-paper",
            processes,
            ProcessSettings(
                kind=_kind,
                episodes=_episodes,
                width=32 if _snail else 256,
                filters=32,
                steps=20_000,
                batch=512,
                learning_rate=1e-3,
            ),
            title=f"Decision processes, {_episodes} episodes: {_label} at the size of the paper",
            minutes="2 hours on one GPU",
        )
