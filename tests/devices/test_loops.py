"""Loops on the simulated GPU: the host waits at most once a step."""

from unittest import mock

import pytest
import torch
from simulated_cuda import simulated_cuda
from torch.nn.functional import cross_entropy

import attnbook
from attnbook.training import beam_search, fit, fit_adversarial, greedy
from attnbook.training.decoding.pointing import point_beam, point_greedy

WORDS, B, N = 40, 3, 5
AROUND = 8  # before the first step and behind the last one


def parts():
    return attnbook.paper_parts(8, 2, 16)


TRANSLATORS = {
    "seq2seq": lambda: attnbook.Seq2Seq(WORDS, WORDS, d_embed=8, hidden_size=8),
    "bahdanau": lambda: attnbook.Bahdanau(WORDS, WORDS, d_embed=8, hidden_size=8),
    "luong": lambda: attnbook.Luong(WORDS, WORDS, d_embed=8, hidden_size=8),
    "local": lambda: attnbook.Luong(
        WORDS, WORDS, d_embed=8, hidden_size=8, attention="local-p", half_width=2
    ),
    "transformer": lambda: attnbook.Transformer(WORDS, WORDS, parts(), num_layers=1),
}


def waits_and_steps(model, run):
    """How often the host waited, and how many steps the model took."""
    with simulated_cuda() as device:
        model = model.to("cuda")
        with mock.patch.object(model, "step", wraps=model.step) as step:
            device.synchronizations.clear()
            run(model)
            return sum(device.synchronizations.values()), step.call_count


@pytest.mark.parametrize("decode", ["greedy", "beam"])
@pytest.mark.parametrize("name", TRANSLATORS)
def test_decoding(name, decode):
    torch.manual_seed(0)
    source = torch.randint(4, WORDS, (B, N))
    lengths = torch.tensor([5, 3, 4])

    def run(model):
        if decode == "greedy":
            return greedy(model, source, lengths, max_length=12)
        return beam_search(model, source, lengths, beam_size=2, max_length=12)

    waits, steps = waits_and_steps(TRANSLATORS[name](), run)
    assert steps >= 3 and waits <= steps + AROUND


@pytest.mark.parametrize("decode", ["greedy", "beam"])
def test_pointing(decode):
    torch.manual_seed(0)
    model = attnbook.PointerNetwork(2, 8, ends=False, d_embed=8)
    inputs, lengths = torch.rand(B, N, 2), torch.tensor([5, 3, 4])

    def run(model):
        if decode == "greedy":
            return point_greedy(model, inputs, lengths)
        return point_beam(model, inputs, lengths, beam_size=2)

    waits, steps = waits_and_steps(model, run)
    assert steps >= 3 and waits <= steps + AROUND


class Rows:
    def batch(self, step):
        return torch.ones(4, 3), torch.tensor([3, 2, 1, 3])


def test_fit():
    def loss(model, batch):
        rows, lengths = batch
        return (model(rows).square().mean(-1) * lengths).sum(), len(rows)

    with simulated_cuda() as device:
        fit(torch.nn.Linear(3, 2), Rows(), loss, steps=10, progress=False)
        assert sum(device.synchronizations.values()) <= 10 + AROUND


class Pictures:
    def batch(self, step):
        return torch.ones(2, 3, 16, 16), torch.tensor([0, 1])


def test_fit_adversarial_looks_at_both_losses_at_once():
    pair = attnbook.sagan_pair(16, channels=4, d_noise=4, num_classes=2, attention_at=8)
    with simulated_cuda() as device:
        fit_adversarial(*pair, Pictures(), steps=12, progress=False)
        assert sum(device.synchronizations.values()) <= 12 + AROUND


class Copies:
    def batch(self, step):
        g = torch.Generator().manual_seed(step)
        words = torch.randint(4, WORDS, (8, N), generator=g)
        return words, torch.full((8,), N), words.roll(1, 1), words


def translation_loss(model, batch):
    source, lengths, target_in, wanted = batch
    logits = model(source, lengths, target_in).logits
    return cross_entropy(logits.flatten(0, 1), wanted.flatten(), reduction="sum"), wanted.numel()


@pytest.mark.parametrize("name", TRANSLATORS)
def test_training_in_half_precision_with_the_scaler_goes_where_float32_goes(name):
    losses = {}
    for precision in ("no", "fp16"):
        torch.manual_seed(0)
        model = TRANSLATORS[name]()
        with simulated_cuda():
            losses[precision] = fit(
                model,
                Copies(),
                translation_loss,
                steps=6,
                learning_rate=1e-2,
                precision=precision,
                device="cuda",
                progress=False,
            ).losses
    assert losses["fp16"] != losses["no"]
    assert losses["fp16"] == pytest.approx(losses["no"], rel=0.02)


def test_adversarial_training_in_half_precision_begins_as_float32_and_moves():
    """The scaler passes over the first updates, until its factor is small enough."""
    first, moved = {}, {}
    for precision in ("no", "fp16"):
        torch.manual_seed(0)
        pair = attnbook.sagan_pair(16, channels=4, d_noise=4, num_classes=2, attention_at=8)
        before = [p.detach().clone() for p in pair.discriminator.parameters()]
        with simulated_cuda():
            history = fit_adversarial(
                *pair, Pictures(), steps=8, precision=precision, progress=False
            )
            after = [p.detach().cpu() for p in pair.discriminator.parameters()]
        first[precision] = history.discriminator_losses[0]
        moved[precision] = sum(float((a - b).norm()) for a, b in zip(after, before, strict=True))
    assert first["fp16"] != first["no"] and first["fp16"] == pytest.approx(first["no"], rel=0.02)
    assert 0 < moved["fp16"] <= 1.5 * moved["no"]
