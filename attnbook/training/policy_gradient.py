"""Policy gradient with a value baseline, over complete episodes in new worlds for each update.

`fit` runs it like any other loss::

    worlds = Bandits(arms=5, pulls=10)
    learn = PolicyGradient(worlds, steps=1000)
    fit(agent, EpisodeBatches(worlds=256), learn, steps=1000, device=worlds.device)
    learn.rewards  # the mean return of an episode, per update
"""

import warnings
from typing import NamedTuple

import torch
from torch import Tensor

from ..tasks.decisions.environments import Environments, Trajectories, play
from ..validate import check_integer, check_number, require

__all__ = [
    "AgentPolicy",
    "ClippedPolicyGradient",
    "EpisodeBatch",
    "EpisodeBatches",
    "PolicyGradient",
    "advantages",
    "clipped_policy_loss",
    "policy_loss",
]


class EpisodeBatch(NamedTuple):
    """The worlds of one update: seed ``(B,)``, one each; step ``(B,)``, the updates before it."""

    seed: Tensor
    step: Tensor


class EpisodeBatches:
    """Batches for `fit`: ``worlds`` new worlds per step, none of them twice."""

    def __init__(self, worlds: int, seed: int = 0):
        self.worlds, self.seed = worlds, seed

    def batch(self, step: int) -> EpisodeBatch:
        first = (self.seed * 100_003 + step) * self.worlds
        return EpisodeBatch(first + torch.arange(self.worlds), torch.full((self.worlds,), step))


class AgentPolicy:
    """An agent as a policy for `play`, by its cache: actions sampled, or ``greedy`` ones."""

    def __init__(self, agent, greedy: bool = False):
        self.agent, self.greedy = agent, greedy

    def start(self, worlds: Environments, count: int, generator: torch.Generator) -> None:
        self.state, self.generator = self.agent.start(count), generator

    def act(self, input: Tensor) -> Tensor:
        choice, self.state = self.agent.step(input, self.state)
        if self.greedy:
            return choice.logits.argmax(-1)
        # argmax(logits + Gumbel noise) is a sample from the softmax.
        uniform = torch.rand(
            choice.logits.shape, generator=self.generator, device=input.device, dtype=torch.float64
        )
        return (choice.logits - (-uniform.log()).log()).argmax(-1)


def advantages(
    rewards: Tensor, values: Tensor, discount: float = 1.0, trace: float = 1.0
) -> Tensor:
    """How much more than the baseline is earned from each step on (generalised advantage estimate).

    ``δ_t = r_t + γ V_{t+1} − V_t`` with ``V_T = 0``,  ``A_t = δ_t + γλ A_{t+1}``

    With λ = 1: ``A_t = Σ_{k≥t} γ^{k−t} r_k − V_t``, the observed return minus the baseline. Smaller
    λ relies on the values more: less variance, and a bias as long as they are wrong.

    Args:
        rewards: ``(B, T)``, column t for action t; a row is one episode.
        values: ``(B, T)``, the baseline before action t.
        discount: γ, from 0 to 1.
        trace: λ, from 0 to 1.

    Returns:
        ``(B, T)``.

    Source: Schulman et al. 2016, equations 11 and 16.
    """
    require(
        rewards.dim() == 2 and rewards.shape == values.shape and rewards.shape[1] > 0,
        "rewards and values must have one shape (worlds, steps), of at least one step, got "
        f"{tuple(rewards.shape)} and {tuple(values.shape)}",
    )
    check_number("discount", discount, least=0, most=1)
    check_number("trace", trace, least=0, most=1)
    following = torch.cat([values[:, 1:], torch.zeros_like(values[:, :1])], 1)
    delta = rewards + discount * following - values
    result, advantage = [], torch.zeros_like(values[:, 0])
    for t in reversed(range(rewards.shape[1])):
        advantage = delta[:, t] + discount * trace * advantage
        result.append(advantage)
    return torch.stack(result[::-1], 1)


