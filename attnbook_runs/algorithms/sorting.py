"""Pointer networks that sort, beside decoders with a fixed dictionary of positions; tested on
sizes never seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from attnbook.decoding.pointing import permutation
from attnbook.models import PointerNetwork
from attnbook.tasks.geometry.points import PointBatches, answers
from attnbook.training import exact_match
from attnbook.validate import check_range

from ..common import save_checkpoint, select, training_figures
from ..registry import register
from .pointer_networks import (
    MODELS,
    PointerSettings,
    decoded,
    initialise_as_the_paper,
    make_network,
    new_problems,
    train_network,
)

__all__ = ["make_sorter", "sorted_share", "sorting"]


def make_sorter(
    name: str, *, most: int, hidden_size: int = 64, d_embed: int = 32
) -> PointerNetwork:
    """One of the :data:`~attnbook_runs.algorithms.pointer_networks.MODELS`, for numbers."""
    return make_network(name, 1, most=most, hidden_size=hidden_size, d_embed=d_embed)


def sorted_share(model, n: int, *, count: int = 1000) -> float:
    """The share of ``count`` new rows of n numbers that come out in order, decoded greedily as
    permutations.
    """
    batch = new_problems("sorting", n, count)
    return round(exact_match(decoded(model, batch, rule=permutation), answers(batch)), 4)


@dataclass(frozen=True)
class Settings(PointerSettings):
    models: Sequence[str] = tuple(MODELS)  # names of MODELS
    n: int | tuple[int, int] = (5, 10)  # number of points, or (least, most)
    test: Sequence[int] = (5, 8, 10, 12, 15, 20, 30, 50)  # sizes of the test problems
    hidden_size: int = 64  # units of the recurrent layers
    d_embed: int = 32  # width of the embeddings
    steps: int = 800  # training steps
    learning_rate: float = 1e-2  # peak learning rate
    clip_norm: float = 1.0  # bound on the norm of the gradient


def sorting(
    settings: Settings, *, seed: int = 0, device: str = "cpu", folder: Path = Path("results")
) -> dict:
    """Train each model on the same rows of ``n`` numbers; the share of rows sorted without a
    mistake, by size.
    """
    n = check_range("n", settings.n)
    most, rows = n[1], []
    for name in settings.models:
        torch.manual_seed(seed)
        model = make_sorter(name, most=most, **select(settings, "hidden_size", "d_embed"))
        if settings.paper_start:
            initialise_as_the_paper(model, seed)
        history = train_network(
            model,
            PointBatches("sorting", n, settings.batch_size, seed=seed),
            settings,
            seed=seed,
            device=device,
            evaluate=lambda m: sorted_share(m, most, count=min(settings.count, 200)),
            evaluations=8,
        )
        sizes = [size for size in settings.test if name.startswith("pointer") or size <= most]
        row = {
            "model": name,
            "exact": [[size, sorted_share(model, size, count=settings.count)] for size in sizes],
            "course": [[step, value] for step, value in history.evaluations],
            **training_figures(model, history),
        }
        if "no mask" in name:
            batch = new_problems("sorting", most, settings.count)
            outputs = decoded(model, batch, rule=None)
            repeated = sum(len(set(answer)) < len(answer) for answer in outputs)
            row["repeated_free"] = round(repeated / settings.count, 4)
            row["exact_free"] = round(exact_match(outputs, answers(batch)), 4)
        rows.append(row)
        if name == "pointer":
            sizes = select(settings, "hidden_size", "d_embed")
            save_checkpoint(model, settings.checkpoint, folder, seed, **sizes)
    return {"sequences": settings.steps * settings.batch_size, "rows": rows}


register(
    "pointer-sorting",
    sorting,
    Settings(),
    title="Sorting 5 to 10 numbers: pointer network with and without masks, and both baselines",
    minutes="2 minutes on one CPU core",
)
