from functools import partial

import torch
from assertions import assert_refused

from attnbook.decoding import Step
from attnbook.mechanisms import (
    LocalAttention,
    MemoryCompressedAttention,
    MixtureOfExperts,
    MultiHeadAttention,
)
from attnbook.tasks import EOS, TOKEN_IDS
from attnbook.tasks.text import reports
from attnbook.training.losses.prompted import prompted_loss
from attnbook_runs.language import summaries
from attnbook_runs.language.summaries import (
    MODELS,
    CompressionSettings,
    LengthSettings,
    by_compression,
    by_length,
    make_model,
    quality,
    saved_mb,
    summary_loss,
)


def test_models_are_made_of_what_they_are_called():
    kinds = {
        kind: [type(layer.attention) for layer in make_model(kind).stack.layers] for kind in MODELS
    }
    local, compressed = LocalAttention, MemoryCompressedAttention
    assert kinds == {
        "full": [MultiHeadAttention] * 3,
        "local": [local] * 3,
        "L-M-L": [local, compressed, local],
        "L-M-L-M-L": [local, compressed, local, compressed, local],
    }
    layers = make_model("L-M-L", experts=3, stride=6).stack.layers
    mixed = [isinstance(layer.feed_forward, MixtureOfExperts) for layer in layers]
    assert mixed == [False, True, False]
    assert layers[1].attention.stride == layers[1].attention.kernel_size == 6
    assert_refused("kind", make_model, "M")


def test_the_balance_is_part_of_the_loss():
    torch.manual_seed(0)
    model, batch = make_model("L-M-L", experts=3), reports.ReportBatches(8, 4).batch(0)
    torch.manual_seed(1)
    total, count = summary_loss(model, batch)
    torch.manual_seed(1)
    plain, again = prompted_loss(model, batch)
    balance = model.stack.layers[1].feed_forward.balance
    assert count == again == 4 * 9 and balance > 0
    torch.testing.assert_close(total, plain + 36 * balance)
    assert summary_loss(make_model("full"), batch)[0].requires_grad


class Reader(torch.nn.Module):
    """Finds the facts by the rule of the reports, and says them: what a perfect model would do."""

    token_ids = TOKEN_IDS

    def __init__(self):
        super().__init__()
        self.none = torch.nn.Parameter(torch.zeros(1))
        self.words = reports.vocabulary()

    def encode(self, source, lengths):
        found = []
        for row in source.tolist():
            words = self.words.decode(row)
            starts = [k for k in range(0, len(words), 6) if words[k] == "today"]
            today = {words[k + 2]: words[k + 4] for k in starts}
            said = [w for field in reports.FIELDS for w in (field, today[field])]
            found.append([*self.words.encode(said), EOS])
        return torch.tensor(found)

    def start(self, memory):
        return torch.zeros(len(memory), dtype=torch.long)

    def step(self, token, state, memory):
        said = memory.gather(1, state[:, None])[:, 0]
        logits = torch.nn.functional.one_hot(said, len(self.words)) * 9.0
        return Step(logits + self.none, state + 1, None)


def test_quality_of_a_perfect_reader_and_of_a_model_that_knows_nothing():
    assert quality(Reader(), 8, count=50) == {"facts": 1.0, "exact": 1.0, "reports": 50}
    torch.manual_seed(0)
    assert quality(make_model("local"), 8, count=50)["exact"] == 0.0


def test_what_is_saved_grows_with_the_length():
    saved = {
        kind: [saved_mb(make_model(kind), n) for n in (16, 64, 256)] for kind in ("full", "local")
    }
    assert saved["local"][2] < 4.5 * saved["local"][1] and saved["full"][2] > 6 * saved["full"][1]


def test_recorded_runs_hold_what_the_book_shows(monkeypatch):
    monkeypatch.setattr(summaries, "quality", partial(quality, count=50))
    small = dict(steps=2, batch_size=2)
    rows = by_length(LengthSettings(models=("full", "L-M-L"), lengths=(4, 6), **small))["rows"]
    plans = [(row["model"], row["sentences"], row["words"]) for row in rows]
    assert plans == [("full", 4, 24), ("L-M-L", 4, 24), ("full", 6, 36), ("L-M-L", 6, 36)]
    for row in rows:
        assert 0 <= row["facts"] <= 1
        assert row["parameters"] > 50_000 and row["losses"]
    rows = by_compression(CompressionSettings(strides=(3, 6), sentences=4, **small))["rows"]
    plans = [(row["stride"], row["loss_on"]) for row in rows]
    assert plans == [(3, "summary"), (6, "summary"), (3, "all")]
