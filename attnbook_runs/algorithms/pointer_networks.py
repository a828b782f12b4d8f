"""What the experiments with pointer networks share: models, stored sets, decoding, training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import torch

from attnbook.decoding import point_beam, point_greedy
from attnbook.models import FixedDictionary, PointerNetwork
from attnbook.tasks.geometry.points import PointBatch, draw
from attnbook.training import pointing_loss
from attnbook.training.loop.history import History
from attnbook.validate import check_choice, require

from ..common import train

__all__ = [
    "MODELS",
    "Batches",
    "PointerSettings",
    "Repeated",
    "decoded",
    "initialise_as_the_paper",
    "make_network",
    "new_problems",
    "train_network",
]

MODELS: dict[str, dict[str, bool]] = {
    "pointer": dict(repeats=False),
    "pointer, no mask": dict(repeats=True),
    "LSTM + attention": dict(attention=True),
    "LSTM": dict(attention=False),
}
"""Pointer networks with and without the mask of used positions (the paper's has none), and two
baselines with a fixed dictionary of positions, which have the mask.
"""


@dataclass(frozen=True)
class PointerSettings:
    """Settings of every pointer network that is trained alone."""

    hidden_size: int = 128  # units of the recurrent layers
    steps: int = 6000  # training steps
    batch_size: int = 128  # examples per step
    optimizer: str = "adam"  # adam, or that of the paper
    learning_rate: float = 2e-3  # peak learning rate
    clip_norm: float = 2.0  # bound on the norm of the gradient
    reduction: str = "mean"  # of the loss: mean over pointings, or their sum over an answer
    decay: bool = True  # let the learning rate decay by a cosine
    paper_start: bool = False  # initialise as in the paper
    pairs: int | None = None  # distinct training problems, repeated; None: new ones at every step
    count: int = 1000  # test problems
    checkpoint: str = ""  # name of the saved weights; empty: none are saved


class Batches(Protocol):
    """Endless batches of points with their answers."""

    batch_size: int
    seed: int

    def batch(self, step: int, /) -> PointBatch: ...


def make_network(name: str, d_input: int, *, most: int, **sizes: Any) -> PointerNetwork:
    """One of :data:`MODELS`; the dictionary of a baseline has ``most`` positions."""
    check_choice("name", name, MODELS)
    options: dict[str, Any] = {"ends": False, **MODELS[name], **sizes}
    if name.startswith("pointer"):
        return PointerNetwork(d_input, **options)
    return FixedDictionary(d_input, most, **options)


def initialise_as_the_paper(model: PointerNetwork, seed: int = 0) -> PointerNetwork:
    """Draw every parameter from U[−0.08, 0.08] (Vinyals et al. 2015, section 4.1)."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.rand(parameter.shape, generator=generator) * 0.16 - 0.08)
    return model


class Repeated:
    """The first ``pairs`` examples of endless batches over and over, each made once and kept: a
    million with 50 points take 0.8 GB.
    """

    def __init__(self, batches: Batches, pairs: int):
        self.batch_size, self.seed = batches.batch_size, batches.seed
        require(
            pairs >= self.batch_size,
            f"pairs must be at least a batch of {self.batch_size}, got {pairs}",
        )
        self.batches, self.count = batches, pairs // self.batch_size
        self._kept: dict[int, PointBatch] = {}

    def batch(self, step: int) -> PointBatch:
        k = step % self.count
        if k not in self._kept:
            self._kept[k] = self.batches.batch(k)
        return self._kept[k]


def new_problems(kind: str, n: int, count: int) -> PointBatch:
    """``count`` problems of size n that no training draws."""
    return draw(kind, n, count, torch.Generator().manual_seed(2_000_000_011 + n))


def decoded(
    model, batch: PointBatch, *, rule, beam_size: int = 1, max_steps: int | None = None
) -> list[list[int]]:
    """The answers to a batch: greedy, or the most probable finished one of a beam (empty where
    there is none); in chunks that fit into memory.
    """
    outputs: list[list[int]] = []
    for inputs, lengths in zip(batch.inputs.split(256), batch.lengths.split(256)):
        options: dict[str, Any] = dict(rule=rule, max_steps=max_steps)
        if beam_size == 1:
            outputs += point_greedy(model, inputs, lengths, **options).positions
        else:
            beams = point_beam(model, inputs, lengths, beam_size=beam_size, **options)
            outputs += [beam[0].positions if beam else [] for beam in beams]
    return outputs


def train_network(
    model: PointerNetwork, batches: Batches, settings: Any, *, seed: int, **options: Any
) -> History:
    """Train on new examples at every step, or on a set of ``settings.pairs`` if there are such."""
    pairs = getattr(settings, "pairs", None)
    batches = Repeated(batches, pairs) if pairs else batches
    return train(model, batches, pointing_loss, settings, seed=seed, **options)
