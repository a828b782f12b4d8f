"""Two networks against each other: losses, one loop with two learning rates, an averaged
generator, samples.
"""

from __future__ import annotations

import copy
import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch.nn import functional as F
from torch.nn.utils import parametrize
from tqdm import tqdm

from .loop import accelerator
from .loop.history import NonFiniteError
from .losses.token_loss import full_precision

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


class AdversarialLoss(NamedTuple):
    """``discriminator(real scores, fake scores) → ()`` and ``generator(fake scores) → ()``,
    means over the batch, in nats or as they are.
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

    discriminator_losses, generator_losses   one number for each step; the mean of the D steps in it
    evaluations     (step, value) for each call of `evaluate`; `step` counts the steps made before
                    it
    averaged        the generator with averaged weights, or None
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
    discriminator_steps: int = 1,
    average: float | None = None,
    average_from: int = 0,
    seed: int = 0,
    precision: str = "no",
    device: torch.device | str | None = None,
    progress: bool = True,
    evaluate: Callable[[torch.nn.Module, torch.nn.Module], Any] | None = None,
    evaluate_every: int | None = None,
) -> AdversarialHistory:
    """Train both networks in place, each with an Adam of its own, and return the
    :class:`AdversarialHistory`.

    One step is `discriminator_steps` updates of the discriminator, each on a batch of its own, then
    one of the generator. In the first the fakes are made without a graph: nothing reaches the
    generator, and its backward pass costs nothing. In the second the discriminator's weights get no
    gradients. The weights of a parametrization, such as a spectral norm, are computed once for the
    real and the fake pictures of an update.

    generator       `generator(noise, labels) → pictures`, with `d_noise`, the width of the noise
    discriminator   `discriminator(pictures, labels) → scores (batch,)`
    batches         has `batch(k)`, a pure function of k, that returns (pictures, labels), floating
                    point numbers and labels (batch,) or None. Update number k of the discriminator
                    gets `batch(k)`. Fakes have the labels of the real batch beside them.
    loss            "hinge", "non_saturating", "minimax", or an :class:`AdversarialLoss`
    generator_rate, discriminator_rate, betas   of the two Adams; the defaults are those of SAGAN
    average         decay ρ of the averaged generator, w̄ ← ρ w̄ + (1 − ρ) w after each step from
                    `average_from` on (before it w̄ = w); None: none. Its buffers are copies of the
                    generator's: a mean of the vectors of a power iteration is no such vector. Give
                    it :func:`standing_statistics` before you sample, since its batch norms have
                    seen other weights.
    seed            of the noise and of all other random numbers; the caller's own stream is put
                    back afterwards
    precision       "no" or "bf16" (autocast; scores and losses in float32)
    device          None: the GPU if there is one, else the CPU
    evaluate        `evaluate(generator, discriminator) → any value`, every `evaluate_every` steps
                    and at the end, without gradients, both in evaluation mode and under random
                    numbers of its own

    Raises ValueError for arguments out of range, a device that is not there and pictures of whole
    numbers; NonFiniteError, a ValueError, for a loss that is not finite, before the weights of that
    update change. Source: Zhang et al. 2019, sections 3 and 4: hinge loss, rates 1e-4 and 4e-4, β =
    (0, 0.9), one update each (two time-scale update rule, Heusel et al. 2017)."""
    _check(locals())
    loss = ADVERSARIAL_LOSSES[loss] if isinstance(loss, str) else loss
    device = accelerator.check_device(
        ("cuda" if torch.cuda.is_available() else "cpu") if device is None else device
    )
    generator.to(device), discriminator.to(device)
    optimizers = {
        "generator": torch.optim.Adam(generator.parameters(), lr=generator_rate, betas=betas),
        "discriminator": torch.optim.Adam(
            discriminator.parameters(), lr=discriminator_rate, betas=betas
        ),
    }
    history = AdversarialHistory(
        averaged=None if average is None else copy.deepcopy(generator).requires_grad_(False)
    )

    def update(name: str, value: torch.Tensor, step: int) -> float:
        number = value.item()
        if not math.isfinite(number):
            raise NonFiniteError(f"loss of the {name}", step, number)
        optimizers[name].zero_grad(set_to_none=True)
        value.backward()
        optimizers[name].step()
        return number

    def lower_precision():
        return torch.autocast(device.type, dtype=torch.bfloat16, enabled=precision == "bf16")

    with (
        accelerator.own_random_state(seed),
        accelerator.training_modes_kept(generator, True),
        accelerator.training_modes_kept(discriminator, True),
    ):
        bar = tqdm(
            total=steps,
            disable=not progress or os.environ.get("ATTNBOOK_PROGRESS") == "0",
            file=sys.stderr,
            unit="step",
            mininterval=0.5,
        )
        with bar:
            for step in range(steps):
                losses = []
                for k in range(discriminator_steps):
                    pictures, labels = accelerator.to_device(
                        batches.batch(step * discriminator_steps + k), device
                    )
                    if not pictures.is_floating_point():
                        raise ValueError(
                            f"batches: got pictures of {pictures.dtype}, expected floating point "
                            f"numbers"
                        )
                    noise = torch.randn(
                        len(pictures), generator.d_noise, device=device, dtype=pictures.dtype
                    )
                    with torch.no_grad(), lower_precision():
                        fakes = generator(noise, labels)
                    with parametrize.cached(), lower_precision():
                        real_scores, fake_scores = (
                            discriminator(pictures, labels),
                            discriminator(fakes, labels),
                        )
                    losses.append(
                        update(
                            "discriminator",
                            loss.discriminator(
                                full_precision(real_scores), full_precision(fake_scores)
                            ),
                            step,
                        )
                    )
                noise = torch.randn_like(noise)
                with _frozen(discriminator), lower_precision():
                    fake_scores = discriminator(generator(noise, labels), labels)
                history.generator_losses.append(
                    update("generator", loss.generator(full_precision(fake_scores)), step)
                )
                history.discriminator_losses.append(sum(losses) / len(losses))
                if average is not None:
                    _average(history.averaged, generator, average if step >= average_from else 0.0)
                bar.set_postfix_str(
                    f"D {history.discriminator_losses[-1]:.3f} G "
                    f"{history.generator_losses[-1]:.3f}",
                    refresh=False,
                )
                bar.update()
                if evaluate is not None and (
                    step + 1 == steps
                    or (evaluate_every is not None and (step + 1) % evaluate_every == 0)
                ):
                    with (
                        torch.no_grad(),
                        accelerator.own_random_state(seed),
                        accelerator.training_modes_kept(generator, False),
                        accelerator.training_modes_kept(discriminator, False),
                    ):
                        history.evaluations.append((step + 1, evaluate(generator, discriminator)))
    return history


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
def _average(averaged: torch.nn.Module, module: torch.nn.Module, decay: float) -> None:
    """w̄ ← decay w̄ + (1 − decay) w for the parameters; buffers are copied."""
    for mean, now in zip(averaged.parameters(), module.parameters(), strict=True):
        mean.lerp_(now, 1 - decay)
    for mean, now in zip(averaged.buffers(), module.buffers(), strict=True):
        mean.copy_(now)


@torch.no_grad()
def standing_statistics(
    generator: torch.nn.Module,
    labels: torch.Tensor | None = None,
    *,
    batches: int = 16,
    batch_size: int = 64,
    seed: int = 0,
) -> torch.nn.Module:
    """Measure anew what the batch norms of a generator take for mean and variance in evaluation;
    return it, in evaluation mode.

    The running means of the training belong to weights that have moved on, and, for averaged
    weights, to other weights altogether. Here they are replaced by plain means over `batches`
    batches of fakes, with the weights as they are now. Power iterations of spectral norms go on
    meanwhile and settle.

    `labels`, whole numbers (any number,), are what fakes are drawn from, evenly at random; None for
    a generator without classes. Sampling in evaluation mode makes each picture alone: it does not
    depend on the others beside it. Raises ValueError for numbers out of range. An error, the
    generator's too, leaves modes and buffers as they were. Source: Brock, Donahue and Simonyan
    2019, section 2 ("standing statistics")."""
    _whole("batches", batches)
    _whole("batch_size", batch_size)
    if labels is not None:
        _check_labels("labels", labels)
    parameter = next(generator.parameters())
    norms = [
        part
        for part in generator.modules()
        if isinstance(part, torch.nn.modules.batchnorm._BatchNorm) and part.track_running_stats
    ]
    momenta, buffers = (
        [part.momentum for part in norms],
        [(buffer, buffer.clone()) for buffer in generator.buffers()],
    )
    g = torch.Generator().manual_seed(seed)
    try:
        with accelerator.training_modes_kept(generator, True):
            for part in norms:
                part.reset_running_stats()
                part.momentum = None  # a plain mean over all batches
            for _ in range(batches):
                noise = torch.randn(batch_size, generator.d_noise, generator=g).to(parameter)
                drawn = (
                    None
                    if labels is None
                    else labels[
                        torch.randint(len(labels), (batch_size,), generator=g).to(labels.device)
                    ].to(parameter.device)
                )
                generator(noise, drawn)
    except BaseException:
        for buffer, before in buffers:
            buffer.copy_(before)
        raise
    finally:
        for part, momentum in zip(norms, momenta):
            part.momentum = momentum
    return generator.eval()


@torch.no_grad()
def sample_pictures(
    generator: torch.nn.Module, number: int | torch.Tensor, *, batch_size: int = 64, seed: int = 0
) -> torch.Tensor:
    """Draw pictures `(number, colors, side, side)` in evaluation mode, on the CPU in float32; one
    seed, one set of pictures.

    `number` is how many, or, for a generator with classes, their labels `(number,)`, one picture
    each. The noise is drawn on the CPU, so that it is the same on every device, and picture k is
    the same whatever the `batch_size`, up to rounding. Raises ValueError for numbers out of range.
    """
    labels = _check_labels("number", number) if isinstance(number, torch.Tensor) else None
    if labels is None:
        _whole("number", number)
    _whole("batch_size", batch_size)
    count = len(labels) if labels is not None else number
    parameter = next(generator.parameters())
    noise = torch.randn(count, generator.d_noise, generator=torch.Generator().manual_seed(seed)).to(
        parameter
    )
    with accelerator.training_modes_kept(generator, False):
        parts = [
            generator(
                noise[k : k + batch_size],
                None if labels is None else labels[k : k + batch_size].to(parameter.device),
            )
            for k in range(0, count, batch_size)
        ]
    return torch.cat(parts).float().cpu()


def _whole(name: str, value: Any, least: int = 1) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name}: got {value!r}, expected an integer >= {least}")


def _check_labels(name: str, labels: Any) -> torch.Tensor:
    tensor = isinstance(labels, torch.Tensor)
    if (
        not tensor
        or labels.dim() != 1
        or not len(labels)
        or labels.is_floating_point()
        or labels.is_complex()
        or labels.dtype == torch.bool
    ):
        came = f"shape {tuple(labels.shape)} of {labels.dtype}" if tensor else type(labels).__name__
        raise ValueError(
            f"{name}: got {came}, expected a vector of labels, one whole number or more"
        )
    return labels


def _check(given: dict[str, Any]) -> None:
    for name, least in (("steps", 1), ("discriminator_steps", 1), ("average_from", 0), ("seed", 0)):
        _whole(name, given[name], least)
    if given["evaluate_every"] is not None:
        _whole("evaluate_every", given["evaluate_every"])
        if given["evaluate"] is None:
            raise ValueError("evaluate_every: got a number without evaluate, expected both or none")
    for name in ("generator_rate", "discriminator_rate"):
        value = given[name]
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not 0 < value < math.inf
        ):
            raise ValueError(f"{name}: got {value!r}, expected a positive number")
    average = given["average"]
    if average is not None and (
        isinstance(average, bool) or not isinstance(average, int | float) or not 0 <= average < 1
    ):
        raise ValueError(
            f"average: got {average!r}, expected a decay from 0 to 1, such as 0.999, or None"
        )
    loss = given["loss"]
    if not isinstance(loss, AdversarialLoss) and not (
        isinstance(loss, str) and loss in ADVERSARIAL_LOSSES
    ):
        raise ValueError(
            f"loss: got {loss!r}, expected one of {', '.join(ADVERSARIAL_LOSSES)} or an "
            f"AdversarialLoss"
        )
    if given["precision"] not in ("no", "bf16"):
        raise ValueError(f"precision: got {given['precision']!r}, expected 'no' or 'bf16'")
    for name in ("generator", "discriminator"):
        if not isinstance(given[name], torch.nn.Module):
            raise ValueError(
                f"{name}: got {type(given[name]).__name__}, expected a torch.nn.Module"
            )
    if not isinstance(getattr(given["generator"], "d_noise", None), int):
        raise ValueError("generator: it must have d_noise, the width of its noise")
    if not callable(getattr(given["batches"], "batch", None)):
        raise ValueError(
            f"batches: got {type(given['batches']).__name__}, expected an object with a method "
            f"batch(k)"
        )
