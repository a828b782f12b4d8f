"""Policies that learn a decision process by counting and plan in their posterior."""

import torch
from torch import Tensor

from ...validate import check_number
from .decision_processes import DecisionProcesses, value_iteration
from .environments import select_rows


class _PosteriorPlanner:
    """Tracks the posterior over the environment and follows a plan made from it for each episode.

    With n(s, a) visits, rewards that sum to w(s, a) and n(s, a, s') moves seen, and the priors that
    the worlds are drawn from:

    ``μ(s, a) ~ N((1 + w) / (1 + n), 1 / (1 + n))``,  ``P(· | s, a) ~ Dirichlet(1 + n(s, a, ·))``

    The transition that ends an episode is not observed: the next input is the start state of the
    next one.
    """

    def start(self, worlds: DecisionProcesses, count: int, generator: torch.Generator) -> None:
        self.worlds, self.generator, self.taken, self.before = worlds, generator, 0, None
        self.visits = torch.zeros(count, worlds.states, worlds.num_actions, device=worlds.device)
        self.rewards = torch.zeros_like(self.visits)
        self.moves = torch.zeros(*self.visits.shape, worlds.states, device=worlds.device)

    def act(self, input: Tensor) -> Tensor:
        last, reward, state, done = self.worlds.read(input)
        if self.before is not None:
            here = (torch.arange(len(state), device=state.device), self.before, last.argmax(-1))
            self.visits[here] += 1
            self.rewards[here] += reward
            self.moves[(*here, state)] += (~done).to(self.moves.dtype)
        left = self.worlds.horizon - self.taken % self.worlds.horizon
        if left == self.worlds.horizon:
            self.plan = value_iteration(*self.believe(), self.worlds.horizon)
        self.taken, self.before = self.taken + 1, state
        return select_rows(self.plan.actions[:, left - 1], state)

    def believe(self) -> tuple[Tensor, Tensor]:
        raise NotImplementedError

    def posterior(self) -> tuple[Tensor, Tensor, Tensor]:
        """Dirichlet parameters ``(B, S, A, S)``; mean and deviation of μ, ``(B, S, A)`` each."""
        n = 1 + self.visits
        return 1 + self.moves, (1 + self.rewards) / n, n.rsqrt()


class PSRL(_PosteriorPlanner):
    """Posterior sampling: each episode plans in one world drawn from the posterior.

    Source: Strens 2000; Osband, Russo and Van Roy 2013.
    """

    def believe(self):
        moves, mean, deviation = self.posterior()
        drawn = torch._standard_gamma(moves, generator=self.generator)  # pyright: ignore[reportPrivateImportUsage]
        noise = torch.randn(mean.shape, generator=self.generator, device=mean.device)
        return drawn / drawn.sum(-1, keepdim=True), mean + deviation * noise


class EpsilonGreedyPlanner(_PosteriorPlanner):
    """Each episode plans in the posterior mean; an action is random with chance ε."""

    def __init__(self, epsilon: float = 0.1):
        self.epsilon = check_number("epsilon", epsilon, least=0, most=1)

    def believe(self):
        moves, mean, _ = self.posterior()
        return moves / moves.sum(-1, keepdim=True), mean

    def act(self, input):
        planned = super().act(input)
        draw, device, actions = self.generator, planned.device, self.worlds.num_actions
        chance = torch.rand(len(planned), generator=draw, device=device)
        other = torch.randint(actions, planned.shape, generator=draw, device=device)
        return torch.where(chance < self.epsilon, other, planned)
