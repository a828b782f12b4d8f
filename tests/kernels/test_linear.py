"""The linear layer of the decoders is PyTorch's in numbers and gradients, and goes its own way."""

from unittest import mock

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from attnbook.kernels import layers
from attnbook.kernels.layers import Linear


@pytest.fixture(autouse=True)
def small_matrices_count_as_large(monkeypatch):
    monkeypatch.setattr(layers, "_LARGE", 0)


def products(layer, x):
    """How many batched products a call makes."""
    with mock.patch.object(torch, "bmm", wraps=torch.bmm) as bmm:
        layer(x)
    return bmm.call_count


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("sizes", [(6, 10), (10, 6), (7, 9), (9, 7), (1, 1), (1, 2), (5, 1)])
@pytest.mark.parametrize("shape", [(), (1,), (1, 1), (2, 1), (3,), (4, 2), (9,), (3, 0), (0,)])
def test_it_is_a_linear_layer(shape, sizes, bias):
    torch.manual_seed(0)
    layer, x = Linear(*sizes, bias=bias).double(), torch.randn(*shape, sizes[0]).double()
    expected = F.linear(x, layer.weight, layer.bias)
    with torch.no_grad():
        result = layer(x)
    assert result.shape == expected.shape == (*shape, sizes[1])
    torch.testing.assert_close(result, expected.detach(), rtol=0, atol=1e-12)
    torch.testing.assert_close(layer(x), expected, rtol=0, atol=0)  # with gradients


def test_few_rows_without_gradients_go_another_way(monkeypatch):
    layer, wide = Linear(6, 10), Linear(10, 6)
    with torch.no_grad():
        assert [products(layer, torch.ones(n, 6)) for n in (1, 4, 8, 9)] == [1, 1, 1, 0]
        assert [products(wide, torch.ones(n, 10)) for n in (1, 4, 5)] == [1, 1, 0]
        assert products(Linear(6, 7), torch.ones(1, 6)) == 0  # no two halves
        assert products(Linear(6, 7), torch.ones(2, 6)) == 1
        assert products(layer.bfloat16(), torch.ones(1, 6).bfloat16()) == 0
        monkeypatch.setattr(layers, "_LARGE", 61)
        assert products(Linear(6, 10), torch.ones(1, 6)) == 0  # 60 numbers
        assert products(Linear(6, 12), torch.ones(1, 6)) == 1
    assert products(Linear(6, 12), torch.ones(1, 6)) == 0


def test_wrong_widths_are_those_of_pytorch():
    for x in (torch.ones(2, 3), torch.ones(4, 3)):
        messages = set()
        for one in (Linear(6, 10), nn.Linear(6, 10)):
            with torch.no_grad(), pytest.raises(RuntimeError) as raised:
                one(x)
            messages.add(str(raised.value))
        assert len(messages) == 1


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int64])
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_another_dtype_than_that_of_the_weights_is_named(device, dtype):
    layer, x = Linear(6, 10, device=device), torch.ones(1, 6, device=device, dtype=dtype)
    words = f"x must be of torch.float32, as the weights of this layer are, got {dtype}"
    for run in (layer, torch.no_grad()(layer)):
        with pytest.raises(ValueError, match=words):
            run(x)


@torch.no_grad()
def test_transforms_and_autocast_keep_working():
    layer, x = Linear(6, 10), torch.randn(3, 1, 6)
    expected = F.linear(x, layer.weight, layer.bias)
    torch.testing.assert_close(torch.vmap(layer)(x), expected)
    with torch.autocast("cpu", torch.bfloat16):
        assert layer(x[0]).dtype == torch.bfloat16
        assert layer(x[0].bfloat16()).dtype == torch.bfloat16
    assert layer(x[0].to("meta")).shape == (1, 10) if layer.to("meta") else None
