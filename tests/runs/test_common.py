"""What the experiments share."""

import torch
from torch import nn

from attnbook_runs.common import Best


def test_the_best_weights_are_kept_also_over_a_stop(tmp_path):
    model, values = nn.Linear(1, 1), iter([3.0, 1.0, 2.0, 1.0])

    def turn(best, weight):
        nn.init.constant_(model.weight, weight)
        return best(model)

    before = Best(lambda model: next(values), tmp_path / "kept")
    assert [turn(before, weight) for weight in (0.0, 1.0)] == [3.0, 1.0]
    after = Best(lambda model: next(values), tmp_path / "kept")
    assert [turn(after, weight) for weight in (2.0, 3.0)] == [2.0, 1.0]  # the first of equals stays
    after.restore(model)
    assert after.value == 1.0 and torch.equal(model.weight, torch.ones(1, 1))


def test_the_best_may_be_the_largest(tmp_path):
    model = nn.Linear(1, 1, bias=False)
    best = Best(lambda model: model.weight.item(), tmp_path, largest=True)
    for weight in (0.0, 2.0, 1.0):
        nn.init.constant_(model.weight, weight)
        best(model)
    best.restore(model)
    assert best.value == model.weight.item() == 2.0
