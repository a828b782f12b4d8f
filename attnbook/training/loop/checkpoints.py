"""The weights of a model in one safetensors file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

_ALIASES = "attnbook.aliases"
_CLASS = "attnbook.class"
_RESERVED = "attnbook."


def save_model(
    model: torch.nn.Module, path: str | os.PathLike, *, half: bool = False, **metadata: str
) -> Path:
    """Write the weights of `model` and `metadata` (text by name) to a safetensors file at `path`.

    half=True stores floating-point tensors as float16, half the size, with three decimal digits
    left; `load_model_weights` gives them back in the dtype of the model. Tensors that share memory
    are stored once. The file appears under its name only when it is whole. Returns the path.

    Raises ValueError for metadata that is not text and for weights that are not finite or that
    float16 cannot hold; OSError when there is no space, with nothing left behind."""
    from safetensors.torch import save

    for name, text in metadata.items():
        if not isinstance(text, str):
            raise ValueError(
                f"metadata {name}: got {text!r} ({type(text).__name__}), expected a string"
            )
    own = model.state_dict()
    aliases = _tied(own)
    stored = {
        name: _prepared(name, tensor, half) for name, tensor in own.items() if name not in aliases
    }
    header = {**metadata, _CLASS: type(model).__name__}
    if aliases:
        header[_ALIASES] = json.dumps(aliases, sort_keys=True)
    data = save(stored, metadata=header)
    return write_whole(path, lambda file: file.write(data))


def load_model_weights(model: torch.nn.Module, path: str | os.PathLike) -> dict[str, str]:
    """Copy the weights of a file written by `save_model` into `model`; returns the file's metadata.

    The dtype and the device of the model stay. Either every weight is copied or none.
    Raises ValueError, naming what differs, when the file is of another model, also of one with two
    tensors where this one has one (tied weights), and when it is damaged."""
    tensors, metadata = read_weights(path)
    own = model.state_dict()
    check_fit(path, tensors, model, metadata.get(_CLASS, "another model"))
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(tensors[name])
    return {name: text for name, text in metadata.items() if not name.startswith(_RESERVED)}


def read_metadata(path: str | os.PathLike) -> dict[str, str]:
    """The metadata given to `save_model`, without reading the weights.

    ValueError when the file is damaged.
    """
    with _opened(path) as file:
        metadata = file.metadata() or {}
    return {name: text for name, text in metadata.items() if not name.startswith(_RESERVED)}


def read_weights(path: str | os.PathLike) -> tuple[dict[str, torch.Tensor], dict[str, str]]:
    """Every tensor of a file written by `save_model` under its name, tied ones under each of
    theirs, and the metadata.
    """
    with _opened(path) as file:
        tensors, metadata = (
            {name: file.get_tensor(name) for name in file.keys()},
            file.metadata() or {},
        )
    for name, source in json.loads(metadata.get(_ALIASES, "{}")).items():
        tensors[name] = tensors[source]
    return tensors, metadata


def check_fit(
    path: str | os.PathLike, tensors: dict[str, torch.Tensor], model: torch.nn.Module, was: str
) -> None:
    """Raise ValueError, naming what differs, unless these tensors have the names and shapes of the
    model's, and those that are one tensor in the model are equal."""
    own = model.state_dict()
    problems = compare_shapes(
        {name: tuple(tensor.shape) for name, tensor in tensors.items()},
        {name: tuple(tensor.shape) for name, tensor in own.items()},
    )
    if not problems and (
        apart := [
            pair
            for pair in _tied(own).items()
            if not torch.equal(*(tensors[name] for name in pair))
        ]
    ):
        problems = _some(
            [
                f"{name} and {first} are one tensor in the model and differ in the file"
                for name, first in apart
            ]
        )
    if problems:
        raise ValueError(
            f"path: {path} holds the weights of {was}, which do not fit {type(model).__name__}: "
            f"{problems}"
        )


def compare_shapes(there: dict[str, tuple], here: dict[str, tuple]) -> str:
    """In words, how the names and shapes of a file differ from those of a model; empty when they
    agree.
    """
    parts = []
    if missing := [name for name in here if name not in there]:
        parts.append(f"the file lacks {_some(missing)}")
    if extra := [name for name in there if name not in here]:
        parts.append(f"the model lacks {_some(extra)}")
    if other := [
        name for name in here if name in there and tuple(there[name]) != tuple(here[name])
    ]:
        parts.append(
            _some(
                [
                    f"{n} is {tuple(there[n])} in the file and {tuple(here[n])} in the model"
                    for n in other
                ]
            )
        )
    return "; ".join(parts)


def write_whole(path: str | os.PathLike, write: Callable) -> Path:
    """Write a file through `write(file)` under a temporary name, then rename it: it is whole or
    not there.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with open(temporary, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise OSError(
                error.errno, f"{path.name} was not written: {error.strerror}", str(path)
            ) from error
        raise
    return path


def _tied(state: dict[str, torch.Tensor]) -> dict[str, str]:
    """Names of tensors that stand in the state under an earlier name too: the same memory seen
    in the same shape.
    """
    aliases: dict[str, str] = {}
    seen: dict[tuple, str] = {}
    for name, tensor in state.items():
        view = (
            tensor.device,
            tensor.data_ptr(),
            tensor.dtype,
            tuple(tensor.shape),
            tensor.stride(),
        )
        # An empty tensor has no address of its own.
        if tensor.numel() and view in seen:
            aliases[name] = seen[view]
        else:
            seen[view] = name
    return aliases


def _prepared(name: str, tensor: torch.Tensor, half: bool) -> torch.Tensor:
    tensor = tensor.detach().cpu()
    if tensor.is_floating_point():
        if not torch.isfinite(tensor).all():
            raise ValueError(f"model: {name} holds values that are not finite")
        if half:
            tensor = tensor.to(torch.float16)
            if not torch.isfinite(tensor).all():
                raise ValueError(f"half: {name} holds values beyond the range of float16 (65504)")
    return tensor.contiguous().clone()


@contextmanager
def _opened(path: str | os.PathLike) -> Iterator[Any]:
    from safetensors import SafetensorError, safe_open

    if Path(path).is_dir():
        raise ValueError(f"path: {path} is a directory, expected a safetensors file")
    try:
        with safe_open(os.fspath(path), framework="pt") as file:
            yield file
    except SafetensorError as error:
        raise ValueError(f"path: {path} is not a whole safetensors file ({error})") from error


def _some(names: list[str], most: int = 3) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
