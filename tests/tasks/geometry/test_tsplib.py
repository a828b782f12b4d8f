"""TSPLIB: small files made here, then, at hand, all its tours against their known lengths."""

import pytest
import torch
from assertions import assert_refused
from task_data import real

from attnbook.tasks.geometry import tours, tsplib

SQUARE = """NAME : four4
COMMENT : 4 corners: (made up)
TYPE : TSP
DIMENSION: 4
EDGE_WEIGHT_TYPE : {kind}
NODE_COORD_SECTION
1 0.0 0.0
2  3.0e+00 4.0
3 3 0
 4 0 4
EOF
"""
TOUR = "NAME : four4\nTYPE : TOUR\nDIMENSION : 4\nTOUR_SECTION\n3\n2 4\n1\n-1\nEOF\n"


@pytest.fixture
def library(mirror):
    def put(kind="EUC_2D", text=SQUARE, tour=TOUR):
        mirror("tsplib", "four4.tsp", text.format(kind=kind).encode())
        if tour:
            mirror("tsplib", "four4.opt.tour", tour.encode())
        mirror("tsplib", "bestSolutions.txt", b"four4 : 14\nother : 3 (with a word)\n\n")

    return put


def test_an_instance_is_read_with_its_tour_and_best_length(library):
    library()
    instance = tsplib.load("four4")
    assert instance.points.tolist() == [[0, 0], [3, 4], [3, 0], [0, 4]]
    assert instance.points.dtype == torch.float64 and instance.tour.tolist() == [0, 2, 1, 3]
    assert instance.best == 14 and instance.kind == "EUC_2D"
    matrix = tsplib.lengths_of(instance.points, "EUC_2D")
    assert int(tours.tour_length(matrix[None], instance.tour[None])) == 14
    assert tsplib.names() == ("four4",) and tsplib.best_lengths()["other"] == 3


def test_an_instance_may_have_no_tour(library):
    library(tour="")
    assert tsplib.load("four4").tour is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"kind": "EXPLICIT"}, "name"),
        ({"text": SQUARE.replace("DIMENSION: 4", "DIMENSION: 5")}, "tsplib/four4.tsp must list"),
        ({"text": SQUARE.replace("3 3 0", "3 3")}, "tsplib/four4.tsp must list"),
        ({"tour": TOUR.replace("2 4", "2 2")}, "tsplib/four4.opt.tour must visit"),
    ],
)
def test_broken_files_are_named(library, changes, words):
    library(**changes)
    assert_refused(words, tsplib.load, "four4")
    assert_refused("name", tsplib.load, "five5")


def test_the_three_ways_to_round():
    points = torch.tensor([[0.0, 0.0], [1.0, 1.0], [1.5, 2.0]])
    # 1.414, 2.5, 1.118
    assert tsplib.lengths_of(points, "EUC_2D").tolist() == [[0, 1, 3], [1, 0, 1], [3, 1, 0]]
    ten = torch.tensor([[0.0, 0.0], [10.0, 0.0], [0.0, 0.1]])
    assert tsplib.lengths_of(ten, "ATT")[0].tolist() == [0, 4, 1]  # 3.16 and 0.03, up
    # Half a degree (30 minutes) of longitude on the equator: 6378.388 · 3.141592 / 360 = 55.66,
    # down and 1 added.
    geo = tsplib.lengths_of(torch.tensor([[0.0, 0.0], [0.0, 0.30], [0.0, -0.30]]), "GEO")
    assert geo.tolist() == [[0, 56, 56], [56, 0, 112], [56, 112, 0]]
    assert_refused("kind", tsplib.lengths_of, points, "MAX_2D")


def test_the_unit_square_keeps_the_shape():
    moved = tsplib.unit_square(torch.tensor([[100.0, 20.0], [300.0, 120.0], [200.0, 70.0]]))
    torch.testing.assert_close(moved, torch.tensor([[0.0, 0.0], [1.0, 0.5], [0.5, 0.25]]))
    # 59.5° to 60.5°, 10° to 12.5°
    geo = tsplib.unit_square(torch.tensor([[59.30, 10.0], [60.30, 12.30]]), "GEO")
    torch.testing.assert_close(geo, torch.tensor([[0.0, 0.0], [1.0, 1 / (2.5 * 0.5)]]))
    assert_refused("points", tsplib.unit_square, torch.zeros(3, 2))


@real
def test_every_optimal_tour_has_the_best_known_length():
    seen, kinds = [], set()
    for name in tsplib.names():
        try:
            instance = tsplib.load(name)
        except ValueError as error:
            assert "has EXPLICIT" in str(error)
            continue
        if instance.tour is not None:
            matrix = tsplib.lengths_of(instance.points, instance.kind)
            assert int(tours.tour_length(matrix[None], instance.tour[None])) == instance.best, name
            seen.append(name)
            kinds.add(instance.kind)
    assert {"berlin52", "eil51", "eil76", "att48", "ulysses22", "pr1002"} <= set(seen)
    assert kinds == set(tsplib.KINDS)
    assert len(seen) >= 20, seen


@real
def test_the_exact_solver_finds_the_best_known_lengths():
    for name in ("burma14", "ulysses16"):
        instance = tsplib.load(name)
        matrix = tsplib.lengths_of(instance.points, instance.kind)[None]
        assert int(tours.tour_length(matrix, tours.held_karp(matrix.double()))) == instance.best
