"""Small random worlds with states: tabular Markov decision processes, and planning in them."""

from typing import NamedTuple

import torch
from torch import Tensor

from ...validate import check_integer, check_seed, require
from .environments import Step, check_actions, select_rows


class DecisionProcesses:
    """Random Markov decision processes, S states and A actions, lived in for N episodes of H steps.

    ``P(· | s, a) ~ Dirichlet(1, …, 1)``, ``μ(s, a) ~ N(1, 1)``, ``r_t ~ N(μ(s_t, a_t), 1)``; each
    episode starts in state 0.

    The input before a step is ``[onehot(last action), last reward, onehot(state), done]``,
    ``d_input = A + S + 2``. At the first step of a world, action and reward are zeros. Done is 1
    where the last step ended an episode; the state is then 0 again, the world the same as before.

    Args:
        episodes, states, actions, horizon: N, S, A, H.
        device: of all tensors.

    Source: Mishra et al. 2018, section 5.2.2; Duan et al. 2016.
    """

    def __init__(
        self,
        episodes: int = 10,
        *,
        states: int = 10,
        actions: int = 5,
        horizon: int = 10,
        device: torch.device | str = "cpu",
    ):
        self.episodes = check_integer("episodes", episodes)
        self.states = check_integer("states", states)
        self.num_actions = check_integer("actions", actions, 2)
        self.horizon = check_integer("horizon", horizon)
        self.device = torch.device(device)
        self.length, self.d_input = episodes * horizon, actions + states + 2
        # none before the first reset
        self.means, self.taken = torch.empty(0, states, actions), self.length

    def reset(self, seed: int, worlds: int = 1) -> Tensor:
        """New worlds from the seed; returns the first inputs ``(worlds, A + S + 2)``."""
        generator = self._generator = torch.Generator(self.device).manual_seed(check_seed(seed))
        table = (worlds, self.states, self.num_actions)
        # Exponentials divided by their sum are a flat Dirichlet.
        waits = torch.empty(*table, self.states, device=self.device)
        waits.exponential_(generator=generator)
        self.means = 1 + torch.randn(table, generator=generator, device=self.device)  # μ, (B, S, A)
        self.transitions = waits / waits.sum(-1, keepdim=True)  # P, (B, S, A, S)
        self._ladder = self.transitions.cumsum(-1)
        self.state = torch.zeros(worlds, dtype=torch.int64, device=self.device)
        self.taken = 0
        return self._input(None, None, False)

    def step(self, actions: Tensor) -> Step:
        """Act once in each world."""
        begun = self.taken < self.length
        require(begun, f"step: call reset first, a world has {self.length} steps")
        check_actions(actions, len(self.means), self.num_actions)
        chance, noise = (
            draw(len(actions), generator=self._generator, device=self.device)
            for draw in (torch.rand, torch.randn)
        )
        reward = select_rows(self.means, self.state, actions) + noise
        ladder = select_rows(self._ladder, self.state, actions)
        # the first state whose rung lies above the draw
        self.state = (chance[:, None] >= ladder[:, :-1]).sum(-1)
        self.taken += 1
        done = self.taken % self.horizon == 0
        if done:
            self.state = torch.zeros_like(self.state)
        ended = torch.full_like(actions, done, dtype=torch.bool)
        return Step(self._input(actions, reward, done), reward, ended)

    def _input(self, actions, reward, done: bool) -> Tensor:
        one_hot = torch.nn.functional.one_hot
        state = one_hot(self.state, self.states).to(self.means.dtype)
        if actions is None:
            last = state.new_zeros(len(state), self.num_actions + 1)
        else:
            last = torch.cat([one_hot(actions, self.num_actions), reward[:, None]], -1)
        return torch.cat([last, state, torch.full_like(state[:, :1], float(done))], -1)

    def read(self, input: Tensor) -> tuple[Tensor, ...]:
        """Last action as one-hot ``(B, A)``; last reward, state and done, each ``(B,)``."""
        a, s = self.num_actions, self.states
        return input[:, :a], input[:, a], input[:, a + 1 : a + 1 + s].argmax(-1), input[:, -1] > 0


class Plan(NamedTuple):
    """``actions (B, H, S)`` and ``values (B, H, S)``: entry [:, h − 1] is for h steps left."""

    actions: Tensor
    values: Tensor


def value_iteration(transitions: Tensor, means: Tensor, horizon: int) -> Plan:
    """The best actions in known worlds, by going back from the last step.

    ``Q_h(s, a) = μ(s, a) + Σ_s' P(s' | s, a) V_{h−1}(s')``,  ``V_h(s) = max_a Q_h(s, a)``,
    ``V_0 = 0``

    Args:
        transitions: P, ``(B, S, A, S)``, rows that sum to 1.
        means: μ, ``(B, S, A)``.
        horizon: ``H``.

    Source: Bellman 1957.
    """
    require(
        means.dim() == 3 and transitions.shape == (*means.shape, means.shape[1]),
        "transitions must be (worlds, S, A, S) and means (worlds, S, A), got "
        f"{tuple(transitions.shape)} and {tuple(means.shape)}",
    )
    check_integer("horizon", horizon)
    worlds, states, actions = means.shape
    worth = means.new_zeros(worlds, states, 1)
    table = transitions.reshape(worlds, states * actions, states)
    best, values = [], []
    for _ in range(horizon):
        highest = (means + (table @ worth).view(worlds, states, actions)).max(-1)
        worth = highest.values[..., None]
        best.append(highest.indices)
        values.append(highest.values)
    return Plan(torch.stack(best, 1), torch.stack(values, 1))


class OptimalPlanner:
    """Plans by value iteration in the true environment, which bounds what can be earned."""

    def start(self, worlds: DecisionProcesses, count: int, generator: torch.Generator) -> None:
        self.worlds, self.taken = worlds, 0
        self.plan = value_iteration(worlds.transitions, worlds.means, worlds.horizon)

    def act(self, input: Tensor) -> Tensor:
        left = self.worlds.horizon - self.taken % self.worlds.horizon
        self.taken += 1
        return select_rows(self.plan.actions[:, left - 1], self.worlds.read(input)[2])
