"""Few-shot classification: what is counted, what the networks are made of, and that a short run
learns what a broken one does not.
"""

import math
from functools import partial

import pytest
import torch
from assertions import assert_refused
from safetensors.torch import load_file
from watching import modes_are_kept

from attnbook.mechanisms import AttentionBlock, TCBlock
from attnbook.models.snail.few_shot import Answers
from attnbook.models.snail.network import PAPER_PARTS
from attnbook.tasks.images import strokes
from attnbook.tasks.images.few_shot_episodes import Classes, EpisodeBatch
from attnbook.training import load_model_weights
from attnbook_runs.images import few_shot as module

LETTERS = strokes.alphabets(1, 8, 12, seed=0), strokes.alphabets(1, 6, 12, seed=1)
FEW = dict(ways=3, batch_size=2, queries=2, episodes=10)


@pytest.fixture
def shown(monkeypatch):
    """Runs on a few letters; what their batches are made of."""
    given, batches = [], module.EpisodeBatches
    monkeypatch.setattr(module, "class_sets", lambda name: LETTERS)
    monkeypatch.setattr(module, "EpisodeBatches", lambda *a: given.append(a) or batches(*a))
    return given


class Oracle(torch.nn.Module):
    """Names a query by the only example with the same corner pixel; looks there, and a little at
    itself.
    """

    def __init__(self, ways, wrong=0.0):
        super().__init__()
        self.ways, self.wrong, self.number = ways, wrong, torch.nn.Parameter(torch.zeros(1))

    def forward(self, support, labels, query, *, need_weights=False):
        same = (query[:, :, None, 0, 0] == support[:, None, :, 0, 0]).float()  # (B, Q, S)
        logits = same @ torch.nn.functional.one_hot(labels, self.ways).float()
        if self.wrong:
            place = torch.arange(query.shape[1])[:, None]
            logits = torch.where(place < self.wrong, logits, -logits)
        weights = 0.5 * same / same.sum(-1, keepdim=True) + 0.3 / support.shape[1]
        return Answers(logits, (None, torch.nn.functional.pad(weights, (0, 1), value=0.2)))


def coded(classes=9, examples=9):
    pictures = torch.zeros(classes, examples, 4, 4, dtype=torch.uint8)
    pictures[..., 0, 0] = torch.arange(1, classes + 1, dtype=torch.uint8)[:, None]
    return Classes(pictures, tuple(("a", str(k)) for k in range(classes)))


def test_shares_are_those_of_the_episodes():
    def shares(episodes, wrong=0, **options):
        return module.episode_accuracies(Oracle(4, wrong), coded(), episodes=episodes, **options)

    assert shares(120).tolist() == [1.0] * 120
    assert shares(60, wrong=2).unique().tolist() == [pytest.approx(0.4)]
    assert torch.equal(shares(60, shots=2, queries=3), shares(120, shots=2, queries=3)[:60])


def test_the_interval_is_that_of_the_mean_of_episodes():
    shares = torch.tensor([1.0, 0.8, 0.6, 1.0])
    mean, half = module.interval(shares)
    spread = math.sqrt(sum((x - 0.85) ** 2 for x in (1, 0.8, 0.6, 1)) / 3)
    assert mean == pytest.approx(0.85) and half == pytest.approx(1.96 * spread / 2)
    assert module.accuracy(shares) == [85.0, round(100 * half, 2)]


@pytest.mark.parametrize("measure", [module.episode_accuracies, module.attention_by_class])
def test_measurements_keep_the_modes(measure):
    model = Oracle(4)
    assert modes_are_kept(model, lambda: measure(model, coded(), episodes=60))


@pytest.mark.parametrize("shots", [1, 2])
def test_where_it_looks_is_counted_by_class(shots):
    (row,) = module.attention_by_class(Oracle(4), coded(), shots=shots, episodes=30)
    assert row["part"] == 1 and row["chance"] == 0.25 and row["first"] == 1.0
    assert row["own"] == pytest.approx(0.5 + 0.3 / 4, abs=1e-4)
    assert row["other"] == pytest.approx(0.3 / 4, abs=1e-4)
    assert row["itself"] == pytest.approx(0.2, abs=1e-4)
    assert row["own"] + 3 * row["other"] + row["itself"] == pytest.approx(1, abs=1e-3)


def test_the_nearest_picture_is_right_where_pixels_tell():
    assert float(module.nearest_picture_accuracies(coded(), 4, episodes=60).mean()) == 1.0
    g = torch.Generator().manual_seed(0)
    pixels = torch.randint(256, (9, 9, 4, 4), dtype=torch.uint8, generator=g)
    noise = Classes(pixels, coded().names)
    assert 0.1 < float(module.nearest_picture_accuracies(noise, 4, episodes=200).mean()) < 0.4


def test_networks_are_whole_or_halves():
    def kinds(model):
        return [type(part) for part in model.snail.parts]

    whole = [AttentionBlock, TCBlock, AttentionBlock, TCBlock, AttentionBlock]
    assert kinds(module.make_network("snail", 5, 1, "paper")) == whole
    assert kinds(module.make_network("no TC", 5, 1)) == [AttentionBlock] * 3
    assert kinds(module.make_network("no attention", 5, 1)) == [TCBlock] * 2
    assert module.NETWORKS["paper, plain start"]["parts"] == PAPER_PARTS
    assert [p[:2] for p in module.NETWORKS["paper"]["parts"]] == [p[:2] for p in PAPER_PARTS]
    assert module.NETWORKS["paper"]["parts"][1] == PAPER_PARTS[1]
    assert_refused("kind", module.make_network, "TC", 5, 1)
    assert_refused("network", module.make_network, "snail", 5, 1, "large")
    assert_refused("data", module.class_sets, "mnist")


