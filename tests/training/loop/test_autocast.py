"""The precision that a device can train in."""

import math

import pytest
import torch
from assertions import assert_refused
from torch import nn

from attnbook.models.rnn.common import GRU, LSTM
from attnbook.training.loop.autocast import ScaledOptimizer, autocast, usable_precision
from attnbook.training.loop.history import NonFiniteError

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


@pytest.mark.parametrize(("capability", "used"), [((7, 5), "fp16"), ((8, 0), "bf16")])
def test_a_gpu_without_bf16_trains_in_fp16_and_says_so(capability, used, monkeypatch, recwarn):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Tesla T4")
    assert usable_precision("bf16", CUDA) == used
    said = [str(warning.message) for warning in recwarn]
    assert said == (["Tesla T4 computes no bf16: it trains in fp16 instead"] * (used == "fp16"))
    assert usable_precision("fp16", CUDA) == "fp16" and usable_precision("no", CUDA) == "no"


def test_the_cpu_has_bf16_and_no_fp16():
    assert usable_precision("bf16", CPU) == "bf16"
    assert_refused("precision", usable_precision, "fp16", CPU)
    assert_refused("precision", usable_precision, "half", CPU)
    with autocast("bf16", CPU):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16
    with autocast("no", CPU):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32


def test_twenty_overflows_of_fp16_in_a_row_are_skipped_and_the_next_is_an_error():
    model = nn.Linear(1, 1)
    scaled = ScaledOptimizer(torch.optim.SGD(model.parameters(), 0.1), model, "fp16", CPU)
    for norm in (*20 * [math.inf], 1.0, *20 * [math.nan]):
        scaled.check(0, 1.0, norm)
    with pytest.raises(NonFiniteError, match="gradient of the generator must be finite, got inf"):
        scaled.check(0, 1.0, math.inf, " of the generator")


@pytest.mark.parametrize("kind", [GRU, LSTM])
def test_a_recurrent_network_leaves_autocast_to_bf16(kind):
    network, x = kind(3, 4), torch.randn(5, 2, 3)
    start = torch.zeros(1, 2, 4).bfloat16()
    with torch.autocast("cpu", torch.bfloat16):
        out, _ = network(x.bfloat16(), (start, start) if kind is LSTM else start)
    assert out.dtype == torch.float32
    torch.testing.assert_close(out, network(x.bfloat16().float())[0])
