"""Stacks of blocks that sort digits, and the loss around their weights with and without
residuals.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

from ...mechanisms import NoResidual, PostNorm, PreNorm, ResidualConnection
from ...models import TransformerEncoderModel, paper_parts
from ...training import fit
from ...training.evaluation.loss_landscape import curvatures, loss_surface, random_directions
from ..registry import register

__all__ = ["DigitBatches", "around_minima", "smoothness", "sorting_loss", "sorting_stack"]

DIGITS = 10
WIRINGS: dict[str, type[ResidualConnection]] = {
    "post-norm": PostNorm,
    "pre-norm": PreNorm,
    "no residual": NoResidual,
}


class DigitBatches:
    """Rows of random digits, coded 1 to 10, and the same in ascending order; batch k is a pure
    function of k and the seed.

    ``batch(step)`` → x ``(size, length)``, y of the same shape.
    """

    def __init__(self, size: int = 64, length: int = 8, seed: int = 0) -> None:
        self.size, self.length, self.seed = size, length, seed

    def batch(self, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        generator = torch.Generator().manual_seed(1_000_003 * self.seed + step)
        x = torch.randint(1, DIGITS + 1, (self.size, self.length), generator=generator)
        return x, x.sort(dim=-1).values


def sorting_loss(
    model: nn.Module, batch: tuple[torch.Tensor, torch.Tensor]
) -> tuple[torch.Tensor, int]:
    """The summed cross-entropy of the right digit at every position, in nats, and the number of
    positions.
    """
    x, y = batch
    return F.cross_entropy(model(x).logits.flatten(0, 1), y.flatten(), reduction="sum"), y.numel()


def sorting_stack(
    wiring: str | type[ResidualConnection], num_layers: int, *, d_model: int = 32, seed: int = 0
) -> TransformerEncoderModel:
    """An encoder-only model for digits: thin blocks, four heads, no dropout; weights from the
    seed, alike for every wiring.
    """
    torch.manual_seed(seed)
    parts = paper_parts(d_model, 4, 2 * d_model, dropout=0.0, residual=WIRINGS.get(wiring, wiring))
    return TransformerEncoderModel(DIGITS + 1, parts, num_layers=num_layers, tie=False)


def smoothness(surface: torch.Tensor, grid: torch.Tensor) -> dict[str, float]:
    """Three numbers of a surface, each 0 for a bowl.

    Returns:
        bends_down: share of the inner points where it curves downwards in some direction
        minima: points inside the grid that lie below their eight neighbours, and not lowest of all
        detours: over its rows and columns: how far the loss goes up and down beyond one descent and
            one climb, as a share of its range in the whole plane; mean
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


def around_minima(
    settings: Settings, *, seed: int = 0, device: str = "cpu", folder: Path = Path("results")
) -> dict:
    """Train stacks with and without residuals, the same budget and seeds, and take the loss in
    planes around them.

    Returns:
        ``runs``, a row a model and plane with the loss at its end, what :func:`smoothness` says of
        the plane, and under "near" what it says of the inner half of it; and ``surfaces`` of the
        models of the first seed, by "wiring/layers/plane".
    """
    quarter = settings.points // 4
    grid = torch.linspace(-1, 1, settings.points)
    held_out = tuple(t.to(device) for t in DigitBatches(settings.rows, seed=999).batch(0))

    def loss(model: nn.Module) -> float:
        total, count = sorting_loss(model, held_out)
        return float(total) / count

    found, surfaces = [], {}
    for depth in settings.layers:
        for wiring in settings.wirings:
            for start in range(seed, seed + settings.seeds):
                model = sorting_stack(wiring, depth, seed=start)
                history = fit(
                    model,
                    DigitBatches(seed=start),
                    sorting_loss,
                    steps=settings.steps,
                    learning_rate=settings.learning_rate,
                    device=device,
                    progress=False,
                )
                model.eval()
                for plane in range(settings.planes):
                    z = loss_surface(model, random_directions(model, plane), loss, grid.tolist())
                    found.append(
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
                        surfaces[f"{wiring}/{depth}/{plane}"] = [
                            [round(value, 4) for value in row] for row in z.tolist()
                        ]
    return {"runs": found, "surfaces": surfaces, "grid": grid.tolist()}


register(
    "loss-surfaces",
    around_minima,
    Settings(),
    title="Loss around trained stacks of blocks, with residuals and without, in random planes",
    minutes="4 minutes on one CPU core",
)
