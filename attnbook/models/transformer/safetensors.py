"""Reading safetensors files: a length, a header of JSON, and the raw bytes of the tensors.

Nothing in such a file is executed, which is why weights are published in it and not as pickles.
Here a file is not believed either: each number of its header is held against the others and against
the size of the file before a tensor is made.

``8 bytes: N, little-endian | N bytes: {"name": {"dtype", "shape", "data_offsets": [from, to]}, …} |
bytes``, the offsets counted from the end of the header; the tensors fill the rest without gaps.
"""

from __future__ import annotations

import json
import math
import os
import reprlib
from pathlib import Path
from typing import Any

import torch

from ...validate import require

__all__ = ["LONGEST_HEADER", "read_json", "read_safetensors"]

LONGEST_HEADER = 2**24
"""The longest header and the longest JSON file that is read: a tensor takes some 150 bytes of it,
so that 16 MB are enough for a hundred thousand, and what came is known before it is parsed."""

DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}

_SINGLE, _INDEX = "model.safetensors", "model.safetensors.index.json"


def read_safetensors(path: str | os.PathLike) -> dict[str, torch.Tensor]:
    """The tensors of a safetensors file, or of a folder of them, by name.

    They are maps of the file and read from the disk where they are used; a copy is made only of
    what stands at an address that its dtype does not allow. Writing to one does not change the
    file; a file that is cut short while it is mapped ends the process, as with every map.

    Args:
        path: a file; or a folder with ``model.safetensors``, or with
            ``model.safetensors.index.json`` and the files that it names.

    Raises:
        ValueError: naming the file and what came, for one that is truncated, for a header that is
            too long, is no JSON, or contradicts itself or the size of the file, for an unknown
            dtype, for an index that leaves its folder or names a tensor that is not there.
        FileNotFoundError: where there is no such file.

    Source: the format's description, https://github.com/huggingface/safetensors.
    """
    path = Path(path)
    if not path.is_dir():
        return _read_file(path)
    if not (path / _INDEX).is_file():
        if not (path / _SINGLE).is_file():
            raise FileNotFoundError(f"{path} must hold {_SINGLE} or {_INDEX}, it has neither")
        return _read_file(path / _SINGLE)
    files = read_json(path / _INDEX).get("weight_map")
    require(
        isinstance(files, dict) and all(isinstance(file, str) for file in files.values()),
        f"{_INDEX} must hold a weight_map from tensors to files, got {reprlib.repr(files)}",
    )
    assert isinstance(files, dict)
    found: dict[str, torch.Tensor] = {}
    for file in sorted(set(files.values())):
        require(
            file == Path(file).name and "\\" not in file and file.endswith(".safetensors"),
            f"{_INDEX} must name safetensors files of its folder, got {file!r}",
        )
        part = _read_file(path / file)
        for name in (name for name, where in files.items() if where == file):
            require(name in part, f"{file} must hold the tensor {name}, as {_INDEX} says")
            found[name] = part[name]
    return found


def read_json(path: str | os.PathLike) -> dict[str, Any]:
    """The object in a JSON file of at most :data:`LONGEST_HEADER` bytes, or ``ValueError``."""
    with Path(path).open("rb") as file:
        text = file.read(LONGEST_HEADER + 1)
    require(
        len(text) <= LONGEST_HEADER,
        f"{path} must have at most {LONGEST_HEADER:,} bytes, it has more",
    )
    return _object(str(path), text)


def _read_file(path: Path) -> dict[str, torch.Tensor]:
    if not path.is_file():
        raise FileNotFoundError(f"{path} must be a file, there is none")
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        start = file.read(8)
        require(len(start) == 8, f"{path} must begin with 8 bytes, it has {size}: truncated?")
        length = int.from_bytes(start, "little")
        require(
            length <= LONGEST_HEADER,
            f"{path} must have a header of at most {LONGEST_HEADER:,} bytes, got {length:,}: "
            f"no safetensors file?",
        )
        header = file.read(length)
    require(
        len(header) == length,
        f"{path} must hold its header of {length:,} bytes, it has {size:,} in all: truncated?",
    )
    entries = _object(f"the header of {path}", header)
    metadata = entries.pop("__metadata__", {})
    require(
        isinstance(metadata, dict) and all(isinstance(v, str) for v in metadata.values()),
        f"__metadata__ of {path} must map names to text, got {reprlib.repr(metadata)}",
    )
    body = size - 8 - length
    placed = sorted(
        (*_offsets(path, name, entry), name, entry["dtype"], entry["shape"])
        for name, entry in entries.items()
    )
    end = 0
    for first, last, name, *_ in placed:
        require(
            first == end,
            f"{name} in {path} must begin where the tensor before it ends, at {end:,}, got "
            f"{first:,}",
        )
        end = last
    require(
        end == body,
        f"{path} must hold {end:,} bytes of tensors, as its header says, it has {body:,}"
        + (": truncated?" if body < end else ""),
    )
    if not end:
        return {
            name: torch.empty(shape, dtype=DTYPES[d], device="cpu") for *_, name, d, shape in placed
        }
    # A private map of the file, which is opened for reading only.
    data = torch.from_file(os.fspath(path), shared=False, size=size, dtype=torch.uint8)
    return {
        name: _tensor(data[8 + length + first : 8 + length + last], DTYPES[dtype], shape)
        for first, last, name, dtype, shape in placed
    }


def _offsets(path: Path, name: str, entry: object) -> tuple[int, int]:
    """Where a tensor begins and ends, for an entry of the header that agrees with itself."""
    require(
        isinstance(entry, dict) and set(entry) == {"dtype", "shape", "data_offsets"},
        f"{name} in {path} must have dtype, shape and data_offsets, got {reprlib.repr(entry)}",
    )
    assert isinstance(entry, dict)
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    require(
        isinstance(dtype, str) and dtype in DTYPES,
        f"dtype of {name} in {path} must be one of {', '.join(DTYPES)}, got {reprlib.repr(dtype)}",
    )
    require(
        _whole(shape) and len(shape) <= 64 and math.prod(max(1, width) for width in shape) < 2**60,
        f"shape of {name} in {path} must be a list of whole numbers, got {reprlib.repr(shape)}",
    )
    bytes_needed = math.prod(shape) * DTYPES[dtype].itemsize
    require(
        _whole(offsets) and len(offsets) == 2 and offsets[1] - offsets[0] == bytes_needed,
        f"data_offsets of {name} in {path} must lie {bytes_needed:,} bytes apart, as dtype and "
        f"shape say, got {reprlib.repr(offsets)}",
    )
    return offsets[0], offsets[1]


def _tensor(data: torch.Tensor, dtype: torch.dtype, shape: list[int]) -> torch.Tensor:
    if dtype == torch.bool:
        return (data != 0).view(shape)  # a byte that is neither 0 nor 1 is no bool to PyTorch
    if data.storage_offset() % dtype.itemsize:
        data = data.clone()
    return data.view(dtype).view(shape)


def _whole(numbers: object) -> bool:
    return isinstance(numbers, list) and all(type(n) is int and 0 <= n < 2**60 for n in numbers)


def _object(what: str, text: bytes) -> dict[str, Any]:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        require(len(found) == len(pairs), "a name comes twice")
        return found

    try:
        found = json.loads(text.decode("utf-8"), object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{what} must be JSON with each name once, it is not: {error}") from None
    require(isinstance(found, dict), f"{what} must be an object, got {reprlib.repr(found)}")
    return found
