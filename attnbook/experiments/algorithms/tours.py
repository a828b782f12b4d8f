"""Pointer networks that tour: trained on shortest tours or on those of a heuristic, beside fixed
dictionaries and heuristics.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from ... import resources
from ...models import FixedDictionary, PointerNetwork
from ...tasks.geometry import tours as routes
from ...tasks.geometry.points import PointBatch, draw_tours
from ...training import cosine_decay, fit, load_model_weights, point_beam, pointing_loss, save_model
from ...training.decoding.pointing import permutation
from ...validate import check_choice
from ..registry import register
from .hulls_and_triangulations import Repeated, decoded
from .sorting import PAPER, start_as_the_paper

__all__ = [
    "AnyForm",
    "EXACT",
    "MODELS",
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

MODELS = {
    "pointer": dict(repeats=False),
    "pointer, no mask": dict(repeats=True),
    "LSTM + attention": dict(attention=True),
    "LSTM": dict(attention=False),
}
"""What learns to tour.

"No mask" may point at a city again, as the paper's network; the baselines mask used positions.
"""

EXACT = 13
"""Test sets of more cities than this stand beside the best of many runs of 2-opt, not beside the
shortest tours.
"""


def make_tourist(name: str, *, most: int, hidden_size: int = 128):
    """One of :data:`MODELS`; the dictionary of a baseline names ``most`` positions."""
    check_choice("name", name, MODELS)
    options = dict(hidden_size=hidden_size, ends=False, **MODELS[name])
    return (
        PointerNetwork(2, **options)
        if name.startswith("pointer")
        else FixedDictionary(2, most, **options)
    )


class TourBatches:
    """Endless sets of cities with the tours of a teacher; all sets of a batch have one size, so
    nothing is padded.

    Args:
        n: how many cities, or (least, most): each batch draws its size
        teacher: see `tasks.tours.TEACHERS`
        warm_up: (first, steps): for so many steps the largest size grows, evenly, from ``first`` to
            what it is to be
    """

    def __init__(
        self,
        n: int | tuple[int, int],
        batch_size: int = 128,
        seed: int = 0,
        teacher: str = "exact",
        warm_up: tuple[int, int] | None = None,
    ):
        draw_tours(n, 0, torch.Generator(), teacher)  # names what is wrong
        self.n, self.batch_size, self.seed, self.teacher, self.warm_up = (
            n,
            batch_size,
            seed,
            teacher,
            warm_up,
        )

    def size(self, step: int, generator: torch.Generator) -> int:
        least, most = (None, self.n) if isinstance(self.n, int) else self.n
        if self.warm_up and step < self.warm_up[1]:
            first, steps = self.warm_up
            most = first + (most - first) * step // steps
        return (
            most if least is None else int(torch.randint(least, most + 1, (), generator=generator))
        )

    def batch(self, step: int) -> PointBatch:
        """The batch of a step, counted from 0."""
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + step)
        return draw_tours(self.size(step, generator), self.batch_size, generator, self.teacher)


class AnyForm:
    """Tours that start at a city drawn at random and run in a direction drawn at random: 2n
    targets for one tour.
    """

    def __init__(self, batches):
        self.batches, self.batch_size = batches, batches.batch_size

    def batch(self, step: int) -> PointBatch:
        batch = self.batches.batch(step)
        generator = torch.Generator().manual_seed(self.batches.seed * 1_000_003 + step + 500_009)
        B, n = batch.targets.shape
        if int(batch.lengths.min()) < n:
            raise ValueError("batches must hold sets of one size")
        shift = torch.randint(n, (B, 1), generator=generator)
        way = torch.randint(2, (B, 1), generator=generator) * 2 - 1
        return batch._replace(targets=batch.targets.gather(1, (shift + way * torch.arange(n)) % n))


def in_form(batches: TourBatches, form: str):
    """The batches as they are, canonical, or with tours in "any" form."""
    if form not in ("canonical", "any"):
        raise ValueError(f'form must be "canonical" or "any", got {form!r}')
    return AnyForm(batches) if form == "any" else batches


def cities(n: int, count: int) -> PointBatch:
    """``count`` sets of n cities that no training sees.

    Their targets are the shortest tours where n is at most EXACT.
    """
    return draw_tours(
        n,
        count,
        torch.Generator().manual_seed(2_000_000_011 + n),
        "exact" if n <= EXACT else "2-opt",
    )


def beam_tours(model, batch: PointBatch, beam_size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Of a beam of valid tours the most probable (B, n), and the shortest (B, n)."""
    probable, short = [], []
    for inputs, lengths in zip(batch.inputs.split(256), batch.lengths.split(256)):
        found = [
            [answer.positions for answer in row]
            for row in point_beam(model, inputs, lengths, beam_size=beam_size, rule=permutation)
        ]
        for matrix, walks in zip(routes.distances(inputs), found):
            walks = torch.tensor(walks)
            probable.append(walks[0])
            short.append(
                walks[routes.tour_length(matrix.expand(len(walks), -1, -1), walks).argmin()]
            )
    return torch.stack(probable), torch.stack(short)


