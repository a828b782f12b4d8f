"""The mean of checkpoints, from files and folders of a run, and the moving average of `fit`."""

import json

import pytest
import torch
from assertions import assert_refused
from torch import nn
from training_doubles import assert_same_state, make_model, train

from attnbook.training import average_checkpoints, load_model_weights, save_model, token_loss
from attnbook.training.loop.resume import checkpoints_in, read_checkpoint


def weights(model):
    return {name: t.clone() for name, t in model.state_dict().items()}


def test_the_mean_of_three_files(tmp_path):
    models = [make_model(seed) for seed in range(3)]
    paths = [save_model(model, tmp_path / f"{k}.safetensors") for k, model in enumerate(models)]
    averaged = make_model(9)
    average_checkpoints(averaged, paths)
    for name, tensor in averaged.state_dict().items():
        expected = sum(model.state_dict()[name].double() for model in models) / 3
        torch.testing.assert_close(tensor, expected.float(), atol=1e-8, rtol=0)
    one_by_one = make_model(8)
    average_checkpoints(one_by_one, (path for path in paths))
    assert_same_state(one_by_one, averaged)
    average_checkpoints(averaged, paths[1])  # one alone is that one
    assert_same_state(averaged, models[1])


def test_the_last_folders_of_a_run(tmp_path):
    model = make_model()
    model.num_heads = 2
    options = dict(learning_rate=0.05, save_every=3, keep_checkpoints=3, device="cpu")
    train(model, steps=12, checkpoint_dir=tmp_path, **options)
    paths = checkpoints_in(tmp_path)
    saved = [read_checkpoint(path)[1]["model"] for path in paths]
    assert [path.name for path in paths] == ["step_000006", "step_000009", "step_000012"]
    last, averaged = weights(model), make_model(5)
    average_checkpoints(averaged, tmp_path)
    for name, tensor in averaged.state_dict().items():
        torch.testing.assert_close(
            tensor, (sum(state[name].double() for state in saved) / 3).float(), atol=1e-7, rtol=0
        )
    assert any(not torch.allclose(averaged.state_dict()[name], last[name]) for name in last)
    averaged.num_heads = 4
    assert_refused("path", average_checkpoints, averaged, tmp_path)


def test_tied_weights_stay_tied_counters_and_dtypes_stay_what_they_are(tmp_path):
    class Tied(nn.Module):
        def __init__(self, seed):
            super().__init__()
            torch.manual_seed(seed)
            self.embedding, self.readout = nn.Embedding(5, 4), nn.Linear(4, 5, bias=False)
            self.readout.weight = self.embedding.weight
            self.norm = nn.BatchNorm1d(4)
            self.norm.num_batches_tracked.fill_(seed)

    models = [Tied(seed) for seed in (1, 2)]
    paths = [save_model(model, tmp_path / f"{k}.safetensors") for k, model in enumerate(models)]
    averaged = Tied(7).double()
    average_checkpoints(averaged, paths)
    assert averaged.readout.weight is averaged.embedding.weight
    assert averaged.embedding.weight.dtype == torch.float64
    expected = sum(model.embedding.weight.double() for model in models) / 2
    torch.testing.assert_close(averaged.embedding.weight, expected)
    assert averaged.norm.num_batches_tracked.item() == 2
    wide = [
        save_model(model.double(), tmp_path / f"wide{k}.safetensors")
        for k, model in enumerate(models)
    ]
    # nothing is added twice where no copy to float64 stands between the two names
    average_checkpoints(averaged, wide)
    torch.testing.assert_close(averaged.embedding.weight, expected)


def test_complex_weights_are_averaged(tmp_path):
    class Turned(nn.Module):
        def __init__(self, value):
            super().__init__()
            self.weight = nn.Parameter(torch.full((2,), value, dtype=torch.complex64))

    paths = [save_model(Turned(k + 1j), tmp_path / f"{k}.safetensors") for k in (1, 3)]
    averaged = Turned(0)
    average_checkpoints(averaged, paths)
    assert averaged.weight.tolist() == [2 + 1j] * 2


