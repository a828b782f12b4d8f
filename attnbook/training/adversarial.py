"""Adversarial training: losses, the update of two networks, samples."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils import parametrize

from ..modules import full_precision, temporary_mode
from ..validate import check_choice, check_integer, check_number, check_seed, check_whole, require
from .loop.autocast import ScaledOptimizer, autocast, usable_precision
from .loop.history import NonFiniteError, RunHistory
from .loop.processes import Processes, join_processes
from .loop.run import Run, check_run
from .loop.settings import describe
from .loop.temporary_state import temporary_seed

__all__ = [
    "ADVERSARIAL_LOSSES",
    "AdversarialHistory",
    "AdversarialLoss",
    "fit_adversarial",
    "hinge_loss",
    "minimax_loss",
    "non_saturating_loss",
    "sample_pictures",
    "standing_statistics",
]

_ROWS = 64  # pictures that are drawn at a time
_STATISTICS_BATCHES = 16


class AdversarialLoss(NamedTuple):
    """``discriminator(real scores, fake scores)`` and ``generator(fake scores)``, means ``()``."""

    discriminator: Callable[[Tensor, Tensor], Tensor]
    generator: Callable[[Tensor], Tensor]


hinge_loss = AdversarialLoss(
    lambda real, fake: F.relu(1 - real).mean() + F.relu(1 + fake).mean(), lambda fake: -fake.mean()
)
"""``L_D = E max(0, 1 − D(x)) + E max(0, 1 + D(G(z)))``, ``L_G = −E D(G(z))``. A picture that is
beyond the margin of 1 on the right side has no gradient in L_D. Source: Lim and Ye 2017; Zhang et
al. 2019, equation 4."""

minimax_loss = AdversarialLoss(
    lambda real, fake: F.softplus(-real).mean() + F.softplus(fake).mean(),
    lambda fake: -F.softplus(fake).mean(),
)
"""With the probability ``p = σ(D)``: ``L_D = −E log p(x) − E log(1 − p(G(z)))``,
``L_G = E log(1 − p(G(z)))``, which is flat where the discriminator is sure. Source: Goodfellow et
al. 2014, equation 1."""

non_saturating_loss = AdversarialLoss(
    minimax_loss.discriminator, lambda fake: F.softplus(-fake).mean()
)
"""The discriminator of :data:`minimax_loss`, and ``L_G = −E log p(G(z))``.

