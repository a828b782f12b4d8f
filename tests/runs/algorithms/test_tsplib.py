import math

import pytest
import torch

from attnbook import resources
from attnbook.decoding import point_beam
from attnbook.decoding.pointing import permutation
from attnbook.tasks import datasets
from attnbook.tasks.geometry import tours, tsplib
from attnbook.training import save_model
from attnbook_runs.algorithms.tours import make_tourist
from attnbook_runs.algorithms.tsplib import views, walks

TSP = "NAME : {name}\nDIMENSION : {n}\nEDGE_WEIGHT_TYPE : EUC_2D\nNODE_COORD_SECTION\n{rows}\nEOF\n"


def model_of(seed=0):
    torch.manual_seed(seed)
    return make_tourist("pointer", most=9, hidden_size=8)


def test_views_are_the_same_cities_turned_mirrored_and_in_another_order():
    points = torch.rand(7, 2, generator=torch.Generator().manual_seed(0))
    seen, order = views(points, 3, torch.Generator().manual_seed(1))
    assert seen.shape == (24, 7, 2)
    assert order.shape == (24, 7)
    assert 0 <= seen.min()
    assert seen.max() <= 1
    assert torch.equal(order[0], torch.arange(7)) and torch.allclose(seen[0], points)
    matrix = tours.distances(points[None])[0]
    for view, places in zip(seen, order):
        assert places.sort().values.tolist() == list(range(7))
        torch.testing.assert_close(
            tours.distances(view[None])[0], matrix[places][:, places], atol=1e-6, rtol=0
        )
    assert (
        len(
            {
                tuple(view[places.argsort()].flatten().mul(1e4).round().tolist())
                for view, places in zip(seen, order)
            }
        )
        == 8
    )
    assert len({tuple(places.tolist()) for places in order}) == 3


def test_the_shortest_of_the_views_is_a_tour_of_the_cities_and_no_longer_than_the_first():
    points = torch.rand(9, 2, generator=torch.Generator().manual_seed(1))
    matrix = (tours.distances(points[None])[0] * 1000).round().long()
    found = walks(model_of(), points, matrix, beam_size=3, orders=4)
    assert all(tours.is_tour(walk, 9) for walk in found.values())
    length = {
        way: int(tours.tour_length(matrix[None], torch.tensor([walk])))
        for way, walk in found.items()
    }
    assert length["shortest of views"] < length["beam"]
    every = []  # each view by itself, its answers read as places of its own input
    for view, places in zip(*views(points, 4, torch.Generator().manual_seed(0))):
        for answer in point_beam(
            model_of(), view[None], torch.tensor([9]), beam_size=3, rule=permutation
        )[0]:
            at = view[answer.positions]
            every.append(
                (
                    float((at.roll(-1, 0) - at).norm(dim=1).sum()),
                    [int(places[k]) for k in answer.positions],
                )
            )
    assert found["shortest of views"] in [walk for _, walk in every]
    assert every.index(min(every)) >= 3 * 8, "not in the first order"
    # the matrix is rounded
    assert 1000 * min(every)[0] == pytest.approx(length["shortest of views"], abs=5)
    # Many views of nine cities by a network that guesses: the shortest is far better than a guess.
    guess = float(
        tours.tour_length(
            matrix[None].expand(50, -1, -1), torch.stack([torch.randperm(9) for _ in range(50)])
        )
        .double()
        .mean()
    )
    assert length["shortest of views"] < 0.85 * guess


@pytest.fixture
def library(tmp_path, monkeypatch):
    """A map of twelve cities on a circle, as TSPLIB writes it, and two networks in a folder."""
    # of the cities on the circle; neither the identity nor its own inverse
    places = [0, 3, 1, 7, 2, 9, 4, 11, 5, 6, 10, 8]
    angle = [2 * math.pi * k / 12 for k in places]
    files = {
        "ring12.tsp": TSP.format(
            name="ring12",
            n=12,
            rows="\n".join(
                f"{k + 1} {500 + 400 * math.cos(t):.1f} {500 + 400 * math.sin(t):.1f}"
                for k, t in enumerate(angle)
            ),
        ),
        "ring12.opt.tour": "TOUR_SECTION\n"
        + "\n".join(str(places.index(k) + 1) for k in range(12))
        + "\n-1\nEOF\n",
        "bestSolutions.txt": f"ring12 : {12 * round(800 * math.sin(math.pi / 12))}\n",
    }
    for file, text in files.items():
        (tmp_path / file).write_text(text)
    for name in ("one", "other"):
        save_model(model_of(len(name)), tmp_path / f"{name}.seed0.safetensors", half=True)
    monkeypatch.setattr(datasets, "fetch", lambda name, file: tmp_path / file)
    monkeypatch.setattr(
        datasets, "read_registry", lambda: {("tsplib", file): None for file in files}
    )
    monkeypatch.setattr(resources, "path", lambda name: tmp_path / name.removeprefix("results/"))


def test_a_recorded_run_holds_lengths_walks_and_a_picture_and_no_coordinates(
    library, tmp_path, figures_of
):
    given = dict(names=("ring12",), networks=(("5 to 9", "one"), ("9", "other")))
    given |= dict(hidden_size=8, beam_size=2, orders=2, drawn=("ring12",))
    figures = figures_of("tsplib-tours", **given)
    (row,) = figures["rows"]
    assert figures["views"] == 16
    assert row["n"] == 12
    assert set(row["walks"]) == {
        f"trained on {n}, {way}" for n in ("5 to 9", "9") for way in ("beam", "shortest of views")
    }
    found = tsplib.load("ring12")
    matrix = tsplib.lengths_of(found.points, found.kind)
    for way, walk in row["walks"].items():
        assert tours.is_tour(walk, 12)
        assert row["length"][way] == int(tours.tour_length(matrix[None], torch.tensor([walk])))
        assert row["above"][way] == round(row["length"][way] / row["best"] - 1, 4) > 0
        assert [found.tour.tolist()[place] for place in row["along"][way]] == walk
    assert (
        row["above"]["best 2-opt"]
        == 0.0
        <= row["above"]["2-opt"]
        <= row["above"]["nearest neighbour"]
    )
    assert (tmp_path / "tsplib-tours.seed0.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    record = (tmp_path / "tsplib-tours.seed0.json").read_text()
    assert "points" not in row and str(found.points[1, 0].item()) not in record
