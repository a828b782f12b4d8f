"""The networks that judge generated pictures, and what samples score."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from attnbook import resources
from attnbook.models.gan.picture_classifier import PictureClassifier, classifier_loss
from attnbook.modules import device_of
from attnbook.tasks.images import digits, far_parts
from attnbook.tasks.images.labelled import Labelled, LabelledBatches, to_floats
from attnbook.training import load_model_weights, read_metadata
from attnbook.training.evaluation.sample_scores import fid, inception_score, intra_fid, statistics
from attnbook.validate import check_choice

from ..common import save_checkpoint, select, train, training_figures
from ..registry import register
from .cifar10 import cifar10

__all__ = [
    "JUDGES",
    "SETS",
    "Judge",
    "judge",
    "judge_of",
    "load_judge",
    "picture_set",
    "real_beside_real",
    "scores_of",
]

SIZE = 32
JUDGE_SIZES = {"cifar-10": dict(steps=8000, channels=32, d_feature=128)}
"""Where the classifier is not of the default size."""


def _far_parts(part: str) -> far_parts.FarParts:
    return far_parts.far_parts(4000, seed={"train": 0, "test": 1}[part])


def _shapes_and_colours(part: str) -> Labelled:
    """Far parts; the class is the shape and the colour, 32 in all, which a judge has to tell."""
    drawn = _far_parts(part)
    labels = drawn.data.labels * len(far_parts.COLOURS) + drawn.colours[:, 0]
    names = tuple(
        f"{shape} {k}" for shape in far_parts.SHAPES for k in range(len(far_parts.COLOURS))
    )
    return Labelled(drawn.data.pictures, labels, names)


SETS: dict[str, Callable[[str], Labelled]] = {
    "digits": digits.small_digits,
    "far-parts": lambda part: _far_parts(part).data,
    "cifar-10": cifar10,
}
"""Pictures of 32 × 32 pixels with classes, by part ("train" or "test")."""

JUDGES: dict[str, Callable[[str], Labelled]] = {**SETS, "far-parts": _shapes_and_colours}
"""The pictures and classes that the classifier of each set is trained on."""


def picture_set(name: str, part: str = "train") -> Labelled:
    """One of :data:`SETS`."""
    return SETS[check_choice("name", name, SETS)](part)


class Judge(NamedTuple):
    """A classifier trained on real pictures: features for FID, logits for the inception-style
    score and for classes.
    """

    model: PictureClassifier
    name: str

    def features(self, pictures: Tensor) -> Tensor:
        """uint8 ``(n, C, 32, 32)`` → features ``(n, d)`` on the CPU."""
        return self._outputs(self.model.features, pictures)

    def logits(self, pictures: Tensor) -> Tensor:
        """uint8 ``(n, C, 32, 32)`` → logits ``(n, K)`` on the CPU."""
        return self._outputs(self.model, pictures)

    @torch.no_grad()
    def _outputs(self, function: Callable, pictures: Tensor) -> Tensor:
        device = device_of(self.model.eval())
        outputs = [function(to_floats(part.to(device))).cpu() for part in pictures.split(500)]
        return torch.cat(outputs)

    def accuracy(self, data: Labelled) -> float:
        """The share of pictures that are classified right."""
        right = self.logits(data.pictures).argmax(-1) == data.labels
        return round(float(right.double().mean()), 4)


def load_judge(name: str, *, folder: Path | None = None, seed: int = 0) -> Judge:
    """The recorded classifier of a set; `attnbook reproduce judge-digits` or `judge-far-parts`
    makes it again.

    Raises:
        ValueError: For a set without a judge.
        FileNotFoundError: Where the file does not come with this copy.
    """
    check_choice("name", name, JUDGES)
    file = f"judge-{name}.seed{seed}.safetensors"
    path = Path(folder) / file if folder is not None else resources.path(f"results/{file}")
    sizes = {key: int(value) for key, value in read_metadata(path).items()}
    model = PictureClassifier(
        SIZE,
        sizes["colors"],
        sizes["classes"],
        channels=sizes["channels"],
        d_feature=sizes["d_feature"],
    )
    load_model_weights(model, path)
    return Judge(model.eval(), name)


def judge_of(data: str, folder: Path, device: str) -> Judge:
    """The judge of a set: the one in ``folder``, or the recorded one, or, where there is neither,
    one that is trained now.
    """
    if (folder / f"judge-{data}.seed0.safetensors").is_file():
        result = load_judge(data, folder=folder)
    else:
        try:
            result = load_judge(data)
        except FileNotFoundError:
            judge(JudgeSettings(data=data), device=device, folder=folder)
            result = load_judge(data, folder=folder)
    result.model.to(device)
    return result


def scores_of(
    pictures: Tensor,
    labels: Tensor,
    classifier: Judge,
    real: Labelled,
    features: Tensor | None = None,
) -> dict:
    """Scores of generated pictures: FID and intra-FID against ``real``, the inception-style score,
    the share of the class that was asked for, and for pictures of far parts their agreement.

    Args:
        pictures: uint8 ``(n, C, 32, 32)``.
        labels: The classes that were asked for, ``(n,)``.
        features: Those of ``real``, if they are known.
    """
    target = classifier.features(real.pictures) if features is None else features
    generated, logits = classifier.features(pictures), classifier.logits(pictures)
    classes = logits.argmax(-1)
    if classifier.name == "far-parts":
        classes = classes // len(far_parts.COLOURS)  # the judge tells shape and colour
    figures = {
        "samples": len(pictures),
        "real_pictures": len(real),
        "fid": round(fid(generated, target), 4),
        "intra_fid": round(intra_fid(generated, labels, target, real.labels), 4),
        "inception_style": round(inception_score(logits), 4),
        "as_asked": round(float((classes == labels).double().mean()), 4),
    }
    if real.classes == far_parts.SHAPES:
        agreement = far_parts.agreement(pictures)._asdict()
        figures |= {key: round(value, 4) for key, value in agreement.items()}
    return figures


def real_beside_real(classifier: Judge, data: str, samples: int) -> dict:
    """The scores of as many real test pictures, against the training pictures."""
    test, train = picture_set(data, "test").shuffled(0), picture_set(data, "train")
    return scores_of(test.pictures[:samples], test.labels[:samples], classifier, train)


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
    """Train the classifier of a set on its training pictures, save it, and measure its accuracy."""
    sizes = {"steps": 1200, "channels": 16, "d_feature": 64, **JUDGE_SIZES.get(settings.data, {})}
    given = select(settings, "steps", "channels", "d_feature")
    sizes |= {name: value for name, value in given.items() if value is not None}
    settings = replace(settings, **sizes)
    train_set, test = JUDGES[settings.data]("train"), JUDGES[settings.data]("test")
    shape = {"colors": train_set.pictures.shape[1], "classes": len(train_set.classes)}
    widths = {"channels": sizes["channels"], "d_feature": sizes["d_feature"]}
    torch.manual_seed(seed)
    model = PictureClassifier(SIZE, *shape.values(), **widths)
    history = train(
        model,
        LabelledBatches(train_set, settings.batch_size, seed),
        classifier_loss,
        settings,
        seed=seed,
        device=device,
        warmup=min(50, sizes["steps"] // 10),
    )
    _set_spread(model, Judge(model, settings.data).features(train_set.pictures))
    save_checkpoint(model, f"judge-{settings.data}", folder, seed, **widths, **shape)
    # as it is stored, at half precision
    stored = load_judge(settings.data, folder=folder, seed=seed)
    stored.model.to(device)
    return {
        **training_figures(model, history),
        "pictures": [len(train_set), len(test)],
        "steps": sizes["steps"],
        **widths,
        **shape,
        "right": {"train": stored.accuracy(train_set), "test": stored.accuracy(test)},
    }


@torch.no_grad()
def _set_spread(model: PictureClassifier, features: Tensor, spread: float = 100.0) -> None:
    """Scale the features so that those of the training pictures have a total variance of
    ``spread``; the logits stay the same.

    relu(s z) = s relu(z): the features are multiplied by s, the last layer is divided by it. An FID
    of 100 is then as large as the variance of all real pictures."""
    scale = (spread / statistics(features).covariance.trace()).sqrt()
    model.feature.weight.mul_(scale)
    model.feature.bias.mul_(scale)
    model.output.weight.div_(scale)


for _set in ("digits", "far-parts"):
    register(
        f"judge-{_set}",
        judge,
        JudgeSettings(data=_set),
        title=f"A small classifier of {_set}: judge of samples and feature network of their "
        "scores, with checkpoint",
        minutes="1 minute on one CPU core",
    )
