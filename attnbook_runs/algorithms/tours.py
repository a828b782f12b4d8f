"""Pointer networks trained on shortest tours or on those of a heuristic, beside fixed dictionaries
and heuristics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from attnbook import resources
from attnbook.decoding import point_beam
from attnbook.decoding.pointing import permutation
from attnbook.models import PointerNetwork
from attnbook.tasks.geometry import tours as routes
from attnbook.tasks.geometry.points import PointBatch, draw_tours
from attnbook.training import load_model_weights
from attnbook.validate import check_choice, check_range, require

from ..common import block_means, save_checkpoint, training_figures
from ..registry import register, register_family
from .pointer_networks import (
    MODELS,
    Batches,
    PointerSettings,
    decoded,
    initialise_as_the_paper,
    make_network,
    train_network,
)

__all__ = [
    "EXACT",
    "AnyForm",
    "TourBatches",
    "beam_tours",
    "by_size",
    "cities",
    "compared",
    "in_form",
    "make_tourist",
    "tour_rows",
    "tours",
    "valid_share",
]

EXACT = 13
"""Test sets of more cities than this are compared with the best of many runs of 2-opt, not with the
shortest tours.
"""


def make_tourist(name: str, *, most: int, hidden_size: int = 128) -> PointerNetwork:
    """One of the :data:`~attnbook_runs.algorithms.pointer_networks.MODELS`, for cities."""
    return make_network(name, 2, most=most, hidden_size=hidden_size)


class TourBatches:
    """Endless sets of cities with the tours of a teacher; all sets of a batch have one size, so
    that nothing is padded.

    Args:
        n: Number of cities, or (least, most), from which each batch draws its size.
        teacher: One of :data:`attnbook.tasks.geometry.tours.TEACHERS`.
        warm_up: (first, steps): over so many steps the largest size grows linearly from ``first``
            to that of ``n``.
    """

    def __init__(
        self,
        n: int | tuple[int, int],
        batch_size: int = 128,
        seed: int = 0,
        teacher: str = "exact",
        warm_up: tuple[int, int] | None = None,
    ):
        draw_tours(n, 0, torch.Generator(), teacher)  # checks the arguments
        self.n, self.batch_size, self.seed = n, batch_size, seed
        self.teacher, self.warm_up = teacher, warm_up

    def size(self, step: int, generator: torch.Generator) -> int:
        least, most = self.n if isinstance(self.n, tuple | list) else (None, self.n)
        if self.warm_up and step < self.warm_up[1]:
            first, steps = self.warm_up
            most = first + (most - first) * step // steps
        if least is None:
            return most
        return int(torch.randint(least, most + 1, (), generator=generator))

    def batch(self, step: int) -> PointBatch:
        """The batch of a step, counted from 0."""
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + step)
        return draw_tours(self.size(step, generator), self.batch_size, generator, self.teacher)


class AnyForm:
    """Tours with a random start and direction: 2n targets for one tour."""

    def __init__(self, batches: Batches):
        self.batches, self.batch_size, self.seed = batches, batches.batch_size, batches.seed

    def batch(self, step: int) -> PointBatch:
        batch = self.batches.batch(step)
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + step + 500_009)
        B, n = batch.targets.shape
        require(int(batch.lengths.min()) == n, "batches must hold sets of one size")
        shift = torch.randint(n, (B, 1), generator=generator)
        direction = torch.randint(2, (B, 1), generator=generator) * 2 - 1
        places = (shift + direction * torch.arange(n)) % n
        return batch._replace(targets=batch.targets.gather(1, places))


def in_form(batches: TourBatches, form: str) -> Batches:
    """The batches with "canonical" tours, or with tours in "any" form."""
    check_choice("form", form, ("canonical", "any"))
    return AnyForm(batches) if form == "any" else batches


def cities(n: int, count: int) -> PointBatch:
    """``count`` sets of n cities that no training draws.

    Their targets are the shortest tours where n is at most EXACT.
    """
    generator = torch.Generator().manual_seed(2_000_000_011 + n)
    return draw_tours(n, count, generator, "exact" if n <= EXACT else "2-opt")


def beam_tours(model, batch: PointBatch, beam_size: int) -> tuple[Tensor, Tensor]:
    """The most probable ``(B, n)`` and the shortest ``(B, n)`` valid tours of a beam."""
    probable, shortest = [], []
    for inputs, lengths in zip(batch.inputs.split(256), batch.lengths.split(256)):
        beams = point_beam(model, inputs, lengths, beam_size=beam_size, rule=permutation)
        for matrix, beam in zip(routes.distances(inputs), beams):
            walks = torch.tensor([answer.positions for answer in beam])
            length = routes.tour_length(matrix.expand(len(walks), -1, -1), walks)
            probable.append(walks[0])
            shortest.append(walks[length.argmin()])
    return torch.stack(probable), torch.stack(shortest)


def valid_share(model, batch: PointBatch, *, beam_size: int = 1) -> float:
    """The share of tours among the answers of an unrestricted network."""
    outputs = decoded(model, batch, rule=None, beam_size=beam_size)
    valid = sum(routes.is_tour(walk, int(n)) for walk, n in zip(outputs, batch.lengths))
    return round(valid / len(outputs), 4)


def tour_rows(
    model,
    sizes: Sequence[int],
    *,
    count: int = 1000,
    beams: Sequence[int] = (1, 10),
    free: bool = False,
) -> list[dict]:
    """For each size the mean length of the tours of each beam, of the heuristics of
    :mod:`attnbook.tasks.geometry.tours`, and of random tours.

    ``above`` is the excess over ``reference``: "shortest", or "best 2-opt" for more than EXACT
    cities.

    Args:
        free: Also count the valid answers of the unrestricted network.
    """
    rows = []
    for n in sizes:
        batch = cities(n, count)
        matrix = routes.distances(batch.inputs)
        walks = {}
        for k in beams:
            if k == 1:
                walks["greedy"] = torch.tensor(decoded(model, batch, rule=permutation))
            else:
                walks[f"beam {k}"], walks[f"shortest of beam {k}"] = beam_tours(model, batch, k)
        near = routes.nearest_neighbour(matrix)
        walks |= {
            "nearest neighbour": near,
            "farthest insertion": routes.farthest_insertion(matrix),
            "2-opt": routes.two_opt(matrix, near),
            "best 2-opt": routes.two_opt_best(matrix, 10),
            "random": torch.arange(n).expand(count, n),
        }
        reference = "shortest" if n <= EXACT else "best 2-opt"
        lengths = {name: routes.tour_length(matrix, walk) for name, walk in walks.items()}
        if n <= EXACT:
            lengths["shortest"] = routes.tour_length(matrix, batch.targets)
        mean = {name: float(value.mean()) for name, value in lengths.items()}
        row = {
            "n": n,
            "reference": reference,
            "length": {name: round(value, 4) for name, value in mean.items()},
            "above": {name: round(value / mean[reference] - 1, 4) for name, value in mean.items()},
        }
        if n <= EXACT:
            row["shortest_found"] = {
                name: round(float((value <= lengths["shortest"] + 1e-9).double().mean()), 4)
                for name, value in lengths.items()
            }
        if free:
            row["valid_free"] = valid_share(model, batch)
        rows.append(row)
    return rows


@dataclass(frozen=True)
class TourSettings(PointerSettings):
    model: str = "pointer"  # one of MODELS
    n: int | tuple[int, int] = 10  # number of points, or (least, most)
    test: Sequence[int] = (5, 8, 10, 12)  # numbers of cities in the test
    teacher: str = "exact"  # algorithm that gives the target tours
    form: str = "canonical"  # canonical, or any: a random start and direction of the target tours
    warm_up: tuple[int, int] | None = None  # smaller sizes first: (smallest size, steps)
    beams: Sequence[int] = (1, 3, 10)  # widths of the beams; 1 is greedy


def tours(
    settings: TourSettings, *, seed: int = 0, device: str = "cpu", folder: Path = Path("results")
) -> dict:
    """Train a network on tours; mean lengths beside the shortest ones and the heuristics."""
    n = settings.n if isinstance(settings.n, int) else check_range("n", settings.n)
    most = n if isinstance(n, int) else n[1]
    torch.manual_seed(seed)
    model = make_tourist(settings.model, most=most, hidden_size=settings.hidden_size)
    if settings.paper_start:
        initialise_as_the_paper(model, seed)
    batches = TourBatches(n, settings.batch_size, seed, settings.teacher, settings.warm_up)
    history = train_network(
        model,
        in_form(batches, settings.form),
        settings,
        seed=seed,
        device=device,
        warmup=min(100, settings.steps // 10),
    )
    save_checkpoint(model, settings.checkpoint, folder, seed, hidden_size=settings.hidden_size)
    sizes = [k for k in settings.test if settings.model.startswith("pointer") or k <= most]
    return {
        "sequences": settings.steps * settings.batch_size,
        "rows": tour_rows(model, sizes, count=settings.count, beams=settings.beams, free=True),
        "losses": block_means(history.losses, 40),
        **training_figures(model, history),
    }


@dataclass(frozen=True)
class ComparisonSettings:
    n: int = 10  # cities in training
    test: Sequence[int] = (5, 8, 10)  # sizes of the test problems
    beyond: Sequence[int] = (12, 15, 20)  # larger sizes, for the pointers alone
    # (model, form of the tours) to compare
    models: Sequence[Sequence[str]] = (
        *((name, "any") for name in MODELS),
        ("pointer", "canonical"),
        ("LSTM + attention", "canonical"),
        ("LSTM", "canonical"),
    )
    hidden_size: int = 128  # units of the recurrent layers
    steps: int = 800  # training steps
    batch_size: int = 128  # examples per step
    learning_rate: float = 2e-3  # peak learning rate
    clip_norm: float = 2.0  # bound on the norm of the gradient
    count: int = 1000  # test problems
    beams: Sequence[int] = (1, 10)  # widths of the beams; 1 is greedy


def compared(settings: ComparisonSettings, *, seed: int = 0, device: str = "cpu") -> dict:
    """Train every model on the same cities for as many steps, with canonical tours or in any form;
    test the pointers beyond n too.
    """
    rows = []
    for name, form in settings.models:
        torch.manual_seed(seed)
        model = make_tourist(name, most=settings.n, hidden_size=settings.hidden_size)
        history = train_network(
            model,
            in_form(TourBatches(settings.n, settings.batch_size, seed), form),
            settings,
            seed=seed,
            device=device,
            warmup=min(100, settings.steps // 10),
        )
        sizes = (*settings.test, *settings.beyond) if name.startswith("pointer") else settings.test
        lengths = tour_rows(model, sizes, count=settings.count, beams=settings.beams, free=True)
        figures = training_figures(model, history)
        rows.append({"model": name, "form": form, "rows": lengths, **figures})
    return {"sequences": settings.steps * settings.batch_size, "models": rows}


@dataclass(frozen=True)
class SizeSettings:
    hidden_size: int = 128  # units of the recurrent layers
    count: int = 500  # test problems
    # (trained on, checkpoint) of each network
    networks: Sequence[Sequence[str]] = (
        ("10", "pointer-tours-10"),
        ("5 to 20", "pointer-tours-5-20"),
        ("50", "pointer-tours-50"),
    )
    test: Sequence[int] = (5, 10, 15, 20, 25, 30, 40, 50)  # sizes of the test problems
    beams: Sequence[int] = (1, 3)  # widths of the beams; 1 is greedy


def by_size(settings: SizeSettings, *, seed: int = 0) -> dict:
    """Test the networks of the book on every size, also on those beyond their training."""
    rows = []
    for trained, checkpoint in settings.networks:
        model = PointerNetwork(2, settings.hidden_size, ends=False)
        load_model_weights(model, resources.path(f"results/{checkpoint}.seed0.safetensors"))
        lengths = tour_rows(model, settings.test, count=settings.count, beams=settings.beams)
        rows.append({"trained_on": trained, "checkpoint": checkpoint, "rows": lengths})
    return {"count": settings.count, "networks": rows}


register_family(
    tours,
    TourSettings(test=(5, 8, 10, 12, 15, 20, 50)),
    (
        "pointer-tours-10",
        "Shortest tours of 10 cities, small enough for one CPU core, with checkpoint",
        "10 minutes on one CPU core",
        dict(checkpoint="pointer-tours-10"),
    ),
    (
        "pointer-tours-5-20",
        "Tours of 5 to 20 cities, exact to 12, 2-opt beyond; for one CPU core, with checkpoint",
        "12 minutes on one CPU core",
        dict(
            n=(5, 20),
            teacher="exact to 12, 2-opt beyond",
            steps=10_000,
            checkpoint="pointer-tours-5-20",
        ),
    ),
    (
        "pointer-tours-50",
        "Tours of 50 cities as 2-opt gives them, in any form, for one CPU core, with checkpoint",
        "9 minutes on one CPU core",
        dict(
            n=50,
            teacher="2-opt",
            form="any",
            warm_up=(10, 700),
            steps=1600,
            test=(5, 10, 20, 40, 50),
            checkpoint="pointer-tours-50",
        ),
    ),
)
register(
    "tours-10-compared",
    compared,
    ComparisonSettings(),
    title="10 cities, short runs: pointer with and without mask, LSTM, LSTM + attention; tours "
    "in one form and any",
    minutes="4 minutes on one CPU core",
)
register(
    "pointer-tours-by-size",
    by_size,
    SizeSettings(),
    title="Our networks for tours on 5 to 50 cities, sizes that they never saw among them",
    minutes="4 minutes on one CPU core",
)
