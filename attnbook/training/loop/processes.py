"""The processes of a distributed run and their devices."""

import atexit
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from ...extras import extra
from ...validate import require


@dataclass(frozen=True)
class Processes:
    """The device of this process, its index, and the number of processes."""

    device: torch.device
    index: int = 0
    count: int = 1

    def on_main(self, work: Callable[[], Any]) -> Any:
        """Run ``work`` on the main process; every process gets its result, or its exception.

        Without this an error on the main process, such as a full disk, would leave the others
        waiting for ever."""
        if self.count == 1:
            return work()
        outcome: list[Any] = [None, None]
        if self.index == 0:
            try:
                outcome[0] = work()
            except Exception as error:
                outcome[1] = error
        dist.broadcast_object_list(outcome, src=0)
        if outcome[1] is not None:
            raise outcome[1]
        return outcome[0]

    def sum(self, values: Tensor) -> Tensor:
        """The element-wise sum of ``values`` over all processes, in place."""
        if self.count > 1:
            dist.all_reduce(values)
        return values

    def gather(self, value: Any) -> list[Any]:
        """The values of all processes, in their order."""
        values = [value] * self.count
        if self.count > 1:
            dist.all_gather_object(values, value)
        return values

    def copy_from_main(self, tensors: list[Tensor]) -> None:
        """Overwrite ``tensors`` in place with those of the main process."""
        if self.count > 1:
            for tensor in tensors:
                dist.broadcast(tensor.data, src=0)

    def sum_gradients(self, parameters: list[torch.nn.Parameter]) -> None:
        """Replace each gradient by its sum over all processes, in one message for each dtype.

        A parameter without a gradient here counts as zero, since another process may have one (this
        one may have had no rows at all); a parameter without a gradient in any process keeps None,
        as in a single process."""
        if self.count == 1:
            return
        for dtype in {parameter.dtype: None for parameter in parameters}:
            group = [parameter for parameter in parameters if parameter.dtype == dtype]
            present = [float(parameter.grad is not None) for parameter in group]
            gradients = [p.grad if p.grad is not None else torch.zeros_like(p) for p in group]
            flags = torch.tensor(present, dtype=dtype, device=group[0].device)
            flat = torch.cat([*(gradient.flatten() for gradient in gradients), flags])
            *sums, owners = self.sum(flat).split([*(p.numel() for p in group), len(group)])
            for parameter, gradient, count in zip(group, sums, owners.tolist(), strict=True):
                parameter.grad = gradient.view_as(parameter) if count else None


def join_processes(device: torch.device | str | None) -> Processes:
    """This process on ``device`` (None: the GPU if there is one, else the CPU), joined with the
    others of `accelerate launch` or `torchrun`, if there are any.

    Accelerate chooses the device and the backend and opens the process group. The rest of `fit` is
    PyTorch's own, because Accelerate does not give its promises: an `Accelerator` holds one
    precision and one device for the life of the Python process; `accumulate` averages the means of
    micro-batches, which is not the mean over the terms of the batch where they have unequal counts;
    and `load_state` passes over random states that it cannot read, checks no file for damage and
    reads registered objects with ``weights_only=False``.

    Raises:
        ValueError: for a device that is absent, a numbered one for several processes, and launches
            that shard the weights (FSDP, DeepSpeed) or leave the processes unconnected.
    """
    requested = None if device is None else check_device(device)
    world = int(os.environ.get("WORLD_SIZE", 1))
    cpu = _flag("ACCELERATE_USE_CPU") or not torch.accelerator.is_available()
    if world == 1:
        accelerator = None if cpu else torch.accelerator.current_accelerator()
        return Processes(requested or accelerator or torch.device("cpu"))
    with extra("book", "training on several processes"):
        from accelerate import PartialState

    require(
        requested is None or requested.index is None,
        f"device must be None or a type without a number for {world} processes, got {device!r}",
    )
    opened = dist.is_initialized()
    state = PartialState(cpu=cpu or (requested is not None and requested.type == "cpu"))
    if state.num_processes > 1 and not opened:
        # Later calls use the same group.
        atexit.register(lambda: dist.is_initialized() and dist.destroy_process_group())
    kind = "FSDP" if _flag("ACCELERATE_USE_FSDP") else state.distributed_type.value
    plain = kind == "NO" or kind.startswith("MULTI_")
    require(plain, f"launch must be plain data parallel, got the distributed type {kind}")
    require(
        state.num_processes == world,
        f"launch must start WORLD_SIZE = {world} connected processes, got {state.num_processes}",
    )
    return Processes(torch.device(state.device or "cpu"), state.process_index, world)


def check_device(device: torch.device | str) -> torch.device:
    """The device of that name."""
    try:
        known = torch.device(device)
    except RuntimeError as error:
        raise ValueError(
            f"device must be None, 'cpu', 'cuda', 'cuda:1' …, got {device!r}"
        ) from error
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    require(
        known.type != "cuda" or (known.index or 0) < count,
        f"device must be one of the {count} CUDA GPUs that PyTorch sees, got {str(known)!r}",
    )
    return known


def _flag(name: str) -> bool:
    return os.environ.get(name, "").lower() in ("1", "true", "yes")
