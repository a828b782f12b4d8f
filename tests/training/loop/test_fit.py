"""The training loop: an update's arithmetic, what it records, refuses, and leaves as it was."""

import math
import pickle
import random
from contextlib import nullcontext

import numpy as np
import pytest
import torch
from assertions import assert_refused
from torch import nn
from torch.nn import functional as F
from training_doubles import PAD, CopyBatches, assert_same_state, flat, make_model, train

from attnbook.training import NonFiniteError, inverse_sqrt, token_loss


def by_hand(model, batches, steps, learning_rate, clip_norm, factor=lambda step: 1.0):
    """The plain loop in PyTorch that `fit` promises to equal: mean over tokens, clip, then step."""
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate)
    losses, norms = [], []
    for step in range(steps):
        batch = batches.batch(step)
        logits = model(batch.source, batch.lengths, batch.target_in).logits
        loss = F.cross_entropy(logits.flatten(0, 1), batch.target_out.flatten(), ignore_index=PAD)
        optimizer.zero_grad()
        loss.backward()
        norms.append(nn.utils.clip_grad_norm_(model.parameters(), clip_norm).item())
        optimizer.param_groups[0]["lr"] = learning_rate * factor(step)
        optimizer.step()
        losses.append(loss.item())
    return losses, norms


def double():
    return make_model(dtype=torch.float64)


def assert_equals_by_hand(model, history, *given):
    other = double()
    losses, norms = by_hand(other, CopyBatches(), *given)
    assert max(norms) > 0.5 > min(norms)  # some are clipped, some are not
    assert history.losses == pytest.approx(losses, rel=1e-10)
    assert history.grad_norms == pytest.approx(norms, rel=1e-10)
    torch.testing.assert_close(flat(model), flat(other), rtol=1e-10, atol=1e-12)


def test_equals_a_plain_loop():
    options = dict(learning_rate=0.01, schedule=inverse_sqrt(4), clip_norm=0.5)
    model, history = train(double(), steps=12, **options)
    assert_equals_by_hand(model, history, 12, 0.01, 0.5, inverse_sqrt(4))
    assert history.steps == 12 and history.seconds > 0 and history.resumed_from == 0


@pytest.mark.parametrize("rows", [1, 4, 6, 100])
def test_parts_of_a_batch_give_the_gradient_of_the_whole(rows):
    """The rows have one to six terms each: a mean of the parts' means would be another number."""
    seen = []

    def loss(model, batch):
        seen.append(len(batch.source))
        return token_loss(model, batch)

    options = dict(learning_rate=0.01, clip_norm=0.5, micro_batch=rows)
    model, history = train(double(), loss=loss, steps=8, **options)
    assert seen == 8 * {1: [1] * 6, 4: [4, 2], 6: [6], 100: [6]}[rows]
    assert_equals_by_hand(model, history, 8, 0.01, 0.5)


def step_of_sgd(**options):
    """By how much one step at the rate 0.1 moves the weights, and its history."""
    model, history = train(double(), steps=1, optimizer="sgd", learning_rate=0.1, **options)
    return flat(model) - flat(double()), history


@pytest.mark.parametrize("rows", [None, 1, 4])
def test_the_sum_over_a_sequence_is_the_mean_times_the_terms_of_a_row(rows):
    """By SGD, whose step is the gradient; the history keeps the mean over terms."""
    (mean, of_mean), (summed, of_sum) = (
        step_of_sgd(clip_norm=None, micro_batch=rows, reduction=reduction)
        for reduction in ("mean", "sequence")
    )
    target = CopyBatches().batch(0).target_out
    terms = (target != PAD).sum().item() / len(target)
    assert terms > 2
    torch.testing.assert_close(summed, mean * terms, rtol=1e-10, atol=1e-14)
    assert of_sum.losses == pytest.approx(of_mean.losses, rel=1e-12)
    assert of_sum.grad_norms[0] == pytest.approx(of_mean.grad_norms[0] * terms, rel=1e-10)


@pytest.mark.parametrize("limit", [0.01, None])
def test_one_step_of_sgd_is_clipped_to_the_norm(limit):
    step, history = step_of_sgd(clip_norm=limit)
    assert history.grad_norms[0] > 0.1  # recorded as it was before clipping
    assert step.norm().item() == pytest.approx(0.1 * (limit or history.grad_norms[0]), rel=1e-3)


def test_an_optimizer_of_the_callers_making():
    def two_rates(parameters):
        return torch.optim.SGD(
            [{"params": parameters[:1], "lr": 0.0}, {"params": parameters[1:], "lr": 0.1}]
        )

    model, _ = train(optimizer=two_rates, schedule="linear")
    assert torch.equal(model.source.weight, make_model().source.weight)
    assert not torch.equal(model.mix.weight, make_model().mix.weight)


