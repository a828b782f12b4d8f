"""Loops on the simulated GPU: the host waits at most once a step."""

import functools
from unittest import mock

import pytest
import torch
from simulated_cuda import simulated_cuda
from small_models import TRANSLATORS, WORDS, Pictures

import attnbook
from attnbook.decoding import beam_search, greedy
from attnbook.decoding.pointing import point_beam, point_greedy
from attnbook.training import fit, fit_adversarial

B, N = 3, 5
AROUND = 8  # before the first step and behind the last one


def waits_and_steps(model, run):
    """How often the host waited, and how many steps the model took."""
    with simulated_cuda() as device:
        model = model.to("cuda")
        with mock.patch.object(model, "step", wraps=model.step) as step:
            device.synchronizations.clear()
            run(model)
            return sum(device.synchronizations.values()), step.call_count


LENGTHS = torch.tensor([5, 3, 4])
WAYS = {
    "greedy": functools.partial(greedy, max_length=12),
    "beam": functools.partial(beam_search, beam_size=2, max_length=12),
}
POINTING = {"greedy": point_greedy, "beam": functools.partial(point_beam, beam_size=2)}


@pytest.mark.parametrize("decode", WAYS)
@pytest.mark.parametrize("name", [*TRANSLATORS, "pointer"])
def test_decoding(name, decode):
    torch.manual_seed(0)
    if name == "pointer":
        model, decode = attnbook.PointerNetwork(2, 8, ends=False, d_embed=8), POINTING[decode]
        source = torch.rand(B, N, 2)
    else:
        model, decode = TRANSLATORS[name](), WAYS[decode]
        source = torch.randint(4, WORDS, (B, N))
    waits, steps = waits_and_steps(model, lambda model: decode(model, source, LENGTHS))
    assert steps >= 3 and waits <= steps + AROUND


def test_windows_wait_once_a_text_for_its_padding():
    parts = attnbook.decoder_parts(8, 2, 16, window=3)
    model = attnbook.TransformerLM(WORDS, parts, num_layers=2)
    text = torch.randint(4, WORDS, (B, N))

    def run(model):
        with torch.no_grad():
            state = model.encode(text.cuda(), LENGTHS)
            for _ in range(12):
                state = model.step(torch.full((B,), 5).cuda(), state).state

    waits, steps = waits_and_steps(model, run)
    assert steps == 12 and waits <= 2 * 2 + AROUND


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


def test_fit_adversarial_looks_at_both_losses_at_once():
    pair = attnbook.sagan_pair(16, channels=4, d_noise=4, num_classes=2, attention_at=8)
    with simulated_cuda() as device:
        fit_adversarial(*pair, Pictures(), steps=12, progress=False)
        assert sum(device.synchronizations.values()) <= 12 + AROUND
