"""What has to be the same for a run to go on as if it had never stopped."""

import hashlib
from functools import partial
from typing import Any

import torch

from ...validate import plain_number
from .nested import tensors_of


def digest_of(batch: Any) -> str:
    """A short name for the tensors of a batch."""
    digest = hashlib.sha256()
    for tensor in tensors_of(batch):
        digest.update(str((tensor.dtype, tuple(tensor.shape))).encode())
        flat = tensor.detach().cpu().reshape(-1).clone(memory_format=torch.contiguous_format)
        digest.update(flat.view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()[:16]


def describe(value: Any) -> str:
    """A function by its name, a partial one with its arguments, and another object by its `repr`,
    or by the name of its class where `repr` holds an address, which differs between processes.
    """
    if isinstance(value, partial):
        arguments = [
            *map(describe, value.args),
            *(f"{key}={describe(item)}" for key, item in sorted(value.keywords.items())),
        ]
        return f"{describe(value.func)}({', '.join(arguments)})"
    if name := getattr(value, "__qualname__", None):
        return name
    text = repr(value)
    return type(value).__qualname__ if " at 0x" in text else text


def modules_of(model: torch.nn.Module, prefix: str = "") -> dict[str, str]:
    """The class of each module, and its :func:`attributes_of`, of which no shape speaks."""
    modules = model.named_modules(prefix=prefix)
    classes = {name: type(module).__qualname__ for name, module in modules if name}
    return classes | attributes_of(model, prefix)


def python_value(value: Any) -> Any:
    """A number as Python's own: a size from NumPy is the same size."""
    number = plain_number(value)
    return value if number is None else number


def attributes_of(
    model: torch.nn.Module, prefix: str = "", *, in_training: bool = True
) -> dict[str, str]:
    """The numbers and texts of each module; without those that count in training alone, of dropout
    and of the row of an embedding that does not learn, where ``in_training`` is False.
    """
    described = {}
    for name, module in model.named_modules(prefix=prefix):
        if not in_training and "Dropout" in type(module).__name__:
            continue
        for key, value in vars(module).items():
            value = python_value(value)
            plain = value is None or isinstance(value, bool | int | float | str)
            training_alone = "dropout" in key or key == "padding_idx"
            hidden = key == "training" or key.startswith("_") or training_alone and not in_training
            if plain and not hidden:
                described[f"{name}.{key}".lstrip(".")] = repr(value)
    return described
