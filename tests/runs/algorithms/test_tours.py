import dataclasses

import pytest
import torch
from assertions import assert_refused

from attnbook import resources
from attnbook.decoding import point_beam
from attnbook.decoding.pointing import permutation
from attnbook.models import PointerNetwork
from attnbook.tasks.geometry import tours as routes
from attnbook.tasks.geometry.points import draw_tours
from attnbook.training import load_model_weights, save_model
from attnbook_runs import load_experiments
from attnbook_runs.algorithms import pointer_networks
from attnbook_runs.algorithms.pointer_networks import MODELS
from attnbook_runs.algorithms.tours import (
    AnyForm,
    TourBatches,
    beam_tours,
    cities,
    make_tourist,
    tour_rows,
    valid_share,
)


def seeded(name="pointer", **options):
    torch.manual_seed(0)
    return make_tourist(name, most=12, hidden_size=8, **options)


def test_rows_of_tours_stand_beside_the_shortest_or_the_best_known():
    rows = tour_rows(seeded(), [5, 7, 14], count=40, beams=(1, 4), free=True)
    assert [row["reference"] for row in rows] == ["shortest", "shortest", "best 2-opt"]
    for row in rows:
        length, above = row["length"], row["above"]
        best = length[row["reference"]]
        assert length["random"] > length["nearest neighbour"] >= length["2-opt"] >= best
        assert length["beam 4"] >= length["shortest of beam 4"] >= best
        assert abs(above["beam 4"] - (length["beam 4"] / length[row["reference"]] - 1)) < 1e-3
        assert above[row["reference"]] == 0
        # nothing was learned; the network masks what it has used
        assert above["greedy"] > 0.1 and row["valid_free"] == 1.0
    found = rows[0]["shortest_found"]
    assert found["shortest"] == 1 > found["2-opt"] > found["random"]
    assert "shortest" not in rows[2]["length"] and "shortest_found" not in rows[2]


def test_of_a_beam_the_most_probable_and_the_shortest():
    model, batch = seeded(), cities(6, 300)
    probable, short = beam_tours(model, batch, 5)
    differ = 0
    for matrix, row, one, other in zip(
        routes.distances(batch.inputs),
        point_beam(model, batch.inputs, batch.lengths, beam_size=5, rule=permutation),
        probable.tolist(),
        short.tolist(),
    ):
        length = [
            float(routes.tour_length(matrix[None], torch.tensor([answer.positions])))
            for answer in row
        ]
        assert one == row[0].positions and other == row[length.index(min(length))].positions
        differ += one != other
    assert differ > 100


def test_only_without_its_mask_an_answer_may_visit_a_city_twice():
    batch = cities(8, 50)
    assert valid_share(seeded(), batch) == 1.0
    assert valid_share(seeded("pointer, no mask"), batch) < 0.2
    assert valid_share(seeded("pointer, no mask"), batch, beam_size=3) < 0.2
    assert_refused("name", make_tourist, "ant", most=5)


def test_batches_have_one_size_drawn_or_growing():
    fixed = TourBatches(6, 4, seed=3).batch(5)
    drawn = draw_tours(6, 4, torch.Generator().manual_seed(3 * 1_000_003 + 5))
    assert torch.equal(fixed.inputs, drawn.inputs) and torch.equal(fixed.targets, drawn.targets)
    sizes = [TourBatches((5, 8), 2).batch(step).inputs.shape[1] for step in range(60)]
    assert set(sizes) == {5, 6, 7, 8} and min(sizes.count(n) for n in set(sizes)) > 5
    assert all(bool((TourBatches((5, 8), 2).batch(step).targets >= 0).all()) for step in range(5))
    growing = TourBatches(50, 2, teacher="farthest insertion", warm_up=(10, 8))
    grown = [growing.batch(step).inputs.shape[1] for step in range(10)]
    assert grown == [*range(10, 51, 5), 50]
    ranged = TourBatches((5, 20), 2, teacher="2-opt", warm_up=(5, 100))
    assert (
        max(ranged.batch(step).inputs.shape[1] for step in range(15))
        <= 7
        < max(ranged.batch(step).inputs.shape[1] for step in range(85, 120))
    )
    assert_refused("teacher", TourBatches, 5, teacher="me")


def test_any_form_has_the_same_tour_with_every_start_and_direction():
    plain = TourBatches(6, 400)
    ways, one, other = AnyForm(plain), plain.batch(0), AnyForm(plain).batch(0)
    assert torch.equal(routes.canonical(other.targets), one.targets)
    assert torch.equal(one.inputs, other.inputs)
    counts = torch.bincount(other.targets[:, 0], minlength=6)
    after_city_0 = other.targets.roll(-1, 1).gather(1, other.targets.argmin(1, keepdim=True))[:, 0]
    forwards = after_city_0 == one.targets[:, 1]
    assert counts.min() > 30 and 150 < int(forwards.sum()) < 250
    assert torch.equal(ways.batch(0).targets, other.targets)
    assert not torch.equal(ways.batch(1).targets, other.targets)


