"""The same calls on a CUDA GPU: training in half precision, decoding as on the CPU, resume."""

import warnings
from math import isfinite

import pytest
import torch
from training_doubles import CopyBatches, make_model, train

from attnbook.decoding import beam_search, greedy
from attnbook.training import token_loss
from attnbook.training.loop.nested import to_device

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("precision", ["no", "bf16", "fp16"])
def test_fit_learns_on_the_gpu(precision):
    seen = []

    def loss(model, batch):
        seen.append((batch.source.device.type, torch.is_autocast_enabled("cuda")))
        return token_loss(model, batch)

    options = dict(steps=300, learning_rate=1e-2, precision=precision)
    model, history = train(make_model(width=32), CopyBatches(32), loss, **options)
    assert set(seen) == {("cuda", precision != "no")}
    assert next(model.parameters()).is_cuda and next(model.parameters()).dtype == torch.float32
    assert history.losses[0] > 1.7 > 0.9 > sum(history.losses[-10:]) / 10


def test_fit_on_the_gpu_equals_the_cpu():
    options = dict(steps=10, learning_rate=0.01, clip_norm=0.5)
    (cpu, first), (gpu, second) = (
        train(make_model(dtype=torch.float64), device=device, **options)
        for device in ("cpu", "cuda")
    )
    assert first.losses == pytest.approx(second.losses, rel=1e-8)
    for a, b in zip(cpu.parameters(), gpu.parameters(), strict=True):
        torch.testing.assert_close(a, b.cpu(), rtol=1e-8, atol=1e-10)


def test_an_overflow_of_fp16_is_skipped_and_a_nan_is_not():
    calls = []

    def loss(model, batch):
        total, count = token_loss(model, batch)
        calls.append(None)
        # 1e35 times the first scale of 65536 is beyond float32; the loss itself is finite.
        return (total * 1e35 if len(calls) == 2 else total), count

    model, history = train(loss=loss, steps=5, precision="fp16")
    assert not isfinite(history.grad_norms[1]) and history.steps == 5
    assert all(parameter.isfinite().all() for parameter in model.parameters())

    def poisoned(model, batch):
        total, count = token_loss(model, batch)
        return total * float("nan"), count

    with pytest.raises(ValueError, match="loss must be finite, got nan at step 0"):
        train(model, loss=poisoned, precision="fp16")


def test_decoding_on_the_gpu_equals_the_cpu():
    model = make_model(2, torch.float64, target_size=6, sharpness=4.0)
    batch = CopyBatches(40, tokens=8).batch(0)
    results = []
    for device in ("cpu", "cuda"):
        model.to(device)
        said = greedy(model, batch.source, batch.lengths, 8, need_weights=True)
        options = dict(beam_size=4, max_length=8, length_penalty=0.6)
        results.append((said, beam_search(model, batch.source, batch.lengths, **options)))
    (cpu_greedy, cpu_beam), (gpu_greedy, gpu_beam) = results
    assert cpu_greedy.tokens == gpu_greedy.tokens
    torch.testing.assert_close(
        cpu_greedy.log_probs, gpu_greedy.log_probs.cpu(), rtol=1e-10, atol=1e-10
    )
    for a, b in zip(cpu_greedy.weights, gpu_greedy.weights, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)
    for a, b in zip(cpu_beam, gpu_beam, strict=True):
        assert [h.tokens for h in a] == [h.tokens for h in b]
        assert [h.score for h in a] == pytest.approx([h.score for h in b], abs=1e-10)


def test_resume_on_the_gpu_keeps_the_dropout(tmp_path):
    options = {"learning_rate": 0.01, "precision": "bf16", "save_every": 4}

    def run(folder, steps, seed=0):
        place = tmp_path / folder
        return train(make_model(seed, dropout=0.4), steps=steps, checkpoint_dir=place, **options)[1]

    first = run("full", 12)
    run("parts", 7)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        second = run("parts", 12, seed=1)
    assert second.resumed_from == 7
    assert first.losses == pytest.approx(second.losses, rel=1e-5)
    assert first.losses[7] == pytest.approx(second.losses[7], rel=1e-6)


def test_the_callers_random_numbers_on_the_gpu_go_on():
    model = make_model(dropout=0.5)
    torch.manual_seed(5)
    expected = torch.rand(3, device="cuda")
    torch.manual_seed(5)
    train(model)
    assert torch.equal(torch.rand(3, device="cuda"), expected)


def test_a_batch_with_one_row_for_all_is_copied_to_the_gpu():
    row = torch.arange(4).expand(3, 4)
    assert torch.equal(to_device({"row": row}, torch.device("cuda"))["row"].cpu(), row)
