"""Agents that learn bandits and decision processes while they act, beside policies that were
told how worlds are drawn.
"""

from __future__ import annotations

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
from ..training.policy_gradient import Acting, ClippedPolicyGradient, Lives, PolicyGradient

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
"""Far from the seeds of :class:`~attnbook.training.policy_gradient.Lives`, which count up from
0.
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
    """An agent for these worlds: an LSTM of ``width`` units, or a SNAIL of ``heads`` times a TC and
    an attention block.

    ``order`` gives other blocks, such as "tat": t is a TC block, a an attention block. A TC block
    looks back over ``reach`` positions, a whole life when not given; with 2 it is a single
    convolution of two neighbours. ``discount`` is the one that the agent is to be trained with: it
    says how large the returns are that the critic has to reach.

    Raises ValueError for another kind, or another letter.
    """
    if kind == "lstm":
        return LSTMAgent(
            worlds.d_input,
            worlds.num_actions,
            width,
            value_scale=returns_of(worlds.length, discount),
        )
    if kind != "snail":
        raise ValueError(f"kind must be lstm or snail, got {kind!r}")
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
    """Train an agent in place; returns the history of `fit` and the mean reward of a life for each
    batch that was played.

    ``reuse``: updates with one batch, by the clipped policy gradient; 0: the plain one, a batch an
    update."""
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
        Lives(batch, seed),
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
    """The policies that a learned one stands beside, by name."""
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
    """The same for decision processes."""
    return {
        "random": RandomPolicy(),
        "PSRL": PSRL(),
        "ε-greedy, ε = 0.1": EpsilonGreedyPlanner(0.1),
        "greedy": EpsilonGreedyPlanner(0.0),
        "value iteration": OptimalPlanner(),
    }


def chances_played(worlds: Bandits, policy: Policy, *, seed: int, count: int) -> torch.Tensor:
    """The regret of each pull, ``max_k p_k − p_{a_t}``: ``(count, pulls)``.

    Free of the luck of the rewards themselves.
    """
    actions = play(worlds, policy, seed=seed, count=count, keep_inputs=False).actions
    return worlds.chances.amax(1, keepdim=True) - worlds.chances.gather(1, actions)


def fractions(worlds: DecisionProcesses, policy: Policy, *, seed: int, count: int) -> dict:
    """What a policy earns as a fraction of what value iteration expects in the same worlds, with
    its 95 % interval, and by episode.

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
    """A new agent, trained and, where there is a path, kept; with the figures of every such run."""
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


def bandits(
    *,
    seed: int = 0,
    device: str = "cpu",
    folder: Path = Path("results"),
    pulls: int = 10,
    arms: int = 5,
    kind: str = "snail",
    width: int = 32,
    filters: int = 16,
    heads: int = 2,
    steps: int = 1500,
    batch: int = 256,
    learning_rate: float = 5e-3,
    entropy: float = 0.02,
    trace: float = 0.5,
    discount: float = 1.0,
    reuse: int = 0,
    count: int = 20_000,
    checkpoint: str = "",
) -> dict:
    """An agent trained on bandits, tested in ``count`` new ones beside the policies of
    :func:`bandit_policies`.
    """
    worlds = Bandits(arms, pulls, device)
    agent, figures = _learned(
        worlds,
        kind,
        dict(width=width, filters=filters, heads=heads),
        seed=seed,
        device=device,
        steps=steps,
        batch=batch,
        learning_rate=learning_rate,
        entropy=entropy,
        trace=trace,
        discount=discount,
        reuse=reuse,
        path=_file(folder, checkpoint),
    )
    tested: dict[str, Policy] = {
        "agent": Acting(agent),
        "agent, most probable arm": Acting(agent, greedy=True),
        **bandit_policies(pulls),
    }
    earned = {
        name: estimate(
            play(worlds, policy, seed=TEST_SEED, count=count, keep_inputs=False).rewards.sum(1)
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


def processes(
    *,
    seed: int = 0,
    device: str = "cpu",
    folder: Path = Path("results"),
    episodes: int = 10,
    states: int = 10,
    num_actions: int = 5,
    horizon: int = 10,
    kind: str = "snail",
    width: int = 32,
    filters: int = 16,
    heads: int = 2,
    order: str = "",
    reach: int | None = None,
    steps: int = 1500,
    batch: int = 64,
    learning_rate: float = 3e-3,
    entropy: float = 0.05,
    trace: float = 0.9,
    discount: float = 1.0,
    reuse: int = 0,
    count: int = 2000,
    checkpoint: str = "",
) -> dict:
    """An agent trained on decision processes, tested in ``count`` new ones as fractions of value
    iteration.

    λ (``trace``) is larger than for bandits: an action is also worth what the state is worth that
    it leads to."""
    worlds = DecisionProcesses(
        episodes, states=states, actions=num_actions, horizon=horizon, device=device
    )
    sizes = dict(
        width=width, filters=filters, heads=heads, order=order, reach=reach or worlds.length
    )
    agent, figures = _learned(
        worlds,
        kind,
        sizes,
        seed=seed,
        device=device,
        steps=steps,
        batch=batch,
        learning_rate=learning_rate,
        entropy=entropy,
        trace=trace,
        discount=discount,
        reuse=reuse,
        path=_file(folder, checkpoint),
    )
    tested: dict[str, Policy] = {
        "agent": Acting(agent),
        "agent, most probable action": Acting(agent, greedy=True),
        **process_policies(),
    }
    return {
        "test": {
            name: fractions(worlds, policy, seed=TEST_SEED, count=count)
            for name, policy in tested.items()
        },
        **figures,
    }
