"""Adapters of low rank: what fine-tuning changed, in one small file beside the model's own."""

import json
import os
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save
from torch import Tensor, nn

from ..files import write_atomically
from ..mechanisms.layers.low_rank import LoRALinear, lora_layers
from ..validate import require
from .tensors import read_tensors

__all__ = ["load_lora", "save_lora"]

_SETTINGS = "attnbook.lora"


def save_lora(model: nn.Module, path: str | os.PathLike) -> Path:
    """Write the matrices A and B of a model's adapted layers, and no other weight, to a safetensors
    file; returns its path. Whether they are merged makes no difference.

    Raises:
        ValueError: for a model without adapted layers, and for numbers that are not finite.
    """
    layers = lora_layers(model)
    require(bool(layers), f"model must have LoRA layers, got {type(model).__name__} without")
    tensors = {}
    for name, layer in layers.items():
        for factor in ("down", "up"):
            tensor = getattr(layer, factor).detach().cpu().contiguous()
            require(bool(tensor.isfinite().all()), f"model must be finite, {name}.{factor} is not")
            tensors[f"{name}.{factor}"] = tensor
    settings = {n: {"alpha": p.alpha, "dropout": p.dropout.p} for n, p in layers.items()}
    return write_atomically(Path(path), save(tensors, metadata={_SETTINGS: json.dumps(settings)}))


def load_lora(model: nn.Module, path: str | os.PathLike) -> dict[str, LoRALinear]:
    """Adapt ``model`` by a file of :func:`save_lora`; returns the adapted layers by name.

    The model is frozen, as by :func:`attnbook.add_lora`. An adapter that it has already makes room
    for the new one.

    Raises:
        ValueError: for a file that is none of :func:`save_lora`, or of layers that the model does
            not have; the model is then as it was.
    """
    tensors = read_tensors(path)
    with safe_open(os.fspath(path), framework="pt") as file:
        stored = (file.metadata() or {}).get(_SETTINGS)
    require(stored is not None, f"path must be a file of save_lora, got {path}")
    settings = json.loads(stored or "")
    old, new = lora_layers(model), {}
    for name, options in settings.items():
        down, up = _factors(tensors, name)
        layer = _linear(model, name, down, up)
        made = LoRALinear(layer, len(down), **options).train(layer.training)
        with torch.no_grad():
            made.down.copy_(down), made.up.copy_(up)
        new[name] = made
    for part in old.values():
        part.unmerge()
    model.requires_grad_(False)
    for name, part in {**{n: p.layer for n, p in old.items()}, **new}.items():
        above, _, own = name.rpartition(".")
        setattr(model.get_submodule(above), own, part)
    return new


def _factors(tensors: dict[str, Tensor], name: str) -> tuple[Tensor, Tensor]:
    down, up = (tensors.get(f"{name}.{factor}") for factor in ("down", "up"))
    if down is None or up is None or not down.dim() == up.dim() == 2 or len(down) != up.shape[1]:
        raise ValueError(f"path must hold the two matrices of {name}, it does not")
    return down, up


def _linear(model: nn.Module, name: str, down: Tensor, up: Tensor) -> nn.Linear:
    """The linear layer of that name, of the widths that the matrices have."""
    try:
        layer = model.get_submodule(name)
    except AttributeError:
        raise ValueError(f"path must be of this model's layers, it has no {name}") from None
    layer = layer.layer if isinstance(layer, LoRALinear) else layer
    if not isinstance(layer, nn.Linear) or layer.weight.shape != (len(up), down.shape[1]):
        wanted = f"linear layer from {down.shape[1]} to {len(up)}"
        raise ValueError(f"path must be of this model's layers, {name} is no {wanted}")
    return layer
