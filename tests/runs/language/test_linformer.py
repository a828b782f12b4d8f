import math

import pytest
import torch

from attnbook.decoding import Decoded
from attnbook.mechanisms import LinformerAttention, MultiHeadAttention
from attnbook.tasks.algorithms.gaps import FIRST, VALUES, GapBatches, frequencies, vocabulary_size
from attnbook.tasks.sequences.vocabulary import PAD, UNK
from attnbook_runs.common import train
from attnbook_runs.language.linformer import (
    Settings,
    compared,
    gap_loss,
    gaps_filled,
    make_model,
    spectrum,
)


class Knowing(torch.nn.Module):
    """Looks names up, or counts words and applies Bayes' rule: the best that can be done."""

    def __init__(self, kind, length):
        super().__init__()
        self.kind, self.size = kind, vocabulary_size(kind, length)
        self.none = torch.nn.Parameter(torch.zeros(1))

    def forward(self, tokens):
        logits = torch.full((*tokens.shape, self.size), -50.0)
        for b, row in enumerate(tokens.tolist()):
            if self.kind == "look-up":
                pairs = (divmod(token - FIRST, VALUES + 1) for token in row)
                told = {name: value for name, value in pairs if value}
                for t, token in enumerate(row):
                    logits[b, t, FIRST + told[(token - FIRST) // (VALUES + 1)] - 1] = 50.0
            else:
                counts = torch.tensor([row.count(FIRST + k) for k in range(16)]).double()
                posterior = (frequencies().log() @ counts).softmax(0)
                logits[b, :, FIRST:] = (posterior @ frequencies()).log().float()
        return Decoded(logits + self.none, None)


@pytest.mark.parametrize("kind", ["look-up", "topic"])
def test_who_knows_the_rule_reaches_the_least_loss(kind):
    found = gaps_filled(Knowing(kind, 12), kind, 12, count=40)
    assert found["loss"] == pytest.approx(found["best"], abs=1e-3)
    assert (found["right"] == 1.0) == (kind == "look-up")


def test_the_loss_is_over_the_gaps_alone():
    model, batch = make_model("topic", None, length=8), GapBatches("topic", 8, 3).batch(0)
    total, count = gap_loss(model, batch)
    log_probs = model(batch.tokens).logits.log_softmax(-1)
    places = (batch.target != PAD).nonzero().tolist()
    expected = -sum(log_probs[b, t, batch.target[b, t]] for b, t in places)
    torch.testing.assert_close(total, expected)
    assert count == (batch.tokens == UNK).sum() == 3


def test_models_differ_in_their_attention_alone():
    full, mixed = make_model("look-up", None, length=8), make_model("look-up", 3, length=8)
    assert all(type(layer.attention) is MultiHeadAttention for layer in full.stack.layers)
    for layer in mixed.stack.layers:
        assert isinstance(layer.attention, LinformerAttention)
        assert layer.attention.key_mixture.rank == 3
    extra = set(dict(mixed.named_parameters())) - set(dict(full.named_parameters()))
    assert len(extra) == 4 and all("mixture" in name for name in extra)


def test_training_and_the_spectrum():
    torch.manual_seed(0)
    model = make_model("topic", None, length=16)
    batches = GapBatches("topic", 16, 32, seed=1000)
    history = train(model, batches, gap_loss, Settings(steps=60), seed=0, device="cpu")
    assert history.losses[0] > 2.7 and sum(history.losses[-10:]) / 10 < 2.45
    for values in spectrum(model, "topic", 16, count=5):
        assert len(values) == 16
        assert sum(values) == pytest.approx(1)
        assert values == sorted(values, reverse=True)
    even = make_model("topic", None, length=16)
    with torch.no_grad():
        for layer in even.stack.layers:
            layer.attention.query_projection.weight.zero_()
    for values in spectrum(even, "topic", 16, count=3):  # equal weights: rank 1
        assert values[0] == pytest.approx(1, abs=1e-6)


def test_a_recorded_run_has_a_row_per_size_and_figures_per_seed():
    settings = Settings(kinds=("look-up",), ranks=(None, 2), seeds=2, length=8, steps=2)
    rows = compared(settings)["rows"]
    plans = [(row["kind"], row["rank"], len(row["seeds"])) for row in rows]
    assert plans == [("look-up", None, 2), ("look-up", 2, 2)]
    assert rows[0]["parameters"] < rows[1]["parameters"]
    for seed in rows[0]["seeds"] + rows[1]["seeds"]:
        assert math.isfinite(seed["loss"]) and seed["best"] == 0
    assert rows[0]["seeds"][0] != rows[0]["seeds"][1]
