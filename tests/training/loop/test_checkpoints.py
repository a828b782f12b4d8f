"""Weights to a file and back, and what must not be taken for them."""

import errno
import os

import pytest
import torch
from assertions import assert_refused
from torch import nn
from training_doubles import TinyAttention, make_model

from attnbook.training import average_checkpoints, load_model_weights, read_metadata, save_model


def same(first, second):
    a, b = first.state_dict(), second.state_dict()
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_round_trip_with_metadata(tmp_path):
    model, other = make_model(0), make_model(1)
    assert not same(model, other)
    path = save_model(model, tmp_path / "model.safetensors", task="dates", seed="0")
    assert read_metadata(path) == {"task": "dates", "seed": "0"}
    assert load_model_weights(other, path) == {"task": "dates", "seed": "0"}
    assert same(model, other)
    assert os.listdir(tmp_path) == ["model.safetensors"]


def test_half_is_half_the_size_and_close(tmp_path):
    model, other = make_model(0, width=64), make_model(1, width=64)
    whole = save_model(model, tmp_path / "whole.safetensors")
    half = save_model(model, tmp_path / "half.safetensors", half=True)
    assert half.stat().st_size < 0.55 * whole.stat().st_size
    load_model_weights(other, half)
    for name, tensor in other.state_dict().items():
        assert tensor.dtype == torch.float32
        torch.testing.assert_close(tensor, model.state_dict()[name], rtol=1e-3, atol=1e-6)
    assert not same(model, other)


def test_the_dtype_of_the_model_stays(tmp_path):
    path = save_model(make_model(0), tmp_path / "m.safetensors")
    double = make_model(1, dtype=torch.float64)
    load_model_weights(double, path)
    assert all(p.dtype == torch.float64 for p in double.parameters())
    assert torch.equal(double.readout.weight.float(), make_model(0).readout.weight)


def test_tied_weights_are_stored_once_and_stay_tied(tmp_path):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(50, 40)
            self.readout = nn.Linear(40, 50, bias=False)
            self.readout.weight = self.embedding.weight

    model, other = Tied(), Tied()
    path = save_model(model, tmp_path / "tied.safetensors")
    assert path.stat().st_size < 1.2 * 50 * 40 * 4
    load_model_weights(other, path)
    assert same(model, other)
    assert other.readout.weight is other.embedding.weight
    assert read_metadata(path) == {}


def test_another_model_is_refused_and_nothing_is_copied(tmp_path):
    path = save_model(make_model(0, target_size=9), tmp_path / "m.safetensors")
    model, before = make_model(1), make_model(1)
    assert_refused("path", load_model_weights, model, path)
    assert same(model, before)
    assert_refused("path", lambda: load_model_weights(nn.Linear(2, 2), path))


class Heads(nn.Module):
    """Heads of which no shape speaks."""

    def __init__(self, num_heads, dropout=0.0):
        super().__init__()
        self.num_heads, self.dropout, self.readout = num_heads, dropout, nn.Linear(8, 8)
        self.between = nn.Sequential(nn.Dropout(dropout))


@pytest.mark.parametrize("load", [load_model_weights, average_checkpoints])
def test_another_number_of_heads_is_refused(tmp_path, load):
    path, model = save_model(Heads(2, 0.1), tmp_path / "m.safetensors"), Heads(4)
    before = Heads(4)
    before.load_state_dict(model.state_dict())
    assert_refused("path", load, model, path)
    assert same(model, before)
    load(Heads(2, 0.3), path)  # dropout is no part of what was learned


def test_files_that_do_not_speak_of_heads_are_read(tmp_path):
    from safetensors.torch import save_file

    stored, model = Heads(2), Heads(4)
    save_file(stored.state_dict(), tmp_path / "old.safetensors", {"attnbook.class": "Heads"})
    assert not same(model, stored)
    load_model_weights(model, tmp_path / "old.safetensors")
    assert same(model, stored)


def test_fractions_are_not_loaded_into_a_counter(tmp_path):
    class Counter(nn.Module):
        def __init__(self, value):
            super().__init__()
            self.register_buffer("seen", torch.tensor(value))

    path = save_model(Counter(1.7), tmp_path / "m.safetensors")
    model = Counter(0)
    assert_refused("path", load_model_weights, model, path)
    assert model.seen == 0
    load_model_weights(wide := Counter(0.0), save_model(Counter(3), path))
    assert wide.seen == 3.0


def test_two_tensors_are_not_loaded_into_one(tmp_path):
    class Words(nn.Module):
        def __init__(self, tied):
            super().__init__()
            self.embedding, self.readout = nn.Embedding(5, 4), nn.Linear(4, 5, bias=False)
            if tied:
                self.readout.weight = self.embedding.weight

    tied, apart = Words(True), Words(False)
    path = save_model(apart, tmp_path / "apart.safetensors")
    before = {name: tensor.clone() for name, tensor in tied.state_dict().items()}
    for load in (load_model_weights, average_checkpoints):
        assert_refused("path", load, tied, path)
    assert all(torch.equal(tensor, before[name]) for name, tensor in tied.state_dict().items())
    load_model_weights(apart, save_model(tied, tmp_path / "tied.safetensors"))
    load_model_weights(tied, save_model(apart, path))  # equal values fit
    assert same(tied, apart)


@pytest.mark.parametrize(
    "damage",
    [lambda data: data[:-50], lambda data: data[:20], lambda data: b"", lambda data: b"x" * 500],
)
def test_damaged_files_are_refused(tmp_path, damage):
    path = save_model(make_model(0), tmp_path / "m.safetensors")
    path.write_bytes(damage(path.read_bytes()))
    model, before = make_model(1), make_model(1)
    assert_refused("path", load_model_weights, model, path)
    assert_refused("path", read_metadata, path)
    assert same(model, before)


def test_absent_file_and_directory(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_model_weights(make_model(), tmp_path / "none.safetensors")
    for read in (lambda path: load_model_weights(make_model(), path), read_metadata):
        with pytest.raises(
            ValueError, match=f"path must be a safetensors file, got the directory {tmp_path}"
        ):
            read(tmp_path)


def test_metadata_must_be_text(tmp_path):
    with pytest.raises(ValueError, match="metadata seed must be a string, got 3"):
        save_model(make_model(), tmp_path / "m.safetensors", seed=3)
    assert os.listdir(tmp_path) == []


def test_values_that_cannot_be_stored(tmp_path):
    model = make_model()
    with torch.no_grad():
        model.readout.bias[0] = 1e5
    save_model(model, tmp_path / "m.safetensors")
    assert_refused("half", save_model, model, tmp_path / "half.safetensors", half=True)
    with torch.no_grad():
        model.readout.bias[0] = float("nan")
    assert_refused("model", save_model, model, tmp_path / "nan.safetensors")
    assert os.listdir(tmp_path) == ["m.safetensors"]


def test_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
    path = save_model(make_model(0), tmp_path / "made" / "m.safetensors")
    before = path.read_bytes()

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="m.safetensors was not written: No space left") as caught:
        save_model(make_model(1), path)
    assert caught.value.errno == errno.ENOSPC
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == ["m.safetensors"]


def test_a_model_that_came_from_a_gpu_or_a_view_is_stored_contiguously(tmp_path):
    model = TinyAttention()
    model.mix.weight = nn.Parameter(torch.randn(8, 8).T)
    other = TinyAttention()
    load_model_weights(other, save_model(model, tmp_path / "m.safetensors"))
    assert torch.equal(model.mix.weight, other.mix.weight)
