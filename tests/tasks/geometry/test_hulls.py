"""Hulls of a batch against Qhull, row by row, and what happens on lines and with equal points."""

import itertools

import pytest
import torch
from assertions import refusals
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial import ConvexHull
from task_data import seeded

from attnbook.tasks.geometry import hulls, tours, triangulations


def rows_of(corners):
    return [[i for i in row if i >= 0] for row in corners.tolist()]


def qhull(points):
    """Qhull's corners, counter-clockwise, turned to start at the lowest index."""
    walk = ConvexHull(points.double().numpy()).vertices.tolist()
    k = walk.index(min(walk))
    return walk[k:] + walk[:k]


def rand(*shape, seed=0):
    return torch.rand(*shape, generator=seeded(seed))


@pytest.mark.parametrize("n", [3, 4, 5, 10, 50])
def test_every_hull_is_that_of_qhull(n):
    points = rand(200, n, 2, seed=n)
    assert rows_of(hulls.convex_hulls(points)) == [qhull(row) for row in points]


def test_rows_of_their_own_length_and_far_sizes():
    points = rand(120, 40, 2) * 1000 - 300
    lengths = torch.randint(3, 41, (120,), generator=seeded(1))
    corners = rows_of(hulls.convex_hulls(points, lengths))
    assert corners == [qhull(row[:n]) for row, n in zip(points, lengths)]
    # a row alone, without its padding
    assert rows_of(hulls.convex_hulls(points[7:8, : int(lengths[7])])) == [corners[7]]


@pytest.mark.parametrize("size", [1e-300, 1e-200, 1e-170, 1e170, 1e300])
def test_the_size_of_a_figure_does_not_matter(size):
    points = torch.rand(20, 12, 2, dtype=torch.float64, generator=seeded())
    points[0, :5] = torch.tensor([[0.0, 0.0], [1, 0], [1, 1], [0, 1], [0.5, 0.5]])
    same = (points * size) / size
    assert torch.equal(hulls.convex_hulls(points * size), hulls.convex_hulls(same))


def test_what_stands_in_the_padding_does_not_matter():
    points = torch.rand(3, 6, 2, generator=seeded())
    lengths = torch.tensor([6, 4, 3])
    filled = points.masked_fill((torch.arange(6) >= lengths[:, None])[..., None], torch.nan)
    for solve in (hulls.convex_hulls, tours.taught_tours, triangulations.delaunay):
        assert torch.equal(solve(filled, lengths), solve(points, lengths))
        with pytest.raises(ValueError, match="finite, got NaN"):
            solve(filled)


def brute_force(points):
    """Corners by definition, in whole numbers: points that are not in the hull of the others."""
    first = {p: i for i, p in reversed(list(enumerate(points)))}
    distinct = list(first)

    def turn(a, b, c):
        return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])

    following = {}
    for a in distinct:
        for b in distinct:
            rest = [c for c in distinct if c not in (a, b)]
            on_line = [c for c in rest if turn(a, b, c) == 0]
            inside = all(min(a, b) <= c <= max(a, b) for c in on_line)
            if a != b and inside and all(turn(a, b, c) >= 0 for c in rest):
                following[a] = b
    if not following:
        return [first[distinct[0]]]
    start = min(following, key=first.get)
    walk, p = [], start
    while p != start or not walk:
        walk.append(first[p])
        p = following[p]
    return walk


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=9))
def test_points_on_lines_and_equal_points(points):
    (corners,) = rows_of(hulls.convex_hulls(torch.tensor([points], dtype=torch.float32)))
    assert corners == brute_force(points)


@pytest.mark.parametrize("draw", [torch.rand, torch.randn])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_of_equal_points_the_lowest_index_counts_and_padding_never(draw, dtype):
    generator = seeded()
    points = draw(300, 4, 2, dtype=dtype, generator=generator)
    lengths = torch.randint(1, 5, (300,), generator=generator)
    twice = torch.cat([points, points.flip(1)], 1)
    alone = [hulls.convex_hulls(row[None, :n]) for row, n in zip(points, lengths)]
    assert rows_of(hulls.convex_hulls(twice, lengths)) == [rows_of(row)[0] for row in alone]
    assert rows_of(hulls.convex_hulls(twice)) == rows_of(hulls.convex_hulls(points))


def test_the_area_is_that_of_qhull_and_its_sign_tells_the_direction():
    points = rand(30, 20, 2)
    for row, walk in zip(points, rows_of(hulls.convex_hulls(points))):
        area = ConvexHull(row.double().numpy()).volume
        assert hulls.polygon_area(row[walk]) == pytest.approx(area, rel=1e-12)
        assert hulls.polygon_area(row[walk[::-1]]) == pytest.approx(-area, rel=1e-12)


SQUARE = torch.tensor([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0], [0.5, 0.0], [0.5, 0.5]])


@pytest.mark.parametrize(
    ("walk", "simple"),
    [
        ([0, 1, 2, 3], True),
        ([3, 2, 1, 0], True),
        ([0, 1, 2], True),
        ([0, 1, 5, 2, 3], True),
        ([0, 4, 1, 2, 3], True),
        ([0, 2, 1, 3], False),  # crosses itself
        ([0, 1], False),
        ([], False),
        ([0], False),
        ([0, 1, 1, 2], False),
        ([0, 1, 2, 0, 3], False),  # a corner twice
        ([0, 1, 4, 2], False),
        ([0, 1, 4], False),  # turns back on its own edge
        ([0, 1, 2, 4, 3], False),  # touches an edge with a corner
    ],
)
def test_what_a_simple_polygon_is(walk, simple):
    assert hulls.is_simple(SQUARE[walk]) is simple


@given(st.integers(0, 500), st.integers(4, 7))
def test_simple_or_not_as_by_the_crossings_of_segments(seed, n):
    points = rand(n, 2, seed=seed).double()

    def crosses(a, b, c, d):  # solve a + s (b − a) = c + t (d − c)
        s, t = torch.linalg.solve(torch.stack([b - a, c - d], 1), c - a).tolist()
        return 0 <= s <= 1 and 0 <= t <= 1

    edges = [(points[i], points[(i + 1) % n]) for i in range(n)]
    apart = [(i, j) for i, j in itertools.combinations(range(n), 2) if 1 < j - i < n - 1]
    met = any(crosses(*edges[i], *edges[j]) for i, j in apart)
    assert hulls.is_simple(points) is not met


def test_a_report_counts_each_kind_of_answer():
    points = SQUARE[:4].expand(4, 4, 2)
    truth = [[0, 1, 2, 3]] * 4
    result = hulls.report(points, [[0, 1, 2, 3], [2, 1, 0, 3], [0, 1, 2], [0, 2, 1, 3]], truth)
    assert result == (0.25, 0.5, 0.75, pytest.approx((1 + 1 + 0.5) / 3))
    assert hulls.report(points[:1], [[]], truth[:1]) == (0, 0, 0, 0)
    assert hulls.same_polygon([], []) and not hulls.same_polygon([0, 1, 2, 3], [0, 2, 1, 3])
    assert not hulls.same_polygon([0, 1], [0, 1, 1])


test_wrong_arguments_are_named = refusals(
    ("points", lambda: hulls.convex_hulls(torch.rand(2, 3))),
    ("points", lambda: hulls.convex_hulls(torch.rand(2, 0, 2))),
    ("lengths", lambda: hulls.convex_hulls(torch.rand(2, 4, 2), torch.tensor([3, 5]))),
    ("points, predicted and", lambda: hulls.report(torch.rand(1, 3, 2), [], [])),
)
