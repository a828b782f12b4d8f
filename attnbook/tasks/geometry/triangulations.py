"""Delaunay triangulations in a canonical order, and the coverage of an answer."""

from collections.abc import Sequence
from functools import cache
from itertools import combinations
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...extras import extra
from ...validate import require
from .hulls import check_shape, lengths_of


def delaunay(points: Tensor, lengths: Tensor | None = None) -> Tensor:
    """The Delaunay triangulation of each row, flat: three ascending indices per triangle.

    Args:
        points: (B, n, 2)
        lengths: (B,) how many points of each row are real; all of them if not given

    Returns:
        (B, m) indices, −1 as padding, m being three times the largest number of triangles. The
        triangles are ordered by their incentres: by the first coordinate, then by the second.

    Up to 8 points, the triangles whose circle holds no other point are found for all rows at once;
    SciPy (Qhull) triangulates row by row what is larger, and what rounding could decide.
    A ValueError says where the triangulation is not unique or not complete: points on one line or
    so close to it that a triangle is lost, equal points, four points on an empty circle.

    Source of the order: Vinyals, Fortunato and Jaitly 2015, section 3.2.
    """
    check_shape(points, 3)
    sizes = lengths_of(points, lengths).tolist()
    xy = points.detach().cpu().numpy().astype(np.float64)
    found: dict[int, np.ndarray] = {}
    for size in set(sizes):
        if 3 <= size <= _FEW:
            rows = [b for b, other in enumerate(sizes) if other == size]
            found |= _triangles_of_few(xy[rows, :size], rows)
    flat = [
        (found[b] if b in found else _triangles(row[:size], b)).reshape(-1)
        for b, (row, size) in enumerate(zip(xy, sizes))
    ]
    padded = np.full((len(flat), max(map(len, flat), default=0)), -1, dtype=np.int64)
    for row, f in zip(padded, flat):
        row[: len(f)] = f
    return torch.from_numpy(padded).to(points.device)


_FEW = 8
"""Points whose triples are looked at one and all: 56 for eight."""
_SURE = 1e-11
"""A determinant above it, for points of a square of side 1, has its sign from no rounding error."""


@cache
def _triples(n: int) -> np.ndarray:
    return np.array(list(combinations(range(n), 3)))


def _triangles_of_few(xy: np.ndarray, rows: Sequence[int]) -> dict[int, np.ndarray]:
    """By row, (t, 3) in the canonical order; without the rows that rounding could decide.

    A point lies inside the circle through a, b, c, counter-clockwise and seen from it, where
    ``det [a, |a|²; b, |b|²; c, |c|²] > 0``.
    """
    triples = _triples(xy.shape[1])
    xy = xy - xy.min(1, keepdims=True)
    with np.errstate(all="ignore"):
        xy = xy / xy.max((1, 2), keepdims=True)
        corners = xy[:, triples]
        a, b, c = np.moveaxis(corners[:, :, None] - xy[:, None, :, None], 3, 0)  # (R, T, n, 2)
        areas = _cross(corners[:, :, 1] - corners[:, :, 0], corners[:, :, 2] - corners[:, :, 0])
        determinants = sum(
            (first**2).sum(-1) * _cross(second, third)
            for first, second, third in ((a, b, c), (b, c, a), (c, a, b))
        )
    own = (triples[:, :, None] == np.arange(xy.shape[1])).any(1)
    # NaN is not sure either
    sure = (abs(areas) > _SURE).all(1) & ((abs(determinants) > _SURE) | own).all((1, 2))
    empty = ~((determinants * np.sign(areas)[..., None] > 0) & ~own).any(2)
    centres = np.where(empty[..., None], incentres(corners), np.inf)  # the others after
    order = np.lexsort((centres[..., 1], centres[..., 0]))
    return {
        row: triples[ranked[:count]]
        for row, ranked, count, certain in zip(rows, order, empty.sum(1), sure)
        if certain
    }


def _cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]


