"""The runs of the Transformer on captions made here: the mean of checkpoints and the clock."""

import json
from pathlib import Path

import pytest
import torch

from attnbook import Bahdanau, resources
from attnbook.models.transformer.encoder_decoder import Transformer
from attnbook.models.transformer.parts import paper_parts
from attnbook.tasks import make_task
from attnbook.tasks.sequences.batches import SequenceBatches
from attnbook.tasks.text.subwords import Subwords
from attnbook.training import load_model_weights, token_loss
from attnbook_runs import load_experiments
from attnbook_runs.translation import transformer
from attnbook_runs.translation.transformer import Settings, alternating, multi30k, paper_adam

TINY = dict(pieces=70, d_model=16, num_heads=2, d_feed_forward=16, num_layers=1, batch_size=16)
TINY |= dict(steps=8, warmup=4, averaged=3, save_every=2)


def test_what_is_measured_is_what_is_stored(captions, tmp_path, monkeypatch):
    scored = {}
    monkeypatch.setattr(
        transformer,
        "bleu_figures",
        lambda net, *rest: (
            scored.update(net={n: t.clone() for n, t in net.state_dict().items()})
            or {"bleu_greedy": 1.0}
        ),
    )
    figures = multi30k(Settings(checkpoint="here", **TINY), folder=tmp_path)
    pieces = Subwords.load(tmp_path / "here.seed0.joint.json")
    net = Transformer(len(pieces), len(pieces), paper_parts(16, 2, 16), num_layers=1, tie="all")
    load_model_weights(net, tmp_path / "here.seed0.safetensors")
    assert figures["parameters"] == sum(p.numel() for p in net.parameters())
    for name, weights in net.state_dict().items():
        assert torch.equal(weights, scored["net"][name]), name
    assert figures["validation_loss"][-1][0] == 8 and len(figures["validation_loss"]) == 8
    stored = {"here.seed0.safetensors", "here.seed0.joint.json"}
    assert {path.name for path in tmp_path.iterdir()} == stored


def test_the_last_checkpoints_are_averaged(captions, monkeypatch):
    taken = []
    average = transformer.average_checkpoints

    def watched(net, folder):
        taken.append(sorted(path.name for path in Path(folder).iterdir()))
        average(net, folder)

    monkeypatch.setattr(transformer, "average_checkpoints", watched)
    monkeypatch.setattr(transformer, "bleu_figures", lambda *_: {})
    several, one = multi30k(Settings(**TINY)), multi30k(Settings(**{**TINY, "averaged": 1}))
    assert taken == [["step_000004", "step_000006", "step_000008"], ["step_000008"]]
    assert several["validation_loss"] == one["validation_loss"]  # the training is the same
    averaged = [figures["validation_loss_averaged"] for figures in (one, several)]
    assert averaged[0] == one["validation_loss"][-1][1] != averaged[1]


def test_separate_pieces_and_the_clock_beside_a_rival(captions, tmp_path, figures_of):
    rival = dict(steps=40, batch_size=20, pieces=60, d_embed=8, hidden_size=8, dropout=0.0)
    name, apart = "multi30k-en-de-transformer-small", dict(joint=False, checkpoint="apart")
    figures = figures_of(name, **TINY, **apart, rival=rival)
    clock = figures["equal_time"]
    low, high = clock["ratio_least_and_largest"]
    assert 0 < low <= clock["ratio"] <= high
    assert clock["steps_of_equal_time"] == pytest.approx(clock["ratio"] * 40, abs=0.6)
    assert clock["share_of_the_time"] == pytest.approx(8 / (clock["ratio"] * 40), rel=0.02)
    stored = {f"apart.seed0.{end}" for end in ("safetensors", "en.json", "de.json")}
    assert {path.name for path in tmp_path.iterdir()} == {f"{name}.seed0.json", *stored}
    assert 0 <= figures["bleu_beam5"] <= 100 and figures["training_cpu_seconds"] > 0


def test_models_take_turns_on_their_own_batches():
    task = make_task("copy", train=40, valid=0, test=0, symbols=4, length=(2, 4))
    batches = SequenceBatches(task.train, task.source_vocab, task.target_vocab, 8)
    size = len(task.source_vocab)
    models = {
        name: Bahdanau(size, size, d_embed=4, hidden_size=width)
        for name, width in (("small", 4), ("large", 256))
    }
    seen = []

    def loss(model, batch):
        seen.append((model is models["large"], batch))
        return token_loss(model, batch)

    four = [batches.batch(k) for k in range(4)]
    rounds = 3 * [{"small": four[:2], "large": four[2:]}]
    spent = alternating(models, rounds, loss)
    assert [large for large, _ in seen] == [False, False, True, True] * 3
    assert all(batch is wanted for (_, batch), wanted in zip(seen, four))
    assert all(len(times) == 3 and min(times) > 0 for times in spent.values())
    assert sum(spent["large"]) > sum(spent["small"])


def test_the_optimizer_is_that_of_the_paper():
    (group,) = paper_adam(0.5)([torch.nn.Parameter(torch.zeros(1))]).param_groups
    assert (group["lr"], group["betas"], group["eps"]) == (0.5, (0.9, 0.98), 1e-9)


def test_the_small_runs_have_the_rival_that_is_recorded():
    for language in ("de", "fr"):
        rival = load_experiments()[f"multi30k-en-{language}-transformer-small"].settings.rival
        theirs = json.loads(
            resources.text(f"results/multi30k-en-{language}-bahdanau-small.seed0.json")
        )["settings"]
        assert rival == {name: theirs[name] for name in rival}
        full = load_experiments()[f"multi30k-en-{language}-transformer"].settings
        assert full.rival is None and full.target == language
