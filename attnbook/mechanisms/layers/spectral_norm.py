"""Spectral norm: every weight divided by its largest singular value."""

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations, parametrize

from ...kernels.precision import without_autocast
from ...modules import temporary_mode
from ...validate import check_integer, require

__all__ = ["add_spectral_norm", "largest_singular_values", "weight_matrix"]

Transposed = nn.ConvTranspose1d | nn.ConvTranspose2d | nn.ConvTranspose3d
Weighted = nn.Linear | nn.Embedding | nn.Conv1d | nn.Conv2d | nn.Conv3d | Transposed


def add_spectral_norm(module: nn.Module, *, power_iterations: int = 1) -> nn.Module:
    """Divide the weight of every convolution, linear layer and embedding in ``module`` by its
    largest singular value; return it.

    ``W ← W / σ(W)``,  ``σ(W) = max_v ‖W v‖ / ‖v‖``, as a matrix of (outputs, everything else)

    σ is not computed but followed: ``u ← W v / ‖W v‖``, ``v ← Wᵀu / ‖Wᵀu‖``, ``σ ≈ uᵀ W v``, so
    many times whenever the weight is used in training mode. In evaluation mode u and v stay. The
    parametrization is PyTorch's own, and so is the order: algorithm 1 of the paper renews v
    first. Gains of norms, biases and the scale γ of attention are no
    matrices and stay as they are.

    Args:
        module: changed in place; its weights move to ``parametrizations.weight.original``.
        power_iterations: how many steps of the power method at each use.

    Raises:
        ValueError: if a weight in it has a spectral norm already, or is 0 everywhere.

    Source: Miyato et al. 2018, algorithm 1; both networks, attention: Zhang et al. 2019, section 3.
    """
    check_integer("power_iterations", power_iterations)
    layers = [
        (name or type(layer).__name__.removeprefix("Parametrized"), layer)
        for name, layer in module.named_modules()
        if isinstance(layer, Weighted)
    ]
    for name, layer in layers:  # all before the first is changed
        require(
            not parametrize.is_parametrized(layer, "weight"),
            f"module: the weight of {name} is parametrized already",
        )
        require(
            bool(layer.weight.detach().any()),
            f"module: the weight of {name} is 0 everywhere, it has no direction to keep",
        )
    for _, layer in layers:
        # PyTorch knows that a transposed convolution keeps its outputs in dimension 1.
        parametrizations.spectral_norm(layer, n_power_iterations=power_iterations)
        norms = layer.get_submodule("parametrizations.weight")
        norms.register_module("0", _FullPrecision(norms.get_submodule("0")))
    return module


class _FullPrecision(nn.Module):
    """A parametrization in its weight's dtype: autocast would give σ 8 bits on a GPU."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, weight: Tensor) -> Tensor:
        with without_autocast(weight):
            return self.norm(weight)


def weight_matrix(layer: Weighted) -> Tensor:
    """The weight of a layer as it is used, a matrix of (outputs, everything else)."""
    weight = layer.weight
    return (weight.transpose(0, 1) if isinstance(layer, Transposed) else weight).flatten(1)


@torch.no_grad()
def largest_singular_values(module: nn.Module) -> dict[str, float]:
    """σ of every weight in ``module`` as used, by SVD: near 1 under a spectral norm."""
    with temporary_mode(module, False):  # a look must not move the power method
        return {
            name: float(torch.linalg.matrix_norm(weight_matrix(layer).double(), 2))
            for name, layer in module.named_modules()
            if isinstance(layer, Weighted)
        }
