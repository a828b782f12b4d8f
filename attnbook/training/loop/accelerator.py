"""What `fit` needs from the machine: Accelerate's state, random numbers, devices and processes."""

from __future__ import annotations

import atexit
import os
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

PRECISIONS = ("no", "bf16", "fp16")


@contextmanager
def own_accelerate_state() -> Iterator[None]:
    """Clear Accelerate's process-wide singletons inside the block and put them back after it.

    Accelerate keeps the precision and the device in class attributes, so a second `Accelerator` in
    one notebook would silently keep, or refuse to change, what the first one chose. Inside the
    block a fresh one can be made; an `Accelerator` of the caller's works on afterwards."""
    from accelerate.state import AcceleratorState, GradientState, PartialState

    shared = [
        AcceleratorState._shared_state,
        GradientState._shared_state,
        PartialState._shared_state,
    ]
    kept = [dict(state) for state in shared]
    for state in shared:
        state.clear()
    try:
        yield
    finally:
        for state, before in zip(shared, kept, strict=True):
            state.clear()
            state.update(before)


def make_accelerator(precision: str, device: torch.device | str | None):
    """An `Accelerator` of that precision on that device; None: the GPU if there is one, else the
    CPU.

    Raises ValueError for an unknown precision, for fp16 on the CPU, as `check_device` for a device
    and for launches that keep the weights in pieces (FSDP, DeepSpeed)."""
    if precision not in PRECISIONS:
        raise ValueError(f"precision: got {precision!r}, expected one of {', '.join(PRECISIONS)}")
    from accelerate import Accelerator

    wanted = None if device is None else check_device(device)
    world = int(os.environ.get("WORLD_SIZE", 1))
    cpu = wanted.type == "cpu" if wanted is not None else not torch.accelerator.is_available()
    if wanted is not None and wanted.index is not None and world > 1:
        raise ValueError(
            f"device: got {str(wanted)!r} in {world} processes, expected None or a type without "
            f"a number"
        )
    cpu = cpu or os.environ.get("ACCELERATE_USE_CPU", "").lower() in ("1", "true", "yes")
    if precision == "fp16" and cpu:
        raise ValueError(
            "precision: got 'fp16' on the CPU, where its gradients cannot be scaled; expected "
            "'no' or 'bf16'"
        )
    opened = torch.distributed.is_available() and torch.distributed.is_initialized()
    with _environment(
        "ACCELERATE_TORCH_DEVICE", str(wanted) if wanted is not None and world == 1 else None
    ):
        accelerator = Accelerator(mixed_precision=precision, cpu=cpu)
    if accelerator.num_processes > 1 and not opened:
        # A later call uses the same group, so it is closed when Python ends, not when the call
        # does.
        atexit.register(_close_process_group)
    kind = str(accelerator.distributed_type).rsplit(".", 1)[-1]
    if kind != "NO" and not kind.startswith("MULTI_"):
        raise ValueError(
            f"launch: got the distributed type {kind}, expected plain data parallel processes"
        )
    if accelerator.num_processes != world:
        raise ValueError(
            f"launch: WORLD_SIZE is {world} but Accelerate started {accelerator.num_processes} "
            f"process(es)"
        )
    return accelerator


def check_device(device: torch.device | str) -> torch.device:
    """The device of that name.

    Raises ValueError for a name that PyTorch does not know, and for a CUDA GPU that is not there.
    """
    try:
        wanted = torch.device(device)
    except RuntimeError as error:
        raise ValueError(
            f"device: got {device!r}, expected None, 'cpu', 'cuda', 'cuda:1' …"
        ) from error
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if wanted.type == "cuda" and (wanted.index or 0) >= count:
        raise ValueError(f"device: got {str(wanted)!r}, but PyTorch sees {count or 'no'} CUDA GPU")
    return wanted


def _close_process_group() -> None:
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


@contextmanager
def _environment(name: str, value: str | None) -> Iterator[None]:
    """Set one environment variable inside the block; None leaves it as it is."""
    if value is None:
        yield
        return
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = before


# Random numbers


def seed_everything(seed: int) -> None:
    """Seed `random`, `numpy.random` and PyTorch on the CPU and on every GPU."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def get_random_state() -> dict[str, Any]:
    """The state of the global generators of Python, NumPy and PyTorch, as plain values and
    tensors.
    """
    name, keys, position, has_gauss, gauss = np.random.get_state()
    version, internal, gauss_next = random.getstate()
    state = {
        "python": [version, list(internal), gauss_next],
        "numpy": [name, torch.from_numpy(keys.astype(np.int64)), position, has_gauss, gauss],
        "torch": torch.get_rng_state(),
    }
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def set_random_state(state: dict[str, Any]) -> None:
    """Put back what `get_random_state` returned. A GPU that is not there now is passed over."""
    version, internal, gauss_next = state["python"]
    random.setstate((version, tuple(internal), gauss_next))
    name, keys, position, has_gauss, gauss = state["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), position, has_gauss, gauss))
    torch.set_rng_state(state["torch"])
    if "cuda" in state and torch.cuda.is_available():
        for index, value in enumerate(state["cuda"][: torch.cuda.device_count()]):
            torch.cuda.set_rng_state(value, index)


@contextmanager
def own_random_state(seed: int) -> Iterator[None]:
    """Seed every global generator inside the block and put the caller's states back after it."""
    before = get_random_state()
    try:
        seed_everything(seed)
        yield
    finally:
        set_random_state(before)


