"""Pointer networks on convex hulls and Delaunay triangulations: trained on some sizes, tested on
these and on others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from ...models.pointer.network import PointerNetwork
from ...tasks.geometry import hulls, triangulations
from ...tasks.geometry.points import PointBatch, PointBatches, answers, draw
from ...training import cosine_decay, fit, point_beam, point_greedy, pointing_loss, save_model
from ...training.decoding.pointing import distinct, groups
from ..registry import register

__all__ = [
    "FromAnyCorner",
    "Repeated",
    "decoded",
    "delaunay",
    "hull",
    "hull_rows",
    "triangulation_rows",
]


class Repeated:
    """The first ``pairs`` of endless batches over and over, as a stored set of that size would
    give them.
    """

    def __init__(self, batches: PointBatches, pairs: int):
        if pairs < batches.batch_size:
            raise ValueError(f"pairs must be at least a batch of {batches.batch_size}, got {pairs}")
        self.batches, self.count = batches, pairs // batches.batch_size

    def batch(self, step: int) -> PointBatch:
        return self.batches.batch(step % self.count)


class FromAnyCorner:
    """Hulls whose walk starts at a corner drawn at random: what the canonical start is there to
    avoid.
    """

    def __init__(self, batches: PointBatches):
        self.batches = batches

    def batch(self, step: int) -> PointBatch:
        batch = self.batches.batch(step)
        size = ((batch.targets >= 0) & (batch.targets < batch.end)).sum(1, keepdim=True)
        generator = torch.Generator().manual_seed(self.batches.seed * 1_000_003 + step + 500_009)
        shift = (torch.rand(size.shape, generator=generator) * size).long()
        place = torch.arange(batch.targets.shape[1]).expand_as(batch.targets)
        turned = batch.targets.gather(1, (place + shift) % size)
        return batch._replace(targets=torch.where(place < size, turned, batch.targets))


def decoded(
    model, batch: PointBatch, *, rule, beam_size: int = 1, max_steps: int | None = None
) -> list[list[int]]:
    """The answers to a batch: greedy, or the most probable that a beam ends with; in parts that
    fit into memory.
    """
    found: list[list[int]] = []
    for inputs, lengths in zip(batch.inputs.split(256), batch.lengths.split(256)):
        if beam_size == 1:
            found += point_greedy(model, inputs, lengths, rule=rule, max_steps=max_steps).positions
        else:
            beams = point_beam(
                model, inputs, lengths, beam_size=beam_size, rule=rule, max_steps=max_steps
            )
            # none: each answer was left with nowhere to point
            found += [row[0].positions if row else [] for row in beams]
    return found


def hull_rows(
    model, sizes, *, count: int = 1000, seed: int = 1, beam_size: int = 1, restricted: bool = True
) -> list[dict]:
    """For each size the shares of `tasks.hulls.report` over ``count`` new sets of points that no
    training saw.

    Args:
        restricted: whether decoding keeps to answers that can be hulls: no position twice, at least
            three
    """
    rows = []
    for n in sizes:
        batch = draw(
            "hulls", n, count, torch.Generator().manual_seed(1_000_000_007 + 1000 * seed + n)
        )
        said = decoded(model, batch, rule=distinct(3) if restricted else None, beam_size=beam_size)
        found = hulls.report(batch.inputs, said, answers(batch))
        rows.append({"n": n, **{name: round(value, 4) for name, value in found._asdict().items()}})
    return rows


def triangulation_rows(
    model, sizes, *, count: int = 1000, seed: int = 1, beam_size: int = 1
) -> list[dict]:
    """For each size the shares of `tasks.triangulations.report`, decoding ascending triples of
    which none comes twice.
    """
    rows = []
    for n in sizes:
        batch = draw(
            "delaunay", n, count, torch.Generator().manual_seed(1_000_000_007 + 1000 * seed + n)
        )
        said = decoded(model, batch, rule=groups(3), beam_size=beam_size, max_steps=6 * n)
        found = triangulations.report(said, answers(batch))
        rows.append({"n": n, **{name: round(value, 4) for name, value in found._asdict().items()}})
    return rows


def _trained(kind, model, *, n, steps, batch_size, learning_rate, clip_norm, pairs, seed, device):
    batches = PointBatches(
        kind, tuple(n) if isinstance(n, (list, tuple)) else n, batch_size, seed=seed
    )
    batches = Repeated(batches, pairs) if pairs else batches
    return fit(
        model,
        batches,
        pointing_loss,
        steps=steps,
        learning_rate=learning_rate,
        schedule=cosine_decay(steps, min(100, steps // 10)),
        clip_norm=clip_norm,
        seed=seed,
        device=device,
    )


def _facts(model, history) -> dict:
    return {
        "parameters": sum(p.numel() for p in model.parameters()),
        "training_seconds": round(history.seconds, 1),
        "losses": [round(sum(part) / len(part), 4) for part in _parts(history.losses, 40)],
    }


def _parts(values, count):
    size = max(1, len(values) // count)
    return [values[k : k + size] for k in range(0, len(values), size)]


@dataclass(frozen=True)
class PointSettings:
    n: int | tuple[int, int] = (5, 10)  # number of points, or (least, most)
    test: Sequence[int] = (5, 10)  # sizes of the test problems
    hidden_size: int = 256  # units of the recurrent layers
    steps: int = 40_000  # training steps
    batch_size: int = 128  # examples per step
    learning_rate: float = 1e-3  # peak learning rate
    clip_norm: float = 2.0  # bound on the norm of the gradient
    # distinct training problems, repeated; None: new ones at every step
    pairs: int | None = 1_000_000
    count: int = 1000  # test problems
    beam_size: int = 3  # width of the beam
    checkpoint: str = ""  # name of the saved weights; empty: none are saved


def hull(
    settings: PointSettings, *, seed: int = 0, device: str = "cpu", folder: Path = Path("results")
) -> dict:
    """A pointer network trained on hulls of ``n`` points, tested on each size of ``test``, greedy
    and with a beam.

    Returns:
        n: a size, or (least, most)
        pairs: how many different sets of points training sees, over and over; None: each step's are
            new
    """
    torch.manual_seed(seed)
    model = PointerNetwork(2, settings.hidden_size, ends=True)
    history = _trained(
        "hulls",
        model,
        n=settings.n,
        steps=settings.steps,
        batch_size=settings.batch_size,
        learning_rate=settings.learning_rate,
        clip_norm=settings.clip_norm,
        pairs=settings.pairs,
        seed=seed,
        device=device,
    )
    if settings.checkpoint:
        save_model(
            model,
            Path(folder) / settings.checkpoint,
            half=True,
            hidden_size=str(settings.hidden_size),
            n=str(settings.n),
        )
    return {
        **_facts(model, history),
        "greedy": hull_rows(model, settings.test, count=settings.count),
        "free": hull_rows(model, settings.test, count=settings.count, restricted=False),
        "beam": hull_rows(model, settings.test, count=settings.count, beam_size=settings.beam_size),
    }


def delaunay(
    settings: PointSettings, *, seed: int = 0, device: str = "cpu", folder: Path = Path("results")
) -> dict:
    """A pointer network trained on Delaunay triangulations of ``n`` points, which point at a
    position more than once.
    """
    torch.manual_seed(seed)
    model = PointerNetwork(2, settings.hidden_size, ends=True, repeats=True)
    history = _trained(
        "delaunay",
        model,
        n=settings.n,
        steps=settings.steps,
        batch_size=settings.batch_size,
        learning_rate=settings.learning_rate,
        clip_norm=settings.clip_norm,
        pairs=settings.pairs,
        seed=seed,
        device=device,
    )
    if settings.checkpoint:
        save_model(
            model,
            Path(folder) / settings.checkpoint,
            half=True,
            hidden_size=str(settings.hidden_size),
            n=str(settings.n),
        )
    return {
        **_facts(model, history),
        "greedy": triangulation_rows(model, settings.test, count=settings.count),
        "beam": triangulation_rows(
            model, settings.test, count=settings.count, beam_size=settings.beam_size
        ),
    }


for _name, _n in (("50", 50), ("5-50", (5, 50))):
    register(
        f"pointer-hull-{_name}",
        hull,
        PointSettings(
            n=_n, test=(5, 10, 50, 100, 200, 500), checkpoint=f"pointer-hull-{_name}.safetensors"
        ),
        title=f"Pointer network on convex hulls of {_name} points, 1M pairs: the paper's table",
        minutes="40 minutes on one GPU",
    )
for _n in (5, 10, 50):
    register(
        f"pointer-delaunay-{_n}",
        delaunay,
        PointSettings(n=_n, test=(_n,)),
        title=f"Pointer network on Delaunay triangulations of {_n} points, 1M pairs",
        minutes="2 hours on one GPU" if _n == 50 else "30 minutes on one GPU",
    )
register(
    "pointer-hull-5-10-small",
    hull,
    PointSettings(
        n=(5, 10),
        test=(5, 6, 7, 8, 9, 10, 12, 20, 50),
        hidden_size=128,
        steps=6000,
        learning_rate=3e-3,
        pairs=None,
        checkpoint="pointer-hull-5-10-small.safetensors",
    ),
    title="Hulls of 5 to 10 points, small enough for one CPU core, with checkpoint",
    minutes="30 minutes on one CPU core",
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
