"""A vision transformer against a convolutional network, at few pictures and at many."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import nn

from attnbook.models.gan.picture_classifier import classifier_loss
from attnbook.models.vision.vision_transformer import VisionTransformer, pre_norm_parts
from attnbook.modules import device_of, temporary_mode
from attnbook.tasks.images.labelled import Labelled, LabelledBatches, to_floats
from attnbook.tasks.images.scenes import CELL
from attnbook.tasks.images.small_scenes import one_large
from attnbook.validate import check_choice

from ..common import count_parameters, save_checkpoint, select, train
from ..registry import register

__all__ = ["KINDS", "make_classifier", "patches_or_convolutions", "scenes_of_one", "share_right"]

KINDS = ("patches", "convolutions")
CELLS, SMALL = 3, 2  # of a picture each way, and how many small objects it has
SIZE = CELL * CELLS


@dataclass(frozen=True)
class Settings:
    """What a run takes."""

    pictures: tuple[int, ...] = (250, 2000, 16000)  # of the training sets
    steps: int = 600  # updates for each set, whatever its size
    batch_size: int = 32
    learning_rate: float = 3e-3
    convolution_rate: float = 3e-3  # of the convolutions
    d_model: int = 48  # of the vision transformer
    num_layers: int = 2  # of the vision transformer
    channels: int = 24  # of the first convolution, twice as many in the others
    tested: int = 2000  # pictures of the test
    checkpoint: str | None = None  # name of the stored vision transformer, of the largest set


def make_classifier(
    kind: str, *, d_model: int = 48, num_layers: int = 2, channels: int = 24
) -> nn.Module:
    """A vision transformer of patches of 4 × 4, or three convolutions that halve the side, with
    batch normalization, and a mean over all places, so that it does not matter where a thing is;
    about 60,000 parameters each.
    """
    if check_choice("kind", kind, KINDS) == "convolutions":
        stages, before = [], 3
        for width in (channels, 2 * channels, 2 * channels):
            stages += [nn.Conv2d(before, width, 4, stride=2, padding=1)]
            stages += [nn.BatchNorm2d(width), nn.ReLU()]
            before = width
        pooled = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 24)]
        return nn.Sequential(*stages, *pooled)
    parts = pre_norm_parts(d_model, 4, 4 * d_model, dropout=0.0)
    return VisionTransformer(SIZE, 4, 24, parts, num_layers=num_layers)


def scenes_of_one(count: int, *, seed: int) -> Labelled:
    """The pictures of this experiment."""
    return one_large(count, seed=seed, small=SMALL, cells=CELLS)


@torch.no_grad()
def share_right(model: nn.Module, data: Labelled) -> float:
    """The share of pictures that are classified right, in evaluation mode."""
    device, right = device_of(model), 0
    with temporary_mode(model, False):
        for pictures, labels in zip(data.pictures.split(500), data.labels.split(500)):
            right += int((model(to_floats(pictures.to(device))).argmax(-1).cpu() == labels).sum())
    return right / len(data)


def patches_or_convolutions(
    settings: Settings, *, seed: int = 0, device: str = "cpu", folder: Path = Path("results")
) -> dict:
    """Train both networks on sets of several sizes, with the same number of updates."""
    data = scenes_of_one(max(settings.pictures), seed=1000 + seed)
    test = scenes_of_one(settings.tested, seed=7)
    sizes = select(settings, "d_model", "num_layers", "channels")
    rates = {"patches": settings.learning_rate, "convolutions": settings.convolution_rate}
    figures: dict = {}
    for kind in KINDS:
        trained = replace(settings, learning_rate=rates[kind])
        accuracy, fitted = {}, {}
        for count in settings.pictures:
            torch.manual_seed(seed)
            model = make_classifier(kind, **sizes)
            known = data.take(slice(0, count))
            batches = LabelledBatches(known, min(settings.batch_size, count), seed)
            train(model, batches, classifier_loss, trained, seed=seed, device=device, warmup=100)
            accuracy[str(count)] = round(share_right(model, test), 4)
            fitted[str(count)] = round(share_right(model, known.take(slice(0, 500))), 4)
            figures[kind] = {
                "test": accuracy,
                "training": fitted,
                "parameters": count_parameters(model),
            }
            if kind == "patches" and count == max(settings.pictures):
                save_checkpoint(model, settings.checkpoint, folder, seed, **sizes)
    return figures


register(
    "patches-or-convolutions",
    patches_or_convolutions,
    Settings(checkpoint="patches-or-convolutions"),
    title="A vision transformer against convolutions, at 250 to 16,000 drawn pictures",
    minutes="2 minutes on one CPU core",
)
register(
    "patches-or-convolutions-long",
    patches_or_convolutions,
    Settings(steps=2400, convolution_rate=3e-2),
    title="A vision transformer against convolutions, each at its rate, 2,400 updates",
    minutes="6 minutes on one CPU core",
)
