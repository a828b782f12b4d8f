"""Spectral norm on every weight, in the right dimension, followed in training only."""

import numpy as np
import pytest
import torch
from assertions import assert_refused
from torch import nn
from torch.nn.utils import parametrize

from attnbook.mechanisms import (
    ConditionalBatchNorm,
    PictureAttention,
    add_spectral_norm,
    largest_singular_values,
)
from attnbook.mechanisms.layers.spectral_norm import weight_matrix


def net(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        PictureAttention(16),
        nn.ConvTranspose2d(16, 5, 4, stride=2, padding=1),
        nn.Flatten(),
        nn.Linear(5 * 8 * 8, 7),
    )


def sigma(weight, outputs=0):
    """The largest singular value in NumPy, outputs in the rows."""
    w = np.moveaxis(weight.detach().double().numpy(), outputs, 0)
    return np.linalg.svd(w.reshape(len(w), -1), compute_uv=False)[0]


def test_every_weight_has_norm_1_attention_too():
    made = net()
    raw = {name: p.detach().clone() for name, p in made.named_parameters()}
    assert add_spectral_norm(made, power_iterations=3) is made
    x = torch.randn(2, 3, 4, 4)
    for _ in range(60):
        made(x)
    result = largest_singular_values(made)
    assert set(result) == {"0", "1.key", "1.query", "1.value", "1.output", "2", "4"}
    assert list(result.values()) == pytest.approx([1.0] * 7, abs=2e-3)
    made.eval()
    for name, layer in (("0", made[0]), ("1.key", made[1].key), ("2", made[2]), ("4", made[4])):
        raw_weight, outputs = raw[f"{name}.weight"], int(name == "2")
        expected = (raw_weight / sigma(raw_weight, outputs)).float()
        torch.testing.assert_close(layer.weight, expected, atol=2e-3, rtol=2e-3)
        assert result[name] == pytest.approx(sigma(layer.weight, outputs), rel=1e-5)
        rows = layer.weight.movedim(outputs, 0).flatten(1)
        assert torch.equal(weight_matrix(layer), rows)


def test_a_transposed_convolution_keeps_its_outputs_in_dimension_1():
    torch.manual_seed(0)
    layer = nn.ConvTranspose2d(16, 4, 4)
    by_outputs, by_inputs = sigma(layer.weight, 1), sigma(layer.weight, 0)
    assert abs(by_outputs / by_inputs - 1) > 0.1  # else the test would see nothing
    raw = layer.weight.detach().clone()
    add_spectral_norm(layer, power_iterations=100).eval()
    near = {"atol": 1e-3, "rtol": 1e-3}
    torch.testing.assert_close(
        raw / layer.weight.detach(), torch.full_like(raw, by_outputs), **near
    )


def test_the_power_method_rests_in_evaluation_and_in_a_look_and_its_vectors_are_not_trained():
    made, x = add_spectral_norm(net()), torch.randn(2, 3, 4, 4)
    state = lambda: torch.cat([b.flatten() for b in made.buffers()])  # noqa: E731
    before = state().clone()
    largest_singular_values(made)
    assert torch.equal(state(), before) and all(m.training for m in made.modules())
    made.eval()
    first = made(x)
    assert torch.equal(state(), before) and torch.equal(made(x), first)
    made.train()(x)
    assert not torch.equal(state(), before)
    assert not any(name.endswith(("_u", "_v")) for name, _ in made.named_parameters())


def test_gains_and_scales_are_no_matrices():
    made = add_spectral_norm(
        nn.ModuleList([ConditionalBatchNorm(4, 3), nn.BatchNorm2d(4), PictureAttention(8)])
    )
    parametrized = [name for name, m in made.named_modules() if parametrize.is_parametrized(m)]
    assert parametrized == ["2.key", "2.query", "2.value", "2.output"]
    assert (made[0].gain == 1).all() and isinstance(made[2].gamma, nn.Parameter)


def test_embeddings_have_it_and_a_weight_of_zeros_or_a_second_norm_is_an_error():
    table = add_spectral_norm(nn.Embedding(5, 8), power_iterations=50)
    assert largest_singular_values(table)[""] == pytest.approx(1, abs=1e-3)
    with pytest.raises(ValueError, match="weight of Embedding is parametrized already"):
        add_spectral_norm(table)
    layer = nn.Sequential(nn.Linear(3, 3), nn.Conv2d(3, 3, 1))
    nn.init.zeros_(layer[1].weight)
    with pytest.raises(ValueError, match="weight of 1 is 0 everywhere"):
        add_spectral_norm(layer)
    assert not parametrize.is_parametrized(layer[0])  # all or nothing
    assert_refused("power_iterations", add_spectral_norm, nn.Linear(3, 3), power_iterations=0)


def test_gradients_pass_through_the_norm():
    """d loss / d W = (G − ⟨G, W/σ⟩ u vᵀ) / σ with G the gradient to W / σ."""
    torch.manual_seed(0)
    layer = add_spectral_norm(nn.Linear(6, 4).double(), power_iterations=200).eval()
    raw, x = layer.parametrizations.weight.original, torch.randn(3, 6).double()
    down = torch.randn(3, 4).double()
    (grad,) = torch.autograd.grad(layer(x), raw, down)
    u, s, vh = torch.linalg.svd(raw.detach())
    g = down.T @ x
    inner = (g * raw.detach() / s[0]).sum()
    expected = (g - inner * torch.outer(u[:, 0], vh[0])) / s[0]
    torch.testing.assert_close(grad, expected, atol=1e-8, rtol=1e-6)


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_the_norm_is_as_exact_under_autocast(device):
    made = add_spectral_norm(net()).to(device)
    x = torch.randn(2, 3, 4, 4, device=device)
    layers = [layer for layer in made.modules() if parametrize.is_parametrized(layer)]
    # on a CPU autocast leaves the products of the power iteration alone: the numbers would not tell
    states, look = [], lambda *_: states.append(torch.is_autocast_enabled(device))
    hooks = [m.parametrizations.weight[0].norm.register_forward_hook(look) for m in layers]
    with torch.autocast(device, dtype=torch.bfloat16):
        for _ in range(100):
            made(x)
    assert len(layers) == 7 and len(states) >= 700 and set(states) == {False}
    for hook in hooks:
        hook.remove()
    assert list(largest_singular_values(made).values()) == pytest.approx([1.0] * 7, abs=2e-3)
    made(x).sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in made.parameters())