def test_what_does_not_fit_is_named_and_changes_nothing(tmp_path):
    model = make_model(2)
    good = save_model(make_model(1), tmp_path / "a.safetensors")
    other = save_model(make_model(width=9), tmp_path / "b.safetensors")
    for paths, words in (
        ([], "paths must hold at least one"),
        ([good, other], "got .*b.safetensors with those of TinyAttention"),
        (tmp_path / "step_000001", None),
    ):
        with pytest.raises(ValueError if words else OSError, match=words):
            average_checkpoints(model, paths)
    broken = tmp_path / "c.safetensors"
    broken.write_bytes(good.read_bytes()[:-5])
    assert_refused("path", average_checkpoints, model, [good, broken])
    assert_same_state(model, make_model(2))
    load_model_weights(model, good)


def averaged_run(steps=6, average=0.7, **options):
    """The weights before each step, the averaged ones after it, the model and the history."""
    model, path, means = make_model(dropout=0.3), [], []

    def loss(model, batch):
        path.append(weights(model))
        return token_loss(model, batch)

    def evaluate(model):
        assert not model.training
        means.append(weights(model))
        return model.readout.bias[0]

    options |= dict(learning_rate=0.05, device="cpu", evaluate=evaluate, evaluate_every=1)
    _, history = train(model, loss=loss, steps=steps, average=average, **options)
    return [*path, weights(model)], means, model, history


def test_a_moving_average_is_the_sum_over_the_steps_and_what_is_evaluated():
    path, means, model, history = averaged_run()
    for step, mean in enumerate(means, 1):
        for name in mean:
            shares = [0.7**step, *(0.3 * 0.7 ** (step - k) for k in range(1, step + 1))]
            expected = sum(share * w[name].double() for share, w in zip(shares, path))
            torch.testing.assert_close(mean[name], expected.float(), atol=1e-6, rtol=1e-5)
    for name, mean in weights(history.averaged).items():
        assert torch.equal(mean, means[-1][name]) and not torch.equal(mean, path[-1][name])
    assert [value for _, value in history.evaluations] == [m["readout.bias"][0] for m in means]
    assert not history.averaged.training and model.training
    assert not any(parameter.requires_grad for parameter in history.averaged.parameters())


def test_an_average_does_not_change_the_training():
    (path, _, _, _), (other, _, _, history) = averaged_run(), averaged_run(average=None)
    assert all(torch.equal(a[name], b[name]) for a, b in zip(path, other) for name in a)
    assert history.averaged is None


def test_the_buffers_of_an_average_are_those_of_the_model_and_tied_weights_stay_tied():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.norm, self.outer = nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Linear(3, 3)
            self.outer.weight = self.inner.weight

        def forward(self, x):
            return self.outer(self.norm(self.inner(x)))

    class Noise:
        def batch(self, step):
            return torch.randn(8, 3, generator=torch.Generator().manual_seed(step))

    def loss(model, batch):
        return model(batch).square().sum(), len(batch)

    torch.manual_seed(0)
    model = Tied()
    _, history = train(model, Noise(), loss, steps=3, average=0.5, device="cpu")
    averaged = history.averaged
    assert torch.equal(averaged.norm.running_mean, model.norm.running_mean)
    assert averaged.norm.num_batches_tracked == 3
    assert averaged.outer.weight is averaged.inner.weight is not model.inner.weight


def test_a_run_that_goes_on_has_the_same_average(tmp_path):
    _, _, _, whole = averaged_run(checkpoint_dir=tmp_path / "whole")
    averaged_run(steps=4, checkpoint_dir=tmp_path / "parts")
    _, _, _, resumed = averaged_run(checkpoint_dir=tmp_path / "parts")
    assert resumed.resumed_from == 4 and resumed.evaluations == whole.evaluations
    assert_same_state(whole.averaged, resumed.averaged)


def test_a_checkpoint_of_an_earlier_version_has_no_average(tmp_path):
    averaged_run(steps=2, average=None, checkpoint_dir=tmp_path)
    manifest = tmp_path / "step_000002" / "manifest.json"
    content = json.loads(manifest.read_text())
    del content["settings"]["average"]
    manifest.write_text(json.dumps(content))
    begin = "checkpoint_dir must be of this run, got a checkpoint without averaged"
    assert_refused(begin, averaged_run, checkpoint_dir=tmp_path)
