"""Learning to act: policy gradient with a value baseline, over whole lives in worlds that are drawn
anew at each step.

`fit` runs it like any other loss::

    worlds = Bandits(arms=5, pulls=10)
    learn = PolicyGradient(worlds, steps=1000)
    fit(agent, Lives(worlds=256), learn, steps=1000, device=worlds.device)
    learn.rewards  # the mean reward of a life at each step
"""

from __future__ import annotations

import warnings
from typing import NamedTuple

import torch

from ..tasks.decisions.environments import Environments, play

__all__ = [
    "Acting",
    "ClippedPolicyGradient",
    "Life",
    "Lives",
    "PolicyGradient",
    "advantages",
    "clipped_policy_loss",
    "policy_loss",
]


class Life(NamedTuple):
    """What one update is drawn from: ``seed (B,)``, one a world, and ``step (B,)``, how many
    updates came before.
    """

    seed: torch.Tensor
    step: torch.Tensor


class Lives:
    """Batches for `fit`: ``worlds`` new worlds at each step, none twice."""

    def __init__(self, worlds: int, seed: int = 0):
        self.worlds, self.seed = worlds, seed

    def batch(self, step: int) -> Life:
        first = (self.seed * 100_003 + step) * self.worlds
        return Life(first + torch.arange(self.worlds), torch.full((self.worlds,), step))


class Acting:
    """An agent as a policy of `play`: step by step with its cache, actions drawn from its
    probabilities (or the most probable).
    """

    def __init__(self, agent, greedy: bool = False):
        self.agent, self.greedy = agent, greedy

    def start(self, worlds: Environments, count: int, generator: torch.Generator) -> None:
        self.state, self.generator = self.agent.start(count), generator

    def act(self, input: torch.Tensor) -> torch.Tensor:
        choice, self.state = self.agent.step(input, self.state)
        if self.greedy:
            return choice.logits.argmax(-1)
        # argmax(logits + Gumbel noise) is a draw from the softmax.
        chance = torch.rand(
            choice.logits.shape, generator=self.generator, device=input.device, dtype=torch.float64
        )
        return (choice.logits - (-chance.log()).log()).argmax(-1)


def advantages(
    rewards: torch.Tensor, values: torch.Tensor, discount: float = 1.0, trace: float = 1.0
) -> torch.Tensor:
    """How much better it went than the baseline expected, from each step on.

    ``δ_t = r_t + γ V_{t+1} − V_t`` with ``V_T = 0``,  ``A_t = δ_t + γλ A_{t+1}``

    With λ = 1: ``A_t = Σ_{k≥t} γ^{k−t} r_k − V_t``, the return that was seen minus the baseline.
    Smaller λ trusts the values more: less variance, and a bias as long as they are wrong.

    Args:
        rewards: ``(B, T)``, row t for action t; a row is one world from its first step to its last.
        values: ``(B, T)``, the baseline before action t.
        discount: γ, from 0 to 1.
        trace: λ, from 0 to 1.

    Returns:
        ``(B, T)``.

    Raises:
        ValueError: for shapes that differ or have no step, or γ or λ out of range.

    Source: Schulman et al. 2016, equations 11 and 16.
    """
    if rewards.dim() != 2 or rewards.shape != values.shape or rewards.shape[1] == 0:
        raise ValueError(
            f"rewards and values must be (worlds, steps) both, of one step at least, got "
            f"{tuple(rewards.shape)} and {tuple(values.shape)}"
        )
    for name, value in (("discount", discount), ("trace", trace)):
        if not 0 <= value <= 1:
            raise ValueError(f"{name} must lie from 0 to 1, got {value!r}")
    following = torch.cat([values[:, 1:], torch.zeros_like(values[:, :1])], 1)
    surprise = rewards + discount * following - values  # δ
    found, after = [], torch.zeros_like(values[:, 0])
    for t in reversed(range(rewards.shape[1])):
        after = surprise[:, t] + discount * trace * after
        found.append(after)
    return torch.stack(found[::-1], 1)


