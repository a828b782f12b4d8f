"""Shortest tours against all permutations, the canonical form, what each rule of thumb promises."""

import itertools
import math

import pytest
import torch
from assertions import assert_refused, refusals
from hypothesis import given
from hypothesis import strategies as st
from task_data import seeded

from attnbook.tasks.geometry import hulls, tours, triangulations


def rand(*shape, seed=0):
    return torch.rand(*shape, generator=seeded(seed))


def length_of(points, walk):
    return sum(math.dist(points[a], points[b]) for a, b in zip(walk, [*walk[1:], walk[0]]))


def by_force(points):
    """The shortest of all tours from city 0 whose second city is below the last."""
    n = len(points)
    every = ([0, *rest] for rest in itertools.permutations(range(1, n)) if rest[0] < rest[-1])
    return min(every, key=lambda walk: length_of(points, walk))


@pytest.mark.parametrize("n", [4, 5, 6, 7, 8])
def test_the_shortest_tour_is_that_of_all_permutations(n):
    points = rand(12 if n < 8 else 4, n, 2, seed=n)
    for row, walk in zip(points.double().tolist(), tours.taught_tours(points).tolist()):
        assert walk == by_force(row)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=3, max_size=7))
def test_where_tours_tie_the_length_is_the_shortest(points):
    matrix = tours.distances(torch.tensor([points], dtype=torch.float32))
    walk = tours.held_karp(matrix)
    assert tours.is_tour(walk[0].tolist(), len(points)) and torch.equal(walk, tours.canonical(walk))
    walks = itertools.permutations(range(1, len(points)))
    best = min(length_of(points, [0, *rest]) for rest in walks)
    assert float(tours.tour_length(matrix, walk)[0]) == pytest.approx(best, abs=1e-9)
    assert length_of(points, walk[0].tolist()) == pytest.approx(best, abs=1e-9)


def test_thirteen_cities_round_a_circle():
    angle = rand(13, seed=3).double() * 2 * math.pi
    points = torch.stack([angle.cos(), angle.sin()], 1)
    ring = tours.canonical(angle.argsort()[None])
    assert torch.equal(tours.held_karp(tours.distances(points[None])), ring)
    assert_refused("matrix", lambda: tours.taught_tours(rand(1, 17, 2)))


def test_rows_of_their_own_length_and_many_parts(monkeypatch):
    points = rand(30, 8, 2)
    lengths = torch.randint(3, 9, (30,), generator=seeded())
    solved = tours.taught_tours(points, lengths)
    for row, n, walk in zip(points, lengths.tolist(), solved.tolist()):
        assert walk == tours.taught_tours(row[None, :n])[0].tolist() + [-1] * (8 - n)
    monkeypatch.setattr(tours, "_TABLE", 1)  # one row at a time
    assert torch.equal(tours.taught_tours(points, lengths), solved)
    assert tours.taught_tours(points[:0]).shape == (0, 8)


def test_only_the_teacher_that_is_called_exact_is_exact():
    points, lengths = rand(40, 14, 2), torch.tensor([8, 12, 13, 14] * 10)
    walks = {name: tours.taught_tours(points, lengths, name) for name in tours.TEACHERS}
    above = {name: [] for name in walks}
    for k, n in enumerate(lengths.tolist()):
        matrix = tours.distances(points[k : k + 1, :n])
        best = tours.taught_tours(points[k : k + 1, :n])
        shortest = float(tours.tour_length(matrix, best))
        for name, walk in walks.items():
            tour_of_row = walk[k : k + 1, :n]
            assert tours.is_tour(tour_of_row[0].tolist(), n)
            assert torch.equal(tour_of_row, tours.canonical(tour_of_row))
            assert bool((walk[k, n:] == -1).all())
            above[name].append((n, float(tours.tour_length(matrix, tour_of_row)) / shortest - 1))
            assert above[name][-1][1] > -1e-9
    assert all(a < 1e-9 for _, a in above["exact"])
    assert all(a < 1e-9 for n, a in above["exact to 12, 2-opt beyond"] if n <= 12)
    twelve = rand(400, 12, 2)
    to_12 = tours.taught_tours(twelve, teacher="exact to 12, 2-opt beyond")
    assert torch.equal(to_12, tours.taught_tours(twelve))
    for name in ("exact to 12, 2-opt beyond", "2-opt", "farthest insertion"):
        assert 0 < max(a for n, a in above[name] if n > 12) < 0.25
    means = [sum(a for _, a in above[name]) for name in tours.TEACHERS]
    assert means == sorted(means) and len(set(means)) == 4
    assert_refused("teacher", tours.taught_tours, points, lengths, "guess")


@given(st.permutations(range(6)))
def test_the_canonical_form_is_one_for_all_starts_and_both_directions(walk):
    made = tours.canonical(torch.tensor([walk]))[0].tolist()
    assert made[0] == 0 and made[1] < made[-1] and sorted(made) == list(range(6))
    for k in range(6):
        turned = walk[k:] + walk[:k]
        assert tours.canonical(torch.tensor([turned, turned[::-1]])).tolist() == [made, made]
    points = rand(6, 2).double().tolist()
    assert length_of(points, made) == pytest.approx(length_of(points, walk))


