"""Pictures with classes, and endless batches of them: what a conditional generator learns from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from ...validate import check_integer, check_seed, check_tensor, check_values, describe, require
from ..endless_batches import drawn, torch_generator


def to_floats(pictures: Tensor) -> Tensor:
    """Pixels 0 … 255 as numbers from −1 to 1, the range of tanh: ``x / 127.5 − 1``."""
    check_pictures(pictures)
    return pictures.float() / 127.5 - 1


def to_pixels(pictures: Tensor) -> Tensor:
    """Numbers from −1 to 1 as pixels 0 … 255, rounded and clipped, inverse to :func:`to_floats`."""
    check_tensor("pictures", pictures, least=1)
    return ((pictures.detach().float() + 1) * 127.5).round().clamp(0, 255).to(torch.uint8)


def check_pictures(pictures: object, axes: str = "") -> None:
    """Raise a ValueError unless ``pictures`` are pixels, a uint8 tensor with these axes, if any."""
    if (
        not isinstance(pictures, Tensor)
        or pictures.dtype != torch.uint8
        or (axes and pictures.dim() != axes.count(",") + 1)
    ):
        wanted = f"a uint8 tensor {axes}".rstrip()
        raise ValueError(f"pictures must be {wanted}, got {describe(pictures)}")


@dataclass(frozen=True)
class Labelled:
    """Pictures and the class of each.

    Attributes:
        pictures: (N, C, H, W) uint8, C = 1 (grey) or 3 (red, green and blue)
        labels: (N,) long, places in ``classes``
        classes: the names
    """

    pictures: Tensor
    labels: Tensor
    classes: tuple[str, ...]

    def __post_init__(self):
        check_pictures(self.pictures, "(N, colours, height, width)")
        colours, labels = self.pictures.shape[1], self.labels
        require(colours in (1, 3), f"pictures must have 1 or 3 colours, got {colours}")
        fits = labels.dtype == torch.long and labels.shape == self.pictures.shape[:1]
        require(fits, f"labels must be long ({len(self.pictures)},), got {describe(labels)}")
        check_values("labels", labels, 0, len(self.classes) - 1)

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, chosen: Sequence[int] | slice | Tensor) -> Labelled:
        """Some of them, by index or slice."""
        return Labelled(self.pictures[chosen], self.labels[chosen], self.classes)

    @drawn
    def shuffled(self, seed: int) -> Labelled:
        """The same pictures in a random order."""
        generator = torch.Generator().manual_seed(check_seed(seed))
        return self.take(torch.randperm(len(self), generator=generator))


class LabelledBatch(NamedTuple):
    """pictures ``(B, C, H, W)``, floats from −1 to 1, and labels ``(B,)``, long."""

    pictures: Tensor
    labels: Tensor


class LabelledBatches:
    """Endless batches; each epoch has a new order.

    Args:
        data: every picture comes once per epoch; the last ones of an epoch share a batch with the
            first of the next, so that all batches have one size.
        batch_size: B, at most the number of pictures.
    """

    def __init__(self, data: Labelled, batch_size: int, seed: int = 0):
        self.batch_size = check_integer("batch_size", batch_size, 1, len(data))
        self.data, self.seed = data, seed
        # Two epochs may meet in one batch.
        self._order = lru_cache(maxsize=2)(
            lambda epoch: torch.randperm(len(data), generator=torch_generator(seed, epoch))
        )

    @drawn
    def indices(self, step: int) -> Tensor:
        """The indices of the pictures in the batch of a step, counted from 0."""
        epoch, at = divmod(check_integer("step", step, 0) * self.batch_size, len(self.data))
        chosen = self._order(epoch)[at : at + self.batch_size]
        if len(chosen) < self.batch_size:
            rest = self._order(epoch + 1)[: self.batch_size - len(chosen)]
            chosen = torch.cat([chosen, rest])
        return chosen

    @drawn
    def batch(self, step: int) -> LabelledBatch:
        """The batch of a step, counted from 0 over all epochs."""
        chosen = self.indices(step)
        return LabelledBatch(to_floats(self.data.pictures[chosen]), self.data.labels[chosen])
