"""Real maps of TSPLIB: tours by the book's pointer networks, beside heuristics and the optimal
tours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from attnbook import resources
from attnbook.extras import extra
from attnbook.models import PointerNetwork
from attnbook.tasks.geometry import tours as routes
from attnbook.tasks.geometry import tsplib
from attnbook.tasks.geometry.points import PointBatch
from attnbook.training import load_model_weights

from ..registry import register
from .tours import beam_tours

__all__ = ["maps", "views", "walks"]


def views(points: Tensor, orders: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Equivalent inputs: 8 symmetries of the square times ``orders`` orders of the cities.

    Args:
        points: ``(n, 2)`` in the unit square.

    Returns:
        The views ``(8 · orders, n, 2)``, the first one as given, and for each of them the city at
        each place of its input, ``(8 · orders, n)``.
    """
    turned = []
    for flip in (False, True):
        for quarter in range(4):
            xy = points - 0.5
            xy = xy.flip(1) if flip else xy
            for _ in range(quarter):
                xy = torch.stack([-xy[:, 1], xy[:, 0]], 1)
            turned.append(xy + 0.5)
    order = torch.stack(
        [
            torch.arange(len(points)),
            *(torch.randperm(len(points), generator=generator) for _ in range(orders - 1)),
        ]
    )
    every = torch.stack(turned)[:, order].transpose(0, 1).flatten(0, 1)  # (orders · 8, n, 2)
    return every, order.repeat_interleave(8, 0)


def walks(
    model, points: Tensor, matrix: Tensor, *, beam_size: int, orders: int, seed: int = 0
) -> dict[str, list[int]]:
    """The tours of a network: the most probable one of a beam for the input as given, and the
    shortest of the beams of many views.
    """
    inputs, order = views(points, orders, torch.Generator().manual_seed(seed))
    n = len(points)
    probable, short = beam_tours(
        model, PointBatch(inputs, torch.full((len(inputs),), n), order), beam_size
    )
    short = order.gather(1, short)  # places of the input back to cities
    lengths = routes.tour_length(matrix[None].expand(len(short), -1, -1), short)
    return {"beam": probable[0].tolist(), "shortest of views": short[lengths.argmin()].tolist()}


@dataclass(frozen=True)
class Settings:
    names: Sequence[str] = ("eil51", "berlin52", "eil76")  # maps of TSPLIB
    # (trained on, checkpoint) of each network
    networks: Sequence[Sequence[str]] = (
        ("5 to 20", "pointer-tours-5-20"),
        ("50", "pointer-tours-50"),
    )
    hidden_size: int = 128  # units of the recurrent layers
    beam_size: int = 10  # width of the beam
    orders: int = 8  # random input orders per map
    # maps whose tours are drawn into a figure
    drawn: Sequence[str] = ("eil51", "berlin52", "eil76")
    picture: str = "tsplib-tours"  # name of the figure; empty: none is drawn


def maps(settings: Settings, *, seed: int = 0, folder: Path = Path("results")) -> dict:
    """Tours of real maps by networks that were trained on random cities, in the rounded distances
    of TSPLIB. Those of ``settings.drawn`` are drawn over the optimal ones into
    ``FOLDER/PICTURE.seedN.png``.

    Where an optimal tour is known, "along" has each network's tour once more, as places on the
    optimal one: its city number k is at place ``along[k]``. So the two can be compared without the
    map.
    """
    rows, figures = [], []
    for name in settings.names:
        instance = tsplib.load(name)
        matrix = tsplib.lengths_of(instance.points, instance.kind)
        points = tsplib.unit_square(instance.points, instance.kind)
        real = matrix[None].double()
        near = routes.nearest_neighbour(real)
        tours = {
            "nearest neighbour": near,
            "farthest insertion": routes.farthest_insertion(real),
            "2-opt": routes.two_opt(real, near),
            "best 2-opt": routes.two_opt_best(real),
        }
        tours = {rule: walk[0].tolist() for rule, walk in tours.items()}
        for trained, checkpoint in settings.networks:
            model = PointerNetwork(2, settings.hidden_size, ends=False)
            load_model_weights(model, resources.path(f"results/{checkpoint}.seed0.safetensors"))
            for way, walk in walks(
                model,
                points,
                matrix,
                beam_size=settings.beam_size,
                orders=settings.orders,
                seed=seed,
            ).items():
                tours[f"trained on {trained}, {way}"] = walk
        assert all(routes.is_tour(walk, len(points)) for walk in tours.values())
        length = {
            way: int(routes.tour_length(matrix[None], torch.tensor([walk])))
            for way, walk in tours.items()
        }
        rows.append(
            {
                "name": name,
                "n": len(points),
                "distance": instance.kind,
                "best": instance.best,
                "length": length,
                "above": {
                    way: round(value / instance.best - 1, 4) for way, value in length.items()
                },
                "walks": {way: walk for way, walk in tours.items() if way.startswith("trained")},
            }
        )
        if instance.tour is not None:
            place = instance.tour.argsort()
            rows[-1]["along"] = {
                way: place[walk].tolist() for way, walk in rows[-1]["walks"].items()
            }
        if name in settings.drawn and instance.tour is not None:
            figures.append((name, points, instance.tour.tolist(), rows[-1]))
    if figures and settings.picture:
        _draw(figures, Path(folder) / f"{settings.picture}.seed{seed}.png")
    return {"beam_size": settings.beam_size, "views": 8 * settings.orders, "rows": rows}


def _draw(maps_drawn, path: Path) -> None:
    with extra("book", "drawing"):
        from matplotlib import pyplot as plt

    from attnbook.figures import COLORS, legend, plane_walk

    fig, axes = plt.subplots(
        1,
        len(maps_drawn),
        figsize=(3.1 * len(maps_drawn), 3.5),
        layout="constrained",
        squeeze=False,
    )
    for ax, (name, points, optimal, row) in zip(axes[0], maps_drawn):
        best = min(row["walks"], key=lambda way: row["length"][way])
        plane_walk(
            points,
            row["walks"][best],
            truth=optimal,
            numbers=False,
            ax=ax,
            title=f"{name}: {row['length'][best]}, optimal {row['best']}",
        )
    legend(
        fig,
        {
            "the shortest tour by a pointer network": ("line", COLORS[1]),
            "the optimal tour": ("field", "#c9c9c9"),
        },
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    fig.savefig(path, dpi=110)
    plt.close(fig)


register(
    "tsplib-tours",
    maps,
    Settings(
        names=(
            "burma14",
            "ulysses16",
            "ulysses22",
            "att48",
            "eil51",
            "berlin52",
            "st70",
            "eil76",
            "pr76",
        )
    ),
    title="Real maps of at most 80 cities walked by our networks, beside the optimal tours; with "
    "a picture of three",
    minutes="2 minutes on one CPU core",
    needs="tsplib",
)
