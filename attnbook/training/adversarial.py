"""Adversarial training: losses, one loop for two networks, samples."""

from __future__ import annotations

import copy
import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.nn import functional as F
from torch.nn.utils import get_total_norm, parametrize
from tqdm import tqdm

from ..modules import full_precision, temporary_mode
from ..validate import check_choice, check_integer, check_number, check_seed, check_whole, require
from .loop.autocast import autocast, usable_precision
from .loop.averaging import update_average
from .loop.history import NonFiniteError
from .loop.nested import to_device
from .loop.processes import check_device
from .loop.resume import is_due, read_newest, sole_writer, write_checkpoint
from .loop.run import plain_value
from .loop.settings import describe, digest_of, modules_of
from .loop.temporary_state import get_random_state, set_random_state, temporary_seed

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

_STATISTICS_BATCHES, _STATISTICS_ROWS = 16, 64


class AdversarialLoss(NamedTuple):
    """``discriminator(real scores, fake scores) → ()`` and ``generator(fake scores) → ()``, means
    over the batch, in nats or as they are.
    """

    discriminator: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    generator: Callable[[torch.Tensor], torch.Tensor]


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
class AdversarialHistory:
    """What happened during :func:`fit_adversarial`.

    Attributes:
        discriminator_losses, generator_losses: one number for each step.
        evaluations: (step, value) for each call of `evaluate`; `step` counts the steps before it.
        averaged: the generator with averaged weights, or None.
    """

    discriminator_losses: list[float] = field(default_factory=list)
    generator_losses: list[float] = field(default_factory=list)
    evaluations: list[tuple[int, Any]] = field(default_factory=list)
    averaged: torch.nn.Module | None = None

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
    _check(locals())
    d_noise = _noise_width(generator)
    functions = ADVERSARIAL_LOSSES[loss] if isinstance(loss, str) else loss
    device = check_device(
        ("cuda" if torch.cuda.is_available() else "cpu") if device is None else device
    )
    precision = usable_precision(precision, device)
    generator.to(device)
    discriminator.to(device)
    generator_adam, discriminator_adam = (
        torch.optim.Adam(network.parameters(), lr=rate, betas=betas)
        for network, rate in ((generator, generator_rate), (discriminator, discriminator_rate))
    )
    history = AdversarialHistory(
        averaged=None if average is None else copy.deepcopy(generator).requires_grad_(False)
    )

    scalers = {
        optimizer: torch.amp.GradScaler(device.type, enabled=precision == "fp16")
        for optimizer in (discriminator_adam, generator_adam)
    }

    def backward(optimizer: torch.optim.Adam, loss: torch.Tensor) -> torch.Tensor:
        """The loss and the norm of its gradient, for `check`."""
        optimizer.zero_grad(set_to_none=True)
        scalers[optimizer].scale(loss).backward()
        held = optimizer.param_groups[0]["params"]
        norm = get_total_norm([weight.grad for weight in held if weight.grad is not None])
        return torch.stack([loss.detach(), norm.to(loss)])

    def update(optimizer: torch.optim.Adam) -> None:
        scalers[optimizer].step(optimizer)
        scalers[optimizer].update()

    weights = list(discriminator.parameters())
    before = [torch.empty_like(weight) for weight in weights]

    def check(results: dict[str, torch.Tensor]) -> list[float]:
        """Both losses of a step, or the error; the discriminator is updated by then."""
        # the one place where the host waits for the device
        rows = torch.stack([*results.values()]).tolist()
        for name, row in zip(results, rows, strict=True):
            for what, value in zip(("loss", "gradient"), row, strict=True):
                # The scaler of fp16 skips an update whose gradient overflowed.
                skipped = what == "gradient" and precision == "fp16"
                if not (math.isfinite(value) or skipped):
                    with torch.no_grad():
                        for weight, kept in zip(weights, before, strict=True):
                            weight.copy_(kept)
                    raise NonFiniteError(f"{what} of the {name}", history.steps, value)
        return [loss for loss, _ in rows]

    lower_precision = partial(autocast, precision, device)

    directory = None if checkpoint_dir is None else Path(checkpoint_dir)
    parts = {
        "generator": generator,
        "discriminator": discriminator,
        "generator optimizer": generator_adam,
        "discriminator optimizer": discriminator_adam,
        "generator scaler": scalers[generator_adam],
        "discriminator scaler": scalers[discriminator_adam],
    }
    if history.averaged is not None:
        parts["averaged"] = history.averaged
    run = {
        "loss": _name_of(loss),
        "rates": [generator_rate, discriminator_rate],
        "betas": list(betas),
        "average": average,
        "seed": seed,
        "precision": precision,
        "device": device.type,
    }

    bar = tqdm(
        total=steps,
        disable=not progress or os.environ.get("ATTNBOOK_PROGRESS") == "0",
        file=sys.stderr,
        unit="step",
        mininterval=0.5,
    )
    with (
        temporary_seed(seed),
        temporary_mode(generator, True),
        temporary_mode(discriminator, True),
        ExitStack() as stack,
        bar,
    ):
        if directory is not None:
            run |= _settings_of(generator, discriminator, batches)
            _resume(directory, run, parts, history, steps)
            if history.steps < steps:  # a finished run is only read
                stack.enter_context(sole_writer(directory))
            bar.update(history.steps)
        for step in range(history.steps, steps):
            pictures, labels = to_device(batches.batch(step), device)
            require(
                pictures.is_floating_point(),
                f"batches must hold pictures of floating point numbers, got {pictures.dtype}",
            )
            noise = torch.randn(len(pictures), d_noise, device=device, dtype=pictures.dtype)
            with torch.no_grad(), lower_precision():
                fakes = generator(noise, labels)
            with parametrize.cached(), lower_precision():
                real_scores = discriminator(pictures, labels)
                fake_scores = discriminator(fakes, labels)
            of_discriminator = functions.discriminator(
                full_precision(real_scores), full_precision(fake_scores)
            )
            with torch.no_grad():
                for weight, kept in zip(weights, before, strict=True):
                    kept.copy_(weight)
            results = {"discriminator": backward(discriminator_adam, of_discriminator)}
            update(discriminator_adam)
            noise = torch.randn_like(noise)
            with _frozen(discriminator), lower_precision():
                fake_scores = discriminator(generator(noise, labels), labels)
            of_generator = functions.generator(full_precision(fake_scores))
            results["generator"] = backward(generator_adam, of_generator)
            discriminator_loss, generator_loss = check(results)
            update(generator_adam)
            history.discriminator_losses.append(discriminator_loss)
            history.generator_losses.append(generator_loss)
            if average is not None and history.averaged is not None:
                update_average(history.averaged, generator, average)
            bar.set_postfix_str(f"D {discriminator_loss:.3f} G {generator_loss:.3f}", refresh=False)
            bar.update()
            if evaluate is not None and is_due(step + 1, evaluate_every, steps):
                with (
                    torch.no_grad(),
                    temporary_seed(seed),
                    temporary_mode(generator, False),
                    temporary_mode(discriminator, False),
                ):
                    history.evaluations.append((step + 1, evaluate(generator, discriminator)))
            if directory is not None and is_due(step + 1, save_every, steps):
                _save(directory, run, parts, history)
    return history


