"""A vision transformer against a convolutional network, at few pictures and at many."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn

from ...models.gan.picture_classifier import classifier_loss
from ...models.vision.vision_transformer import VisionTransformer, pre_norm_parts
from ...tasks.images.labelled import Labelled, LabelledBatches, to_floats
from ...tasks.images.small_scenes import one_large
from ...training.loop.temporary_state import temporary_mode
from ...training.losses.token_loss import device_of
from ...validate import check_choice
from ..common import count_parameters, select, train
from ..registry import register

__all__ = ["KINDS", "make_classifier", "patches_or_convolutions", "share_right"]

KINDS = ("patches", "convolutions")
SIZE = 48


@dataclass(frozen=True)
class Settings:
    """What a run takes."""

    pictures: tuple[int, ...] = (500, 2000, 8000, 32000)  # of the training sets
    steps: int = 1500  # updates for each set, whatever its size
    batch_size: int = 64
    learning_rate: float = 1e-3
    d_model: int = 64  # of the vision transformer
    num_layers: int = 4  # of the vision transformer
    channels: int = 44  # of the first convolution, twice as many in the others
    tested: int = 2000  # pictures of the test


def make_classifier(
    kind: str, *, d_model: int = 64, num_layers: int = 4, channels: int = 44
) -> nn.Module:
    """A vision transformer of patches of 8 × 8, or three convolutions that halve the side and a
    mean over all places, so that it does not matter where a thing is; about 200,000 parameters
    each.
    """
    if check_choice("kind", kind, KINDS) == "convolutions":
        stages, before = [], 3
        for width in (channels, 2 * channels, 2 * channels):
            stages += [nn.Conv2d(before, width, 4, stride=2, padding=1), nn.ReLU()]
            before = width
        pooled = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 24)]
        return nn.Sequential(*stages, *pooled)
    parts = pre_norm_parts(d_model, 4, 4 * d_model)
    return VisionTransformer(SIZE, 8, 24, parts, num_layers=num_layers)


@torch.no_grad()
def share_right(model: nn.Module, data: Labelled) -> float:
    """The share of pictures that are classified right, in evaluation mode."""
    device, right = device_of(model), 0
    with temporary_mode(model, False):
        for pictures, labels in zip(data.pictures.split(500), data.labels.split(500)):
            right += int((model(to_floats(pictures.to(device))).argmax(-1).cpu() == labels).sum())
    return right / len(data)


def patches_or_convolutions(settings: Settings, *, seed: int = 0, device: str = "cpu") -> dict:
    """Train both networks on sets of several sizes, with the same number of updates."""
    data = one_large(max(settings.pictures), seed=1000 + seed)
    test = one_large(settings.tested, seed=7)
    figures: dict = {}
    for kind in KINDS:
        accuracy, fitted = {}, {}
        for count in settings.pictures:
            torch.manual_seed(seed)
            sizes = select(settings, "d_model", "num_layers", "channels")
            model = make_classifier(kind, **sizes)
            known = data.take(slice(0, count))
            batches = LabelledBatches(known, min(settings.batch_size, count), seed)
            train(model, batches, classifier_loss, settings, seed=seed, device=device, warmup=100)
            accuracy[str(count)] = round(share_right(model, test), 4)
            fitted[str(count)] = round(share_right(model, known.take(slice(0, 500))), 4)
            figures[kind] = {
                "test": accuracy,
                "training": fitted,
                "parameters": count_parameters(model),
            }
    return figures


register(
    "patches-or-convolutions",
    patches_or_convolutions,
    Settings(),
    title="A vision transformer against convolutions, at 500 to 32,000 drawn pictures",
    minutes="10 minutes on one CPU core",
)