def policy_loss(
    logits: torch.Tensor,
    values: torch.Tensor,
    actions: torch.Tensor,
    rewards: torch.Tensor,
    *,
    discount: float = 1.0,
    trace: float = 1.0,
    value_weight: float = 0.5,
    entropy_weight: torch.Tensor | float = 0.0,
) -> torch.Tensor:
    """The loss of each world, summed over its steps; its gradient is that of minus the expected
    return, on average.

    ``L = Σ_t [ −A_t log π(a_t | x_{≤t}) + c_v (V_t − R_t)² − c_e H(π(· | x_{≤t})) ]``,
    ``R_t = A_t + V_t``

    A and R are constants here: no gradient goes through them. The value head learns from the second
    term alone.

    Args:
        logits: ``(B, T, A)`` of the actions.
        values: ``(B, T)``, V.
        actions: ``(B, T)`` int64, those that were taken.
        rewards: ``(B, T)``, what they brought.
        discount, trace: γ and λ of :func:`advantages`.
        value_weight, entropy_weight: c_v and c_e.

    Returns:
        ``(B,)``.

    Raises:
        ValueError: for shapes that do not fit.

    Source: Williams 1992; the entropy term as in Mnih et al. 2016. Mishra et al. 2018 keep each
    step within a trust region
    (TRPO) where this one takes a step of Adam.
    """
    if logits.shape[:-1] != actions.shape:
        raise ValueError(
            f"actions must be one a step, {tuple(logits.shape[:-1])}, got shape "
            f"{tuple(actions.shape)}"
        )
    gains = advantages(rewards, values.detach(), discount, trace)
    log_p = logits.log_softmax(-1)
    chosen = log_p.gather(-1, actions[..., None])[..., 0]
    entropy = -(log_p.exp() * log_p).sum(-1)
    misses = (values - (gains + values.detach())) ** 2
    return (-gains * chosen + value_weight * misses - entropy_weight * entropy).sum(1)


def clipped_policy_loss(
    logits: torch.Tensor,
    values: torch.Tensor,
    actions: torch.Tensor,
    before: torch.Tensor,
    gains: torch.Tensor,
    returns: torch.Tensor,
    *,
    clip: float = 0.2,
    value_weight: float = 0.5,
    entropy_weight: torch.Tensor | float = 0.0,
) -> torch.Tensor:
    """The loss of each world for choices that an earlier policy made, which gains nothing by going
    far from it.

    ``L = Σ_t [ −min(ρ_t A_t, clip(ρ_t, 1 − ε, 1 + ε) A_t) + c_v (V_t − R_t)² − c_e H(π(· | x_{≤t})) ]``,
    ``ρ_t = π(a_t | x_{≤t}) / π_before(a_t | x_{≤t})``

    Where π is still the earlier policy, ρ = 1 and the gradient is that of :func:`policy_loss`.

    Args:
        logits, values, actions: of the policy as it is now, and what was done, as in
            :func:`policy_loss`.
        before: log π_before(a_t | x_{≤t}), ``(B, T)``.
        gains, returns: A and R, ``(B, T)``, constants.
        clip: ε, above 0.
        value_weight, entropy_weight: c_v and c_e.

    Returns:
        ``(B,)``.

    Raises:
        ValueError: for shapes that do not fit, or an ε that is not above 0.

    Source: Schulman et al. 2017, equations 7 and 9.
    """
    for name, value in (
        ("values", values),
        ("actions", actions),
        ("before", before),
        ("gains", gains),
        ("returns", returns),
    ):
        if value.shape != logits.shape[:-1]:
            raise ValueError(
                f"{name} must be one a step, {tuple(logits.shape[:-1])}, got shape "
                f"{tuple(value.shape)}"
            )
    if not clip > 0:
        raise ValueError(f"clip must be above 0, got {clip!r}")
    log_p = logits.log_softmax(-1)
    ratio = (log_p.gather(-1, actions[..., None])[..., 0] - before).exp()
    gained = torch.minimum(ratio * gains, ratio.clamp(1 - clip, 1 + clip) * gains)
    entropy = -(log_p.exp() * log_p).sum(-1)
    return (-gained + value_weight * (values - returns) ** 2 - entropy_weight * entropy).sum(1)