def test_a_recorded_run_of_tours_holds_what_the_book_shows(tmp_path, figures_of):
    figures = figures_of(
        "pointer-tours-10", n=6, steps=4, count=30, test=(5, 6), hidden_size=8, beams=(1, 2)
    )
    assert [row["n"] for row in figures["rows"]] == [5, 6]
    assert figures["sequences"] == 512 and len(figures["losses"]) == 4
    model = PointerNetwork(2, 8, ends=False)
    load_model_weights(model, tmp_path / "pointer-tours-10.seed0.safetensors")
    # halved
    assert (
        abs(
            tour_rows(model, [6], count=30, beams=(1,))[0]["length"]["greedy"]
            - figures["rows"][1]["length"]["greedy"]
        )
        < 0.02
    )


@pytest.mark.parametrize("name", ["pointer-tours-5-20", "pointer-tours-50"])
def test_every_recorded_run_of_tours_runs(name, figures_of):
    sizes = dict(steps=2, batch_size=4, count=8, hidden_size=8, beams=(1, 2), test=(5, 12))
    paper = dict(paper_start=True, optimizer="sgd", decay=False)
    pairs = 8 if name == "pointer-tours-5-20" else None
    rows = figures_of(name, **sizes, **paper, pairs=pairs)["rows"]
    assert [row["n"] for row in rows] == [5, 12]


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("pointer-tours-10", dict(beams=(1,), test=(5,), n=5)),
        ("pointer-sorting", dict(models=("pointer",), test=(5,), n=(5, 6))),
    ],
)
def test_the_recipe_of_the_paper_sums_the_loss_of_an_answer(name, sizes, monkeypatch):
    """With a sum the gradient, to which SGD's rate and bound belong, is as many times as large."""
    norms, kept = [], pointer_networks.train

    def spy(*given, **options):
        history = kept(*given, **options)
        norms.append(history.grad_norms[0])
        return history

    monkeypatch.setattr(pointer_networks, "train", spy)
    recorded = load_experiments()[name]
    for reduction in ("mean", "sequence"):
        changes = dict(steps=1, count=4, batch_size=4, hidden_size=8, checkpoint="", **sizes)
        recorded.run(dataclasses.replace(recorded.settings, reduction=reduction, **changes))
    assert norms[1] > 4 * norms[0]


def test_all_models_are_compared_on_the_same_cities_in_both_forms(figures_of):
    sizes = dict(n=6, steps=3, batch_size=8, count=30, hidden_size=8, beams=(1, 2))
    figures = figures_of("tours-10-compared", test=(5, 6), beyond=(8,), **sizes)
    assert [(m["model"], m["form"]) for m in figures["models"]] == [
        *((name, "any") for name in MODELS),
        ("pointer", "canonical"),
        ("LSTM + attention", "canonical"),
        ("LSTM", "canonical"),
    ]
    assert figures["sequences"] == 24
    assert [r["n"] for r in figures["models"][0]["rows"]] == [5, 6, 8]
    # a fixed dictionary has no word for 8
    assert [r["n"] for r in figures["models"][3]["rows"]] == [5, 6]
    (masked,), (free,) = (
        [
            m["rows"][1]["valid_free"]
            for m in figures["models"]
            if m["model"] == name and m["form"] == "any"
        ]
        for name in ("pointer", "pointer, no mask")
    )
    assert masked == 1.0 and free < 0.5
    assert len({m["rows"][0]["length"]["greedy"] for m in figures["models"]}) == 7
    assert_refused("form", figures_of, "pointer-tours-10", form="some", steps=1)


def test_networks_of_the_book_on_sizes_that_they_never_saw(tmp_path, monkeypatch, figures_of):
    for name in ("one", "other"):
        torch.manual_seed(len(name))
        model = make_tourist("pointer", most=9, hidden_size=8)
        save_model(model, tmp_path / f"{name}.seed0.safetensors", half=True)
    monkeypatch.setattr(resources, "path", lambda name: tmp_path / name.removeprefix("results/"))
    sizes = dict(hidden_size=8, count=20, test=(5, 14), beams=(1, 2))
    networks = (("5", "one"), ("9", "other"))
    first, second = figures_of("pointer-tours-by-size", networks=networks, **sizes)["networks"]
    assert first["trained_on"] == "5" and [row["n"] for row in second["rows"]] == [5, 14]
    lengths = [row["rows"][0]["length"] for row in (first, second)]
    assert lengths[0]["2-opt"] == lengths[1]["2-opt"], "the same cities for all"
    assert lengths[0]["greedy"] != lengths[1]["greedy"]
    (again,) = tour_rows(model, (14,), count=20, beams=(1,))
    # the checkpoint is halved
    assert abs(again["length"]["greedy"] - second["rows"][1]["length"]["greedy"]) < 0.05
