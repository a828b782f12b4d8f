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
from ..registry import register
from .pointer_networks import Batches, decoded, initialise_as_the_paper, train_network

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
class PointSettings:
    n: int | tuple[int, int] = (5, 10)  # number of points, or (least, most)
    test: Sequence[int] = (5, 10)  # sizes of the test problems
    hidden_size: int = 256  # units of the recurrent layers
    steps: int = 40_000  # training steps
    batch_size: int = 128  # examples per step
    optimizer: str = "adam"  # adam, or that of the paper
    learning_rate: float = 1e-3  # peak learning rate
    clip_norm: float = 2.0  # bound on the norm of the gradient
    reduction: str = "mean"  # of the loss: mean over pointings, or their sum over an answer
    decay: bool = True  # let the learning rate decay by a cosine
    paper_start: bool = False  # initialise as in the paper
    # where the hulls of the training start: at the lowest index, or at any corner, drawn at random
    first: str = "lowest index"
    # distinct training problems, repeated; None: new ones at every step
    pairs: int | None = 1_000_000
    count: int = 1000  # test problems
    beam_size: int = 3  # width of the beam
    checkpoint: str = ""  # name of the saved weights; empty: none are saved


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
for _n in (5, 10, 50):
    register(
        f"pointer-delaunay-{_n}",
        delaunay,
        replace(PAPER, n=_n, test=(_n,)),
        title=f"Pointer network on Delaunay triangulations of {_n} points, 1M pairs",
        minutes="2 hours on one GPU" if _n == 50 else "30 minutes on one GPU",
    )
for _name, _range, _tests in (("50", 50, (50,)), ("5-50", (5, 50), (5, 10, 50, 100, 200, 500))):
    register(
        f"pointer-hull-{_name}",
        hull,
        replace(PAPER, n=_range, test=_tests),
        title=f"Pointer network on hulls of {_name.replace('-', ' to ')} points, 1M pairs",
        minutes="1 hour on one GPU",
    )
register(
    "pointer-hull-5-50-small",
    hull,
    # small problems teach what large ones alone teach late
    PointSettings(
        n=(5, 50),
        test=(5, 10, 50, 100),
        hidden_size=128,
        steps=12_000,
        learning_rate=3e-3,
        pairs=None,
    ),
    title="Hulls of 5 to 50 points, as far as an hour of one CPU core goes",
    minutes="1 hour on one CPU core",
)
SMALL = PointSettings(
    n=(5, 10),
    test=(5, 6, 7, 8, 9, 10, 12, 20, 50),
    hidden_size=128,
    steps=6000,
    learning_rate=3e-3,
    pairs=None,
)
register(
    "pointer-hull-5-10-small",
    hull,
    replace(SMALL, checkpoint="pointer-hull-5-10-small.safetensors"),
    title="Hulls of 5 to 10 points, small enough for one CPU core, with checkpoint",
    minutes="30 minutes on one CPU core",
)
register(
    "pointer-hull-5-10-any-corner-small",
    hull,
    replace(SMALL, first="any corner"),
    title="Hulls of 5 to 10 points, taught from any corner",
    minutes="30 minutes on one CPU core",
)
for _first, _suffix in (("lowest index", ""), ("any corner", "-any-corner")):
    register(
        f"pointer-hull-5{_suffix}-small",
        hull,
        replace(SMALL, n=5, test=(5, 6, 10), steps=4000, first=_first),
        title=f"Hulls of 5 points, taught from {_first}, thirteen times as long as in the section",
        minutes="4 minutes on one CPU core",
    )
register(
    "pointer-delaunay-5-small",
    delaunay,
    PointSettings(
        n=5,
        test=(4, 5, 6, 7),
        hidden_size=128,
        steps=4000,
        learning_rate=3e-3,
        pairs=None,
        checkpoint="pointer-delaunay-5-small.safetensors",
    ),
    title="Delaunay triangulations of 5 points, small enough for one CPU core, with checkpoint",
    minutes="4 minutes on one CPU core",
)
register(
    "pointer-delaunay-5-long",
    delaunay,
    PointSettings(n=5, test=(4, 5, 6, 7), learning_rate=3e-3, pairs=None),
    title="Delaunay triangulations of 5 points, states of 256, ten times as many steps",
    minutes="2 hours on one CPU core",
)
register(
    "pointer-delaunay-10-small",
    delaunay,
    PointSettings(n=10, test=(10,), steps=12_000, learning_rate=3e-3, pairs=None),
    title="Delaunay triangulations of 10 points, as far as an hour of one CPU core goes",
    minutes="1 hour on one CPU core",
)
