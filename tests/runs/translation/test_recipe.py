"""The recipe of the Transformer and its changes, at a size of seconds."""

import pytest
import torch

from attnbook.decoding import Decoded, Step
from attnbook.tasks import TOKEN_IDS, make_task
from attnbook.training import inverse_sqrt
from attnbook_runs.translation.recipe import CHANGES, measure, without_rise


def test_the_recipe_is_measured_part_by_part(figures_of):
    tiny = dict(train_pairs=60, test_pairs=20, phrases=(1, 1), steps=6, warmup=3, averaged=2)
    tiny |= dict(d_model=8, num_heads=2, d_feed_forward=8, num_layers=1, save_every=2)
    rows, again = (figures_of("transformer-recipe", **tiny)["rows"] for _ in range(2))
    assert rows == again and [row["changed"] for row in rows] == list(CHANGES)
    assert len({row["perplexity"] for row in rows}) == len(rows)  # every change changes something
    for row in rows:
        assert 0 <= row["exact"] <= 1
        assert row["perplexity"] > 1 and row["perplexity_averaged"] != row["perplexity"]


def test_only_the_rise_is_missing():
    rise, flat = inverse_sqrt(10), without_rise(10)
    assert [flat(k) for k in range(10)] == [1.0] * 10 and rise(0) == 0.1
    assert all(flat(k) == rise(k) for k in range(9, 50))


def test_a_perfect_model_is_measured_as_one():
    task = make_task("copy", train=4, valid=0, test=10, symbols=5, length=(2, 5))

    class Copier(torch.nn.Module):
        """Says the source again: knows at which position it stands, and is sure."""

        token_ids = TOKEN_IDS

        def __init__(self, sure):
            super().__init__()
            self.sure = torch.nn.Parameter(torch.tensor(sure))

        def encode(self, source, lengths):
            ends = torch.nn.functional.pad(source, (0, 1)).scatter(1, lengths[:, None], 2)  # EOS
            return self.sure * torch.nn.functional.one_hot(ends, len(task.target_vocab))

        def start(self, memory):
            return torch.zeros(len(memory), dtype=torch.long)

        def step(self, token, state, memory):
            return Step(memory[torch.arange(len(state)), state], state + 1, None)

        def forward(self, source, lengths, target_in):
            return Decoded(self.encode(source, lengths), None)

    assert measure(Copier(50.0), task.test, task) == {"exact": 1.0, "perplexity": 1.0}
    unsure = measure(Copier(0.0), task.test, task)
    assert unsure["perplexity"] == pytest.approx(len(task.target_vocab), abs=1e-3)
    assert unsure["exact"] == 0
