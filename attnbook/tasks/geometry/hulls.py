"""Convex hulls of many small sets of points at once, and how well an answer covers the true one."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...validate import check_lengths, describe, require


def convex_hulls(points: Tensor, lengths: Tensor | None = None) -> Tensor:
    """The corners of each row's convex hull, counter-clockwise, from the lowest index on.

    Args:
        points: (B, n, 2) coordinates
        lengths: (B,) how many points of each row are real; all of them if not given

    Returns:
        (B, m) indices, −1 as padding, m being the size of the largest hull. A point on an edge is
        no corner. Of equal points only the one with the lowest index can be one. Points on one
        line have two corners, equal points one.

    Gift wrapping, all rows at once: the corner after another is the point with no other on its
    right. A tournament of ⌈log₂ n⌉ rounds selects it, so that a hull of h corners costs O(h n).
    Cross products are taken in float64, which is exact for coordinates that are multiples of 2⁻²⁴
    below 1, as `torch.rand` draws them. The size of a figure does not matter, but details of less
    than 10⁻¹⁵⁰ of it are lost.
    Points so close to one line that rounding leads the walk in circles raise a ValueError.

    Source of the order: Vinyals, Fortunato and Jaitly 2015, section 3.1.
    """
    lengths = check_points(points, lengths)
    B, n, _ = points.shape
    if B == 0:
        return torch.empty(0, 0, dtype=torch.long, device=points.device)
    rows = torch.arange(B, device=points.device)
    index = torch.arange(n, device=points.device).expand(B, n)
    xy = points.double()
    # Padding becomes a copy of the row's first point: the higher of two equal indices, it is never
    # chosen.
    xy = _to_unit_size(torch.where((index < lengths[:, None])[..., None], xy, xy[:, :1]))
    start = _lexicographic_lowest(xy)
    corner, done = start, torch.zeros(B, dtype=torch.bool, device=points.device)
    walk: list[Tensor] = []
    while not bool(done.all()):
        if len(walk) == n:
            raise ValueError(
                f"points of row {int(done.int().argmin())} lie too close to one line: rounding "
                "errors decide which are corners"
            )
        walk.append(corner.masked_fill(done, -1))
        corner = _next_corner(xy - xy[rows, corner][:, None], index)
        done = done | (corner == start)
    return _from_lowest_index(torch.stack(walk, 1))


def check_points(points: Tensor, lengths: Tensor | None) -> Tensor:
    """The lengths of rows of points (B, n, 2), or a ValueError; the real ones must be finite."""
    check_shape(points)
    lengths = lengths_of(points, lengths)
    real = torch.arange(points.shape[1], device=points.device) < lengths[:, None]
    finite = bool((points.isfinite().all(-1) | ~real).all())
    require(finite, "points must be finite, got NaN or infinity")
    return lengths


def check_shape(points: Tensor, least: int = 1) -> None:
    """Raise a ValueError unless points are (B, n, 2) with n at least ``least``."""
    shape = points.shape if isinstance(points, Tensor) else ()
    require(
        len(shape) == 3 and shape[2] == 2 and shape[1] >= least,
        f"points must be a tensor (batch, n, 2) with n >= {least}, got {describe(points)}",
    )


def lengths_of(points: Tensor, lengths: Tensor | None) -> Tensor:
    """How many points of each row (B, n, 2) are real, n each if None is given, or a ValueError."""
    if lengths is None:
        return torch.full(points.shape[:1], points.shape[1], device=points.device)
    return check_lengths(lengths, len(points), "points", 1, points.shape[1])


def _to_unit_size(xy: Tensor) -> Tensor:
    """Each row divided by the power of two next to its largest coordinate, which rounds nothing."""
    # products of very large or very small coordinates have no place in float64
    exponent = torch.frexp(xy.abs().amax((1, 2))).exponent.clamp(-1021, 1023)
    scale = np.ldexp(1.0, -exponent.cpu().numpy())  # exact, unlike powers by a logarithm
    return xy * torch.from_numpy(scale).to(xy.device)[:, None, None]


def _lexicographic_lowest(xy: Tensor) -> Tensor:
    """(B,) the point with the smallest x; of these the smallest y; of these the lowest index.

    Always a corner.
    """
    x, y = xy.unbind(2)
    leftmost = x == x.amin(1, keepdim=True)
    y = y.masked_fill(~leftmost, torch.inf)
    return (y == y.amin(1, keepdim=True)).int().argmax(1)


def _next_corner(relative: Tensor, index: Tensor) -> Tensor:
    """(B,) the point with none on its right, seen from the origin; the farthest on its ray."""
    x, y = relative.unbind(2)
    while x.shape[1] > 1:
        half = x.shape[1] // 2
        (xa, ya, ia), (xb, yb, ib) = (
            [t[:, i * half : (i + 1) * half] for t in (x, y, index)] for i in (0, 1)
        )
        cross = xa * yb - ya * xb
        # Below 0 where a is nearer than b. Each sum by itself: equal points must give exactly 0.
        nearer = (xa * xa + ya * ya) - (xb * xb + yb * yb)
        second = (cross < 0) | ((cross == 0) & ((nearer < 0) | ((nearer == 0) & (ib < ia))))
        x, y, index = (
            torch.cat([torch.where(second, b, a), t[:, 2 * half :]], 1)
            for a, b, t in ((xa, xb, x), (ya, yb, y), (ia, ib, index))
        )
    return index[:, 0]


def _from_lowest_index(walk: Tensor) -> Tensor:
    """Turn each row, padded with −1 at the end, so that its lowest index comes first."""
    size = (walk >= 0).sum(1, keepdim=True)
    first = walk.masked_fill(walk < 0, torch.iinfo(walk.dtype).max).argmin(1, keepdim=True)
    place = torch.arange(walk.shape[1], device=walk.device).expand_as(walk)
    return walk.gather(1, (place + first) % size).masked_fill(place >= size, -1)


def polygon_area(corners: Tensor) -> float:
    """The area inside a polygon, above 0 counter-clockwise: ``½ Σ (xᵢ yᵢ₊₁ − xᵢ₊₁ yᵢ)``.

    corners (m, 2).
    """
    x, y = corners.double().unbind(1)
    return float((x * y.roll(-1) - x.roll(-1) * y).sum() / 2)


def is_simple(corners: Tensor) -> bool:
    """Whether a closed polygon of three different corners or more neither meets nor touches itself.

    Args:
        corners: (m, 2) in the order of the walk
    """
    p, q, m = corners.double(), corners.double().roll(-1, 0), len(corners)
    if m < 3:
        return False

    def side(a, b, c):  # the sign of the turn a → b → c for all pairs of edges
        u, v = b - a, c - a
        return torch.sign(u[..., 0] * v[..., 1] - u[..., 1] * v[..., 0])

    def within(a, b, c):  # whether c, on the line a b, is between a and b
        return ((torch.minimum(a, b) <= c) & (c <= torch.maximum(a, b))).all(-1)

    a, b, c, d = p[:, None], q[:, None], p[None], q[None]
    turns = (a, b, c), (a, b, d), (c, d, a), (c, d, b)
    sides = [side(*turn) for turn in turns]
    meet = (sides[0] * sides[1] < 0) & (sides[2] * sides[3] < 0)
    for s, turn in zip(sides, turns):
        meet = meet | ((s == 0) & within(*turn))
    i = torch.arange(m, device=p.device)
    step = (i[None] - i[:, None]) % m
    apart = (step > 1) & (step < m - 1)
    if bool((meet & apart).any()):
        return False
    # Neighbours share a corner; they share more where the walk turns back on itself, or
    # repeats a point.
    before, after = p - p.roll(1, 0), q - p
    turn = before[:, 0] * after[:, 1] - before[:, 1] * after[:, 0]
    return not bool(((turn == 0) & ((before * after).sum(1) <= 0)).any())


def same_polygon(first: Sequence[int], second: Sequence[int]) -> bool:
    """Whether two walks name the same polygon, wherever they start and however they turn."""
    first, second = list(first), list(second)
    walks = (second, second[::-1])
    turned = (walk[k:] + walk[:k] for walk in walks for k in range(max(1, len(walk))))
    return len(first) == len(second) and any(walk == first for walk in turned)


class HullReport(NamedTuple):
    """Shares over a batch of answers.

    Attributes:
        exact: equal to the canonical answer, position by position
        same: the same polygon, wherever the walk starts and however it turns (the paper's accuracy)
        simple: simple polygons; below 0.99 the paper reports FAIL for the area
        area: mean area of the simple polygons, as a share of the true hull's area
    """

    exact: float
    same: float
    simple: float
    area: float


def report(
    points: Tensor, predicted: Sequence[Sequence[int]], truth: Sequence[Sequence[int]]
) -> HullReport:
    """Compare predicted hulls with the true ones.

    Args:
        points: (B, n, 2)
        predicted: B walks over positions, without END
        truth: B walks, the canonical answers

    The corners of an answer are input points, so a simple polygon is inside the hull, and the area
    that both cover is that of the polygon. Source: Vinyals, Fortunato and Jaitly 2015, section 4.2.
    """
    count, came = len(points), f"{len(points)}, {len(predicted)} and {len(truth)}"
    many = count == len(predicted) == len(truth) > 0
    require(many, f"points, predicted and truth must be as many, at least one, got {came}")
    exact, same, simple, area = 0, 0, 0, 0.0
    for row, answer, right in zip(points, predicted, truth):
        answer, right = list(answer), list(right)
        exact += answer == right
        same += same_polygon(answer, right)
        if is_simple(row[answer]):
            simple += 1
            area += abs(polygon_area(row[answer])) / abs(polygon_area(row[right]))
    return HullReport(exact / count, same / count, simple / count, area / simple if simple else 0.0)
