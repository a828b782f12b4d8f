"""Adversarial networks and their judges: what is compared with what, and records of tiny runs."""

import json

import pytest
import torch
from assertions import refusals

from attnbook import resources
from attnbook.models import PictureDiscriminator, ResidualInstead
from attnbook.tasks.images.labelled import to_pixels
from attnbook.training import sample_pictures
from attnbook_runs import reproduce
from attnbook_runs.images import gan, judges

TINY = {"steps": 4, "batch_size": 4}


def test_without_attention_no_position_of_the_discriminator_sees_both_figures():
    """The last map of the recorded discriminators: 18 pixels each way, as many as lie between
    the figures.
    """
    torch.manual_seed(0)
    sizes = dict(attention_at=8, last_side=8, d_key=16, d_value=32, num_classes=4)
    nets = {
        variant: gan.make_pair(variant, blocks="convolution", **sizes).discriminator
        for variant in gan.VARIANTS
    }
    seen = {}
    for variant, net in nets.items():
        for key, value in net.named_parameters():
            if key.endswith("gamma"):
                torch.nn.init.ones_(value)
        picture = torch.randn(1, 3, 32, 32, requires_grad=True)
        x = picture
        for stage in net.stages:
            x = stage(x)
        net.last_block(x)[0, :, 4, 4].abs().sum().backward()
        seen[variant] = int((picture.grad.abs().sum((0, 1, 2)) > 0).sum())
    assert seen["none"] == 18
    assert seen["residual block"] == seen["scaled residual block"] >= 30
    assert seen["attention"] == seen["pooled attention"] == 32
    counts = {v: sum(p.numel() for p in net.parameters()) for v, net in nets.items()}
    assert counts["attention"] <= counts["residual block"] < 1.1 * counts["attention"]
    assert counts["scaled residual block"] == counts["residual block"] + 1
    assert any(isinstance(m, ResidualInstead) for m in nets["residual block"].modules())
    assert isinstance(nets["none"], PictureDiscriminator)


test_errors_name_the_argument = refusals(
    ("variant", lambda: gan.make_pair("pooling")),
    ("blocks", lambda: gan.make_pair("none", blocks="dense")),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a judge of far parts that has hardly been trained."""
    path = tmp_path_factory.mktemp("runs")
    reproduce("judge-far-parts", out=path, device="cpu", steps=20, channels=4, d_feature=8)
    return path


def test_every_kind_plays_at_every_pair_of_rates(folder, monkeypatch):
    played = []

    def game(settings, **rest):
        played.append(settings)
        return {"scores": {"fid": len(played), "agree": 0.1, "chance": 0.1, "colours": 8}}

    monkeypatch.setattr(gan, "adversarial", game)
    path = reproduce("far-parts-rates", out=folder, device="cpu", steps=4, samples=40)
    rows = json.loads(path.read_text())["figures"]["rows"]
    assert [row["fid"] for row in rows] == list(range(1, 13))
    for row, settings in zip(rows, played, strict=True):
        given = {name: getattr(settings, name) for name in list(row)[:3]}
        assert given == {name: row[name] for name in given}
        assert (settings.data, settings.steps, settings.samples) == ("far-parts", 4, 40)
        assert not settings.checkpoint  # nothing is written over the recorded pairs
    assert len({tuple(row.values())[:3] for row in rows}) == 12


@pytest.mark.parametrize(
    "variant", ["attention", "residual-block", "scaled-residual-block", "none"]
)
def test_a_tiny_run_leaves_figures_and_both_networks(variant, folder):
    name = f"far-parts-{variant}"
    path = reproduce(name, out=folder, device="cpu", samples=40, evaluations=1, **TINY)
    figures = json.loads(path.read_text())["figures"]
    scores = figures["scores"]
    assert scores["samples"] == figures["real_beside_real"]["samples"] == 40
    assert {"fid", "intra_fid", "inception_style", "as_asked"} <= set(scores)
    assert figures["real_beside_real"]["agree"] == 1 and 0 <= scores["agree"] <= 1
    assert figures["real_beside_real"]["fid"] < scores["fid"]
    assert [row["step"] for row in figures["path"]] == [1, 2, 3, 4]
    assert "fid" in figures["path"][3]
    assert "fid" not in figures["path"][2]
    for side in ("generator", "discriminator"):
        assert (f"gamma_{side}" in figures["path"][0]) == (variant == "attention")
    for side in ("generator", "discriminator"):
        assert (folder / f"{name}.{side}.seed0.safetensors").stat().st_size < 2_000_000
    pair = gan.load_pair(name, folder=folder)
    assert not pair.generator.training and not pair.discriminator.training
    pictures = to_pixels(sample_pictures(pair.generator, torch.arange(40) % 4, seed=1))
    # as it was scored, but for half precision
    assert judges.far_parts.agreement(pictures).found == pytest.approx(scores["found"], abs=0.06)


@pytest.mark.parametrize(
    "name", ["gan-cifar-10-dcgan", "gan-cifar-10-attention-16", "gan-cifar-10-residual-block-4"]
)
def test_the_full_presets_train(name, tmp_path, monkeypatch, figures_of):
    """A few steps at a small width on drawn pictures in the place of the photographs."""
    monkeypatch.setitem(judges.SETS, "cifar-10", judges.SETS["far-parts"])
    monkeypatch.setitem(judges.JUDGES, "cifar-10", judges.SETS["far-parts"])
    monkeypatch.setitem(judges.JUDGE_SIZES, "cifar-10", dict(channels=2, d_feature=4, steps=3))
    sizes = dict(steps=2, batch_size=4, channels=4, max_channels=8, samples=16)
    assert figures_of(name, evaluations=1, **sizes)["scores"]["samples"] == 16
    assert (tmp_path / "judge-cifar-10.seed0.safetensors").is_file()


def test_the_recorded_runs_say_who_beats_whom():
    """Digits: SAGAN before DCGAN.

    Far parts: attention before a residual block of its size, which agrees as often as chance has
    it.
    """

    def scores(name):
        return [
            json.loads(resources.text(f"results/{name}.seed{seed}.json"))["figures"]["scores"]
            for seed in range(3)
        ]

    sagan_s, dcgan_s = (
        [row["fid"] for row in scores(f"gan-digits-{name}")] for name in ("attention", "dcgan")
    )
    assert max(sagan_s) < 4 < 8 < min(dcgan_s)
    attention = scores("far-parts-attention")
    assert min(row["agree"] for row in attention) > 0.6
    assert max(row["fid"] for row in attention) < 15
    for block in ("residual-block", "scaled-residual-block"):
        rows = scores(f"far-parts-{block}")
        assert max(row["agree"] - row["chance"] for row in rows) < 0.1
        assert min(row["fid"] for row in rows) > 20