Source: Goodfellow et al. 2014, section 3.
"""

ADVERSARIAL_LOSSES = {
    "hinge": hinge_loss,
    "non_saturating": non_saturating_loss,
    "minimax": minimax_loss,
}


@dataclass
class AdversarialHistory(RunHistory):
    """What happened during :func:`fit_adversarial`.

    Attributes:
        discriminator_losses, generator_losses: one number for each step.
        evaluations, seconds, steps, resumed_from: as in :class:`History`.
        averaged: the generator with averaged weights, in evaluation mode, or None.
    """

    discriminator_losses: list[float] = field(default_factory=list)
    generator_losses: list[float] = field(default_factory=list)

    @property
    def steps(self) -> int:
        return len(self.generator_losses)


def fit_adversarial(
    generator: torch.nn.Module,
    discriminator: torch.nn.Module,
    batches,
    *,
    steps: int,
    loss: str | AdversarialLoss = "hinge",
    generator_rate: float = 1e-4,
    discriminator_rate: float = 4e-4,
    betas: tuple[float, float] = (0.0, 0.9),
    average: float | None = None,
    seed: int = 0,
    precision: str = "no",
    device: torch.device | str | None = None,
    checkpoint_dir: str | os.PathLike | None = None,
    save_every: int | None = None,
    progress: bool = True,
    evaluate: Callable[[torch.nn.Module, torch.nn.Module], Any] | None = None,
    evaluate_every: int | None = None,
) -> AdversarialHistory:
    """Train both networks in place, each with its own Adam.

    One step is an update of the discriminator, then one of the generator. In the first the fakes
    are made without a graph: nothing reaches the generator, and its backward pass costs nothing. In
    the second the discriminator's weights get no gradients. The weights of a parametrization, such
    as a spectral norm, are computed once for the real and the fake pictures of an update.

    Args:
        generator: ``generator(noise, labels) → pictures``, with ``d_noise``, the width of the
            noise.
        discriminator: ``discriminator(pictures, labels) → scores (batch,)``.
        batches: has ``batch(step)``, a pure function of the step, that returns (pictures, labels),
            floating point numbers and labels (batch,) or None. Fakes have the labels of the real
            batch of their step.
        loss: "hinge", "non_saturating", "minimax", or an :class:`AdversarialLoss`.
        generator_rate, discriminator_rate, betas: of the two Adams; the defaults are those of
            SAGAN.
        average: decay ρ of the averaged generator, w̄ ← ρ w̄ + (1 − ρ) w after each step; None for
            no averaging. Its buffers are copies of the generator's: a mean of the vectors of a
            power iteration is no such vector. Call :func:`standing_statistics` on it before
            sampling, since its batch norms have seen other weights.
        seed: of the noise and of all other random numbers; the caller's random state is restored.
        precision: as in :func:`attnbook.fit`; scores and losses are in float32.
        device: None for the GPU if there is one, else the CPU.
        checkpoint_dir, save_every: as in :func:`attnbook.fit`; the newest checkpoint is kept. What
            ``evaluate`` returns must then be numbers, text, or nests of them.
        progress: a text bar on stderr; ATTNBOOK_PROGRESS=0 silences all of them.
        evaluate: ``evaluate(generator, discriminator) → any value``, every ``evaluate_every`` steps
            and at the end, without gradients, both in evaluation mode and under their own random
            numbers.

    Returns:
        Losses, evaluations and the averaged generator.

    Raises:
        ValueError: for arguments out of range, a device that is absent, pictures of integers, and
            a checkpoint of another run.
        NonFiniteError: a ValueError, for a loss or gradient that is not finite; the weights of both
            networks are those before the step.

    Source: Zhang et al. 2019, sections 3 and 4: hinge loss, rates 1e-4 and 4e-4, β = (0, 0.9), one
    update each (two time-scale update rule, Heusel et al. 2017).
    """
    given = _checked(locals())
    seed, processes = given["seed"], join_processes(given.pop("device"))
    alone = processes.count == 1
    require(alone, f"launch must start one process for fit_adversarial, got {processes.count}")
    given["precision"] = usable_precision(precision, processes.device)
    with temporary_seed(seed), temporary_mode(generator, True), temporary_mode(discriminator, True):
        run = _AdversarialRun(processes, **given)
        run.train()
    return run.history


class _AdversarialRun(Run):
    """One call of :func:`fit_adversarial`."""

    history: AdversarialHistory

    def __init__(
        self,
        processes: Processes,
        *,
        generator: torch.nn.Module,
        discriminator: torch.nn.Module,
        loss: str | AdversarialLoss,
        generator_rate: float,
        discriminator_rate: float,
        betas: tuple[float, float],
        **options,
    ):
        self.generator, self.discriminator = generator, discriminator
        self.d_noise = _noise_width(generator)
        self.loss = ADVERSARIAL_LOSSES[loss] if isinstance(loss, str) else loss
        self.rates, self.betas = (float(generator_rate), float(discriminator_rate)), betas
        networks = {"generator": generator, "discriminator": discriminator}
        super().__init__(processes, networks, AdversarialHistory(), **options)
        self.scaled = {}
        for (name, network), rate in zip(networks.items(), self.rates, strict=True):
            adam = torch.optim.Adam(network.parameters(), lr=rate, betas=betas)
            scaled = self.scaled[name] = ScaledOptimizer(adam, network, self.precision, self.device)
            parts = {name: network, f"{name} optimizer": adam, f"{name} scaler": scaled.scaler}
            self.parts |= parts
        self.before = [torch.empty_like(weight) for weight in discriminator.parameters()]

    def settings(self) -> dict[str, Any]:
        rates, betas = list(self.rates), list(self.betas)
        return {"loss": _name_of(self.loss), "rates": rates, "betas": betas, **super().settings()}

    def update(self, step: int) -> None:
        pictures, labels = self.load(step)
        require(
            pictures.is_floating_point(),
            f"batches must hold pictures of floating point numbers, got {pictures.dtype}",
        )
        lower_precision = partial(autocast, self.precision, self.device)
        noise = torch.randn(len(pictures), self.d_noise, device=self.device, dtype=pictures.dtype)
        with torch.no_grad(), lower_precision():
            fakes = self.generator(noise, labels)
        with parametrize.cached(), lower_precision():
            both = [full_precision(self.discriminator(x, labels)) for x in (pictures, fakes)]
        of_discriminator = self.backward("discriminator", self.loss.discriminator(*both))
        self.copy_weights(self.discriminator.parameters(), self.before)
        self.scaled["discriminator"].step()
        with _frozen(self.discriminator), lower_precision():
            fakes = self.generator(torch.randn_like(noise), labels)
            fake_scores = self.discriminator(fakes, labels)
        of_generator = self.backward("generator", self.loss.generator(full_precision(fake_scores)))
        # the one place where the host waits for the device
        rows = torch.stack([of_discriminator, of_generator]).tolist()
        try:
            for name, row in zip(("discriminator", "generator"), rows, strict=True):
                self.scaled[name].check(step, *row, of=f" of the {name}")
        except NonFiniteError:
            self.copy_weights(self.before, self.discriminator.parameters())
            raise
        self.scaled["generator"].step()
        self.history.discriminator_losses.append(rows[0][0])
        self.history.generator_losses.append(rows[1][0])

    def backward(self, name: str, loss: Tensor) -> Tensor:
        """The gradient of the loss of a network; the loss and the norm of the gradient."""
        scaled = self.scaled[name]
        scaled.clear()
        scaled.backward(loss)
        return torch.stack([loss.detach(), scaled.norm().to(loss)])

    @staticmethod
    @torch.no_grad()
    def copy_weights(source: Iterable[Tensor], target: Iterable[Tensor]) -> None:
        for old, new in zip(source, target, strict=True):
            new.copy_(old)

    def measure(self, evaluate: Callable[[torch.nn.Module, torch.nn.Module], Any]) -> Any:
        with (
            temporary_seed(self.seed),  # the same noise every time
            temporary_mode(self.generator, False),
            temporary_mode(self.discriminator, False),
        ):
            return evaluate(self.generator, self.discriminator)

    def shown(self) -> str:
        history = self.history
        return f"D {history.discriminator_losses[-1]:.3f} G {history.generator_losses[-1]:.3f}"


@contextmanager
def _frozen(module: torch.nn.Module) -> Iterator[None]:
    """No gradients for the parameters of `module` in the block; they pass to its inputs."""
    wanting = [p for p in module.parameters() if p.requires_grad]
    for p in wanting:
        p.requires_grad_(False)
    try:
        yield
    finally:
        for p in wanting:
            p.requires_grad_(True)


@torch.no_grad()
def standing_statistics(
    generator: torch.nn.Module, labels: Tensor | None = None, *, seed: int = 0
) -> torch.nn.Module:
    """Measure anew the means and variances that the batch norms of a generator use in evaluation.

    The running means of the training belong to weights that have changed since, and, for averaged
    weights, to other weights altogether. Here they are replaced by plain means over 16 batches of
    fakes, with the weights as they are now. Power iterations of spectral norms go on meanwhile and
    settle. In evaluation mode each picture then depends on its own noise alone.

    Args:
        generator: changed in place; an error, the generator's too, leaves modes and buffers as they
            were.
        labels: integers (any number,) from which those of the fakes are drawn, evenly at random;
            None for a generator without classes.
        seed: of noise and labels.

    Returns:
        The generator, in evaluation mode.

    Source: Brock, Donahue and Simonyan 2019, section 2 ("standing statistics").
    """
    if labels is not None:
        _check_labels("labels", labels)
    parameter, d_noise = next(generator.parameters()), _noise_width(generator)
    kind = torch.nn.modules.batchnorm._BatchNorm
    norms = [m for m in generator.modules() if isinstance(m, kind) and m.track_running_stats]
    momenta = [part.momentum for part in norms]
    buffers = [(buffer, buffer.clone()) for buffer in generator.buffers()]
    g = torch.Generator().manual_seed(check_seed(seed))
    try:
        with temporary_mode(generator, True):
            for part in norms:
                part.reset_running_stats()
                part.momentum = None  # a plain mean over all batches
            for _ in range(_STATISTICS_BATCHES):
                noise = torch.randn(_ROWS, d_noise, generator=g).to(parameter)
                drawn = None
                if labels is not None:
                    index = torch.randint(len(labels), (_ROWS,), generator=g)
                    drawn = labels[index.to(labels.device)].to(parameter.device)
                generator(noise, drawn)
    except BaseException:
        for buffer, before in buffers:
            buffer.copy_(before)
        raise
    finally:
        for part, momentum in zip(norms, momenta, strict=True):
            part.momentum = momentum
    return generator.eval()


@torch.no_grad()
def sample_pictures(generator: torch.nn.Module, number: int | Tensor, *, seed: int = 0) -> Tensor:
    """Draw pictures in evaluation mode; the same seed gives the same pictures.

    The noise is drawn on the CPU, so that it is the same on every device. 64 pictures are made at a
    time.

    Args:
        generator: as for :func:`fit_adversarial`.
        number: how many, or, for a generator with classes, their labels ``(number,)``.
        seed: of the noise.

    Returns:
        Pictures ``(number, colors, side, side)`` on the CPU in float32.
    """
    labels = _check_labels("number", number) if isinstance(number, Tensor) else None
    count = check_integer("number", number) if labels is None else len(labels)
    parameter = next(generator.parameters())
    g = torch.Generator().manual_seed(check_seed(seed))
    noise = torch.randn(count, _noise_width(generator), generator=g).to(parameter).split(_ROWS)
    rows = [None] * len(noise) if labels is None else labels.to(parameter.device).split(_ROWS)
    with temporary_mode(generator, False):
        parts = [generator(*part) for part in zip(noise, rows, strict=True)]
    return torch.cat(parts).float().cpu()


def _check_labels(name: str, labels: Any) -> Tensor:
    check_whole(name, labels)
    require(
        labels.dim() == 1 and len(labels) > 0,
        f"{name} must be a vector of labels, at least one, got shape {tuple(labels.shape)}",
    )
    return labels


def _noise_width(generator: torch.nn.Module) -> int:
    return check_integer("d_noise of the generator", getattr(generator, "d_noise", None))


def _name_of(loss: AdversarialLoss) -> str:
    """What a checkpoint calls a loss: its key where it has one, as these are lambdas."""
    names = [name for name, known in ADVERSARIAL_LOSSES.items() if known is loss]
    return names[0] if names else f"{describe(loss.discriminator)}, {describe(loss.generator)}"


def _checked(given: dict[str, Any]) -> dict[str, Any]:
    for name in ("generator", "discriminator"):
        kind = type(given[name])
        fits = issubclass(kind, torch.nn.Module)
        require(fits, f"{name} must be a torch.nn.Module, got {kind.__name__}")
    require(
        callable(getattr(given["batches"], "batch", None)),
        f"batches must have a method batch(step), got {type(given['batches']).__name__}",
    )
    for name in ("generator_rate", "discriminator_rate"):
        check_number(name, given[name], above=0)
    if not isinstance(given["loss"], AdversarialLoss):
        check_choice("loss", given["loss"], ADVERSARIAL_LOSSES)
    return check_run(given)
