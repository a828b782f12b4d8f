"""The weights of a model in one safetensors file."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ...files import write_atomically
from .settings import attributes_of

__all__ = ["load_model_weights", "read_metadata", "save_model"]

_ALIASES = "attnbook.aliases"
_ATTRIBUTES = "attnbook.attributes"
_CLASS = "attnbook.class"
_RESERVED = "attnbook."


def save_model(
    model: torch.nn.Module, path: str | os.PathLike, *, half: bool = False, **metadata: str
) -> Path:
    """Write the weights of ``model`` to a safetensors file, and its numbers and texts of which no
    shape speaks, such as a number of heads, so that a model with others refuses the file.

    Tensors that share memory are stored once. The file appears under its name only when it is
    complete.

    Args:
        model: whose state is written.
        path: of the file.
        half: store floating-point tensors as float16, half the size, with three decimal digits;
            `load_model_weights` converts them to the dtype of the model.
        metadata: text by name, stored beside the weights.

    Returns:
        The path.

    Raises:
        ValueError: for weights that are not finite or beyond the range of float16.
        OSError: when there is no space; no temporary file remains.
    """
    from safetensors.torch import save

    for name, text in metadata.items():
        if not isinstance(text, str):
            raise ValueError(f"metadata {name} must be a string, got {text!r}")
    state = model.state_dict()
    aliases = _tied(state)
    stored = {
        name: _prepared(name, tensor, half) for name, tensor in state.items() if name not in aliases
    }
    attributes = json.dumps(attributes_of(model, in_training=False), sort_keys=True)
    header = {**metadata, _CLASS: type(model).__name__, _ATTRIBUTES: attributes}
    if aliases:
        header[_ALIASES] = json.dumps(aliases, sort_keys=True)
    return write_atomically(Path(path), save(stored, metadata=header))


def load_model_weights(model: torch.nn.Module, path: str | os.PathLike) -> dict[str, str]:
    """Copy the weights of a file written by `save_model` into ``model``; return its metadata.

    The dtype and the device of the model stay. Either every weight is copied or none.

    Raises:
        ValueError: naming what differs, when the file is of another model, also of one with two
            tensors where this one has one (tied weights), or with another number of heads, window
            or the like (files from before this was written down pass); and when it is damaged.
    """
    tensors, metadata = read_weights(path)
    check_fit(path, tensors, model, metadata)
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            tensor.copy_(tensors[name])
    return _given(metadata)


def read_metadata(path: str | os.PathLike) -> dict[str, str]:
    """The metadata given to `save_model`, without reading the weights.

    Raises:
        ValueError: when the file is damaged.
    """
    with _opened(path) as file:
        return _given(file.metadata() or {})


def _given(metadata: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in metadata.items() if not name.startswith(_RESERVED)}


def read_weights(path: str | os.PathLike) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Every tensor of a file of `save_model` by name, tied ones twice, and the metadata."""
    with _opened(path) as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}
        metadata = file.metadata() or {}
    for name, source in json.loads(metadata.get(_ALIASES, "{}")).items():
        tensors[name] = tensors[source]
    return tensors, metadata


def check_fit(
    path: str | os.PathLike,
    tensors: dict[str, Tensor],
    model: torch.nn.Module,
    metadata: Mapping[str, str],
) -> None:
    """Raise a ValueError, naming what differs, unless these tensors have the names and shapes of
    the model's, fractions only where it has them, those that are one tensor in the model are equal,
    and numbers and texts that both the metadata and the model have are the same.
    """
    state = model.state_dict()
    attributes = json.loads(metadata.get(_ATTRIBUTES, "{}"))
    problems = compare_shapes(
        {name: tensor.shape for name, tensor in tensors.items()},
        {name: tensor.shape for name, tensor in state.items()},
    ) or _some(
        [
            f"{name} is {_kind(tensors[name])} in the file and {_kind(tensor)} in the model"
            for name, tensor in state.items()
            if not torch.can_cast(tensors[name].dtype, tensor.dtype)
        ]
        or [
            f"{name} and {first} are one tensor in the model and differ in the file"
            for name, first in _tied(state).items()
            if not torch.equal(tensors[name], tensors[first])
        ]
        or [
            f"{name} is {attributes[name]} in the file and {value} in the model"
            for name, value in attributes_of(model, in_training=False).items()
            if attributes.get(name, value) != value
        ]
    )
    if problems:
        raise ValueError(
            f"path must hold the weights of {type(model).__name__}, got {path} with those of "
            f"{metadata.get(_CLASS, 'another model')}: {problems}"
        )


def _kind(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def compare_shapes(file: Mapping[str, Sequence], model: Mapping[str, Sequence]) -> str:
    """How names and shapes of a file differ from a model's, in words; empty if they agree."""
    parts = []
    if missing := [name for name in model if name not in file]:
        parts.append(f"the file lacks {_some(missing)}")
    if extra := [name for name in file if name not in model]:
        parts.append(f"the model lacks {_some(extra)}")
    other = [
        f"{name} is {tuple(file[name])} in the file and {tuple(shape)} in the model"
        for name, shape in model.items()
        if name in file and tuple(file[name]) != tuple(shape)
    ]
    return "; ".join([*parts, *([_some(other)] if other else [])])


def _tied(state: dict[str, Tensor]) -> dict[str, str]:
    """Names of tensors that the state has under an earlier name: same memory, same shape."""
    aliases: dict[str, str] = {}
    seen: dict[tuple, str] = {}
    for name, tensor in state.items():
        place = tensor.device, tensor.data_ptr(), tensor.dtype
        view = *place, tuple(tensor.shape), tensor.stride()
        # Empty tensors may share an address.
        if tensor.numel() and view in seen:
            aliases[name] = seen[view]
        else:
            seen[view] = name
    return aliases


def _prepared(name: str, tensor: Tensor, half: bool) -> Tensor:
    tensor = tensor.detach().cpu()
    if tensor.is_floating_point():
        if not torch.isfinite(tensor).all():
            raise ValueError(f"model must have finite weights, got other values in {name}")
        if half:
            tensor = tensor.to(torch.float16)
            if not torch.isfinite(tensor).all():
                raise ValueError(
                    f"half must be False for weights beyond 65504, the range of float16, got {name}"
                )
    return tensor.contiguous().clone()


@contextmanager
def _opened(path: str | os.PathLike) -> Iterator[Any]:
    from safetensors import SafetensorError, safe_open

    if Path(path).is_dir():
        raise ValueError(f"path must be a safetensors file, got the directory {path}")
    try:
        with safe_open(os.fspath(path), framework="pt") as file:
            yield file
    except SafetensorError as error:
        raise ValueError(
            f"path must be a complete safetensors file, got {path} ({error})"
        ) from error


def _some(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
