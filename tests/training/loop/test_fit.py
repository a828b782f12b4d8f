"""The training loop: arithmetic of one update, what it records, what it refuses, what it leaves
as it was.
"""

import pickle
import random
from functools import partial

import numpy as np
import pytest
import torch
from refusing import assert_refused
from torch import nn
from torch.nn import functional as F
from training_doubles import PAD, CopyBatches, make_model

from attnbook.decoding import greedy
from attnbook.training import NonFiniteError, exact_match, fit, inverse_sqrt, token_loss


@pytest.fixture(autouse=True)
def quiet(monkeypatch):
    monkeypatch.setenv("ATTNBOOK_PROGRESS", "0")


def weights(model):
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


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


def test_equals_a_plain_loop():
    model, other = make_model(dtype=torch.float64), make_model(dtype=torch.float64)
    history = fit(
        model,
        CopyBatches(),
        token_loss,
        steps=12,
        learning_rate=0.01,
        schedule=inverse_sqrt(4),
        clip_norm=0.5,
    )
    losses, norms = by_hand(other, CopyBatches(), 12, 0.01, 0.5, inverse_sqrt(4))
    assert max(norms) > 0.5 > min(norms)  # some are clipped, some are not
    assert history.losses == pytest.approx(losses, rel=1e-10)
    assert history.grad_norms == pytest.approx(norms, rel=1e-10)
    torch.testing.assert_close(weights(model), weights(other), rtol=1e-10, atol=1e-12)
    assert history.steps == 12 and history.seconds > 0 and history.resumed_from == 0