def _settings_of(generator, discriminator, batches) -> dict[str, Any]:
    """What has to be the same for a run to go on, beside the arguments."""
    networks = {"generator": generator, "discriminator": discriminator}
    return {
        "shapes": {
            f"{name}.{key}": list(tensor.shape)
            for name, network in networks.items()
            for key, tensor in network.state_dict().items()
        },
        "modules": modules_of(generator, "generator") | modules_of(discriminator, "discriminator"),
        "first batch": digest_of(batches.batch(0)),
        "torch": torch.__version__,
    }


def _save(directory: Path, run: dict, parts: dict, history: AdversarialHistory) -> None:
    state = {name: part.state_dict() for name, part in parts.items()}
    state["history"] = {
        "discriminator_losses": history.discriminator_losses,
        "generator_losses": history.generator_losses,
        "evaluations": plain_value(history.evaluations),
    }
    state["random"] = get_random_state()
    write_checkpoint(directory, history.steps, state, run, keep=1)


def _resume(
    directory: Path, run: dict, parts: dict, history: AdversarialHistory, steps: int
) -> None:
    """Put the networks, their optimizers and the random numbers where the newest checkpoint was
    written, if there is one.
    """
    state = read_newest(directory, run)
    if state is None:
        return
    before = state["history"]
    done = len(before["generator_losses"])
    require(
        done <= steps,
        f"steps must be at least the {done} of the run in checkpoint_dir, got {steps}",
    )
    for name, part in parts.items():
        part.load_state_dict(state[name])
    history.discriminator_losses = before["discriminator_losses"]
    history.generator_losses = before["generator_losses"]
    history.evaluations = [(step, value) for step, value in before["evaluations"]]
    set_random_state(state["random"])