def valid_share(model, batch: PointBatch, *, beam_size: int = 1) -> float:
    """The share of tours among the answers of a network that nothing restricts."""
    said = decoded(model, batch, rule=None, beam_size=beam_size)
    return round(
        sum(routes.is_tour(walk, int(n)) for walk, n in zip(said, batch.lengths)) / len(said), 4
    )


def tour_rows(model, sizes, *, count: int = 1000, beams=(1, 10), free: bool = False) -> list[dict]:
    """For each size the mean length of the tours of each beam, of the heuristics of `tasks.tours`,
    and of random tours.

    ``reference`` says what ``above`` is measured from: "shortest", or for more than EXACT cities
    "best 2-opt".

    Args:
        free: also count the valid answers of a network that nothing restricts
    """
    rows = []
    for n in sizes:
        batch = cities(n, count)
        matrix = routes.distances(batch.inputs)
        found = {}
        for k in beams:
            if k == 1:
                found["greedy"] = torch.tensor(decoded(model, batch, rule=permutation))
            else:
                found[f"beam {k}"], found[f"shortest of beam {k}"] = beam_tours(model, batch, k)
        near = routes.nearest_neighbour(matrix)
        found |= {
            "nearest neighbour": near,
            "farthest insertion": routes.farthest_insertion(matrix),
            "2-opt": routes.two_opt(matrix, near),
            "best 2-opt": routes.two_opt_best(matrix, 10),
            "random": torch.arange(n).expand(count, n),
        }
        reference = "shortest" if n <= EXACT else "best 2-opt"
        each = {name: routes.tour_length(matrix, walk) for name, walk in found.items()}
        if n <= EXACT:
            each["shortest"] = routes.tour_length(matrix, batch.targets)
        lengths = {name: float(value.mean()) for name, value in each.items()}
        row = {
            "n": n,
            "reference": reference,
            "length": {name: round(value, 4) for name, value in lengths.items()},
            "above": {
                name: round(value / lengths[reference] - 1, 4) for name, value in lengths.items()
            },
        }
        if n <= EXACT:
            row["shortest_found"] = {
                name: round(float((value <= each["shortest"] + 1e-9).double().mean()), 4)
                for name, value in each.items()
            }
        if free:
            row["valid_free"] = valid_share(model, batch)
        rows.append(row)
    return rows


@dataclass(frozen=True)
class TourSettings:
    model: str = "pointer"  # one of MODELS
    n: int | tuple[int, int] = 10  # number of points, or (least, most)
    test: Sequence[int] = (5, 8, 10, 12)  # numbers of cities in the test
    hidden_size: int = 128  # units of the recurrent layers
    steps: int = 6000  # training steps
    batch_size: int = 128  # examples per step
    teacher: str = "exact"  # algorithm that gives the target tours
    form: str = "canonical"  # canonical, or any: a random start and direction of the target tours
    warm_up: tuple[int, int] | None = None  # smaller sizes first: (smallest size, steps)
    optimizer: str = "adam"  # adam, or that of the paper
    learning_rate: float = 2e-3  # peak learning rate
    clip_norm: float = 2.0  # bound on the norm of the gradient
    decay: bool = True  # let the learning rate decay by a cosine
    paper_start: bool = False  # initialise as in the paper
    pairs: int | None = None  # distinct training problems, repeated; None: new ones at every step
    count: int = 1000  # test problems
    beams: Sequence[int] = (1, 3, 10)  # widths of the beams; 1 is greedy
    checkpoint: str = ""  # name of the saved weights; empty: none are saved


