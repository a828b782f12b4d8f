"""Stacks of blocks that sort digits, and the loss around their weights with and without
residuals.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnbook.mechanisms import NoResidual, PostNorm, PreNorm, ResidualConnection
from attnbook.models import TransformerEncoderModel, paper_parts
from attnbook.tasks import TOKEN_IDS
from attnbook.tasks.endless_batches import GeneratedBatches
from attnbook.training import fit

from ..registry import register
from .loss_surface import curvatures, loss_surface, random_directions

__all__ = ["DigitBatches", "around_minima", "smoothness", "sorting_loss", "sorting_stack"]

DIGITS = 10
Digits: TypeAlias = tuple[Tensor, Tensor]
WIRINGS: dict[str, type[ResidualConnection]] = {
    "post-norm": PostNorm,
    "pre-norm": PreNorm,
    "no residual": NoResidual,
}


def draw_digits(length: int, count: int, generator: torch.Generator) -> Digits:
    """Rows of random digits, coded 1 to 10, and the same in ascending order: ``(count, length)``
    each.
    """
    x = torch.randint(1, DIGITS + 1, (count, length), generator=generator)
    return x, x.sort(dim=-1).values


class DigitBatches(GeneratedBatches[Digits]):
    """Endless batches of :func:`draw_digits`."""

    def __init__(self, size: int = 64, length: int = 8, seed: int = 0) -> None:
        super().__init__(partial(draw_digits, length), size, seed)


def sorting_loss(model: nn.Module, batch: Digits) -> tuple[Tensor, int]:
    """The summed cross-entropy of the right digit at every position, in nats, and the number of
    positions.
    """
    x, y = batch
    return F.cross_entropy(model(x).logits.flatten(0, 1), y.flatten(), reduction="sum"), y.numel()


def sorting_stack(
    wiring: str | type[ResidualConnection], num_layers: int, *, d_model: int = 32, seed: int = 0
) -> TransformerEncoderModel:
    """An encoder-only model for digits: narrow blocks, four heads, no dropout; the weights depend
    on the seed alone, not on the residual connection.

    Args:
        wiring: The residual connection, or its name in :data:`WIRINGS`.
    """
    torch.manual_seed(seed)
    residual = WIRINGS[wiring] if isinstance(wiring, str) else wiring
    parts = paper_parts(d_model, 4, 2 * d_model, dropout=0.0, residual=residual)
    return TransformerEncoderModel(
        DIGITS + 1, parts, num_layers=num_layers, tie=False, token_ids=TOKEN_IDS
    )


def smoothness(surface: Tensor, grid: Tensor) -> dict[str, float]:
    """Three numbers of a surface, each 0 for a bowl.

    Returns:
        bends_down: Share of the inner points with negative curvature in some direction.
        minima: Points inside the grid that lie below their eight neighbours, without the global
            minimum.
        detours: How far the loss goes up and down beyond one descent and one climb, over the rows
            and columns, as a share of its range in the plane; mean.
    """
    z = surface.double()
    bends = (curvatures(z, float(grid[1] - grid[0]))[..., 0] < 0).double().mean()
    around = F.unfold(z[None, None], 3)[0]  # (9, inner points), the point itself in the middle
    minima = (around[4] < torch.cat([around[:4], around[5:]]).amin(0)) & (around[4] > z.min())
    lines = torch.cat([z, z.T])
    needed = lines[:, 0] + lines[:, -1] - 2 * lines.amin(1)
    detours = (lines.diff(dim=1).abs().sum(1) - needed).clamp(min=0) / (z.max() - z.min())
    return {
        "bends_down": float(bends),
        "minima": int(minima.sum()),
        "detours": float(detours.mean()),
    }


@dataclass(frozen=True)
class Settings:
    layers: tuple[int, ...] = (2, 4)  # numbers of blocks to compare
    wirings: tuple[str, ...] = tuple(WIRINGS)  # residual connections to compare
    seeds: int = 3  # seeds to average over
    planes: int = 2  # random planes per minimum
    steps: int = 600  # training steps
    learning_rate: float = 2e-3  # peak learning rate
    points: int = 21  # points per axis of the plane
    rows: int = 128  # examples behind each loss value


def around_minima(settings: Settings, *, seed: int = 0, device: str = "cpu") -> dict:
    """Train stacks with and without residuals, from the same seeds and for as many steps, and take
    the loss in planes around them.

    Returns:
        "runs": A row per model and plane, with the loss at the end, the figures of
        :func:`smoothness` for the plane, and under "near" those for the inner half of it.
        "surfaces": Those of the models of the first seed, by "wiring/layers/plane".
    """
    quarter = settings.points // 4
    grid = torch.linspace(-1, 1, settings.points)
    x, y = (part.to(device) for part in DigitBatches(settings.rows, seed=999).batch(0))

    def loss(model: nn.Module) -> float:
        total, count = sorting_loss(model, (x, y))
        return float(total) / count

    runs, surfaces = [], {}
    starts = range(seed, seed + settings.seeds)
    for depth, wiring, start in itertools.product(settings.layers, settings.wirings, starts):
        model = sorting_stack(wiring, depth, seed=start)
        batches = DigitBatches(seed=start)
        history = fit(
            model,
            batches,
            sorting_loss,
            steps=settings.steps,
            learning_rate=settings.learning_rate,
            device=device,
            progress=False,
        )
        model.eval()
        for plane in range(settings.planes):
            z = loss_surface(model, random_directions(model, plane), loss, grid.tolist())
            runs.append(
                {
                    "wiring": wiring,
                    "layers": depth,
                    "seed": start,
                    "plane": plane,
                    "trained": history.losses[-1],
                    "loss": float(z[settings.points // 2, settings.points // 2]),
                    "highest": float(z.max()),
                    **smoothness(z, grid),
                    "near": smoothness(z[quarter:-quarter, quarter:-quarter], grid),
                }
            )
            if start == seed:
                rows = [[round(value, 4) for value in row] for row in z.tolist()]
                surfaces[f"{wiring}/{depth}/{plane}"] = rows
    return {"runs": runs, "surfaces": surfaces, "grid": grid.tolist()}


register(
    "loss-surfaces",
    around_minima,
    Settings(),
    title="Loss around trained stacks of blocks, with residuals and without, in random planes",
    minutes="4 minutes on one CPU core",
)