@pytest.mark.parametrize("rows", [1, 4, 6, 100])
def test_parts_of_a_batch_give_the_gradient_of_the_whole(rows):
    """The rows have one to six terms each: a mean of the parts' means would be another number."""
    model, other = make_model(dtype=torch.float64), make_model(dtype=torch.float64)
    seen = []

    def loss(model, batch):
        seen.append(len(batch.source))
        return token_loss(model, batch)

    history = fit(
        model, CopyBatches(), loss, steps=8, learning_rate=0.01, clip_norm=0.5, micro_batch=rows
    )
    losses, norms = by_hand(other, CopyBatches(), 8, 0.01, 0.5)
    assert seen == 8 * {1: [1] * 6, 4: [4, 2], 6: [6], 100: [6]}[rows]
    assert history.losses == pytest.approx(losses, rel=1e-10)
    assert history.grad_norms == pytest.approx(norms, rel=1e-10)
    torch.testing.assert_close(weights(model), weights(other), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("rows", [None, 1, 4])
def test_the_sum_over_a_sequence_is_the_mean_times_the_terms_of_a_row(rows):
    """By SGD, whose step is the gradient; the history keeps the mean over terms."""
    steps = {}
    for reduction in ("mean", "sequence"):
        model = make_model(dtype=torch.float64)
        before = weights(model)
        history = fit(
            model,
            CopyBatches(),
            token_loss,
            steps=1,
            optimizer="sgd",
            learning_rate=0.1,
            clip_norm=None,
            micro_batch=rows,
            reduction=reduction,
        )
        steps[reduction] = weights(model) - before, history
    target = CopyBatches().batch(0).target_out
    terms = (target != PAD).sum().item() / len(target)
    assert terms > 2
    (mean, of_mean), (summed, of_sum) = steps["mean"], steps["sequence"]
    torch.testing.assert_close(summed, mean * terms, rtol=1e-10, atol=1e-14)
    assert of_sum.losses == pytest.approx(of_mean.losses, rel=1e-12)
    assert of_sum.grad_norms[0] == pytest.approx(of_mean.grad_norms[0] * terms, rel=1e-10)


def test_learns_the_copy_task():
    model = make_model(width=32)
    history = fit(model, CopyBatches(32), token_loss, steps=500, learning_rate=1e-2)
    test = CopyBatches(200, seed=7).batch(0)
    references = [
        row[:n].tolist() for row, n in zip(test.source, test.lengths.tolist(), strict=True)
    ]
    trained = exact_match(greedy(model, test.source, test.lengths, 7).tokens, references)
    untrained = make_model(width=32)
    chance = exact_match(greedy(untrained, test.source, test.lengths, 7).tokens, references)
    assert history.losses[0] > 1.7 > 0.6 > history.losses[-1]
    assert trained > 0.25 > chance


def test_one_step_of_sgd_is_clipped_to_the_norm():
    model, before = make_model(), weights(make_model())
    history = fit(
        model,
        CopyBatches(),
        token_loss,
        steps=1,
        optimizer="sgd",
        learning_rate=0.1,
        clip_norm=0.01,
    )
    assert history.grad_norms[0] > 0.1  # recorded as it was before clipping
    assert (weights(model) - before).norm().item() == pytest.approx(0.1 * 0.01, rel=1e-3)


def test_no_clipping():
    model, before = make_model(), weights(make_model())
    history = fit(
        model,
        CopyBatches(),
        token_loss,
        steps=1,
        optimizer="sgd",
        learning_rate=0.1,
        clip_norm=None,
    )
    assert (weights(model) - before).norm().item() == pytest.approx(
        0.1 * history.grad_norms[0], rel=1e-4
    )


@pytest.mark.parametrize("name", ["adam", "adamw", "sgd", "adadelta"])
def test_optimizers_by_name(name):
    rate = {"sgd": 0.5, "adadelta": 10.0}.get(name, 1e-2)
    history = fit(
        make_model(), CopyBatches(16), token_loss, steps=100, optimizer=name, learning_rate=rate
    )
    assert np.mean(history.losses[-5:]) < 0.95 * history.losses[0]


def test_an_optimizer_of_the_callers_making():
    model = make_model()

    def two_rates(parameters):
        return torch.optim.SGD(
            [{"params": parameters[:1], "lr": 0.0}, {"params": parameters[1:], "lr": 0.1}]
        )

    first = model.source.weight.clone()
    fit(model, CopyBatches(), token_loss, steps=2, optimizer=two_rates, schedule="linear")
    assert torch.equal(model.source.weight, first)
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
        history = fit(
            model,
            CopyBatches(),
            token_loss,
            steps=4,
            optimizer=head,
            clip_norm=0.1,
            micro_batch=rows,
        )
        runs.append((history.grad_norms, weights(model).tolist()))
    assert runs[0] == runs[1]


def test_the_same_seed_gives_the_same_run_whatever_the_callers_random_state():
    runs = []
    for caller in (1, 2):
        torch.manual_seed(caller)
        model = make_model(dropout=0.5)
        fit(model, CopyBatches(), token_loss, steps=5, seed=3)
        runs.append(weights(model))
    assert torch.equal(*runs)
    model = make_model(dropout=0.5)
    fit(model, CopyBatches(), token_loss, steps=5, seed=4)
    assert not torch.equal(weights(model), runs[0])


def test_the_callers_random_numbers_go_on_as_if_fit_had_not_been_called():
    def draws():
        return random.random(), np.random.rand(), torch.rand(()).item()

    random.seed(5), np.random.seed(5), torch.manual_seed(5)
    expected = draws()
    random.seed(5), np.random.seed(5), torch.manual_seed(5)
    fit(make_model(dropout=0.5), CopyBatches(), token_loss, steps=2)
    assert draws() == expected


def test_every_generator_is_seeded():
    seen = []

    def loss(model, batch):
        seen.append((random.random(), np.random.rand(), torch.rand(()).item()))
        return token_loss(model, batch)

    fit(make_model(), CopyBatches(), loss, steps=2, seed=1)
    # the second call starts from another state of the caller
    random.random(), np.random.rand(), torch.rand(())
    fit(make_model(), CopyBatches(), loss, steps=2, seed=1)
    assert seen[:2] == seen[2:] and seen[0] != seen[1]


def test_evaluation_is_called_on_time_in_eval_mode_and_does_not_change_training():
    def evaluate(model):
        assert not model.training and not torch.is_grad_enabled()
        random.random(), np.random.rand(), torch.rand(9)
        return {"norm": model.readout.weight.norm(), "rate": np.float32(0.5)}

    plain, watched = make_model(dropout=0.5), make_model(dropout=0.5)
    fit(plain, CopyBatches(), token_loss, steps=7)
    history = fit(watched, CopyBatches(), token_loss, steps=7, evaluate=evaluate, evaluate_every=3)
    assert torch.equal(weights(plain), weights(watched))
    assert [step for step, _ in history.evaluations] == [3, 6, 7]
    assert history.evaluations[-1][1] == {"norm": watched.readout.weight.norm().item(), "rate": 0.5}


def test_evaluation_at_the_end_only_and_once():
    history = fit(make_model(), CopyBatches(), token_loss, steps=4, evaluate=lambda model: 1.0)
    assert history.evaluations == [(4, 1.0)]
    history = fit(
        make_model(),
        CopyBatches(),
        token_loss,
        steps=4,
        evaluate=lambda model: 1.0,
        evaluate_every=2,
    )
    assert history.evaluations == [(2, 1.0), (4, 1.0)]


def test_evaluation_must_return_numbers():
    assert_refused(
        "evaluate",
        lambda: fit(
            make_model(), CopyBatches(), token_loss, steps=1, evaluate=lambda model: torch.zeros(3)
        ),
    )


@pytest.mark.parametrize("fails", [False, True])
def test_modes_are_put_back(fails):
    model = make_model(dropout=0.5).eval()
    model.dropout.train()

    def loss(model, batch):
        assert model.training and model.readout.training
        if fails:
            raise RuntimeError("stop here")
        return token_loss(model, batch)

    if fails:
        with pytest.raises(RuntimeError, match="stop here"):
            fit(model, CopyBatches(), loss, steps=1)
    else:
        fit(model, CopyBatches(), loss, steps=1)
    assert not model.training and not model.readout.training and model.dropout.training


def test_the_model_is_trained_in_place_and_not_wrapped():
    model = make_model()
    forward, first = type(model).forward, next(model.parameters())
    for precision in ("bf16", "no"):
        fit(model, CopyBatches(), token_loss, steps=1, precision=precision)
        assert next(model.parameters()) is first and first.dtype == torch.float32
        assert "forward" not in vars(model) and type(model).forward is forward
        assert model(*CopyBatches().batch(0)[:3]).logits.dtype == torch.float32


class Poison:
    """A loss that is multiplied by `value`, or has `value` added to one gradient, at one step."""

    def __init__(self, step, value, where):
        self.step, self.value, self.where, self.calls = step, value, where, 0

    def __call__(self, model, batch):
        total, count = token_loss(model, batch)
        if self.calls == self.step:
            if self.where == "loss":
                total = total * self.value
            else:
                total = total + _Spoil.apply(model.mix.bias, self.value)
        self.calls += 1
        return total, count


class _Spoil(torch.autograd.Function):
    @staticmethod
    def forward(context, tensor, value):
        context.value = value
        return tensor.sum() * 0

    @staticmethod
    def backward(context, gradient):
        return gradient * context.value * torch.ones(8), None


@pytest.mark.parametrize("where", ["loss", "gradient"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_stops_before_the_weights_are_touched(where, value):
    model, twin = make_model(), make_model()
    fit(twin, CopyBatches(), token_loss, steps=3)
    with pytest.raises(
        NonFiniteError, match=f"{where} must be finite, got (nan|inf) at step 3"
    ) as caught:
        fit(model, CopyBatches(), Poison(3, value, where), steps=9)
    assert isinstance(caught.value, ValueError)
    assert caught.value.step == 3 and caught.value.what == where
    assert torch.equal(weights(model), weights(twin))
    if where == "gradient":
        assert "mix.bias" in str(caught.value)


def test_the_error_survives_the_way_from_another_process():
    error = NonFiniteError("loss", 3, float("inf"), " (first in a)")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is NonFiniteError and str(again) == str(error)
    assert (again.what, again.step, again.value) == ("loss", 3, float("inf"))


@pytest.mark.parametrize("factor", [float("nan"), float("inf"), -1.0, None])
def test_a_schedule_without_a_number_stops_before_the_weights_are_touched(factor, tmp_path):
    model, twin = make_model(), make_model()
    fit(twin, CopyBatches(), token_loss, steps=2)
    with pytest.raises(
        ValueError, match=f"schedule must give a finite number >= 0, got {factor!r} at step 2"
    ):
        fit(
            model,
            CopyBatches(),
            token_loss,
            steps=9,
            schedule=lambda step: factor if step == 2 else 1.0,
        )
    assert torch.equal(weights(model), weights(twin))
    assert_refused(
        "schedule",
        lambda: fit(
            model,
            CopyBatches(),
            token_loss,
            steps=9,
            schedule=lambda step: factor,
            checkpoint_dir=tmp_path,
        ),
    )


def test_a_batch_without_terms():
    def nothing(model, batch):
        total, count = token_loss(model, batch)
        return total * 0, count * 0

    assert_refused("loss", lambda: fit(make_model(), CopyBatches(), nothing, steps=1))


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (lambda model, batch: token_loss(model, batch)[0], "loss must return (total"),
        (
            lambda model, batch: (token_loss(model, batch)[0].detach(), 1),
            "loss must return a total",
        ),
        (
            lambda model, batch: (token_loss(model, batch)[0].expand(2), 1),
            "loss must return a total",
        ),
        (
            lambda model, batch: (token_loss(model, batch)[0], torch.ones(2)),
            "loss must return a count",
        ),
    ],
)
def test_losses_of_the_wrong_kind(loss, message):
    assert_refused(message, fit, make_model(), CopyBatches(), loss, steps=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"steps": 0}, "steps"),
        ({"seed": -1}, "seed"),
        ({"learning_rate": 0}, "learning_rate"),
        ({"clip_norm": 0}, "clip_norm"),
        ({"micro_batch": 0}, "micro_batch"),
        ({"evaluate": len, "evaluate_every": 0}, "evaluate_every"),
        ({"optimizer": "lion"}, "optimizer"),
        ({"optimizer": torch.optim.SGD([torch.zeros(1)])}, "optimizer must be a"),
        ({"optimizer": lambda parameters: None}, "optimizer must return"),
        ({"optimizer": torch.optim.LBFGS}, "optimizer must make"),
        ({"loss": "token_loss"}, "loss"),
        ({"evaluate": "loss"}, "evaluate"),
        ({"schedule": "noam"}, "schedule"),
        ({"precision": "fp8"}, "precision"),
        ({"precision": "fp16", "device": "cpu"}, "precision"),
        ({"save_every": 5}, "save_every"),
        ({"evaluate_every": 5}, "evaluate_every must be None"),
        ({"model": None}, "model must be"),
        ({"batches": [1, 2]}, "batches"),
        ({"average": 1.0}, "average"),
        ({"weight_decay": -1}, "weight_decay"),
        ({"warmup_steps": 2, "schedule": inverse_sqrt(2)}, "warmup_steps"),
        ({"model": nn.Identity()}, "model must have"),
        ({"device": "gpu"}, "device must be None"),
        ({"device": "cuda:99"}, "device"),
    ],
)
def test_arguments_out_of_range(options, message):
    given = {
        "model": make_model(),
        "batches": CopyBatches(),
        "loss": token_loss,
        "steps": 1,
        **options,
    }
    assert_refused(
        message, fit, given.pop("model"), given.pop("batches"), given.pop("loss"), **given
    )


