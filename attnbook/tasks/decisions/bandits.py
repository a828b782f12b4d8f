"""Bernoulli bandits: K arms, each pays 1 with a chance that nobody tells, N pulls to earn."""

import torch
from torch import Tensor

from ...validate import check_integer, check_number, check_seed, describe, require
from .environments import Environments, Step, check_actions, select_rows


class Bandits:
    """A batch of bandits with ``arms`` arms and ``pulls`` pulls each.

    ``p_k ~ U[0, 1]``, ``r_t ~ Bernoulli(p_{a_t})``. The input before pull t is the last action as a
    one-hot vector and the last reward, ``[onehot(a_{t−1}), r_{t−1}]``, zeros before the first:
    ``d_input = arms + 1``.

    Luck is drawn for all arms at each pull, whichever is pulled, so that two policies with one seed
    can be compared pull by pull.

    Source: Mishra et al. 2018, section 5.2.1; Duan et al. 2016.
    """

    def __init__(self, arms: int = 5, pulls: int = 10, device: torch.device | str = "cpu"):
        check_integer("arms", arms, 2)
        check_integer("pulls", pulls)
        self.num_actions, self.length, self.d_input = arms, pulls, arms + 1
        self.device = torch.device(device)
        self.chances, self.pulled = torch.empty(0, arms), pulls  # none before the first reset

    def reset(self, seed: int, worlds: int = 1) -> Tensor:
        """New bandits from the seed; returns the first inputs, zeros ``(worlds, arms + 1)``."""
        self._generator = torch.Generator(self.device).manual_seed(check_seed(seed))
        shape = worlds, self.num_actions
        self.chances = torch.rand(shape, generator=self._generator, device=self.device)  # p
        self.pulled = 0
        return self.chances.new_zeros(worlds, self.d_input)

    def step(self, actions: Tensor) -> Step:
        """Pull one arm in each world."""
        begun = self.pulled < self.length
        require(begun, f"step: call reset first, an episode has {self.length} pulls")
        check_actions(actions, len(self.chances), self.num_actions)
        luck = torch.rand(self.chances.shape, generator=self._generator, device=self.device)
        reward = select_rows((luck < self.chances).to(self.chances.dtype), actions)
        self.pulled += 1
        last = torch.nn.functional.one_hot(actions, self.num_actions).to(reward.dtype)
        done = torch.full_like(actions, self.pulled == self.length, dtype=torch.bool)
        return Step(torch.cat([last, reward[:, None]], -1), reward, done)


class RandomPolicy:
    """Every action with the same chance."""

    def start(self, worlds: Environments, count: int, generator: torch.Generator) -> None:
        self.num_actions, self.count, self.generator = worlds.num_actions, count, generator

    def act(self, input: Tensor) -> Tensor:
        shape, device = (self.count,), input.device
        return torch.randint(self.num_actions, shape, generator=self.generator, device=device)


class BestArm:
    """Pulls the best arm from the first pull on.

    No policy that has to find it can earn as much on average.
    """

    def start(self, worlds: Bandits, count: int, generator: torch.Generator) -> None:
        self.best = worlds.chances.argmax(1)

    def act(self, input: Tensor) -> Tensor:
        return self.best


class _Counting:
    """Counts each arm's wins and losses, read off the inputs; pulls that of the highest `score`.

    Attributes:
        wins, losses: (B, K): what each arm has paid 1 and 0
        left: pulls that are still to come, the next one included

    Ties go to an arm at random.
    """

    def start(self, worlds: Bandits, count: int, generator: torch.Generator) -> None:
        self.generator = generator
        self.wins = torch.zeros(count, worlds.num_actions, device=worlds.device)
        self.losses = torch.zeros_like(self.wins)
        self.left = worlds.length

    def act(self, input: Tensor) -> Tensor:
        pulled, reward = input[:, :-1], input[:, -1:]
        self.wins += pulled * reward
        self.losses += pulled * (1 - reward)
        scores = self.score(self.wins, self.losses, self.left)
        self.left -= 1
        best = scores >= scores.amax(1, keepdim=True)
        chance = torch.rand(scores.shape, generator=self.generator, device=scores.device)
        return (best * chance).argmax(1)

    def score(self, wins: Tensor, losses: Tensor, left: int) -> Tensor:
        raise NotImplementedError


class EpsilonGreedy(_Counting):
    """A random arm with chance ε, else that of the highest mean ``(s + 1)/(s + f + 2)``."""

    def __init__(self, epsilon: float = 0.1):
        self.epsilon = check_number("epsilon", epsilon, least=0, most=1)

    def score(self, wins, losses, left):
        chance = torch.rand(len(wins), 1, generator=self.generator, device=wins.device)
        # all alike: a tie, and ties go to an arm at random
        return torch.where(chance < self.epsilon, 0.0, (wins + 1) / (wins + losses + 2))


class UCB1(_Counting):
    """Optimism: each arm once, then the highest ``s/n + √(2 ln t / n)``; n pulls of it, t of all.

    Source: Auer, Cesa-Bianchi and Fischer 2002, figure 1.
    """

    def score(self, wins, losses, left):
        n = wins + losses
        own, all_arms = n.clamp(min=1), n.sum(1, keepdim=True).clamp(min=1)
        return torch.where(n == 0, torch.inf, wins / own + (2 * all_arms.log() / own).sqrt())


class Thompson(_Counting):
    """One draw from the posterior of each arm, ``Beta(1 + s, 1 + f)``; the highest is pulled.

    Source: Thompson 1933.
    """

    def score(self, wins, losses, left):
        # X/(X + Y) is Beta(a, b) for X ~ Gamma(a), Y ~ Gamma(b).
        x, y = (
            torch._standard_gamma(1 + count, generator=self.generator)  # pyright: ignore[reportPrivateImportUsage]
            for count in (wins, losses)
        )
        return x / (x + y)


class Indexed(_Counting):
    """The arm of the highest index in a table ``index[left, s, f]``; Gittins' policy for his index.

    Args:
        table: ``(pulls + 1, pulls + 1, pulls + 1)`` by pulls left, wins and losses, from
            :func:`~attnbook.tasks.decisions.gittins.finite_horizon_index`; or ``(n, n)``
            without the first dimension.
    """

    def __init__(self, table: Tensor):
        fits, axes = table.dim() in (2, 3), "(left, wins, losses) or (wins, losses)"
        require(fits, f"table must be {axes}, got {describe(table)}")
        self.table = table

    def score(self, wins, losses, left):
        table = self.table.to(wins.device)
        return (table[left] if table.dim() == 3 else table)[wins.long(), losses.long()]