@pytest.mark.parametrize("n", [1, 2, 3, 4, 9, 30])
@pytest.mark.parametrize(
    "rule", [tours.nearest_neighbour, tours.farthest_insertion, tours.two_opt_best]
)
def test_every_rule_gives_tours(rule, n):
    matrix = tours.distances(rand(5, n, 2, seed=n))
    assert all(tours.is_tour(walk, n) for walk in rule(matrix).tolist())
    assert rule(matrix[2:3]).tolist() == rule(matrix)[2:3].tolist()  # a row alone


def test_nearest_neighbour_and_farthest_insertion_step_by_step():
    matrix = tours.distances(rand(4, 12, 2))
    for d, near, inserted in zip(
        matrix.tolist(),
        tours.nearest_neighbour(matrix, torch.tensor([0, 3, 3, 7])).tolist(),
        tours.farthest_insertion(matrix).tolist(),
    ):
        walk = [near[0]]
        while len(walk) < 12:
            walk.append(min(set(range(12)) - set(walk), key=lambda c: d[walk[-1]][c]))
        assert near == walk
        walk = [0]
        while len(walk) < 12:
            city = max(set(range(12)) - set(walk), key=lambda c: min(d[c][t] for t in walk))
            costs = [d[a][city] + d[city][b] - d[a][b] for a, b in zip(walk, [*walk[1:], walk[0]])]
            walk.insert(costs.index(min(costs)) + 1, city)
        one, other = tours.canonical(torch.tensor([inserted, walk]))
        assert torch.equal(one, other)


def test_two_opt_never_lengthens_and_ends_where_no_exchange_helps():
    points = rand(8, 15, 2, seed=5)
    matrix = tours.distances(points)
    before = torch.stack([torch.randperm(15, generator=seeded(k)) for k in range(8)])
    copy = before.clone()
    after = tours.two_opt(matrix, before)
    assert torch.equal(before, copy)  # the argument stays
    assert bool((tours.tour_length(matrix, after) < tours.tour_length(matrix, before) - 0.1).all())
    for row, walk in zip(points.double().tolist(), after.tolist()):
        assert tours.is_tour(walk, 15)
        length = length_of(row, walk)
        for i, j in itertools.combinations(range(15), 2):
            exchanged = walk[: i + 1] + walk[i + 1 : j + 1][::-1] + walk[j + 1 :]
            assert length_of(row, exchanged) >= length - 1e-9
    assert torch.equal(tours.two_opt(matrix, after), after)


def test_two_opt_ends_in_float32_too():
    points = rand(20, 10, 2, seed=6).float()
    matrix = torch.cdist(points, points)
    start = torch.arange(10).expand(20, 10)
    assert torch.equal(tours.two_opt(matrix, start), tours.two_opt(matrix.double(), start))


def test_the_best_of_several_is_no_longer_than_any_and_near_the_optimum():
    matrix = tours.distances(rand(40, 10, 2))
    inserted = tours.two_opt(matrix, tours.farthest_insertion(matrix))
    walks = tours.nearest_neighbour(matrix), inserted, tours.two_opt_best(matrix)
    nearest, inserted, best, exact = (
        tours.tour_length(matrix, walk) for walk in (*walks, tours.held_karp(matrix))
    )
    assert bool((exact <= best + 1e-9).all()) and bool((best <= inserted + 1e-9).all())
    assert best.mean() < 1.01 * exact.mean() and nearest.mean() > 1.05 * exact.mean()


def test_what_a_tour_is():
    assert tours.is_tour([2, 0, 1], 3) and not tours.is_tour([0, 1, 1], 3)
    assert not tours.is_tour([0, 1], 3) and not tours.is_tour([0, 1, 3], 3)


@pytest.mark.parametrize("solve", [tours.taught_tours, hulls.convex_hulls, triangulations.delaunay])
@pytest.mark.parametrize("lengths", [[3, -1], [3, 5], [3], [[3], [3]], [3.0, 3.0], [True, True]])
def test_lengths_that_do_not_fit_are_named(solve, lengths):
    assert_refused("lengths", solve, torch.rand(2, 4, 2), torch.tensor(lengths))
    assert_refused("lengths", solve, torch.rand(2, 4, 2), [3, 3])


@pytest.mark.parametrize("teacher", tours.TEACHERS)
def test_points_that_are_not_finite_have_no_tour(teacher):
    nowhere = torch.full((1, 5, 2), torch.nan)
    for lengths in (None, torch.tensor([5])):
        assert_refused("points", tours.taught_tours, nowhere, lengths, teacher)


def test_whole_distances_are_distances():
    points = 1000 * torch.rand(3, 9, 2, generator=seeded())
    matrix = tours.distances(points).round()
    whole, start = matrix.long(), torch.arange(9).expand(3, 9)
    for solve in (
        tours.held_karp,
        tours.nearest_neighbour,
        tours.farthest_insertion,
        tours.two_opt_best,
        lambda m: tours.two_opt(m, start),
    ):
        assert torch.equal(solve(whole), solve(matrix))


test_wrong_arguments_are_named = refusals(
    ("points", lambda: tours.distances(torch.rand(3, 2))),
    ("matrix", lambda: tours.held_karp(torch.rand(1, 4, 5))),
    ("start", lambda: tours.nearest_neighbour(torch.rand(1, 4, 4), 4)),
)