def test_two_precisions_in_one_process_and_an_accelerator_of_the_callers():
    """An `Accelerator` keeps one precision for the life of the process; `fit` neither makes nor
    disturbs one."""
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState, PartialState

    autocast = []

    def loss(model, batch):
        autocast.append(torch.is_autocast_enabled("cpu"))
        return token_loss(model, batch)

    def train():
        for precision in ("bf16", "no", "bf16"):
            fit(make_model(), CopyBatches(), loss, steps=1, precision=precision, device="cpu")
        assert autocast == [True, False, True]
        autocast.clear()

    AcceleratorState._reset_state(reset_partial_state=True)
    train()
    assert not AcceleratorState._shared_state and not PartialState._shared_state
    try:
        mine = Accelerator(mixed_precision="no", cpu=True)
        train()
        assert mine.mixed_precision == "no" and mine.device.type == "cpu"
        assert Accelerator().mixed_precision == "no"
    finally:
        AcceleratorState._reset_state(reset_partial_state=True)


def test_bf16_on_the_cpu_learns():
    history = fit(
        make_model(width=16),
        CopyBatches(16),
        token_loss,
        steps=80,
        learning_rate=1e-2,
        precision="bf16",
    )
    assert np.mean(history.losses[-5:]) < 0.7 * history.losses[0]


