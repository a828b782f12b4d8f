"""Batches of points: codes of answers, padding that says nothing, and seed and step alone count."""

import pytest
import torch
from assertions import refusals
from hypothesis import given
from hypothesis import strategies as st
from task_data import seeded

from attnbook.tasks.geometry import points, tours
from attnbook.tasks.geometry.hulls import convex_hulls
from attnbook.tasks.geometry.triangulations import delaunay


def draw(kind="hulls", n=8, count=20, seed=0):
    return points.draw(kind, n, count, seeded(seed))


def solved(kind, row):
    """The answer to one row without padding."""
    if kind == "sorting":
        values = row[:, 0].tolist()
        return sorted(range(len(values)), key=values.__getitem__)
    solve = {"hulls": convex_hulls, "delaunay": delaunay, "tours": tours.taught_tours}[kind]
    return solve(row[None])[0].tolist()


@given(st.sampled_from(points.KINDS), st.integers(3, 5), st.integers(0, 4), st.integers(0, 100))
def test_positions_then_end_then_padding(kind, low, more, seed):
    batch = draw(kind, (low, low + more), 12, seed)
    n = low + more
    assert batch.inputs.shape == (12, n, 1 if kind == "sorting" else 2) and batch.end == n
    assert batch.inputs.dtype == torch.float32 and batch.targets.dtype == torch.long
    ends = kind in ("hulls", "delaunay")
    longest = 0
    for row, length, target, answer in zip(
        batch.inputs, batch.lengths.tolist(), batch.targets.tolist(), points.answers(batch)
    ):
        assert low <= length <= n
        assert bool((row[length:] == 0).all())
        assert bool(((row >= 0) & (row < 1)).all())
        assert answer == solved(kind, row[:length]) and max(answer) < length
        walk = answer + [n] * ends
        assert target == walk + [-1] * (len(target) - len(walk))
        longest = max(longest, len(walk))
    assert batch.targets.shape[1] == (longest if ends else n)


def test_sizes_and_places_are_uniform():
    batch = draw("sorting", (2, 6), 4000)
    assert set(batch.lengths.tolist()) == {2, 3, 4, 5, 6}
    assert torch.bincount(batch.lengths)[2:].min() > 700
    square = draw("hulls", 10, 2000).inputs
    assert abs(float(square.mean()) - 0.5) < 0.01 and abs(float(square.var()) - 1 / 12) < 0.002


def test_equal_numbers_keep_their_order(monkeypatch):
    monkeypatch.setattr(torch, "rand", lambda *shape, generator: torch.zeros(shape))
    assert points.draw_sorting(200, 1, torch.Generator()).targets.tolist() == [list(range(200))]


@pytest.mark.parametrize("kind", points.KINDS)
def test_no_rows_at_all(kind):
    batch = draw(kind, 5, 0)
    assert len(batch.inputs) == len(batch.targets) == 0 and points.answers(batch) == []


test_wrong_arguments_are_named = refusals(
    ("kind", lambda: draw("circles")),
    ("n", lambda: draw("hulls", 2)),
    ("n", lambda: draw("sorting", (4, 3))),
    ("n must be at", lambda: draw("tours", 17)),
    ("count", lambda: draw(count=-1)),
    ("n", lambda: points.PointBatches("tours", (3, 20))),
    ("n", lambda: points.PointBatches("hulls", 2)),
)
