"""Batches of small random environments to learn by acting in them, and how a policy is run.

An environment here is one random draw: one bandit, one decision process. It lasts for ``length``
steps, which may be several episodes, and the agent is to learn it within them.
"""

import math
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from ...validate import check_seed, check_values, describe, require

# Added to the seed of the environments: with the same seed a policy that draws would see their
# chances. The CPU's generator takes the last 32 bits alone.
_POLICY_SEED_OFFSET = 1_000_000_007


class Step(NamedTuple):
    """The answer of a batch of B environments to a batch of actions.

    Args:
        input: ``(B, d_input)``, the observation before the next action: last action, last reward,
            and what the environment shows.
        reward: ``(B,)``, for the action just taken; the first input that holds it is the next one.
        done: ``(B,)`` bool, whether an episode ended with this step. The environment stays the same
            until ``reset``.
    """

    input: Tensor
    reward: Tensor
    done: Tensor


class Trajectories(NamedTuple):
    """T steps in each of B environments: inputs ``(B, T, d_input)``, actions ``(B, T)``, int64, and
    rewards ``(B, T)``; ``inputs[:, t]`` is the observation before action t.
    """

    inputs: Tensor
    actions: Tensor
    rewards: Tensor


class Environments(Protocol):
    """Environments on one device: ``reset`` draws new ones, ``step`` acts in all at once."""

    num_actions: int
    d_input: int
    length: int  # steps in one environment
    device: torch.device

    def reset(self, seed: int, worlds: int) -> Tensor:
        """Draw new environments from ``seed``; returns the first inputs (worlds, d_input)."""
        ...

    def step(self, actions: Tensor) -> Step:
        """Take one action per environment, ``actions (worlds,)``."""
        ...


class Policy(Protocol):
    """Whatever chooses actions. It receives the inputs and nothing else, as the learned agent."""

    def start(self, worlds: Environments, count: int, generator: torch.Generator) -> None:
        """Reset all state: ``count`` new environments begin."""

    def act(self, input: Tensor) -> Tensor:
        """The actions (count,) for the inputs (count, d_input)."""
        ...


def play(
    worlds: Environments, policy: Policy, *, seed: int, count: int, keep_inputs: bool = True
) -> Trajectories:
    """Run a policy in ``count`` new environments, from their first step to their last.

    The environments and their random numbers depend on ``seed`` alone, and the policy has its own
    generator: two policies with one seed meet the same environments.

    Args:
        worlds: the environments; they are reset.
        policy: chooses the actions; it is reset.
        keep_inputs: whether to record the inputs; else ``inputs`` has no steps.
    """
    generator = torch.Generator(worlds.device).manual_seed(check_seed(seed) + _POLICY_SEED_OFFSET)
    with torch.no_grad():
        input = worlds.reset(seed, count)
        policy.start(worlds, count, generator)
        inputs, actions, rewards = [], [], []
        for _ in range(worlds.length):
            action = policy.act(input)
            if keep_inputs:
                inputs.append(input)
            input, reward, _ = worlds.step(action)
            actions.append(action)
            rewards.append(reward)
    recorded = torch.stack(inputs, 1) if keep_inputs else input.new_zeros(count, 0, worlds.d_input)
    return Trajectories(recorded, torch.stack(actions, 1), torch.stack(rewards, 1))


class Estimate(NamedTuple):
    """A mean over independent environments and the half-width of its 95 % interval (normal)."""

    mean: float
    half_width: float

    def __str__(self) -> str:
        return f"{self.mean:.2f} ± {self.half_width:.2f}"


def estimate(values: Tensor) -> Estimate:
    """The mean of ``values (n,)``, one per environment, and ``1.96 · s / √n``."""
    several = values.dim() == 1 and len(values) > 1
    require(several, f"values must be a vector of at least two numbers, got {describe(values)}")
    values = values.double()
    return Estimate(float(values.mean()), 1.96 * float(values.std()) / math.sqrt(len(values)))


def select_rows(table: Tensor, *places: Tensor) -> Tensor:
    """Row b of the result is ``table[b, places[0][b], places[1][b], …]``."""
    return table[(torch.arange(len(table), device=table.device), *places)]


def check_actions(actions: Tensor, count: int, num_actions: int) -> None:
    """Raise ValueError unless ``actions`` is one integer below ``num_actions`` per environment."""
    fits = isinstance(actions, Tensor) and actions.shape == (count,)
    wanted = f"int64 of shape ({count},), one per environment"
    fits = fits and actions.dtype == torch.int64
    require(fits, f"actions must be {wanted}, got {describe(actions)}")
    check_values("actions", actions, 0, num_actions - 1)
