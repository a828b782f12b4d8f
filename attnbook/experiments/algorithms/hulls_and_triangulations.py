"""Pointer networks on convex hulls and Delaunay triangulations: trained on some sizes, tested on
these and on others.
"""

from __future__ import annotations

from pathlib import Path

import torch

from ...models.pointer.network import PointerNetwork
from ...tasks.geometry import hulls, triangulations
from ...tasks.geometry.points import PointBatch, PointBatches, answers, draw
from ...training import cosine_decay, fit, point_beam, point_greedy, pointing_loss, save_model
from ...training.decoding.pointing import distinct, groups

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

    restricted  whether decoding keeps to answers that can be hulls: no position twice, at least
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


def hull(
    *,
    seed: int = 0,
    device: str = "cpu",
    folder: Path = Path("results"),
    n: int | tuple[int, int] = (5, 10),
    test=(5, 10),
    hidden_size: int = 256,
    steps: int = 40_000,
    batch_size: int = 128,
    learning_rate: float = 1e-3,
    clip_norm: float = 2.0,
    pairs: int | None = 1_000_000,
    count: int = 1000,
    beam_size: int = 3,
    checkpoint: str = "",
) -> dict:
    """A pointer network trained on hulls of ``n`` points, tested on each size of ``test``, greedy
    and with a beam.

    n      a size, or (least, most)
    pairs  how many different sets of points training sees, over and over; None: each step's are new
    """
    torch.manual_seed(seed)
    model = PointerNetwork(2, hidden_size, ends=True)
    history = _trained(
        "hulls",
        model,
        n=n,
        steps=steps,
        batch_size=batch_size,
        learning_rate=learning_rate,
        clip_norm=clip_norm,
        pairs=pairs,
        seed=seed,
        device=device,
    )
    if checkpoint:
        save_model(
            model, Path(folder) / checkpoint, half=True, hidden_size=str(hidden_size), n=str(n)
        )
    return {
        **_facts(model, history),
        "greedy": hull_rows(model, test, count=count),
        "free": hull_rows(model, test, count=count, restricted=False),
        "beam": hull_rows(model, test, count=count, beam_size=beam_size),
    }


def delaunay(
    *,
    seed: int = 0,
    device: str = "cpu",
    folder: Path = Path("results"),
    n: int | tuple[int, int] = 5,
    test=(5,),
    hidden_size: int = 256,
    steps: int = 40_000,
    batch_size: int = 128,
    learning_rate: float = 1e-3,
    clip_norm: float = 2.0,
    pairs: int | None = 1_000_000,
    count: int = 1000,
    beam_size: int = 3,
    checkpoint: str = "",
) -> dict:
    """A pointer network trained on Delaunay triangulations of ``n`` points, which point at a
    position more than once.
    """
    torch.manual_seed(seed)
    model = PointerNetwork(2, hidden_size, ends=True, repeats=True)
    history = _trained(
        "delaunay",
        model,
        n=n,
        steps=steps,
        batch_size=batch_size,
        learning_rate=learning_rate,
        clip_norm=clip_norm,
        pairs=pairs,
        seed=seed,
        device=device,
    )
    if checkpoint:
        save_model(
            model, Path(folder) / checkpoint, half=True, hidden_size=str(hidden_size), n=str(n)
        )
    return {
        **_facts(model, history),
        "greedy": triangulation_rows(model, test, count=count),
        "beam": triangulation_rows(model, test, count=count, beam_size=beam_size),
    }
