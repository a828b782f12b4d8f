"""Pointer networks that sort, beside decoders with a fixed dictionary of positions; tested on
sizes never seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from ...models import FixedDictionary, PointerNetwork
from ...tasks.geometry.points import PointBatch, PointBatches, answers, draw
from ...training import cosine_decay, exact_match, fit, pointing_loss, save_model
from ...training.decoding.pointing import permutation
from ...validate import check_choice
from ..registry import register
from .hulls_and_triangulations import Repeated, decoded

__all__ = ["SORTERS", "held", "make_sorter", "sorted_share", "sorting", "start_as_the_paper"]

SORTERS = {
    "pointer": dict(repeats=False),
    "pointer, no mask": dict(repeats=True),
    "LSTM + attention": dict(attention=True),
    "LSTM": dict(attention=False),
}
"""What learns to sort: the pointer with and without the mask of used positions, and both
baselines, which have the mask.
"""


def make_sorter(name: str, *, most: int, hidden_size: int = 64, d_embed: int = 32):
    """One of :data:`SORTERS`; the dictionary of a baseline names ``most`` positions."""
    check_choice("name", name, SORTERS)
    options = dict(hidden_size=hidden_size, d_embed=d_embed, ends=False, **SORTERS[name])
    return (
        PointerNetwork(1, **options)
        if name.startswith("pointer")
        else FixedDictionary(1, most, **options)
    )


def start_as_the_paper(model, seed: int = 0):
    """Draw every number of a model from U[−0.08, 0.08] (Vinyals et al. 2015, section 4.1)."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.rand(parameter.shape, generator=generator) * 0.16 - 0.08)
    return model


def held(kind: str, n: int, count: int) -> PointBatch:
    """``count`` problems of n that no training sees."""
    return draw(kind, n, count, torch.Generator().manual_seed(2_000_000_011 + n))


def sorted_share(model, n: int, *, count: int = 1000, rule=permutation) -> float:
    """The share of ``count`` new rows of n numbers that come out in order, decoded greedily
    under a rule.
    """
    batch = held("sorting", n, count)
    return round(exact_match(decoded(model, batch, rule=rule), answers(batch)), 4)


@dataclass(frozen=True)
class Settings:
    models: Sequence[str] = tuple(SORTERS)  # names of SORTERS
    n: int | tuple[int, int] = (5, 10)  # number of points, or (least, most)
    test: Sequence[int] = (5, 8, 10, 12, 15, 20, 30, 50)  # sizes of the test problems
    hidden_size: int = 64  # units of the recurrent layers
    d_embed: int = 32  # width of the embeddings
    steps: int = 800  # training steps
    batch_size: int = 128  # examples per step
    optimizer: str = "adam"  # adam, or that of the paper
    learning_rate: float = 1e-2  # peak learning rate
    clip_norm: float = 1.0  # bound on the norm of the gradient
    decay: bool = True  # let the learning rate decay by a cosine
    paper_start: bool = False  # initialise as in the paper
    pairs: int | None = None  # distinct training problems, repeated; None: new ones at every step
    count: int = 1000  # test problems
    checkpoint: str = ""  # name of the saved weights; empty: none are saved


def sorting(
    settings: Settings, *, seed: int = 0, device: str = "cpu", folder: Path = Path("results")
) -> dict:
    """Train each model on the same rows of ``n`` numbers; the share sorted without a fault, by
    size.

    Returns:
        n: a size, or (least, most)
        pairs: how many different rows training sees, over and over; None: each step's are new
    """
    n = settings.n
    n, found = tuple(n) if isinstance(n, (list, tuple)) else n, []
    most = n if isinstance(n, int) else n[1]
    for name in settings.models:
        torch.manual_seed(seed)
        model = make_sorter(
            name, most=most, hidden_size=settings.hidden_size, d_embed=settings.d_embed
        )
        if settings.paper_start:
            start_as_the_paper(model, seed)
        batches = PointBatches("sorting", n, settings.batch_size, seed=seed)
        history = fit(
            model,
            Repeated(batches, settings.pairs) if settings.pairs else batches,
            pointing_loss,
            steps=settings.steps,
            optimizer=settings.optimizer,
            learning_rate=settings.learning_rate,
            schedule=cosine_decay(settings.steps, 20) if settings.decay else None,
            clip_norm=settings.clip_norm,
            seed=seed,
            device=device,
            evaluate=lambda m: sorted_share(m, most, count=min(settings.count, 200)),
            evaluate_every=max(1, settings.steps // 8),
        )
        sizes = [size for size in settings.test if name.startswith("pointer") or size <= most]
        row = {
            "model": name,
            "parameters": sum(p.numel() for p in model.parameters()),
            "exact": [[size, sorted_share(model, size, count=settings.count)] for size in sizes],
            "course": [[step, value] for step, value in history.evaluations],
            "training_seconds": round(history.seconds, 1),
        }
        if "no mask" in name:
            batch = held("sorting", most, settings.count)
            said = decoded(model, batch, rule=None)
            row["repeated_free"] = round(
                sum(len(set(answer)) < len(answer) for answer in said) / settings.count, 4
            )
            row["exact_free"] = round(exact_match(said, answers(batch)), 4)
        found.append(row)
        if settings.checkpoint and name == "pointer":
            save_model(
                model,
                Path(folder) / f"{settings.checkpoint}.seed{seed}.safetensors",
                half=True,
                hidden_size=str(settings.hidden_size),
                d_embed=str(settings.d_embed),
            )
    return {"sequences": settings.steps * settings.batch_size, "rows": found}


# As in the paper: SGD at rate 1 without decay, U[−0.08, 0.08], clipped at 2, 1M pairs ten times.
PAPER = dict(
    optimizer="sgd",
    learning_rate=1.0,
    clip_norm=2.0,
    decay=False,
    paper_start=True,
    pairs=1_000_000,
    steps=78_000,
    batch_size=128,
)
register(
    "pointer-sorting",
    sorting,
    Settings(),
    title="Sorting 5 to 10 numbers: pointer network with and without masks, and both baselines",
    minutes="2 minutes on one CPU core",
)
register(
    "pointer-sorting-paper",
    sorting,
    Settings(hidden_size=256, d_embed=64, **PAPER),
    title="The same with the settings of the paper",
    minutes="1 hour on one GPU",
)