def policy_loss(
    logits: Tensor,
    values: Tensor,
    actions: Tensor,
    rewards: Tensor,
    *,
    discount: float = 1.0,
    trace: float = 1.0,
    value_weight: float = 0.5,
    entropy_weight: Tensor | float = 0.0,
) -> Tensor:
    """The loss of each episode; its mean gradient is that of minus the expected return.

    ``L = Σ_t [ −A_t log π(a_t | x_{≤t}) + c_v (V_t − R_t)² − c_e H(π(· | x_{≤t})) ]``,
    ``R_t = A_t + V_t``

    A and R are constants here: no gradient goes through them. The value head learns from the second
    term alone.

    Args:
        logits: ``(B, T, A)`` of the actions.
        values: ``(B, T)``, V.
        actions: ``(B, T)`` int64, as taken.
        rewards: ``(B, T)``, one per action.
        discount, trace: γ and λ of :func:`advantages`.
        value_weight, entropy_weight: c_v and c_e.

    Returns:
        ``(B,)``.

    Source: Williams 1992; the entropy term as in Mnih et al. 2016. Mishra et al. 2018 keep each
    update within a trust region (TRPO) where this one is left to Adam.
    """
    _check_steps(logits, actions=actions, values=values, rewards=rewards)
    gains = advantages(rewards, values.detach(), discount, trace)
    log_p = logits.log_softmax(-1)
    misses = value_weight * (values - (gains + values.detach())) ** 2
    return (-gains * _chosen(log_p, actions) + misses - entropy_weight * _entropy(log_p)).sum(1)


def _check_steps(logits: Tensor, **given: Tensor) -> None:
    shape = tuple(logits.shape[:-1])
    for name, came in ((name, tuple(value.shape)) for name, value in given.items()):
        require(came == shape, f"{name} must have shape {shape}, got shape {came}")


def _chosen(log_p: Tensor, actions: Tensor) -> Tensor:
    """The entries of the actions that were taken, ``(B, T)``."""
    return log_p.gather(-1, actions[..., None])[..., 0]


def _entropy(log_p: Tensor) -> Tensor:
    """``(B, T)``, with 0 log 0 = 0: the logit of an action that is not allowed may be −∞."""
    return -(log_p.exp() * log_p.clamp_min(torch.finfo(log_p.dtype).min)).sum(-1)


def clipped_policy_loss(
    logits: Tensor,
    values: Tensor,
    actions: Tensor,
    before: Tensor,
    gains: Tensor,
    returns: Tensor,
    *,
    clip: float = 0.2,
    value_weight: float = 0.5,
    entropy_weight: Tensor | float = 0.0,
) -> Tensor:
    """The loss of each episode for actions of an earlier policy, which stays near it (PPO).

    ``L = Σ_t [ −min(ρ_t A_t, clip(ρ_t, 1 − ε, 1 + ε) A_t) + c_v (V_t − R_t)² − c_e H_t ]``, ``H_t =
    H(π(· | x_{≤t}))``, ``ρ_t = π(a_t | x_{≤t}) / π_before(a_t | x_{≤t})``

    Where π is still the earlier policy, ρ = 1 and the gradient is that of :func:`policy_loss`.

    Args:
        logits, values, actions: of the current policy, and the actions taken, as in
            :func:`policy_loss`.
        before: log π_before(a_t | x_{≤t}), ``(B, T)``.
        gains, returns: A and R, ``(B, T)``, constants.
        clip: ε, above 0.
        value_weight, entropy_weight: c_v and c_e.

    Returns:
        ``(B,)``.

    Source: Schulman et al. 2017, equations 7 and 9.
    """
    _check_steps(
        logits, values=values, actions=actions, before=before, gains=gains, returns=returns
    )
    check_number("clip", clip, above=0)
    log_p = logits.log_softmax(-1)
    ratio = (_chosen(log_p, actions) - before).exp()
    gained = torch.minimum(ratio * gains, ratio.clamp(1 - clip, 1 + clip) * gains)
    misses = value_weight * (values - returns) ** 2
    return (-gained + misses - entropy_weight * _entropy(log_p)).sum(1)