@pytest.mark.parametrize("rows", [None, 2])
def test_parameters_that_the_optimizer_does_not_hold_are_as_frozen_ones(rows):
    """Their gradients, which nobody clears, neither grow the norm nor shrink the step."""

    def head(parameters):
        return torch.optim.SGD(parameters[-2:], lr=0.1)

    runs = []
    for frozen in (True, False):
        model = make_model()
        for parameter in list(model.parameters())[:-2]:
            parameter.requires_grad_(not frozen)
            parameter.grad = torch.full_like(parameter, 9.0)  # from before
        _, history = train(model, steps=4, optimizer=head, clip_norm=0.1, micro_batch=rows)
        runs.append((history.grad_norms, flat(model).tolist()))
    assert runs[0] == runs[1]


def draws():
    return random.random(), np.random.rand(), torch.rand(()).item()


def test_the_callers_random_numbers_go_on_as_if_fit_had_not_been_called():
    random.seed(5), np.random.seed(5), torch.manual_seed(5)
    expected = draws()
    random.seed(5), np.random.seed(5), torch.manual_seed(5)
    train(make_model(dropout=0.5))
    assert draws() == expected


def test_every_generator_is_seeded_whatever_the_callers_random_state():
    seen = []

    def loss(model, batch):
        seen.append(draws())
        return token_loss(model, batch)

    for seed in (1, 1, 2):
        train(loss=loss, seed=seed)
        draws()  # the next call starts from another state of the caller
    assert seen[:2] == seen[2:4] and len(set(seen)) == 4
    for one, other in zip(seen[2], seen[4]):
        assert one != other


def test_evaluation_is_called_on_time_in_eval_mode_and_does_not_change_training():
    def evaluate(model):
        assert not model.training and not torch.is_grad_enabled()
        draws()
        return {"norm": model.readout.weight.norm(), "rate": np.float32(0.5)}

    plain, _ = train(make_model(dropout=0.5), steps=7)
    watched, history = train(make_model(dropout=0.5), steps=7, evaluate=evaluate, evaluate_every=3)
    assert_same_state(plain, watched)
    assert [step for step, _ in history.evaluations] == [3, 6, 7]
    assert history.evaluations[-1][1] == {"norm": watched.readout.weight.norm().item(), "rate": 0.5}


@pytest.mark.parametrize(("every", "steps"), [(None, [4]), (2, [2, 4])])
def test_evaluation_at_the_end_comes_once(every, steps):
    _, history = train(steps=4, evaluate=lambda model: 1.0, evaluate_every=every)
    assert history.evaluations == [(step, 1.0) for step in steps]


@pytest.mark.parametrize("fails", [False, True])
def test_modes_are_put_back(fails):
    model = make_model(dropout=0.5).eval()
    model.dropout.train()

    def loss(model, batch):
        assert model.training and model.readout.training
        if fails:
            raise RuntimeError("stop here")
        return token_loss(model, batch)

    with pytest.raises(RuntimeError, match="stop here") if fails else nullcontext():
        train(model, loss=loss)
    assert not model.training and not model.readout.training and model.dropout.training


def test_the_model_is_trained_in_place_and_not_wrapped():
    model = make_model()
    forward, first = type(model).forward, next(model.parameters())
    for precision in ("bf16", "no"):
        train(model, precision=precision)
        assert next(model.parameters()) is first and first.dtype == torch.float32
        assert "forward" not in vars(model) and type(model).forward is forward
        assert model(*CopyBatches().batch(0)[:3]).logits.dtype == torch.float32


def steep(bias):
    """0, with a slope without end."""
    return (bias - bias.detach()).sum().sqrt()


@pytest.mark.parametrize(
    ("what", "value", "spoil"),
    [
        ("loss", "nan", lambda total, bias: total * math.nan),
        ("loss", "inf", lambda total, bias: total * math.inf),
        ("gradient", "nan", lambda total, bias: total + 0 * steep(bias)),
        ("gradient", "inf", lambda total, bias: total + steep(bias)),
    ],
)
def test_stops_before_the_weights_are_touched(what, value, spoil):
    model, calls = make_model(), []

    def poisoned(model, batch):
        total, count = token_loss(model, batch)
        calls.append(0)
        return spoil(total, model.mix.bias) if len(calls) == 4 else total, count

    with pytest.raises(NonFiniteError, match=f"{what} must be finite, got {value}") as caught:
        train(model, loss=poisoned, steps=9)
    assert isinstance(caught.value, ValueError)
    assert (caught.value.step, caught.value.what) == (3, what)
    assert ("mix.bias" in str(caught.value)) == (what == "gradient")
    assert_same_state(model, train(steps=3)[0])


def test_the_error_survives_the_way_from_another_process():
    error = NonFiniteError("loss", 3, float("inf"), " (first in a)")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is NonFiniteError and str(again) == str(error)
    assert (again.what, again.step, again.value) == ("loss", 3, float("inf"))


@pytest.mark.parametrize("factor", [float("nan"), float("inf"), -1.0, None])
def test_a_schedule_without_a_number_stops_before_the_weights_are_touched(factor, tmp_path):
    model = make_model()
    message = f"schedule must give a finite number >= 0, got {factor!r} at step 2"
    with pytest.raises(ValueError, match=message):
        train(model, steps=9, schedule=lambda step: factor if step == 2 else 1.0)
    assert_same_state(model, train()[0])
    options = dict(schedule=lambda step: factor, checkpoint_dir=tmp_path)
    assert_refused("schedule", train, **options)


