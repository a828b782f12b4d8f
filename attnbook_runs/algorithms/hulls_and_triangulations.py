"""Pointer networks on convex hulls and Delaunay triangulations: trained on some sizes, tested on
these and on others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from attnbook.decoding.pointing import distinct, groups
from attnbook.models.pointer.network import PointerNetwork
from attnbook.tasks.geometry import hulls, triangulations
from attnbook.tasks.geometry.points import PointBatch, PointBatches, answers, draw
from attnbook.training import save_model
from attnbook.validate import check_choice, check_range, require

from ..common import block_means, training_figures
from ..registry import register_family
from .pointer_networks import (
    Batches,
    PointerSettings,
    decoded,
    initialise_as_the_paper,
    train_network,
)

__all__ = ["FromAnyCorner", "delaunay", "hull", "hull_rows", "triangulation_rows"]


class FromAnyCorner:
    """Hulls that start at a corner drawn at random, in place of the canonical start."""

    def __init__(self, batches: Batches):
        self.batches, self.batch_size, self.seed = batches, batches.batch_size, batches.seed

    def batch(self, step: int) -> PointBatch:
        batch = self.batches.batch(step)
        size = ((batch.targets >= 0) & (batch.targets < batch.end)).sum(1, keepdim=True)
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + step + 500_009)
        shift = (torch.rand(size.shape, generator=generator) * size).long()
        place = torch.arange(batch.targets.shape[1]).expand_as(batch.targets)
        rotated = batch.targets.gather(1, (place + shift) % size)
        return batch._replace(targets=torch.where(place < size, rotated, batch.targets))


def hull_rows(
    model,
    sizes: Sequence[int],
    *,
    count: int = 1000,
    seed: int = 1,
    beam_size: int = 1,
    restricted: bool = True,
) -> list[dict]:
    """The shares of :func:`attnbook.tasks.geometry.hulls.report` for each size, over ``count`` new
    sets of points.

    Args:
        restricted: Decode only answers that can be hulls: no position twice, at least three.
    """
    rule = distinct(3) if restricted else None
    rows = []
    for n, batch in _problems("hulls", sizes, count, seed):
        outputs = decoded(model, batch, rule=rule, beam_size=beam_size)
        rows.append(_row(n, hulls.report(batch.inputs, outputs, answers(batch))))
    return rows


def triangulation_rows(
    model, sizes: Sequence[int], *, count: int = 1000, seed: int = 1, beam_size: int = 1
) -> list[dict]:
    """The shares of :func:`attnbook.tasks.geometry.triangulations.report` for each size, decoding
    ascending triples without repetition.
    """
    rows = []
    for n, batch in _problems("delaunay", sizes, count, seed):
        outputs = decoded(model, batch, rule=groups(3), beam_size=beam_size, max_steps=6 * n)
        rows.append(_row(n, triangulations.report(outputs, answers(batch))))
    return rows


def _problems(kind: str, sizes: Sequence[int], count: int, seed: int):
    for n in sizes:
        generator = torch.Generator().manual_seed(1_000_000_007 + 1000 * seed + n)
        yield n, draw(kind, n, count, generator)


def _row(n: int, report) -> dict:
    return {"n": n, **{name: round(value, 4) for name, value in report._asdict().items()}}


@dataclass(frozen=True)
class PointSettings(PointerSettings):
    n: int | tuple[int, int] = (5, 10)  # number of points, or (least, most)
    test: Sequence[int] = (5, 10)  # sizes of the test problems
    hidden_size: int = 256  # units of the recurrent layers
    steps: int = 40_000  # training steps
    learning_rate: float = 1e-3  # peak learning rate
    # where the hulls of the training start: at the lowest index, or at any corner, drawn at random
    first: str = "lowest index"
    # distinct training problems, repeated; None: new ones at every step
    pairs: int | None = 1_000_000
    beam_size: int = 3  # width of the beam


def hull(
    settings: PointSettings, *, seed: int = 0, device: str = "cpu", folder: Path = Path("results")
) -> dict:
    """Train a pointer network on hulls of ``n`` points, test it on each size of ``test``, greedily
    and with a beam.
    """
    model, figures = _trained("hulls", settings, seed, device, folder)

    def rows(**options) -> list[dict]:
        return hull_rows(model, settings.test, count=settings.count, **options)

    return {
        **figures,
        "greedy": rows(),
        "free": rows(restricted=False),
        "beam": rows(beam_size=settings.beam_size),
    }


def delaunay(
    settings: PointSettings, *, seed: int = 0, device: str = "cpu", folder: Path = Path("results")
) -> dict:
    """Train a pointer network on Delaunay triangulations of ``n`` points, in which positions
    repeat; test it as :func:`hull` does.
    """
    model, figures = _trained("delaunay", settings, seed, device, folder)

    def rows(**options) -> list[dict]:
        return triangulation_rows(model, settings.test, count=settings.count, **options)

    return {**figures, "greedy": rows(), "beam": rows(beam_size=settings.beam_size)}


def _trained(
    kind: str, settings: PointSettings, seed: int, device: str, folder: Path
) -> tuple[PointerNetwork, dict]:
    torch.manual_seed(seed)
    model = PointerNetwork(2, settings.hidden_size, ends=True, repeats=kind == "delaunay")
    if settings.paper_start:
        initialise_as_the_paper(model, seed)
    n = settings.n if isinstance(settings.n, int) else check_range("n", settings.n)
    check_choice("first", settings.first, ("lowest index", "any corner"))
    batches: Batches = PointBatches(kind, n, settings.batch_size, seed=seed)
    if settings.first == "any corner":
        require(kind == "hulls", f'first = "any corner" is for hulls, got {kind}')
        batches = FromAnyCorner(batches)
    history = train_network(
        model, batches, settings, seed=seed, device=device, warmup=min(100, settings.steps // 10)
    )
    if settings.checkpoint:
        path = Path(folder) / settings.checkpoint
        sizes = dict(hidden_size=str(settings.hidden_size), n=str(settings.n))
        save_model(model, path, half=True, **sizes)
    return model, {**training_figures(model, history), "losses": block_means(history.losses, 40)}


# The settings of the paper, section 4.1: SGD at a constant rate of 1 and a bound of 2 on the norm
# of the gradient, which are meant for a loss that is summed over the pointings of an answer.
PAPER = PointSettings(
    optimizer="sgd", learning_rate=1.0, reduction="sequence", decay=False, paper_start=True
)
_CPU, _GPU = "on one CPU core", "on one GPU"
register_family(
    delaunay,
    PAPER,
    *(
        (
            f"pointer-delaunay-{_n}",
            f"Pointer network on Delaunay triangulations of {_n} points, 1M pairs",
            f"{'2 hours' if _n == 50 else '30 minutes'} {_GPU}",
            dict(n=_n, test=(_n,)),
        )
        for _n in (5, 10, 50)
    ),
)
register_family(
    hull,
    PAPER,
    (
        "pointer-hull-50",
        "Pointer network on hulls of 50 points, 1M pairs",
        f"1 hour {_GPU}",
        dict(n=50, test=(50,)),
    ),
    (
        "pointer-hull-5-50",
        "Pointer network on hulls of 5 to 50 points, 1M pairs",
        f"1 hour {_GPU}",
        dict(n=(5, 50), test=(5, 10, 50, 100, 200, 500)),
    ),
)
OURS = PointSettings(learning_rate=3e-3, pairs=None)
SMALL = replace(OURS, n=(5, 10), test=(5, 6, 7, 8, 9, 10, 12, 20, 50), hidden_size=128, steps=6000)
FIVE = dict(n=5, test=(5, 6, 10), steps=4000)
_section = "thirteen times as long as in the section"
register_family(
    hull,
    SMALL,
    (
        "pointer-hull-5-50-small",
        "Hulls of 5 to 50 points, as far as an hour of one CPU core goes",
        f"1 hour {_CPU}",
        # small problems teach what large ones alone teach late
        dict(n=(5, 50), test=(5, 10, 50, 100), steps=12_000),
    ),
    (
        "pointer-hull-5-10-small",
        "Hulls of 5 to 10 points, small enough for one CPU core, with checkpoint",
        f"30 minutes {_CPU}",
        dict(checkpoint="pointer-hull-5-10-small.safetensors"),
    ),
    (
        "pointer-hull-5-10-any-corner-small",
        "Hulls of 5 to 10 points, taught from any corner",
        f"30 minutes {_CPU}",
        dict(first="any corner"),
    ),
    (
        "pointer-hull-5-small",
        f"Hulls of 5 points, taught from lowest index, {_section}",
        f"4 minutes {_CPU}",
        FIVE,
    ),
    (
        "pointer-hull-5-any-corner-small",
        f"Hulls of 5 points, taught from any corner, {_section}",
        f"4 minutes {_CPU}",
        dict(first="any corner", **FIVE),
    ),
)
register_family(
    delaunay,
    replace(OURS, n=5, test=(4, 5, 6, 7)),
    (
        "pointer-delaunay-5-small",
        "Delaunay triangulations of 5 points, small enough for one CPU core, with checkpoint",
        f"4 minutes {_CPU}",
        dict(hidden_size=128, steps=4000, checkpoint="pointer-delaunay-5-small.safetensors"),
    ),
    (
        "pointer-delaunay-5-long",
        "Delaunay triangulations of 5 points, states of 256, ten times as many steps",
        f"2 hours {_CPU}",
        {},
    ),
    (
        "pointer-delaunay-10-small",
        "Delaunay triangulations of 10 points, as far as an hour of one CPU core goes",
        f"1 hour {_CPU}",
        dict(n=10, test=(10,), steps=12_000),
    ),
)
