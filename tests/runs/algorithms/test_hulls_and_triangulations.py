"""Hulls and triangulations: what a small run learns and reports, and two ways to change batches."""

import dataclasses
from typing import NamedTuple

import pytest
import torch
from assertions import assert_refused

from attnbook.decoding import Step
from attnbook.models.pointer.network import PointerNetwork
from attnbook.tasks.geometry import hulls
from attnbook.tasks.geometry.points import PointBatches, answers, draw
from attnbook.training import load_model_weights, pointing_loss
from attnbook_runs import load_experiments
from attnbook_runs.algorithms import hulls_and_triangulations, pointer_networks
from attnbook_runs.algorithms.hulls_and_triangulations import FromAnyCorner
from attnbook_runs.algorithms.pointer_networks import Repeated


def test_a_stored_set_comes_again_and_endless_batches_do_not():
    batches = PointBatches("hulls", 5, 8, seed=1)
    stored = Repeated(batches, 24)
    for step in range(7):
        assert torch.equal(stored.batch(step).inputs, batches.batch(step % 3).inputs)
    assert_refused("pairs", Repeated, batches, 7)
    assert stored.batch(2) is stored.batch(5), "made once"


def test_from_any_corner_the_polygon_is_the_same_and_the_start_another():
    batches = PointBatches("hulls", (4, 9), 400, seed=2)
    plain, turned = batches.batch(3), FromAnyCorner(batches).batch(3)
    assert torch.equal(plain.inputs, turned.inputs)
    assert torch.equal((plain.targets == plain.end), (turned.targets == plain.end))
    starts = []
    for before, after, xy in zip(answers(plain), answers(turned), plain.inputs):
        assert hulls.same_polygon(before, after) and hulls.polygon_area(xy[after]) > 0
        starts.append(before.index(after[0]) / len(before))
    # uniform over h corners: (h − 1) / 2h
    assert 0.3 < sum(starts) / 400 < 0.45 and min(starts) == 0
    again = FromAnyCorner(PointBatches("hulls", (4, 9), 400, seed=2))
    assert torch.equal(again.batch(3).targets, turned.targets)
    assert not torch.equal(again.batch(4).targets, turned.targets)


class State(NamedTuple):
    targets: torch.Tensor
    at: torch.Tensor


class Oracle(torch.nn.Module):
    """Points at the answers of a batch: the decoder of a model that makes no mistake."""

    ends = True

    def __init__(self, batch):
        super().__init__()
        self.rows = {tuple(x.flatten().tolist()): t for x, t in zip(batch.inputs, batch.targets)}

    def encode(self, inputs, lengths):
        return inputs

    def start(self, memory, count=1):
        targets = torch.nn.utils.rnn.pad_sequence(
            [self.rows[tuple(x.flatten().tolist())] for x in memory], True, -1
        )
        at = torch.zeros(len(memory), count, 1, dtype=torch.long)
        return State(targets[:, None].expand(-1, count, -1), at)

    def step(self, pointed, state, memory):
        at = state.at.clamp(max=state.targets.shape[-1] - 1)
        pointed_at = state.targets.gather(2, at).clamp(min=0)[..., 0]
        logits = 30 * torch.nn.functional.one_hot(pointed_at, memory.shape[1] + 1).float()
        return Step(logits, State(state.targets, state.at + 1), logits.softmax(-1))


@pytest.mark.parametrize("beam_size", [1, 2])
def test_a_model_that_knows_is_reported_as_such(beam_size):
    batch = draw("hulls", 6, 40, torch.Generator().manual_seed(1_000_000_007 + 1000 + 6))
    (row,) = hulls_and_triangulations.hull_rows(Oracle(batch), [6], count=40, beam_size=beam_size)
    assert row == {"n": 6, "exact": 1.0, "same": 1.0, "simple": 1.0, "area": 1.0}
    batch = draw("delaunay", 5, 20, torch.Generator().manual_seed(1_000_000_007 + 1000 + 5))
    options = dict(count=20, beam_size=beam_size)
    (row,) = hulls_and_triangulations.triangulation_rows(Oracle(batch), [5], **options)
    assert row == {"n": 5, "exact": 1.0, "coverage": 1.0}