def _triangles(xy: np.ndarray, row: int) -> np.ndarray:
    """(t, 3) in the canonical order."""
    with extra("book", "a Delaunay triangulation"):
        from scipy.spatial import Delaunay, QhullError

    require(len(xy) >= 3, f"points of row {row} must be at least 3, got {len(xy)}")
    finite = bool(np.isfinite(xy).all())
    require(finite, f"points of row {row} must be finite, got NaN or infinity")
    try:
        mesh = Delaunay(xy)
    except QhullError as error:
        raise ValueError(f"points of row {row} must not be on one line") from error
    equal = sorted({int(i) for i in mesh.coplanar[:, 0]})
    require(not equal, f"row {row}: points {equal} coincide with others")
    triangles = np.sort(mesh.simplices, axis=1).astype(np.int64)
    _check_complete(xy, mesh.simplices, mesh.neighbors, row)
    _check_unique(xy, mesh.simplices, mesh.neighbors, row)
    centres = incentres(xy[triangles])
    return triangles[np.lexsort((centres[:, 1], centres[:, 0]))]


def _check_complete(xy, simplices, neighbours, row):
    """Raise a ValueError if the outline is not convex: Qhull leaves out nearly flat triangles."""
    triangle, opposite = np.nonzero(neighbours < 0)
    # outer edges, counter-clockwise
    ends = [simplices[triangle, (opposite + step) % 3] for step in (1, 2)]
    after = dict(zip(*(end.tolist() for end in ends)))
    edges = xy[ends[1]] - xy[ends[0]]
    of_start = dict(zip(ends[0].tolist(), edges))
    following = np.stack([of_start[after[start]] for start in ends[0].tolist()])
    require(
        bool((_cross(edges, following) >= 0).all()),
        f"points of row {row} lie too close to one line: rounding errors decide which triangles "
        "there are",
    )


def _check_unique(xy, simplices, neighbours, row):
    """Raise a ValueError if a neighbour's far corner is on a circumcircle: two diagonals would do.

    With the corners a, b, c of a triangle seen from the far corner,
    ``det [a, |a|²; b, |b|²; c, |c|²]`` is 0 there."""
    # each inner edge once
    triangle, side = np.nonzero(neighbours > np.arange(len(simplices))[:, None])
    other = neighbours[triangle, side]
    far = simplices[other, (neighbours[other] == triangle[:, None]).argmax(1)]
    seen = xy[simplices[triangle]] - xy[far][:, None]
    square = (seen**2).sum(-1)
    determinant = np.linalg.det(np.concatenate([seen, square[..., None]], -1))
    unique = bool((abs(determinant) >= 1e-14 * square.max(1, initial=0) ** 2).all())
    require(unique, f"row {row}: four points lie on one circle: the triangulation is not unique")


def incentres(corners: np.ndarray) -> np.ndarray:
    """The centres of the inscribed circles: ``(|BC| A + |CA| B + |AB| C) / (|BC| + |CA| + |AB|)``.

    (…, 3, 2) → (…, 2).
    """
    opposite = np.linalg.norm(np.roll(corners, -1, -2) - np.roll(corners, -2, -2), axis=-1)
    return (opposite[..., None] * corners).sum(-2) / opposite.sum(-1)[..., None]


def triangles_of(answer: Sequence[int]) -> list[tuple[int, ...]]:
    """The triples of a flat answer, each ascending, without what is left over at its end."""
    answer = list(answer)
    return [tuple(sorted(answer[k : k + 3])) for k in range(0, len(answer) - len(answer) % 3, 3)]


class TriangulationReport(NamedTuple):
    """exact: the share of answers that are the right set of triangles, in whatever order (the
    paper's accuracy); coverage: the mean share of the true triangles that an answer names.
    """

    exact: float
    coverage: float


def report(
    predicted: Sequence[Sequence[int]], truth: Sequence[Sequence[int]]
) -> TriangulationReport:
    """Compare flat answers with the true ones (Vinyals, Fortunato and Jaitly 2015, section 4.3)."""
    many, came = len(predicted) == len(truth) > 0, f"{len(predicted)} and {len(truth)}"
    require(many, f"predicted and truth must be as many, at least one, got {came}")
    exact = covered = 0.0
    for answer, right in zip(predicted, truth):
        answer_set, right_set = set(triangles_of(answer)), set(triangles_of(right))
        exact += answer_set == right_set and len(list(answer)) == len(list(right))
        covered += len(answer_set & right_set) / len(right_set)
    return TriangulationReport(exact / len(truth), covered / len(truth))
