"""Reading further than in training: the form of a run, and a loss that cannot be had otherwise."""

from dataclasses import replace

import pytest
import torch
from assertions import assert_refused

from attnbook.mechanisms import Interpolation
from attnbook.tasks.text import facts
from attnbook_runs import load_experiments
from attnbook_runs.language import extrapolation as experiment

SMALL = dict(length=12, d_model=16, num_heads=2, batch_size=8, steps=2, updates=1, texts=6)
FIGURES = {"loss", "last", "told", "by_position"}


@pytest.mark.parametrize("kind", experiment.POSITIONS)
def test_every_kind_is_read_at_every_length_where_it_is_defined(kind):
    found = experiment.extrapolation(experiment.Settings(positions=kind, **SMALL))
    lengths = {"12": 4} if kind == "learned" else {"12": 4, "24": 8, "48": 16}
    assert {k: len(v["by_position"]) for k, v in found["lengths"].items()} == lengths
    for length, figures in found["lengths"].items():
        assert set(figures) == FIGURES
        assert figures["loss"] > found["least"][length]["loss"] > 0
        assert found["least"][length]["told"] == 0
    assert [len(found["weights_by_distance"]), len(found["weights_by_distance"][0][0])] == [2, 12]
    assert ("scaled" in found) == (kind == "rotary")
    if kind == "rotary":
        assert found["scaled"]["as trained"]["before"]["48"] == found["lengths"]["48"]
        for name, scaled in found["scaled"].items():
            assert set(scaled["before"]) == {"24", "48"} and set(scaled["updated"]) == set(lengths)
            same = scaled["before"]["48"] == found["lengths"]["48"]
            assert same == (name == "as trained"), name


def test_all_kinds_and_seeds_are_one_run():
    settings = replace(load_experiments()["extrapolation"].settings, **{**SMALL, "seeds": 2})
    found = experiment.every_kind(settings, seed=4)
    assert {kind: len(runs) for kind, runs in found.items()} == dict.fromkeys(
        experiment.POSITIONS, 2
    )
    alone = experiment.extrapolation(experiment.Settings(positions="alibi", **SMALL), seed=5)
    assert found["alibi"][1]["lengths"] == alone["lengths"]


def short_run(**options):
    given = dict(steps=60, warmup=5, learning_rate=0.02, texts=32, factors=(1,))
    settings = experiment.Settings(positions="alibi", **{**SMALL, **given, **options})
    found = experiment.extrapolation(settings)
    return found["lengths"]["12"]["loss"], found["least"]["12"]["loss"]


def test_it_learns_what_words_follow_and_knows_no_more_than_can_be_known(monkeypatch):
    loss, least = short_run()
    assert least - 0.02 < loss < 1.8  # every word as likely as it is: (2 ln 12) / 3 = 1.66
    # a broken twin: words that do not follow what was read
    right = facts.draw

    def wrong(*arguments):
        batch = right(*arguments)
        order = torch.rand(batch.target_out.shape).argsort(1)
        return batch._replace(target_out=batch.target_out.gather(1, order))

    monkeypatch.setattr(facts, "draw", wrong)
    assert short_run()[0] > 2.0


def test_a_scaled_copy_reads_far_words_as_near_ones():
    torch.manual_seed(0)
    settings = experiment.Settings(positions="rotary", **SMALL)
    model = experiment.make_model(settings)
    scaled = experiment.scale(model, Interpolation(2.0))
    assert all(layer.attention.rotary.scaling is None for layer in model.stack.layers)
    q = torch.randn(1, 1, 8)
    near, far = (m.stack.layers[0].attention.rotary(q, p) for m, p in ((model, 7), (scaled, 14)))
    torch.testing.assert_close(near, far)
    assert_refused("positions", lambda: experiment.make_model(replace(settings, positions="both")))
