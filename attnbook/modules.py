"""What is asked of any model and batch: where a model is and in which mode it runs, the tensors
inside a state, the targets that count.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

__all__ = [
    "counted_targets",
    "device_of",
    "fields_of",
    "full_precision",
    "map_tensors",
    "temporary_mode",
]


def device_of(model: torch.nn.Module) -> torch.device:
    """The device of the first parameter of ``model``; the CPU for a model without parameters."""
    for parameter in model.parameters():
        return parameter.device
    return torch.device("cpu")


@contextmanager
def temporary_mode(model: torch.nn.Module, training: bool) -> Iterator[None]:
    """Put ``model`` in training or evaluation mode inside the block and restore the mode of each
    module after it.
    """
    before = [(module, module.training) for module in model.modules()]
    model.train(training)
    try:
        yield
    finally:
        for module, mode in before:
            module.training = mode


def full_precision(logits: Tensor) -> Tensor:
    """Half-precision logits as float32; float32 and float64 as they are. Any shape."""
    return logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits


def map_tensors(function: Callable[[Tensor], Tensor], nest: Any) -> Any:
    """The same nest of tuples, NamedTuples, lists and mappings with ``function`` applied to every
    tensor; other values stay, and any mapping becomes a dict. What has ``map_rows(function)`` says
    itself which of its tensors have the rows first.
    """
    if isinstance(nest, Tensor):
        return function(nest)
    if hasattr(nest, "map_rows"):
        return nest.map_rows(function)
    if isinstance(nest, Mapping):
        return {key: map_tensors(function, item) for key, item in nest.items()}
    if isinstance(nest, tuple) and hasattr(nest, "_fields"):
        return type(nest)(*(map_tensors(function, item) for item in nest))
    if isinstance(nest, tuple | list):
        return type(nest)(map_tensors(function, item) for item in nest)
    return nest


def fields_of(batch: Any, *names: str) -> Any:
    """A batch with these attributes: the batch itself, or its items where it is a mapping, as those
    of a ``DataLoader`` often are; else a ``ValueError``.
    """
    kind = type(batch).__name__
    if isinstance(batch, Mapping):
        batch = SimpleNamespace(**batch)
    missing = [name for name in names if not hasattr(batch, name)]
    if missing:
        raise ValueError(
            f"batch must have {', '.join(names)}, as a NamedTuple or a mapping, got "
            f"{kind} without {', '.join(missing)}"
        )
    return batch


def counted_targets(batch: Any, ignore_index: int = -100) -> Tensor:
    """Which of ``batch.target_out (B, m)`` a loss counts: those within ``batch.target_lengths
    (B,)``, where the batch says how long its targets are, and of them those that are not
    ``ignore_index``. Boolean, (B, m), where the targets are.
    """
    target = batch.target_out
    counted = target != ignore_index
    lengths = getattr(batch, "target_lengths", None)
    if lengths is None:
        return counted
    position = torch.arange(target.shape[1], device=target.device)
    return counted & (position < lengths.to(target.device)[:, None])