def tours(
    settings: TourSettings, *, seed: int = 0, device: str = "cpu", folder: Path = Path("results")
) -> dict:
    """A network trained on tours; mean lengths beside the shortest ones and the heuristics.

    Returns:
        model: one of MODELS
        n: a size, or (least, most), one size a batch
        teacher: what gives the targets, one of `tasks.tours.TEACHERS`
        form: "canonical", or "any": a start and a direction drawn at random, see `AnyForm`
        warm_up: see `TourBatches`
        pairs: how many different sets of cities training sees, over and over; None: each step's are
            new
    """
    n = settings.n
    n = tuple(n) if isinstance(n, (list, tuple)) else n
    most = n if isinstance(n, int) else n[1]
    torch.manual_seed(seed)
    network = make_tourist(settings.model, most=most, hidden_size=settings.hidden_size)
    if settings.paper_start:
        start_as_the_paper(network, seed)
    batches = in_form(
        TourBatches(n, settings.batch_size, seed, settings.teacher, settings.warm_up), settings.form
    )
    history = fit(
        network,
        Repeated(batches, settings.pairs) if settings.pairs else batches,
        pointing_loss,
        steps=settings.steps,
        optimizer=settings.optimizer,
        learning_rate=settings.learning_rate,
        schedule=cosine_decay(settings.steps, min(100, settings.steps // 10))
        if settings.decay
        else None,
        clip_norm=settings.clip_norm,
        seed=seed,
        device=device,
    )
    if settings.checkpoint:
        save_model(
            network,
            Path(folder) / f"{settings.checkpoint}.seed{seed}.safetensors",
            half=True,
            hidden_size=str(settings.hidden_size),
        )
    size = max(1, settings.steps // 40)
    sizes = [k for k in settings.test if settings.model.startswith("pointer") or k <= most]
    return {
        "parameters": sum(p.numel() for p in network.parameters()),
        "sequences": settings.steps * settings.batch_size,
        "rows": tour_rows(
            network, sizes, count=settings.count, beams=tuple(settings.beams), free=True
        ),
        "training_seconds": round(history.seconds, 1),
        "losses": [
            round(sum(part) / len(part), 4)
            for k in range(0, settings.steps, size)
            if (part := history.losses[k : k + size])
        ],
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


def compared(
    settings: ComparisonSettings,
    *,
    seed: int = 0,
    device: str = "cpu",
    folder: Path = Path("results"),
) -> dict:
    """Every model on the same cities for as many steps, with tours in one form or in any; what a
    pointer does beyond n.
    """
    rows = []
    for name, form in settings.models:
        torch.manual_seed(seed)
        network = make_tourist(name, most=settings.n, hidden_size=settings.hidden_size)
        history = fit(
            network,
            in_form(TourBatches(settings.n, settings.batch_size, seed), form),
            pointing_loss,
            steps=settings.steps,
            learning_rate=settings.learning_rate,
            schedule=cosine_decay(settings.steps, min(100, settings.steps // 10)),
            clip_norm=settings.clip_norm,
            seed=seed,
            device=device,
        )
        sizes = (*settings.test, *settings.beyond) if name.startswith("pointer") else settings.test
        rows.append(
            {
                "model": name,
                "form": form,
                "parameters": sum(p.numel() for p in network.parameters()),
                "rows": tour_rows(
                    network, sizes, count=settings.count, beams=tuple(settings.beams), free=True
                ),
                "training_seconds": round(history.seconds, 1),
            }
        )
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


def by_size(settings: SizeSettings, *, seed: int = 0, folder: Path = Path("results")) -> dict:
    """The networks of the book on every size, most of which they never saw; networks: trained
    on, name of its checkpoint.
    """
    rows = []
    for trained, checkpoint in settings.networks:
        model = PointerNetwork(2, settings.hidden_size, ends=False)
        load_model_weights(model, resources.path(f"results/{checkpoint}.seed0.safetensors"))
        rows.append(
            {
                "trained_on": trained,
                "checkpoint": checkpoint,
                "rows": tour_rows(
                    model, settings.test, count=settings.count, beams=tuple(settings.beams)
                ),
            }
        )
    return {"count": settings.count, "networks": rows}


SMALL = TourSettings(test=(5, 8, 10, 12, 15, 20, 50))
register(
    "pointer-tours-10",
    tours,
    replace(SMALL, checkpoint="pointer-tours-10"),
    title="Shortest tours of 10 cities, small enough for one CPU core, with checkpoint",
    minutes="10 minutes on one CPU core",
)
register(
    "pointer-tours-10-any-form",
    tours,
    replace(SMALL, form="any", checkpoint="pointer-tours-10-any-form"),
    title="The same with tours that start anywhere and run either way",
    minutes="10 minutes on one CPU core",
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
    "pointer-tours-5-20",
    tours,
    replace(
        SMALL,
        n=(5, 20),
        teacher="exact to 12, 2-opt beyond",
        steps=10_000,
        checkpoint="pointer-tours-5-20",
    ),
    title="Tours of 5 to 20 cities, exact to 12, 2-opt beyond; for one CPU core, with checkpoint",
    minutes="12 minutes on one CPU core",
)
register(
    "pointer-tours-50",
    tours,
    TourSettings(
        n=50,
        teacher="2-opt",
        form="any",
        warm_up=(10, 700),
        steps=1600,
        test=(5, 10, 20, 40, 50),
        checkpoint="pointer-tours-50",
    ),
    title="Tours of 50 cities as 2-opt gives them, in any form, for one CPU core, with checkpoint",
    minutes="9 minutes on one CPU core",
)
register(
    "pointer-tours-by-size",
    by_size,
    SizeSettings(),
    title="Our networks for tours on 5 to 50 cities, sizes that they never saw among them",
    minutes="4 minutes on one CPU core",
)
for _name, _n, _teacher in (
    ("5", 5, "exact"),
    ("10", 10, "exact"),
    ("5-20", (5, 20), "exact to 12, 2-opt beyond"),
    ("50", 50, "farthest insertion"),
):
    register(
        f"pointer-tours-{_name}-paper",
        tours,
        TourSettings(
            n=_n, teacher=_teacher, test=(5, 10, 20, 25, 30, 40, 50), hidden_size=256, **PAPER
        ),
        title=f"Tours of {_name} cities with the settings of the paper; teacher: {_teacher}",
        minutes=f"{6 if _n == 50 else 2} hours on one GPU",
    )