@contextmanager
def training_modes_kept(model: torch.nn.Module, training: bool) -> Iterator[None]:
    """Put `model` in training or evaluation mode inside the block; each module gets its own mode
    back after it.
    """
    before = [(module, module.training) for module in model.modules()]
    model.train(training)
    try:
        yield
    finally:
        for module, mode in before:
            module.training = mode


# Batches


def rows_of(batch: Any, process: int, processes: int) -> Any:
    """Rows process::processes of every tensor in a nested batch, so that no row is lost or used
    twice.
    """
    return _map(lambda tensor: tensor[process::processes], batch) if processes > 1 else batch


def parts_of(batch: Any, rows: int) -> Iterator[Any]:
    """A nested batch in parts of `rows` rows, the last one perhaps shorter; an empty batch is
    one empty part.
    """
    for first in range(0, max(count_rows(batch), 1), rows):
        yield _map(lambda tensor, at=first: tensor[at : at + rows], batch)


def count_rows(batch: Any) -> int:
    """The number of rows (first dimension) of the first tensor in a nested batch."""
    return next(len(tensor) for tensor in tensors_of(batch))


def to_device(batch: Any, device: torch.device) -> Any:
    """A nested batch on `device`; to a GPU through pinned memory, so that the copy overlaps with
    the computation.
    """
    if device.type != "cuda":
        return _map(lambda tensor: tensor.to(device), batch)
    return _map(
        lambda t: (t if t.is_cuda else t.contiguous().pin_memory()).to(device, non_blocking=True),
        batch,
    )


def tensors_of(batch: Any) -> Iterator[torch.Tensor]:
    """All tensors of a nested structure of tuples, lists, dicts and tensors, in order."""
    if isinstance(batch, torch.Tensor):
        yield batch
    elif isinstance(batch, dict):
        for key in batch:
            yield from tensors_of(batch[key])
    elif isinstance(batch, tuple | list):
        for item in batch:
            yield from tensors_of(item)


def _map(function: Callable[[torch.Tensor], torch.Tensor], batch: Any) -> Any:
    if isinstance(batch, torch.Tensor):
        return function(batch)
    if isinstance(batch, dict):
        return {key: _map(function, item) for key, item in batch.items()}
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(_map(function, item) for item in batch))
    if isinstance(batch, tuple | list):
        return type(batch)(_map(function, item) for item in batch)
    return batch


map_tensors = _map


# Processes


def on_main(accelerator, work: Callable[[], Any]) -> Any:
    """Run `work` on the main process; its result, or its exception, is had by every process.

    Without this an error on the main process, such as a full disk, would leave the others waiting
    for ever."""
    if accelerator.num_processes == 1:
        return work()
    from accelerate.utils import broadcast_object_list

    result: Any = None
    error: BaseException | None = None
    if accelerator.is_main_process:
        try:
            result = work()
        except Exception as caught:
            error = caught
    result, error = broadcast_object_list([result, error])
    if error is not None:
        raise error
    return result


def sum_over_processes(accelerator, values: torch.Tensor) -> torch.Tensor:
    """The element-wise sum of `values` over all processes."""
    return accelerator.reduce(values, reduction="sum") if accelerator.num_processes > 1 else values


def copy_from_main(accelerator, tensors: list[torch.Tensor]) -> None:
    """Overwrite `tensors` in place with those of the main process."""
    if accelerator.num_processes > 1:
        for tensor in tensors:
            torch.distributed.broadcast(tensor.data, src=0)


def sum_gradients(accelerator, parameters: list[torch.nn.Parameter]) -> None:
    """Replace each gradient by its sum over all processes, in one message for each dtype.

    A parameter without a gradient here counts as zero, since another process may have one (this one
    may have had no rows at all); a parameter without a gradient anywhere keeps None, as in a single
    process."""
    if accelerator.num_processes == 1:
        return
    for dtype in {parameter.dtype: None for parameter in parameters}:
        group = [parameter for parameter in parameters if parameter.dtype == dtype]
        present = [float(parameter.grad is not None) for parameter in group]
        pieces = [(p.grad if p.grad is not None else torch.zeros_like(p)).flatten() for p in group]
        flat = torch.cat([*pieces, torch.tensor(present, dtype=dtype, device=group[0].device)])
        flat = accelerator.reduce(flat, reduction="sum")
        sizes = [parameter.numel() for parameter in group]
        *sums, anywhere = flat.split([*sizes, len(group)])
        for parameter, gradient, owners in zip(group, sums, anywhere.tolist(), strict=True):
            parameter.grad = gradient.view_as(parameter) if owners else None
