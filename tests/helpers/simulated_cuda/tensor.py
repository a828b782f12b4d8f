"""Tensors of the simulated CUDA device, and the rules by which CUDA takes an operation or not."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import torch
from torch.utils._mode_utils import no_dispatch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

__all__ = ["CPU", "CUDA", "UNDERNEATH", "CudaOperations", "CudaTensor", "SimulatedCuda"]

CUDA, CPU = torch.device("cuda", 0), torch.device("cpu")
# What PyTorch's C++ takes a CudaTensor for: every build has it, and its kernels are never called.
UNDERNEATH = torch.device("meta")
TWO_DEVICES = (
    "Expected all tensors to be on the same device, but found at least two devices, "
    "cuda:0 and cpu! (when checking {})"
)
NO_NUMPY = (
    "can't convert cuda:0 device type tensor to numpy. "
    "Use Tensor.cpu() to copy the tensor to host memory first."
)
ELEMENTWISE = ("masked_fill", "fill", "__", "result_type")  # beside those that PyTorch tags
INDEXING = {"index", "index_put", "index_put_", "_index_put_impl_"}
SHAPED_BY_VALUES = {"nonzero", "masked_select", "_unique2", "unique_dim", "unique_consecutive"}
READ_BY_THE_HOST = {"_local_scalar_dense", "equal", "repeat_interleave", "bincount"}
READ_BY_THE_HOST |= SHAPED_BY_VALUES
OURS = str(Path(__file__).parent)


class SimulatedCuda:
    """What happened on the device inside the block.

    synchronizations: how often the host waited, by "file:line" of the first caller outside PyTorch.
    """

    def __init__(self) -> None:
        self.synchronizations: Counter[str] = Counter()

    def synchronize(self) -> None:
        """Count that the host waits for the device, at the line of the caller's code."""
        frame, ours = sys._getframe(1), (str(Path(torch.__file__).parent), OURS)
        while frame.f_back is not None and frame.f_code.co_filename.startswith(ours):
            frame = frame.f_back
        self.synchronizations[f"{frame.f_code.co_filename}:{frame.f_lineno}"] += 1


current = SimulatedCuda()  # that of the block that runs


class CudaTensor(torch.Tensor):
    """A tensor that says that it is on cuda:0. Its numbers are in ``inner``, on the CPU."""

    inner: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> CudaTensor:
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            inner.size(),
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=UNDERNEATH,
        )
        made.inner = inner
        return made

    device = property(lambda self: CUDA)
    is_cuda = property(lambda self: True)
    is_cpu = property(lambda self: False)
    is_meta = property(lambda self: False)

    @property
    def data(self):
        return self.detach()

    @data.setter
    def data(self, other):
        if not isinstance(other, CudaTensor) or other.shape != self.shape:
            raise NotImplementedError(
                "other data of another shape or device on the simulated device"
            )
        self.inner = other.inner

    def numpy(self, *args, **options):
        raise TypeError(NO_NUMPY)

    __array__ = numpy

    def tolist(self):
        return self.detach().cpu().tolist()

    def data_ptr(self):
        return self.inner.data_ptr()

    def __repr__(self, **options):
        return f"{self.inner!r} on cuda:0"

    def __format__(self, how):
        return format(self.item(), how) if self.dim() == 0 else super().__format__(how)

    def __deepcopy__(self, memo):
        if id(self) not in memo:
            copied = self.detach().clone()
            if isinstance(self, torch.nn.Parameter):
                copied = torch.nn.Parameter(copied, self.requires_grad)
            memo[id(self)] = copied.requires_grad_(self.requires_grad)
        return memo[id(self)]

    def __reduce_ex__(self, protocol):
        return self.inner.detach().__reduce_ex__(protocol)

    # These two let Module.to keep its parameters the same objects, as it does for a real device.
    def __tensor_flatten__(self):
        return ["inner"], None

    @staticmethod
    def __tensor_unflatten__(parts, context, size, stride):
        return CudaTensor(parts["inner"])

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        return _compute(function, args, kwargs or {})


def _compute(function, args, kwargs):
    """One operation of PyTorch: checked, computed on the CPU, its results where they belong."""
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    on_cuda = [tensor for tensor in tensors if isinstance(tensor, CudaTensor)]
    wanted = kwargs.get("device")
    if not on_cuda and wanted != UNDERNEATH:
        return function(*args, **kwargs)
    name = function._schema.name.removeprefix("aten::")
    if name == "set_":
        raise NotImplementedError(f"{function} on the simulated device")
    if wanted is None:
        cuda = _check_devices(function, name, args, tensors, on_cuda)
    else:
        cuda = wanted == UNDERNEATH
    _count_synchronizations(name, args, on_cuda, cuda)
    if wanted is not None:
        kwargs = {**kwargs, "device": CPU}
    wrapped = {id(tensor.inner): tensor for tensor in on_cuda}
    out = function(*tree_map(_inner, args), **tree_map(_inner, kwargs))
    if torch.Tag.inplace_view in function.tags:  # such as transpose_: PyTorch sees another shape
        with no_dispatch():
            function(*args, **kwargs)

    def wrap(value):
        if id(value) in wrapped:  # in place, or into `out`: the tensor that came
            return wrapped[id(value)]
        return CudaTensor(value) if cuda and isinstance(value, torch.Tensor) else value

    if name == "_pack_padded_sequence":  # the sizes of the steps stay on the CPU
        return wrap(out[0]), out[1]
    return tree_map(wrap, out)


def _inner(value):
    return value.inner if isinstance(value, CudaTensor) else value


def _check_devices(function, name, args, tensors, on_cuda) -> bool:
    """Whether the result is on CUDA. Raises RuntimeError where CUDA takes no two devices."""
    if name == "copy_":
        return isinstance(args[0], CudaTensor)
    if name == "_pack_padded_sequence" and isinstance(args[1], CudaTensor):
        raise RuntimeError("'lengths' argument should be a 1D CPU int64 tensor, but got 1D cuda:0")
    if len(on_cuda) == len(tensors) or name.startswith("_pack_padded_sequence"):
        return True
    if name in INDEXING:
        if not isinstance(args[0], CudaTensor):
            raise RuntimeError(
                "indices should be either on cpu or on the device of the indexed tensor"
            )
        if name == "index" or isinstance(args[2], CudaTensor) or args[2].dim() == 0:
            return True
    elif torch.Tag.pointwise in function.tags or name.startswith(ELEMENTWISE):
        written = isinstance(args[0], torch.Tensor) and function._schema.is_mutable
        on_cpu = [tensor for tensor in tensors if not isinstance(tensor, CudaTensor)]
        if all(tensor.dim() == 0 and not (written and tensor is args[0]) for tensor in on_cpu):
            return True
    raise RuntimeError(TWO_DEVICES.format(function))


def _count_synchronizations(name, args, on_cuda, cuda) -> None:
    copied = name in ("_to_copy", "copy_") and on_cuda and not cuda
    # The True ones of a mask are looked for, unless one number is written to all of them.
    masked = (
        name in INDEXING
        and any(isinstance(index, CudaTensor) and index.dtype == torch.bool for index in args[1])
        and (name == "index" or args[2].numel() > 1)
    )
    if copied or masked or (name in READ_BY_THE_HOST and on_cuda):
        current.synchronize()


class CudaOperations(TorchDispatchMode):
    """Operations without a CudaTensor, too: those that make one."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return _compute(function, args, kwargs or {})
