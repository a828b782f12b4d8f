"""Adversarial networks for pictures: digits by class, far parts that must agree, photographs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from attnbook import resources
from attnbook.mechanisms import PictureAttention, PooledPictureAttention
from attnbook.models import (
    DCGAN_BLOCKS,
    RESIDUAL_BLOCKS,
    PicturePair,
    ResidualInstead,
    attention_scales,
    dcgan_pair,
    sagan_pair,
)
from attnbook.tasks.images.labelled import Labelled, LabelledBatches, to_pixels
from attnbook.training import load_model_weights
from attnbook.training.adversarial import fit_adversarial, sample_pictures, standing_statistics
from attnbook.validate import check_choice

from ..common import block_means, checkpoints, count_parameters, save_checkpoint, select
from ..registry import register
from .judges import SIZE, judge_of, picture_set, real_beside_real, scores_of

__all__ = ["VARIANTS", "adversarial", "load_pair", "make_pair"]

VARIANTS: dict[str, dict] = {
    "attention": dict(insert=PictureAttention),
    "pooled attention": dict(insert=PooledPictureAttention),
    "residual block": dict(insert=ResidualInstead),
    "scaled residual block": dict(insert=partial(ResidualInstead, scaled=True)),
    "none": dict(attention_at=None),
}
"""What stands at the place of attention, in both networks."""


def make_pair(
    variant: str = "attention",
    *,
    baseline: bool = False,
    blocks: str = "residual",
    attention_at: int = 16,
    d_key: int | None = None,
    d_value: int | None = None,
    **options: Any,
) -> PicturePair:
    """Both networks with one of :data:`VARIANTS` in them.

    Args:
        baseline: DCGAN: plain convolutions, batch norm in both networks, no spectral norm, nothing
            inserted.
        blocks: "residual" or "convolution", the blocks of :func:`attnbook.models.sagan_pair`.
        attention_at: Side of the feature map that attention, or what replaces it, sees.
        d_key: Width of queries and keys.
        d_value: Width of the values. A residual block in the place of attention has as many
            parameters as attention with these widths.
        options: Those of :func:`attnbook.models.sagan_pair`.
    """
    check_choice("variant", variant, VARIANTS)
    check_choice("blocks", blocks, ("residual", "convolution"))
    if baseline:
        return dcgan_pair(SIZE, **options)
    inserted = {"attention_at": attention_at, **VARIANTS[variant]}
    widths: dict[str, Any] = {"d_key": d_key, "d_value": d_value}
    widths = {key: value for key, value in widths.items() if value is not None}
    if variant != "none":
        inserted["insert"] = partial(inserted["insert"], **widths)
    return sagan_pair(
        SIZE,
        blocks=DCGAN_BLOCKS if blocks == "convolution" else RESIDUAL_BLOCKS,
        **inserted,
        **options,
    )


_OF_PAIR = (
    "variant",
    "baseline",
    "blocks",
    "attention_at",
    "d_key",
    "d_value",
    "last_side",
    "channels",
    "max_channels",
    "d_noise",
)


def _pair_for(data: Labelled, settings: Mapping[str, Any]) -> PicturePair:
    sizes = {name: settings[name] for name in _OF_PAIR}
    return make_pair(**sizes, colors=data.pictures.shape[1], num_classes=len(data.classes))


def load_pair(name: str, *, seed: int = 0, folder: Path | None = None) -> PicturePair:
    """Both networks of a recorded run of :func:`adversarial` with checkpoints, in evaluation mode;
    `attnbook reproduce NAME` makes them again.

    Raises:
        FileNotFoundError: Where a file does not come with this copy.
    """

    def path(file: str) -> Path:
        return Path(folder) / file if folder is not None else resources.path(f"results/{file}")

    settings = json.loads(path(f"{name}.seed{seed}.json").read_text(encoding="utf-8"))["settings"]
    pair = _pair_for(picture_set(settings["data"], "test"), settings)
    for side, network in zip(pair._fields, pair):
        load_model_weights(network, path(f"{settings['checkpoint']}.{side}.seed{seed}.safetensors"))
        network.eval()
    return pair


@dataclass(frozen=True)
class AdversarialSettings:
    data: str = "digits"  # name of the data set
    variant: str = "attention"  # one of VARIANTS
    baseline: bool = False  # DCGAN in place of a SAGAN
    blocks: str = "convolution"  # residual or convolution
    attention_at: int = 8  # side of the feature map that attention (or its stand-in) sees
    d_key: int | None = None  # width of queries and keys; None: the default of PictureAttention
    d_value: int | None = None  # width of the values; None: the default of PictureAttention
    # side of the first feature map of the generator, the last of the discriminator
    last_side: int = 4
    channels: int = 16  # of the layer at the full side
    max_channels: int = 64  # most channels of a layer
    d_noise: int = 32  # width of the noise
    steps: int = 3000  # training steps
    batch_size: int = 32  # examples per step
    generator_rate: float = 5e-4  # learning rate of the generator
    discriminator_rate: float = 1e-3  # learning rate of the discriminator
    betas: Sequence[float] = (0.0, 0.9)  # of Adam, for both networks
    # decay of the averaged generator, which is then scored; None: no average
    average: float | None = None
    precision: str = "no"  # no, bf16 or fp16
    samples: int = 1000  # generated pictures that are scored at the end
    evaluations: int = 10  # evaluations during training
    checkpoint: str = ""  # name of the saved weights; empty: none are saved


class _Counted:
    """Batches that know how many steps are done, also in a run that goes on."""

    def __init__(self, batches: LabelledBatches) -> None:
        self.batches, self.done = batches, 0

    def batch(self, step: int):
        self.done = step + 1
        return self.batches.batch(step)


def adversarial(
    settings: AdversarialSettings,
    *,
    seed: int = 0,
    device: str = "cpu",
    folder: Path = Path("results"),
) -> dict:
    """Train a pair on a set of pictures and score what the generator draws, beside the scores of
    real pictures.

    γ is recorded four times as often as 500 samples are scored. Where there is an averaged
    generator, the scores at the end are those of it.
    """
    data, judge = picture_set(settings.data, "train"), judge_of(settings.data, folder, device)
    torch.manual_seed(seed)
    pair = _pair_for(data, vars(settings))
    labels = torch.arange(settings.samples) % len(data.classes)
    features = judge.features(data.pictures)
    batches = _Counted(LabelledBatches(data, settings.batch_size, seed))
    every = max(1, settings.steps // (4 * settings.evaluations))

    def scores(generator, count: int) -> dict:
        pictures = to_pixels(sample_pictures(generator, labels[:count], seed=seed + 1))
        return scores_of(pictures, labels[:count], judge, data, features)

    def evaluate(generator, discriminator) -> dict:
        scales = {
            side: list(attention_scales(network).values())
            for side, network in (("generator", generator), ("discriminator", discriminator))
        }
        row = {f"gamma_{side}": round(values[0], 5) for side, values in scales.items() if values}
        return {**row, **scores(generator, 500)} if batches.done % (4 * every) == 0 else row

    first, second = settings.betas
    history = fit_adversarial(
        *pair,
        batches,
        betas=(first, second),
        seed=seed,
        device=device,
        evaluate=evaluate,
        evaluate_every=every,
        **checkpoints(settings.steps),
        **select(settings, "steps", "generator_rate", "discriminator_rate", "average", "precision"),
    )
    generator = standing_statistics(
        history.averaged if history.averaged is not None else pair.generator,
        torch.arange(len(data.classes), device=device),
        seed=seed,
    )
    if settings.checkpoint:
        for side, network in (("generator", generator), ("discriminator", pair.discriminator)):
            save_checkpoint(network, f"{settings.checkpoint}.{side}", folder, seed)
    return {
        "parameters": {
            side: count_parameters(network) for side, network in zip(pair._fields, pair)
        },
        "scores": scores(generator, settings.samples),
        "losses": {
            "discriminator": block_means(history.discriminator_losses, 60),
            "generator": block_means(history.generator_losses, 60),
        },
        "path": [{"step": step, **row} for step, row in history.evaluations],
        "real_beside_real": real_beside_real(judge, settings.data, settings.samples),
    }


FAR_PARTS = AdversarialSettings(
    data="far-parts",
    last_side=8,
    max_channels=32,
    d_key=16,
    d_value=32,
    steps=1200,
    generator_rate=1e-3,
    discriminator_rate=3e-3,
    samples=2000,
    evaluations=6,
)
RATES = ((5e-4, 1.5e-3), (1e-3, 1e-3), (2.5e-4, 1e-3), (5e-4, 5e-4))
"""Learning rates of generator and discriminator, beside those that were found with attention."""


@dataclass(frozen=True)
class RatesSettings:
    steps: int = FAR_PARTS.steps  # training steps of each game
    samples: int = FAR_PARTS.samples  # generated pictures that are scored


def far_parts_rates(
    settings: RatesSettings, *, seed: int = 0, device: str = "cpu", folder: Path = Path("results")
) -> dict:
    """Attention and both blocks in its place, each at :data:`RATES`: what the forger draws."""
    rows = []
    for variant in ("attention", "residual block", "scaled residual block"):
        for generator_rate, discriminator_rate in RATES:
            made = replace(
                FAR_PARTS,
                variant=variant,
                generator_rate=generator_rate,
                discriminator_rate=discriminator_rate,
                evaluations=1,
                **vars(settings),
            )
            scores = adversarial(made, seed=seed, device=device, folder=folder)["scores"]
            rows.append(
                {
                    "variant": variant,
                    "generator_rate": generator_rate,
                    "discriminator_rate": discriminator_rate,
                    **{name: scores[name] for name in ("fid", "agree", "chance", "colours")},
                }
            )
    return {"rows": rows}


register(
    "far-parts-rates",
    far_parts_rates,
    RatesSettings(),
    title="The same at four other pairs of learning rates, attention and both blocks",
    minutes="20 minutes on one CPU core",
)
for _variant in ("attention", "residual block", "scaled residual block", "none"):
    _name = f"far-parts-{_variant.replace(' ', '-')}"
    register(
        _name,
        adversarial,
        replace(FAR_PARTS, variant=_variant, checkpoint=_name),
        title=f"Drawn pictures with far parts that agree, by a SAGAN, {_variant} at side 8",
        minutes="3 minutes on one CPU core",
    )
DIGITS = AdversarialSettings(
    data="digits",
    max_channels=48,
    steps=1500,
    generator_rate=1e-3,
    discriminator_rate=3e-3,
    samples=450,
    evaluations=6,
)
for _variant, _checkpoint in (("attention", "gan-digits-attention"), ("none", "")):
    register(
        f"gan-digits-{_variant}",
        adversarial,
        replace(DIGITS, variant=_variant, checkpoint=_checkpoint),
        title=f"Digits by class, by a SAGAN, {_variant} at side 8",
        minutes="4 minutes on one CPU core",
    )
register(
    "gan-digits-dcgan",
    adversarial,
    replace(DIGITS, baseline=True, variant="none", discriminator_rate=1e-3),
    title="Digits by class, by DCGAN, the baseline, with the rates that suit it best of five pairs",
    minutes="3 minutes on one CPU core",
)
# The comparison of the paper's table 1 at 32 pixels, for a GPU; seeds 0, 1 and 2.
CIFAR = AdversarialSettings(
    data="cifar-10",
    blocks="residual",
    channels=64,
    max_channels=256,
    d_noise=128,
    steps=50_000,
    batch_size=64,
    generator_rate=1e-4,
    discriminator_rate=4e-4,
    average=0.999,
    precision="bf16",
    samples=10_000,
)
for _name, _title, _settings in (
    ("dcgan", "by DCGAN, the baseline", replace(CIFAR, baseline=True)),
    ("none", "by a SAGAN without attention", replace(CIFAR, variant="none")),
    *(
        (
            f"{_variant.replace(' ', '-')}-{_side}",
            f"by a SAGAN, {_variant} at side {_side}",
            replace(CIFAR, variant=_variant, attention_at=_side),
        )
        for _side in (4, 8, 16)
        for _variant in ("attention", "residual block")
    ),
):
    register(
        f"gan-cifar-10-{_name}",
        adversarial,
        _settings,
        title=f"cifar-10 {_title}: FID",
        minutes="1 hour on one GPU",
        needs="cifar-10-images",
    )