def test_frozen_parameters_and_unused_ones_stay():
    model = make_model()
    model.unused = nn.Linear(2, 2)
    model.source.weight.requires_grad_(False)
    before = [model.source.weight.clone(), model.unused.weight.detach().clone()]
    fit(model, CopyBatches(), token_loss, steps=2, optimizer="adamw")
    assert torch.equal(model.source.weight, before[0])
    assert torch.equal(model.unused.weight, before[1])


def test_nested_batches_of_another_kind():
    class Pairs:
        def batch(self, step):
            generator = torch.Generator().manual_seed(step)
            x = torch.randn(8, 3, generator=generator)
            return {"x": x, "y": [x.sum(1, keepdim=True), None]}

    def squares(model, batch):
        return (model(batch["x"]) - batch["y"][0]).square().sum(), len(batch["x"])

    model = nn.Linear(3, 1)
    history = fit(model, Pairs(), squares, steps=400, learning_rate=0.05)
    assert history.losses[-1] < 1e-4
    torch.testing.assert_close(model.weight.data, torch.ones(1, 3), atol=0.05, rtol=0)


def test_progress_goes_to_stderr_as_text_and_can_be_silenced(capfd, monkeypatch):
    fit(make_model(), CopyBatches(), token_loss, steps=2)
    assert capfd.readouterr() == ("", "")
    monkeypatch.delenv("ATTNBOOK_PROGRESS")
    fit(make_model(), CopyBatches(), token_loss, steps=2)
    out, err = capfd.readouterr()
    assert out == "" and "2/2" in err and "loss" in err
    fit(make_model(), CopyBatches(), token_loss, steps=2, progress=False)
    assert capfd.readouterr() == ("", "")


def test_each_step_trains_on_its_own_batch():
    requested = []

    class Recorded(CopyBatches):
        def batch(self, step):
            requested.append(step)
            return super().batch(step)

    fit(make_model(), Recorded(), partial(token_loss, label_smoothing=0.1), steps=4)
    assert requested == [0, 1, 2, 3]


@pytest.mark.parametrize("batch", [(), {"seed": 3}, [1, 2]])
def test_a_batch_without_tensors_is_named(batch):
    class Empty:
        def batch(self, step):
            return batch

    assert_refused("batches", lambda: fit(make_model(), Empty(), token_loss, steps=1))
