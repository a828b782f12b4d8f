"""Nested batches: tuples, named tuples, lists and mappings of tensors with the rows first."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from ...modules import map_tensors


def tensors_of(batch: Any) -> Iterator[Tensor]:
    """All tensors of a nest, in order."""
    if isinstance(batch, Tensor):
        yield batch
    elif isinstance(batch, Mapping | tuple | list):
        for item in batch.values() if isinstance(batch, Mapping) else batch:
            yield from tensors_of(item)


def count_rows(batch: Any) -> int:
    """The number of rows (first dimension) of the first tensor."""
    first = next(tensors_of(batch), None)
    if first is None:
        raise ValueError(f"batches must hold a tensor, got {type(batch).__name__}")
    return len(first)


def rows_of(batch: Any, process: int, processes: int) -> Any:
    """Rows process::processes of every tensor, so that no row is lost or used twice."""
    return map_tensors(lambda t: t[process::processes], batch) if processes > 1 else batch


def split_rows(batch: Any, rows: int) -> Iterator[Any]:
    """Micro-batches of ``rows`` rows, the last perhaps shorter; of an empty batch one empty."""
    for first in range(0, max(count_rows(batch), 1), rows):
        yield map_tensors(lambda tensor, first=first: tensor[first : first + rows], batch)


def to_device(batch: Any, device: torch.device) -> Any:
    """A nest on ``device``; to a GPU through pinned memory, which overlaps with computation."""
    if device.type != "cuda":
        return map_tensors(lambda tensor: tensor.to(device), batch)
    return map_tensors(
        lambda t: (t if t.is_cuda else t.contiguous().pin_memory()).to(device, non_blocking=True),
        batch,
    )
