"""Triangulations by their definition (empty circles), their order, and the shares of a report."""

import itertools
import math
from unittest import mock

import numpy as np
import pytest
import torch
from assertions import assert_refused
from hypothesis import given
from hypothesis import strategies as st
from task_data import seeded

from attnbook.tasks.geometry import triangulations


def by_definition(points):
    """Every triangle whose circumscribed circle holds no other point."""
    result = set()
    for triangle in itertools.combinations(range(len(points)), 3):
        a, b, c = (np.array(points[i]) for i in triangle)
        # as far from a as from b and from c: 2 (b − a) · x = |b|² − |a|²
        centre = np.linalg.solve(2 * np.stack([b - a, c - a]), [b @ b - a @ a, c @ c - a @ a])
        others = [p for i, p in enumerate(points) if i not in triangle]
        if all(math.dist(centre, p) > math.dist(centre, a) for p in others):
            result.add(triangle)
    return result


def incentre(a, b, c):
    """Where the bisectors meet: as far from each side, found from distances to the three lines."""
    sides = [math.dist(b, c), math.dist(c, a), math.dist(a, b)]
    return tuple(sum(s * p[k] for s, p in zip(sides, (a, b, c))) / sum(sides) for k in (0, 1))


@given(st.integers(0, 2000), st.integers(3, 9))
def test_triangles_by_definition_in_the_order_of_their_incentres(seed, n):
    points = torch.rand(1, n, 2, generator=seeded(seed))
    answer = triangulations.triangles_of(triangulations.delaunay(points)[0].tolist())
    plain = points[0].double().tolist()
    assert len(answer) == len(set(answer)) and set(answer) == by_definition(plain)
    # each ascends already
    assert triangulations.delaunay(points)[0].tolist() == [i for t in answer for i in t]
    centres = [incentre(*(plain[i] for i in t)) for t in answer]
    assert centres == sorted(centres)


def test_the_incentre_is_as_far_from_every_side():
    corners = np.random.default_rng(0).random((20, 3, 2))
    for triangle, centre in zip(corners, triangulations.incentres(corners)):
        sides = np.roll(triangle, 1, 0) - triangle
        far = abs(np.linalg.det(np.stack([sides, triangle - centre], 1)))
        assert np.ptp(far / np.linalg.norm(sides, axis=1)) < 1e-12
    right = np.array([[0, 0], [3, 0], [0, 4.0]])
    np.testing.assert_allclose(triangulations.incentres(right), [1, 1])


def test_rows_of_their_own_length():
    points, lengths = torch.rand(6, 8, 2), torch.tensor([3, 8, 5, 4, 8, 3])
    padded = triangulations.delaunay(points, lengths)
    for row, n, result in zip(points, lengths.tolist(), padded.tolist()):
        alone = triangulations.delaunay(row[None, :n])[0].tolist()
        assert result == alone + [-1] * (padded.shape[1] - len(alone))
    assert triangulations.delaunay(points[:0]).shape == (0, 0)


@pytest.mark.parametrize(
    ("points", "words"),
    [
        ([[0, 0], [0.5, 0.5], [1, 1], [0.2, 0.2]], "points of row 0 must not"),
        ([[0, 0], [1, 0], [0, 1], [0, 0]], "row 0: points"),
        ([[0, 0], [1, 0], [0, 1], [1, 1]], "row 0: four"),
        ([[0, 0], [2, 0], [0, 2], [2, 2], [5, 1]], "row 0: four"),
        ([[0, 0], [1, 0], [0.5, 1e-16], [0.5, 1]], "points of row 0 lie"),
        ([[0, 0], [1, 0], [0, torch.nan]], "points of row 0 must be"),
        ([[0, 0], [1, 0]], "points"),
    ],
)
def test_what_has_no_one_triangulation_is_refused(points, words):
    assert_refused(words, triangulations.delaunay, torch.tensor([points], dtype=torch.float32))
    short = "points of row 1 must be at least 3, got 2"
    assert_refused(short, triangulations.delaunay, torch.rand(2, 4, 2), torch.tensor([4, 2]))


def test_a_point_on_the_outline_is_no_corner_that_points_inwards():
    points = torch.tensor([[[0.0, 0], [1, 0], [0.5, 0], [0.5, 1], [0.25, 0.5]]])
    assert triangulations.delaunay(points).tolist() == [[0, 2, 4, 1, 3, 4, 1, 2, 4]]


def test_three_points_on_an_outer_edge_are_no_fault():
    points = torch.tensor([[[0.0, 0.0], [0.5, 0.0], [1.0, 0.0], [0.5, 1.0]]])
    assert triangulations.delaunay(points)[0].tolist() == [0, 1, 3, 1, 2, 3]


def test_a_report_takes_the_set_of_triangles():
    right = [0, 1, 2, 1, 2, 3]
    turned, half, more = [1, 3, 2, 2, 1, 0], [0, 1, 2], [*right, 0, 1, 3]
    answer = [right, turned, half, [0, 1, 2, 0, 1, 3, 7], [], more]
    result = triangulations.report(answer, [right] * 6)
    assert result == (pytest.approx(2 / 6), pytest.approx((1 + 1 + 0.5 + 0.5 + 0 + 1) / 6))
    with pytest.raises(ValueError, match="must be as many, at least one, got 1 and 2"):
        triangulations.report([right], [right, right])


@given(st.integers(0, 2000), st.integers(3, 8))
def test_few_points_are_triangulated_as_many_are(seed, n):
    points = torch.rand(4, n, 2, generator=seeded(seed))
    together = triangulations.delaunay(points)
    with mock.patch.object(triangulations, "_FEW", 0):
        assert torch.equal(together, triangulations.delaunay(points))


def test_what_rounding_could_decide_is_left_to_qhull():
    """The last point lies just outside or inside the circle of the others."""
    square = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], dtype=torch.float64)
    for nudge in (2e-12, -2e-12):
        square[3] = 1 + nudge
        with mock.patch.object(triangulations, "_triangles", wraps=triangulations._triangles) as q:
            found = triangulations.triangles_of(triangulations.delaunay(square[None])[0].tolist())
        assert q.called
        assert ((0, 1, 2) in found) == (nudge > 0)
