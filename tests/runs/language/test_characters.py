"""The language model of characters: sizes, what it records, and a checkpoint that is the model."""

import math

import pytest
import torch
from assertions import assert_refused

from attnbook.tasks.text import characters
from attnbook.training import load_model_weights, perplexity, read_metadata
from attnbook_runs.common import count_parameters
from attnbook_runs.language import characters as experiment

TEXT = "".join(
    f"{word} {word[::-1]}\n"
    for word in ("king", "lear", "ann", "bob", "eve", "level", "not", "ton") * 120
)
SMALL = dict(length=16, d_model=16, num_heads=2, num_layers=1, batch_size=8, steps=30, warmup=3)


@pytest.fixture
def text(monkeypatch):
    monkeypatch.setattr(characters, "shakespeare", lambda: TEXT)


def test_both_models_have_equally_many_parameters():
    sizes = [count_parameters(experiment.make_model(kind, 69)) for kind in ("transformer", "lstm")]
    assert abs(sizes[0] / sizes[1] - 1) < 0.01
    assert_refused("kind", experiment.make_model, "gru", 69)


@pytest.mark.parametrize("name", ["shakespeare-characters", "shakespeare-characters-lstm"])
def test_it_learns_and_its_checkpoint_is_the_model(name, text, tmp_path, figures_of):
    found = figures_of(name, **SMALL)
    assert found["held_out_loss"] < found["curve"][0][1] - 0.05
    assert found["characters_seen"] == 30 * 8 * 16
    if name.endswith("lstm"):
        assert "sample" not in found
        return
    assert len(found["sample"]) <= 16 and set(found["sample"]) <= set(TEXT)
    path = tmp_path / "shakespeare-characters.seed0.safetensors"
    stored = read_metadata(path)
    assert stored["characters"] == "".join(sorted(set(TEXT)))
    vocabulary = characters.character_vocabulary(stored["characters"])
    torch.manual_seed(5)
    sizes = {k: int(stored[k]) for k in ("d_model", "num_heads", "num_layers")}
    model = experiment.make_model(stored["kind"], len(vocabulary), **sizes)
    load_model_weights(model, path)
    ids = characters.encode_text(TEXT[-len(TEXT) // 10 :], vocabulary)
    windows = characters.CharacterWindows(ids, 16, 64, cover=True)
    again = math.log(perplexity(model, windows))
    assert abs(again - found["held_out_loss"]) < 0.01  # half precision
