"""Sums over long sequences, small: what is measured, on models that are known."""

import math
from types import SimpleNamespace

import torch

from attnbook.tasks.algorithms import adding_problem
from attnbook_runs.language import long_sums


def test_long_sums_say_for_each_length_what_is_solved(figures_of):
    sizes = dict(lengths=(12,), steps=10, test=50, hidden_size=8, batch_size=10)
    rows = figures_of("feed-forward-attention-adding", **sizes)["rows"]
    assert [(r["length"], r["pooling"]) for r in rows] == [(12, "attention"), (12, "mean")]
    assert all(0 <= r["solved"] <= 1 and len(r["course"]) == 10 for r in rows)
    assert rows[0]["weight_on_marked"] <= 2 * math.e**2 / (2 * math.e**2 + 10)
    assert abs(rows[1]["weight_on_marked"] - 2 / 12.5) < 0.02


def test_solved_counts_answers_off_by_less_than_the_tolerance():
    held = adding_problem.draw("adding", 10, 250, torch.Generator().manual_seed(0))

    class Off(torch.nn.Module):
        def __init__(self, by):
            super().__init__()
            self.by, self.start = torch.nn.Parameter(torch.tensor(by)), 0

        def forward(self, inputs, lengths):
            rows = slice(self.start, self.start + len(inputs))
            self.start += len(inputs)
            return SimpleNamespace(output=held.target[rows] + self.by)

    assert long_sums.share_solved(Off(0.039), held) == 1
    assert long_sums.share_solved(Off(-0.041), held) == 0


def test_most_weight_is_that_of_two_scores_of_one_among_minus_ones():
    scores = torch.full((50,), -1.0, dtype=torch.float64)
    scores[[3, 20]] = 1.0
    assert abs(long_sums.most_weight(50) - float(scores.softmax(0)[[3, 20]].sum())) < 1e-12


def test_the_lstm_answers_from_the_last_real_step():
    torch.manual_seed(0)
    model, x = long_sums.LastState(2, 4), torch.randn(2, 6, 2)
    lengths = torch.tensor([6, 3])
    alone = model(x[1:, :3], lengths[1:]).output
    torch.testing.assert_close(model(x, lengths).output[1:], alone)
