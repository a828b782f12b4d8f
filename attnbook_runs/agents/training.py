"""What the runs on bandits and decision processes share: agents, their training and its record."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from attnbook.models.snail.agents import LSTMAgent, SNAILAgent
from attnbook.models.snail.network import AttentionPart, TCPart
from attnbook.tasks.decisions.environments import Environments
from attnbook.training import save_model
from attnbook.training.loop.history import History
from attnbook.training.policy_gradient import ClippedPolicyGradient, EpisodeBatches, PolicyGradient
from attnbook.validate import check_choice, require

from ..common import block_means, select, train, training_figures

__all__ = [
    "TEST_SEED",
    "AgentSettings",
    "make_agent",
    "maximal_return",
    "train_agent",
    "train_new_agent",
]


@dataclass(frozen=True)
class AgentSettings:
    """Settings of every agent."""

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
    """Train an agent in place; ``settings`` are those of a run on bandits or on decision
    processes.

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


def train_new_agent(
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