@pytest.mark.parametrize(
    ("name", "kind", "n", "turned"),
    [
        ("pointer-hull-5-any-corner-small", "hulls", 5, True),
        ("pointer-hull-5-10-small", "hulls", (5, 10), False),
        ("pointer-hull-5-50-small", "hulls", (5, 50), False),
        ("pointer-delaunay-5-small", "delaunay", 5, False),
        ("pointer-delaunay-10-small", "delaunay", 10, False),
    ],
)
def test_a_small_run_leaves_its_figures_and_its_checkpoint(
    tmp_path, monkeypatch, name, kind, n, turned, figures_of
):
    drawn, batches = [], hulls_and_triangulations.PointBatches
    seen, train_network = [], hulls_and_triangulations.train_network

    def trained(model, given, *rest, **options):
        seen.append(type(given))
        return train_network(model, given, *rest, **options)

    monkeypatch.setattr(hulls_and_triangulations, "train_network", trained)

    def watched(kind, n, *given, **options):
        drawn.append((kind, n))
        return batches(kind, n, *given, **options)

    monkeypatch.setattr(hulls_and_triangulations, "PointBatches", watched)
    figures = figures_of(name, steps=12, count=20, test=(5, 6), hidden_size=16)
    assert len(figures["losses"]) >= 12
    assert {row["n"] for row in figures["greedy"]} == {5, 6}
    assert len(figures["beam"]) == 2
    assert drawn == [(kind, n)]
    assert seen == [FromAnyCorner if turned else batches]
    model = PointerNetwork(2, 16, ends=True, repeats=kind == "delaunay")
    if load_experiments()[name].settings.checkpoint:
        load_model_weights(model, tmp_path / f"{name}.safetensors")


def test_a_start_that_no_hull_has_is_named():
    settings = hulls_and_triangulations.PointSettings(first="anywhere", steps=1)
    assert_refused("first", hulls_and_triangulations.hull, settings)
    with pytest.raises(ValueError, match="for hulls, got delaunay"):
        hulls_and_triangulations.delaunay(dataclasses.replace(settings, first="any corner"))


def test_the_small_run_learns_to_walk_and_to_end():
    small = dict(n=3, test=(3,), hidden_size=48, steps=200, count=200, beam_size=2)
    settings = hulls_and_triangulations.PointSettings(learning_rate=0.005, pairs=None, **small)
    figures = hulls_and_triangulations.hull(settings)
    assert figures["losses"][-1] < 0.3 * figures["losses"][0]
    assert figures["free"][0]["same"] > 0.95  # no rule helps: each corner once, then END


def test_the_full_presets_are_those_of_the_paper():
    for name in ("delaunay-5", "delaunay-10", "delaunay-50", "hull-50", "hull-5-50"):
        run = load_experiments()[f"pointer-{name}"].settings
        assert (run.pairs, run.hidden_size, run.batch_size) == (1_000_000, 256, 128)
        assert (run.optimizer, run.learning_rate, run.clip_norm) == ("sgd", 1.0, 2.0)
        assert not run.decay and run.paper_start


def test_the_first_update_of_the_papers_preset_has_the_size_of_its_formula(monkeypatch):
    """rate · min(2, ‖g‖), with g the gradient of the summed cross-entropy of an answer."""
    seen = {}
    kept = pointer_networks.train

    def spy(model, *arguments, **options):
        start = [p.detach().clone() for p in model.parameters()]
        history = kept(model, *arguments, **options)
        moved = torch.cat([(p - b).flatten() for p, b in zip(model.parameters(), start)])
        seen.update(start=start, moved=moved, norm=history.grad_norms[0])
        return history

    monkeypatch.setattr(pointer_networks, "train", spy)
    settings = load_experiments()["pointer-delaunay-5"].settings
    small = dict(steps=1, count=2, beam_size=1, hidden_size=32)
    hulls_and_triangulations.delaunay(dataclasses.replace(settings, **small))
    assert all(float(p.abs().max()) <= 0.08 for p in seen["start"])
    model = PointerNetwork(2, 32, ends=True, repeats=True)
    with torch.no_grad():
        for parameter, value in zip(model.parameters(), seen["start"]):
            parameter.copy_(value)
    total, _ = pointing_loss(model, PointBatches("delaunay", 5, 128, seed=0).batch(0))
    (total / 128).backward()
    norm = torch.cat([p.grad.flatten() for p in model.parameters()]).norm().item()
    assert seen["norm"] == pytest.approx(norm, rel=1e-4)
    assert seen["moved"].norm().item() == pytest.approx(min(2.0, norm), rel=1e-4)
