"""Loss surfaces of trained stacks: what the numbers of a surface mean, and a small run."""

import dataclasses
import json

import pytest
import torch

from attnbook_runs.cost import loss_landscape

GRID = torch.linspace(-1, 1, 21, dtype=torch.float64)
A, B = GRID[:, None], GRID[None]


def test_a_bowl_is_smooth_and_waves_are_not():
    assert loss_landscape.smoothness(A**2 + 3 * B**2 + A * B, GRID) == pytest.approx(
        {"bends_down": 0, "minima": 0, "detours": 0}
    )
    waves = A**2 + B**2 + 0.3 * (torch.sin(12 * A) + torch.sin(12 * B))
    rough = loss_landscape.smoothness(waves, GRID)
    assert rough["bends_down"] > 0.4 and rough["minima"] >= 3 and rough["detours"] > 0.1
    assert loss_landscape.smoothness(-(A**2) - B**2, GRID)["bends_down"] == 1.0


def test_a_detour_is_what_goes_up_and_down_beyond_one_valley():
    # rows: up and down by 1 on the way; columns: flat
    z = torch.zeros(3, 5) + torch.tensor([2.0, 0.0, 1.0, 0.0, 2.0])
    z = torch.cat([z, z[:2]])
    assert loss_landscape.smoothness(z, torch.arange(5.0))["detours"] == pytest.approx(0.5 * 2 / 2)
    monotone = torch.arange(5.0)[:, None] + torch.arange(5.0)
    assert loss_landscape.smoothness(monotone, torch.arange(5.0))["detours"] == 0


def test_minima_are_counted_beside_the_lowest():
    z = torch.ones(7, 7)
    z[1, 1], z[3, 4], z[5, 5] = 0.5, 0.2, 0.9
    assert loss_landscape.smoothness(z, torch.arange(7.0))["minima"] == 2
    z[0, 0] = 0.0  # lowest of all, on the edge, and beside one of them
    assert loss_landscape.smoothness(z, torch.arange(7.0))["minima"] == 2


def test_digits_come_sorted_and_from_the_step():
    batches = loss_landscape.DigitBatches(size=5, length=6, seed=3)
    x, y = batches.batch(2)
    assert x.shape == y.shape == (5, 6) and x.min() >= 1 and x.max() <= 10
    assert y.tolist() == [sorted(row) for row in x.tolist()]
    assert torch.equal(x, batches.batch(2)[0]) and not torch.equal(x, batches.batch(3)[0])
    assert not torch.equal(x, loss_landscape.DigitBatches(size=5, length=6, seed=4).batch(2)[0])
    assert not torch.equal(x, loss_landscape.DigitBatches(size=5, length=6, seed=4).batch(1)[0]), (
        "seeds do not share their batches"
    )


def test_the_weights_of_a_seed_are_the_same_for_every_wiring():
    one, other = (
        loss_landscape.sorting_stack(wiring, 2, seed=1).state_dict()
        for wiring in ("post-norm", "no residual")
    )
    assert one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_a_small_run_takes_the_loss_in_planes_around_trained_models():
    small = dict(layers=(1,), steps=12, points=5, rows=16, seeds=2, planes=2)
    settings = loss_landscape.Settings(wirings=("post-norm", "no residual"), **small)
    found = loss_landscape.around_minima(settings)
    assert len(found["runs"]) == 2 * 2 * 2
    assert sorted(found["surfaces"]) == [
        f"{w}/1/{k}" for w in ("no residual", "post-norm") for k in (0, 1)
    ]
    for row in found["runs"]:
        assert row["loss"] < row["highest"] and row["loss"] < 2.6
        assert {"bends_down", "minima", "detours"} == set(row["near"])
    z = torch.tensor(found["surfaces"]["post-norm/1/0"])
    assert z.shape == (5, 5)
    assert abs(float(z[2, 2]) - found["runs"][0]["loss"]) < 1e-4
    assert found["grid"][2] == 0
    assert not torch.equal(z, torch.tensor(found["surfaces"]["post-norm/1/1"]))
    assert float(z.max()) > float(z[2, 2]) + 0.1
    one = dataclasses.replace(settings, wirings=("post-norm",), seeds=1, planes=1)
    assert loss_landscape.around_minima(one)["runs"][0] == found["runs"][0]
    json.dumps(found)