class PolicyGradient:
    """The loss for `fit`: play a batch of lives with the agent as it is, then score every choice in
    one parallel pass.

    Acting goes step by step, without gradients. The pass that learns reads the whole life at once:
    that is where an agent that is causal but not recurrent saves time.

    Args:
        worlds: where the agent lives, on the agent's device.
        steps: updates in all; the entropy bonus falls linearly to 0 over them.
        entropy: c_e at the first update.
        discount, trace, value_weight: of :func:`policy_loss`.

    Attributes:
        rewards: the mean total reward of a life, one number a call: one an update, or one for each
            part of a batch that ``fit(micro_batch=…)`` splits. Each part plays worlds of its own,
            so that the parts are not those of the whole batch.
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
        return (
            f"{type(self).__name__}({self.worlds.length} steps, "
            f"{dict(steps=self.steps, entropy=self.entropy, **self.settings)})"
        )

    def check_device(self, life: Life) -> None:
        if life.seed.device.type != self.worlds.device.type:
            raise ValueError(
                f"worlds are on {self.worlds.device}, the model learns on {life.seed.device}: "
                f"give fit(device=worlds.device), "
                "or make the worlds where the model is"
            )

    def __call__(self, agent, life: Life) -> tuple[torch.Tensor, int]:
        self.check_device(life)
        count, weight = len(life.seed), self.entropy * max(0.0, 1 - int(life.step[0]) / self.steps)
        played = play(self.worlds, Acting(agent), seed=int(life.seed[0]), count=count)
        choices = agent(played.inputs)
        losses = policy_loss(
            choices.logits,
            choices.values,
            played.actions,
            played.rewards,
            entropy_weight=weight,
            **self.settings,
        )
        self.rewards.append(float(played.rewards.sum(1).mean()))
        return losses.sum(), count * self.worlds.length


class ClippedPolicyGradient(PolicyGradient):
    """The same, but each batch of lives serves several updates, and none of them may move far from
    the policy that acted.

    Every ``reuse`` updates a batch of lives is played. Its advantages are brought to mean 0 and
    standard deviation 1 over the batch, so that a critic that is wrong about the level of all
    returns does not reward, or punish, whatever was done. Then
    :func:`clipped_policy_loss`. It stands between :class:`PolicyGradient` and the trust region of
    TRPO, in cost and in steadiness.

    Args:
        worlds, steps, entropy, discount, trace, value_weight: as in :class:`PolicyGradient`.
        reuse: updates with one batch of lives.
        clip: ε of :func:`clipped_policy_loss`.

    Attributes:
        rewards: the mean total reward of a life, one number for each batch that was played.

    Raises:
        ValueError: for a ``reuse`` below 1; when it is called, for a batch of another size than the
            one that was played: it does not go with ``fit(micro_batch=…)``.

    Warns when a run is resumed between two plays: no checkpoint holds the lives, and new ones are
    played.

    Source: Schulman et al. 2017, algorithm 1.
    """

    def __init__(
        self, worlds: Environments, *, steps: int, reuse: int = 4, clip: float = 0.2, **settings
    ):
        super().__init__(worlds, steps=steps, **settings)
        if isinstance(reuse, bool) or not isinstance(reuse, int) or reuse < 1:
            raise ValueError(f"reuse must be an integer >= 1, got {reuse!r}")
        self.reuse, self.clip, self._played = reuse, clip, None
        self.settings.update(reuse=reuse, clip=clip)

    def __call__(self, agent, life: Life) -> tuple[torch.Tensor, int]:
        self.check_device(life)
        step, count = int(life.step[0]), len(life.seed)
        if step % self.reuse and self._played is None:
            warnings.warn(
                f"update {step} goes on with lives that no checkpoint holds: new ones are "
                f"played, and the run is not equal to the "
                f"last bit to one that was not stopped. With a save_every that is a multiple of "
                f"{self.reuse} (reuse) it is",
                stacklevel=2,
            )
        if step % self.reuse == 0 or self._played is None:
            self._played = self._play(agent, int(life.seed[0]), count)
        inputs, actions, before, gains, returns = self._played
        if len(inputs) != count:
            raise ValueError(
                f"a batch must have the {len(inputs)} lives that were played, got {count}; "
                f"micro_batch is not for this loss"
            )
        choices = agent(inputs)
        weight = self.entropy * max(0.0, 1 - step / self.steps)
        losses = clipped_policy_loss(
            choices.logits,
            choices.values,
            actions,
            before,
            gains,
            returns,
            clip=self.clip,
            value_weight=self.settings["value_weight"],
            entropy_weight=weight,
        )
        return losses.sum(), count * self.worlds.length

    @torch.no_grad()
    def _play(self, agent, seed: int, count: int) -> tuple[torch.Tensor, ...]:
        played = play(self.worlds, Acting(agent), seed=seed, count=count)
        self.rewards.append(float(played.rewards.sum(1).mean()))
        choices = agent(played.inputs)
        before = choices.logits.log_softmax(-1).gather(-1, played.actions[..., None])[..., 0]
        gains = advantages(
            played.rewards, choices.values, self.settings["discount"], self.settings["trace"]
        )
        scaled = (gains - gains.mean()) / gains.std().clamp_min(1e-8)
        return played.inputs, played.actions, before, scaled, gains + choices.values