def test_letters_of_training_and_test_are_of_other_alphabets(monkeypatch):
    monkeypatch.setattr(strokes, "alphabets", partial(strokes.alphabets, examples=1))
    train, test = module.class_sets("strokes")
    assert len(train) == 200 and len(test) == 100 and not set(train.alphabets) & set(test.alphabets)
    flat = torch.cat([train.pictures[:, 0], test.pictures[:, 0]]).flatten(1).float()
    assert torch.cdist(flat, flat).fill_diagonal_(torch.inf).min() > 0


@pytest.mark.parametrize("kind", module.KINDS)
def test_a_run_records_its_figures(kind, shown, tmp_path):
    settings = module.Settings(kind=kind, steps=4, checkpoint="run", **FEW)
    figures = module.few_shot(settings, folder=tmp_path)
    assert len(figures["accuracy"]) == 2
    assert 0 <= figures["accuracy"][0] <= 100
    assert figures["classes"] == [8, 6] and figures["pictures"] == 4 * 2 * (3 + 2)
    assert figures["course"][-1][0] == 4
    assert ("looks" in figures) == (kind in ("snail", "no TC"))
    again = module.make_network(kind, 3, 1)
    sizes = {"kind": kind, "network": "small", "ways": "3", "shots": "1"}
    assert load_model_weights(again, tmp_path / "run.seed0.safetensors") == sizes
    shares = module.episode_accuracies(again, LETTERS[1], episodes=10)
    assert module.accuracy(shares) == pytest.approx(figures["accuracy"], abs=8)


def test_the_mean_of_the_last_weights_is_what_is_tested(shown, monkeypatch, tmp_path):
    """Two of ten steps: of the last fifth, and the measured and stored weights are their mean."""
    kept, seen = module.average_checkpoints, {}

    def spy(model, folder):
        seen["steps"] = sorted(path.name for path in folder.iterdir())
        kept(model, folder)
        seen["mean"] = {k: v.clone() for k, v in model.state_dict().items()}

    monkeypatch.setattr(module, "average_checkpoints", spy)
    for average in (0, 2):
        given = dict(kind="prototypes", steps=10, average=average, checkpoint=f"run-{average}")
        module.few_shot(module.Settings(**FEW, **given), folder=tmp_path)
    assert seen["steps"] == ["step_000009", "step_000010"]
    last, stored = (load_file(tmp_path / f"run-{n}.seed0.safetensors") for n in (0, 2))
    for key, mean in seen["mean"].items():
        torch.testing.assert_close(stored[key].float(), mean.float(), rtol=1e-3, atol=1e-4)
    assert any(not torch.equal(last[key], stored[key]) for key in last)


@pytest.mark.parametrize(("ways", "shots"), [(5, 5), (20, 1)])
def test_more_examples_and_more_classes(shown, figures_of, ways, shots):
    """The runs themselves, with fewer classes, since the letters here are few."""
    name, sizes = f"snail-omniglot-small-{ways}-way-{shots}-shot", dict(batch_size=2, episodes=4)
    found = figures_of(name, ways=3, steps=2, average=1, **sizes)
    ((_, _, drawn, *_),) = shown
    assert drawn == ((1, 5) if shots == 5 else 1), "K is drawn from 1 to 5, as in the paper"
    assert found["pictures"] == 2 * 2 * (3 * {1: 1, 5: 3}[shots] + 5)
    assert found["looks"][0]["chance"] == pytest.approx(1 / 3, abs=1e-4)


def test_mirrored_classes_are_learnt_from_and_not_tested_on(shown):
    settings = module.Settings(kind="prototypes", steps=2, mirrored=True, **FEW)
    figures = module.few_shot(settings)
    assert figures["classes"] == [16, 6]
    assert torch.equal(shown[0][0].pictures[8:], LETTERS[0].pictures.flip(-1))
    nearest = module.nearest_picture_accuracies(LETTERS[1], 3, episodes=10)
    assert figures["nearest_picture"] == module.accuracy(nearest)


@pytest.mark.slow
def test_a_short_run_learns_and_one_with_answers_mixed_up_does_not(monkeypatch):
    letters = [strokes.alphabets(1, 20, 12, seed=seed) for seed in (0, 1)]
    monkeypatch.setattr(module, "class_sets", lambda name: letters)
    options = dict(kind="prototypes", steps=50, batch_size=8, episodes=100)
    right = module.few_shot(module.Settings(**options))["accuracy"][0]
    loss = module.few_shot_loss

    def mixed(model, batch):  # the answers of another episode: nothing to learn from them
        return loss(model, EpisodeBatch(*batch)._replace(answers=batch[3].roll(1, 0)))

    monkeypatch.setattr(module, "few_shot_loss", mixed)
    wrong = module.few_shot(module.Settings(**options))["accuracy"][0]
    assert right > 64 and wrong < 58  # 73 and 46 where this was written
