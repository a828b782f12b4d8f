"""Adversarial networks for pictures: digits by class, far parts that must agree, photographs and
emoji; and the networks that judge them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch

from ... import resources
from ...mechanisms import PictureAttention, PooledPictureAttention
from ...models import (
    DCGAN_BLOCKS,
    RESIDUAL_BLOCKS,
    PicturePair,
    ResidualInstead,
    attention_scales,
    dcgan_pair,
    sagan_pair,
)
from ...models.gan.picture_classifier import PictureClassifier, classifier_loss
from ...tasks.images import color_pictures, digits, far_parts
from ...tasks.images.labelled import Labelled, LabelledBatches, to_floats, to_pixels
from ...training import cosine_decay, fit, load_model_weights, read_metadata, save_model
from ...training.adversarial import (
    fit_adversarial,
    hinge_loss,
    sample_pictures,
    standing_statistics,
)
from ...training.evaluation.sample_scores import fid, inception_score, intra_fid, statistics
from ...training.loop.temporary_state import temporary_mode
from ...validate import check_choice
from ..registry import register

__all__ = [
    "JUDGES",
    "SETS",
    "VARIANTS",
    "Judge",
    "SideBySide",
    "adversarial",
    "discriminators_alone",
    "judge",
    "judge_of",
    "load_judge",
    "load_pair",
    "make_pair",
    "noticed",
    "noticing_loss",
    "picture_set",
    "real_beside_real",
    "scores_of",
]

SIZE = 32
JUDGE_SIZES = {
    "cifar-10": dict(channels=32, d_feature=128, steps=8000),
    "emoji": dict(channels=32, d_feature=128),
}
"""Where the classifier is not of the usual size."""


def _drawn(part: str) -> Labelled:
    """Far parts; the class is the shape and the colour, 32 in all, which a judge has to tell."""
    found = far_parts.far_parts(4000, seed={"train": 0, "test": 1}[part])
    labels = found.data.labels * len(far_parts.COLOURS) + found.colours[:, 0]
    names = tuple(
        f"{shape} {k}" for shape in far_parts.SHAPES for k in range(len(far_parts.COLOURS))
    )
    return Labelled(found.data.pictures, labels, names)


SETS: dict[str, Callable[[str], Labelled]] = {
    "digits": digits.small_digits,
    "far-parts": lambda part: far_parts.far_parts(4000, seed={"train": 0, "test": 1}[part]).data,
    "mnist": digits.mnist,
    "cifar-10": color_pictures.cifar10,
    "emoji": lambda part: _split(color_pictures.emoji(), part),
}
"""Pictures of 32 × 32 pixels with classes, by part ("train" or "test")."""

JUDGES: dict[str, Callable[[str], Labelled]] = {**SETS, "far-parts": _drawn}
"""What the classifier of each set is trained to tell."""

VARIANTS: dict[str, dict] = {
    "attention": dict(insert=PictureAttention),
    "pooled attention": dict(insert=PooledPictureAttention),
    "residual block": dict(insert=ResidualInstead),
    "scaled residual block": dict(insert=partial(ResidualInstead, scaled=True)),
    "none": dict(attention_at=None),
}
"""What stands at the place of attention, in both networks."""


def _split(data: Labelled, part: str) -> Labelled:
    """Nine tenths for training, one for testing."""
    mixed, held = data.shuffled(0), len(data) // 10
    return mixed.take(slice(held, None) if part == "train" else slice(0, held))


def picture_set(name: str, part: str = "train") -> Labelled:
    """One of :data:`SETS`. Raises ValueError for another name."""
    check_choice("name", name, SETS)
    return SETS[name](part)


class Judge(NamedTuple):
    """A classifier trained on real pictures: features for FID, logits for the inception-style
    score and for classes.
    """

    model: PictureClassifier
    name: str

    @torch.no_grad()
    def features(self, pictures: torch.Tensor) -> torch.Tensor:
        """uint8 ``(n, C, 32, 32)`` → features ``(n, d)`` on the CPU."""
        return self._of(self.model.features, pictures)

    @torch.no_grad()
    def logits(self, pictures: torch.Tensor) -> torch.Tensor:
        """uint8 ``(n, C, 32, 32)`` → logits ``(n, K)`` on the CPU."""
        return self._of(self.model, pictures)

    def _of(self, function: Callable, pictures: torch.Tensor) -> torch.Tensor:
        device = next(self.model.parameters()).device
        self.model.eval()
        return torch.cat(
            [function(to_floats(part.to(device))).cpu() for part in pictures.split(500)]
        )


def _judge_network(name: str, data: Labelled, d_feature: int, channels: int) -> PictureClassifier:
    return PictureClassifier(
        SIZE, data.pictures.shape[1], len(data.classes), channels=channels, d_feature=d_feature
    )


def load_judge(name: str, *, folder: Path | None = None, seed: int = 0) -> Judge:
    """The recorded classifier of a set; `attnbook reproduce judge-NAME` makes it again.

    Raises ValueError for a set without a judge, FileNotFoundError where the file does not come with
    this copy."""
    check_choice("name", name, JUDGES)
    file = f"judge-{name}.seed{seed}.safetensors"
    path = Path(folder) / file if folder is not None else resources.path(f"results/{file}")
    said = {key: int(value) for key, value in read_metadata(path).items()}
    model = PictureClassifier(
        SIZE,
        said["colors"],
        said["classes"],
        channels=said["channels"],
        d_feature=said["d_feature"],
    )
    load_model_weights(model, path)
    return Judge(model.eval(), name)


def real_beside_real(found: Judge, data: str, samples: int) -> dict:
    """What real pictures that the judge never saw score against the training pictures: the same
    scores, for as many samples.
    """
    test, train = picture_set(data, "test").shuffled(0), picture_set(data, "train")
    return scores_of(test.pictures[:samples], test.labels[:samples], found, train)


def judge_of(data: str, folder: Path, device: str) -> Judge:
    """The judge of a set: the one in ``folder``, or the recorded one, or, where there is
    neither, one that is trained now.
    """
    if not (folder / f"judge-{data}.seed0.safetensors").is_file():
        try:
            found = load_judge(data)
        except FileNotFoundError:
            judge(JudgeSettings(data=data), device=device, folder=folder)
        else:
            found.model.to(device)
            return found
    found = load_judge(data, folder=folder)
    found.model.to(device)
    return found


@dataclass(frozen=True)
class JudgeSettings:
    data: str = "digits"  # name of the data set
    batch_size: int = 64  # examples per step
    learning_rate: float = 2e-3  # peak learning rate
    steps: int | None = None  # training steps; None: 1200, or as in JUDGE_SIZES
    channels: int | None = None  # of the first layer; None: 16, or as in JUDGE_SIZES
    d_feature: int | None = None  # width of the features; None: 64, or as in JUDGE_SIZES


def judge(
    settings: JudgeSettings, *, seed: int = 0, device: str = "cpu", folder: Path = Path("results")
) -> dict:
    """Train the classifier of a set on its training pictures, keep it, and say how well it tells
    pictures it never saw.

    Returns:
        steps, channels, d_feature: 1200, 16 and 64, or what JUDGE_SIZES says, when not given
    """
    steps = settings.steps
    d_feature = settings.d_feature
    channels = settings.channels
    usual = {"steps": 1200, "channels": 16, "d_feature": 64, **JUDGE_SIZES.get(settings.data, {})}
    steps, channels, d_feature = (
        usual[key] if value is None else value
        for key, value in (("steps", steps), ("channels", channels), ("d_feature", d_feature))
    )
    train, test = JUDGES[settings.data]("train"), JUDGES[settings.data]("test")
    torch.manual_seed(seed)
    model = _judge_network(settings.data, train, d_feature, channels)
    history = fit(
        model,
        LabelledBatches(train, settings.batch_size, seed),
        classifier_loss,
        steps=steps,
        learning_rate=settings.learning_rate,
        schedule=cosine_decay(steps, min(50, steps // 10)),
        seed=seed,
        device=device,
    )
    _set_spread(model, Judge(model, settings.data).features(train.pictures))
    sizes = {
        "channels": channels,
        "d_feature": d_feature,
        "colors": train.pictures.shape[1],
        "classes": len(train.classes),
    }
    save_model(
        model,
        folder / f"judge-{settings.data}.seed{seed}.safetensors",
        half=True,
        **{key: str(value) for key, value in sizes.items()},
    )
    found = load_judge(
        settings.data, folder=folder, seed=seed
    )  # as it is stored, at half precision
    found.model.to(device)
    return {
        "parameters": sum(p.numel() for p in model.parameters()),
        "pictures": [len(train), len(test)],
        "steps": steps,
        **sizes,
        "right": {
            part: _told(found, pictures) for part, pictures in (("train", train), ("test", test))
        },
        "training_seconds": round(history.seconds, 1),
    }


@torch.no_grad()
def _set_spread(model: PictureClassifier, features: torch.Tensor, spread: float = 100.0) -> None:
    """Give the features of the training pictures a total variance of ``spread``, and leave the
    logits as they are.

    relu(s z) = s relu(z): what the features are multiplied by, the last layer is divided by. An FID
    of 100 is then as far as all real pictures are spread."""
    scale = (spread / statistics(features).covariance.trace()).sqrt()
    model.feature.weight.mul_(scale)
    model.feature.bias.mul_(scale)
    model.output.weight.div_(scale)


def _told(found: Judge, data: Labelled) -> float:
    """The share of pictures whose class the judge tells."""
    return round(float((found.logits(data.pictures).argmax(-1) == data.labels).double().mean()), 4)


def make_pair(
    variant: str = "attention",
    *,
    baseline: bool = False,
    blocks: str = "residual",
    attention_at: int = 16,
    d_key: int | None = None,
    d_value: int | None = None,
    **options,
) -> PicturePair:
    """Both networks with one of :data:`VARIANTS` in them.

    Args:
        baseline: DCGAN: plain convolutions, batch norm in both networks, no spectral norm, nothing
            inserted
        blocks: "residual" or "convolution", the kind of :func:`attnbook.models.sagan_pair`
        d_key, d_value: widths of the attention, and with them the size of the residual block in its
            place
        options: of :func:`attnbook.models.sagan_pair`

    Raises ValueError for another variant or kind of blocks.
    """
    check_choice("variant", variant, VARIANTS)
    if blocks not in ("residual", "convolution"):
        raise ValueError(f"blocks must be residual or convolution, got {blocks!r}")
    if baseline:
        return dcgan_pair(SIZE, **options)
    chosen = {"attention_at": attention_at, **VARIANTS[variant]}
    widths = {
        key: value for key, value in (("d_key", d_key), ("d_value", d_value)) if value is not None
    }
    if variant.endswith("residual block"):
        block = chosen["insert"]
        chosen["insert"] = lambda channels: block(
            channels, sum(p.numel() for p in PictureAttention(channels, **widths).parameters())
        )
    elif variant != "none":
        chosen["insert"] = partial(chosen["insert"], **widths)
    return sagan_pair(
        SIZE,
        blocks=DCGAN_BLOCKS if blocks == "convolution" else RESIDUAL_BLOCKS,
        **chosen,
        **options,
    )


def load_pair(name: str, *, seed: int = 0, folder: Path | None = None) -> PicturePair:
    """Both networks of a recorded run of :func:`adversarial` that kept them, in evaluation mode;
    `attnbook reproduce NAME` makes them again.

    name: of the experiment; its settings are read from its JSON. Raises FileNotFoundError where a
    file does not come with this copy.
    """

    def path(file: str) -> Path:
        return Path(folder) / file if folder is not None else resources.path(f"results/{file}")

    settings = json.loads(path(f"{name}.seed{seed}.json").read_text(encoding="utf-8"))["settings"]
    given = {
        key: settings[key]
        for key in (
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
    }
    data = picture_set(settings["data"], "test")
    pair = make_pair(**given, colors=data.pictures.shape[1], num_classes=len(data.classes))
    for side, network in zip(pair._fields, pair):
        load_model_weights(network, path(f"{settings['checkpoint']}.{side}.seed{seed}.safetensors"))
        network.eval()
    return pair


def scores_of(
    pictures: torch.Tensor,
    labels: torch.Tensor,
    found: Judge,
    real: Labelled,
    features: torch.Tensor | None = None,
) -> dict:
    """What samples are worth: FID and intra-FID against ``real``, the inception-style score, the
    share of samples of the class that was asked for, and for pictures of far parts their agreement.

    Shapes: uint8 ``(n, C, 32, 32)`` and the classes that were asked for ``(n,)``. ``features`` are
    those of ``real`` if they are known.
    """
    target = found.features(real.pictures) if features is None else features
    own, logits = found.features(pictures), found.logits(pictures)
    told = logits.argmax(-1)
    if found.name == "far-parts":
        told = told // len(far_parts.COLOURS)  # the judge tells shape and colour
    figures = {
        "samples": len(pictures),
        "real_pictures": len(real),
        "fid": round(fid(own, target), 4),
        "intra_fid": round(intra_fid(own, labels, target, real.labels), 4),
        "inception_style": round(inception_score(logits), 4),
        "as_asked": round(float((told == labels).double().mean()), 4),
    }
    if real.classes == far_parts.SHAPES:
        figures |= {
            key: round(value, 4) for key, value in far_parts.agreement(pictures)._asdict().items()
        }
    return figures


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


def adversarial(
    settings: AdversarialSettings,
    *,
    seed: int = 0,
    device: str = "cpu",
    folder: Path = Path("results"),
) -> dict:
    """Train a pair on a set of pictures and score what the generator draws, beside what real
    pictures score against one another.

    Returns:
        data: one of SETS
        average: decay of the averaged generator; the scores at the end are those of it where there
            is one
        samples: how many are scored at the end, of all classes alike often
        evaluations: how often 500 samples are scored while training; γ is noted four times as often
        checkpoint: name of the files that the generator and the discriminator are kept in ("":
            none)
    """
    train, found = picture_set(settings.data, "train"), judge_of(settings.data, folder, device)
    torch.manual_seed(seed)
    pair = make_pair(
        settings.variant,
        baseline=settings.baseline,
        blocks=settings.blocks,
        attention_at=settings.attention_at,
        d_key=settings.d_key,
        d_value=settings.d_value,
        last_side=settings.last_side,
        channels=settings.channels,
        max_channels=settings.max_channels,
        d_noise=settings.d_noise,
        colors=train.pictures.shape[1],
        num_classes=len(train.classes),
    )
    asked, known, called = (
        torch.arange(settings.samples) % len(train.classes),
        found.features(train.pictures),
        [],
    )

    def draw(generator, count: int) -> torch.Tensor:
        return to_pixels(sample_pictures(generator, asked[:count], seed=seed + 1))

    def evaluate(generator, discriminator) -> dict:
        called.append(1)
        scales = {
            side: list(attention_scales(network).values())
            for side, network in (("generator", generator), ("discriminator", discriminator))
        }
        row = {f"gamma_{side}": round(values[0], 5) for side, values in scales.items() if values}
        if len(called) % 4 == 0:
            row |= scores_of(
                draw(generator, min(500, settings.samples)), asked[:500], found, train, known
            )
        return row

    history = fit_adversarial(
        *pair,
        LabelledBatches(train, settings.batch_size, seed),
        steps=settings.steps,
        generator_rate=settings.generator_rate,
        discriminator_rate=settings.discriminator_rate,
        betas=tuple(settings.betas),
        average=settings.average,
        seed=seed,
        precision=settings.precision,
        device=device,
        evaluate=evaluate,
        evaluate_every=max(1, settings.steps // (4 * settings.evaluations)),
    )
    labels = torch.arange(len(train.classes), device=device)
    generator = standing_statistics(
        history.averaged if history.averaged is not None else pair.generator, labels, seed=seed
    )
    if settings.checkpoint:
        for side, network in (("generator", generator), ("discriminator", pair.discriminator)):
            save_model(
                network, folder / f"{settings.checkpoint}.{side}.seed{seed}.safetensors", half=True
            )
    size = max(1, settings.steps // 60)
    means = {
        side: [
            round(sum(part) / len(part), 4)
            for k in range(0, settings.steps, size)
            if (part := losses[k : k + size])
        ]
        for side, losses in (
            ("discriminator", history.discriminator_losses),
            ("generator", history.generator_losses),
        )
    }
    figures = {
        "parameters": {
            side: sum(p.numel() for p in network.parameters())
            for side, network in zip(pair._fields, pair)
        },
        "scores": scores_of(draw(generator, settings.samples), asked, found, train, known),
        "losses": means,
        "path": [{"step": step, **row} for step, row in history.evaluations],
    }
    return {**figures, "real_beside_real": real_beside_real(found, settings.data, settings.samples)}


class SideBySide:
    """Endless batches of drawn pictures whose figures agree, and of others whose figures are
    coloured each by itself.

    ``batch(step)`` is (real, classes, others, classes of the others), all with the rows first; it
    depends on the seed and the step."""

    def __init__(self, batch_size: int = 32, seed: int = 0, count: int = 4000):
        self.sides = [
            LabelledBatches(
                far_parts.far_parts(count, seed=2 * seed + k, agree=agree).data, batch_size, seed
            )
            for k, agree in enumerate((True, False))
        ]

    def batch(self, step: int) -> tuple[torch.Tensor, ...]:
        return tuple(part for side in self.sides for part in side.batch(step))


def noticing_loss(model, batch) -> tuple[torch.Tensor, int]:
    """The hinge loss of a discriminator on a batch of :class:`SideBySide`, summed, and the
    number of pairs: what ``fit`` asks for.
    """
    real, classes, others, their_classes = batch
    return hinge_loss.discriminator(model(real, classes), model(others, their_classes)) * len(
        real
    ), len(real)


@torch.no_grad()
def noticed(discriminator, *, count: int = 500, seed: int = 1000) -> float:
    """How often a picture that agrees scores higher than one that does not, over all pairs of
    ``count`` new ones each: ½ is blind.
    """
    device, scores = next(discriminator.parameters()).device, []
    with temporary_mode(discriminator, False):
        for k, agree in enumerate((True, False)):
            data = far_parts.far_parts(count, seed=seed + k, agree=agree).data
            scores.append(
                discriminator(to_floats(data.pictures).to(device), data.labels.to(device))
            )
    higher = scores[0][:, None] - scores[1]
    return float((higher > 0).double().mean() + (higher == 0).double().mean() / 2)


@dataclass(frozen=True)
class DiscriminatorSettings:
    variants: Sequence[str] = ("attention", "residual block", "none")  # variants to compare
    attention_at: int = 8  # side of the feature map that attention (or its stand-in) sees
    d_key: int = 16  # width of queries and keys; None: the default of PictureAttention
    d_value: int = 32  # width of the values; None: the default of PictureAttention
    # side of the first feature map of the generator, the last of the discriminator
    last_side: int = 8
    channels: int = 16  # of the layer at the full side
    steps: int = 1500  # training steps
    batch_size: int = 32  # examples per step
    learning_rate: float = 3e-3  # peak learning rate


def discriminators_alone(
    settings: DiscriminatorSettings,
    *,
    seed: int = 0,
    device: str = "cpu",
    folder: Path = Path("results"),
) -> dict:
    """Discriminators that are to tell drawn pictures whose figures agree from those whose
    figures do not: which can at all?
    """
    rows = []
    for variant in settings.variants:
        torch.manual_seed(seed)
        model = make_pair(
            variant,
            blocks="convolution",
            attention_at=settings.attention_at,
            d_key=settings.d_key,
            d_value=settings.d_value,
            last_side=settings.last_side,
            channels=settings.channels,
            num_classes=len(far_parts.SHAPES),
        ).discriminator
        history = fit(
            model,
            SideBySide(settings.batch_size, seed),
            noticing_loss,
            steps=settings.steps,
            learning_rate=settings.learning_rate,
            clip_norm=None,
            optimizer=lambda parameters: torch.optim.Adam(
                parameters, lr=settings.learning_rate, betas=(0.0, 0.9)
            ),
            seed=seed,
            device=device,
            evaluate=noticed,
            evaluate_every=max(1, settings.steps // 10),
        )
        rows.append(
            {
                "variant": variant,
                "parameters": sum(p.numel() for p in model.parameters()),
                "noticed": [[step, round(value, 4)] for step, value in history.evaluations],
                "gamma": [round(value, 4) for value in attention_scales(model).values()],
            }
        )
    return {"steps": settings.steps, "discriminators": rows}


for _set, _minutes, _needs in (
    ("digits", 1, ""),
    ("far-parts", 1, ""),
    ("cifar-10", 10, "cifar-10-images"),
):
    register(
        f"judge-{_set}",
        judge,
        JudgeSettings(data=_set),
        title=f"A small classifier of {_set}: judge of samples and feature network of their "
        "scores, with checkpoint",
        minutes=f"{_minutes} minute{'s'[: _minutes > 1]} on one CPU core",
        needs=_needs,
    )
register(
    "far-parts-alone",
    discriminators_alone,
    DiscriminatorSettings(),
    title="Discriminators that are to tell far parts that agree from others: which of them can?",
    minutes="2 minutes on one CPU core",
)
for _variant in ("attention", "residual block", "scaled residual block", "none"):
    _name = f"far-parts-{_variant.replace(' ', '-')}"
    register(
        _name,
        adversarial,
        AdversarialSettings(
            data="far-parts",
            variant=_variant,
            last_side=8,
            max_channels=32,
            d_key=16,
            d_value=32,
            steps=1200,
            generator_rate=1e-3,
            discriminator_rate=3e-3,
            samples=2000,
            evaluations=6,
            checkpoint=_name,
        ),
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