@contextmanager
def _frozen(module: torch.nn.Module) -> Iterator[None]:
    """No gradients for the parameters of `module` inside the block; they pass through it to its
    inputs.
    """
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
    generator: torch.nn.Module, labels: torch.Tensor | None = None, *, seed: int = 0
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
    norms = [
        part
        for part in generator.modules()
        if isinstance(part, torch.nn.modules.batchnorm._BatchNorm) and part.track_running_stats
    ]
    momenta = [part.momentum for part in norms]
    buffers = [(buffer, buffer.clone()) for buffer in generator.buffers()]
    g = torch.Generator().manual_seed(check_seed(seed))
    try:
        with temporary_mode(generator, True):
            for part in norms:
                part.reset_running_stats()
                part.momentum = None  # a plain mean over all batches
            for _ in range(_STATISTICS_BATCHES):
                noise = torch.randn(_STATISTICS_ROWS, d_noise, generator=g).to(parameter)
                drawn = None
                if labels is not None:
                    index = torch.randint(len(labels), (_STATISTICS_ROWS,), generator=g)
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
def sample_pictures(
    generator: torch.nn.Module, number: int | torch.Tensor, *, batch_size: int = 64, seed: int = 0
) -> torch.Tensor:
    """Draw pictures in evaluation mode; the same seed gives the same pictures.

    The noise is drawn on the CPU, so that it is the same on every device, and a picture is the same
    whatever the ``batch_size``, up to rounding.

    Args:
        generator: as for :func:`fit_adversarial`.
        number: how many, or, for a generator with classes, their labels ``(number,)``.
        batch_size: pictures made at a time.
        seed: of the noise.

    Returns:
        Pictures ``(number, colors, side, side)`` on the CPU in float32.
    """
    labels = _check_labels("number", number) if isinstance(number, torch.Tensor) else None
    count = check_integer("number", number) if labels is None else len(labels)
    check_integer("batch_size", batch_size)
    parameter = next(generator.parameters())
    g = torch.Generator().manual_seed(check_seed(seed))
    noise = torch.randn(count, _noise_width(generator), generator=g).to(parameter)
    with temporary_mode(generator, False):
        parts = [
            generator(
                noise[k : k + batch_size],
                None if labels is None else labels[k : k + batch_size].to(parameter.device),
            )
            for k in range(0, count, batch_size)
        ]
    return torch.cat(parts).float().cpu()


def _check_labels(name: str, labels: Any) -> torch.Tensor:
    check_whole(name, labels)
    require(
        labels.dim() == 1 and len(labels) > 0,
        f"{name} must be a vector of labels, at least one, got shape {tuple(labels.shape)}",
    )
    return labels


def _noise_width(generator: torch.nn.Module) -> int:
    return check_integer("d_noise of the generator", getattr(generator, "d_noise", None))


def _name_of(loss: str | AdversarialLoss) -> str:
    """What a checkpoint calls a loss: its key where it has one, as these are lambdas."""
    if isinstance(loss, str):
        return loss
    names = [name for name, known in ADVERSARIAL_LOSSES.items() if known is loss]
    return names[0] if names else f"{describe(loss.discriminator)}, {describe(loss.generator)}"


def _check(given: dict[str, Any]) -> None:
    check_integer("steps", given["steps"])
    check_integer("seed", given["seed"], 0)
    for name in ("generator_rate", "discriminator_rate"):
        check_number(name, given[name], above=0)
    if given["average"] is not None:
        check_number("average", given["average"], least=0, below=1)
    for name, needed in (("evaluate_every", "evaluate"), ("save_every", "checkpoint_dir")):
        if given[name] is not None:
            check_integer(name, given[name])
            require(
                given[needed] is not None,
                f"{name} must be None without {needed}, got {given[name]}",
            )
    if not isinstance(given["loss"], AdversarialLoss):
        check_choice("loss", given["loss"], ADVERSARIAL_LOSSES)
    for name in ("generator", "discriminator"):
        network = given[name]
        require(
            isinstance(network, torch.nn.Module),
            f"{name} must be a torch.nn.Module, got {type(network).__name__}",
        )
    require(
        callable(getattr(given["batches"], "batch", None)),
        f"batches must have a method batch(step), got {type(given['batches']).__name__}",
    )