def returning(change):
    """A loss with another result."""
    return {"loss": lambda model, batch: change(*token_loss(model, batch))}


class Always:
    """One batch at every step."""

    def __init__(self, batch):
        self.batch = lambda step: batch


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "steps"),
        ({"seed": -1}, "seed"),
        ({"learning_rate": 0}, "learning_rate"),
        ({"clip_norm": 0}, "clip_norm"),
        ({"micro_batch": 0}, "micro_batch"),
        ({"evaluate": len, "evaluate_every": 0}, "evaluate_every"),
        ({"optimizer": torch.optim.SGD([torch.zeros(1)])}, "optimizer must be a"),
        ({"optimizer": lambda parameters: None}, "optimizer must return"),
        ({"optimizer": torch.optim.LBFGS}, "optimizer must make"),
        ({"loss": "token_loss"}, "loss"),
        ({"evaluate": "loss"}, "evaluate"),
        ({"evaluate": lambda model: torch.zeros(3)}, "evaluate"),
        ({"schedule": "noam"}, "schedule"),
        ({"precision": "fp8"}, "precision"),
        ({"precision": "fp16", "device": "cpu"}, "precision"),
        ({"save_every": 5}, "save_every"),
        ({"evaluate_every": 5}, "evaluate_every must be None"),
        ({"model": 1}, "model must be"),
        ({"batches": [1, 2]}, "batches"),
        ({"batches": Always(())}, "batches"),
        ({"batches": Always({"seed": 3})}, "batches"),
        ({"batches": Always([1, 2])}, "batches"),
        ({"average": 1.0}, "average"),
        ({"weight_decay": -1}, "weight_decay"),
        ({"warmup_steps": 2, "schedule": inverse_sqrt(2)}, "warmup_steps"),
        ({"model": nn.Identity()}, "model must have"),
        ({"device": "gpu"}, "device must be None"),
        ({"device": "cuda:99"}, "device"),
        (returning(lambda total, count: (total * 0, count * 0)), "loss must count"),
        (returning(lambda total, count: total), "loss must return (total"),
        (returning(lambda total, count: (total.detach(), 1)), "loss must return a total"),
        (returning(lambda total, count: (total.expand(2), 1)), "loss must return a total"),
        (returning(lambda total, count: (total, torch.ones(2))), "loss must return a count"),
    ],
)
def test_bad_input_is_named(options, message):
    assert_refused(message, train, **options)


def test_two_precisions_in_one_process_and_an_accelerator_of_the_callers():
    """An `Accelerator` keeps one precision for the life of the process; `fit` neither makes nor
    disturbs one."""
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState, PartialState

    autocast = []

    def loss(model, batch):
        autocast.append(torch.is_autocast_enabled("cpu"))
        return token_loss(model, batch)

    def trainings():
        for precision in ("bf16", "no", "bf16"):
            train(loss=loss, steps=1, precision=precision, device="cpu")
        assert autocast == [True, False, True]
        autocast.clear()

    AcceleratorState._reset_state(reset_partial_state=True)
    trainings()
    assert not AcceleratorState._shared_state and not PartialState._shared_state
    try:
        mine = Accelerator(mixed_precision="no", cpu=True)
        trainings()
        assert mine.mixed_precision == "no" and mine.device.type == "cpu"
        assert Accelerator().mixed_precision == "no"
    finally:
        AcceleratorState._reset_state(reset_partial_state=True)


def test_frozen_parameters_and_unused_ones_stay():
    model = make_model()
    model.unused = nn.Linear(2, 2)
    model.source.weight.requires_grad_(False)
    before = [model.source.weight.clone(), model.unused.weight.detach().clone()]
    train(model, optimizer="adamw")
    assert torch.equal(model.source.weight, before[0])
    assert torch.equal(model.unused.weight, before[1])


def test_nested_batches_of_another_kind():
    class Pairs:
        def batch(self, step):
            x = torch.randn(8, 3, generator=torch.Generator().manual_seed(step))
            return {"x": x, "y": [x.sum(1, keepdim=True), None]}

    def squares(model, batch):
        return (model(batch["x"]) - batch["y"][0]).square().sum(), len(batch["x"])

    model = nn.Linear(3, 1)
    _, history = train(model, Pairs(), squares, steps=400, learning_rate=0.05)
    assert history.losses[-1] < 1e-4
    torch.testing.assert_close(model.weight.data, torch.ones(1, 3), atol=0.05, rtol=0)


def test_progress_goes_to_stderr_as_text_and_can_be_silenced(capfd, monkeypatch):
    monkeypatch.setenv("ATTNBOOK_PROGRESS", "0")
    train(progress=True)
    assert capfd.readouterr() == ("", "")
    monkeypatch.delenv("ATTNBOOK_PROGRESS")
    train(progress=True)
    out, err = capfd.readouterr()
    assert out == "" and "2/2" in err and "loss" in err
    train(progress=False)
    assert capfd.readouterr() == ("", "")
