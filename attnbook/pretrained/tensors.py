"""Tensors in safetensors files: one of a folder, or several with an index.

Nothing in such a file is executed, which is why weights are published in it and not as pickles. The
package ``safetensors`` holds each number of a file's header against the others and against the size
of the file before a tensor is made.
"""

import json
import math
import os
import reprlib
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from ..validate import require
from .config import read_json

__all__ = ["MAX_SHARD_SIZE", "read_tensors", "write_tensors"]

MAX_SHARD_SIZE = 5 * 10**9
"""Bytes of the largest file that is written, unless a single tensor is larger."""

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
# At most so many numbers were there no dimension of 0, whose product nobody checks.
_WIDEST = 2**60


def read_tensors(path: str | os.PathLike) -> dict[str, Tensor]:
    """The tensors of a safetensors file, or of a folder of them, by name.

    They are maps of the file and read from the disk where they are used. Writing to one does not
    change the file; a file that is cut short while it is mapped ends the process, as with every
    map.

    Args:
        path: a file; or a folder with ``model.safetensors``, or with
            ``model.safetensors.index.json`` and the files that it names.

    Raises:
        ValueError: naming the file and what is wrong, for one that is truncated, for a header that
            is too long, is no JSON, or contradicts itself or the size of the file, for an unknown
            dtype, for an index that leaves its folder or names a tensor that is not there.
        FileNotFoundError: where there is no such file.

    Source: the format's description, https://github.com/huggingface/safetensors.
    """
    path = Path(path)
    if not path.is_dir():
        return _read_file(path)
    if not (path / INDEX).is_file():
        if not (path / SINGLE).is_file():
            raise FileNotFoundError(f"{path} must hold {SINGLE} or {INDEX}, it has neither")
        return _read_file(path / SINGLE)
    files = read_json(path / INDEX).get("weight_map")
    require(
        isinstance(files, dict) and all(isinstance(file, str) for file in files.values()),
        f"{INDEX} must hold a weight_map from tensors to files, got {reprlib.repr(files)}",
    )
    assert isinstance(files, dict)
    found: dict[str, Tensor] = {}
    for file in sorted(set(files.values())):
        require(
            file == Path(file).name and "\\" not in file and file.endswith(".safetensors"),
            f"{INDEX} must name safetensors files of its folder, got {file!r}",
        )
        part = _read_file(path / file)
        for name in (name for name, where in files.items() if where == file):
            require(name in part, f"{file} must hold the tensor {name}, as {INDEX} says")
            found[name] = part[name]
    return found


def _read_file(path: Path) -> dict[str, Tensor]:
    if not path.is_file():
        raise FileNotFoundError(f"{path} must be a file, there is none")
    found = {}
    try:
        with safe_open(os.fspath(path), framework="pt") as file:
            for name in file.keys():
                shape = file.get_slice(name).get_shape()
                count = math.prod(max(1, width) for width in shape)
                require(
                    len(shape) <= 64 and count < _WIDEST,
                    f"{path} must hold tensors of a shape, got {reprlib.repr(shape)} of {name}",
                )
                found[name] = file.get_tensor(name)
    except (SafetensorError, RuntimeError, OverflowError, KeyError, AttributeError) as error:
        raise ValueError(
            f"{path} must be a complete safetensors file, it is not: {str(error)[:300]}"
        ) from None
    return found


def write_tensors(
    tensors: Mapping[str, Tensor], folder: Path, max_shard_size: int = MAX_SHARD_SIZE
) -> list[str]:
    """Write tensors into a folder: ``model.safetensors``, or several files and their index where
    one would be larger than ``max_shard_size`` bytes. Returns the names of the files.
    """
    shards: list[dict[str, Tensor]] = [{}]
    size = total = 0
    for name, tensor in tensors.items():
        if shards[-1] and size + tensor.nbytes > max_shard_size:
            shards.append({})
            size = 0
        shards[-1][name] = tensor
        size, total = size + tensor.nbytes, total + tensor.nbytes
    number = len(shards)
    several = [f"model-{k:05}-of-{number:05}.safetensors" for k in range(1, number + 1)]
    files = [SINGLE] if number == 1 else several
    for file, shard in zip(files, shards, strict=True):
        # copies of their own: the package refuses tensors that share memory
        stored = {name: t.detach().to("cpu", copy=True).contiguous() for name, t in shard.items()}
        save_file(stored, folder / file, metadata={"format": "pt"})
    if number == 1:
        return files
    where = {name: file for file, shard in zip(files, shards) for name in shard}
    index = {"metadata": {"total_size": total}, "weight_map": where}
    (folder / INDEX).write_text(json.dumps(index, indent=2, sort_keys=True), encoding="utf-8")
    return [*files, INDEX]
