"""Losses in bits: what a guesser and a sure model pay, and only for the steps that count."""

import math
from typing import NamedTuple

import pytest
import torch
from assertions import assert_refused

from attnbook.tasks.algorithms import ntm_tasks
from attnbook.training.losses import bits
from attnbook.training.losses.bits import bit_costs, bit_errors, bit_loss, score_bits


class Output(NamedTuple):
    logits: torch.Tensor


class Constant(torch.nn.Module):
    """Says the same logit everywhere."""

    def __init__(self, logit, width=8):
        super().__init__()
        self.logit, self.width, self.sizes = torch.nn.Parameter(torch.tensor(logit)), width, []

    def forward(self, inputs):
        self.sizes.append(len(inputs))
        return Output(self.logit.expand(*inputs.shape[:2], self.width))


def copies(count=50):
    return ntm_tasks.draw_copy(count, torch.Generator().manual_seed(0), length=(1, 6))


def test_a_model_that_guesses_pays_one_bit_a_bit_on_every_task():
    for kind in ntm_tasks.KINDS:
        batch = ntm_tasks.draw(kind, 30, torch.Generator().manual_seed(0))
        result = score_bits(Constant(0.0, batch.targets.shape[2]), batch)
        assert result["per_bit"] == pytest.approx(1.0, abs=1e-6)
        bits = batch.mask.sum(1).double().mean() * batch.targets.shape[2]
        assert result["per_sequence"] == pytest.approx(float(bits), rel=1e-6)


def test_no_constant_pays_less_than_a_guess_on_fair_bits():
    batch = copies(2000)
    for logit in (-1.0, -0.2, 0.2, 1.0):
        assert score_bits(Constant(logit), batch)["per_bit"] > 1


def test_costs_are_minus_the_log_of_the_probability_to_base_two_and_nothing_where_nothing_counts():
    batch = copies()
    logits = torch.randn(
        batch.targets.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64
    )
    costs = bit_costs(logits, batch.targets, batch.mask)
    p = 1 / (1 + (-logits).exp())
    noticed = torch.where(batch.targets == 1, p, 1 - p)
    for b, t in batch.mask.nonzero().tolist()[::7]:
        for j in range(8):
            assert float(costs[b, t, j]) == pytest.approx(-math.log2(noticed[b, t, j]), rel=1e-9)
    assert (costs[~batch.mask] == 0).all()


def test_wrong_bits_are_counted_where_they_count():
    batch = copies()
    logits = 2 * batch.targets - 1
    logits[~batch.mask] *= -1
    assert bit_errors(logits, batch.targets, batch.mask).tolist() == [0] * 50
    logits[3, batch.mask[3], 2] *= -1
    assert bit_errors(logits, batch.targets, batch.mask)[3] == batch.mask[3].sum()
    assert score_bits(Constant(-30.0), batch)["wrong"] == pytest.approx(
        float(batch.targets.sum() / 50)
    )


def test_scores_do_not_depend_on_how_many_rows_go_through_at_a_time(monkeypatch):
    batch, model = copies(), Constant(0.3).double()
    one = score_bits(model, batch)
    monkeypatch.setattr(bits, "_ROWS", 7)
    two = score_bits(model, batch)
    assert model.sizes == [50] + 7 * [7] + [1] and one == pytest.approx(two, rel=1e-9)
    assert model.training


def test_modes_of_parts_are_kept_and_a_batch_without_bits_is_named():
    batch, model = copies(), Constant(0.3)
    model.part = torch.nn.Dropout().eval()
    score_bits(model, batch)
    assert model.training and not model.part.training
    for nothing in (
        type(batch)(*(tensor[:0] for tensor in batch)),
        batch._replace(mask=torch.zeros_like(batch.mask)),
    ):
        assert_refused("batch", score_bits, model, nothing)


def test_the_loss_is_a_sum_with_its_count_and_its_gradient_leaves_the_other_steps_alone():
    batch = copies()

    class Given(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.logits = torch.nn.Parameter(
                torch.randn(batch.targets.shape, generator=torch.Generator().manual_seed(2))
            )

        def forward(self, inputs):
            return Output(self.logits)

    model = Given()
    total, count = bit_loss(model, batch)
    assert int(count) == int(batch.mask.sum()) * 8
    assert float((total / count).detach()) == pytest.approx(
        score_bits(model, batch)["per_bit"], rel=1e-5
    )
    total.backward()
    assert (model.logits.grad[~batch.mask] == 0).all()
    assert (model.logits.grad[batch.mask] != 0).all()
    expected = (model.logits.detach().sigmoid() - batch.targets) / math.log(2)
    assert torch.allclose(model.logits.grad[batch.mask], expected[batch.mask], atol=1e-6)


def test_half_precision_logits_are_widened():
    batch = copies()
    costs = bit_costs(
        torch.zeros(batch.targets.shape, dtype=torch.bfloat16), batch.targets, batch.mask
    )
    assert costs.dtype == torch.float32


@pytest.mark.parametrize(
    ("logits", "mask"), [((3, 4, 2), (3, 4, 1)), ((3, 4, 1), (3, 4)), ((3, 5, 2), (3, 5))]
)
def test_wrong_shapes_are_named(logits, mask):
    with pytest.raises(ValueError, match="logits and targets must be"):
        bit_costs(torch.zeros(logits), torch.zeros(3, 4, 2), torch.ones(mask, dtype=torch.bool))
    with pytest.raises(ValueError, match="float32"):
        bit_costs(torch.zeros(3, 4, 2), torch.zeros(3, 4, 2), torch.ones(3, 4))