class PolicyGradient:
    """The loss for `fit`: play episodes with the agent as it is, then score them in parallel.

    The agent acts step by step, without gradients. The pass with gradients reads complete episodes
    at once: that is where an agent that is causal but not recurrent saves time.

    Args:
        worlds: the environments, on the agent's device.
        steps: updates in all; the entropy bonus falls linearly to 0 over them.
        entropy: c_e at the first update.
        discount, trace, value_weight: of :func:`policy_loss`.

    Attributes:
        rewards: the mean return of an episode, one number per call: per update, or per micro-batch
            under ``fit(micro_batch=…)``. Each micro-batch plays its own worlds, which are not those
            of the whole batch.
    """

    def __init__(
        self,
        worlds: Environments,
        *,
        steps: int,
        entropy: float = 0.05,
        discount: float = 1.0,
        trace: float = 1.0,
        value_weight: float = 0.5,
    ):
        self.worlds, self.steps, self.entropy = worlds, steps, entropy
        self.settings = dict(discount=discount, trace=trace, value_weight=value_weight)
        self.rewards: list[float] = []

    def __repr__(self) -> str:
        """What a checkpoint of `fit` compares: with other numbers it is another run."""
        numbers = dict(steps=self.steps, entropy=self.entropy, **self.settings)
        return f"{type(self).__name__}({self.worlds.length} steps, {numbers})"

    def __call__(self, agent, batch: EpisodeBatch) -> tuple[Tensor, int]:
        require(
            batch.seed.device.type == self.worlds.device.type,
            f"worlds must be on the device of the model, {batch.seed.device}, got "
            f"{self.worlds.device}: give fit(device=worlds.device)",
        )
        weight = self.entropy * max(0.0, 1 - int(batch.step[0]) / self.steps)
        losses = self.losses(agent, batch, weight)
        return losses.sum(), len(batch.seed) * self.worlds.length

    def losses(self, agent, batch: EpisodeBatch, entropy_weight: float) -> Tensor:
        """The loss of each episode, ``(B,)``."""
        played = self.play(agent, batch)
        choices = agent(played.inputs)
        given = choices.logits, choices.values, played.actions, played.rewards
        return policy_loss(*given, entropy_weight=entropy_weight, **self.settings)

    def play(self, agent, batch: EpisodeBatch) -> Trajectories:
        """Episodes of the agent as it is now, and their mean return noted."""
        seed, count = int(batch.seed[0]), len(batch.seed)
        played = play(self.worlds, AgentPolicy(agent), seed=seed, count=count)
        self.rewards.append(float(played.rewards.sum(1).mean()))
        return played


class ClippedPolicyGradient(PolicyGradient):
    """:class:`PolicyGradient` with each batch of episodes used for several updates, none of which
    may move far from the policy that acted (PPO).

    Every ``reuse`` updates a batch of episodes is played. Its advantages are normalised to mean 0
    and standard deviation 1 over the batch, so that a critic that is wrong about the level of all
    returns does not reward, or punish, every action. Then :func:`clipped_policy_loss`. In cost and
    in stability this lies between :class:`PolicyGradient` and the trust region of TRPO.

    Args:
        worlds, steps, entropy, discount, trace, value_weight: as in :class:`PolicyGradient`.
        reuse: updates per batch of episodes.
        clip: ε of :func:`clipped_policy_loss`.

    Attributes:
        rewards: the mean return of an episode, one number per batch that was played.

    Not for ``fit(micro_batch=…)``: a batch must have the size of the one that was played. Warns
    when a run is resumed between two batches: no checkpoint holds the episodes, and new ones are
    played.

    Source: Schulman et al. 2017, algorithm 1.
    """

    def __init__(
        self, worlds: Environments, *, steps: int, reuse: int = 4, clip: float = 0.2, **settings
    ):
        super().__init__(worlds, steps=steps, **settings)
        self.reuse, self.clip, self._played = check_integer("reuse", reuse), clip, None
        self.settings.update(reuse=reuse, clip=clip)

    def losses(self, agent, batch: EpisodeBatch, entropy_weight: float) -> Tensor:
        """The loss of each episode, ``(B,)``."""
        step, count = int(batch.step[0]), len(batch.seed)
        if step % self.reuse and self._played is None:
            warnings.warn(
                f"update {step} needs episodes that no checkpoint holds: new ones are played, and "
                "the run is not equal to the last bit to one that was not stopped. With a "
                f"save_every that is a multiple of {self.reuse} (reuse) it is",
                stacklevel=3,
            )
        if step % self.reuse == 0 or self._played is None:
            self._played = self._play(agent, batch)
        inputs, actions, before, gains, returns = self._played
        if len(inputs) != count:
            raise ValueError(
                f"batch must have the {len(inputs)} episodes that were played, got {count}; "
                "micro_batch is not for this loss"
            )
        choices = agent(inputs)
        given = choices.logits, choices.values, actions, before, gains, returns
        weights = dict(value_weight=self.settings["value_weight"], entropy_weight=entropy_weight)
        return clipped_policy_loss(*given, clip=self.clip, **weights)

    @torch.no_grad()
    def _play(self, agent, batch: EpisodeBatch) -> tuple[Tensor, ...]:
        played = self.play(agent, batch)
        choices = agent(played.inputs)
        before, values = _chosen(choices.logits.log_softmax(-1), played.actions), choices.values
        discount, trace = self.settings["discount"], self.settings["trace"]
        gains = advantages(played.rewards, values, discount, trace)
        scaled = (gains - gains.mean()) / gains.std().clamp_min(1e-8)
        return played.inputs, played.actions, before, scaled, gains + values
