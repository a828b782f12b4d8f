"""The mean of checkpoints, from files and from the folders of a run."""

import pytest
import torch
from torch import nn
from training_doubles import CopyBatches, make_model

from attnbook.training import average_checkpoints, fit, load_model_weights, save_model, token_loss
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
    assert all(
        torch.equal(a, b)
        for a, b in zip(weights(one_by_one).values(), weights(averaged).values(), strict=True)
    )
    average_checkpoints(averaged, paths[1])  # one alone is that one
    assert all(
        torch.equal(a, b)
        for a, b in zip(weights(averaged).values(), weights(models[1]).values(), strict=True)
    )


def test_the_last_folders_of_a_run(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTNBOOK_PROGRESS", "0")
    model = make_model()
    model.num_heads = 2
    fit(
        model,
        CopyBatches(),
        token_loss,
        steps=12,
        learning_rate=0.05,
        checkpoint_dir=tmp_path,
        save_every=3,
        keep_checkpoints=3,
        device="cpu",
    )
    saved = [read_checkpoint(path)[1]["model"] for path in checkpoints_in(tmp_path)]
    assert [path.name for path in checkpoints_in(tmp_path)] == [
        "step_000006",
        "step_000009",
        "step_000012",
    ]
    last, averaged = weights(model), make_model(5)
    average_checkpoints(averaged, tmp_path)
    for name, tensor in averaged.state_dict().items():
        torch.testing.assert_close(
            tensor, (sum(state[name].double() for state in saved) / 3).float(), atol=1e-7, rtol=0
        )
    assert any(not torch.allclose(averaged.state_dict()[name], last[name]) for name in last)
    averaged.num_heads = 4
    with pytest.raises(ValueError, match="num_heads is 2 in the file and 4 in the model"):
        average_checkpoints(averaged, tmp_path)


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
    assert (
        averaged.readout.weight is averaged.embedding.weight
        and averaged.embedding.weight.dtype == torch.float64
    )
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


def test_a_mean_of_models_is_no_mean_of_their_outputs_but_of_a_linear_one_it_is(tmp_path):
    torch.manual_seed(0)
    layers, x = [nn.Linear(3, 2) for _ in range(2)], torch.randn(4, 3)
    paths = [save_model(layer, tmp_path / f"{k}.safetensors") for k, layer in enumerate(layers)]
    averaged = nn.Linear(3, 2)
    average_checkpoints(averaged, paths)
    torch.testing.assert_close(averaged(x), sum(layer(x) for layer in layers) / 2)


def test_what_does_not_fit_is_named_and_changes_nothing(tmp_path):
    model = make_model()
    good = save_model(make_model(1), tmp_path / "a.safetensors")
    other = save_model(make_model(width=9), tmp_path / "b.safetensors")
    before = weights(model)
    for paths, words in (
        ([], "paths must hold at least one"),
        ([good, other], "got .*b.safetensors with those of TinyAttention"),
        (tmp_path / "step_000001", None),
    ):
        with pytest.raises(ValueError if words else OSError, match=words):
            average_checkpoints(model, paths)
    broken = tmp_path / "c.safetensors"
    broken.write_bytes(good.read_bytes()[:-5])
    with pytest.raises(ValueError, match="complete safetensors file"):
        average_checkpoints(model, [good, broken])
    assert all(
        torch.equal(a, b) for a, b in zip(before.values(), weights(model).values(), strict=True)
    )
    load_model_weights(model, good)
