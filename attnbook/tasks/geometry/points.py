"""Problems whose answers point back at their input: sorting, hulls, triangulations, tours."""

from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from ...validate import check_choice, check_integer, check_range, require
from ..endless_batches import GeneratedBatches, drawn
from .hulls import convex_hulls
from .tours import MOST, taught_tours
from .triangulations import delaunay


class PointBatch(NamedTuple):
    """B sets of numbers or points with the positions that answer them.

    Attributes:
        inputs: (B, n, d) numbers (d = 1) or points of the unit square (d = 2), uniform; zeros as
            padding at the end
        lengths: (B,) how many of each row are real
        targets: (B, m) positions 0 … lengths − 1 of the row's inputs; then, for hulls and
            triangulations, whose answers vary in length, once END, coded as n (the column after the
            last position of the padded batch); then −1 as padding
    """

    inputs: Tensor
    lengths: Tensor
    targets: Tensor

    @property
    def end(self) -> int:
        """The code of END: n."""
        return self.inputs.shape[1]


@drawn
def draw_sorting(n: int | tuple[int, int], count: int, generator: torch.Generator) -> PointBatch:
    """Numbers from [0, 1); the answer is their positions in ascending order.

    Args:
        n: how many numbers, or (least, most), both included, every size as likely; the batch is
            padded to the most
        count: B
    """
    inputs, lengths, real = _uniform(n, count, 1, generator)
    order = inputs[..., 0].masked_fill(~real, torch.inf).argsort(dim=1, stable=True)
    return PointBatch(inputs, lengths, order.masked_fill(~real, -1))


@drawn
def draw_hulls(n: int | tuple[int, int], count: int, generator: torch.Generator) -> PointBatch:
    """Points of the unit square, at least 3; the answer walks round their convex hull,
    counter-clockwise from the lowest index. Arguments as in :func:`draw_sorting`.
    """
    inputs, lengths, _ = _uniform(n, count, 2, generator, least=3)
    return PointBatch(inputs, lengths, _ended(convex_hulls(inputs, lengths), inputs.shape[1]))


@drawn
def draw_delaunay(n: int | tuple[int, int], count: int, generator: torch.Generator) -> PointBatch:
    """Points of the unit square, at least 3; the answer lists the triangles of their Delaunay
    triangulation, three positions each. Arguments as in :func:`draw_sorting`.

    Each triangle's positions ascend; the triangles are ordered by their incentres, first coordinate
    first. The answer is flat: ``targets[:, 3 k : 3 k + 3]`` is triangle k.
    """
    inputs, lengths, _ = _uniform(n, count, 2, generator, least=3)
    return PointBatch(inputs, lengths, _ended(delaunay(inputs, lengths), inputs.shape[1]))


@drawn
def draw_tours(
    n: int | tuple[int, int], count: int, generator: torch.Generator, teacher: str = "exact"
) -> PointBatch:
    """Cities of the unit square; the answer is a short tour from city 0, in `tours`' direction.

    Args:
        n, count: as in :func:`draw_sorting`, n at least 3
        teacher: "exact" for the shortest tours, of at most 16 cities; or a heuristic by its name,
            see `tours.TEACHERS`

    There is no END: a tour has as many steps as cities, without the return to city 0.
    """
    inputs, lengths, _ = _uniform(n, count, 2, generator, least=3)
    few = teacher != "exact" or inputs.shape[1] <= MOST
    require(few, f"n must be at most {MOST} cities for exact tours, got {n!r}")
    return PointBatch(inputs, lengths, taught_tours(inputs, lengths, teacher))


_KINDS = {
    "sorting": draw_sorting,
    "hulls": draw_hulls,
    "delaunay": draw_delaunay,
    "tours": draw_tours,
}
KINDS = tuple(_KINDS)


def draw(kind: str, n: int | tuple[int, int], count: int, generator: torch.Generator) -> PointBatch:
    """One of the four problems by name, one of :data:`KINDS`, see the other functions."""
    return _KINDS[check_choice("kind", kind, KINDS)](n, count, generator)


def answers(batch: PointBatch) -> list[list[int]]:
    """The true answers as lists of positions, without END and padding."""
    return [[k for k in row if 0 <= k < batch.end] for row in batch.targets.tolist()]


class PointBatches(GeneratedBatches[PointBatch]):
    """Endless batches of :func:`draw`, whose arguments are ``kind`` and ``n``."""

    def __init__(self, kind: str, n: int | tuple[int, int], batch_size: int = 128, seed: int = 0):
        super().__init__(partial(draw, kind, n), batch_size, seed)


def _uniform(n, count, width, generator, least=1) -> tuple[Tensor, ...]:
    """inputs, lengths and which inputs are real (B, n)."""
    low, high = check_range("n", n, least)
    check_integer("count", count, 0)
    lengths = torch.randint(low, high + 1, (count,), generator=generator)
    real = torch.arange(high) < lengths[:, None]
    return torch.rand(count, high, width, generator=generator) * real[..., None], lengths, real


def _ended(walks: Tensor, end: int) -> Tensor:
    """Append END to rows that are padded with −1."""
    size = (walks >= 0).sum(1, keepdim=True)
    return torch.cat([walks, walks.new_full((len(walks), 1), -1)], 1).scatter(1, size, end)
