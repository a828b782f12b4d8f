"""The loss on a grid between two random directions in weight space, scaled per filter."""

from collections.abc import Callable, Mapping, Sequence
from itertools import product

import torch
from torch import Tensor

from attnbook.validate import check_seed, require

__all__ = ["curvatures", "loss_surface", "random_directions"]


def random_directions(model: torch.nn.Module, seed: int) -> list[dict[str, Tensor]]:
    """Two random directions in the space of the weights, each filter with the norm of the model's.

    ``d_ij ← d_ij / ‖d_ij‖ · ‖θ_ij‖``  with d_ij the part of a Gaussian direction that belongs to
    filter j of parameter i

    A filter computes one feature of a layer's output: a row of a matrix (of an embedding: the
    vector of a token). The direction of biases and the parameters of norms, tensors of one
    dimension, is 0. Without the scaling, a model with large weights would look flat and one with
    small weights sharp, though they may compute the same function.

    Args:
        model: its weights are θ; they stay as they are.
        seed: of the Gaussian numbers, which are drawn on the CPU.

    Returns:
        For each direction a dict from the name of a parameter to a tensor of its shape.

    Source: Li et al. 2018, section 4.
    """
    generator = torch.Generator().manual_seed(check_seed(seed))
    directions = []
    for _ in range(2):
        direction = {}
        for name, weight in model.named_parameters():
            noise = torch.randn(weight.shape, generator=generator).to(weight)
            if weight.dim() < 2:
                direction[name] = torch.zeros_like(noise)
                continue
            rows, filters = noise.flatten(1), weight.detach().flatten(1)
            scale = filters.norm(dim=1, keepdim=True) / rows.norm(dim=1, keepdim=True)
            direction[name] = (rows * scale).view_as(noise)
        directions.append(direction)
    return directions


def loss_surface(
    model: torch.nn.Module,
    directions: Sequence[Mapping[str, Tensor]],
    loss: Callable[[torch.nn.Module], float | Tensor],
    grid: Sequence[float],
) -> Tensor:
    """The loss on a grid in the plane through the model's weights θ:
    ``Z[i, j] = loss at θ + grid[i]·d_1 + grid[j]·d_2``.

    The state of the model, its weights and buffers but those with ``persistent=False``, is restored
    to the last bit, also where the loss raises an error.

    Args:
        model: in the mode (training or evaluation) in which the loss is to be taken.
        directions: two, as :func:`random_directions` makes them.
        loss: from the model to a number, the same for the same weights: no dropout, a fixed batch.
        grid: steps along each direction; 0 is the model itself.

    Returns:
        Z ``(len(grid), len(grid))``, float64 on the CPU.

    Source: Li et al. 2018, section 4.
    """
    steps = [float(step) for step in grid]
    require(
        len(directions) == 2 and bool(steps),
        f"directions must be two and grid at least one step, got {len(directions)} directions "
        f"and {len(steps)} steps",
    )
    weights = dict(model.named_parameters())
    for k, direction in enumerate(directions):
        shapes = {name: tuple(value.shape) for name, value in direction.items()}
        fits = shapes == {name: tuple(value.shape) for name, value in weights.items()}
        wanted = "the names and shapes of the model's parameters"
        require(fits, f"directions[{k}] must have {wanted}, got {shapes}")
    before = {name: value.clone() for name, value in model.state_dict().items()}
    start = {name: value.detach().clone() for name, value in weights.items()}
    surface, (first, second) = torch.empty(len(steps), len(steps), dtype=torch.float64), directions
    try:
        with torch.no_grad():
            for (i, a), (j, b) in product(enumerate(steps), repeat=2):
                for name, weight in weights.items():
                    weight.copy_(start[name] + a * first[name] + b * second[name])
                surface[i, j] = float(loss(model))
    finally:
        with torch.no_grad():
            for name, value in model.state_dict(keep_vars=True).items():
                value.copy_(before[name])
    return surface


def curvatures(surface: Tensor, step: float) -> Tensor:
    """The two curvatures of a surface at the inner points of its grid, the smaller first.

    They are the eigenvalues of ``[[Z_aa, Z_ab], [Z_ab, Z_bb]]``, second derivatives by central
    differences: ``Z_aa = (Z[i+1, j] − 2 Z[i, j] + Z[i−1, j]) / step²``,
    ``Z_ab = (Z[i+1, j+1] − Z[i+1, j−1] − Z[i−1, j+1] + Z[i−1, j−1]) / (4 step²)``.

    Args:
        surface: ``(n, n)``, n ≥ 3.
        step: distance of two points of the grid.

    Returns:
        ``(n − 2, n − 2, 2)``. Where the smaller one is below 0 the surface bends down: it is not
        convex there.
    """
    n = surface.shape[-1] if surface.dim() else 0
    require(
        surface.shape == (n, n) and n >= 3 and step > 0,
        "surface must be (n, n), n >= 3, and step above 0, got "
        f"{tuple(surface.shape)} and {step!r}",
    )
    z = surface.double()
    inner = z[1:-1, 1:-1]
    aa, bb = z[2:, 1:-1] - 2 * inner + z[:-2, 1:-1], z[1:-1, 2:] - 2 * inner + z[1:-1, :-2]
    ab = (z[2:, 2:] - z[2:, :-2] - z[:-2, 2:] + z[:-2, :-2]) / 4
    middle, half = (aa + bb) / 2, (((aa - bb) / 2) ** 2 + ab**2).sqrt()
    return torch.stack([middle - half, middle + half], dim=-1) / step**2
